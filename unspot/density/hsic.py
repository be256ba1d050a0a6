"""Dependence of rows on anything that has features: unbiased HSIC and its exact gradient.

L = Σ_{a≠b} c_ab k(‖y_a − y_b‖²) with c_ab = ψ(z_a)·ψ(z_b), centred, is the HSIC of y and z. With
features of classes it is MMD²; features of numbers, of several concepts, of a concept within each
value of a task, or of a task with a negative weight give the other problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unspot.density.kernels import Factors, GaussianMixture, Tiles, kernel_sums, mean_bandwidth
from unspot.density.mmd import TiledLoss, mmd2, mmd2_and_grad

__all__ = [
    "HSICLoss",
    "PairWeights",
    "Term",
    "discrepancy",
    "discrepancy_and_grad",
    "hsic",
    "hsic_and_grad",
]

#: Fewer rows have no unbiased HSIC.
LEAST_ROWS = 4


class Term(NamedTuple):
    """A part of the loss: weight · Σ_g p_g HSIC(y, ψ) within groups g of rows.

    ``groups`` are codes from 0 up, −1 for rows without a value; None for one group of all rows.
    """

    features: Tensor  # ψ, (n, m)
    weight: float = 1.0
    groups: Tensor | None = None  # (n,)


class _Part(NamedTuple):
    """Rows whose pairs have weights, in the order of their tiles."""

    rows: Tensor
    tiles: Tiles
    weights: Factors


@dataclass(frozen=True)
class PairWeights:
    """The weights c_ab of pairs of rows for a sum of terms, as factors of m columns.

    Examples
    --------
    >>> weights = PairWeights.of([Term(torch.tensor([[-1.0], [-1.0], [1.0], [1.0], [1.0]]))])
    >>> hsic(torch.tensor([[0.0], [1.0], [2.0], [4.0], [5.0]]), weights).item()
    0.8088...
    """

    n_rows: int
    parts: tuple[_Part, ...]
    size: float = 1.0  # the sizes of all weights of terms

    @classmethod
    def of(cls, terms: Sequence[Term]) -> PairWeights:
        """From the terms of a loss. O(nm) time and memory."""
        n = len(terms[0].features)
        whole: list[Factors] = []
        parts = []
        for term in terms:
            rows, codes = _grouped(term.groups, n, term.features.device)
            if not len(rows):
                continue
            factors = _unbiased(term.features[rows].double(), codes, term.weight)
            if int(codes.max()) == 0:  # one group: its rows and others are summed up together
                whole.append(Factors(*(_spread(factor, rows, n) for factor in factors)))
            else:
                tiles = Tiles.of(codes)
                order = tiles.order
                sorted_factors = Factors(factors.left[order], factors.right[order])
                parts.append(_Part(rows[order], tiles, sorted_factors))
        if whole:
            one = torch.zeros(n, dtype=torch.int64, device=whole[0].left.device)
            left, right = (torch.cat(factors, 1) for factors in zip(*whole, strict=True))
            parts.append(_Part(torch.arange(n).to(one), Tiles.of(one), Factors(left, right)))
        return cls(n, tuple(parts), sum(abs(term.weight) for term in terms))

    def __len__(self) -> int:
        return self.n_rows


def _grouped(groups: Tensor | None, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows in groups that are large enough, and the codes of these groups from 0 up."""
    if groups is None:
        groups = torch.zeros(n, dtype=torch.int64, device=device)
    rows = torch.nonzero(groups >= 0)[:, 0]
    _, codes, counts = torch.unique(groups[rows], return_inverse=True, return_counts=True)
    kept = counts[codes] >= LEAST_ROWS
    return rows[kept], torch.unique(codes[kept], return_inverse=True)[1]


def _unbiased(psi: Tensor, codes: Tensor, weight: float) -> Factors:
    """Factors of c_ab = w·p_g/(n(n − 3))·(ψ_a·ψ_b + u_a + u_b) in groups g of n rows.

    That is Song's unbiased HSIC, written as a sum over pairs: u makes the weights of the pairs of
    every row, the pair with itself left out, sum up to zero.
    """
    counts = torch.bincount(codes).double()
    sums = torch.zeros(len(counts), psi.shape[1]).to(psi).index_add_(0, codes, psi)
    n = counts[codes]
    psi = psi - (sums / counts[:, None])[codes]  # changes no weight, and keeps digits
    own = -(psi * psi).sum(1)  # Σ_{b≠a} ψ_a·ψ_b of centred features
    total = torch.zeros(len(counts)).to(psi).index_add_(0, codes, own)[codes]
    u = total / (2 * (n - 1) * (n - 2)) - own / (n - 2)
    scale = (weight * n / len(psi) / (n * (n - 3)))[:, None]
    ones = torch.ones_like(u)[:, None]
    return Factors(
        scale * torch.cat([psi, u[:, None], ones], 1), torch.cat([psi, ones, u[:, None]], 1)
    )


def _spread(values: Tensor, rows: Tensor, n: int) -> Tensor:
    """Values of some of n rows, and zeros elsewhere."""
    if len(rows) == n:
        return values
    return values.new_zeros(n, values.shape[1]).index_copy_(0, rows, values)


