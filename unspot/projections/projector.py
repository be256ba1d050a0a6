"""Orthogonal projectors and how far a matrix is from one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["complement", "nearest_projector", "projection_loss"]

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
