"""A benchmark as the contents of a report: its first table, and all methods on one plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unspot.bench.data import BenchData
from unspot.bench.figures import gap_contents
from unspot.bench.summary import Line, display_name, pick
from unspot.bench.tables import COLUMNS, tables
from unspot.data.labels import encode
from unspot.evaluation.metrics import about
from unspot.report.contents import Contents, Gaps, Measure, Tradeoff, TradeoffPoint
from unspot.tables import Number

__all__ = ["contents", "measures", "plane"]

#: The most telling first.
UTILITIES = ("task_linear", "task", "neighbours", "words", "variance")


def contents(
    found: Sequence[Line], source: BenchData, records: Sequence[Mapping[str, Any]], seconds: float
) -> Contents:
    """Everything the page says."""
    chance = 1 / len(encode(source.data.test.z).classes)
    lines = [line for table in tables(found)[:1] for line in table.lines]  # none if all failed
    shown = [line for line in lines if line.method != "original" and line.values]
    original = next((line for line in pick(found, "main", ["original"]) if line.values), None)
    names = tuple(_column(line) for line in shown)
    return Contents(
        title=f"Benchmark on {source.data.name}",
        subtitle=source.difference,
        columns=names,
        chosen=len(names) - 1,
        chance=chance,
        measures=tuple(measures(shown, original)),
        tradeoff=plane(
            [*pick(found, "main"), *pick(found, "metric"), *pick(found, "preserve")], chance
        ),
        gaps=_gaps(shown, records),
        facts=(("Benchmark", _facts(found, source, seconds)),),
        notes=_notes(found),
    )


def _column(line: Line) -> str:
    return line.name if line.rank is None else f"{line.name}, rank {line.rank}"


def measures(shown: Sequence[Line], original: Line | None) -> list[Measure]:
    """The table: one column a line, and what was before."""
    made = []
    for column in COLUMNS.values():
        after = tuple(_number(line, column.key) for line in shown)
        if any(number is not None for number in after):
            made.append(
                Measure(
                    key=column.key,
                    title=about(column.key).title or column.title,
                    before=None if original is None else _number(original, column.key),
                    after=after,
                    unit=column.unit,
                    better="lower" if column.better == "↓" else "higher",
                )
            )
    return made


def _gaps(shown: Sequence[Line], records: Sequence[Mapping[str, Any]]) -> tuple[Gaps, ...]:
    """The gaps of the chosen method, which is the last; of the others none are drawn."""
    found = gap_contents(records, shown[-1].rank) if shown and shown[-1].rank else None
    if found is None or found.columns != (_column(shown[-1]),):
        return ()
    others: tuple[None, ...] = (None,) * (len(shown) - 1)
    return tuple(
        replace(gaps, points=tuple(replace(p, after=(*others, *p.after)) for p in gaps.points))
        for gaps in found.gaps
    )


def plane(shown: Sequence[Line], chance: float | None) -> Tradeoff | None:
    """Erasure against utility: every line that has both."""
    key = next((k for k in UTILITIES if any(k in line.values for line in shown)), UTILITIES[-1])
    points = tuple(
        TradeoffPoint(
            series=display_name(line.method),
            label="" if line.rank is None else f"rank {line.rank}",
            utility=_certain(line, key),
            erasure=_certain(line, "attack"),
            rank=line.rank,
        )
        # Curves come first: they get colours of their own, whatever the number of methods.
        for line in sorted(shown, key=lambda line: line.rank is None)
        if {key, "attack"} <= set(line.values) and line.method != "original"
    )
    if len(points) < 2:
        return None
    titles = about(key).title, about("attack").title
    return Tradeoff(*titles, points, utility_unit=COLUMNS[key].unit, reference=chance)


def _facts(found: Sequence[Line], source: BenchData, seconds: float) -> tuple[tuple[str, str], ...]:
    from unspot.machine import versions

    rows = " / ".join(f"{len(split):,}" for split in source.data)
    return (
        ("data", source.data.name),
        ("rows of train / validation / test", rows),
        ("features", str(source.data.n_features)),
        ("cells", str(sum(line.n_seeds for line in found))),
        ("seconds of this run", f"{seconds:.0f}"),
        *((name, version) for name, version in versions().items()),
    )


def _notes(found: Sequence[Line]) -> tuple[str, ...]:
    failed = [f"{_column(line)}: {line.errors[0]}" for line in found if line.errors]
    return tuple(failed)


def _number(line: Line, key: str) -> Number | None:
    return _certain(line, key) if key in line.values else None


def _certain(line: Line, key: str) -> Number:
    mean, spread = line.values[key]
    return Number(mean, spread if line.n_seeds > 1 else None)