def hsic(
    Y: Tensor,
    weights: PairWeights | Tensor,
    kernel: GaussianMixture | None = None,
) -> Tensor:
    """Unbiased HSIC of rows and features, or the sum of the terms of ``PairWeights``.

    Its mean is zero if rows and features are independent, so it may be negative.

    Parameters
    ----------
    Y : Tensor of shape (n, r)
        Projected embeddings.
    weights : PairWeights, or Tensor of shape (n, m)
        Features of the concept.
    kernel : GaussianMixture, optional
        By default the paper's five kernels with a pooled bandwidth.

    Notes
    -----
    O(n²(r + m)) time, O(n(r + m)) memory. For two classes it is MMD² but for a factor.
    """
    return _hsic(Y, weights, kernel, gradient=False, detach=False)[0]


def hsic_and_grad(
    Y: Tensor,
    weights: PairWeights | Tensor,
    kernel: GaussianMixture | None = None,
    *,
    detach_bandwidth: bool = False,
) -> tuple[Tensor, Tensor]:
    """HSIC and its gradient with respect to Y, in closed form; parameters as ``mmd2_and_grad``."""
    value, grad = _hsic(Y, weights, kernel, gradient=True, detach=detach_bandwidth)
    assert grad is not None
    return value, grad.to(Y.dtype)


def discrepancy(Y: Tensor, z: Any, *args: Any, **options: Any) -> Tensor:
    """``mmd2`` of class codes, ``hsic`` of pair weights."""
    return (hsic if isinstance(z, PairWeights) else mmd2)(Y, z, *args, **options)


def discrepancy_and_grad(Y: Tensor, z: Any, *args: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """``mmd2_and_grad`` of class codes, ``hsic_and_grad`` of pair weights."""
    function = hsic_and_grad if isinstance(z, PairWeights) else mmd2_and_grad
    return function(Y, z, *args, **options)


class HSICLoss(TiledLoss):
    """Independence of any features for any training loop: ``HSICLoss()(rows, features)``.

    As ``MMDLoss``, but the concept has features instead of classes: a number itself finds linear
    dependence on it, and ``unspot.data.features.number_features`` finds any.

    Parameters
    ----------
    kernel : GaussianMixture, optional
        By default the paper's five kernels with a pooled bandwidth.
    detach_bandwidth : bool
        Treat σ as a constant in the gradient.

    Examples
    --------
    >>> Y = torch.tensor([[0.0], [1.0], [2.0], [4.0]], requires_grad=True)
    >>> HSICLoss()(Y, torch.tensor([0.1, 0.3, 0.2, 0.9])).backward()
    >>> Y.grad.shape
    torch.Size([4, 1])
    """

    functions = hsic, hsic_and_grad


def _hsic(
    Y: Tensor,
    weights: PairWeights | Tensor,
    kernel: GaussianMixture | None,
    *,
    gradient: bool,
    detach: bool,
) -> tuple[Tensor, Tensor | None]:
    """HSIC, and its gradient in float64 if it is wanted."""
    kernel = kernel or GaussianMixture.paper()
    if Y.element_size() < 4:  # in half precision squares overflow and sums lose digits
        Y = Y.float()
    weights = _checked(weights, Y)
    centred = Y - Y.mean(0)  # keeps distances, with smaller rounding errors
    if isinstance(kernel.bandwidth, str):
        sigma2 = float(mean_bandwidth(centred)) or 1.0  # if all rows are equal, any σ will do
    else:
        sigma2, detach = float(kernel.bandwidth) ** 2, True
    total = 0.0
    grad = torch.zeros_like(Y, dtype=torch.float64) if gradient else None
    for rows, tiles, factors in weights.parts:
        value, part = kernel_sums(
            centred[rows],
            tiles,
            factors,
            kernel.multipliers,
            sigma2,
            gradient=gradient,
        )
        total += value
        if grad is not None and part is not None:
            grad.index_add_(0, rows, part)
    if grad is not None and not detach:
        # As in mmd: L depends only on Y/σ.
        dot = float((centred * grad).sum(dtype=torch.float64))
        grad.add_(centred, alpha=-2.0 * dot / (sigma2 * max(len(Y) - 1, 1)))
    return Y.new_full((), total, dtype=torch.float64), grad


def _checked(weights: PairWeights | Tensor, Y: Tensor) -> PairWeights:
    if not isinstance(weights, PairWeights):
        features = torch.as_tensor(weights, device=Y.device)
        features = features[:, None] if features.ndim == 1 else features
        if Y.ndim != 2 or features.ndim != 2 or len(features) != len(Y):
            raise ValueError(
                f"Got Y of shape {tuple(Y.shape)} and features of shape {tuple(features.shape)}, "
                "but expected (n, r) and (n, m), with the same number of rows."
            )
        weights = PairWeights.of([Term(features)])
    if len(weights) != len(Y) or not weights.parts:
        raise ValueError(
            f"Got {len(Y)} rows and weights of {len(weights)} rows, but expected the same number, "
            f"and a group of at least {LEAST_ROWS} rows: fewer have no unbiased HSIC. Add rows."
        )
    return weights
