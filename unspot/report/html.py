"""Contents and views as one HTML file that needs nothing else: no network, no server.

Text is escaped by Jinja, data by JSON in blocks that do not run, and a content security policy
lets the browser run the report's own scripts (named by their hashes) and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from unspot._version import __version__
from unspot.report.charts import (
    Spec,
    attackers_chart,
    class_slots,
    gaps_chart,
    map_chart,
    series_numbers,
    tradeoff_chart,
    witness_chart,
)
from unspot.report.contents import Contents, TradeoffPoint
from unspot.report.glossary import GLOSSARY
from unspot.report.palette import CLASS_COLOURS, SHAPES, mark_slot, method_slot, theme_css
from unspot.report.tables import attack_table, measure_groups, tiles, tradeoff_table
from unspot.report.views import Views
from unspot.tables import value_text

__all__ = ["LegendEntry", "charts", "class_legend", "column_legend", "render", "series_legend"]

LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
MARKS = {"good": "✓", "bad": "✗", "unsure": "◐"}


def render(contents: Contents, views: Views | None = None, *, made: datetime | None = None) -> str:
    """The page. The same contents give the same page; ``made`` adds the time to its foot."""
    scripts = [*map(_static, LIBRARIES), _template_text("report.js")]
    chosen = [p for p in contents.tradeoff.points if p.chosen] if contents.tradeoff else []
    return _template().render(
        contents=contents,
        views=views,
        version=__version__,
        made=made.strftime("%Y-%m-%d %H:%M") if made else "",
        light=_safe(theme_css(dark=False)),
        dark=_safe(theme_css(dark=True)),
        css=_safe(_template_text("report.css")),
        scripts=[_safe(script) for script in scripts],
        script_hashes=_safe(" ".join(map(_hash, scripts))),
        charts=_safe(script_json(charts(contents, views))),
        licences=_safe(_static("LICENSES.txt")),
        sections=sections(contents, views),
        tiles=tiles(contents),
        groups=measure_groups(contents),
        attack_table=attack_table(contents),
        tradeoff_table=tradeoff_table(contents),
        column_legend=column_legend(("before", *contents.columns)),
        gap_legend=column_legend(("before", *contents.columns), only=(0, contents.chosen + 1)),
        series_legend=series_legend(contents),
        class_legend=class_legend(views),
        panel_names=_panel_names(views),
        chosen_point=_point_name(chosen[0]) if chosen else "",
        glossary=GLOSSARY,
        marks=MARKS,
        share=lambda value: value_text(value, "share"),
        gap=lambda value: "–" if value is None else f"{value:+.3f}",
    )


def charts(contents: Contents, views: Views | None) -> dict[str, Spec]:
    """Every chart there is something to draw for, by the name of its place in the page."""
    found: dict[str, Spec] = {}
    if contents.attacks:
        found["attackers"] = attackers_chart(contents)
    if views is not None:
        for i, panel in enumerate(views.panels):
            found[f"witness-{i}"] = witness_chart(views, panel)
            found[f"map-{i}"] = map_chart(views, panel)
    if contents.tradeoff is not None:
        found["tradeoff"] = tradeoff_chart(contents.tradeoff)
    for i, gaps in enumerate(contents.gaps):
        found[f"gaps-{i}"] = gaps_chart(gaps, contents)
    return found


def sections(contents: Contents, views: Views | None) -> list[tuple[str, str]]:
    """The id and the name of every section with something in it, for the list at the top."""
    wanted = [
        ("numbers", "Before and after", contents.measures),
        ("attackers", "Attackers", contents.attacks),
        ("witness", "Strongest direction", views),
        ("map", "Maps", views),
        ("tradeoff", "Erasure against utility", contents.tradeoff),
        ("fairness", "Fairness", contents.gaps),
        ("neighbours", "Neighbours", contents.neighbours),
        ("settings", "Settings", contents.facts or contents.notes),
        ("reading", "How to read this", True),
    ]
    return [(id_, name) for id_, name, there in wanted if there]


def script_json(value: Any) -> str:
    """JSON that is safe between script tags: no "<" in it, so nothing can close the block.

    Examples
    --------
    >>> script_json({"class": "</script><b>"})
    '{"class":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = json.dumps(_finite(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    """NaN and infinity as null: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _point_name(point: TradeoffPoint) -> str:
    named = not point.label or point.label in point.series
    return point.series if named else f"{point.series}, {point.label}"


def _panel_names(views: Views | None) -> list[str]:
    if views is None:
        return []
    return ["Before erasure", *(f"After {panel.name}" for panel in views.after)]


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            'The report needs jinja2, which is not installed: pip install "unspot[report]".'
        ) from error
    loader = PackageLoader("unspot.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters["unbroken"] = _unbroken
    return environment.get_template("report.html.j2")


def _unbroken(text: str) -> str:
    """Numbers stay on one line with their sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


@cache
def _static(name: str) -> str:
    return files("unspot.report").joinpath("static", name).read_text(encoding="utf-8")


@cache
def _template_text(name: str) -> str:
    return files("unspot.report").joinpath("templates", name).read_text(encoding="utf-8")


def _safe(text: str) -> Any:
    """Text of ours, or escaped already, that Jinja must leave as it is."""
    from markupsafe import Markup

    return Markup(text)


# -- Entries of the page's legends: the mark, its colour, and its name -----------------------------


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
