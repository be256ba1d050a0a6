"""Colours of the report and of the figures: readable on light and dark, and without colour vision.

Classes and methods are also told apart by the shape of their marks.
"""

from __future__ import annotations

__all__ = [
    "CLASS_COLOURS",
    "CLASS_LIMIT",
    "DASHES",
    "METHOD_COLOURS",
    "SHAPES",
    "THEME",
    "mark_slot",
    "method_slot",
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

#: Okabe and Ito's colours, the dark ones lightened on dark paper: (light, dark).
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
#: The most classes that are drawn one by one; the smallest beyond share the last colour.
CLASS_LIMIT = len(CLASS_COLOURS)

#: The first is for "before erasure".
METHOD_COLOURS: tuple[tuple[str, str], ...] = (
    ("#6a737d", "#9aa4af"),
    ("#8a3ffc", "#c2a0ff"),
    ("#007d79", "#3ddbd9"),
    ("#c2255c", "#ff8fb1"),
    ("#b26a00", "#f1b04c"),
    ("#1a5fb4", "#84b6f4"),
    ("#4a7a00", "#a5cf5b"),
    ("#7a4b2a", "#d3a585"),
)

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


def method_slot(i: int) -> int:
    """The colour of a column or series: 0 is before erasure, the others take turns.

    Examples
    --------
    >>> [method_slot(i) for i in (0, 1, 7, 8)]
    [0, 1, 7, 1]
    """
    return 0 if i == 0 else 1 + (i - 1) % (len(METHOD_COLOURS) - 1)


def mark_slot(i: int) -> int:
    """The mark that goes with it: another one in every round, so that no pair comes twice soon.

    Examples
    --------
    >>> [mark_slot(i) for i in (0, 1, 7, 8)]
    [0, 1, 0, 2]
    """
    turn = (i - 1) // (len(METHOD_COLOURS) - 1) if i else 0
    return (method_slot(i) + turn) % len(SHAPES)


def theme_css(dark: bool) -> str:
    """Custom properties of one theme, for a stylesheet."""
    pick = 1 if dark else 0
    properties = {name: pair[pick] for name, pair in THEME.items()}
    properties |= {f"class-{i}": pair[pick] for i, pair in enumerate(CLASS_COLOURS)}
    properties |= {f"method-{i}": pair[pick] for i, pair in enumerate(METHOD_COLOURS)}
    return " ".join(f"--{name}: {value};" for name, value in properties.items())
