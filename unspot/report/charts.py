"""The charts of the page, as Vega-Lite specifications."""

from __future__ import annotations

from typing import Any

from unspot.report.contents import (
    BEFORE,
    Contents,
    Gaps,
    Panel,
    Tradeoff,
    Views,
)
from unspot.report.style import (
    CLASS_COLOURS,
    DASHES,
    PALETTES,
    SHAPES,
    class_slots,
    labels_beside,
    mark_slot,
    method_slot,
    series_numbers,
    texts_beside,
)
from unspot.tables import Number, interval_text, number_text

__all__ = [
    "Spec",
    "attackers_chart",
    "charts",
    "gaps_chart",
    "map_chart",
    "tradeoff_chart",
    "witness_chart",
]

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
        "labelLimit": 165,
    },
    "text": {"color": "var(--ink)", "fontSize": 12},
    "rule": {"color": "var(--soft)"},
    "legend": {"disable": True},  # legends are HTML: they wrap, and can be clicked
}

#: An axis with a title only.
_BARE = {"labels": False, "ticks": False, "grid": False}
#: Data of one row for a layer: without it, its marks are drawn once for every row of the chart.
_ONCE: Spec = {"data": {"values": [{}]}}
#: A text beside a point, on the side where there is room for it.
_ROOM = "width - scale('x', datum.utility) > 12 + 7 * length(datum.beside)"
_BESIDE: Spec = {
    "align": {"expr": f"{_ROOM} ? 'left' : 'right'"},
    "dx": {"expr": f"{_ROOM} ? 10 : -10"},
    "dy": -9,
    "fontSize": 11,
    "color": "var(--soft)",
}
#: Hides the classes that the page's legend has put on this list.
_HIDDEN: Spec = {"name": "hidden", "value": []}
_SHOWN: Spec = {"filter": "indexof(hidden, datum.k) < 0"}
_HIDING: Spec = {"params": [_HIDDEN], "transform": [_SHOWN]}


def charts(contents: Contents, views: Views | None) -> dict[str, Spec]:
    """Every chart that has something to show, by the name of its place in the page."""
    specs: dict[str, Spec] = {}
    if contents.attacks:
        specs["attackers"] = attackers_chart(contents)
    if views is not None:
        for i, panel in enumerate(views.panels):
            specs[f"witness-{i}"] = witness_chart(views, panel)
            specs[f"map-{i}"] = map_chart(views, panel)
    if contents.tradeoff is not None:
        specs["tradeoff"] = tradeoff_chart(contents.tradeoff)
    for i, gaps in enumerate(contents.gaps):
        specs[f"gaps-{i}"] = gaps_chart(gaps, contents)
    return specs


# -- Charts of numbers -----------------------------------------------------------------------------


