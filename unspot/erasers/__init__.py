"""The methods, one module each, all with the same contract: see ``unspot.erasers.base``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.erasers.adversarial import AdversarialErasure as AdversarialErasure
    from unspot.erasers.base import BaseEraser as BaseEraser
    from unspot.erasers.baselines import MeanProjection as MeanProjection
    from unspot.erasers.baselines import PCAProjection as PCAProjection
    from unspot.erasers.baselines import RandomProjection as RandomProjection
    from unspot.erasers.cascade import Cascade as Cascade
    from unspot.erasers.farm import FaRM as FaRM
    from unspot.erasers.inlp import INLP as INLP
    from unspot.erasers.kernelized import KernelErasure as KernelErasure
    from unspot.erasers.kram import KRaM as KRaM
    from unspot.erasers.leace import LEACE as LEACE
    from unspot.erasers.leopard import LEOPARD as LEOPARD
    from unspot.erasers.matching import MomentMatching as MomentMatching
    from unspot.erasers.networks import DivergenceError as DivergenceError
    from unspot.erasers.rlace import RLACE as RLACE

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "adversarial": "AdversarialErasure",
        "base": "BaseEraser",
        "baselines": "MeanProjection PCAProjection RandomProjection",
        "cascade": "Cascade",
        "farm": "FaRM",
        "inlp": "INLP",
        "kernelized": "KernelErasure",
        "kram": "KRaM",
        "leace": "LEACE",
        "leopard": "LEOPARD",
        "matching": "MomentMatching",
        "networks": "DivergenceError",
        "rlace": "RLACE",
    },
)
