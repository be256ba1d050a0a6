"""Names of a package that are imported on first use, so that ``import`` stays fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    names : mapping of str to str
        For each module, without the name of the package: its public names, separated by spaces.
    """
    where = {name: f"{package}.{m}" for m, listed in names.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(where[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(where), sorted(where)
