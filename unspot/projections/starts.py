"""Where the search for a subspace begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.projections.projector import nearest_projector
from unspot.statistics import ClassStatistics, whitening

__all__ = ["STARTS", "start"]

Array = NDArray[np.float64]
STARTS = ("identity", "moments", "pca")


def start(init: Any, statistics: ClassStatistics, rank: int) -> Array:
    """Orthonormal start (d, r), or (d, s) from a wider array.

    Parameters
    ----------
    init : {"identity", "moments", "pca"} or array of shape (d, s)
        ``"identity"``: the first r columns of I, the paper's. ``"moments"``: the closed form
        below. ``"pca"``: the r directions of most variance. An array: its column space; with
        s > r columns, a subspace that the start is to be chosen from.
    statistics : ClassStatistics
        With class scatter, for ``"moments"``.
    rank : int
    """
    d = statistics.means.shape[1]
    if not isinstance(init, str):
        U = np.asarray(init, dtype=np.float64)
        fits = U.ndim == 2 and len(U) == d and rank <= U.shape[1] <= d
        if not fits or np.linalg.matrix_rank(U) < U.shape[1]:
            raise ValueError(
                f"Got init of shape {U.shape}, but expected {(d, rank)}, (features, rank), with "
                "independent columns, or more columns to choose from."
            )
        return nearest_projector(U)
    if init == "identity":
        return np.eye(d, rank)
    if init == "pca":
        return _smallest(-statistics.covariance, rank)
    if init == "moments":
        return moments_start(statistics, rank)
    raise ValueError(
        f"Got init={init!r}, but expected one of {', '.join(map(repr, STARTS))}, or an array."
    )


def moments_start(statistics: ClassStatistics, rank: int) -> Array:
    """The subspace where class means and covariances differ least, in closed form.

    Whitened class means mₖ and covariances Cₖ all equal 0 and I where nothing differs, so
    A = Σₖ mₖmₖᵀ + (Cₖ − I)² measures the difference by direction; the r eigenvectors of its
    smallest eigenvalues are mapped back and orthonormalised. O(Kd³).
    """
    W, _ = whitening(statistics.covariance, invertible=True)
    observed = statistics.counts > 0
    m = (statistics.means - statistics.mean)[observed] @ W
    # In directions without variance both are zero: there nothing can differ.
    deviation = W.T @ (statistics.class_covariances[observed] - statistics.covariance) @ W
    A = m.T @ m + np.einsum("kij,kjl->il", deviation, deviation)
    return nearest_projector(W @ _smallest(A, rank))


def _smallest(A: Array, rank: int) -> Array:
    _, vectors = np.linalg.eigh((A + A.T) / 2)
    return np.ascontiguousarray(vectors[:, :rank])
