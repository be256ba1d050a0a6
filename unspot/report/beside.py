"""Texts beside the points of a chart, without those that would run into each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unspot.report.contents import Tradeoff

__all__ = ["texts_beside"]

#: Size of a letter, in units of the font's size; text is a little wider than it is drawn.
_LETTER = (0.65, 1.2)


def texts_beside(tradeoff: Tradeoff, *, width: float, height: float, font: float = 11) -> list[str]:
    """The rank of every point, or its name where it is alone in its series; "" where too near.

    Of two texts that would overlap the chosen point's stays, else the earlier one. Charts grow
    with their page, so the size is that of a narrow one.

    Parameters
    ----------
    tradeoff : Tradeoff
    width, height : float
        Of the plane on which the points are drawn.
    font : float
        Size of the letters, in the same unit.
    """
    points = tradeoff.points
    often = Counter(point.series for point in points)
    texts = [str(p.rank) if often[p.series] > 1 else p.series for p in points]
    drawn = [tradeoff.reference, *(end for p in points for end in (p.erasure.low, p.erasure.high))]
    xs = _scaled([point.utility.value for point in points], width)
    ys = _scaled([point.erasure.value for point in points], height, drawn)
    kept: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: not points[i].chosen):
        near = (j for j in kept if abs(ys[i] - ys[j]) < _LETTER[1] * font)
        if not any(_overlap(xs[i], texts[i], xs[j], texts[j], font) for j in near):
            kept.append(i)
    return [text if i in kept else "" for i, text in enumerate(texts)]


def _overlap(x: float, text: str, other_x: float, other: str, font: float) -> bool:
    first = text if x <= other_x else other
    return abs(x - other_x) < _LETTER[0] * font * (len(first) + 0.5)


def _scaled(
    values: Sequence[float], size: float, others: Sequence[float | None] = ()
) -> list[float]:
    """Where values are on an axis of a size that shows the others too."""
    everything = [*values, *(other for other in others if other is not None)]
    low, span = min(everything), max(everything) - min(everything)
    return [size * (value - low) / span if span > 0 else 0.0 for value in values]
