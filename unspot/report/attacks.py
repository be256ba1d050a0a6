"""Attacks from evaluations and certificates, with names that people understand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from unspot.report.columns import Column
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


def attacks(columns: Sequence[Column]) -> tuple[Attack, ...]:
    """What attackers recover before erasure, once, and after each eraser.

    Where an eraser has both an evaluation and a certificate, the certificate's attackers count.
    """
    return (*_before(columns), *_after(columns))


def attacker_name(name: str) -> str:
    """A name for people.

    Examples
    --------
    >>> attacker_name("mlp-128-128"), attacker_name("whitened-mlp-256"), attacker_name("trees")
    ('network 128-128', 'network 256, whitened', 'boosted trees')
    """
    if name in _NAMES:
        return _NAMES[name]
    whitened, _, widths = name.rpartition("mlp-")
    if not widths or widths == name:
        return name
    return f"network {widths}" + (", whitened" if whitened else "")


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


def _before(columns: Sequence[Column]) -> Iterator[Attack]:
    for column in columns:
        found = list(_measured(column.evaluation, "before", 0))
        if found:
            yield from found
            return


def _after(columns: Sequence[Column]) -> Iterator[Attack]:
    for i, column in enumerate(columns, start=1):
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
        number = Number(accuracy, low=low, high=high)
        yield Attack(attacker_name(entry["name"]), column, number)


def _certified(certificate: Any, column: int) -> Iterator[Attack]:
    raise NotImplementedError
