"""From a subspace to a smaller one inside it: which directions to keep.

Neighbouring ranks have neighbouring solutions. So a fit of rank r that begins inside the solution
of a higher rank needs a few steps only; this module finds that beginning.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unspot.projections.objective import Objective
from unspot.projections.starts import moments_start
from unspot.statistics import ClassStatistics

__all__ = ["by_discrepancy", "by_moments", "narrow"]


def narrow(
    objective: Objective, V: Tensor, rank: int, *, score: Callable[[Tensor], float] | None = None
) -> Tensor:
    """The r directions of span(V) that carry least discrepancy, as an orthonormal (d, r).

    Two choices are made, by the loss's own gradient and by class moments, and the better is kept.

    Parameters
    ----------
    objective : Objective
        The loss, on the rows to choose by.
    V : Tensor of shape (d, s)
        Orthonormal, s ≥ r.
    rank : int
        r.
    score : callable, optional
        What decides between the two, best on other rows; by default the objective itself.

    Notes
    -----
    One gradient for every halving of the dimension, and two values: O(n²s) time.
    """
    if V.shape[1] == rank:
        return V
    choices = (by_discrepancy(objective, V, rank), by_moments(objective, V, rank))
    return min(choices, key=score or objective.value)


def by_discrepancy(objective: Objective, V: Tensor, rank: int) -> Tensor:
    """Remove the directions along which the loss would fall most.

    In a metric M the loss depends on (y − y′)ᵀM(y − y′) for y = Vᵀx, and its gradient at M = I is
    D = ½YᵀG with G = ∂L/∂Y: without direction v, the loss falls by about vᵀDv. So the
    eigenvectors of the smallest eigenvalues stay. What is removed at once is at most half of the
    dimensions, since D changes on the way.
    """
    while V.shape[1] > rank:
        kept = max(rank, V.shape[1] // 2)
        _, gradient = objective(V)  # in V: XᵀG; the term that keeps variance has no part in VᵀXᵀG
        D = 0.5 * (V.T @ gradient).double() - _share(objective, V)
        _, vectors = torch.linalg.eigh((D + D.T) / 2)
        V = V @ vectors[:, :kept].to(V.dtype)
    return V


def by_moments(objective: Objective, V: Tensor, rank: int) -> Tensor:
    """Keep the directions of span(V) where class means and covariances differ least."""
    Y = (objective.X @ V).cpu().numpy()
    codes = objective.z.cpu().numpy()
    statistics = ClassStatistics.from_rows(Y, codes, int(codes.max()) + 1)
    return V @ V.new_tensor(moments_start(statistics, rank))


def _share(objective: Objective, V: Tensor) -> Tensor:
    """What each direction adds to the term that keeps variance, (s, s)."""
    kept = objective.preservation
    if kept is None or objective.weight == 0.0:
        return torch.zeros((V.shape[1],) * 2, dtype=torch.float64, device=V.device)
    N = (V.T @ kept.covariance @ V).double()
    if kept.back_squared is not None:
        N = torch.linalg.solve((V.T @ kept.back_squared @ V).double(), N)
    return N * (objective.weight / kept.variance)
