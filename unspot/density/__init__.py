"""Pure numerics of density matching on torch tensors."""

from unspot.density.kernels import GaussianMixture, mean_bandwidth
from unspot.density.mmd import MMDLoss, mmd2, mmd2_and_grad

__all__ = ["GaussianMixture", "MMDLoss", "mean_bandwidth", "mmd2", "mmd2_and_grad"]
