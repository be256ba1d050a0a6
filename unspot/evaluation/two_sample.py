"""Permutation tests: do classes still differ, or rows and a number depend, as kernels can see?

The statistic is MMD² between the classes, for several bandwidths and in two metrics; the largest
of them, each in units of its own permutations, decides. Labels are permuted over the pooled rows,
so the p-value is valid at any number of rows, whatever the law and however many kernels. Rows in
groups are compared with rows of other groups only, every group counts alike, and labels go from
group to group. For a number the statistic is HSIC with waves of its ranks. Both are one sum over
pairs of rows: the kernel times the product of features of the concept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.checks import check_count
from unspot.data.concept import read
from unspot.data.groups import group_codes, row_shuffler
from unspot.data.rows import balanced_counts, generator
from unspot.evaluation.attack_models import whitened
from unspot.leopard.kernels import TILE_ROWS, mean_bandwidth
from unspot.machine import one_thread

Codes = NDArray[np.int64]

#: Statistics closer than this share of their spread are ties: rounding, not evidence.
_TIE = 1e-4

#: Distances of the rows as they are, and of whitened coordinates.
METRICS = ("raw", "whitened")

#: From kernels that see only the nearest rows to one that sees little but the mean.
BANDWIDTHS = tuple(4.0**k for k in range(-3, 2))


@dataclass(frozen=True)
class TwoSampleTest:
    """Result of the two-sample test.

    Attributes
    ----------
    p_value : float
        (1 + number of permutations at least as extreme) / (1 + number of permutations).
    statistic : float
        The largest MMD² over kernels, in standard deviations of its permutations.
    n_rows, n_permutations : int
        Number of rows and of permutations.
    """

    p_value: float
    statistic: float
    n_rows: int
    n_permutations: int


@one_thread()
def two_sample_test(
    X: Any,
    z: Any,
    *,
    kind: str | None = None,
    n_permutations: int = 200,
    max_rows: int = 4000,
    random_state: Any = 0,
    groups: Any = None,
    strata: Codes | None = None,
) -> TwoSampleTest:
    """Test whether classes have the same law, or whether rows are independent of a number.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Embeddings.
    z : array-like of shape (n,) or (n, m)
        Labels of any type, two or more classes of at least two rows each; or numbers.
    kind : {"categories", "continuous"}, optional
        Fractional numbers are continuous, all other values are labels.
    n_permutations : int
        The smallest p-value is 1 / (1 + n_permutations).
    max_rows : int
        More rows than this are sampled down, the classes as evenly as they have rows; in groups,
        every group to as many rows.
    random_state : int, Generator or None
        Decides sample and permutations.
    groups : array-like of shape (n,), optional
        Groups of rows, such as the author of each text: labels are permuted by group.
    strata : array of int of shape (n,), optional
        Rows are compared within each of these only. Rows that are alone with their class in a
        stratum cannot be compared, and are left out.

    Notes
    -----
    Kernels are exp(−d²/(mσ²)), with m from 1/64 to 4 and σ² the mean squared distance of all pairs:
    of the rows as they are, and of whitened coordinates, where directions of low variance count as
    much as the others, down to the rounding errors of the rows.

    A copy of a row has the row's label, which no permutation of rows repeats: equal rows count
    once. Where most rows have an equal one, as rows of a few bits, they are no copies: all count.

    With pair weights nₖnₗ/n, the sum of MMD² over pairs of classes is, up to a constant,
    Σₖ Sₖₖ/(nₖ − 1) with Sₖₖ the sum of the kernel inside class k: one product of a kernel tile
    with the stacked indicators of all permutations. For a number, features are four waves
    √2 cos(πku)/k of its ranks u, each of which is large where a MMD² between low and high values
    would be. O(n²(d + B·K)) time for each kernel, O(nd + n·B·K) memory: no n×n matrix is held.

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

    X = check_array(X, dtype=np.float64, input_name="X")
    concept = read(z, n_rows=len(X), kind=kind)
    groups = None if groups is None else group_codes(groups, len(X))
    used = _distinct(X)
    if strata is not None:
        used = used[_FEATURES[concept.kind].comparable(concept.take(used), strata[used])]
        strata = strata[used]
    X, concept = X[used], concept.take(used)
    groups = None if groups is None else groups[used]
    concept.refuse_few_rows("z")
    check_count("n_permutations", n_permutations)
    check_count("max_rows", max_rows, least=2 * n_features_of(concept))
    rng = generator(random_state)
    features = _FEATURES[concept.kind](concept, groups, strata)
    chosen = _sample(features.cells, groups, max_rows, rng)
    among = None if groups is None else np.unique(groups[chosen], return_inverse=True)[1]
    within = None if strata is None else strata[chosen]
    permuted = features.permuted(chosen, among, within, n_permutations, rng)
    sums = [
        _quadratic_forms(_in_metric(X[chosen], metric), permuted, BANDWIDTHS, among, within)
        for metric in METRICS
    ]
    standard = _standardised(np.concatenate(sums)).max(axis=0)  # (1 + B,)
    extreme = int((standard[1:] >= standard[0] - _TIE).sum())
    p_value = (1 + extreme) / (1 + n_permutations)
    return TwoSampleTest(p_value, float(standard[0]), len(chosen), int(n_permutations))


