"""Evaluations and certificates as the contents of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unspot.report.attacks import attacks
from unspot.report.columns import Column, Results, sort_results
from unspot.report.contents import (
    Contents,
    GapPoint,
    Gaps,
    Measure,
    NeighbourList,
    Number,
)
from unspot.report.facts import facts, notes, subtitle, title_of
from unspot.report.tradeoffs import tradeoff
from unspot.report.verdicts import verdicts

__all__ = ["read_contents"]


def read_contents(
    results: Any,
    *,
    title: str | None = None,
    chosen: str | None = None,
    chosen_rank: int | None = None,
    neighbours: Sequence[NeighbourList] = (),
) -> Contents:
    """Everything that results say, ready to be shown.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        As ``sort_results`` takes them.
    title : str, optional
    chosen : str, optional
        Which of the columns the headline is about; by default the last one.
    chosen_rank : int, optional
        Which point of a path of ranks is marked.
    neighbours : sequence of NeighbourList
    """
    found = sort_results(results)
    columns = found.columns
    names = [column.name for column in columns]
    if chosen is not None and chosen not in names:
        raise ValueError(f"Got chosen={chosen!r}, but expected one of: {', '.join(names)}.")
    _check_rank(chosen_rank, found)
    at = names.index(chosen) if chosen is not None else max(len(names) - 1, 0)
    chance, majority, attacked = _chance(found), _majority(found), attacks(found)
    contents = Contents(
        title=title or title_of(found),
        subtitle=subtitle(columns[at]) if columns else "",
        columns=tuple(names),
        chosen=at,
        chance=chance,
        measures=(*_certified(found), *_measures(columns, at)),
        attacks=attacked,
        gaps=_gaps(columns),
        tradeoff=tradeoff(
            found, attacked, chosen=at, chance=chance, majority=majority, chosen_rank=chosen_rank
        ),
        neighbours=tuple(neighbours),
        facts=facts(columns),
        notes=notes(found),
    )
    return replace(contents, verdicts=verdicts(contents, columns))


def _check_rank(rank: int | None, results: Results) -> None:
    """A rank that is not there would be marked nowhere, in silence."""
    on_paths = {point["rank"] for points in results.paths.values() for point in points}
    of_columns = {column.rank for column in results.columns if column.rank is not None}
    known = on_paths or of_columns
    if rank is not None and rank not in known:
        listed = ", ".join(map(str, sorted(known, reverse=True))) or "none: no result has a rank"
        raise ValueError(f"Got chosen_rank={rank}, but expected one of: {listed}.")


def _number(value: Any) -> Number | None:
    return None if value is None else Number(value.mean, value.spread)


def _chance(results: Results) -> float | None:
    """What attackers get by guessing, every class counted alike; of probes alone, the majority."""
    certificates = [results.before, *(column.certificate for column in results.columns)]
    for certificate in certificates:
        if certificate is not None:
            return float(certificate.chance)
    for column in results.columns:
        classes = column.metadata.get("classes")
        if classes and column.evaluation is not None and "attackers" in column.evaluation.details:
            return 1 / len(classes)
    return _majority(results)


def _majority(results: Results) -> float | None:
    rows = [column.row("chance") for column in results.columns]
    return next((float(row.before.mean) for row in rows if row is not None), None)


def _measures(columns: Sequence[Column], chosen: int) -> tuple[Measure, ...]:
    """The rows of the evaluations; those that certificates answer better are left to them."""
    evaluations = [column.evaluation for column in columns if column.evaluation is not None]
    keys = dict.fromkeys(row.key for evaluation in evaluations for row in evaluation.rows)
    if any(column.certificate is not None for column in columns):
        for key in ("chance", "attack", "two_sample"):
            keys.pop(key, None)
    return tuple(_measure(key, columns, chosen) for key in keys)


def _certified(results: Results) -> tuple[Measure, ...]:
    """Strongest attacker and two-sample test as the certificates have them."""
    certificates = [column.certificate for column in results.columns]
    first = next((c for c in certificates if c is not None), None)
    if first is None:
        return ()

    def accuracy(certificate: Any) -> Number | None:
        return certificate and Number(certificate.strongest.balanced_accuracy)

    def p_value(certificate: Any) -> Number | None:
        return certificate and Number(certificate.p_value)

    attack = Measure(
        key="attack",
        title="Strongest attacker",
        before=accuracy(results.before),
        after=tuple(map(accuracy, certificates)),
        unit="share",
        better="lower",
        note=f"of {len(first.attackers)} that learned from {first.n_attack_rows:,} rows; "
        f"every class counts alike, so that guessing gets {100 * first.chance:.1f} %.",
    )
    two_sample = Measure(
        key="two_sample",
        title="Two-sample p-value",
        before=p_value(results.before),
        after=tuple(map(p_value, certificates)),
        unit="p",
        note="of the hypothesis that the classes have one law; a small one refutes it.",
    )
    return attack, two_sample


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
