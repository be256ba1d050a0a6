"""Charts of measured numbers, as Vega-Lite specifications: attackers, trade-off, fairness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from unspot.report.contents import Contents, Gaps, Tradeoff, strongest_first
from unspot.report.palette import (
    CLASS_COLOURS,
    DASHES,
    METHOD_COLOURS,
    SHAPES,
    mark_slot,
    method_slot,
)
from unspot.report.views import Panel, Views
from unspot.tables import interval_text, number_text

__all__ = [
    "Spec",
    "attackers_chart",
    "chance_rule",
    "class_slots",
    "colour",
    "gaps_chart",
    "map_chart",
    "measured",
    "series_numbers",
    "series_slots",
    "shape",
    "spec",
    "texts_beside",
    "tooltip",
    "tradeoff_chart",
    "witness_chart",
]

BEFORE = "before"


def attackers_chart(contents: Contents) -> Spec:
    """Dots with intervals: one row an attacker, one dot a representation, against chance."""
    rows = _attack_rows(contents)
    x = {
        "type": "quantitative",
        "axis": {"format": "~%", "title": "accuracy on held-out rows", "tickCount": 6},
        "scale": {"domain": [_floor(rows, contents.chance), 1.0], "nice": False},
    }
    common = {
        "y": {
            "field": "attacker",
            "type": "nominal",
            "sort": strongest_first(contents),
            "axis": {"title": None, "grid": True, "tickBand": "extent", "labelPadding": 8},
        },
        "yOffset": {"field": "column", "type": "ordinal"},
        "color": colour("slot", "method"),
    }
    interval = {**common, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    dot = {
        **common,
        "x": {**x, "field": "accuracy"},
        "shape": shape("slot", "method"),
        "tooltip": tooltip(("attacker", "attacker"), ("where", "vectors"), ("shown", "accuracy")),
    }
    return spec(
        "Accuracy of each attacker before and after erasure, with intervals, against chance.",
        height=70 + 13 * len(rows),
        data={"values": rows},
        layer=[
            *chance_rule(contents.chance, "x", x),
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": interval,
            },
            {"mark": _dots(75), "encoding": dot},
        ],
    )


def tradeoff_chart(tradeoff: Tradeoff) -> Spec:
    """Erasers on the plane of utility and erasure, the chosen one ringed."""
    share = {"format": "~%"} if tradeoff.erasure_unit == "share" else {}
    utility_share = {"format": "~%"} if tradeoff.utility_unit == "share" else {}
    x = measured("utility", tradeoff.utility, **utility_share)
    y = measured("erasure", tradeoff.erasure, **share)
    plane = {"x": x, "y": y, "color": colour("s", "method")}
    named = tooltip(
        ("series", "method"),
        ("label", "setting"),
        ("shownUtility", tradeoff.utility),
        ("shownErasure", tradeoff.erasure),
    )
    beside = {"align": "left", "dx": 10, "dy": -9, "fontSize": 11, "color": "var(--soft)"}
    ring = {"type": "point", "shape": "circle", "size": 420, "strokeWidth": 2}
    return spec(
        "Erasers on the plane of utility kept and concept recovered; the chosen one is ringed.",
        height=340,
        data={"values": _tradeoff_rows(tradeoff)},
        layer=[
            *chance_rule(tradeoff.reference, "y", y),
            {
                "mark": {"type": "line", "opacity": 0.5},
                "encoding": {
                    **plane,
                    "detail": {"field": "series"},  # where two share a colour
                    "order": {"field": "rank", "type": "quantitative"},
                },
            },
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "opacity": 0.6},
                "encoding": {**plane, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "transform": [{"filter": "datum.chosen"}],
                "mark": ring,
                "encoding": {**plane, "color": {"value": "var(--ink)"}},
            },
            {
                "mark": _dots(90),
                "encoding": {**plane, "shape": shape("m", "method"), "tooltip": named},
            },
            {
                "mark": {"type": "text", **beside},
                "encoding": {"x": x, "y": y, "text": {"field": "beside"}},
            },
        ],
    )


def series_slots(tradeoff: Tradeoff) -> dict[str, int]:
    """The colour of every series; the first is kept for "before"."""
    return {name: method_slot(i) for name, i in series_numbers(tradeoff).items()}


def series_numbers(tradeoff: Tradeoff) -> dict[str, int]:
    """Series by their turn; 0 is kept for "before"."""
    names = list(dict.fromkeys(point.series for point in tradeoff.points))
    others = [name for name in names if name != BEFORE]
    return {name: 0 if name == BEFORE else 1 + others.index(name) for name in names}


def gaps_chart(gaps: Gaps, contents: Contents) -> Spec:
    """TPR gap against the share of the class, label by label, before and after (Fig. 4)."""
    x = measured("share", f"share of {gaps.concept_class} among the rows of the label", format="~%")
    y = measured("gap", f"TPR gap of {gaps.concept_class}", format="+.2~f")
    dot = {
        "x": x,
        "y": y,
        "color": colour("column", "method"),
        "shape": shape("column", "method"),
        "tooltip": [
            *tooltip(("label", "label"), ("where", "vectors")),
            {"field": "share", "title": "share", "format": ".1%"},
            {"field": "gap", "title": "TPR gap", "format": "+.3f"},
        ],
    }
    return spec(
        "Gap in true positive rate against the share of the class, before and after erasure.",
        height=320,
        data={"values": _gap_rows(gaps, contents)},
        layer=[
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "strokeDash": [4, 3]},
                "encoding": {"y": {**_without_field(y), "datum": 0}},
            },
            {
                "mark": {"type": "line", "color": "var(--line)", "strokeWidth": 1.5},
                "encoding": {"x": x, "y": y, "detail": {"field": "label"}},
            },
            {"mark": _dots(70), "encoding": dot},
        ],
    )


def _without_field(channel: Spec) -> Spec:
    return {key: value for key, value in channel.items() if key != "field"}


def _dots(size: int) -> Spec:
    return {"type": "point", "filled": True, "size": size, "opacity": 1}


def _attack_rows(contents: Contents) -> list[dict[str, Any]]:
    names = ("before", *contents.columns)
    return [
        {
            "attacker": attack.attacker,
            "column": attack.column,
            "slot": method_slot(attack.column),
            "where": names[attack.column],
            "accuracy": attack.accuracy.value,
            "low": attack.accuracy.low,
            "high": attack.accuracy.high,
            "shown": interval_text(attack.accuracy, "share"),
        }
        for attack in contents.attacks
    ]


def _floor(rows: list[dict[str, Any]], chance: float | None) -> float:
    """Where the axis of accuracies begins: a little below everything drawn."""
    values = [row[key] for row in rows for key in ("accuracy", "low") if row[key] is not None]
    lowest = min([*values, 1.0 if chance is None else chance])
    return float(max(0.0, round(lowest - 0.05, 2)))


def _tradeoff_rows(tradeoff: Tradeoff) -> list[dict[str, Any]]:
    numbers = series_numbers(tradeoff)
    texts = texts_beside(tradeoff, width=500, height=250)
    return [
        {
            "s": method_slot(numbers[point.series]),
            "m": mark_slot(numbers[point.series]),
            "series": point.series,
            "label": point.label,
            "beside": beside,
            "rank": point.rank,
            "utility": point.utility.value,
            "erasure": point.erasure.value,
            "low": point.erasure.low,
            "high": point.erasure.high,
            "chosen": point.chosen,
            "shownUtility": number_text(point.utility, tradeoff.utility_unit),
            "shownErasure": interval_text(point.erasure, tradeoff.erasure_unit),
        }
        for point, beside in zip(tradeoff.points, texts, strict=True)
    ]


def _gap_rows(gaps: Gaps, contents: Contents) -> list[dict[str, Any]]:
    chosen = contents.chosen
    columns = ((0, "before"), (method_slot(chosen + 1), contents.columns[chosen]))
    return [
        {"label": point.label, "share": point.share, "column": column, "where": where, "gap": gap}
        for point in gaps.points
        for (column, where), gap in zip(columns, (point.before, point.after[chosen]), strict=True)
        if gap is not None
    ]


# -- The parts that all Vega-Lite charts of the report share ---------------------------------------


Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
CONFIG: Spec = {
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--soft)",
        "titleColor": "var(--ink)",
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 150,
    },
    "text": {"color": "var(--ink)", "fontSize": 12},
    "rule": {"color": "var(--soft)"},
    "legend": {"disable": True},  # legends are HTML: they wrap, and can be clicked
}
_SIZES = {"class": len(CLASS_COLOURS), "method": len(METHOD_COLOURS)}


def spec(description: str, **parts: Any) -> Spec:
    """A chart as wide as its place in the page."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "autosize": {"type": "fit", "contains": "padding"},
        "config": CONFIG,
        **parts,
    }


