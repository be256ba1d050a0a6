"""A sweep as the contents of a report: a table, and all methods on one plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unspot.evaluation.metrics import about
from unspot.report.contents import Contents, Measure, Tradeoff, TradeoffPoint
from unspot.sweeps.grid import attack_chance
from unspot.sweeps.tables import COLUMNS, ResultLine, lines_by_dataset

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["measures", "plane", "sweep_contents"]

#: Metrics of utility for the plane; the first that was measured is shown.
UTILITIES = ("task_linear", "task", "neighbours", "words", "variance")


def sweep_contents(
    frame: pd.DataFrame, records: Iterable[Mapping[str, Any]] = (), *, title: str = "Sweep"
) -> Contents:
    """Everything on the page of a sweep.

    Parameters
    ----------
    frame : DataFrame
        The result of ``sweep``.
    records : iterable of mappings
        The same cells as in the result file, with facts about the data.
    title : str
    """
    by_dataset = lines_by_dataset(frame)
    facts = {record["dataset"]: record["data"] for record in records}
    single = len(by_dataset) == 1
    lines = [
        line if single else replace(line, method=f"{name}: {line.name}")
        for name, lines_of_one in by_dataset.items()
        for line in lines_of_one
    ]
    original = next((line for line in lines if line.method == "original"), None)
    chance = next(map(attack_chance, facts.values()), None) if single else None
    shown = [line for line in _middle_ranks(lines) if line is not original and line.values]
    return Contents(
        title=title,
        subtitle=", ".join(by_dataset),
        columns=tuple(line.title for line in shown),
        chosen=max(len(shown) - 1, 0),
        chance=chance,
        measures=measures(shown, original),
        tradeoff=plane(lines, chance),
        facts=tuple((name, _facts(facts[name])) for name in by_dataset if name in facts),
        notes=tuple(f"{line.title}: {error}" for line in lines for error in line.errors),
    )


def measures(shown: Sequence[ResultLine], original: ResultLine | None) -> tuple[Measure, ...]:
    """The table: one column per line, and the values before erasure."""
    return tuple(
        Measure(
            key=column.key,
            title=about(column.key).title or column.title,
            before=None if original is None else original.number(column.key),
            after=tuple(line.number(column.key) for line in shown),
            unit=column.unit,
            better="lower" if column.better == "↓" else "higher",
        )
        for column in COLUMNS.values()
        if any(column.key in line.values for line in shown)
    )


def plane(lines: Sequence[ResultLine], chance: float | None) -> Tradeoff | None:
    """Erasure against utility: every line that has both."""
    utility = next((k for k in UTILITIES if any(k in line.values for line in lines)), UTILITIES[-1])
    points = []
    # Curves come first: each gets a colour that no other method has, however many there are.
    for line in sorted(lines, key=lambda line: line.rank is None):
        useful, attack = line.number(utility), line.number("attack")
        if useful is not None and attack is not None and line.method != "original":
            label = "" if line.rank is None else f"rank {line.rank}"
            points.append(TradeoffPoint(line.name, label, useful, attack, line.rank))
    if len(points) < 2:
        return None
    titles = about(utility).title, about("attack").title
    return Tradeoff(*titles, tuple(points), COLUMNS[utility].unit, reference=chance)


def _middle_ranks(lines: Sequence[ResultLine]) -> Iterable[ResultLine]:
    """One line per method, at the middle one of its ranks."""
    for method in dict.fromkeys(line.method for line in lines):
        of_method = [line for line in lines if line.method == method]
        yield of_method[len(of_method) // 2]


def _facts(facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return (
        ("rows of train / validation / test", " / ".join(f"{n:,}" for n in facts["rows"])),
        ("features", str(facts["features"])),
        ("largest class", f"{100 * facts['chance']:.1f} %"),
        ("chance of an attacker", f"{100 * attack_chance(facts):.1f} %"),
        ("fingerprint", str(facts["fingerprint"])),
    )
