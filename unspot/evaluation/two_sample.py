"""Permutation tests: do classes still differ, or rows and a number depend, as kernels can see?

The statistic is MMD² between the classes, for several bandwidths and in two metrics; the largest
of them, each in units of its own permutations, decides. Labels are permuted over the pooled rows,
so the p-value is valid at any number of rows, whatever the law and however many kernels. Rows in
groups are compared with rows of other groups only, every group counts alike, and labels go from
group to group. Of a number the statistic is HSIC with waves of its ranks, and all else is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.data.dataset import number_bins
from unspot.data.groups import group_codes, row_shuffler, shuffler
from unspot.data.labels import Labels, Measurements, encode, measure
from unspot.data.rows import balanced_counts, generator
from unspot.density.kernels import TILE_ROWS, GaussianMixture, mean_bandwidth
from unspot.evaluation.attack_models import whitened
from unspot.machine import one_thread

__all__ = ["TwoSampleTest", "independence_test", "two_sample_test"]

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


def independence_test(
    X: Any,
    z: Any,
    *,
    n_permutations: int = 200,
    max_rows: int = 4000,
    random_state: Any = 0,
    groups: Any = None,
) -> TwoSampleTest:
    """Test whether rows are independent of a number, by HSIC and permutations.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Embeddings.
    z : array-like of shape (n,) or (n, m)
        A number for each row, or several.
    n_permutations, max_rows, random_state, groups
        As in ``two_sample_test``.

    Notes
    -----
    HSIC is the sum over pairs of rows of the kernel times the product of centred features of z:
    four waves √2 cos(πku)/k of its ranks u, each of which is large where a MMD² between low and
    high values would be. Cost as of a ``two_sample_test`` of four classes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(3)
    >>> X, z = rng.normal(size=(300, 3)), rng.normal(size=300)
    >>> independence_test(X, z).p_value > 0.05
    True
    >>> independence_test(X * (1 + abs(z[:, None])), z).p_value
    0.0049...
    """
    from sklearn.utils.validation import check_array

    rows = check_array(X, dtype=np.float64, input_name="X")
    return compare_with_number(
        rows,
        measure(z, n_rows=len(rows)),
        n_permutations=n_permutations,
        max_rows=max_rows,
        random_state=random_state,
        groups=None if groups is None else group_codes(groups, len(rows)),
    )


@one_thread()
def compare_with_number(
    X: NDArray[Any],
    numbers: Measurements,
    *,
    n_permutations: int = 200,
    max_rows: int = 4000,
    random_state: Any = 0,
    groups: NDArray[np.int64] | None = None,
    strata: NDArray[np.int64] | None = None,
) -> TwoSampleTest:
    """``independence_test`` of rows and numbers that are checked; with strata, within each."""
    kernels = _checked(BANDWIDTHS, METRICS, n_permutations, max_rows, 1)
    rng = generator(random_state)
    if groups is None:
        chosen = np.sort(rng.permutation(len(X))[:max_rows])
    else:
        chosen = _sample_of_groups(number_bins(numbers.coordinates), groups, max_rows, rng)
    among = None if groups is None else np.unique(groups[chosen], return_inverse=True)[1]
    within = None if strata is None else strata[chosen]
    features = _number_features(numbers.take(chosen))
    shuffled = row_shuffler(numbers.coordinates[chosen], among, within)
    rows = [np.arange(len(chosen)), *(shuffled(rng) for _ in range(n_permutations))]
    permuted = np.stack([_centred(features[taken], among, within) for taken in rows], axis=1)
    sums = [
        _quadratic_forms(
            _in_metric(X[chosen].astype(np.float64), metric), permuted, kernels, among, within
        )
        for metric in METRICS
    ]
    return _outcome(np.concatenate(sums), len(chosen), n_permutations)


def _number_features(numbers: Measurements) -> NDArray[np.float64]:
    """Waves of the ranks of each number, (n, m)."""
    from scipy.stats import rankdata

    angles = np.pi * (rankdata(numbers.coordinates, axis=0) - 0.5) / len(numbers)
    return np.hstack([np.cos(k * angles) / k for k in range(1, 5)])


def _centred(
    features: NDArray[np.float64],
    groups: NDArray[np.int64] | None,
    strata: NDArray[np.int64] | None,
) -> NDArray[np.float32]:
    """Features without their mean, every group counted alike; within strata, that of each."""
    weights = np.ones(len(features)) if groups is None else 1.0 / np.bincount(groups)[groups]
    which = np.zeros(len(features), dtype=np.int64) if strata is None else strata
    totals = np.maximum(np.bincount(which, weights=weights), 1e-300)
    means = [np.bincount(which, weights=weights * f) / totals for f in features.T]
    return (features - np.stack(means, axis=1)[which]).astype(np.float32)


def _quadratic_forms(
    Y: Tensor,
    permuted: NDArray[np.float32],
    bandwidths: tuple[float, ...],
    groups: NDArray[np.int64] | None,
    strata: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """Σᵢⱼ K(xᵢ, xⱼ) ψᵢ·ψⱼ for every bandwidth and permutation of the features ψ: (M, 1 + B)."""
    n, n_permuted, m = permuted.shape
    group = torch.arange(n) if groups is None else torch.as_tensor(groups)
    alike = 1.0 / torch.bincount(group)[group].float()
    features = torch.as_tensor(permuted).flatten(1) * alike[:, None]  # (n, (1 + B)·m)
    stratum = torch.zeros(n, dtype=torch.int64) if strata is None else torch.as_tensor(strata)
    sums = torch.zeros(len(bandwidths), n_permuted, dtype=torch.float64)
    for j in range(0, n, TILE_ROWS):
        right = slice(j, j + TILE_ROWS)
        for i, b, kernel in _kernels(Y, j, bandwidths, group):
            left = slice(i, i + TILE_ROWS)
            kernel.masked_fill_(stratum[left, None] != stratum[right], 0.0)
            found = (kernel @ features[right] * features[left]).sum(dim=0)
            sums[b] += (1 if i == j else 2) * found.view(n_permuted, m).sum(dim=1)
    return sums.numpy()


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
    strata: NDArray[np.int64] | None = None,
) -> TwoSampleTest:
    """``two_sample_test`` of rows that are checked and labels that are encoded.

    With strata, classes are compared and permuted within each: their labels must be those of the
    cells of stratum and class.
    """
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
    shuffled = shuffler(codes, among, None if strata is None else strata[chosen])
    permuted = np.stack([codes, *(shuffled(rng) for _ in range(n_permutations))])
    similarity = [
        _within_similarity(_in_metric(rows[chosen], metric), permuted, kernels, among)
        for metric in metrics
    ]
    return _outcome(np.concatenate(similarity), len(codes), n_permutations)


def _outcome(sums: NDArray[np.float64], n_rows: int, n_permutations: int) -> TwoSampleTest:
    standard = _standardised(sums).max(axis=0)  # (1 + B,)
    extreme = int((standard[1:] >= standard[0] - _TIE).sum())
    return TwoSampleTest(
        p_value=(1 + extreme) / (1 + n_permutations),
        statistic=float(standard[0]),
        n_rows=n_rows,
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
    for j in range(0, len(Y), TILE_ROWS):
        right_codes = codes[j : j + TILE_ROWS]
        indicators = torch.nn.functional.one_hot(right_codes, len(weights)).flatten(1).float()
        indicators *= alike[j : j + TILE_ROWS, None]
        for i, m, kernel in _kernels(Y, j, bandwidths, group):
            left_codes = codes[i : i + TILE_ROWS]
            found = (kernel @ indicators).view(*left_codes.shape, -1)  # (rows, 1 + B, K)
            same = found.gather(2, left_codes[:, :, None]).squeeze(2)
            same *= alike[i : i + TILE_ROWS, None]
            sums[m] += (1 if i == j else 2) * (same * weights[left_codes]).sum(dim=0)
    return sums.numpy()


def _kernels(
    Y: Tensor, j: int, bandwidths: tuple[float, ...], group: Tensor
) -> Iterator[tuple[int, int, Tensor]]:
    """The tiles of column j from the top to the diagonal, for every bandwidth by its number."""
    right = Y[j : j + TILE_ROWS]
    for i in range(0, j + 1, TILE_ROWS):
        squared = torch.cdist(Y[i : i + TILE_ROWS], right).square_()
        same_group = group[i : i + TILE_ROWS, None] == group[j : j + TILE_ROWS]
        for m, bandwidth in enumerate(bandwidths):
            yield i, m, _centred_kernel(squared, bandwidth).masked_fill_(same_group, 0.0)


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