def _distinct(X: NDArray[np.float64]) -> Codes:
    """Select the first of equal rows, or all rows where most have an equal one."""
    first: dict[bytes, int] = {}
    for i, row in enumerate(X):
        first.setdefault(row.tobytes(), i)
    rows = np.fromiter(first.values(), dtype=np.int64)
    return rows if 2 * len(rows) > len(X) else np.arange(len(X))


def n_features_of(concept: Any, strata: Codes | None = None) -> int:
    """Count the features of a concept, on which the cost of a test depends."""
    n_strata = 1 if strata is None else len(np.unique(strata))
    return _FEATURES[concept.kind].width(concept) * n_strata


# -- Features of the concept, observed and permuted ------------------------------------------------


class _ClassFeatures:
    """Indicators of classes, weighted so that the sum over pairs is Σₖ Sₖₖ/(nₖ − 1).

    Strata have classes of their own.
    """

    def __init__(self, concept: Any, groups: Codes | None, strata: Codes | None) -> None:
        self.cells = concept.codes  # cells that rows are sampled from
        if strata is not None:
            cells = strata * len(concept.classes) + concept.codes
            self.cells = np.unique(cells, return_inverse=True)[1]

    @staticmethod
    def width(concept: Any) -> int:
        """Count the features."""
        return len(concept.classes)

    @staticmethod
    def comparable(concept: Any, strata: Codes) -> Codes:
        """Select the rows that are not alone with their class in a stratum."""
        cells = strata * len(concept.classes) + concept.codes
        return np.flatnonzero(np.bincount(cells)[cells] > 1)

    def permuted(
        self, chosen: Codes, groups: Codes | None, strata: Codes | None, n: int, rng: Any
    ) -> NDArray[np.float32]:
        """Compute features of the chosen rows, observed and n times permuted: (rows, 1 + n, m)."""
        codes = self.cells[chosen]
        weights = _class_weights(codes, np.arange(len(codes)) if groups is None else groups)
        indicators = np.diag(np.sqrt(weights)).astype(np.float32)
        return indicators[codes[_orders(codes, groups, strata, n, rng)].T]


class _NumberFeatures(_ClassFeatures):
    """Centred waves of the ranks of numbers."""

    def __init__(self, concept: Any, groups: Codes | None, strata: Codes | None) -> None:
        self.cells = concept.bins(1 if groups is None else 10)
        self.numbers = concept.coordinates

    @staticmethod
    def width(concept: Any) -> int:
        return 4 * int(concept.coordinates.shape[1])

    @staticmethod
    def comparable(concept: Any, strata: Codes) -> Codes:
        return np.arange(len(concept))

    def permuted(
        self, chosen: Codes, groups: Codes | None, strata: Codes | None, n: int, rng: Any
    ) -> NDArray[np.float32]:
        from scipy.stats import rankdata

        numbers = self.numbers[chosen]
        angles = np.pi * (rankdata(numbers, axis=0) - 0.5) / len(numbers)
        waves = np.hstack([np.cos(k * angles) / k for k in range(1, 5)])
        orders = _orders(numbers, groups, strata, n, rng)
        return np.stack([_centred(waves[rows], groups, strata) for rows in orders], axis=1)


#: Features by the kind of the concept.
_FEATURES = {"categories": _ClassFeatures, "continuous": _NumberFeatures}


def _orders(
    values: NDArray[Any], groups: Codes | None, strata: Codes | None, n: int, rng: Any
) -> Codes:
    """Draw row numbers of n permutations, after those of the observed order: (1 + n, rows)."""
    shuffled = row_shuffler(values, groups, strata)
    return np.stack([np.arange(len(values)), *(shuffled(rng) for _ in range(n))])


def _centred(
    features: NDArray[np.float64], groups: Codes | None, strata: Codes | None
) -> NDArray[np.float32]:
    """Centre features (per stratum), weighting groups equally."""
    weights = np.ones(len(features)) if groups is None else 1.0 / np.bincount(groups)[groups]
    which = np.zeros(len(features), dtype=np.int64) if strata is None else strata
    totals = np.maximum(np.bincount(which, weights=weights), 1e-300)
    means = [np.bincount(which, weights=weights * f) / totals for f in features.T]
    return (features - np.stack(means, axis=1)[which]).astype(np.float32)


