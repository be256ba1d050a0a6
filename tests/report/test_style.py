"""Contrast as WCAG defines it, confusion without colour vision, and texts beside points."""

from dataclasses import replace

import numpy as np
import pytest

from unspot.report.charts import gaps_chart, tradeoff_chart
from unspot.report.contents import Tradeoff, TradeoffPoint
from unspot.report.style import (
    CLASS_COLOURS,
    METHOD_COLOURS,
    SHAPES,
    THEME,
    mark_slot,
    method_slot,
    texts_beside,
)
from unspot.tables import Number

# Machado et al. (2009), severity 1, on linear RGB.
DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]
PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    light = sorted((linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other)), reverse=True)
    return (light[0] + 0.05) / (light[1] + 0.05)


def lab(rgb):
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("name", ["ink", "soft", "link", "good", "bad", "unsure"])
def test_text_is_readable(name, theme):
    grounds = ["page", "card", *([f"{name}-wash"] if f"{name}-wash" in THEME else [])]
    for ground in grounds:
        assert contrast(THEME[name][theme], THEME[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1])
def test_marks_are_visible(theme):
    for pair in CLASS_COLOURS + METHOD_COLOURS:
        assert contrast(pair[theme], THEME["page"][theme]) >= 3


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("vision", [np.eye(3), DEUTERANOPIA, PROTANOPIA])
def test_the_first_classes_differ_to_every_eye(theme, vision):
    seen = [lab(np.array(vision) @ linear(pair[theme])) for pair in CLASS_COLOURS[:3]]
    for i in range(3):
        for j in range(i):
            assert np.linalg.norm(seen[i] - seen[j]) > 15


def test_the_first_classes_and_methods_differ_by_shape():
    assert len(set(SHAPES)) == len(SHAPES) >= 7


def test_many_methods_have_a_colour_and_a_mark_of_their_own():
    """Colours take turns; the mark changes with every turn."""
    pairs = [(method_slot(i), mark_slot(i)) for i in range(1, 50)]
    assert len(set(pairs)) == 49
    assert all(0 < colour < len(METHOD_COLOURS) for colour, _ in pairs)
    assert (method_slot(0), mark_slot(0)) == (0, 0)
    # As many as a benchmark has, without a colour that means two of them.
    assert len({method_slot(i) for i in range(14)}) == 14
    assert len({light for light, _ in METHOD_COLOURS}) == len(METHOD_COLOURS)


@pytest.mark.parametrize("theme", [0, 1])
def test_no_two_methods_look_alike(theme):
    seen = [lab(linear(pair[theme])) for pair in METHOD_COLOURS]
    for i, one in enumerate(seen):
        assert all(np.linalg.norm(one - other) > 15 for other in seen[:i])


# -- Texts beside points: all that fit, none over another ------------------------------------------


def plane(*places, series="LEOPARD"):
    points = [
        TradeoffPoint(series, f"rank {rank}", Number(x), Number(y), rank) for rank, x, y in places
    ]
    return Tradeoff("utility", "erasure", tuple(points))


def shown(tradeoff, **size):
    return texts_beside(tradeoff, **{"width": 500, "height": 250, **size})


NEAR = ((20, 1.0, 0.9), (10, 0.7, 0.7), (3, 0.310, 0.500), (2, 0.305, 0.502), (1, 0.3, 0.6))


def test_of_two_that_would_overlap_one_is_left():
    assert shown(plane(*NEAR)) == ["20", "10", "3", "", "1"]


def test_the_chosen_one_stays():
    tradeoff = plane(*NEAR)
    chosen = [replace(point, chosen=point.rank == 2) for point in tradeoff.points]
    assert shown(replace(tradeoff, points=tuple(chosen))) == ["20", "10", "", "2", "1"]


def test_one_above_the_other_or_on_a_wider_chart_both_stay():
    above = plane((3, 0.30, 0.5), (2, 0.30, 0.6), (9, 1.0, 0.9))
    assert shown(above) == ["3", "2", "9"]
    assert shown(plane(*NEAR), width=50_000) == ["20", "10", "3", "2", "1"]


def test_an_axis_that_has_to_show_more_leaves_less_room():
    tradeoff = plane((3, 0.30, 0.5), (2, 0.30, 0.51), (9, 1.0, 0.6))
    assert shown(tradeoff) == ["3", "2", "9"]
    assert shown(replace(tradeoff, reference=0.3)) == ["3", "", "9"]


def test_a_long_name_takes_its_room():
    tradeoff = plane((3, 0.3, 0.5), (2, 0.4, 0.5), (1, 0.9, 0.5))
    names = ["Cascade(LEOPARD)", "LEACE", "INLP"]
    points = [replace(p, series=name) for p, name in zip(tradeoff.points, names, strict=True)]
    assert shown(replace(tradeoff, points=tuple(points))) == ["Cascade(LEOPARD)", "", "INLP"]


def test_points_in_one_place_show_one():
    assert shown(plane((3, 0.5, 0.5), (2, 0.5, 0.5))) == ["3", ""]


def test_the_chart_draws_them():
    rows = tradeoff_chart(plane(*NEAR))["data"]["values"]
    assert [row["beside"] for row in rows] == ["20", "10", "3", "", "1"]


def test_the_figure_draws_them():
    from unspot.report.figures import tradeoff_figure

    axes = tradeoff_figure(plane(*NEAR)).axes[0]
    assert sorted(text.get_text() for text in axes.texts) == ["1", "10", "20", "3"]


def test_the_chart_of_gaps_names_its_labels(contents, nasty):
    rows = gaps_chart(contents.gaps[0], contents)["data"]["values"]
    named = [row for row in rows if row["beside"]]
    assert all("beside" in row for row in rows)
    assert len({row["label"] for row in named}) == len(named) >= 2
    for row in named:  # at the end that is further from zero
        others = [abs(r["gap"]) for r in rows if r["label"] == row["label"]]
        assert abs(row["gap"]) == max(others)
