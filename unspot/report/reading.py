"""Evaluations and certificates as the contents of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unspot.evaluation.metrics import about
from unspot.report.columns import (
    Column,
    Results,
    facts,
    notes,
    sort_results,
    subtitle,
    title_of,
    verdicts,
)
from unspot.report.contents import (
    Attack,
    Contents,
    GapPoint,
    Gaps,
    Measure,
    NeighbourList,
    Tradeoff,
    TradeoffPoint,
)
from unspot.tables import Number

__all__ = ["attacker_name", "attacks", "read_contents", "tradeoff"]


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


# -- Attacks from evaluations and certificates, with names that people understand ------------------


_NAMES = {
    "logistic": "logistic regression",
    "quadratic": "quadratic features",
    "neighbours": "nearest neighbours",
    "rbf": "radial basis functions",
    "whitened-rbf": "radial basis, whitened",
    "trees": "boosted trees",
    "rotated-trees": "boosted trees, rotated",
}


def attacks(results: Results) -> tuple[Attack, ...]:
    """What attackers recover before erasure, once, and after each eraser.

    Where there are both an evaluation and a certificate, the certificate's attackers count.
    """
    return (*_before(results), *_after(results))


def attacker_name(name: str) -> str:
    """A name for people.

    Examples
    --------
    >>> attacker_name("mlp-128-128"), attacker_name("whitened-mlp-256"), attacker_name("trees")
    ('network, 128-128 wide', 'network, 256 wide, whitened', 'boosted trees')
    """
    if name in _NAMES:
        return _NAMES[name]
    before, mark, widths = name.rpartition("mlp-")
    if not mark:
        return name
    return f"network, {widths} wide" + (f", {before.rstrip('-')}" if before else "")


def _before(results: Results) -> Iterator[Attack]:
    if results.before is not None:
        yield from _certified_attacks(results.before, 0)
        return
    for column in results.columns:
        found = list(_measured(column.evaluation, "before", 0))
        if found:
            yield from found
            return


def _after(results: Results) -> Iterator[Attack]:
    for i, column in enumerate(results.columns, start=1):
        if column.certificate is not None:
            yield from _certified_attacks(column.certificate, i)
        else:
            yield from _measured(column.evaluation, "after", i)


def _measured(evaluation: Any, side: str, column: int) -> Iterator[Attack]:
    """Attackers of an evaluation, each with an interval widened for their number."""
    if evaluation is None:
        return
    for entry in evaluation.details.get("attackers", {}).get(side, ()):
        low, high = entry.get("interval", (None, None))
        number = Number(float(entry["balanced_accuracy"]), low=low, high=high)
        yield Attack(attacker_name(entry["name"]), column, number)


def _certified_attacks(certificate: Any, column: int) -> Iterator[Attack]:
    """Attackers of a certificate: their intervals are of the advantage, over guessing."""
    for report in certificate.attackers:
        low, high = (certificate.chance + end for end in report.interval)
        number = Number(report.balanced_accuracy, low=low, high=high)
        yield Attack(attacker_name(report.name), column, number)


# -- Erasers on the plane of utility and erasure: from several columns, or from paths of ranks -----


#: Measures of utility, the most telling first: key → (title, unit).
UTILITIES = {
    key: (about(key).axis, about(key).unit)
    for key in ("task_linear", "task", "neighbours", "words", "variance")
} | {"rank": ("rank: dimensions kept", "")}
#: Measures of what is left of the concept, likewise.
LEFT = {key: (about(key).axis, about(key).unit) for key in ("attack", "probe", "linear")} | {
    "held_out": ("held-out distance between the classes (MMD²)", "")
}


def tradeoff(
    results: Results,
    attacks: Sequence[Attack],
    *,
    chosen: int,
    chance: float | None,
    majority: float | None,
    chosen_rank: int | None = None,
) -> Tradeoff | None:
    """The plane, where at least two erasers can be drawn on it."""
    if results.paths:
        return _of_paths(results.paths, chance, majority, chosen_rank)
    return _of_columns(results.columns, attacks, chosen, chance)


def _of_columns(
    columns: Sequence[Column], attacks: Sequence[Attack], chosen: int, chance: float | None
) -> Tradeoff | None:
    often = Counter(column.method for column in columns)
    strongest = {
        i: max(found, key=lambda number: number.value)
        for i in range(len(columns))
        if (found := [a.accuracy for a in attacks if a.column == i + 1])
    }
    for key, (title, unit) in UTILITIES.items():
        points = tuple(
            TradeoffPoint(
                series=column.method if often[column.method] > 1 else column.name,
                label="" if column.rank is None else f"rank {column.rank}",
                utility=Number(row.after.mean, row.after.spread),
                erasure=strongest[i],
                rank=column.rank,
                chosen=i == chosen,
            )
            for i, column in enumerate(columns)
            if i in strongest and (row := column.row(key)) is not None and row.after is not None
        )
        if len(points) > 1:
            return Tradeoff(title, LEFT["attack"][0], points, unit, reference=chance)
    return None


def _of_paths(
    paths: Mapping[str, Sequence[Mapping[str, Any]]],
    chance: float | None,
    majority: float | None,
    chosen_rank: int | None,
) -> Tradeoff | None:
    everything = [point for points in paths.values() for point in points]
    utility = next(key for key in UTILITIES if all(key in point for point in everything))
    left = next((key for key in LEFT if all(key in point for point in everything)), None)
    if left is None or len(everything) < 2:
        return None
    points = tuple(
        TradeoffPoint(
            series=name,
            label=f"rank {point['rank']}",
            utility=_mean_number(point, utility),
            erasure=_mean_number(point, left),
            rank=point["rank"],
            chosen=point["rank"] == chosen_rank,
        )
        for name, listed in paths.items()
        for point in listed
    )
    (utility_title, utility_unit), (left_title, left_unit) = UTILITIES[utility], LEFT[left]
    # Attackers count classes alike, probes count rows.
    guess = chance if left == "attack" else majority
    reference = guess if left_unit == "share" else None
    return Tradeoff(utility_title, left_title, points, utility_unit, left_unit, reference)


def _mean_number(point: Mapping[str, Any], key: str) -> Number:
    spread = point.get(f"{key}_spread")
    return Number(float(point[key]), None if spread is None else float(spread))
