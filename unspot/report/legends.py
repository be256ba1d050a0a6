"""Entries of the page's legends: the mark, its colour, and its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unspot.report.charts import series_numbers
from unspot.report.contents import Contents
from unspot.report.palette import CLASS_COLOURS, SHAPES, mark_slot, method_slot
from unspot.report.view_charts import class_slots
from unspot.report.views import Views

__all__ = ["LegendEntry", "class_legend", "column_legend", "series_legend"]

#: The marks as SVG paths around the origin.
_PATHS = {
    "circle": "M6,0A6,6,0,1,1,-6,0A6,6,0,1,1,6,0",
    "square": "M-5,-5H5V5H-5Z",
    "triangle-up": "M0,-6L6,5H-6Z",
    "diamond": "M0,-7L6,0L0,7L-6,0Z",
    "cross": "M-6,-2H-2V-6H2V-2H6V2H2V6H-2V2H-6Z",
    "triangle-down": "M0,6L6,-5H-6Z",
    "triangle-right": "M6,0L-5,6V-6Z",
}


@dataclass(frozen=True)
class LegendEntry:
    """One line of a legend."""

    text: str
    slot: int
    palette: str
    mark: int | None = None  # by default that of the colour

    @property
    def path(self) -> str:
        mark = self.slot if self.mark is None else self.mark
        return _PATHS[SHAPES[mark % len(SHAPES)]]


def column_legend(names: Sequence[str], only: Sequence[int] | None = None) -> list[LegendEntry]:
    """Before erasure and the methods, or some of them."""
    wanted = range(len(names)) if only is None else [i for i in only if i < len(names)]
    return [LegendEntry(names[i], method_slot(i), "method") for i in wanted]


def series_legend(contents: Contents) -> list[LegendEntry]:
    """The methods of the trade-off."""
    if contents.tradeoff is None:
        return []
    numbers = series_numbers(contents.tradeoff)
    return [
        LegendEntry(name, method_slot(i), "method", mark_slot(i)) for name, i in numbers.items()
    ]


def class_legend(views: Views | None) -> list[LegendEntry]:
    """The classes of the concept; those without a colour of their own in one entry."""
    if views is None:
        return []
    slots = class_slots(views)
    last = len(CLASS_COLOURS) - 1
    rest = [i for i, slot in enumerate(slots) if slot == last]
    entries = [
        LegendEntry(views.classes[i], slot, "class")
        for i, slot in enumerate(slots)
        if slot != last or len(rest) == 1
    ]
    if len(rest) > 1:
        entries.append(LegendEntry(f"{len(rest)} other classes", last, "class"))
    return entries
