"""unspot takes a concept out of embeddings, and proves that it is gone.

The public names are imported on first use, so that ``unspot --help`` and ``unspot.load`` never
load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unspot._version import __version__

if TYPE_CHECKING:
    from unspot.dataset import Dataset, Split
    from unspot.eraser import Eraser, load
    from unspot.erasers.cascade import Cascade
    from unspot.erasers.leace import LEACE
    from unspot.erasers.leopard import LEOPARD
    from unspot.evaluation.certificate import Certificate, certify
    from unspot.evaluation.evaluate import Evaluation, evaluate
    from unspot.path import RankPath, rank_path
    from unspot.registry import methods

_WHERE = {
    "LEOPARD": "unspot.erasers.leopard",
    "Cascade": "unspot.erasers.cascade",
    "LEACE": "unspot.erasers.leace",
    "Eraser": "unspot.eraser",
    "load": "unspot.eraser",
    "Dataset": "unspot.dataset",
    "Split": "unspot.dataset",
    "Evaluation": "unspot.evaluation.evaluate",
    "evaluate": "unspot.evaluation.evaluate",
    "Certificate": "unspot.evaluation.certificate",
    "certify": "unspot.evaluation.certificate",
    "RankPath": "unspot.path",
    "rank_path": "unspot.path",
    "methods": "unspot.registry",
}

__all__ = [
    "LEACE",
    "LEOPARD",
    "Cascade",
    "Certificate",
    "Dataset",
    "Eraser",
    "Evaluation",
    "RankPath",
    "Split",
    "__version__",
    "certify",
    "evaluate",
    "load",
    "methods",
    "rank_path",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'unspot' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
