"""The parts that all Vega-Lite charts of the report share.

Text that comes from the user (classes, words, labels) is only ever data, under fixed field names:
Vega draws it as text. Colours are custom properties of the page's stylesheet, so that a change of
theme, or printing, needs no new drawing.
"""

from __future__ import annotations

from typing import Any

from unspot.report.palette import CLASS_COLOURS, METHOD_COLOURS, SHAPES

__all__ = ["Spec", "chance_rule", "colour", "measured", "shape", "spec", "tooltip"]

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
