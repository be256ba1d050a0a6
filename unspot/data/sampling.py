"""Random samples and mini-batches of rows, stratified by class and decided by a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

__all__ = ["balanced_counts", "generator", "sample_and_held_out", "stratified_batches"]

RowNumbers = NDArray[np.int64]


def generator(random_state: Any) -> np.random.Generator:
    """A numpy Generator from any ``random_state`` that scikit-learn accepts."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def sample_and_held_out(
    codes: NDArray[Any],
    max_rows: int,
    rng: np.random.Generator,
    *,
    held_out_share: float = 0.1,
    min_held_out: int = 10,
) -> tuple[RowNumbers, RowNumbers]:
    """Row numbers to fit on and row numbers to check on: disjoint, both with every class.

    If all rows fit the budget, the classes keep their shares. If not, the budget is divided as
    evenly as the sizes of the classes allow, since the smaller class limits the precision of a
    distance between two. If a class cannot spare ``min_held_out`` rows, nothing is held out.
    """
    counts = np.bincount(codes)
    held = np.floor(counts * held_out_share).astype(int)
    held = balanced_counts(held, max(1, round(max_rows * held_out_share / (1 - held_out_share))))
    if held[counts > 0].min() < min_held_out:
        held = np.zeros_like(counts)
    fit = balanced_counts(counts - held, max_rows)
    fit_rows: list[RowNumbers] = []
    held_rows: list[RowNumbers] = []
    for k in np.flatnonzero(counts):
        rows = rng.permutation(np.flatnonzero(codes == k))
        fit_rows.append(rows[: fit[k]])
        held_rows.append(rows[fit[k] : fit[k] + held[k]])
    return np.sort(np.concatenate(fit_rows)), np.sort(np.concatenate(held_rows))


def balanced_counts(counts: NDArray[Any], budget: int) -> NDArray[np.int64]:
    """The number of rows to take from each class, so that the total is at most ``budget``.

    Small classes are taken whole, and the others share the rest of the budget evenly. From each
    class at least two rows are taken, even if that exceeds the budget.
    """
    counts = np.asarray(counts, dtype=np.int64)
    if counts.sum() <= budget:
        return counts
    taken = np.zeros_like(counts)
    left = budget
    for done, k in enumerate(np.argsort(counts, kind="stable")):
        taken[k] = min(counts[k], max(left // (len(counts) - done), min(2, counts[k])))
        left = max(left - int(taken[k]), 0)
    return taken


def stratified_batches(
    codes: NDArray[np.int64], size: int, rng: np.random.Generator
) -> list[RowNumbers]:
    """Row numbers of mini-batches that together hold all rows, each with every class in its share.

    The number of batches is limited so that each batch has at least two rows of every class.
    """
    counts = np.bincount(codes)
    n_batches = max(1, min(round(len(codes) / size), int(counts[counts > 0].min()) // 2))
    # Shuffle each class, and deal its rows to the batches in turn.
    order = np.lexsort((rng.random(len(codes)), codes))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    turn = np.arange(len(codes)) - starts[codes[order]]
    return [order[turn % n_batches == b] for b in range(n_batches)]
