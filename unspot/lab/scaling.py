"""Rows brought to one scale and into an order of their own, for methods that depend on both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.rows import row_hashes
from unspot.data.statistics import CrossStatistics, support

Codes = NDArray[np.int64]
#: Rows of which a copy in float64 is held at once.
_CHUNK_ROWS = 16_384


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x − mean)/scale with one scale for all features, which keeps ratios of distances.

    Methods apply it so that their results do not depend on the origin and the unit of the rows.

    Examples
    --------
    >>> scaling = Scaling.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> scaling.mean, scaling.scale
    (array([2., 5.]), 0.7071)
    """

    mean: NDArray[np.float64]  # (d,)
    scale: float  # the root of the mean variance of the features

    @classmethod
    def of(cls, X: NDArray[Any]) -> Scaling:
        """Compute mean and scale in float64 around the mean, so that a large mean costs nothing."""
        mean = X.mean(axis=0, dtype=np.float64)
        parts = (X[i : i + _CHUNK_ROWS] for i in range(0, len(X), _CHUNK_ROWS))
        variance = sum(float(np.sum((part - mean) ** 2)) for part in parts) / X.size
        return cls(mean, float(np.sqrt(variance)) or 1.0)

    def __call__(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray((X - self.mean) / self.scale)


def in_own_order(X: NDArray[Any], codes: Codes) -> tuple[Codes, Codes]:
    """Order rows by their values alone, and renumber their codes in that order.

    Codes are counted anew, in the order in which the classes come. What is computed from both
    depends neither on the order of the rows nor on the names of the classes. Rows are ordered by
    their distance from the mean, so that origin, unit and axes do not matter either.

    Examples
    --------
    >>> order, codes = in_own_order(np.array([[9.0], [1.0], [4.0]]), np.array([0, 0, 1]))
    >>> order.tolist(), codes.tolist()
    ([2, 1, 0], [0, 1, 1])
    """
    distances = np.square(Scaling.of(X)(X)).sum(axis=1)
    order = np.lexsort((row_hashes(X), distances.round(9)))
    _, first, own = np.unique(codes[order], return_index=True, return_inverse=True)
    return order, np.argsort(np.argsort(first))[own]


def rows_within_support(X: NDArray[Any]) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Find a basis S (d, s) of the directions in which rows vary, and the rows in its coordinates.

    For methods whose maps would fill the other directions with noise of their own. S is None if the
    rows vary in all directions.
    """
    rows = X.astype(np.float64, copy=False)
    spread = CrossStatistics.from_rows(rows, np.zeros((len(rows), 1))).settled()
    basis = support(spread.mean, spread.covariance, spread.n_rows)
    return (None, rows) if basis is None else (basis[0], rows @ basis[0])
