"""The paper's benchmark: its tables and figures on its data and on other data, with one command.

Numbers of the paper stand beside ours where it has the same cell. Where the data differ, the tables
say so.
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
