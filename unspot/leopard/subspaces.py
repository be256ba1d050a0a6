"""Subspaces in numpy: the nearest projector, the complement, and where a search begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import did_you_mean
from unspot.data.statistics import ClassStatistics, whitening

Array = NDArray[Any]
STARTS = ("identity", "moments", "pca")


def nearest_projector(U: Array) -> Array:
    """Compute an orthonormal basis of the rank-r projector nearest to UUᵀ in Frobenius norm.

    These are the left singular vectors of U. They span the same subspace as the top r
    eigenvectors of UUᵀ in Algorithm 1, for O(dr²) time instead of O(d³). The squared distance is
    the projection loss ‖UᵀU − I‖²_F (Eq. 3 and appendix B).
    """
    left, _, _ = np.linalg.svd(np.asarray(U, dtype=np.float64), full_matrices=False)
    return np.ascontiguousarray(left)


def complement(Q: Array) -> Array:
    """Compute an orthonormal basis (d, d − q) of the orthogonal complement of Q's columns."""
    d, q = Q.shape
    full, _ = np.linalg.qr(Q, mode="complete")
    return np.ascontiguousarray(full[:, q:]) if q else np.eye(d)


def column_space(A: Array, *, floor: float) -> Array:
    """Compute an orthonormal basis of the columns: values above floor and 1e-6 of the largest."""
    left, values, _ = np.linalg.svd(A, full_matrices=False)
    return np.ascontiguousarray(left[:, (values > 1e-6 * values[0]) & (values > floor)])


def start(init: Any, statistics: ClassStatistics, rank: int) -> Array:
    """Compute the start of a search: an orthonormal (d, r), or (d, s) if s are given.

    Parameters
    ----------
    init : {"identity", "moments", "pca"} or array of shape (d, s)
        ``"identity"``: the first r columns of I, as in the paper. ``"moments"``: see
        ``moments_start``. ``"pca"``: the r directions of most variance. An array: its column
        space. If it has s > r columns, ``narrow`` chooses r directions from it.
    statistics : ClassStatistics
        With class scatter, for ``"moments"``.
    rank : int
        r.
    """
    d = statistics.means.shape[1]
    if not isinstance(init, str):
        U = np.asarray(init, dtype=np.float64)
        fits = U.ndim == 2 and len(U) == d and rank <= U.shape[1] <= d
        if not fits or np.linalg.matrix_rank(U) < U.shape[1]:
            raise ValueError(
                f"Got init of shape {U.shape}, but expected {(d, rank)}, (features, rank), with "
                "independent columns, or more of them to choose from."
            )
        return nearest_projector(U)
    if init == "identity":
        return np.eye(d, rank)
    if init == "pca":
        return _smallest(-statistics.covariance, rank)
    if init == "moments":
        return moments_start(statistics, rank)
    raise ValueError(
        f"Got init={init!r}, but expected {', '.join(map(repr, STARTS))} or an array."
        f"{did_you_mean(init, STARTS)}"
    )


def moments_start(statistics: ClassStatistics, rank: int) -> Array:
    """Find the subspace where class means and covariances differ least, in closed form.

    In directions in which the classes do not differ, the whitened class means mₖ are 0 and the
    whitened class covariances Cₖ are I. So A = Σₖ mₖmₖᵀ + (Cₖ − I)² measures the difference in
    each direction. The r eigenvectors of its smallest eigenvalues are mapped back and
    orthonormalised. O(Kd³) time.
    """
    W, _ = whitening(statistics.covariance, invertible=True)
    observed = statistics.counts > 0
    m = (statistics.means - statistics.mean)[observed] @ W
    # Zero in directions without variance, as it should be: nothing can differ there.
    deviation = W.T @ (statistics.class_covariances[observed] - statistics.covariance) @ W
    A = m.T @ m + np.einsum("kij,kjl->il", deviation, deviation)
    return nearest_projector(W @ _smallest(A, rank))


def feature_moments_start(X: Array, psi: Array, covariance: Array, rank: int) -> Array:
    """Find the directions in which E[ψ x̃] and E[ψ x̃x̃ᵀ] of whitened rows are smallest.

    Parameters
    ----------
    X : array of shape (n, d)
        Centred rows.
    psi : array of shape (n, m)
        Centred features. O(nd²m) time.
    covariance : array of shape (d, d)
        Covariance of the rows.
    rank : int
    """
    W, _ = whitening(covariance, invertible=True)
    rows, n = X @ W, len(X)
    m = psi.T @ rows / n
    A = m.T @ m
    for feature in psi.T:
        deviation = (rows * feature[:, None]).T @ rows / n
        A += deviation @ deviation
    return nearest_projector(W @ _smallest(A, rank))


def _smallest(A: Array, rank: int) -> Array:
    _, vectors = np.linalg.eigh((A + A.T) / 2)
    return np.ascontiguousarray(vectors[:, :rank])