def colour(field: str, palette: str) -> Spec:
    """Colours of the palette "class" or "method", by the number in ``field``."""
    numbers = list(range(_SIZES[palette]))
    scale = {"domain": numbers, "range": [f"var(--{palette}-{i})" for i in numbers]}
    return {"field": field, "type": "nominal", "scale": scale}


def shape(field: str, palette: str) -> Spec:
    """Shapes of marks, by the number in ``field``."""
    numbers = list(range(_SIZES[palette]))
    scale = {"domain": numbers, "range": [SHAPES[i % len(SHAPES)] for i in numbers]}
    return {"field": field, "type": "nominal", "scale": scale}


def tooltip(*fields: tuple[str, str]) -> list[Spec]:
    """What hovering shows: pairs of field and title."""
    return [{"field": field, "title": title} for field, title in fields]


def measured(field: str, title: str, **axis: Any) -> Spec:
    """A quantitative channel whose axis need not start at zero."""
    return {
        "field": field,
        "type": "quantitative",
        "axis": {"title": title, "tickCount": 6, "grid": True, **axis},
        "scale": {"zero": False, "padding": 18},
    }


def chance_rule(chance: float | None, channel: str, definition: Spec) -> list[Spec]:
    """A dashed line where a guess without looking would be, and its name."""
    if chance is None:
        return []
    at = {channel: {**definition, "datum": chance}}
    at[channel].pop("field", None)
    line: Spec = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5, "color": "var(--ink)"}
    text: Spec = {"type": "text", "text": f"chance {100 * chance:.1f} %", "fontSize": 11}
    if channel == "x":
        text |= {"align": "left", "baseline": "bottom", "dx": 3, "dy": -3, "y": 0}
    else:
        text |= {"align": "right", "baseline": "bottom", "dx": -3, "dy": -3, "x": "width"}
    once: Spec = {"values": [{}]}  # without data of their own, marks are drawn once for every row
    return [{"data": once, "mark": mark, "encoding": at} for mark in (line, text)]


