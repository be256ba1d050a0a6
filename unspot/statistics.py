"""Class statistics: mergeable, in float64, and what is derived from them.

Counts, class means and scatter matrices are sufficient for LEACE, moment matching, whitening and
the closed-form start. Two parts of a data set merge exactly (Chan et al. 1983), so that streams,
files and processes each collect their own and add them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClassStatistics", "CrossStatistics", "mean_difference_basis", "whitening"]

Array = NDArray[np.float64]
CHUNK_ROWS = 16_384


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
        """One pass over the rows in chunks. O(nd²) time, O(d²) memory (times K if per class)."""
        total = cls.empty(n_classes, X.shape[1], per_class=per_class)
        for start in range(0, len(X), CHUNK_ROWS):
            rows = np.asarray(X[start : start + CHUNK_ROWS], dtype=np.float64)
            part = codes[start : start + CHUNK_ROWS]
            total = total.merge(_of_chunk(rows, part, n_classes, per_class))
        return total

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


def _of_chunk(
    X: Array, codes: NDArray[Any], n_classes: int, per_class: bool
) -> ClassStatistics:
    d = X.shape[1]
    counts = np.bincount(codes, minlength=n_classes)
    one_hot = np.zeros((n_classes, len(X)))
    one_hot[codes, np.arange(len(X))] = 1.0
    means = (one_hot @ X) / np.maximum(counts, 1)[:, None]
    centred = X - means[codes]
    if not per_class:
        return ClassStatistics(counts, means, centred.T @ centred)
    scatter = np.zeros((n_classes, d, d))
    for k in np.flatnonzero(counts):
        rows = centred[codes == k]
        scatter[k] = rows.T @ rows
    return ClassStatistics(counts, means, scatter.sum(0), scatter)


@dataclass(frozen=True, eq=False)
class CrossStatistics:
    """Mean and scatter of rows x and of a continuous concept z together: mergeable."""

    n_rows: int
    n_features: int
    joint_mean: Array  # (d + m,), of (x, z)
    joint_scatter: Array  # (d + m, d + m)

    @classmethod
    def from_rows(cls, X: Any, Z: NDArray[Any]) -> CrossStatistics:
        """One pass over the rows in chunks. O(n(d + m)²) time."""
        d, width = X.shape[1], X.shape[1] + Z.shape[1]
        total = cls(0, d, np.zeros(width), np.zeros((width, width)))
        for start in range(0, len(X), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            J = np.hstack([np.asarray(X[chunk], dtype=np.float64), Z[chunk]])
            mean = J.mean(axis=0)
            total = total.merge(cls(len(J), d, mean, (J - mean).T @ (J - mean)))
        return total

    def merge(self, other: CrossStatistics) -> CrossStatistics:
        """Statistics of the rows of both."""
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
    def cross_covariance(self) -> Array:
        """Cov(x, z) with z in units of its standard deviation, (d, m)."""
        d = self.n_features
        n = max(self.n_rows, 1)
        spread = np.sqrt(np.diagonal(self.joint_scatter)[d:] / n)
        return self.joint_scatter[:d, d:] / n / np.where(spread > 0, spread, 1.0)


def whitening(covariance: Array, *, rtol: float = 1e-10) -> tuple[Array, Array]:
    """Σ^(−½) and Σ^½, symmetric; directions without variance are mapped to zero.

    A direction counts as without variance when its eigenvalue is below ``rtol`` times the
    largest: relative, so that the unit of the embeddings does not matter.
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > rtol * max(values[-1], 0.0)
    root = np.sqrt(np.where(kept, values, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    return (vectors * inverse) @ vectors.T, (vectors * root) @ vectors.T


def mean_difference_basis(statistics: ClassStatistics, *, rtol: float = 1e-6) -> Array:
    """Orthonormal basis (d, q) of span{μₖ − μ}, q its numerical rank, at most K − 1.

    Directions are kept down to ``rtol`` of the largest: classes whose means agree up to
    rounding do not cost a dimension.
    """
    counts = statistics.counts
    centred = (statistics.means - statistics.mean)[counts > 0]
    left, values, _ = np.linalg.svd(centred.T, full_matrices=False)
    scale = max(values[0], np.finfo(float).tiny) if len(values) else 1.0
    spread = np.sqrt(np.trace(statistics.covariance))
    kept = (values > rtol * scale) & (values > 1e-12 * spread)
    return np.ascontiguousarray(left[:, kept][:, : max(len(centred) - 1, 0)])
