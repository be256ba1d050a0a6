"""What moments up to the second order tell of MMD², from all rows in time linear in them.

e^(−‖x−y‖²/s) = e^(−‖x‖²/s) e^(−‖y‖²/s) Σⱼ (2⟨x,y⟩/s)ʲ/j!. In many dimensions ⟨x,y⟩ is small next to
the squared distances, and the terms up to j = 2 are most of a wide kernel. They are a kernel of
finitely many features, whose sum over all pairs of rows follows from sums over rows.

``AllRows`` takes the low orders from all rows, and the rest of MMD² from a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.density import GaussianMixture
from unspot.density.mmd import pair_weights
from unspot.projections.objective import Objective

__all__ = ["AllRows", "LowOrder", "noise"]

#: Rows sorted by class (m, d), and how many of each class they are, (K,).
Block = tuple[NDArray[Any], NDArray[Any]]
#: Kernels whose value at the mean distance is smaller are left to the sample: they see only near
#: pairs, which low orders do not describe.
LEAST = 1e-3
#: The most numbers of the classes' moments: 128 MB in double precision.
MOST_MOMENTS = 2**24


@dataclass(frozen=True)
class LowOrder:
    """The part of order two of MMD²(XV) as a function of V, and its gradient.

    Parameters
    ----------
    blocks : callable
        ``blocks()`` gives the rows, block after block, in centred working coordinates.
    counts : tuple of int
        The rows of each class, at least two.
    kernel : GaussianMixture
        A bandwidth per pair of classes counts as a pooled one.
    covariance : Tensor of shape (d, d)
        In working coordinates and the dtype of V. It decides a pooled bandwidth.

    Notes
    -----
    O(nr(d + Mr)) time for M kernels, in two passes over the rows; O(KMr²) memory, and a block.
    1 + t + t²/2 = ½(1 + t)² + ½, so with s̃ = (1, √a y), a = 2/s and w = e^(−‖y‖²/s) all moments of
    a class are in the matrix A = Σ w s̃s̃ᵀ.
    """

    is_lazy: ClassVar[bool] = False

    blocks: Callable[[], Iterable[Block]]
    counts: tuple[int, ...]
    kernel: GaussianMixture
    covariance: Tensor

    @staticmethod
    def is_small(n_classes: int, rank: int, kernel: GaussianMixture) -> bool:
        """Whether the moments of all classes fit in memory."""
        return len(_wide(kernel)) * n_classes * (rank + 1) ** 2 <= MOST_MOMENTS

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """Value and gradient."""
        pooled = isinstance(self.kernel.bandwidth, str)
        CV = self.covariance.double() @ V.double()
        spread = 2.0 * float((CV * V).sum()) or 1.0
        sigma2 = spread if pooled else float(self.kernel.bandwidth) ** 2
        rates = [2.0 / (m * sigma2) for m in _wide(self.kernel)]
        A, own = self._moments(V, rates)
        weights = torch.tensor(pair_weights(self.counts), dtype=torch.float64, device=V.device)
        slopes = torch.einsum("kl,mlij->mkij", weights, A)  # ∂L/∂A
        slopes[:, :, 0, 0] *= 2.0
        value = float(0.5 * (slopes * A).sum() - (weights.diagonal() * own).sum())
        grad = self._gradient(V, rates, slopes, weights.diagonal())
        if pooled:  # L depends only on Y/σ, and σ² = 2 tr VᵀCV
            grad -= 2.0 * float((grad * V).sum()) / sigma2 * CV
        return value, grad.to(V.dtype)

    def kept(self, V: Tensor) -> tuple[float, Tensor | None]:
        """As ``Objective.kept``: there is no such term here."""
        return 0.0, None

    def new_empty(self, shape: tuple[int, int]) -> Tensor:
        """A matrix of the rows' dtype and device."""
        return self.covariance.new_empty(shape)

    def _moments(self, V: Tensor, rates: list[float]) -> tuple[Tensor, Tensor]:
        """A, (M, K, r + 1, r + 1), and the kernel of each row and itself, summed, (M, K)."""
        K, r = len(self.counts), V.shape[1]
        A = V.new_zeros(len(rates), K, r + 1, r + 1, dtype=torch.float64)
        own = V.new_zeros(len(rates), K, dtype=torch.float64)
        for X, counts in self.blocks():
            Y = torch.from_numpy(X).to(V) @ V
            squares = (Y * Y).sum(1)
            for m, a in enumerate(rates):
                S = _augmented(Y, a)
                weighted = S * torch.exp(-0.5 * a * squares)[:, None]
                u = a * squares
                with_itself = torch.exp(-u) * (1 + u + 0.5 * u * u)
                for k, rows in _by_class(counts):
                    A[m, k] += weighted[rows].T @ S[rows]
                    own[m, k] += with_itself[rows].sum(dtype=torch.float64)
        return A, own

    def _gradient(
        self,
        V: Tensor,
        rates: list[float],
        slopes: Tensor,
        own_weights: Tensor,
    ) -> Tensor:
        """∂L/∂V at fixed σ, in float64."""
        total = torch.zeros_like(V, dtype=torch.float64)
        slopes = slopes.to(V.dtype)
        for rows_of_block, counts in self.blocks():
            X = torch.from_numpy(rows_of_block).to(V)
            Y = X @ V
            squares = (Y * Y).sum(1)
            G = torch.zeros_like(Y)
            for m, a in enumerate(rates):
                S, u = _augmented(Y, a), a * squares
                w = torch.exp(-0.5 * u)
                for k, rows in _by_class(counts):
                    Z = (S[rows] @ slopes[m, k]).mul_(w[rows, None])
                    radial = float(own_weights[k]) * torch.exp(-u[rows]) * u[rows] ** 2
                    radial -= (Z * S[rows]).sum(1)
                    G[rows] += 2.0 * math.sqrt(a) * Z[:, 1:] + (a * radial)[:, None] * Y[rows]
            total += X.T @ G
        return total


