"""From a subspace to a smaller one inside it: which directions to keep.

Neighbouring ranks have neighbouring solutions. So a fit of rank r that begins inside the solution
of a higher rank needs a few steps only; this module finds that beginning.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unspot.projections.objective import Objective

__all__ = ["narrow"]


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
