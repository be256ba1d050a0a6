"""Class statistics: mergeable, in float64, and what is derived from them.

Counts, class means and scatter matrices are sufficient for LEACE, moment matching, whitening and
the closed-form start. Two parts of a data set merge exactly (Chan et al. 1983), so that streams,
files and processes each collect their own and add them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from unspot.machine import in_threads

__all__ = ["ClassStatistics", "CrossStatistics", "mean_difference_basis", "support", "whitening"]

Array = NDArray[np.float64]
Statistics = TypeVar("Statistics", "ClassStatistics", "CrossStatistics")
CHUNK_ROWS = 16_384
#: Rows that stay in the cache while they are copied, centred and multiplied.
BLOCK_ROWS = 4_096
#: The memory that the chunks which are worked on at the same time may take.
CHUNKS_BYTES = 2**30
#: From so many rows of single precision on, sums over blocks are taken in single precision: the
#: rounding errors of blocks are independent and average out. Few blocks would not, and cost little.
SINGLE_ROWS = 65_536
#: The least eigenvalue, of scatter in units of the columns' own, that single precision is trusted
#: with. Its errors are some 1e-8: of less they would be a part that matters.
SINGLE_LEAST = 1e-5
#: Up to so many classes, a dense product sums the rows of each; of more, a sparse one.
FEW_CLASSES = 16


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Counts, means and scatter of K classes in d dimensions.

    Parameters
    ----------
    counts : (K,) int64
    means : (K, d) float64
    within : (d, d) float64
        Scatter around the class means, summed over classes.
    class_scatter : (K, d, d) float64, optional
        The same for every class on its own; K·d² memory, so only where a method needs it.

    Examples
    --------
    >>> X, z = np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])
    >>> both = ClassStatistics.from_rows(X, z, 2)
    >>> parts = ClassStatistics.from_rows(X[:1], z[:1], 2).merge(
    ...     ClassStatistics.from_rows(X[1:], z[1:], 2))
    >>> both.means.ravel(), parts.means.ravel()
    (array([1., 5.]), array([1., 5.]))
    """

    counts: NDArray[np.int64]
    means: Array
    within: Array
    class_scatter: Array | None = None

    @classmethod
    def empty(cls, n_classes: int, n_features: int, *, per_class: bool = True) -> ClassStatistics:
        """Statistics of no rows."""
        d = n_features
        return cls(
            np.zeros(n_classes, dtype=np.int64),
            np.zeros((n_classes, d)),
            np.zeros((d, d)),
            np.zeros((n_classes, d, d)) if per_class else None,
        )

    @classmethod
    def from_rows(
        cls, X: Any, codes: NDArray[Any], n_classes: int, *, per_class: bool = True
    ) -> ClassStatistics:
        """One pass over an array or a ``RowSource``. O(nd²) time, O(d²) memory (K·d² per class).

        Chunks of rows are worked on in several threads and merged in their order.
        Sums are in float64, but for many rows of single precision: there sums over blocks of
        4096 rows, shifted near their mean if that is far, are in single precision and only their
        total in float64. That halves the time and leaves errors of some 1e-8 of the variances.
        Where columns together nearly determine another, so that the variance that matters may be
        that small, a second pass has all sums in float64.
        """
        low = np.dtype(X.dtype).kind == "f" and np.dtype(X.dtype).itemsize <= 4
        if low and not per_class and X.shape[0] >= SINGLE_ROWS:
            total = _collected(_of_single_chunk, X, codes, n_classes, n_rows=CHUNK_ROWS)
            if _is_well_spread(total):
                return total
        of = partial(_of_chunk, per_class=per_class)
        return _collected(of, X, codes, n_classes, per_class=per_class)

    def merge(self, other: ClassStatistics) -> ClassStatistics:
        """Statistics of the rows of both."""
        if self.means.shape != other.means.shape:
            raise ValueError(
                f"Got statistics of shapes {self.means.shape} and {other.means.shape}, but "
                "expected the same classes and features."
            )
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1)
        delta = other.means - self.means
        means = self.means + delta * share[:, None]
        # What merging two groups of one class adds to its scatter: a rank-one term.
        weight = self.counts * share
        within = self.within + other.within + (delta * weight[:, None]).T @ delta
        class_scatter = None
        if self.class_scatter is not None and other.class_scatter is not None:
            between = weight[:, None, None] * delta[:, :, None] * delta[:, None, :]
            class_scatter = self.class_scatter + other.class_scatter + between
        return ClassStatistics(counts, means, within, class_scatter)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> Array:
        """The mean of all rows, (d,)."""
        result: Array = self.counts @ self.means / max(self.n_rows, 1)
        return result

    @property
    def covariance(self) -> Array:
        """The covariance of all rows, divided by n, (d, d)."""
        centred = self.means - self.mean
        between = (centred * self.counts[:, None]).T @ centred
        result: Array = (self.within + between) / max(self.n_rows, 1)
        return result

    @property
    def class_covariances(self) -> Array:
        """The covariance of every class, divided by its count, (K, d, d)."""
        if self.class_scatter is None:
            raise ValueError("Got statistics without class scatter; collect with per_class=True.")
        result: Array = self.class_scatter / np.maximum(self.counts, 1)[:, None, None]
        return result

    @property
    def cross_covariance(self) -> Array:
        """Cov(x, onehot(z)), (d, K)."""
        result: Array = ((self.means - self.mean) * self.counts[:, None]).T / max(self.n_rows, 1)
        return result