def _wide(kernel: GaussianMixture) -> list[float]:
    return [m for m in kernel.multipliers if math.exp(-1.0 / m) >= LEAST]


def _augmented(Y: Tensor, a: float) -> Tensor:
    """Rows (1, √a y)."""
    return torch.cat([torch.ones_like(Y[:, :1]), Y * math.sqrt(a)], 1)


def _by_class(counts: NDArray[Any]) -> list[tuple[int, slice]]:
    """The classes that a sorted block has, and where."""
    stops = counts.cumsum().tolist()
    return [
        (k, slice(stop - count, stop))
        for k, (stop, count) in enumerate(zip(stops, counts.tolist(), strict=True))
        if count
    ]


def noise(counts: Sequence[int]) -> float:
    """About the spread of MMD² between samples of the same law, for a sample of these classes.

    It grows with Σ(1/nₖ + 1/nₗ) over pairs of classes. The factor is the standard deviation of a
    wide kernel, centred, in tens of dimensions: 0.05 to 0.15.
    """
    return 0.1 * (len(counts) - 1) * sum(1.0 / n for n in counts)


@dataclass(frozen=True)
class AllRows:
    """MMD² on all rows: its low orders on every row, and the rest on a sample of them.

    The rest is an MMD² too, of a kernel that begins with the third order. Estimates of it up to
    ``noise`` count as none, in a smooth way: a search would fit the noise of the sample instead.

    Parameters
    ----------
    sample : Objective
    low_of_sample, low_of_all : LowOrder
    """

    sample: Objective
    low_of_sample: LowOrder
    low_of_all: LowOrder

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """Value and gradient."""
        (whole, grad), (low, grad_low), (all_low, grad_all) = (
            part(V) for part in (self.sample, self.low_of_sample, self.low_of_all)
        )
        kept, grad_kept = self.sample.kept(V)
        grad = grad if grad_kept is None else grad + grad_kept
        rest, slope = _above(noise(self.low_of_sample.counts), whole + kept - low)
        grad = grad_all + slope * (grad - grad_low)
        return all_low + rest - kept, grad if grad_kept is None else grad - grad_kept

    def __getattr__(self, name: str) -> Any:
        # The term that keeps variance, and the dtype of a matrix.
        return getattr(self.sample, name)


def _above(level: float, value: float) -> tuple[float, float]:
    """A smooth max(value − level, 0) and its slope: 0.02 at 0, ½ at the level, 0.98 at twice it."""
    t = min(4.0 * (value / level - 1.0), 50.0)
    excess = value - level if t == 50.0 else 0.25 * level * math.log1p(math.exp(t))
    return excess, 1.0 / (1.0 + math.exp(-t))
