"""One module a method, every one with the same contract: see ``unspot.erasers.base``."""

from unspot.erasers.adversarial import AdversarialErasure
from unspot.erasers.base import BaseEraser
from unspot.erasers.baselines import MeanProjection, PCAProjection, RandomProjection
from unspot.erasers.cascade import Cascade
from unspot.erasers.farm import FaRM
from unspot.erasers.inlp import INLP
from unspot.erasers.kernelized import KernelErasure
from unspot.erasers.kram import KRaM
from unspot.erasers.leace import LEACE
from unspot.erasers.leopard import LEOPARD
from unspot.erasers.matching import MomentMatching
from unspot.erasers.rlace import RLACE
from unspot.erasers.training import DivergenceError

__all__ = [
    "INLP",
    "LEACE",
    "LEOPARD",
    "RLACE",
    "AdversarialErasure",
    "BaseEraser",
    "Cascade",
    "DivergenceError",
    "FaRM",
    "KRaM",
    "KernelErasure",
    "MeanProjection",
    "MomentMatching",
    "PCAProjection",
    "RandomProjection",
]
