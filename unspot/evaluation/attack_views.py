"""The coordinates that an attacker sees: learned from its training rows, without their labels.

Erasers may shrink what they cannot remove, so an adversary looks in more than one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.statistics import whitening

__all__ = ["View", "principal", "standardised", "whitened"]

Array = NDArray[Any]
View = Callable[[Array], Array]  # (n, d) → (n, coordinates)

#: Columns below this share of the largest deviation are rounding; above it, however small, they are
#: data: an adversary may look at them through a glass.
_ROUNDING = 1e-10


def standardised(X: Array) -> View:
    """Every column in units of its deviation."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale <= _ROUNDING * scale.max(initial=0.0)] = np.inf
    return lambda rows: (rows - mean) / scale


def principal(X: Array) -> View:
    """Principal coordinates, all in the unit of their mean deviation: distances stay."""
    mean = X.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(X, rowvar=False).reshape(X.shape[1], -1))
    kept = variances > _ROUNDING * max(variances[-1], 0.0)
    U = directions[:, kept][:, ::-1] / np.sqrt(variances[kept].mean() if kept.any() else 1.0)
    return lambda rows: (rows - mean) @ U if kept.any() else rows - mean


def whitened(X: Array) -> View:
    """Unit variance in every direction that has any."""
    mean = X.mean(axis=0)
    W, _ = whitening(np.cov(X, rowvar=False).reshape(X.shape[1], -1))
    return lambda rows: (rows - mean) @ W
