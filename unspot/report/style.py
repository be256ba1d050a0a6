"""What the charts of the page and the figures share: colours, marks, legends, texts beside points.

The colours are readable on light and on dark paper, and without colour vision: classes and methods
also differ by the shape of their marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unspot.report.contents import BEFORE, Tradeoff, Views

__all__ = [
    "CLASS_COLOURS",
    "DASHES",
    "METHOD_COLOURS",
    "PALETTES",
    "SHAPES",
    "THEME",
    "LegendEntry",
    "class_legend",
    "class_slots",
    "column_legend",
    "labels_beside",
    "mark_slot",
    "method_slot",
    "series_legend",
    "series_numbers",
    "texts_beside",
    "theme_css",
]

#: Name → (light, dark).
THEME: dict[str, tuple[str, str]] = {
    "page": ("#ffffff", "#14171c"),
    "card": ("#f5f7f9", "#1d2229"),
    "ink": ("#1b1f24", "#e8ebee"),
    "soft": ("#57606a", "#a3adb8"),
    "line": ("#d5dae0", "#38404a"),
    "link": ("#0b5cad", "#7fb8f0"),
    "good": ("#0a6b4b", "#4fc79a"),
    "good-wash": ("#e5f4ee", "#12302a"),
    "bad": ("#a83a00", "#ff9a63"),
    "bad-wash": ("#fdeee6", "#3a2118"),
    "unsure": ("#7a5200", "#f0bd5e"),
    "unsure-wash": ("#fdf4df", "#352a14"),
}

#: The colours of Okabe and Ito, lightened for dark paper: (light, dark). The last one is shared by
#: all classes that have no colour of their own.
CLASS_COLOURS: tuple[tuple[str, str], ...] = (
    ("#0072b2", "#4ba6e0"),
    ("#d55e00", "#ff8a3d"),
    ("#009e73", "#2cc79a"),
    ("#b3589a", "#e39ac8"),
    ("#b98100", "#e9b44c"),
    ("#3a9bd9", "#8fd0ff"),
    ("#6b4fa0", "#b39ae6"),
    ("#5b6570", "#a8b2bd"),
)

#: The first is for "before erasure". A benchmark has a dozen methods: each has a colour of its own.
METHOD_COLOURS: tuple[tuple[str, str], ...] = (
    ("#6a737d", "#9aa4af"),
    ("#8a3ffc", "#c2a0ff"),
    ("#007d79", "#3ddbd9"),
    ("#c2255c", "#ff8fb1"),
    ("#b26a00", "#f1b04c"),
    ("#1a5fb4", "#84b6f4"),
    ("#4a7a00", "#a5cf5b"),
    ("#7a4b2a", "#d3a585"),
    ("#b5179e", "#f28be0"),
    ("#0084c7", "#25b3ff"),
    ("#d4380d", "#ff7a45"),
    ("#1b8a3a", "#5fe08a"),
    ("#857400", "#dccb3f"),
    ("#4f4a6b", "#a08fc8"),
)

PALETTES = {"class": CLASS_COLOURS, "method": METHOD_COLOURS}

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES: tuple[tuple[int, ...], ...] = (
    (1, 0),
    (7, 3),
    (2, 2),
    (9, 3, 2, 3),
    (4, 4),
    (12, 4),
    (3, 6),
)


def theme_css(dark: bool) -> str:
    """Custom properties of one theme, for a stylesheet."""
    pick = 1 if dark else 0
    properties = {name: pair[pick] for name, pair in THEME.items()}
    for palette, colours in PALETTES.items():
        properties |= {f"{palette}-{i}": pair[pick] for i, pair in enumerate(colours)}
    return " ".join(f"--{name}: {value};" for name, value in properties.items())


# -- Which colour and which mark -------------------------------------------------------------------


def method_slot(i: int) -> int:
    """The colour of column or series ``i``: 0 is before erasure, the others take turns.

    Examples
    --------
    >>> [method_slot(i) for i in (0, 1, 13, 14)]
    [0, 1, 13, 1]
    """
    return 0 if i == 0 else 1 + (i - 1) % (len(METHOD_COLOURS) - 1)


def mark_slot(i: int) -> int:
    """The mark of column or series ``i``: it changes when a colour is used again.

    Examples
    --------
    >>> [mark_slot(i) for i in (0, 1, 13, 14)]
    [0, 1, 6, 2]
    """
    turn = (i - 1) // (len(METHOD_COLOURS) - 1) if i else 0
    return (method_slot(i) + turn) % len(SHAPES)


def series_numbers(tradeoff: Tradeoff) -> dict[str, int]:
    """The number of each series; 0 is reserved for "before"."""
    names = list(dict.fromkeys(point.series for point in tradeoff.points))
    methods = [name for name in names if name != BEFORE]
    return {name: 0 if name == BEFORE else 1 + methods.index(name) for name in names}


def class_slots(views: Views) -> tuple[int, ...]:
    """The colour and mark of each class: if there are too many, the smallest share the last one."""
    limit = len(CLASS_COLOURS)
    if len(views.classes) <= limit:
        return tuple(range(len(views.classes)))
    counts = np.bincount(views.codes, minlength=len(views.classes))
    largest = np.sort(np.argsort(-counts, kind="stable")[: limit - 1])
    slots = np.full(len(views.classes), limit - 1)
    slots[largest] = np.arange(limit - 1)
    return tuple(int(slot) for slot in slots)


# -- Legends ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LegendEntry:
    """A name with its colour, as a number in the palette "class" or "method", and its mark."""

    text: str
    palette: str
    slot: int
    mark: int


def column_legend(names: Sequence[str], numbers: Sequence[int] | None = None) -> list[LegendEntry]:
    """Before erasure and the methods, or those with the given numbers."""
    numbers = range(len(names)) if numbers is None else numbers
    return [_method_entry(names[i], i) for i in numbers if i < len(names)]


def series_legend(tradeoff: Tradeoff) -> list[LegendEntry]:
    """The methods of a trade-off."""
    return [_method_entry(name, i) for name, i in series_numbers(tradeoff).items()]


def class_legend(views: Views) -> list[LegendEntry]:
    """The classes of the concept; those that share a colour have one entry."""
    entries = {}
    slots = class_slots(views)
    for name, slot in zip(views.classes, slots, strict=True):
        sharing = slots.count(slot)
        text = name if sharing == 1 else f"{sharing} other classes"
        entries[slot] = LegendEntry(text, "class", slot, slot % len(SHAPES))
    return [entries[slot] for slot in sorted(entries)]


def _method_entry(name: str, i: int) -> LegendEntry:
    return LegendEntry(name, "method", method_slot(i), mark_slot(i))


# -- Texts beside points ---------------------------------------------------------------------------

#: The width and height of a letter, in units of the font size; a little wider than it is drawn.
_LETTER = (0.65, 1.2)


def texts_beside(tradeoff: Tradeoff, *, width: float, height: float, font: float = 11) -> list[str]:
    """The rank of each point, or its name if it is the only one of its series; "" if too near.

    If two texts would overlap, that of the chosen point stays, otherwise the earlier one.

    Parameters
    ----------
    tradeoff : Tradeoff
    width, height : float
        The size of the plane on which the points are drawn. Charts grow with their page, so give
        the size on a narrow page.
    font : float
        The size of the letters, in the same unit.
    """
    points = tradeoff.points
    series_sizes = Counter(point.series for point in points)
    # Points of one series that have no rank are told apart by nothing short enough.
    ranks = ["" if p.rank is None else str(p.rank) for p in points]
    texts = [
        rank if series_sizes[p.series] > 1 else p.series
        for p, rank in zip(points, ranks, strict=True)
    ]
    drawn = [tradeoff.reference, *(end for p in points for end in (p.erasure.low, p.erasure.high))]
    xs = _scaled([point.utility.value for point in points], width)
    ys = _scaled([point.erasure.value for point in points], height, drawn)
    order = sorted(range(len(points)), key=lambda i: not points[i].chosen)
    return _apart(texts, xs, ys, order, font)


def labels_beside(
    labels: Sequence[str],
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    width: float,
    height: float,
    font: float = 11,
) -> list[str]:
    """The labels of points, those furthest from zero first; "" where one would cover another."""
    order = sorted(range(len(labels)), key=lambda i: -abs(ys[i]))
    return _apart(labels, _scaled(xs, width), _scaled(ys, height), order, font)


def _apart(
    texts: Sequence[str],
    xs: Sequence[float],
    ys: Sequence[float],
    order: Sequence[int],
    font: float,
) -> list[str]:
    """Texts at their places, in this order; "" for one that would cover another before it."""
    shown: list[int] = []
    for i in order:
        near = (j for j in shown if abs(ys[i] - ys[j]) < _LETTER[1] * font)
        if not any(_overlap(xs[i], texts[i], xs[j], texts[j], font) for j in near):
            shown.append(i)
    return [text if i in shown else "" for i, text in enumerate(texts)]


def _overlap(x: float, text: str, other_x: float, other: str, font: float) -> bool:
    first = text if x <= other_x else other
    return abs(x - other_x) < _LETTER[0] * font * (len(first) + 0.5)


def _scaled(
    values: Sequence[float], size: float, others: Sequence[float | None] = ()
) -> list[float]:
    """The positions of values on an axis of a given size that shows the others too."""
    everything = [*values, *(other for other in others if other is not None)]
    low, span = min(everything), max(everything) - min(everything)
    return [size * (value - low) / span if span > 0 else 0.0 for value in values]
