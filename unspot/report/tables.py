"""The tables of a report: as rows of text for the page and the terminal, and as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path

from unspot.io.files import write_atomically
from unspot.report.contents import Contents, Measure
from unspot.report.layout import GROUPS, presented
from unspot.tables import Number, interval_text, latex, number_text, value_text

__all__ = [
    "TABLES",
    "Highlight",
    "MeasureRow",
    "attack_table",
    "highlights",
    "measure_groups",
    "save_tables",
    "to_csv",
    "to_latex",
    "tradeoff_table",
]

#: The files that ``save_tables`` writes.
TABLES = ("tables.csv", "tables.tex")
#: Keys of the measures that may be highlighted, in this order.
HIGHLIGHTS = (
    *("attack", "probe", "task_linear", "task"),
    *("neighbours", "words", "tpr_gap", "variance"),
)
ARROWS = {"lower": "↓", "higher": "↑", "none": ""}


@dataclass(frozen=True)
class MeasureRow:
    """A measure as text."""

    title: str
    arrow: str
    note: str
    before: str
    after: tuple[str, ...]
    published: tuple[str, ...] = ()


@dataclass(frozen=True)
class Highlight:
    """A number at the top of the page."""

    title: str
    before: str
    after: str
    hint: str


def measure_groups(
    contents: Contents, *, spreads: bool = True
) -> list[tuple[str, list[MeasureRow]]]:
    """The rows of the main table under the headings of ``GROUPS``, without empty groups."""
    groups: dict[str, list[MeasureRow]] = {name: [] for name in GROUPS}
    for measure in contents.measures:
        groups[presented(measure.key).group].append(_measure_row(measure, spreads))
    return [(name, rows) for name, rows in groups.items() if rows]


def _measure_row(measure: Measure, spreads: bool) -> MeasureRow:
    def text(number: Number | None) -> str:
        if number is None or spreads:
            return number_text(number, measure.unit)
        return value_text(number.value, measure.unit)

    note = f"{measure.note} {_STRETCHED}".strip() if _stretched(measure) else measure.note
    return MeasureRow(
        title=presented(measure.key).title or measure.title,
        arrow="" if _stretched(measure) else ARROWS[measure.better],
        note=note,
        before=text(measure.before),
        after=tuple(map(text, measure.after)),
        published=tuple("" if p is None else text(p) for p in measure.published),
    )


_STRETCHED = "Above 100 % an eraser stretches the rows, and this says nothing about what it keeps."


def _stretched(measure: Measure) -> bool:
    """Whether a share of the variance is none: some erasers change the scale of the rows."""
    values = (number.value for number in measure.after if number is not None)
    return measure.key == "variance" and any(value > 1.001 for value in values)


def attack_table(contents: Contents) -> list[tuple[str, ...]]:
    """One row per attacker, the strongest first: its name, a text per attacked representation."""
    texts = {(a.attacker, a.column): interval_text(a.accuracy, "share") for a in contents.attacks}
    return [
        (name, *(texts.get((name, column), "–") for column in contents.attacked))
        for name in contents.attackers
    ]


def tradeoff_table(contents: Contents) -> list[tuple[str, str, str, str]]:
    """One row per eraser: method, setting, utility, erasure."""
    tradeoff = contents.tradeoff
    if tradeoff is None:
        return []
    return [
        (
            point.series,
            point.label,
            number_text(point.utility, tradeoff.utility_unit),
            interval_text(point.erasure, tradeoff.erasure_unit),
        )
        for point in tradeoff.points
    ]


# -- The numbers to read first ---------------------------------------------------------------------


def highlights(contents: Contents) -> list[Highlight]:
    """At most four numbers: what an attacker recovers, and what is kept."""
    attack = _attack_highlight(contents)
    measures = {measure.key: measure for measure in contents.measures}
    if attack is not None:
        measures.pop("attack", None)
    if "task_linear" in measures:  # the paper's network says the same, less well
        measures.pop("task", None)
    others = [
        _measure_highlight(measures[key], contents.chosen) for key in HIGHLIGHTS if key in measures
    ]
    return [highlight for highlight in (attack, *others) if highlight is not None][:4]


def _attack_highlight(contents: Contents) -> Highlight | None:
    before, after = (contents.strongest(column) for column in (0, contents.chosen + 1))
    if after is None:
        return None
    chance = "" if contents.chance is None else f", chance {value_text(contents.chance, 'share')}"
    if contents.of_number:
        chance = ", share of the variance"
    return Highlight(
        "Strongest attacker",
        number_text(before.accuracy, "share") if before else "",
        number_text(after.accuracy, "share"),
        f"{after.attacker}{chance}",
    )


def _measure_highlight(measure: Measure, chosen: int) -> Highlight | None:
    after = measure.after[chosen] if measure.after else None
    if after is None or _stretched(measure):
        return None
    before = value_text(measure.before.value, measure.unit) if measure.before else ""
    facts = presented(measure.key)
    after_text = value_text(after.value, measure.unit)
    return Highlight(facts.title or measure.title, before, after_text, facts.hint)


# -- Tables for a paper ----------------------------------------------------------------------------


def save_tables(folder: str | os.PathLike[str], contents: Contents) -> list[Path]:
    """Write ``tables.csv`` and ``tables.tex``, and return the files."""
    paths = [Path(folder) / name for name in TABLES]
    for path, text in zip(paths, (to_csv(contents), to_latex(contents)), strict=True):
        write_atomically(path, text.encode("utf-8"))
    return paths


def to_csv(contents: Contents) -> str:
    """Every measure and attacker, one number per line, before and after each method.

    Examples
    --------
    >>> from unspot.report.contents import Measure
    >>> row = Measure("probe", "Probe", Number(0.9, 0.01), (Number(0.4, 0.02),), "share")
    >>> print(to_csv(Contents("t", columns=("LEACE",), measures=(row,))))
    measure,unit,representation,value,spread,low,high
    Probe,share,before,0.9,0.01,,
    Probe,share,LEACE,0.4,0.02,,
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["measure", "unit", "representation", "value", "spread", "low", "high"])
    names = contents.representations
    for measure in contents.measures:
        for name, number in zip(names, (measure.before, *measure.after), strict=False):
            if number is not None:
                writer.writerow([measure.title, measure.unit, name, *_csv_cells(number)])
    for attack in contents.attacks:
        title = f"attacker: {attack.attacker}"
        writer.writerow([title, "share", names[attack.column], *_csv_cells(attack.accuracy)])
    return text.getvalue()


def _csv_cells(number: Number) -> list[str]:
    values = (number.value, number.spread, number.low, number.high)
    return ["" if value is None else f"{value:.6g}" for value in values]


def to_latex(contents: Contents) -> str:
    r"""The tables of measures and attackers, for ``\input`` in a paper; needs ``booktabs``."""
    before = 0 if contents.measured_before else 1
    names = ("Before", *contents.columns)
    measures = [
        (f"{row.title} {row.arrow}".strip(), *(row.before, *row.after)[before:])
        for _, rows in measure_groups(contents)
        for row in rows
    ]
    tables = {
        ("Measure", *names[before:]): measures,
        ("Attacker", *(names[i] for i in contents.attacked)): attack_table(contents),
    }
    texts = [latex([head, *rows]) for head, rows in tables.items() if rows]
    return "\n\n".join(texts) + "\n"
