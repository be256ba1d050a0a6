"""Counts, means and scatter of classes in float64, and what is computed from them.

These statistics are all that LEACE, moment matching, whitening and the closed-form start need. The
statistics of two parts of a data set merge exactly (Chan et al. 1983), so streams, files and
processes can each collect their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unspot.machine import in_threads

Array = NDArray[np.float64]
Statistics = TypeVar("Statistics", "ClassStatistics", "CrossStatistics")
#: Rows of a chunk in single precision, which is summed block by block.
CHUNK_ROWS = 16_384
#: Rows that fit into the cache while they are copied, centred and multiplied.
BLOCK_ROWS = 4_096
#: The memory for all chunks that threads work on at the same time.
CHUNKS_BYTES = 2**30
#: From this number of rows on, sums over blocks of float32 rows are in single precision. The
#: rounding errors of many blocks are independent and average out; few blocks cost little anyway.
SINGLE_ROWS = 16_384
#: The smallest eigenvalue of the scatter, in units of the columns' own scatter, for which single
#: precision is accurate enough: its errors are about 1e-8.
SINGLE_LEAST = 1e-5
#: Up to this number of classes, rows are summed by a dense product, else by a sparse one.
FEW_CLASSES = 16
#: A column that varies less than this, in deviations of the typical column, holds next to nothing:
#: 1e-8 of its variance.
NEGLIGIBLE = 1e-4
#: Up to 64 steps of half precision near zero, and of single precision elsewhere: a column that
#: varies less, relative to its mean or absolutely, may show the grid that its numbers lie on.
FEW_STEPS = 2.0**-18
#: Columns whose spreads differ by more than this are hardly in one unit.
MAX_RATIO = 100
#: A column is on a grid if at least this share of values repeats the previous row's.
REPEATED = 0.01


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
        Scatter of every class separately. Takes K·d² memory, so only if a method needs it.
    repeats : (d,) int64, or 0 for none
        For columns that hardly vary: how many rows have the value of the row before. ``settled``
        needs them.

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
    repeats: Any = 0

    @classmethod
    def empty(cls, n_classes: int, n_features: int, *, per_class: bool = True) -> ClassStatistics:
        """Create the statistics of no rows."""
        d = n_features
        return cls(
            np.zeros(n_classes, dtype=np.int64),
            np.zeros((n_classes, d)),
            np.zeros((d, d)),
            np.zeros((n_classes, d, d)) if per_class else None,
            np.zeros(d, dtype=np.int64),
        )

    @classmethod
    def from_rows(
        cls, X: Any, codes: NDArray[Any], n_classes: int, *, per_class: bool = True
    ) -> ClassStatistics:
        """Sum up an array or a ``RowSource`` in one pass: O(nd²) time, O(d²) memory or K·d².

        Several threads work on chunks of rows, which are merged in order. Sums are in float64,
        except for many rows of single precision. Those are summed in blocks of 4096 rows, shifted
        near their mean if that is far from zero. Sums over a block are in single precision and
        their total is in float64. This halves the time and leaves errors of about 1e-8 of the
        variances. If some columns nearly determine another one, the variance that matters may be
        that small. Then a second pass computes all sums in float64.
        """
        start = cls.empty(n_classes, X.shape[1], per_class=per_class)
        low = np.dtype(X.dtype).kind == "f" and np.dtype(X.dtype).itemsize <= 4
        if low and not per_class and X.shape[0] >= SINGLE_ROWS:
            total = _merged(
                start, lambda x, z: _of_single_chunk(x, z, n_classes), X, codes, CHUNK_ROWS
            )
            if _is_well_spread(total):
                return total
        return _merged(
            start,
            lambda x, z: _of_chunk(x, z, n_classes, per_class),
            X,
            codes,
            BLOCK_ROWS,
            n_scatters=n_classes if per_class else 1,
        )

    def merge(self, other: ClassStatistics) -> ClassStatistics:
        """Merge the statistics of two sets of rows."""
        if self.means.shape != other.means.shape:
            raise ValueError(
                f"Got statistics of shapes {self.means.shape} and {other.means.shape}, but "
                "expected the same classes and features."
            )
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1)
        delta = other.means - self.means
        means = self.means + delta * share[:, None]
        # Two groups of one class with different means add a rank-one term to its scatter.
        weight = self.counts * share
        within = self.within + other.within + (delta * weight[:, None]).T @ delta
        class_scatter = None
        if self.class_scatter is not None and other.class_scatter is not None:
            between = weight[:, None, None] * delta[:, :, None] * delta[:, None, :]
            class_scatter = self.class_scatter + other.class_scatter + between
        repeats = self.repeats + other.repeats
        return ClassStatistics(counts, means, within, class_scatter, repeats)

    def settled(self) -> ClassStatistics:
        """Replace columns that vary only by rounding with constants."""
        still, values = _moved_by_rounding(self)
        if not still.any():
            return self
        moving = np.outer(~still, ~still)
        scatter = self.class_scatter
        return replace(
            self,
            means=np.where(still, values, self.means),
            within=np.where(moving, self.within, 0.0),
            class_scatter=None if scatter is None else np.where(moving, scatter, 0.0),
        )

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> Array:
        """Mean of all rows, (d,)."""
        n = max(self.n_rows, 1)
        mean = self.counts @ self.means / n
        # The second step takes the rounding error away: of equal means, this is exactly theirs.
        return np.asarray(mean + self.counts @ (self.means - mean) / n)

    @property
    def covariance(self) -> Array:
        """The covariance of all rows, divided by n, (d, d)."""
        centred = self.means - self.mean
        between = (centred * self.counts[:, None]).T @ centred
        return np.asarray((self.within + between) / max(self.n_rows, 1))

    @property
    def class_covariances(self) -> Array:
        """The covariance of every class, divided by its count, (K, d, d)."""
        if self.class_scatter is None:
            raise ValueError("Got statistics without class scatter; collect with per_class=True.")
        return np.asarray(self.class_scatter / np.maximum(self.counts, 1)[:, None, None])

    @property
    def cross_covariance(self) -> Array:
        """Cov(x, onehot(z)), (d, K)."""
        centred = self.means - self.mean
        return np.asarray((centred * self.counts[:, None]).T / max(self.n_rows, 1))


def _merged(
    start: Statistics,
    of: Callable[[NDArray[Any], NDArray[Any]], Statistics],
    X: Any,
    labels: NDArray[Any],
    n_rows: int,
    n_scatters: int = 1,
) -> Statistics:
    """Merge the statistics of chunks of ``n_rows`` rows into ``start``, in order."""
    n, d = X.shape
    # A chunk has its rows, two copies of them in double precision, and its scatter.
    bytes_of_chunk = 8 * d * (3 * n_rows + 2 * n_scatters * d)
    most = 1 if n <= n_rows else CHUNKS_BYTES // bytes_of_chunk
    total = start
    for part in in_threads(lambda chunk: of(*chunk), _chunks(X, labels, n_rows), most=most):
        total = total.merge(part)
    return total


def _chunks(
    X: Any, labels: NDArray[Any], n_rows: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield chunks of rows with their labels, in order."""
    in_memory = isinstance(X, np.ndarray)
    parts = (X[i : i + n_rows] for i in range(0, len(X), n_rows)) if in_memory else X.chunks(n_rows)
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
        within = centred.T @ centred
        return ClassStatistics(counts, means, within, None, _repeats(X, within))
    scatter = np.zeros((n_classes, d, d))
    for k in np.flatnonzero(counts):
        rows = centred[codes == k]
        scatter[k] = rows.T @ rows
    within = scatter.sum(0)
    return ClassStatistics(counts, means, within, scatter, _repeats(X, within))


