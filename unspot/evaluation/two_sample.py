"""A permutation test of equal laws: do the classes still differ in any way the kernels can see?

The statistic is MMD² between the classes, for several bandwidths and in two metrics; the largest
of them, each in units of its own permutations, decides. Labels are permuted over the pooled rows,
so the p-value is valid at any number of rows, whatever the law and however many kernels. Rows in
groups are compared with rows of other groups only, every group counts alike, and labels go from
group to group.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.data.groups import group_codes, shuffler
from unspot.data.labels import Labels, encode
from unspot.data.rows import balanced_counts, generator
from unspot.density.kernels import TILE_ROWS, GaussianMixture, mean_bandwidth
from unspot.evaluation.attack_models import whitened
from unspot.machine import one_thread

__all__ = ["TwoSampleTest", "two_sample_test"]

#: Statistics closer than this share of their spread are ties: rounding, not evidence.
_TIE = 1e-4

METRICS = ("raw", "whitened")

#: From kernels that see only the nearest rows to one that sees little but the mean.
BANDWIDTHS = tuple(4.0**k for k in range(-3, 2))


@dataclass(frozen=True)
class TwoSampleTest:
    """Outcome of the test.

    Attributes
    ----------
    p_value : float
        (1 + number of permutations at least as extreme) / (1 + number of permutations).
    statistic : float
        The largest MMD² over kernels, in standard deviations of its permutations.
    n_rows, n_permutations : int
        How many rows and permutations it rests on.
    """

    p_value: float
    statistic: float
    n_rows: int
    n_permutations: int

    def to_dict(self) -> dict[str, float | int]:
        return asdict(self)


def two_sample_test(
    X: Any,
    z: Any,
    *,
    n_permutations: int = 200,
    bandwidths: tuple[float, ...] = BANDWIDTHS,
    metrics: tuple[str, ...] = METRICS,
    max_rows: int = 4000,
    random_state: Any = 0,
    groups: Any = None,
) -> TwoSampleTest:
    """Test whether the classes have one and the same law, by MMD² and permutations.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Embeddings.
    z : array-like of shape (n,)
        Labels of any type, two or more classes of at least two rows each.
    n_permutations : int
        The smallest p-value is 1 / (1 + n_permutations).
    bandwidths : tuple of float
        The mᵢ of the kernels exp(−d²/(mᵢσ²)), with σ² the mean squared distance of all pairs.
    metrics : tuple of "raw" and "whitened"
        Distances as they are, and in whitened coordinates, where directions of low variance
        count as much as the others, down to the rounding errors of the rows.
    max_rows : int
        More rows than this are sampled down, the classes as evenly as they have rows; in groups,
        every group to as many rows.
    random_state : int, Generator or None
        Decides sample and permutations.
    groups : array-like of shape (n,), optional
        What rows come in, such as the author of each text: labels are permuted by group.

    Notes
    -----
    With pair weights nₖnₗ/n, the sum of MMD² over pairs of classes is, up to a constant,
    Σₖ Sₖₖ/(nₖ − 1) with Sₖₖ the sum of the kernel inside class k: one product of a kernel tile
    with the stacked indicators of all permutations. O(n²(d + B·K)) time for each kernel,
    O(nd + tile·B·K) memory: no n×n matrix is held.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(3)
    >>> X, z = rng.normal(size=(200, 3)), np.arange(200) % 2
    >>> two_sample_test(X, z).p_value > 0.05
    True
    >>> two_sample_test(X * (1 + z[:, None]), z).p_value
    0.0049...
    """
    from sklearn.utils.validation import check_array

    rows = check_array(X, dtype=np.float64, input_name="X")
    return compare_laws(
        rows,
        encode(z, n_rows=len(rows)),
        n_permutations=n_permutations,
        bandwidths=bandwidths,
        metrics=metrics,
        max_rows=max_rows,
        random_state=random_state,
        groups=None if groups is None else group_codes(groups, len(rows)),
    )


@one_thread()
def compare_laws(
    X: NDArray[Any],
    labels: Labels,
    *,
    n_permutations: int = 200,
    bandwidths: tuple[float, ...] = BANDWIDTHS,
    metrics: tuple[str, ...] = METRICS,
    max_rows: int = 4000,
    random_state: Any = 0,
    groups: NDArray[np.int64] | None = None,
) -> TwoSampleTest:
    """``two_sample_test`` of rows that are checked and labels that are encoded."""
    _refuse_single_rows(labels)
    rows = X.astype(np.float64, copy=False)
    kernels = _checked(bandwidths, metrics, n_permutations, max_rows, len(labels.classes))
    rng = generator(random_state)
    if groups is None:
        chosen = _sample(labels.codes, max_rows, rng)
    else:
        chosen = _sample_of_groups(labels.codes, groups, max_rows, rng)
    codes = labels.codes[chosen]
    among = None if groups is None else np.unique(groups[chosen], return_inverse=True)[1]
    shuffled = shuffler(codes, among)
    permuted = np.stack([codes, *(shuffled(rng) for _ in range(n_permutations))])
    similarity = [
        _within_similarity(_in_metric(rows[chosen], metric), permuted, kernels, among)
        for metric in metrics
    ]
    standard = _standardised(np.concatenate(similarity)).max(axis=0)  # (1 + B,)
    extreme = int((standard[1:] >= standard[0] - _TIE).sum())
    return TwoSampleTest(
        p_value=(1 + extreme) / (1 + n_permutations),
        statistic=float(standard[0]),
        n_rows=len(codes),
        n_permutations=int(n_permutations),
    )


def _checked(
    bandwidths: Any, metrics: Any, n_permutations: Any, max_rows: Any, n_classes: int
) -> tuple[float, ...]:
    if isinstance(metrics, str) or not metrics or not set(metrics) <= set(METRICS):
        raise ValueError(
            f"Got metrics={metrics!r}, but expected a tuple of one or more of 'raw', 'whitened'."
        )
    if n_permutations < 1:
        raise ValueError(f"Got n_permutations={n_permutations}, but expected at least one.")
    if max_rows < 2 * n_classes:
        raise ValueError(
            f"Got max_rows={max_rows}, but expected at least {2 * n_classes}: two rows of each of "
            f"{n_classes} classes."
        )
    return GaussianMixture(tuple(bandwidths)).multipliers


def _refuse_single_rows(labels: Labels) -> None:
    fewest = int(np.argmin(labels.counts))
    if labels.counts[fewest] < 2:
        raise ValueError(
            f"Got {labels.counts[fewest]} row of class {labels.classes[fewest]!s}, but expected at "
            "least 2 rows of every class. Add rows, or merge it with another class."
        )


def _sample(codes: NDArray[np.int64], max_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    counts = balanced_counts(np.bincount(codes), max_rows)
    drawn = [rng.permutation(np.flatnonzero(codes == k))[:n] for k, n in enumerate(counts)]
    return np.sort(np.concatenate(drawn))


def _sample_of_groups(
    codes: NDArray[np.int64], groups: NDArray[np.int64], max_rows: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows of as many groups as possible: each to so many rows that all fit, then some groups."""
    order = np.lexsort((rng.random(len(codes)), groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    place = np.empty_like(codes)  # of a row in its group, at random
    place[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    rows_up_to = np.cumsum(np.bincount(place))  # all groups' rows, at most 1, 2, … of each
    most = max(1, int(np.searchsorted(rows_up_to, max_rows, side="right")))
    chosen = np.flatnonzero(place < most)
    if len(chosen) > max_rows:
        chosen = chosen[_sample(codes[chosen], max_rows, rng)]
    return chosen


def _in_metric(X: NDArray[np.float64], metric: str) -> Tensor:
    """Centred rows of unit mean squared distance, in single precision."""
    rows = torch.as_tensor(whitened(X)(X) if metric == "whitened" else X - X.mean(axis=0))
    sigma2 = float(mean_bandwidth(rows))
    return (rows / sigma2**0.5 if sigma2 > 0 else rows).float()


def _within_similarity(
    Y: Tensor,
    permuted: NDArray[np.int64],
    bandwidths: tuple[float, ...],
    groups: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Σₖ Sₖₖ/(nₖ − 1) for every bandwidth and every row of labels: (M, 1 + B).

    In groups, a row counts as its group's share of it, and pairs of one group do not count at all:
    they are alike because of the group, whatever the class.
    """
    codes = torch.as_tensor(permuted.T.copy())  # (n, 1 + B)
    groups = np.arange(len(Y)) if groups is None else groups
    group = torch.as_tensor(groups)
    alike = 1.0 / torch.bincount(group)[group].float()  # (n,)
    weights = _class_weights(permuted[0], groups)
    sums = torch.zeros(len(bandwidths), codes.shape[1], dtype=torch.float64)
    tiles = range(0, len(Y), TILE_ROWS)
    for j in tiles:
        right, right_codes = Y[j : j + TILE_ROWS], codes[j : j + TILE_ROWS]
        indicators = torch.nn.functional.one_hot(right_codes, len(weights)).flatten(1).float()
        indicators *= alike[j : j + TILE_ROWS, None]
        for i in tiles:
            if i > j:
                break
            left_codes = codes[i : i + TILE_ROWS]
            squared = torch.cdist(Y[i : i + TILE_ROWS], right).square_()
            same_group = group[i : i + TILE_ROWS, None] == group[j : j + TILE_ROWS]
            for m, bandwidth in enumerate(bandwidths):
                kernel = _centred_kernel(squared, bandwidth).masked_fill_(same_group, 0.0)
                found = (kernel @ indicators).view(*left_codes.shape, -1)  # (rows, 1 + B, K)
                same = found.gather(2, left_codes[:, :, None]).squeeze(2)
                same *= alike[i : i + TILE_ROWS, None]
                sums[m] += (1 if i == j else 2) * (same * weights[left_codes]).sum(dim=0)
    return sums.numpy()


def _class_weights(codes: NDArray[np.int64], groups: NDArray[np.int64]) -> Tensor:
    """Rows over pairs of rows of different groups in each class: 1/(nₖ − 1) without groups."""
    K = int(codes.max()) + 1
    cells, members = np.unique(groups * K + codes, return_counts=True)
    shares = members / np.bincount(groups)[cells // K]  # of a class in a group
    n, squares = (np.bincount(cells % K, weights=w) for w in (shares, shares**2))
    pairs = n**2 - squares
    return torch.as_tensor(np.divide(n, pairs, out=np.zeros_like(n), where=pairs > 1e-9))


def _centred_kernel(squared: Tensor, bandwidth: float) -> Tensor:
    # A constant less changes every permutation's sum alike; it leaves the digits to what differs.
    return torch.exp(squared / -bandwidth).sub_(float(np.exp(-1 / bandwidth)))


def _standardised(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every kernel in units of its spread over observed and permuted labels together.

    The observed labels are one of the pool, so that they and the permutations stay exchangeable.
    """
    centred = sums - sums.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    flat = spread <= 1e-9 * np.abs(sums).max(axis=1, keepdims=True)
    return np.where(flat, 0.0, centred / np.where(flat, 1.0, spread))
