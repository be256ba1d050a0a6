"""What everything rests on: rows, labels, splits, samples and class statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset as Dataset
    from unspot.data.dataset import Lexicon as Lexicon
    from unspot.data.dataset import Split as Split
    from unspot.data.labels import Labels as Labels
    from unspot.data.labels import Measurements as Measurements
    from unspot.data.labels import encode as encode
    from unspot.data.statistics import ClassStatistics as ClassStatistics
    from unspot.data.statistics import CrossStatistics as CrossStatistics

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "dataset": "Dataset Lexicon Split",
        "labels": "Labels Measurements encode",
        "statistics": "ClassStatistics CrossStatistics",
    },
)
