"""Attacks from evaluations and certificates, with names that people understand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from unspot.report.columns import Results
from unspot.report.contents import Attack, Number

__all__ = ["attacker_name", "attacks", "wilson"]

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


def wilson(share: float, n: int, alpha: float = 0.05) -> tuple[float, float]:
    """Wilson's interval of a share of n rows.

    Examples
    --------
    >>> low, high = wilson(0.5, 100)
    >>> round(low, 3), round(high, 3)
    (0.404, 0.596)
    """
    from scipy.stats import norm

    z = float(norm.isf(alpha / 2))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def _before(results: Results) -> Iterator[Attack]:
    if results.before is not None:
        yield from _certified(results.before, 0)
        return
    for column in results.columns:
        found = list(_measured(column.evaluation, "before", 0))
        if found:
            yield from found
            return


def _after(results: Results) -> Iterator[Attack]:
    for i, column in enumerate(results.columns, start=1):
        if column.certificate is not None:
            yield from _certified(column.certificate, i)
        else:
            yield from _measured(column.evaluation, "after", i)


def _measured(evaluation: Any, side: str, column: int) -> Iterator[Attack]:
    """Attackers of an evaluation, each with an interval widened for their number."""
    if evaluation is None:
        return
    listed = evaluation.details.get("attackers", {}).get(side, ())
    n = evaluation.metadata.get("n_rows", {}).get("test")
    for entry in listed:
        accuracy = float(entry["accuracy"])
        low, high = wilson(accuracy, n, 0.05 / len(listed)) if n else (None, None)
        yield Attack(attacker_name(entry["name"]), column, Number(accuracy, low=low, high=high))


def _certified(certificate: Any, column: int) -> Iterator[Attack]:
    """Attackers of a certificate: their intervals are of the advantage, over the majority."""
    chance = certificate.majority
    for report in certificate.attackers:
        low, high = (chance + end for end in report.interval)
        number = Number(report.accuracy, low=low, high=high)
        yield Attack(attacker_name(report.name), column, number)
