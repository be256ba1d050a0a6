"""The paper's erasure loss: unbiased MMD² between classes (Eqs. 4–6) and its exact gradient."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from unspot.density.kernels import GaussianMixture, Tiles, kernel_sums, mean_bandwidth

__all__ = ["MMDLoss", "mmd2", "mmd2_and_grad"]


def mmd2(
    Y: Tensor,
    z: Any,
    kernel: GaussianMixture | None = None,
) -> Tensor:
    """Unbiased MMD², summed over all pairs of classes (Eqs. 4–6).

    A U-statistic: its mean is zero if the classes have the same law, so it may be negative.

    Parameters
    ----------
    Y : Tensor of shape (n, r)
        Projected embeddings.
    z : integers of shape (n,)
        The class of each row, at least two rows of each.
    kernel : GaussianMixture, optional
        By default the paper's five kernels with a pooled bandwidth.

    Notes
    -----
    O(n²r) time, O(nr) memory.

    Examples
    --------
    >>> Y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    >>> mmd2(Y, [0, 0, 1, 1], GaussianMixture((2.0,), bandwidth=1.0)).item()
    -0.3934...
    """
    return _mmd2(Y, z, kernel, gradient=False)[0]


def mmd2_and_grad(
    Y: Tensor,
    z: Any,
    kernel: GaussianMixture | None = None,
    *,
    detach_bandwidth: bool = False,
) -> tuple[Tensor, Tensor]:
    """MMD² and its gradient with respect to Y, in closed form.

    Parameters
    ----------
    Y, z, kernel
        As for ``mmd2``.
    detach_bandwidth : bool
        Treat σ as a constant, as the paper's code does. By default the gradient includes how σ
        depends on Y, so that it is the gradient of ``mmd2``.

    Notes
    -----
    O(n²r) time, as much as 1.5 products of an n×r and an r×n matrix; O(nr) memory.
    """
    value, grad = _mmd2(Y, z, kernel, gradient=True, detach=detach_bandwidth)
    assert grad is not None
    return value, grad.to(Y.dtype)


class TiledLoss(nn.Module):
    """A loss of rows whose value and gradient are computed together, tile by tile."""

    #: The value, and the value with its gradient.
    functions: ClassVar[tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, Tensor]]]]

    def __init__(
        self, kernel: GaussianMixture | None = None, *, detach_bandwidth: bool = False
    ) -> None:
        super().__init__()
        self.kernel = kernel or GaussianMixture.paper()
        self.detach_bandwidth = detach_bandwidth

    def forward(self, Y: Tensor, z: Any) -> Tensor:
        value: Tensor = _Tiled.apply(Y, z, self)
        return value


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Y: Tensor, z: Any, loss: TiledLoss) -> Tensor:
        value_of, value_and_grad = loss.functions
        if not ctx.needs_input_grad[0]:
            return value_of(Y, z, loss.kernel).to(Y.dtype)
        value, grad = value_and_grad(
            Y.detach(), z, loss.kernel, detach_bandwidth=loss.detach_bandwidth
        )
        ctx.save_for_backward(grad)
        return value.to(Y.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = ctx.saved_tensors
        return upstream * grad, None, None


class MMDLoss(TiledLoss):
    """Density matching for any training loop: ``MMDLoss()(features, classes)``.

    The forward pass computes value and gradient together, tile by tile. A step takes O(n²r) time
    and O(nr) memory, and autograd stores no n×n matrices.

    Parameters
    ----------
    kernel : GaussianMixture, optional
        By default the paper's five kernels with a pooled bandwidth.
    detach_bandwidth : bool
        Treat σ as a constant in the gradient.

    Examples
    --------
    >>> Y = torch.tensor([[0.0], [1.0], [2.0], [4.0]], requires_grad=True)
    >>> MMDLoss()(Y, torch.tensor([0, 0, 1, 1])).backward()
    >>> Y.grad.shape
    torch.Size([4, 1])
    """

    functions = mmd2, mmd2_and_grad


def _mmd2(
    Y: Tensor,
    z: Any,
    kernel: GaussianMixture | None,
    *,
    gradient: bool,
    detach: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """MMD², and its gradient in float64 if it is wanted."""
    kernel = kernel or GaussianMixture.paper()
    if Y.element_size() < 4:  # in half precision squares overflow and sums lose digits
        Y = Y.float()
    codes, K = _codes(z, Y)
    if kernel.bandwidth != "pair" or K == 2:
        return _pooled(Y, codes, kernel, gradient, detach)
    # With a bandwidth per pair of classes, each pair is a problem of two classes.
    total = Y.new_zeros((), dtype=torch.float64)
    grad = torch.zeros_like(Y, dtype=torch.float64) if gradient else None
    for i, j in combinations(range(K), 2):
        rows = torch.nonzero((codes == i) | (codes == j))[:, 0]
        value, part = _pooled(Y[rows], (codes[rows] == j).long(), kernel, gradient, detach)
        total += value
        if grad is not None and part is not None:
            grad.index_add_(0, rows, part)
    return total, grad


def _pooled(
    Y: Tensor,
    codes: Tensor,
    kernel: GaussianMixture,
    gradient: bool,
    detach: bool,
) -> tuple[Tensor, Tensor | None]:
    """The same with one bandwidth for all classes."""
    tiles = Tiles.of(codes)
    centred = Y[tiles.order]
    centred = centred - centred.mean(0)  # keeps distances, with smaller rounding errors
    if isinstance(kernel.bandwidth, str):
        sigma2 = float(mean_bandwidth(centred)) or 1.0  # if all rows are equal, any σ will do
    else:
        sigma2, detach = float(kernel.bandwidth) ** 2, True
    weights = pair_weights(tiles.counts)
    total, sorted_grad = kernel_sums(
        centred, tiles, weights, kernel.multipliers, sigma2, gradient=gradient
    )
    value = Y.new_full((), total, dtype=torch.float64)
    if sorted_grad is None:
        return value, None
    if not detach:
        # L depends only on Y/σ, so ∂L/∂σ² = −⟨Y, ∂L/∂Y⟩/2σ²; and ∂σ²/∂Y = 4(Y − Ȳ)/(n − 1).
        dot = float((centred * sorted_grad).sum(dtype=torch.float64))
        sorted_grad.add_(centred, alpha=-2.0 * dot / (sigma2 * max(len(Y) - 1, 1)))
    grad = torch.empty_like(sorted_grad)
    grad[tiles.order] = sorted_grad
    return value, grad


def pair_weights(counts: tuple[int, ...]) -> list[list[float]]:
    """c_ab of Eqs. 4–6 for rows a and b by their classes: a K×K table."""
    K = len(counts)
    return [
        [(K - 1.0) / (n * (n - 1)) if i == j else -1.0 / (n * m) for j, m in enumerate(counts)]
        for i, n in enumerate(counts)
    ]


def _codes(z: Any, Y: Tensor) -> tuple[Tensor, int]:
    """Class codes 0…K−1 on Y's device, and K. Every class must have two rows or more."""
    values = torch.as_tensor(z, device=Y.device)
    if Y.ndim != 2 or values.shape != Y.shape[:1]:
        raise ValueError(
            f"Got Y of shape {tuple(Y.shape)} and z of shape {tuple(values.shape)}, but expected "
            "(n, r) and (n,)."
        )
    classes, codes, counts = torch.unique(values, return_inverse=True, return_counts=True)
    if len(classes) < 2 or int(counts.min()) < 2:
        raise ValueError(
            f"Got classes of {counts.tolist()} rows, but expected at least two classes of at "
            "least two rows each."
        )
    return codes, len(classes)
