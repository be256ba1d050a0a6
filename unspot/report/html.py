"""A report as one HTML file that needs nothing else: no network, no server.

Jinja escapes text. Data is JSON in blocks that do not run. A content security policy lets the
browser run only the report's own scripts (named by their hashes) and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from unspot._version import __version__
from unspot.checks import require
from unspot.io.files import write_atomically
from unspot.report.charts import charts
from unspot.report.columns import glossary
from unspot.report.contents import Contents, Facts, NeighbourList, Views
from unspot.report.reading import read_contents
from unspot.report.style import (
    SHAPES,
    class_legend,
    column_legend,
    series_legend,
    theme_css,
)
from unspot.report.tables import (
    attack_table,
    highlights,
    measure_groups,
    tradeoff_table,
)
from unspot.tables import value_text

__all__ = ["render", "to_html", "write_page"]

LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
TONES = {"good": "✓", "bad": "✗", "unsure": "◐"}
#: The heading of the table of measures.
_NUMBERS = {True: "Before and after", False: "What was measured"}
#: With more methods than this, a table of measures is set narrow.
MANY = 4

#: The marks of the legends, as SVG paths around the origin.
_PATHS = {
    "circle": "M6,0A6,6,0,1,1,-6,0A6,6,0,1,1,6,0",
    "square": "M-5,-5H5V5H-5Z",
    "triangle-up": "M0,-6L6,5H-6Z",
    "diamond": "M0,-7L6,0L0,7L-6,0Z",
    "cross": "M-6,-2H-2V-6H2V-2H6V2H2V6H-2V2H-6Z",
    "triangle-down": "M0,6L6,-5H-6Z",
    "triangle-right": "M6,0L-5,6V-6Z",
}


def to_html(
    results: Any,
    path: str | os.PathLike[str],
    *,
    views: Views | None = None,
    neighbours: Sequence[NeighbourList] = (),
    title: str | None = None,
    chosen: str | None = None,
    chosen_rank: int | None = None,
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
    neighbours : sequence of NeighbourList
        Nearest rows before and after erasure.
    title : str, optional
    chosen : str, optional
        The name of the eraser that the headline is about; by default the last one.
    chosen_rank : int, optional
        The rank of a path that is marked.

    Examples
    --------
    >>> import tempfile
    >>> from unspot.evaluation.results import Evaluation, Row, Value
    >>> row = Row("probe", "Probe", "share", Value(0.99, 0.01), Value(0.34, 0.01), "lower")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = to_html(Evaluation("words", (row,)), f"{folder}/report.html")
    ...     "99.0 ± 1.0" in page.read_text(encoding="utf-8")
    True
    """
    contents = read_contents(
        results, title=title, chosen=chosen, chosen_rank=chosen_rank, neighbours=neighbours
    )
    return write_page(contents, path, views)


def write_page(
    contents: Contents, path: str | os.PathLike[str], views: Views | None = None
) -> Path:
    """Write the page of some contents, with the time in its footer."""
    page = render(contents, views, made=datetime.now())
    write_atomically(Path(path), page.encode("utf-8"))
    return Path(path)


def render(contents: Contents, views: Views | None = None, *, made: datetime | None = None) -> str:
    """The page as text; the same contents give the same page, apart from the time ``made``."""
    scripts = [*(_text("static", name) for name in LIBRARIES), _text("templates", "report.js")]
    names, tradeoff = contents.representations, contents.tradeoff
    groups = measure_groups(contents)
    return _template().render(
        contents=contents,
        views=views,
        version=__version__,
        made=made.strftime("%Y-%m-%d %H:%M") if made else "",
        glance=_glance(contents, made),
        light=_safe(theme_css(dark=False)),
        dark=_safe(theme_css(dark=True)),
        css=_safe(_text("templates", "report.css")),
        scripts=[_safe(script) for script in scripts],
        script_hashes=_safe(" ".join(map(_hash, scripts))),
        charts=_safe(script_json(charts(contents, views))),
        many=len(contents.columns) > MANY,
        numbers_title=_NUMBERS[contents.measured_before],
        licences=_safe(_text("static", "LICENSES.txt")),
        sections=sections(contents, views),
        highlights=highlights(contents),
        groups=groups,
        spreads=any("±" in text for _, ms in groups for m in ms for text in (m.before, *m.after)),
        attack_table=attack_table(contents),
        tradeoff_table=tradeoff_table(contents),
        column_legend=column_legend(names, contents.attacked),
        gap_legend=column_legend(names, (0, contents.chosen + 1)),
        series_legend=series_legend(tradeoff) if tradeoff else [],
        class_legend=class_legend(views) if views else [],
        mark_paths=[_PATHS[shape] for shape in SHAPES],
        tones=TONES,
        glossary=glossary(contents),
        share=lambda value: value_text(value, "share"),
        gap=lambda value: "–" if value is None else f"{value:+.3f}",
    )


def _glance(contents: Contents, made: datetime | None) -> Facts:
    """What everybody asks first, and the day."""
    return (*contents.glance, *((("Date", made.strftime("%Y-%m-%d")),) if made else ()))


def sections(contents: Contents, views: Views | None) -> list[tuple[str, str]]:
    """The id and the name of each section with something in it, for the list at the top."""
    everything = [
        ("numbers", _NUMBERS[contents.measured_before], contents.measures),
        ("attackers", "Attackers", contents.attacks),
        ("scope", "Scope", contents.scope),
        ("witness", "Strongest direction", views),
        ("map", "Maps", views),
        ("tradeoff", "Erasure against utility", contents.tradeoff),
        ("fairness", "Fairness", contents.gaps),
        ("neighbours", "Neighbours", contents.neighbours),
        ("settings", "Settings", contents.facts or contents.notes),
        ("reading", "How to read this", True),
    ]
    return [(id_, name) for id_, name, content in everything if content]


def script_json(value: Any) -> str:
    """JSON that is safe between script tags: it has no "<", so nothing can close the block.

    Examples
    --------
    >>> script_json({"class": "</script><b>"})
    '{"class":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = json.dumps(_finite(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    """NaN and infinity as null: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _template() -> Any:
    require("The report", "report", "jinja2")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("unspot.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters["unbroken"] = _unbroken
    environment.filters["spread_below"] = _spread_below
    return environment.get_template("report.html.j2")


def _unbroken(text: str) -> str:
    """Text whose numbers stay on one line with their per cent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _spread_below(text: str) -> Any:
    """A number with its spread on a line of its own, for narrow columns."""
    from markupsafe import Markup

    value, sign, spread = text.partition(" ±")
    below = Markup("<small>± {}</small>").format(_unbroken(spread.strip())) if sign else ""
    return Markup("{}{}").format(_unbroken(value), below)


@cache
def _text(folder: str, name: str) -> str:
    return files("unspot.report").joinpath(folder, name).read_text(encoding="utf-8")


def _safe(text: str) -> Any:
    """Text of our own, or escaped already, that Jinja must leave as it is."""
    from markupsafe import Markup

    return Markup(text)
