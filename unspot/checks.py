"""What a user gave, checked: numbers, names, ranks, installed packages.

Each check returns the value as it is used, or raises an error with three parts: what came, what was
expected, and the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

import numpy as np

__all__ = [
    "check_bandwidth",
    "check_choice",
    "check_count",
    "check_positive",
    "check_rank",
    "check_share",
    "did_you_mean",
    "require",
]


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


def check_rank(rank: Any, n_features: int, what: str = "the number of features") -> int:
    """A rank as an integer from 1 to ``n_features``; a fraction in (0, 1) is of the features."""
    is_integer = isinstance(rank, (int, np.integer)) and not isinstance(rank, (bool, np.bool_))
    if isinstance(rank, (float, np.floating)) and 0 < rank < 1:
        return max(1, round(float(rank) * n_features))
    if is_integer and 1 <= rank <= n_features:
        return int(rank)
    raise ValueError(
        f"Got rank={rank!r}, but expected an integer from 1 to {n_features}, {what}, or a "
        "fraction of it between 0 and 1."
    )


def did_you_mean(name: Any, among: Iterable[Any]) -> str:
    """The end of a message about an unknown name: the nearest known ones, or nothing.

    Examples
    --------
    >>> did_you_mean("leopad", ["leopard", "mean"])
    " Did you mean 'leopard'?"
    """
    near = get_close_matches(str(name), [str(known) for known in among], n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def require(what: str, extra: str, *modules: str) -> None:
    """Refuse to begin if an optional package is not installed, with the command that installs it.

    Examples
    --------
    >>> require("unspot bench", "report", "json")
    """
    lacking = [module for module in modules if find_spec(module) is None]
    if lacking:
        raise ImportError(
            f"{what} needs {' and '.join(lacking)}, which is not installed: "
            f'pip install "unspot[{extra}]".'
        )
