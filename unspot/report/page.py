"""A report as one HTML file that needs nothing else: no network, no server, no script.

Jinja escapes text. A content security policy lets the browser run no script and load nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from unspot._version import __version__
from unspot.checks import require
from unspot.io.files import write_atomically
from unspot.report.contents import Contents, Measure, read_contents
from unspot.report.figures import page_figures, theme_css, to_svg
from unspot.report.views import Views
from unspot.report.wording import GROUPS, explained, presented
from unspot.tables import interval_text, number_text, value_text

TONES = {"good": "✓", "bad": "✗", "unsure": "◐", "plain": ""}
ARROWS = {"lower": "↓", "higher": "↑", "none": ""}
#: The names of the pictures for those who cannot see them.
_LABELS = {
    "attackers": "Score of attackers before and after erasure",
    "tradeoff": "Erasure against utility",
    "embedding": "Densities along the strongest direction, and maps of rows",
}


def to_html(
    results: Any,
    path: str | os.PathLike[str],
    *,
    views: Views | None = None,
    title: str | None = None,
    chosen: str | None = None,
    chosen_rank: int | None = None,
    tradeoff: Mapping[str, Any] | None = None,
) -> Path:
    """Write a report: one HTML file that needs no network.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        A name may have both an evaluation and a certificate, as a pair. A certificate under the
        name "before" is that of the original rows. Several erasers are shown side by side; they,
        or the ranks of a path, are also drawn on the plane of erasure and utility.
    path : path
        The file. It appears under its name when it is complete.
    views : Views, optional
        Pictures of the embeddings, from ``make_views``.
    title : str, optional
    chosen : str, optional
        The name of the eraser that the headline is about; by default the last one.
    chosen_rank : int, optional
        The rank of a path that is marked.
    tradeoff : mapping, optional
        Fields of a ``Tradeoff`` with erasers that were tried, to be drawn on that plane.

    Examples
    --------
    >>> import tempfile
    >>> from unspot.evaluation import Evaluation, Row, Value
    >>> row = Row("linear", "Linear probe", "share", Value(0.99, 0.01), Value(0.34, 0.01), "lower")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = to_html(Evaluation("words", (row,)), f"{folder}/report.html")
    ...     "99.0 ± 1.0" in page.read_text(encoding="utf-8")
    True
    """
    shown: Any = {"chosen": chosen, "chosen_rank": chosen_rank, "tradeoff": tradeoff}
    contents = read_contents(results, title=title, **shown)
    return write_page(contents, path, views)


def write_page(
    contents: Contents, path: str | os.PathLike[str], views: Views | None = None
) -> Path:
    """Write the page of some contents, with the time in its footer."""
    page = render(contents, views, made=datetime.now())
    write_atomically(Path(path), page.encode("utf-8"))
    return Path(path)


def render(contents: Contents, views: Views | None = None, *, made: datetime | None = None) -> str:
    """Return the page; the same contents give the same page, apart from the time ``made``."""
    template = _template()  # says what to install before anything is drawn
    pictures = {
        name: _safe(to_svg(figure, _LABELS[name]))
        for name, figure in page_figures(contents, views).items()
    }
    day = (("Date", made.strftime("%Y-%m-%d")),) if made else ()
    return template.render(
        contents=contents,
        views=views,
        pictures=pictures,
        version=__version__,
        made=made.strftime("%Y-%m-%d %H:%M") if made else "",
        glance=(*contents.glance, *day),
        light=_safe(theme_css(dark=False)),
        dark=_safe(theme_css(dark=True)),
        css=_safe(files("unspot.report").joinpath("templates", "report.css").read_text("utf-8")),
        sections=sections(contents, views),
        highlights=highlights(contents),
        groups=measure_groups(contents),
        arrows=ARROWS,
        spreads=any(n and n.spread for m in contents.measures for n in (m.before, *m.after)),
        attack_table=attack_table(contents),
        tradeoff_table=tradeoff_table(contents),
        gap_tables=gap_tables(contents),
        tones=TONES,
        explained=explained(contents),
        share=lambda value: value_text(value, "share"),
    )


def sections(contents: Contents, views: Views | None) -> list[tuple[str, str]]:
    """List id and name of each section with something in it."""
    numbers = "Before and after" if contents.measured_before else "Numbers"
    everything = [
        ("tradeoff", "Erasure against utility", contents.tradeoff),
        ("numbers", numbers, contents.measures),
        ("attackers", "Attackers", contents.attacks),
        ("embedding", "Pictures of the rows", views),
        ("fairness", "Fairness", contents.gaps),
        ("scope", "Scope", contents.scope),
        ("settings", "Settings", contents.facts or contents.notes),
        ("reading", "How to read this", True),
    ]
    return [(id_, name) for id_, name, content in everything if content]


@cache
def _template() -> Any:
    require("The report", "report", "jinja2", "matplotlib")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("unspot.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"unbroken": _unbroken, "number": number_text}
    return environment.get_template("report.html.j2")


def _unbroken(text: str) -> str:
    """Keep numbers on one line with their per cent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _safe(text: str) -> Any:
    """Mark text of our own, or escaped already, which Jinja must leave as it is."""
    from markupsafe import Markup

    return Markup(text)