def attackers_chart(contents: Contents) -> Spec:
    """Dots with intervals: one row per attacker, one dot per representation, against chance."""
    rows = [
        {
            "attacker": attack.attacker,
            "column": attack.column,
            "where": contents.representations[attack.column],
            "accuracy": attack.accuracy.value,
            "shown": interval_text(attack.accuracy, "share"),
            **_method(attack.column),
            **_ends(attack.accuracy),
        }
        for attack in contents.attacks
    ]
    ends = ("accuracy", "low", "high")
    domain = _accuracies([contents.chance, *(row[end] for row in rows for end in ends)])
    x = _number("accuracy", "accuracy on held-out rows", domain, format="~%", tickCount=6)
    lanes = {
        "y": {
            "field": "attacker",
            "type": "nominal",
            "sort": contents.attackers,
            "axis": {"title": None, "grid": True, "tickBand": "extent", "labelPadding": 8},
        },
        "yOffset": {"field": "column", "type": "ordinal"},
        "color": _colour("method"),
    }
    intervals = {**lanes, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    named = _tooltip(attacker="attacker", where="vectors", shown="accuracy")
    dots = {**lanes, "x": x, "shape": _shape(), "tooltip": named}
    return _chart(
        "Accuracy of each attacker before and after erasure, with intervals, against chance.",
        70 + 13 * len(rows),
        rows,
        layer=[
            *_chance_rule(contents.chance, "x", x),
            *_interval_rules(rows, intervals, strokeWidth=2),
            _dots(75, dots),
        ],
    )


def _share(value: float) -> str:
    return number_text(Number(value), "share")


def _accuracies(values: list[float | None]) -> Spec:
    """A scale from a little below everything drawn, chance included, to a little above."""
    drawn = [value for value in values if value is not None]
    low, high = max(0.0, min(drawn) - 0.05), min(1.0, max(drawn) + 0.05)
    return {"domain": [round(low, 2), round(high, 2)], "nice": False}


def tradeoff_chart(tradeoff: Tradeoff) -> Spec:
    """Erasers on the plane of utility and erasure, the chosen one ringed."""
    x = _measured("utility", tradeoff.utility, **_per_cent(tradeoff.utility_unit))
    y = _measured("erasure", tradeoff.erasure, **_per_cent(tradeoff.erasure_unit))
    plane = {"x": x, "y": y, "color": _colour("method")}
    named = _tooltip(
        series="method",
        label="setting",
        shownUtility=tradeoff.utility,
        shownErasure=tradeoff.erasure,
    )
    lines = {
        **plane,
        "detail": {"field": "series"},  # two series may share a colour
        "order": {"field": "rank", "type": "quantitative"},
    }
    intervals = {**plane, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    # A ring that is not to be seen is transparent: a layer without rows has no extent.
    ink = {"color": {"value": "var(--ink)"}}
    visible = {"condition": {"test": "datum.chosen", "value": 1}, "value": 0}
    rings = {**plane, **ink, "opacity": visible}
    dots = {**plane, "shape": _shape(), "tooltip": named}
    texts = {"x": x, "y": y, "text": {"field": "beside"}}
    rows = _tradeoff_rows(tradeoff)
    return _chart(
        "Erasers on the plane of utility kept and concept recovered; the chosen one is ringed.",
        340,
        rows,
        layer=[
            *_chance_rule(tradeoff.reference, "y", y),
            _layer("line", lines, opacity=0.5),
            *_interval_rules(rows, intervals, opacity=0.6),
            _layer("point", rings, shape="circle", size=420, strokeWidth=2),
            _dots(90, dots),
            _layer("text", texts, **_BESIDE),
        ],
    )


def _tradeoff_rows(tradeoff: Tradeoff) -> list[Spec]:
    numbers = series_numbers(tradeoff)
    texts = texts_beside(tradeoff, width=500, height=250)
    return [
        {
            **_method(numbers[point.series]),
            "series": point.series,
            "label": point.label,
            "beside": beside,
            "rank": point.rank,
            "utility": point.utility.value,
            "erasure": point.erasure.value,
            **_ends(point.erasure),
            "chosen": point.chosen,
            "shownUtility": number_text(point.utility, tradeoff.utility_unit),
            "shownErasure": interval_text(point.erasure, tradeoff.erasure_unit),
        }
        for point, beside in zip(tradeoff.points, texts, strict=True)
    ]


def gaps_chart(gaps: Gaps, contents: Contents) -> Spec:
    """TPR gap against the share of the class, one line per label, before and after (Fig. 4)."""
    chosen, name = contents.chosen, gaps.concept_class
    columns = ((0, BEFORE), (chosen + 1, contents.columns[chosen]))
    rows = [
        {"label": point.label, "share": point.share, "where": where, "gap": gap, **_method(column)}
        for point in gaps.points
        for (column, where), gap in zip(columns, (point.before, point.after[chosen]), strict=True)
        if gap is not None
    ]
    x = _measured("share", f"share of {name} among the rows of the label", format="~%")
    y = _measured("gap", f"TPR gap of {name}", format="+.2~f")
    numbers = [
        {"field": "share", "title": "share", "format": ".1%"},
        {"field": "gap", "title": "TPR gap", "format": "+.3f"},
    ]
    named = [*_tooltip(label="label", where="vectors"), *numbers]
    _name_labels(rows)
    texts = {"x": x, "y": y, "text": {"field": "beside"}}
    # In the right half of the chart, names stand to the left of their points.
    inwards = {
        "align": {"expr": "datum.right ? 'right' : 'left'"},
        "dx": {"expr": "datum.right ? -10 : 10"},
    }
    lines = {"x": x, "y": y, "detail": {"field": "label"}}
    dots = {"x": x, "y": y, "color": _colour("method"), "shape": _shape(), "tooltip": named}
    return _chart(
        "Gap in true positive rate against the share of the class, before and after erasure.",
        320,
        rows,
        layer=[
            {**_layer("rule", {"y": _fixed(y, 0)}, strokeDash=[4, 3]), **_ONCE},
            _layer("line", lines, color="var(--line)", strokeWidth=1.5),
            _dots(70, dots),
            _layer("text", texts, **{**_BESIDE, **inwards}),
        ],
    )


def _name_labels(rows: list[Spec]) -> None:
    """Add the name of each label to the end of its line that is further from zero, if it fits."""
    by_label: dict[str, list[Spec]] = {}
    for row in rows:
        row["beside"] = ""
        by_label.setdefault(row["label"], []).append(row)
    ends = [max(of_one, key=lambda row: abs(row["gap"])) for of_one in by_label.values()]
    names = [name if len(name) <= 20 else f"{name[:19]}…" for name in by_label]
    places = ([row[key] for row in ends] for key in ("share", "gap"))
    shares = [row["share"] for row in rows]
    if not rows:  # every gap is undefined
        return
    for row, beside in zip(ends, labels_beside(names, *places, width=300, height=250), strict=True):
        row |= {"beside": beside, "right": 2 * row["share"] > min(shares) + max(shares)}


# -- Charts of the embeddings ----------------------------------------------------------------------


def witness_chart(views: Views, panel: Panel) -> Spec:
    """Densities of the classes along the witness direction of one representation."""
    slots, grid = class_slots(views), panel.witness.grid
    rows = [
        {"k": slots[i], "c": views.classes[i], "x": x, "density": density}
        for i, curve in enumerate(panel.witness.curves)
        for x, density in zip(grid, curve, strict=False)  # a curve may be empty
    ]
    domain = {"domain": [grid[0], grid[-1]], "nice": False}
    title = "position along the direction (standard deviations)"
    x = _number("x", title, domain, grid=False, tickCount=7)
    y = {**_number("density", "density", {}, **_BARE), "stack": None}
    lines = {"x": x, "y": y, "color": _colour("class", "k"), "detail": {"field": "c"}}
    dashes = [list(DASHES[i % len(DASHES)]) for i in range(len(CLASS_COLOURS))]
    dashed = {**lines, "strokeDash": {**_by_number("k", dashes), "type": "ordinal"}}
    named = {**lines, "tooltip": _tooltip(c="class", x="position", density="density")}
    return _chart(
        f"Density of each class along the strongest direction, {panel.name}.",
        210,
        rows,
        **_HIDING,
        layer=[
            _layer("area", lines, opacity=0.12, line=False),
            _layer("line", dashed, strokeWidth=2),
            # Invisible targets, so that hovering near a line shows its numbers.
            _dots(90, named, opacity=0, aria=False),
        ],
    )


def map_chart(views: Views, panel: Panel) -> Spec:
    """Held-out rows in two dimensions."""
    slots = class_slots(views)
    points = zip(panel.points.x, panel.points.y, views.codes, strict=True)
    rows = [{"x": x, "y": y, "k": slots[i], "c": views.classes[i]} for x, y, i in points]
    for row, name in zip(rows, views.names or (), strict=False):
        row["name"] = name
    components = ("first principal component", "second principal component")
    titles = components if views.map_kind == "pca" else ("t-SNE 1", "t-SNE 2")
    scale = {"zero": False, "nice": False, "padding": 6}
    x, y = (
        _number(field, title, scale, **_BARE) for field, title in zip("xy", titles, strict=True)
    )
    named = _tooltip(name="row", c="class") if views.names else _tooltip(c="class")
    dots = {"x": x, "y": y, "color": _colour("class", "k"), "shape": _shape("k"), "tooltip": named}
    return _chart(
        f"Map of held-out rows in two dimensions, {panel.name}.",
        330,
        rows,
        **_HIDING,
        **_dots(22, dots, opacity=0.65, aria=False),
    )


# -- Parts that the charts share -------------------------------------------------------------------


def _chart(description: str, height: int, rows: list[Spec], **parts: Any) -> Spec:
    """A chart as wide as its place in the page."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        "config": CONFIG,
        "data": {"values": rows},
        **parts,
    }


def _layer(kind: str, encoding: Spec, only: str | None = None, **mark: Any) -> Spec:
    """A kind of mark for the rows, or only for those that fulfil a condition."""
    layer: Spec = {"mark": {"type": kind, **mark}, "encoding": encoding}
    return {"transform": [{"filter": only}], **layer} if only else layer


def _interval_rules(rows: list[Spec], encoding: Spec, **mark: Any) -> list[Spec]:
    """The intervals of rows, if one has any: a layer without rows has no extent."""
    if all(row["low"] is None for row in rows):
        return []
    return [_layer("rule", encoding, only="isValid(datum.low)", **mark)]


def _dots(size: int, encoding: Spec, **mark: Any) -> Spec:
    return _layer("point", encoding, **{"filled": True, "size": size, "opacity": 1, **mark})


def _method(i: int) -> Spec:
    """The colour "s" and the mark "m" of column or series ``i``, as fields of a row."""
    return {"s": method_slot(i), "m": mark_slot(i)}


def _ends(number: Number) -> Spec:
    """The interval of a number, as fields of a row."""
    return {"low": number.low, "high": number.high}


def _colour(palette: str, field: str = "s") -> Spec:
    """Colours of the palette "class" or "method", by the number in ``field``."""
    return _by_number(field, [f"var(--{palette}-{i})" for i in range(len(PALETTES[palette]))])


def _shape(field: str = "m") -> Spec:
    """Shapes of marks, by the number in ``field``."""
    return _by_number(field, [SHAPES[i % len(SHAPES)] for i in range(len(CLASS_COLOURS))])


def _by_number(field: str, values: list[Any]) -> Spec:
    scale = {"domain": list(range(len(values))), "range": values}
    return {"field": field, "type": "nominal", "scale": scale}


def _tooltip(**titles: str) -> list[Spec]:
    """What hovering shows: fields with their titles."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def _measured(field: str, title: str, **axis: Any) -> Spec:
    """A number on an axis that need not start at zero."""
    scale = {"zero": False, "padding": 18}
    return _number(field, title, scale, tickCount=6, grid=True, **axis)


def _number(field: str, title: str, scale: Spec, **axis: Any) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        # Where labels come nearer than this, as on a phone, some are left out.
        "axis": {"title": title, "labelSeparation": 5, **axis},
        "scale": scale,
    }


def _fixed(channel: Spec, value: float) -> Spec:
    """A channel at one value instead of a field."""
    return {**{key: part for key, part in channel.items() if key != "field"}, "datum": value}


def _per_cent(unit: str) -> Spec:
    return {"format": "~%"} if unit == "share" else {}


def _chance_rule(chance: float | None, channel: str, definition: Spec) -> list[Spec]:
    """A dashed line where guessing would be, and its name."""
    if chance is None:
        return []
    at = {channel: _fixed(definition, chance)}
    # Below a line, where no point that is better than guessing lies.
    place: Spec = {"align": "right", "dx": -3, "x": "width", "baseline": "top", "dy": 4}
    if channel == "x":
        place = {"align": "left", "dx": 3, "y": 0, "baseline": "bottom", "dy": -3}
    text = f"chance {100 * chance:.1f} %"
    layers = (
        _layer("rule", at, strokeDash=[5, 4], strokeWidth=1.5, color="var(--ink)"),
        _layer("text", at, text=text, fontSize=11, **place),
    )
    return [{**layer, **_ONCE} for layer in layers]
