"""Tables of the report as rows of text, the same for HTML, LaTeX, CSV and the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from unspot.evaluation.metrics import GROUPS, Metric, about
from unspot.report.contents import Contents, Measure, strongest, strongest_first
from unspot.tables import Number, interval_text, number_text, value_text

__all__ = [
    "Line",
    "Tile",
    "attack_table",
    "measure_groups",
    "tiles",
    "tradeoff_table",
]

#: Keys of the measures that may stand at the top of the page, in this order.
TILES = ("attack", "probe", "task_linear", "task", "neighbours", "words", "tpr_gap", "variance")
ARROWS = {"lower": "↓", "higher": "↑", "none": ""}


@dataclass(frozen=True)
class Line:
    """A measure as text."""

    title: str
    arrow: str
    note: str
    before: str
    after: tuple[str, ...]


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page."""

    title: str
    before: str
    after: str
    hint: str


def measure_groups(contents: Contents, *, spreads: bool = True) -> list[tuple[str, list[Line]]]:
    """The lines of the main table under the headings of ``GROUPS``, empty groups left out."""
    groups: dict[str, list[Line]] = {name: [] for name in GROUPS}
    for measure in contents.measures:
        groups[about(measure.key).group].append(_line(measure, spreads))
    return [(name, lines) for name, lines in groups.items() if lines]


def attack_table(contents: Contents) -> list[tuple[str, list[str]]]:
    """One row an attacker, one text for each representation."""
    found = {(a.attacker, a.column): interval_text(a.accuracy, "share") for a in contents.attacks}
    columns = range(len(contents.columns) + 1)
    return [
        (name, [found.get((name, column), "–") for column in columns])
        for name in strongest_first(contents)
    ]


def tradeoff_table(contents: Contents) -> list[tuple[str, str, str, str]]:
    """One row an eraser: method, setting, utility, erasure."""
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


def tiles(contents: Contents) -> list[Tile]:
    """The numbers to read first: what an attacker recovers, and what is kept; four at most."""
    attack = _attack_tile(contents)
    measures = {m.key: m for m in contents.measures if not (attack and m.key == "attack")}
    if "task_linear" in measures:  # the paper's network says the same, less well
        measures.pop("task", None)
    wanted = [measures[key] for key in TILES if key in measures]
    found = [attack, *(_measure_tile(m, contents.chosen, about(m.key)) for m in wanted)]
    return [tile for tile in found if tile is not None][:4]


def _attack_tile(contents: Contents) -> Tile | None:
    after = strongest(contents, contents.chosen + 1)
    if after is None:
        return None
    before = strongest(contents, 0)
    chance = "" if contents.chance is None else f", chance {value_text(contents.chance, 'share')}"
    return Tile(
        "Strongest attacker",
        number_text(before.accuracy, "share") if before else "",
        number_text(after.accuracy, "share"),
        f"{after.attacker}{chance}",
    )


def _measure_tile(measure: Measure, chosen: int, known: Metric) -> Tile | None:
    after = measure.after[chosen] if measure.after else None
    if after is None:
        return None
    before = value_text(measure.before.value, measure.unit) if measure.before else ""
    title = known.title or measure.title
    return Tile(title, before, value_text(after.value, measure.unit), known.tile)


def _line(measure: Measure, spreads: bool) -> Line:
    def text(number: Number | None) -> str:
        if number is None or spreads:
            return number_text(number, measure.unit)
        return value_text(number.value, measure.unit)

    return Line(
        title=about(measure.key).title or measure.title,
        arrow=ARROWS[measure.better],
        note=measure.note,
        before=text(measure.before),
        after=tuple(map(text, measure.after)),
    )
