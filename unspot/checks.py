"""Checks of what a user gave: numbers, names, ranks, installed packages.

Each check returns the value as it is used, or raises an error with three parts: what came, what was
expected, and the way out.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

import numpy as np


def check_count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """Check an integer within bounds."""
    if _is_integer(value) and value >= least and (most is None or value <= most):
        return int(value)
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"Got {name}={value!r}, but expected an integer {bounds}.")


def check_positive(name: str, value: Any) -> float:
    """Check a finite number above zero."""
    if _is_number(value) and 0 < value < np.inf:
        return float(value)
    raise ValueError(f"Got {name}={value!r}, but expected a positive number.")


def check_share(name: str, value: Any) -> float:
    """Check a number from 0 to below 1."""
    if _is_number(value) and 0 <= value < 1:
        return float(value)
    raise ValueError(
        f"Got {name}={value!r}, but expected a number from 0 to below 1, such as 0.1 for a tenth."
    )


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Check one of several words."""
    listed = list(choices)
    if isinstance(value, str) and value in listed:
        return value
    raise ValueError(
        f"Got {name}={value!r}, but expected {_either(listed)}.{did_you_mean(value, listed)}"
    )


def check_bandwidth(value: Any, rules: Sequence[str] = ("median",)) -> float | None:
    """Check a positive number; return None for the name of a rule."""
    if isinstance(value, str) and value in rules:
        return None
    if _is_number(value) and 0 < value < np.inf:
        return float(value)
    raise ValueError(
        f"Got bandwidth={value!r}, but expected {_either(rules)} or a positive number."
    )


def check_rank(rank: Any, n_features: int, what: str = "the number of features") -> int:
    """Convert a rank to an integer from 1 to ``n_features``; 0.5 is half of the features."""
    if isinstance(rank, (float, np.floating)) and 0 < rank < 1:
        return max(1, round(float(rank) * n_features))
    if _is_integer(rank) and 1 <= rank <= n_features:
        return int(rank)
    raise ValueError(
        f"Got rank={rank!r}, but expected an integer from 1 to {n_features}, {what}, or a "
        "fraction of it between 0 and 1."
    )


def default_ranks(n_features: int) -> tuple[int, ...]:
    """List ranks from nine tenths to one tenth of the features, and one twentieth.

    Examples
    --------
    >>> default_ranks(100)
    (90, 80, 70, 60, 50, 40, 30, 20, 10, 5)
    """
    shares = [*(np.arange(9, 0, -1) / 10), 0.05]
    return tuple(sorted({max(1, round(share * n_features)) for share in shares}, reverse=True))


def did_you_mean(name: Any, among: Iterable[Any]) -> str:
    """Suggest known names that are close to an unknown one, to end a message.

    Examples
    --------
    >>> did_you_mean("leopad", ["leopard", "mean"])
    " Did you mean 'leopard'?"
    """
    near = get_close_matches(str(name), [str(known) for known in among], n=3, cutoff=0.5)
    return f" Did you mean {_either(near)}?" if near else ""


def require(what: str, extra: str, *modules: str) -> None:
    """Raise an error with the command to install, if an optional package is not installed.

    Examples
    --------
    >>> require("unspot lab bench", "report", "json")
    """
    lacking = [module for module in modules if find_spec(module) is None]
    if lacking:
        raise ImportError(
            f"{what} needs {' and '.join(lacking)}, which is not installed: "
            f'pip install "unspot[{extra}]".'
        )


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _either(words: Iterable[str]) -> str:
    *others, last = map(repr, words)
    return f"{', '.join(others)} or {last}" if others else last


def warn(message: str) -> None:
    """Warn at the user's line, however deep inside the package the cause is."""
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").startswith("unspot."):
        level += 1
    warnings.warn(message, UserWarning, stacklevel=level + 1)
