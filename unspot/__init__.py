"""unspot takes a concept out of embeddings, and proves that it is gone.

The public names are imported on first use, so that ``unspot --help`` and ``unspot.load`` never
load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot._version import __version__
from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset as Dataset
    from unspot.data.dataset import Split as Split
    from unspot.eraser import Eraser as Eraser
    from unspot.eraser import load as load
    from unspot.erasers.cascade import Cascade as Cascade
    from unspot.erasers.leace import LEACE as LEACE
    from unspot.erasers.leopard import LEOPARD as LEOPARD
    from unspot.erasers.registry import methods as methods
    from unspot.evaluation.certificate import Certificate as Certificate
    from unspot.evaluation.held_out import certify as certify
    from unspot.evaluation.results import Evaluation as Evaluation
    from unspot.evaluation.run import evaluate as evaluate
    from unspot.ranks.path import RankPath as RankPath
    from unspot.ranks.path import rank_path as rank_path

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "data.dataset": "Dataset Split",
        "eraser": "Eraser load",
        "erasers.cascade": "Cascade",
        "erasers.leace": "LEACE",
        "erasers.leopard": "LEOPARD",
        "erasers.registry": "methods",
        "evaluation.certificate": "Certificate",
        "evaluation.held_out": "certify",
        "evaluation.run": "evaluate",
        "evaluation.results": "Evaluation",
        "ranks.path": "RankPath rank_path",
    },
)
__all__ += ["__version__"]