# -- Charts of the embeddings themselves, as Vega-Lite specifications: witness densities and maps --


#: Hides the classes that the page's legend has put on this list.
_HIDING: Spec = {
    "params": [{"name": "hidden", "value": []}],
    "transform": [{"filter": "indexof(hidden, datum.k) < 0"}],
}


def class_slots(views: Views) -> tuple[int, ...]:
    """The colour of every class: its own for the largest, the last one for all the others."""
    limit = len(CLASS_COLOURS)
    if len(views.classes) <= limit:
        return tuple(range(len(views.classes)))
    counts = np.bincount(views.codes, minlength=len(views.classes))
    largest = np.sort(np.argsort(-counts, kind="stable")[: limit - 1])
    slots = np.full(len(views.classes), limit - 1)
    slots[largest] = np.arange(limit - 1)
    return tuple(int(slot) for slot in slots)


def witness_chart(views: Views, panel: Panel) -> Spec:
    """Densities of the classes along the witness direction of one representation."""
    grid = panel.witness.grid
    x = {
        "field": "x",
        "type": "quantitative",
        "axis": {
            "title": "position along the direction (standard deviations)",
            "grid": False,
            "tickCount": 7,
        },
        "scale": {"domain": [grid[0], grid[-1]], "nice": False},
    }
    y = {
        "field": "density",
        "type": "quantitative",
        "stack": None,
        "axis": {"title": "density", "labels": False, "ticks": False, "grid": False},
    }
    lines = {"x": x, "y": y, "color": colour("k", "class"), "detail": {"field": "c"}}
    numbers = list(range(len(CLASS_COLOURS)))
    dashes = {"domain": numbers, "range": [list(DASHES[i % len(DASHES)]) for i in numbers]}
    dashed = {**lines, "strokeDash": {"field": "k", "type": "ordinal", "scale": dashes}}
    named = tooltip(("c", "class"), ("x", "position"), ("density", "density"))
    return spec(
        f"Density of each class along the strongest direction, {panel.name}.",
        height=210,
        data={"values": _density_rows(views, panel)},
        **_HIDING,
        layer=[
            {"mark": {"type": "area", "opacity": 0.12, "line": False}, "encoding": lines},
            {"mark": {"type": "line", "strokeWidth": 2}, "encoding": dashed},
            {
                # Invisible targets, so that hovering near a line shows its numbers.
                "mark": {"type": "point", "filled": True, "opacity": 0, "size": 90, "aria": False},
                "encoding": {**lines, "tooltip": named},
            },
        ],
    )


def map_chart(views: Views, panel: Panel) -> Spec:
    """Held-out rows in two dimensions."""
    pca = views.map_kind == "pca"
    titles = ("first principal component", "second principal component")
    x, y = (
        {
            "field": field,
            "type": "quantitative",
            "axis": {"title": title, "labels": False, "ticks": False, "grid": False},
            "scale": {"zero": False, "nice": False, "padding": 6},
        }
        for field, title in zip("xy", titles if pca else ("t-SNE 1", "t-SNE 2"), strict=True)
    )
    named = [("name", "row")] if views.names else []
    return spec(
        f"Map of held-out rows in two dimensions, {panel.name}.",
        height=330,
        data={"values": _point_rows(views, panel)},
        **_HIDING,
        mark={"type": "point", "filled": True, "size": 22, "opacity": 0.65, "aria": False},
        encoding={
            "x": x,
            "y": y,
            "color": colour("k", "class"),
            "shape": shape("k", "class"),
            "tooltip": tooltip(*named, ("c", "class")),
        },
    )


def _density_rows(views: Views, panel: Panel) -> list[dict[str, Any]]:
    slots = class_slots(views)
    return [
        {"k": slots[i], "c": views.classes[i], "x": x, "density": density}
        for i, curve in enumerate(panel.witness.curves)
        for x, density in zip(panel.witness.grid, curve, strict=False)  # a curve may be empty
    ]


def _point_rows(views: Views, panel: Panel) -> list[dict[str, Any]]:
    slots = class_slots(views)
    points = zip(panel.points.x, panel.points.y, views.codes, strict=True)
    rows: list[dict[str, Any]] = [
        {"x": x, "y": y, "k": slots[i], "c": views.classes[i]} for x, y, i in points
    ]
    for row, name in zip(rows, views.names or (), strict=False):
        row["name"] = name
    return rows


# -- Texts beside the points of a chart, without those that would run into each other --------------


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
