from .kernels import GaussianMixture as GaussianMixture
from .kernels import mean_bandwidth as mean_bandwidth
from .mmd import MMDLoss as MMDLoss
from .mmd import mmd2 as mmd2
from .mmd import mmd2_and_grad as mmd2_and_grad
