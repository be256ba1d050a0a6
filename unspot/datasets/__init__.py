"""Data sets: gendered words in the package, loaders of local benchmarks, synthetic laws.

The names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspot.datasets.bios import load_bias_in_bios
    from unspot.datasets.dial import load_dial
    from unspot.datasets.glove import glove_gender, load_glove_gender
    from unspot.datasets.glove_files import read_glove
    from unspot.datasets.wordsim import load_wordsim353

_WHERE = {
    "glove_gender": "unspot.datasets.glove",
    "load_bias_in_bios": "unspot.datasets.bios",
    "load_dial": "unspot.datasets.dial",
    "load_glove_gender": "unspot.datasets.glove",
    "load_wordsim353": "unspot.datasets.wordsim",
    "read_glove": "unspot.datasets.glove_files",
}

__all__ = [
    "glove_gender",
    "load_bias_in_bios",
    "load_dial",
    "load_glove_gender",
    "load_wordsim353",
    "read_glove",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'unspot.datasets' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
