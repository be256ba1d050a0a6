"""Seeded, stratified row budgets: a million rows cost no more than the budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

__all__ = ["balanced_counts", "generator", "sample_and_held_out", "stratified_batches"]

Rows = NDArray[np.int64]


def generator(random_state: Any) -> np.random.Generator:
    """A numpy Generator from anything scikit-learn takes as ``random_state``."""
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
) -> tuple[Rows, Rows]:
    """Disjoint rows to fit on and rows to check on, both holding every class.

    Where all rows fit the budget the classes keep their shares. Where they do not, the budget is
    spread over the classes as evenly as they have rows, since the precision of a distance between
    classes is that of the smaller one. Where a class cannot spare ``min_held_out`` rows nothing is
    held out.
    """
    counts = np.bincount(codes)
    held = np.floor(counts * held_out_share).astype(int)
    held = balanced_counts(held, max(1, round(max_rows * held_out_share / (1 - held_out_share))))
    if held[counts > 0].min() < min_held_out:
        held = np.zeros_like(counts)
    fit = balanced_counts(counts - held, max_rows)
    chosen: list[Rows] = []
    spared: list[Rows] = []
    for k in np.flatnonzero(counts):
        rows = rng.permutation(np.flatnonzero(codes == k))
        chosen.append(rows[: fit[k]])
        spared.append(rows[fit[k] : fit[k] + held[k]])
    return np.sort(np.concatenate(chosen)), np.sort(np.concatenate(spared))


def balanced_counts(counts: NDArray[Any], budget: int) -> NDArray[np.int64]:
    """How many of each class to take so that all together are at most ``budget``.

    Small classes are taken whole, the rest share what is left evenly; at least two of each.
    """
    counts = np.asarray(counts, dtype=np.int64)
    if counts.sum() <= budget:
        return counts
    taken = np.zeros_like(counts)
    left = budget
    order = np.argsort(counts, kind="stable")
    for done, k in enumerate(order):
        taken[k] = min(counts[k], max(left // (len(counts) - done), min(2, counts[k])))
        left = max(left - int(taken[k]), 0)
    return taken


def stratified_batches(
    codes: NDArray[np.int64], size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Row numbers of mini-batches that hold every class in its share; no row is left out.

    There are no more batches than the smallest class has pairs, so that each batch has at least
    two rows of every class.
    """
    counts = np.bincount(codes)
    n_batches = max(1, min(round(len(codes) / size), int(counts[counts > 0].min()) // 2))
    # Shuffle each class, deal its rows to the batches in turn.
    order = np.lexsort((rng.random(len(codes)), codes))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    turn = np.arange(len(codes)) - starts[codes[order]]
    return [order[turn % n_batches == b] for b in range(n_batches)]