# -- Sums over pairs of rows -----------------------------------------------------------------------


def _quadratic_forms(
    Y: Tensor,
    permuted: NDArray[np.float32],
    bandwidths: tuple[float, ...],
    groups: Codes | None,
    strata: Codes | None,
) -> NDArray[np.float64]:
    """Sum K(xᵢ, xⱼ) ψᵢ·ψⱼ over pairs, by bandwidth and permutation of features ψ: (M, 1 + B).

    In groups, a row counts as its group's share of it, and pairs of one group do not count: they
    are alike because of the group.
    """
    n, n_permuted, m = permuted.shape
    group = torch.arange(n) if groups is None else torch.as_tensor(groups)
    alike = 1.0 / torch.bincount(group)[group].float()
    features = torch.as_tensor(permuted).flatten(1) * alike[:, None]  # (n, (1 + B)·m)
    stratum = None if strata is None else torch.as_tensor(strata)
    sums = torch.zeros(len(bandwidths), n_permuted, dtype=torch.float64)
    for j in range(0, n, TILE_ROWS):
        right = slice(j, j + TILE_ROWS)
        for i, b, kernel in _kernels(Y, j, bandwidths, group):
            left = slice(i, i + TILE_ROWS)
            if stratum is not None:
                kernel.masked_fill_(stratum[left, None] != stratum[right], 0.0)
            total = (kernel @ features[right]).mul_(features[left]).sum(dim=0)
            sums[b] += (1 if i == j else 2) * total.view(n_permuted, m).sum(dim=1)
    return sums.numpy()


def _sample(cells: Codes, groups: Codes | None, max_rows: int, rng: np.random.Generator) -> Codes:
    """Draw rows of all cells alike; in groups, as many of each group as fit, then some groups."""
    if groups is not None:
        order = np.lexsort((rng.random(len(cells)), groups))
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        place = np.empty_like(cells)  # random position of a row in its group
        place[order] = np.arange(len(cells)) - np.repeat(starts, np.diff(starts, append=len(cells)))
        rows_up_to = np.cumsum(np.bincount(place))  # if each group gives at most 1, 2, … rows
        most = max(1, int(np.searchsorted(rows_up_to, max_rows, side="right")))
        chosen = np.flatnonzero(place < most)
        if len(chosen) <= max_rows:
            return chosen
        return chosen[_sample(cells[chosen], None, max_rows, rng)]
    counts = balanced_counts(np.bincount(cells), max_rows)
    drawn = [rng.permutation(np.flatnonzero(cells == k))[:n] for k, n in enumerate(counts)]
    return np.sort(np.concatenate(drawn))


def _in_metric(X: NDArray[np.float64], metric: str) -> Tensor:
    """Centre rows and scale them to unit mean squared distance, in single precision."""
    rows = torch.as_tensor(whitened(X)(X) if metric == "whitened" else X - X.mean(axis=0))
    sigma2 = float(mean_bandwidth(rows))
    return (rows / sigma2**0.5 if sigma2 > 0 else rows).float()


def _kernels(
    Y: Tensor, j: int, bandwidths: tuple[float, ...], group: Tensor
) -> Iterator[tuple[int, int, Tensor]]:
    """Yield the tiles of column j from the top to the diagonal, for every bandwidth."""
    right = Y[j : j + TILE_ROWS]
    for i in range(0, j + 1, TILE_ROWS):
        squared = torch.cdist(Y[i : i + TILE_ROWS], right).square_()
        same_group = group[i : i + TILE_ROWS, None] == group[j : j + TILE_ROWS]
        for m, bandwidth in enumerate(bandwidths):
            # Subtracting a constant shifts all permutations equally and preserves precision.
            kernel = torch.exp(squared / -bandwidth).sub_(float(np.exp(-1 / bandwidth)))
            yield i, m, kernel.masked_fill_(same_group, 0.0)


def _class_weights(codes: Codes, groups: Codes) -> NDArray[np.float64]:
    """Divide rows by pairs of rows of different groups in each class: 1/(nₖ − 1) without groups."""
    K = int(codes.max()) + 1
    cells, members = np.unique(groups * K + codes, return_counts=True)
    shares = members / np.bincount(groups)[cells // K]  # share of a class in a group
    n, squares = (np.bincount(cells % K, weights=w) for w in (shares, shares**2))
    pairs = n**2 - squares
    return np.divide(n, pairs, out=np.zeros_like(n), where=pairs > 1e-9)


def _standardised(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide by the spread of each kernel over observed and permuted labels together.

    The observed labels are one of the pool, so that they and the permutations stay exchangeable.
    """
    centred = sums - sums.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    flat = spread <= 1e-6 * np.abs(sums).max(axis=1, keepdims=True)
    return np.where(flat, 0.0, centred / np.where(flat, 1.0, spread))
