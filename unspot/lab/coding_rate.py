"""Coding rates: how many nats a set of rows needs at a given distortion.

R(Z) = ½ log det(I + α ZᵀZ) with α = d/(nε²). All rates here are log-determinants of a positive
definite matrix, taken by Cholesky on the smaller of its two sides, with the gradient in closed
form: ∂R/∂Z = α Z (I + α ZᵀZ)⁻¹, which is several times cheaper than differentiating a Cholesky.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["class_rate", "coding_rate", "kernel_rate", "matched_rate"]

#: ε², the squared distortion of the papers.
DISTORTION = 0.5


def coding_rate(Z: Tensor, *, distortion: float = DISTORTION) -> Tensor:
    """R(Z) = ½ log det(I + d/(nε²)·ZᵀZ). Cost: O(nd·min(n, d)).

    Examples
    --------
    >>> Z = torch.eye(2)  # α = 2/(2·0.5) = 2, so R = ½ log(3·3)
    >>> float(coding_rate(Z))
    1.0986
    """
    return _half_logdet(Z, _alpha(Z, distortion))


def class_rate(
    Z: Tensor, codes: Tensor, n_classes: int, *, distortion: float = DISTORTION
) -> Tensor:
    """Σₖ (nₖ/n) R(Zₖ), the rate of rows that are coded class by class (FaRM)."""
    parts = _by_class(Z, codes, n_classes)
    rates = [len(part) / len(Z) * coding_rate(part, distortion=distortion) for part in parts]
    return torch.stack(rates).sum()


def matched_rate(
    Z: Tensor, codes: Tensor, n_classes: int, *, distortion: float = DISTORTION
) -> Tensor:
    """R(Z|K) of the kernel K = 1[z = z′], without its n×n matrix (KRaM, categories).

    With rows sorted by class, ZZᵀ∘K is block-diagonal, so that its log-determinant is a sum over
    classes of d×d ones: Σₖ ½ log det(I + d/(nε²)·ZₖᵀZₖ), where n counts all rows.
    """
    alpha = _alpha(Z, distortion)
    return torch.stack([_half_logdet(p, alpha) for p in _by_class(Z, codes, n_classes)]).sum()


def kernel_rate(Z: Tensor, K: Tensor, *, distortion: float = DISTORTION) -> Tensor:
    """R(Z|K) = ½ log det(I + d/(nε²)·(ZZᵀ∘K)) for any positive kernel matrix. Cost: O(n³)."""
    return _KernelHalfLogDet.apply(Z, K, _alpha(Z, distortion))


def _alpha(Z: Tensor, distortion: float) -> float:
    return Z.shape[1] / (len(Z) * distortion)


def _by_class(Z: Tensor, codes: Tensor, n_classes: int) -> list[Tensor]:
    order = torch.argsort(codes, stable=True)
    counts = torch.bincount(codes, minlength=n_classes).tolist()
    return [part for part in Z[order].split(counts) if len(part)]


def _half_logdet(Z: Tensor, alpha: float) -> Tensor:
    return _HalfLogDet.apply(Z, alpha)


def _factor(G: Tensor) -> Tensor:
    """Cholesky of I + G, or NaN where rounding made it indefinite: the training loop reports it."""
    G.diagonal().add_(1)
    L, failed = torch.linalg.cholesky_ex(G)
    return L if not bool(failed) else torch.full_like(L, torch.nan)


class _HalfLogDet(torch.autograd.Function):
    """½ log det(I + α ZᵀZ) = ½ log det(I + α ZZᵀ)."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, alpha: float) -> Tensor:
        wide = Z.shape[1] > Z.shape[0]
        L = _factor(alpha * (Z @ Z.T if wide else Z.T @ Z))
        ctx.save_for_backward(Z, L)
        ctx.alpha, ctx.wide = alpha, wide
        return L.diagonal().log().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        Z, L = ctx.saved_tensors
        inverse = torch.cholesky_inverse(L)
        return grad * ctx.alpha * (inverse @ Z if ctx.wide else Z @ inverse), None


class _KernelHalfLogDet(torch.autograd.Function):
    """½ log det(I + α ZZᵀ∘K)."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, K: Tensor, alpha: float) -> Tensor:
        L = _factor(alpha * (Z @ Z.T) * K)
        ctx.save_for_backward(Z, K, L)
        ctx.alpha = alpha
        return L.diagonal().log().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        Z, K, L = ctx.saved_tensors
        return grad * ctx.alpha * ((torch.cholesky_inverse(L) * K) @ Z), None, None
