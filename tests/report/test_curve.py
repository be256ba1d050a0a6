"""Learning curves on the page and as figures: the same numbers, or nothing at all."""

from dataclasses import replace

import pytest

from unspot.evaluation.certificate import AttackCurve
from unspot.evaluation.learning import CurvePoint, LearningCurve
from unspot.report.charts import charts
from unspot.report.contents import Contents
from unspot.report.figures import curve_figure, save_figures
from unspot.report.html import render
from unspot.report.reading import curve_of, read_contents

SIZES, ADVANTAGES = (100, 100, 200, 300), (0.02, 0.04, 0.05, 0.06)


@pytest.fixture
def certificate(make_certificate):
    curve = AttackCurve("trees", SIZES, ADVANTAGES, 10.0, 0.08, (0.06, 0.11))
    return replace(make_certificate(), learning=curve)


@pytest.fixture
def eraser_curve():
    points = tuple(CurvePoint(n, 0, "trees", a) for n, a in zip(SIZES, ADVANTAGES, strict=True))
    return LearningCurve(
        "LEACE", points, 0.4, (0.3, 0.5), 0.066, 2.0, 0.05, (0.045, 0.055), 0.5, 300, 500, "quick"
    )


def test_the_page_of_a_certificate_has_its_curve(certificate):
    contents = read_contents(certificate)
    spec = charts(contents, None)["curve"]
    drawn = {kind: [] for kind in ("dot", "line", "further")}
    for row in spec["data"]["values"]:
        drawn[row["kind"]].append((row["n"], pytest.approx(row["accuracy"] - 1 / 3)))
    assert drawn["dot"] == list(zip(SIZES, ADVANTAGES, strict=True))
    assert drawn["line"] == [(100, 0.03), (200, 0.05), (300, 0.06), (3000, 0.08)]
    assert drawn["further"] == [(3000, 0.08)]
    page = render(contents)
    assert 'data-chart="curve"' in page
    assert "10 times as many rows" in page.replace("\u00a0", " ")


def test_without_a_curve_there_is_no_chart(make_certificate, make_evaluation):
    for result in (make_certificate(), make_evaluation()):
        contents = read_contents(result)
        assert contents.curve is None
        assert "curve" not in charts(contents, None)
        assert 'id="curve"' not in render(contents)


def test_the_curve_of_an_eraser_is_drawn_alike(eraser_curve):
    curve = curve_of(eraser_curve)
    assert curve.points[0] == (100, 0.52)
    assert curve.further[0] == 600
    assert curve.sentence == eraser_curve.sentence
    assert "rows of the fit" in render(Contents("t", chance=0.5, curve=curve))
    (axes,) = curve_figure(curve, 0.5).axes
    assert "rows of the fit" in axes.get_xlabel()
    assert axes.get_xscale() == "log"


def test_the_figure_of_a_certificate_is_saved(certificate, tmp_path):
    files = save_figures(tmp_path, read_contents(certificate), formats=("png",))
    assert tmp_path / "curve.png" in files