def _worked(
    work: Callable[[tuple[NDArray[Any], NDArray[Any]]], Statistics],
    X: Any,
    labels: NDArray[Any],
    n_rows: int,
    n_scatters: int = 1,
) -> Iterator[Statistics]:
    """The statistics of every chunk of ``n_rows`` rows, in order."""
    n, d = X.shape
    chunks = _chunks(X, labels, n_rows)
    if n <= n_rows:
        return map(work, chunks)
    # A chunk has its rows, two copies of them in double precision, and its scatter.
    bytes_of_chunk = 8 * d * (3 * n_rows + 2 * n_scatters * d)
    return in_threads(work, chunks, most=CHUNKS_BYTES // bytes_of_chunk)


def _chunks(
    X: Any, labels: NDArray[Any], n_rows: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Chunks of rows with their labels; a source reads its own, in the order of its files."""
    array = isinstance(X, np.ndarray)
    parts = (X[i : i + n_rows] for i in range(0, len(X), n_rows)) if array else X.chunks(n_rows)
    start = 0
    for rows in parts:
        yield rows, labels[start : start + len(rows)]
        start += len(rows)


def _of_chunk(
    X: NDArray[Any], codes: NDArray[Any], n_classes: int, per_class: bool
) -> ClassStatistics:
    X, d = X.astype(np.float64, copy=False), X.shape[1]
    counts = np.bincount(codes, minlength=n_classes)
    means = _class_sums(X, codes, n_classes) / np.maximum(counts, 1)[:, None]
    centred = X - means[codes]
    if not per_class:
        return ClassStatistics(counts, means, centred.T @ centred)
    scatter = np.zeros((n_classes, d, d))
    for k in np.flatnonzero(counts):
        rows = centred[codes == k]
        scatter[k] = rows.T @ rows
    return ClassStatistics(counts, means, scatter.sum(0), scatter)


def _collected(
    of: Callable[[NDArray[Any], NDArray[Any], int], ClassStatistics],
    X: Any,
    codes: NDArray[Any],
    n_classes: int,
    *,
    n_rows: int = BLOCK_ROWS,
    per_class: bool = False,
) -> ClassStatistics:
    """The statistics of all chunks, merged in their order."""
    total = ClassStatistics.empty(n_classes, X.shape[1], per_class=per_class)
    n_scatters = n_classes if per_class else 1
    for part in _worked(lambda chunk: of(*chunk, n_classes), X, codes, n_rows, n_scatters):
        total = total.merge(part)
    return total


def _is_well_spread(statistics: ClassStatistics) -> bool:
    """Whether all eigenvalues within classes, in units of the columns', are above SINGLE_LEAST."""
    variances = np.diagonal(statistics.covariance) * statistics.n_rows
    varies = variances > 0
    scale = np.sqrt(variances[varies])
    shares = statistics.within[np.ix_(varies, varies)] / scale / scale[:, None]
    try:  # a tenth of the cost of the eigenvalues
        np.linalg.cholesky(shares - SINGLE_LEAST * np.eye(len(scale)))
    except np.linalg.LinAlgError:
        return False
    return True


def _of_single_chunk(X: NDArray[Any], codes: NDArray[Any], n_classes: int) -> ClassStatistics:
    X, d = X.astype(np.float32, copy=False), X.shape[1]
    shift = _shift(X)
    sums, scatter = np.zeros((n_classes, d)), np.zeros((d, d))
    buffer = np.empty((BLOCK_ROWS, d), X.dtype)
    for start in range(0, len(X), BLOCK_ROWS):
        block, part = X[start : start + BLOCK_ROWS], codes[start : start + BLOCK_ROWS]
        if shift is not None:
            block = np.subtract(block, shift, out=buffer[: len(block)])
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scatter += block.T @ block
            sums += _class_sums(block, part, n_classes)
    if not 1e-24 < np.trace(scatter) < np.inf:  # squares do not fit single precision
        return _of_chunk(X, codes, n_classes, False)
    counts = np.bincount(codes, minlength=n_classes)
    offsets = sums / np.maximum(counts, 1)[:, None]
    means = offsets if shift is None else offsets + shift
    return ClassStatistics(counts, means, scatter - sums.T @ offsets)


def _shift(X: NDArray[Any]) -> NDArray[Any] | None:
    """Roughly where the rows are, if that is far enough from zero for squares to cancel."""
    some = X[:: max(1, len(X) // 256)].astype(np.float64)
    mean = some.mean(axis=0)
    if np.all(mean**2 <= 0.25 * some.var(axis=0)):
        return None
    shift: NDArray[Any] = mean.astype(X.dtype)
    return shift


def _class_sums(X: NDArray[Any], codes: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Sums of the rows of every class, (K, d)."""
    if n_classes <= FEW_CLASSES:
        members: Any = (codes == np.arange(n_classes)[:, None]).astype(X.dtype)
    else:  # O(nd) for any number of classes
        order = np.argsort(codes, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_classes))])
        members = csr_array((np.ones(len(X), X.dtype), order, ends), shape=(n_classes, len(X)))
    result: NDArray[Any] = members @ X
    return result


@dataclass(frozen=True, eq=False)
class CrossStatistics:
    """Mean and scatter of rows x and of a continuous concept z together: mergeable."""

    n_rows: int
    n_features: int
    joint_mean: Array  # (d + m,), of (x, z)
    joint_scatter: Array  # (d + m, d + m)

    @classmethod
    def from_rows(cls, X: Any, Z: NDArray[Any]) -> CrossStatistics:
        """One pass over an array or a ``RowSource``. O(n(d + m)²) time."""
        d, width = X.shape[1], X.shape[1] + Z.shape[1]
        total = cls(0, d, np.zeros(width), np.zeros((width, width)))

        def of(chunk: tuple[NDArray[Any], NDArray[Any]]) -> CrossStatistics:
            J = np.hstack(chunk, dtype=np.float64)
            mean = J.mean(axis=0)
            return cls(len(J), d, mean, (J - mean).T @ (J - mean))

        for part in _worked(of, X, Z, BLOCK_ROWS):
            total = total.merge(part)
        return total

    def merge(self, other: CrossStatistics) -> CrossStatistics:
        """Statistics of the rows of both."""
        mine, others = (s.joint_mean.size - s.n_features for s in (self, other))
        if (self.n_features, mine) != (other.n_features, others):
            raise ValueError(
                f"Got statistics of {self.n_features} and {other.n_features} features and of "
                f"{mine} and {others} values of the concept, but expected the same of both."
            )
        n = self.n_rows + other.n_rows
        share = other.n_rows / max(n, 1)
        delta = other.joint_mean - self.joint_mean
        scatter = self.joint_scatter + other.joint_scatter
        scatter += self.n_rows * share * np.outer(delta, delta)
        return CrossStatistics(n, self.n_features, self.joint_mean + share * delta, scatter)

    @property
    def mean(self) -> Array:
        """The mean of x, (d,)."""
        return self.joint_mean[: self.n_features]

    @property
    def covariance(self) -> Array:
        """Cov(x), divided by n, (d, d)."""
        d = self.n_features
        return self.joint_scatter[:d, :d] / max(self.n_rows, 1)

    @property
    def concept_varies(self) -> bool:
        return bool(np.any(np.diagonal(self.joint_scatter)[self.n_features :] > 0))

    @property
    def cross_covariance(self) -> Array:
        """Cov(x, z) with z in units of its standard deviation, (d, m)."""
        d = self.n_features
        n = max(self.n_rows, 1)
        spread = np.sqrt(np.diagonal(self.joint_scatter)[d:] / n)
        return self.joint_scatter[:d, d:] / n / np.where(spread > 0, spread, 1.0)


def whitening(
    covariance: Array, *, rtol: float = 1e-10, invertible: bool = False
) -> tuple[Array, Array]:
    """W and W⁻¹, (d, d): rows times W have unit covariance, and times W⁻¹ are as they were.

    W = D⁻¹R^(−½) with the deviations D of the columns and their correlations R, so that the unit
    of no column matters. A direction counts as without variance when its eigenvalue of R is below
    ``rtol`` times the largest; it is mapped to zero, or, with ``invertible``, left in the units of
    the columns.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    scale = np.where(deviations > 0, deviations, 1.0)
    R = covariance / scale / scale[:, None]
    values, vectors = np.linalg.eigh((R + R.T) / 2)
    kept = values > rtol * max(values[-1], 0.0)
    other = 1.0 if invertible else 0.0
    root = np.sqrt(np.where(kept, values, other))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    W = (vectors * inverse) @ vectors.T / scale[:, None]
    return W, (vectors * root) @ vectors.T * scale


def support(mean: Array, covariance: Array, n_rows: int, *, rtol: float = 1e-10) -> Array | None:
    """Orthonormal basis (d, s) of the directions in which rows vary, or None if they all do.

    Rows of a constant column, of two equal columns, or whose features add up to a constant do not
    vary in some direction. As in ``whitening``, the unit of a column does not matter. Fewer rows
    than features cannot tell, and then the answer is None.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    live = deviations > 1e-13 * np.abs(mean)  # below, the rounding errors of a constant
    scale = deviations[live]
    R = covariance[np.ix_(live, live)] / scale / scale[:, None]
    values, vectors = np.linalg.eigh((R + R.T) / 2)
    flat = values <= rtol * max(values[-1], 0.0) if len(values) else values > 0
    rank = int(np.sum(~flat))
    if rank == len(live) or rank >= n_rows - 1:
        return None
    null = vectors[:, flat] / scale[:, None]
    full, _ = np.linalg.qr(null / np.linalg.norm(null, axis=0), mode="complete")
    S = np.zeros((len(live), rank))
    S[live] = full[:, null.shape[1] :] if null.size else np.eye(rank)
    return S


def mean_difference_basis(statistics: ClassStatistics, *, rtol: float = 1e-6) -> Array:
    """Orthonormal basis (d, q) of span{μₖ − μ}, q its numerical rank, at most K − 1.

    Directions are kept in which the means differ by ``rtol`` of the deviation within classes:
    classes whose means agree up to rounding do not cost a dimension, and those that are far apart
    do not hide the others.
    """
    centred = (statistics.means - statistics.mean)[statistics.counts > 0]
    left, values, _ = np.linalg.svd(centred.T, full_matrices=False)
    if not len(values):
        return left
    within = np.einsum("dq,de,eq->q", left, statistics.within, left) / max(statistics.n_rows, 1)
    overall = np.sqrt(np.trace(statistics.covariance))
    rounding = max(1e-14 * values[0], 1e-14 * overall, np.finfo(float).tiny)
    kept = (values > rtol * np.sqrt(np.maximum(within, 0.0))) & (values > rounding)
    return np.ascontiguousarray(left[:, kept][:, : max(len(centred) - 1, 0)])
