"""What happened during a fit, step by step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.data.sampling import stratified_batches
from unspot.density import GaussianMixture, mmd2, mmd2_and_grad

__all__ = [
    "BLOCK_ROWS",
    "History",
    "LazyObjective",
    "Objective",
    "Preservation",
    "project",
    "pull_back",
]


@dataclass
class History:
    """Loss, held-out loss, evaluations and seconds, one entry a step."""

    loss: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    evaluations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    kept: int = -1  # the step whose subspace is the result

    def add(self, loss: float, held_out: float, evaluations: int) -> None:
        self.loss.append(loss)
        self.held_out.append(held_out)
        self.evaluations.append(evaluations)
        self.seconds.append(time.perf_counter() - self.started)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """The columns as arrays, for ``history_``."""
        return {
            name: np.asarray(getattr(self, name), dtype=float)
            for name in ("loss", "held_out", "evaluations", "seconds")
        }


# -- The function that is minimised over subspaces: densities matched, variance kept ---------------


#: Rows of one product. Where processes share the work, they share it by such blocks.
BLOCK_ROWS = 256


@dataclass(frozen=True)
class Preservation:
    """The share of variance kept by a subspace, tr(UᵀΣU)/tr Σ, as a function of V.

    V is in working coordinates, U = orth(BV) in those of the embeddings, with B the identity or
    a whitening. Then UUᵀ = BV(VᵀB²V)⁻¹VᵀB, so the share is tr(M⁻¹N)/tr Σ with M = VᵀB²V and
    N = VᵀBΣBV: smooth, and the same for every basis of a subspace.
    """

    back_squared: Tensor | None  # B², (d, d); None for the identity
    covariance: Tensor  # BΣB, (d, d)
    variance: float  # tr Σ

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """The share and its gradient in V, (d, r). O(d²r)."""
        AV = V if self.back_squared is None else self.back_squared @ V
        BV = self.covariance @ V
        M, N = V.T @ AV, V.T @ BV
        inverse = torch.linalg.inv(M)
        share = float((inverse * N.T).sum()) / self.variance
        grad = (BV @ inverse - AV @ (inverse @ N @ inverse)) * (2.0 / self.variance)
        return share, grad


def project(X: Tensor, V: Tensor) -> Tensor:
    """XV, by blocks of rows: a row gets the same bits whichever rows are around it. O(ndr)."""
    Y = X.new_empty(len(X), V.shape[1])
    for start in range(0, len(X), BLOCK_ROWS):
        torch.mm(X[start : start + BLOCK_ROWS], V, out=Y[start : start + BLOCK_ROWS])
    return Y


def pull_back(X: Tensor, G: Tensor) -> Tensor:
    """XᵀG, with blocks of rows added up in float64. O(ndr)."""
    total = X.new_zeros(X.shape[1], G.shape[1], dtype=torch.float64)
    for start in range(0, len(X), BLOCK_ROWS):
        total += X[start : start + BLOCK_ROWS].T @ G[start : start + BLOCK_ROWS]
    return total


@dataclass(frozen=True)
class Objective:
    """MMD²(XV) − λ·(share of variance kept), and its gradient in V.

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Rows in working coordinates.
    z : Tensor of shape (n,)
        Class codes.
    kernel : GaussianMixture
    preservation : Preservation, optional
    weight : float
        λ, already in units of MMD².
    """

    X: Tensor
    z: Tensor
    kernel: GaussianMixture
    preservation: Preservation | None = None
    weight: float = 0.0

    def value(self, V: Tensor) -> float:
        """The objective alone: a third of the cost of value and gradient."""
        loss = float(mmd2(project(self.X, V), self.z, self.kernel))
        return loss - self.kept(V)[0]

    def __call__(self, V: Tensor, *, detach_bandwidth: bool = False) -> tuple[float, Tensor]:
        """Value and gradient. O(n²r + ndr)."""
        loss, grad_Y = mmd2_and_grad(
            project(self.X, V), self.z, self.kernel, detach_bandwidth=detach_bandwidth
        )
        kept, grad_kept = self.kept(V)
        grad = pull_back(self.X, grad_Y).to(V.dtype)
        return float(loss) - kept, grad if grad_kept is None else grad - grad_kept

    def subset(self, rows: NDArray[np.int64]) -> Objective:
        """The objective of a mini-batch."""
        index = torch.from_numpy(rows).to(self.X.device)
        return Objective(self.X[index], self.z[index], self.kernel, self.preservation, self.weight)

    def new_empty(self, shape: tuple[int, int]) -> Tensor:
        """A matrix of the rows' dtype and device."""
        return self.X.new_empty(shape)

    def kept(self, V: Tensor) -> tuple[float, Tensor | None]:
        """λ·(share of variance kept) and its gradient, or 0 and None without that term."""
        if self.preservation is None or self.weight == 0.0:
            return 0.0, None
        share, grad = self.preservation(V)
        return self.weight * share, self.weight * grad


@dataclass(frozen=True)
class LazyObjective:
    """Rows that are read a mini-batch at a time, from wherever they are.

    Parameters
    ----------
    rows : array-like with rows by number, of shape (n, d)
        In working coordinates.
    z : Tensor of shape (n,)
        Class codes, on the CPU.
    kernel : GaussianMixture
    device : torch.device
    """

    rows: Any
    z: Tensor
    kernel: GaussianMixture
    device: torch.device

    def subset(self, rows: NDArray[np.int64]) -> Objective:
        """The objective of a mini-batch, whose rows are read now."""
        X = torch.from_numpy(self.rows[rows]).to(self.device)
        return Objective(X, self.z[torch.from_numpy(rows)].to(self.device), self.kernel)

    def sample(self, size: int = 8192) -> Objective:
        """The objective of one batch of about ``size`` rows, always the same."""
        return self.subset(stratified_batches(self.z.numpy(), size, np.random.default_rng(0))[0])

    def new_empty(self, shape: tuple[int, int]) -> Tensor:
        """A matrix of the rows' dtype and device."""
        return torch.from_numpy(np.empty(shape, self.rows.dtype)).to(self.device)

    def kept(self, V: Tensor) -> tuple[float, Tensor | None]:
        """As ``Objective.kept``, without that term."""
        return 0.0, None
