"""Attacks from evaluations and certificates, with names that people understand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unspot.report.columns import Results
from unspot.report.contents import Attack, Number

__all__ = ["attacker_name", "attacks"]

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
    for entry in evaluation.details.get("attackers", {}).get(side, ()):
        low, high = entry.get("interval", (None, None))
        number = Number(float(entry["balanced_accuracy"]), low=low, high=high)
        yield Attack(attacker_name(entry["name"]), column, number)


def _certified(certificate: Any, column: int) -> Iterator[Attack]:
    """Attackers of a certificate: their intervals are of the advantage, over guessing."""
    for report in certificate.attackers:
        low, high = (certificate.chance + end for end in report.interval)
        number = Number(report.balanced_accuracy, low=low, high=high)
        yield Attack(attacker_name(report.name), column, number)
