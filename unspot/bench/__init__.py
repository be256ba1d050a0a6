"""The paper's benchmark: its tables and figures on its data or on other data, with one command.

Tables show the paper's numbers beside ours where the paper has the same cell, and they say where
the data differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.bench.paper import paper_rows as paper_rows
    from unspot.bench.run import bench as bench

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "paper": "paper_rows",
        "run": "bench",
    },
)
