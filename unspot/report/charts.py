"""Charts of measured numbers, as Vega-Lite specifications: attackers, trade-off, fairness."""

from __future__ import annotations

from typing import Any

from unspot.report.beside import texts_beside
from unspot.report.contents import Contents, Gaps, Tradeoff
from unspot.report.palette import mark_slot, method_slot
from unspot.report.vega import Spec, chance_rule, colour, measured, shape, spec, tooltip
from unspot.report.wording import interval_text, number_text

__all__ = [
    "attackers_chart",
    "gaps_chart",
    "series_numbers",
    "series_slots",
    "strongest_first",
    "tradeoff_chart",
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


def strongest_first(contents: Contents) -> list[str]:
    """Names of the attackers, by what they recover after the chosen method."""
    strength: dict[str, float] = {}
    for attack in contents.attacks:
        if attack.column == contents.chosen + 1 or attack.attacker not in strength:
            strength[attack.attacker] = attack.accuracy.value
    return sorted(strength, key=lambda name: -strength[name])


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
