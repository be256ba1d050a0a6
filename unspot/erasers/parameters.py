"""Checks of parameters: what came, what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["check_bandwidth", "check_choice", "check_count", "check_positive", "check_share"]


def check_count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """An integer within bounds."""
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if is_integer and value >= least and (most is None or value <= most):
        return int(value)
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"Got {name}={value!r}, but expected an integer {bounds}.")


def check_positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if isinstance(value, (int, float, np.number)) and 0 < value < np.inf:
        return float(value)
    raise ValueError(f"Got {name}={value!r}, but expected a positive number.")


def check_share(name: str, value: Any) -> float:
    """A number from 0 to below 1."""
    if isinstance(value, (int, float, np.number)) and 0 <= value < 1:
        return float(value)
    raise ValueError(f"Got {name}={value!r}, but expected a number from 0 (none) to below 1.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """One of some words."""
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(f"Got {name}={value!r}, but expected {' or '.join(map(repr, choices))}.")


def check_bandwidth(value: Any) -> float | None:
    """A positive number, or None for the median of distances."""
    if isinstance(value, str) and value == "median":
        return None
    if isinstance(value, (int, float, np.number)) and 0 < value < np.inf:
        return float(value)
    raise ValueError(f"Got bandwidth={value!r}, but expected 'median' or a positive number.")
