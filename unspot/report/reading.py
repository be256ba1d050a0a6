"""Evaluations and certificates as the contents of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unspot.report.attacks import attacks
from unspot.report.columns import Column, columns_of
from unspot.report.contents import (
    Contents,
    GapPoint,
    Gaps,
    Measure,
    NeighbourList,
    Number,
    Tradeoff,
    TradeoffPoint,
)
from unspot.report.facts import facts, notes, subtitle, title_of
from unspot.report.glossary import UTILITIES
from unspot.report.verdicts import verdicts

__all__ = ["read_contents"]


def read_contents(
    results: Any,
    *,
    title: str | None = None,
    chosen: str | None = None,
    neighbours: Sequence[NeighbourList] = (),
) -> Contents:
    """Everything that results say, ready to be shown.

    Parameters
    ----------
    results : Evaluation, Certificate, sequence of them, or mapping of names to them
        Under one name there may be an evaluation and a certificate, as a pair.
    title : str, optional
    chosen : str, optional
        Which of the names the headline is about; by default the last one.
    neighbours : sequence of NeighbourList
    """
    columns = columns_of(results)
    names = [column.name for column in columns]
    if chosen is not None and chosen not in names:
        raise ValueError(f"Got chosen={chosen!r}, but expected one of: {', '.join(names)}.")
    at = names.index(chosen) if chosen is not None else len(names) - 1
    chance = _chance(columns)
    contents = Contents(
        title=title or title_of(columns),
        subtitle=subtitle(columns[at]),
        columns=tuple(names),
        chosen=at,
        chance=chance,
        measures=_measures(columns, at),
        attacks=attacks(columns),
        gaps=_gaps(columns),
        tradeoff=_tradeoff(columns, at, chance),
        neighbours=tuple(neighbours),
        facts=facts(columns),
        notes=notes(columns),
    )
    return replace(contents, verdicts=verdicts(contents, columns))


def _number(value: Any) -> Number | None:
    return None if value is None else Number(value.mean, value.spread)


def _chance(columns: Sequence[Column]) -> float | None:
    for column in columns:
        if column.certificate is not None:
            return float(column.certificate.chance)
        if (row := column.row("chance")) is not None and row.before is not None:
            return float(row.before.mean)
    return None


def _measures(columns: Sequence[Column], chosen: int) -> tuple[Measure, ...]:
    evaluations = [column.evaluation for column in columns if column.evaluation is not None]
    keys = dict.fromkeys(row.key for evaluation in evaluations for row in evaluation.rows)
    return tuple(_measure(key, columns, chosen) for key in keys)


def _measure(key: str, columns: Sequence[Column], chosen: int) -> Measure:
    rows = [column.row(key) for column in columns]
    first = next(row for row in rows if row is not None)
    befores = [row.before for row in rows if row is not None and row.before is not None]
    return Measure(
        key=key,
        title=first.label,
        before=_number(befores[0]) if befores else None,
        after=tuple(None if row is None else _number(row.after) for row in rows),
        unit=first.unit,
        better=first.direction,
        note=(rows[chosen] or first).note,
    )


def _gaps(columns: Sequence[Column]) -> tuple[Gaps, ...]:
    """TPR gaps by class; of two classes the first alone, since the other's are the opposite."""
    records = [
        {(r["class"], r["label"]): r for r in column.evaluation.details.get("gaps", ())}
        if column.evaluation is not None
        else {}
        for column in columns
    ]
    cells = list(dict.fromkeys(cell for found in records for cell in found))
    classes = list(dict.fromkeys(c for c, _ in cells))
    shown = classes[:1] if len(classes) == 2 else classes
    return tuple(
        Gaps(c, tuple(_gap_point(cell, records) for cell in cells if cell[0] == c)) for c in shown
    )


def _gap_point(cell: tuple[str, str], records: Sequence[Mapping[Any, Any]]) -> GapPoint:
    first = next(found[cell] for found in records if cell in found)
    return GapPoint(
        label=cell[1],
        share=first["share"],
        before=first["before"],
        after=tuple(found[cell]["after"] if cell in found else None for found in records),
    )


def _tradeoff(columns: Sequence[Column], chosen: int, chance: float | None) -> Tradeoff | None:
    """Utility against the strongest attacker, where at least two erasers have both."""
    often = Counter(column.method for column in columns)
    for key, (utility_title, unit) in UTILITIES.items():
        points = []
        for i, column in enumerate(columns):
            utility, attack = column.row(key), column.row("attack")
            if utility is None or attack is None or not (utility.after and attack.after):
                continue
            points.append(
                TradeoffPoint(
                    series=column.method if often[column.method] > 1 else column.name,
                    label="" if column.rank is None else f"rank {column.rank}",
                    utility=Number(utility.after.mean, utility.after.spread),
                    erasure=Number(attack.after.mean, attack.after.spread),
                    rank=column.rank,
                    chosen=i == chosen,
                )
            )
        if len(points) > 1:
            axis = "accuracy of the strongest attacker"
            return Tradeoff(utility_title, axis, tuple(points), unit, reference=chance)
    return None
