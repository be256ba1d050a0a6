"""One origin and one unit for all features, so that a method does not depend on either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Scaling"]

_CHUNK_ROWS = 16_384


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x − mean)/scale, which keeps all angles and ratios of distances.

    Examples
    --------
    >>> scaling = Scaling.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> scaling.mean, scaling.scale
    (array([2., 5.]), 0.7071)
    """

    mean: NDArray[np.float64]  # (d,)
    scale: float  # the root of the mean variance of the features

    @classmethod
    def of(cls, X: NDArray[Any]) -> Scaling:
        """From rows, in float64 and around the mean: an offset must not swallow the spread."""
        mean = X.mean(axis=0, dtype=np.float64)
        parts = (X[i : i + _CHUNK_ROWS] for i in range(0, len(X), _CHUNK_ROWS))
        variance = sum(float(np.sum((part - mean) ** 2)) for part in parts) / X.size
        return cls(mean, float(np.sqrt(variance)) or 1.0)

    def __call__(self, X: NDArray[Any]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = (X - self.mean) / self.scale
        return result
