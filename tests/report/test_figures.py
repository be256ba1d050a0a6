"""Pictures: what they draw, contrast as WCAG defines it, and names of points."""

import io
import sys
from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest

from unspot.report.contents import Attack, Contents, Tradeoff, TradeoffPoint
from unspot.report.figures import (
    CLASS_COLOURS,
    MARKERS,
    METHOD_COLOURS,
    THEME,
    _method_style,
    attackers_figure,
    embedding_figure,
    page_figures,
    to_svg,
    tradeoff_figure,
)
from unspot.tables import Number


def texts(figure):
    from matplotlib.text import Text

    return {text.get_text() for text in figure.findobj(Text)}


@pytest.mark.filterwarnings("ignore:Glyph .* missing from")
def test_every_picture_is_drawn_and_none_is_blank(contents, views):
    figures = page_figures(contents, views)
    assert list(figures) == ["attackers", "tradeoff", "embedding"]
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        buffer.seek(0)
        assert matplotlib.image.imread(buffer)[:, :, :3].std() > 0.02, name


def test_names_are_text_and_not_formulas(views):
    classes = ("$x^2$", "_hidden", *views.classes[2:])
    figure = embedding_figure(replace(views, classes=classes))
    assert {"$x^2$", "_hidden"} <= texts(figure)


def test_unbalanced_dollars_are_drawn(contents, views):
    odd = replace(contents, columns=("100 $", r"\frac{$"), tradeoff=None)
    drawn = replace(views, classes=("$", "$$", "a$b"), after=views.after[:1])
    for figure in page_figures(odd, drawn).values():
        assert "$" in to_svg(figure, "picture")


def test_the_same_figure_gives_the_same_svg(views):
    assert to_svg(embedding_figure(views), "rows") == to_svg(embedding_figure(views), "rows")


def test_many_classes_share_the_last_colour(views):
    many = tuple(f"class {i}" for i in range(20))
    panel = views.before
    curves = tuple(panel.witness.curves[i % 3] for i in range(20))
    wide = replace(panel, witness=replace(panel.witness, curves=curves))
    codes = tuple(i % 20 for i in range(len(views.codes)))
    figure = embedding_figure(replace(views, classes=many, codes=codes, before=wide, after=(wide,)))
    assert "13 other classes" in texts(figure)


def test_no_method_looks_like_the_original_rows_or_like_another():
    """Nine methods take the seven colours in turn; the grey of the original rows is not one."""
    columns = tuple(f"method {i}" for i in range(9))
    attacks = tuple(Attack("trees", i, Number(0.5)) for i in range(10))
    figure = attackers_figure(Contents("t", columns=columns, attacks=attacks))
    looks = [(line.get_color(), line.get_marker()) for line in figure.legends[0].get_lines()]
    assert len(set(looks)) == 10
    assert [colour for colour, _ in looks].count(looks[0][0]) == 1


def test_says_how_to_install_matplotlib(contents, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "unspot\[report\]"'):
        page_figures(contents, None)


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
    assert len(set(MARKERS)) == len(MARKERS) >= 7


def test_many_methods_have_a_colour_and_a_mark_of_their_own():
    """Colours take turns; the mark changes with every turn."""
    looks = [tuple(_method_style(i).values()) for i in range(50)]
    assert len(set(looks)) == 50
    assert [colour for colour, _ in looks].count(looks[0][0]) == 1
    # As many as a benchmark has, without a colour that means two of them.
    assert len({colour for colour, _ in looks[:14]}) == 14
    assert len({light for light, _ in METHOD_COLOURS}) == len(METHOD_COLOURS)


@pytest.mark.parametrize("theme", [0, 1])
def test_no_two_methods_look_alike(theme):
    seen = [lab(linear(pair[theme])) for pair in METHOD_COLOURS]
    for i, one in enumerate(seen):
        assert all(np.linalg.norm(one - other) > 15 for other in seen[:i])


# -- Texts beside points ---------------------------------------------------------------------------


def plane(*places):
    points = [
        TradeoffPoint("LEOPARD", f"rank {rank}", Number(x), Number(y), rank, chosen=rank == 2)
        for rank, x, y in places
    ]
    return Tradeoff("utility", "erasure", tuple(points))


def test_the_ends_of_a_path_and_the_chosen_rank_are_named():
    """Five texts would cover each other; all ranks are in the tooltips and in the table."""
    places = ((20, 1.0, 0.9), (10, 0.7, 0.7), (3, 0.31, 0.5), (2, 0.305, 0.502), (1, 0.3, 0.6))
    figure = tradeoff_figure(plane(*places))
    named = {text.get_text(): text.xy for text in figure.axes[0].texts}
    assert named == {"rank 20": (1.0, 0.9), "rank 2": (0.305, 0.502), "rank 1": (0.3, 0.6)}
    svg = to_svg(figure, "plane")
    assert all(f"rank {rank}: " in svg for rank, *_ in places)


def test_erasers_are_named_in_the_legend():
    points = [replace(p, series=f"e{p.rank}") for p in plane((3, 0.3, 0.5), (1, 0.9, 0.5)).points]
    figure = tradeoff_figure(replace(plane((3, 0.3, 0.5)), points=tuple(points)))
    assert not figure.axes[0].texts
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["e3", "e1"]
