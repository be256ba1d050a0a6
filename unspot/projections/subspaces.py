"""Orthogonal projectors and how far a matrix is from one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.data.statistics import ClassStatistics, whitening
from unspot.projections.objective import Objective

__all__ = ["STARTS", "complement", "narrow", "nearest_projector", "projection_loss", "start"]

Array = NDArray[Any]


def projection_loss(U: Array) -> float:
    """‖UᵀU − I‖²_F, the projection loss (Eq. 3): zero exactly for orthonormal columns."""
    gram = U.T @ U
    return float(np.sum((gram - np.eye(U.shape[1])) ** 2))


def nearest_projector(U: Array) -> Array:
    """Orthonormal basis of the rank-r projector that is nearest to UUᵀ in Frobenius norm.

    The left singular vectors of U: the same subspace as the top r eigenvectors of UUᵀ in
    Algorithm 1, for O(dr²) instead of O(d³). The squared distance is ``projection_loss(U)``
    (the paper's appendix B).
    """
    left, _, _ = np.linalg.svd(np.asarray(U, dtype=np.float64), full_matrices=False)
    return np.ascontiguousarray(left)


def complement(Q: Array) -> Array:
    """Orthonormal basis (d, d − q) of what is orthogonal to the columns of Q."""
    d, q = Q.shape
    full, _ = np.linalg.qr(Q, mode="complete")
    return np.ascontiguousarray(full[:, q:]) if q else np.eye(d)


# -- Where the search for a subspace begins --------------------------------------------------------


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


# -- From a subspace to a smaller one inside it: which directions to keep --------------------------


def narrow(objective: Objective, V: Tensor, rank: int) -> Tensor:
    """The r directions of span(V) that carry least discrepancy, as an orthonormal (d, r).

    In a metric M the loss depends on (y − y′)ᵀM(y − y′) for y = Vᵀx, and its gradient at M = I is
    D = ½YᵀG with G = ∂L/∂Y: without direction v, the loss falls by about vᵀDv. So the
    eigenvectors of the smallest eigenvalues stay. What is removed at once is at most half of the
    dimensions, since D changes on the way.

    Parameters
    ----------
    objective : Objective
        The loss. Best on other rows than those that V was fitted on: there V's directions look
        better than they are, all of them.
    V : Tensor of shape (d, s)
        Orthonormal, s ≥ r.
    rank : int
        r.

    Notes
    -----
    One gradient for every halving of the dimension: O(n²s) time.

    Examples
    --------
    >>> from unspot.density import GaussianMixture
    >>> z = torch.arange(400) % 2
    >>> X = torch.randn((400, 3), generator=torch.Generator().manual_seed(0))
    >>> X[z == 1, 1] *= 4
    >>> V = narrow(Objective(X, z, GaussianMixture.paper()), torch.eye(3), 2)
    >>> bool(V[1].norm() < 0.3)  # the direction that tells the classes apart is gone
    True
    """
    while V.shape[1] > rank:
        kept = max(rank, V.shape[1] // 2)
        _, gradient = objective(V)  # in V: XᵀG; the term that keeps variance has no part in VᵀXᵀG
        D = 0.5 * (V.T @ gradient).double() - _share(objective, V)
        _, vectors = torch.linalg.eigh((D + D.T) / 2)
        V = V @ vectors[:, :kept].to(V.dtype)
    return V


def _share(objective: Objective, V: Tensor) -> Tensor:
    """What each direction adds to the term that keeps variance, (s, s)."""
    kept = objective.preservation
    if kept is None or objective.weight == 0.0:
        return torch.zeros((V.shape[1],) * 2, dtype=torch.float64, device=V.device)
    N = (V.T @ kept.covariance @ V).double()
    if kept.back_squared is not None:
        N = torch.linalg.solve((V.T @ kept.back_squared @ V).double(), N)
    return N * (objective.weight / kept.variance)
