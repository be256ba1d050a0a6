"""The low orders of MMD², from moments of all rows in time linear in their number.

e^(−‖x−y‖²/s) = e^(−‖x‖²/s) e^(−‖y‖²/s) Σⱼ (2⟨x,y⟩/s)ʲ/j!. In many dimensions ⟨x,y⟩ is small next to
the squared distances, and the terms up to j = 2 are most of a wide kernel. They are a kernel of
finitely many features, whose sum over all pairs of rows follows from sums over rows.

``AllRows`` takes the low orders from all rows, and the rest of MMD² from a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.leopard.discrepancy import class_weights
from unspot.leopard.kernels import GaussianMixture
from unspot.leopard.objective import Objective

#: Rows sorted by class (m, d), and how many of each class they are, (K,).
Block = tuple[NDArray[Any], NDArray[Any]]
#: Kernels whose value at the mean distance is smaller are left to the sample: they see only near
#: pairs, which low orders do not describe.
LEAST = 1e-3
#: The most numbers of the classes' moments: 128 MB in double precision.
MOST_MOMENTS = 2**24
#: Rows of a block, and the most bytes of rows that are held; of more, each pass reads them again.
CHUNK_ROWS, HOLD_BYTES = 8192, 2**28


@dataclass(frozen=True)
class LowOrder:
    """The part of MMD²(XV) up to order two as a function of V, and its gradient.

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

    blocks: Callable[[], Iterable[Block]]
    counts: tuple[int, ...]
    kernel: GaussianMixture
    covariance: Tensor

    @staticmethod
    def is_small(n_classes: int, rank: int, kernel: GaussianMixture) -> bool:
        """Tell whether the moments of all classes fit in memory."""
        return len(_wide(kernel)) * n_classes * (rank + 1) ** 2 <= MOST_MOMENTS

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """Compute value and gradient."""
        pooled = isinstance(self.kernel.bandwidth, str)
        CV = self.covariance.double() @ V.double()
        spread = 2.0 * float((CV * V).sum()) or 1.0
        sigma2 = spread if pooled else float(self.kernel.bandwidth) ** 2
        rates = [2.0 / (m * sigma2) for m in _wide(self.kernel)]
        A, diagonal = self._moments(V, rates)
        weights = torch.tensor(class_weights(self.counts), dtype=torch.float64, device=V.device)
        slopes = torch.einsum("kl,mlij->mkij", weights, A)  # ∂L/∂A
        slopes[:, :, 0, 0] *= 2.0
        value = float(0.5 * (slopes * A).sum() - (weights.diagonal() * diagonal).sum())
        grad = self._gradient(V, rates, slopes, weights.diagonal())
        if pooled:  # L depends only on Y/σ, and σ² = 2 tr VᵀCV
            grad -= 2.0 * float((grad * V).sum()) / sigma2 * CV
        return value, grad.to(V.dtype)

    def _moments(self, V: Tensor, rates: list[float]) -> tuple[Tensor, Tensor]:
        """Sum A, (M, K, r + 1, r + 1), and the kernel of each row and itself, (M, K)."""
        K, r = len(self.counts), V.shape[1]
        A = V.new_zeros(len(rates), K, r + 1, r + 1, dtype=torch.float64)
        diagonal = V.new_zeros(len(rates), K, dtype=torch.float64)
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
                    diagonal[m, k] += with_itself[rows].sum(dtype=torch.float64)
        return A, diagonal

    def _gradient(
        self, V: Tensor, rates: list[float], slopes: Tensor, own_weights: Tensor
    ) -> Tensor:
        """Compute ∂L/∂V at fixed σ, in float64."""
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
    """Build the rows (1, √a y)."""
    return torch.cat([torch.ones_like(Y[:, :1]), Y * math.sqrt(a)], 1)


def _by_class(counts: NDArray[Any]) -> list[tuple[int, slice]]:
    """List the classes of a sorted block, and where they are."""
    stops = counts.cumsum().tolist()
    return [
        (k, slice(stop - count, stop))
        for k, (stop, count) in enumerate(zip(stops, counts.tolist(), strict=True))
        if count
    ]


class Blocks:
    """Some rows, block after block, each sorted by class and changed as it is read.

    Parameters
    ----------
    X : array of shape (n, d), or Rows
    codes : array of shape (n,)
        The class of each row.
    rows : array of integers
        Which rows to give.
    n_classes : int
    change : callable
        Function applied to rows, (m, d) → (m, d).

    Notes
    -----
    If the rows take at most ``HOLD_BYTES``, they are read and changed once. If not, they are read
    again in every pass, and no more than two blocks are in memory.

    Examples
    --------
    >>> X, codes = np.arange(4.0)[:, None], np.array([1, 0, 1, 0])
    >>> [(block, counts)] = Blocks(X, codes, np.array([0, 1, 2]), 2, lambda X: 10 * X)()
    >>> block.ravel(), counts
    (array([10.,  0., 20.]), array([1, 2]))
    """

    def __init__(
        self,
        X: Any,
        codes: NDArray[np.int64],
        rows: NDArray[np.int64],
        n_classes: int,
        change: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> None:
        self._X, self._codes, self._n_classes, self._change = X, codes, n_classes, change
        self._chosen = np.zeros(len(codes), dtype=bool)
        self._chosen[rows] = True
        self._few = len(rows) * X.shape[1] * np.dtype(X.dtype).itemsize <= HOLD_BYTES
        self._held: list[Block] | None = None
        self.counts = tuple(np.bincount(codes[rows], minlength=n_classes).tolist())

    def __call__(self) -> Iterable[Block]:
        """Iterate over blocks, and their number of rows of each class."""
        if not self._few:
            return self._read()
        if self._held is None:
            self._held = list(self._read())
        return self._held

    def _read(self) -> Iterator[Block]:
        start = 0
        for block in self._chunks():
            rows = slice(start, start + len(block))
            chosen = np.flatnonzero(self._chosen[rows])
            start = rows.stop
            if len(chosen):
                codes = self._codes[rows][chosen]
                order = np.argsort(codes, kind="stable")
                counts = np.bincount(codes, minlength=self._n_classes)
                yield self._change(block[chosen[order]]), counts

    def _chunks(self) -> Iterator[NDArray[Any]]:
        if hasattr(self._X, "chunks"):  # rows on disk
            return self._X.chunks(CHUNK_ROWS)
        return (self._X[i : i + CHUNK_ROWS] for i in range(0, len(self._X), CHUNK_ROWS))


def noise(counts: Sequence[int]) -> float:
    """Estimate the spread of MMD² between samples of the same law, for classes of these counts.

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
        """Compute value and gradient."""
        (whole, grad), (low, grad_low), (all_low, grad_all) = (
            part(V) for part in (self.sample, self.low_of_sample, self.low_of_all)
        )
        rest, slope = _above(noise(self.low_of_sample.counts), whole - low)
        return all_low + rest, grad_all + slope * (grad - grad_low)


def _above(level: float, value: float) -> tuple[float, float]:
    """Compute a smooth max(value − level, 0) and its slope: 0.02 at 0, ½ at the level."""
    t = min(4.0 * (value / level - 1.0), 50.0)
    excess = value - level if t == 50.0 else 0.25 * level * math.log1p(math.exp(t))
    return excess, 1.0 / (1.0 + math.exp(-t))
