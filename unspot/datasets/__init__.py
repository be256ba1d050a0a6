"""Data sets: gendered words in the package, loaders of local benchmarks, synthetic laws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.datasets.bios import load_bias_in_bios as load_bias_in_bios
    from unspot.datasets.dial import load_dial as load_dial
    from unspot.datasets.glove import glove_gender as glove_gender
    from unspot.datasets.glove import load_glove_gender as load_glove_gender
    from unspot.datasets.glove import load_wordsim353 as load_wordsim353
    from unspot.datasets.glove import read_glove as read_glove

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "bios": "load_bias_in_bios",
        "dial": "load_dial",
        "glove": "glove_gender load_glove_gender load_wordsim353 read_glove",
    },
)