# -- Tables ----------------------------------------------------------------------------------------


def measure_groups(contents: Contents) -> list[tuple[str, list[Measure]]]:
    """Sort the rows of the main table under the headings of ``GROUPS``, without empty groups."""
    groups: dict[str, list[Measure]] = {name: [] for name in GROUPS}
    for measure in contents.measures:
        groups[presented(measure.key).group].append(measure)
    return [(name, measures) for name, measures in groups.items() if measures]


def attack_table(contents: Contents) -> list[tuple[str, ...]]:
    """List attackers, the strongest first, with a text per attacked representation."""
    texts = {(a.attacker, a.column): interval_text(a.accuracy, "share") for a in contents.attacks}
    names = ("Before", *contents.columns)
    return [
        ("Attacker", *(names[column] for column in contents.attacked)),
        *(
            (name, *(texts.get((name, column), "–") for column in contents.attacked))
            for name in contents.attackers
        ),
    ]


def tradeoff_table(contents: Contents) -> list[tuple[str, ...]]:
    """List erasers with method, setting, utility and erasure."""
    plane = contents.tradeoff
    if plane is None:
        return []
    head = ("Method", "Setting", plane.utility, plane.erasure)
    rows = (
        (
            f"{point.series} ✓" if point.chosen else point.series,
            point.label,
            number_text(point.utility, plane.utility_unit),
            interval_text(point.erasure, plane.erasure_unit),
        )
        for point in plane.points
    )
    return [head, *rows]


def gap_tables(contents: Contents) -> list[list[tuple[str, ...]]]:
    """List TPR gaps by label, a table for each class."""

    def text(gap: float | None) -> str:
        return "–" if gap is None else f"{gap:+.3f}"

    return [
        [
            ("Label", "Share", "Before", *contents.columns),
            *(
                (label, value_text(share, "share"), *map(text, row))
                for label, share, row in gaps.lines
            ),
        ]
        for gaps in contents.gaps
    ]


# -- The numbers to read first ---------------------------------------------------------------------

#: Keys of the measures that may be highlighted, in this order.
HIGHLIGHTS = ("attack", "task_linear", "neighbours", "tpr_gap", "variance")


@dataclass(frozen=True)
class Highlight:
    """A number at the top of the page."""

    title: str
    before: str
    after: str
    hint: str


def highlights(contents: Contents) -> list[Highlight]:
    """Pick at most four numbers: what an attacker recovers, and what is kept.

    One number by itself is left to the statement above it.
    """
    measures = {m.key: m for m in contents.measures if m.better != "none"}
    picked = [_highlight(measures[key], contents) for key in HIGHLIGHTS if key in measures]
    shown = [highlight for highlight in picked if highlight is not None][:4]
    return shown if len(shown) > 1 or contents.headline is None else []


def _highlight(measure: Measure, contents: Contents) -> Highlight | None:
    after = measure.after[contents.chosen] if measure.after else None
    if after is None:
        return None
    hint, strongest = presented(measure.key).hint, contents.strongest(contents.chosen + 1)
    if measure.key == "attack" and strongest is not None and contents.chance is not None:
        hint = f"{strongest.attacker}, chance {value_text(contents.chance, 'share')}"
    before = value_text(measure.before.value, measure.unit) if measure.before else ""
    return Highlight(measure.title, before, value_text(after.value, measure.unit), hint)
