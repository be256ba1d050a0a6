import sys
from dataclasses import replace

import matplotlib.image
import pytest

from unspot.report.contents import Attack, Contents
from unspot.report.figures import attackers_figure, before_after_figure, save, save_figures
from unspot.tables import Number


def texts(figure):
    from matplotlib.text import Text

    return {text.get_text() for text in figure.findobj(Text)}


@pytest.fixture(scope="module")
def files(tmp_path_factory, contents, views):
    return save_figures(tmp_path_factory.mktemp("figures"), contents, views)


def test_every_figure_as_png_and_pdf(files):
    stems = (
        "attackers",
        "before-after-1",
        "before-after-2",
        "tradeoff",
        "gaps-1",
        "gaps-2",
        "gaps-3",
    )
    assert [f.name for f in files] == [f"{s}.{e}" for s in stems for e in ("png", "pdf")]
    for file in files:
        head = file.read_bytes()[:5]
        assert head == (b"%PDF-" if file.suffix == ".pdf" else b"\x89PNG\r")


def test_pictures_are_not_blank(files):
    for file in files[::2]:
        image = matplotlib.image.imread(file)[:, :, :3]
        assert image.std() > 0.02, file.name


def test_names_are_text_and_not_formulas(views):
    classes = ("$x^2$", "_hidden", *views.classes[2:])
    figure = before_after_figure(replace(views, classes=classes))
    assert {"$x^2$", "_hidden"} <= texts(figure)


def test_unbalanced_dollars_are_drawn(tmp_path, contents, views):
    odd = replace(contents, columns=("100 $", r"\frac{$"), gaps=(), tradeoff=None)
    drawn = replace(views, classes=("$", "$$", "a$b"), after=views.after[:1])
    assert len(save_figures(tmp_path, odd, drawn, formats=("png",))) == 2


def test_the_same_figure_gives_the_same_bytes(tmp_path, views):
    for ending in ("png", "pdf"):
        files = [save(before_after_figure(views), tmp_path / f"{i}.{ending}") for i in range(2)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_many_classes_share_the_last_colour(views):
    many = tuple(f"class {i}" for i in range(20))
    panel = views.before
    curves = tuple(panel.witness.curves[i % 3] for i in range(20))
    wide = replace(panel, witness=replace(panel.witness, curves=curves))
    codes = tuple(i % 20 for i in range(len(views.codes)))
    figure = before_after_figure(
        replace(views, classes=many, codes=codes, before=wide, after=(wide,))
    )
    assert "13 other classes" in texts(figure)


def test_no_method_looks_like_the_original_rows_or_like_another():
    """Nine methods take the seven colours in turn; the grey of the original rows is not one."""
    columns = tuple(f"method {i}" for i in range(9))
    attacks = tuple(Attack("trees", i, Number(0.5)) for i in range(10))
    axes = attackers_figure(Contents("t", columns=columns, attacks=attacks)).axes[0]
    looks = [(line.get_color(), line.get_marker()) for line in axes.get_legend().get_lines()]
    assert len(set(looks)) == 10
    assert [colour for colour, _ in looks].count(looks[0][0]) == 1


def test_says_how_to_install_matplotlib(tmp_path, contents, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "unspot\[report\]"'):
        save_figures(tmp_path, contents)
