"""The paper's benchmark: its tables and figures on its data and on other data, with one command.

Numbers of the paper stand beside ours where it has the same cell, and where the data differ the
tables say so.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspot.bench.paper import paper_rows
    from unspot.bench.run import bench

_WHERE = {"bench": "unspot.bench.run", "paper_rows": "unspot.bench.paper"}

__all__ = ["bench", "paper_rows"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'unspot.bench' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
