"""Erasers on the plane of utility and erasure: from several columns, or from paths of ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unspot.report.columns import Column, Results
from unspot.report.contents import Attack, Number, Tradeoff, TradeoffPoint

__all__ = ["tradeoff"]

#: Measures of utility, the most telling first: key → (title, unit).
UTILITIES = {
    "task_linear": ("accuracy of the task, logistic", "share"),
    "task": ("accuracy of the task, the paper’s MLP", "share"),
    "neighbours": ("neighbours kept (A_50 %)", ""),
    "words": ("word similarity (WordSim-353)", ""),
    "variance": ("share of variance kept", "share"),
    "rank": ("rank: dimensions kept", ""),
}
#: Measures of what is left of the concept, likewise.
LEFT = {
    "attack": ("accuracy of the strongest attacker", "share"),
    "probe": ("accuracy of the paper’s probe", "share"),
    "linear": ("accuracy of a linear probe", "share"),
    "held_out": ("held-out distance between the classes (MMD²)", ""),
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
            utility=_number(point, utility),
            erasure=_number(point, left),
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


def _number(point: Mapping[str, Any], key: str) -> Number:
    spread = point.get(f"{key}_spread")
    return Number(float(point[key]), None if spread is None else float(spread))
