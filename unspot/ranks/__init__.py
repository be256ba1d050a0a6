"""Ranks: a path of erasers from high to low rank, and rules that choose one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.ranks.path import PathPoint as PathPoint
    from unspot.ranks.path import RankPath as RankPath
    from unspot.ranks.path import rank_path as rank_path
    from unspot.ranks.selection import Selection as Selection
    from unspot.ranks.selection import select as select

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "path": "PathPoint RankPath rank_path",
        "selection": "Selection select",
    },
)
