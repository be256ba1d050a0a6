"""Charts of the embeddings themselves, as Vega-Lite specifications: witness densities and maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspot.report.palette import CLASS_COLOURS, DASHES
from unspot.report.vega import Spec, colour, shape, spec, tooltip
from unspot.report.views import Panel, Views

__all__ = ["class_slots", "map_chart", "witness_chart"]

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