def _is_well_spread(statistics: ClassStatistics) -> bool:
    """Tell whether all eigenvalues of the within-class correlations exceed SINGLE_LEAST."""
    variances = np.diagonal(statistics.covariance) * statistics.n_rows
    varies = variances > 0
    scale = np.sqrt(variances[varies])
    shares = statistics.within[np.ix_(varies, varies)] / scale / scale[:, None]
    return exceeds(shares, SINGLE_LEAST)


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
    within = scatter - sums.T @ offsets
    return ClassStatistics(counts, means, within, None, _repeats(X, within))


def _shift(X: NDArray[Any]) -> NDArray[Any] | None:
    """Estimate the mean of the rows if it is so far from zero that squares would cancel."""
    some = X[:: max(1, len(X) // 256)].astype(np.float64)
    mean = some.mean(axis=0)
    near = np.all(mean**2 <= 0.25 * some.var(axis=0))
    return None if near else np.asarray(mean, dtype=X.dtype)


def _class_sums(X: NDArray[Any], codes: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Sum the rows of every class, (K, d)."""
    if n_classes <= FEW_CLASSES:
        members: Any = (codes == np.arange(n_classes)[:, None]).astype(X.dtype)
    else:  # O(nd) time for any number of classes
        from scipy.sparse import csr_array  # reading a concept needs no scipy

        order = np.argsort(codes, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_classes))])
        members = csr_array((np.ones(len(X), X.dtype), order, ends), shape=(n_classes, len(X)))
    return np.asarray(members @ X)


def _repeats(X: NDArray[Any], scatter: Array) -> NDArray[np.int64]:
    """Count rows that repeat the value of the row before, (d,), in columns that hardly vary."""
    repeats = np.zeros(X.shape[1], dtype=np.int64)
    deviations = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
    # These are only some of the rows: the final columns are below ten times the limit here.
    few = np.flatnonzero(deviations <= 10 * NEGLIGIBLE * _typical(deviations))
    if len(few):
        other = (X[1:] != X[:-1]).any(axis=1)  # two copies of one row tell nothing
        repeats[few] = np.count_nonzero((X[1:, few] == X[:-1, few]) & other[:, None], axis=0)
    return repeats


def _typical(deviations: Array) -> float:
    """Compute the median deviation of the columns that vary."""
    varying = deviations[deviations > 0]
    return float(np.median(varying)) if len(varying) else 0.0


def _moved_by_rounding(
    statistics: ClassStatistics | CrossStatistics,
) -> tuple[NDArray[np.bool_], Array]:
    """Find columns (d,) of rounding noise on a grid, and the constants that replace them.

    A projection can take less from such a column than the steps of its grid. Between the
    steps the column then shows what was removed, and to trees more clearly than any column did
    before. Small numbers that do not repeat are kept, and so are numbers that repeat in another
    unit, such as counts next to large amounts; but not the rounding errors of a constant.

    Constants near zero become exactly zero; otherwise normalising the rows later would reveal
    their norm.
    """
    mean, n_rows = statistics.mean, statistics.n_rows
    deviations = np.sqrt(np.maximum(np.diagonal(statistics.covariance), 0.0))
    varies = deviations > 1e-13 * np.abs(mean)
    least = NEGLIGIBLE * _typical(deviations[varies])
    few_steps = deviations <= FEW_STEPS * (1 + np.abs(mean))
    on_grid = (deviations <= least) & few_steps & (statistics.repeats >= REPEATED * max(n_rows, 1))
    still = (deviations > 0) & (~varies | on_grid)
    return still, np.where(np.abs(mean) > least, mean, 0.0)


def ratio_of_units(X: Any) -> float:
    """Compute how far the spreads of columns differ, of those that hold more than rounding."""
    some = X[:10_000].astype(np.float64) if isinstance(X, np.ndarray) else np.zeros((1, 1))
    spreads = some.std(axis=0)
    spreads = spreads[spreads > FEW_STEPS * (1 + np.abs(some.mean(axis=0)))]
    return float(spreads.max() / spreads.min()) if len(spreads) else 1.0


@dataclass(frozen=True, eq=False)
class CrossStatistics:
    """Joint mean and scatter of rows x and a continuous concept z, which can be merged."""

    n_rows: int
    n_features: int
    joint_mean: Array  # (d + m,), mean of (x, z)
    joint_scatter: Array  # (d + m, d + m)
    repeats: Any = 0  # (d,), as in ClassStatistics

    @classmethod
    def from_rows(cls, X: Any, Z: NDArray[Any]) -> CrossStatistics:
        """Sum up an array or a ``RowSource`` in one pass. O(n(d + m)²) time."""
        d, width = X.shape[1], X.shape[1] + Z.shape[1]

        def of(x: NDArray[Any], z: NDArray[Any]) -> CrossStatistics:
            J = np.hstack([x, z], dtype=np.float64)
            mean = J.mean(axis=0)
            scatter = (J - mean).T @ (J - mean)
            return cls(len(J), d, mean, scatter, _repeats(x, scatter[:d, :d]))

        start = cls(0, d, np.zeros(width), np.zeros((width, width)), np.zeros(d, dtype=np.int64))
        return _merged(start, of, X, Z, BLOCK_ROWS)

    def merge(self, other: CrossStatistics) -> CrossStatistics:
        """Merge the statistics of two sets of rows."""
        (d, m), (other_d, other_m) = (
            (s.n_features, s.joint_mean.size - s.n_features) for s in (self, other)
        )
        if (d, m) != (other_d, other_m):
            raise ValueError(
                f"Got statistics of {d} and {other_d} features, and of {m} and {other_m} values "
                "of the concept per row, but expected the same numbers in both."
            )
        n = self.n_rows + other.n_rows
        share = other.n_rows / max(n, 1)
        delta = other.joint_mean - self.joint_mean
        scatter = self.joint_scatter + other.joint_scatter
        scatter += self.n_rows * share * np.outer(delta, delta)
        mean = self.joint_mean + share * delta
        repeats = self.repeats + other.repeats
        return CrossStatistics(n, self.n_features, mean, scatter, repeats)

    def settled(self) -> CrossStatistics:
        """Replace columns that vary only by rounding with constants."""
        still, values = _moved_by_rounding(self)
        moving = np.append(~still, np.ones(len(self.joint_mean) - len(still), dtype=bool))
        mean = self.joint_mean.copy()
        mean[: len(still)][still] = values[still]
        scatter = np.where(np.outer(moving, moving), self.joint_scatter, 0.0)
        return replace(self, joint_mean=mean, joint_scatter=scatter)

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
        d, n = self.n_features, max(self.n_rows, 1)
        spread = np.sqrt(np.diagonal(self.joint_scatter)[d:] / n)
        return self.joint_scatter[:d, d:] / n / np.where(spread > 0, spread, 1.0)


def whitening(
    covariance: Array, *, rtol: float = 1e-10, invertible: bool = False
) -> tuple[Array, Array]:
    """Compute W and W⁻¹, (d, d), such that rows times W have unit covariance.

    W = D⁻¹R^(−½) with the standard deviations D of the columns and their correlations R, so the
    units of the columns do not matter. A direction whose eigenvalue of R is below ``rtol`` times
    the largest counts as having no variance. It is mapped to zero, or with ``invertible`` left in
    the units of the columns.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    scale = np.where(deviations > 0, deviations, 1.0)
    R = covariance / scale / scale[:, None]
    values, vectors = np.linalg.eigh((R + R.T) / 2)
    varies = values > rtol * max(values[-1], 0.0)
    root = np.sqrt(np.where(varies, values, 1.0 if invertible else 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    W = (vectors * inverse) @ vectors.T / scale[:, None]
    return W, (vectors * root) @ vectors.T * scale


def exceeds(A: Array, least: float) -> bool:
    """Tell whether all eigenvalues exceed ``least``, for a twentieth of their cost."""
    try:
        np.linalg.cholesky(A - least * np.eye(len(A)))
    except np.linalg.LinAlgError:
        return False
    return True


def support(
    mean: Array, covariance: Array, n_rows: int, *, least: float = 1e-13
) -> tuple[Array, Array] | None:
    """Compute orthonormal bases of the directions in which rows vary (d, s) and do not.

    The answer is None if they vary in all.

    Rows of a constant column, of two equal columns, or whose features add up to a constant do not
    vary in some direction. As in ``whitening``, the unit of a column does not matter. A direction
    counts as flat only at the size of rounding errors. Fewer rows than features cannot tell, nor
    can rows that are all the same, and then the answer is None.

    A column of at most ``least`` times the largest deviation counts as constant: a map that mixes
    columns writes more rounding errors into it than it holds.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    live = deviations > 1e-13 * np.abs(mean)  # below, the rounding errors of a constant
    live &= deviations > least * deviations.max(initial=0.0)
    scale = deviations[live]
    R = covariance[np.ix_(live, live)] / scale / scale[:, None]
    if live.all() and exceeds(R, 1e-13 * len(R)):
        return None
    values, vectors = np.linalg.eigh((R + R.T) / 2)
    flat = values <= 1e-13 * max(values[-1], 0.0) if len(values) else values > 0
    rank = int(np.sum(~flat))
    if rank in (0, len(live)) or rank >= n_rows - 1:
        return None
    null = np.zeros((len(live), int(flat.sum())))
    # A small coefficient adds rounding errors, not variance: without them the column stays as it
    # is, whatever its unit.
    clear = np.where(np.abs(vectors) > 1e-8, vectors, 0.0)[:, flat]
    null[live] = clear / scale[:, None]
    involved = null.any(axis=1)
    alone = np.eye(len(live))[:, live & ~involved]
    full, _ = np.linalg.qr(null[involved] / np.linalg.norm(null, axis=0), mode="complete")
    S = np.zeros((len(live), full.shape[1] - null.shape[1]))
    S[involved] = full[:, null.shape[1] :]
    return np.hstack([alone, S]), np.hstack([np.eye(len(live))[:, ~live], _orthonormal(null)])


def _orthonormal(A: Array) -> Array:
    """Orthonormalise columns so that small rows are as precise as large ones.

    Reflections would round all rows at the size of the largest. A row of a column in a large unit
    is small, and that column makes its rounding errors large again.
    """
    A = A / np.linalg.norm(A, axis=0)
    order = np.argsort(-np.linalg.norm(A, axis=1))  # so that no large row is mixed into small ones
    for _ in range(2):  # the second time takes away what rounding left
        _, R = np.linalg.qr(A[order])
        A = np.linalg.solve(R.T, A.T).T
    return A


def mean_difference_basis(statistics: ClassStatistics) -> Array:
    """Compute an orthonormal basis (d, q) of span{μₖ − μ}, q ≤ K − 1 its numerical rank.

    A direction counts if the means differ in it by a millionth of the standard deviation within
    classes. So classes whose means agree up to rounding do not cost a dimension, and classes that
    are far apart do not hide the others.
    """
    centred = (statistics.means - statistics.mean)[statistics.counts > 0]
    left, values, _ = np.linalg.svd(centred.T, full_matrices=False)
    if not len(values):
        return left
    within = np.einsum("dq,de,eq->q", left, statistics.within, left) / max(statistics.n_rows, 1)
    overall = np.sqrt(np.trace(statistics.covariance))
    rounding = max(1e-14 * values[0], 1e-14 * overall, np.finfo(float).tiny)
    mask = (values > 1e-6 * np.sqrt(np.maximum(within, 0.0))) & (values > rounding)
    return np.ascontiguousarray(left[:, mask][:, : max(len(centred) - 1, 0)])
