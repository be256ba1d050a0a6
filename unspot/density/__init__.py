"""Density matching on torch tensors: kernels, and the unbiased MMD² between classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.density.kernels import GaussianMixture as GaussianMixture
    from unspot.density.kernels import mean_bandwidth as mean_bandwidth
    from unspot.density.mmd import MMDLoss as MMDLoss
    from unspot.density.mmd import mmd2 as mmd2
    from unspot.density.mmd import mmd2_and_grad as mmd2_and_grad

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {"kernels": "GaussianMixture mean_bandwidth", "mmd": "MMDLoss mmd2 mmd2_and_grad"},
)
