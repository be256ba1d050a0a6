"""Mixtures of Gaussian kernels, and the bandwidth they are scaled by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unspot.checks import check_bandwidth, check_count

__all__ = ["GaussianMixture", "mean_bandwidth"]

Bandwidth = Literal["pooled", "pair"] | float


@dataclass(frozen=True)
class GaussianMixture:
    """k(x, x′) = Σᵢ exp(−‖x − x′‖² / (mᵢσ²)), the mixture of kernels of §4.2.

    Parameters
    ----------
    multipliers : tuple of float
        The mᵢ. A Gaussian of bandwidth ασ, written exp(−d²/2(ασ)²), has m = 2α².
    bandwidth : {"pooled", "pair"} or float
        σ. ``"pooled"``: the root mean squared pairwise distance of all rows (the paper's mean
        heuristic, in closed form in O(nd)). ``"pair"``: the same, for every pair of classes
        separately. A number: that σ.

    Examples
    --------
    >>> GaussianMixture.paper().multipliers
    (0.03125, 0.125, 0.5, 2.0, 8.0)
    >>> GaussianMixture.reference(n_kernels=2).multipliers
    (0.5, 1.0)
    """

    multipliers: tuple[float, ...]
    bandwidth: Bandwidth = "pooled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "multipliers", tuple(sorted(float(m) for m in self.multipliers)))
        if not self.multipliers or self.multipliers[0] <= 0:
            raise ValueError(
                f"Got multipliers={self.multipliers}, but expected one or more positive numbers."
            )
        check_bandwidth(self.bandwidth, ("pooled", "pair"))

    @classmethod
    def paper(cls, n_kernels: int = 5, bandwidth: Bandwidth = "pooled") -> GaussianMixture:
        """The mixture of the paper's text: σᵢ = αᵢσ with α = ⅛, ¼, ½, 1, 2 for five kernels.

        The paper lists α only for five kernels. For other numbers α are powers of two up to 1 or
        more: {1}, {½, 1}, {2⁻⁶ … 2³} for one, two and ten kernels.
        """
        top = max(0, (check_count("n_kernels", n_kernels) - 1) // 2 - 1)
        exponents = range(top - n_kernels + 1, top + 1)
        return cls(tuple(2.0 * 4.0**e for e in exponents), bandwidth)

    @classmethod
    def reference(cls, n_kernels: int = 5, bandwidth: Bandwidth = "pooled") -> GaussianMixture:
        """The mixture behind the paper's tables: mᵢ = 2^(i − ⌊M/2⌋), so {¼, ½, 1, 2, 4}."""
        half = check_count("n_kernels", n_kernels) // 2
        exponents = range(-half, n_kernels - half)
        return cls(tuple(2.0**e for e in exponents), bandwidth)

    def __call__(self, squared_distances: Tensor, sigma2: Tensor | float) -> Tensor:
        """The kernel at squared distances, by its definition: what tests compare ``tiles`` with."""
        values = [torch.exp(-squared_distances / (m * sigma2)) for m in self.multipliers]
        return torch.stack(values).sum(0)


def mean_bandwidth(Y: Tensor) -> Tensor:
    """σ², the mean squared distance of all pairs of rows, as 2n/(n−1)·tr Cov(Y).

    Takes O(nr) time, where the sum over pairs in §4.2 takes O(n²r). Differentiable.
    """
    n = len(Y)
    centred = Y - Y.mean(0)
    return 2.0 / max(n - 1, 1) * (centred * centred).sum(dtype=torch.float64)
