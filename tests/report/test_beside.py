"""Texts beside points: all that fit, none over another."""

from dataclasses import replace

from unspot.report.charts import tradeoff_chart
from unspot.report.contents import Tradeoff, TradeoffPoint
from unspot.report.style import texts_beside
from unspot.tables import Number


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
