"""The page as text: what it holds, what it must not hold. In a browser: ``test_browser.py``."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from html import unescape
from html.parser import HTMLParser

import pytest

from unspot.report import to_html
from unspot.report.contents import Contents, read_contents
from unspot.report.figures import page_figures
from unspot.report.page import highlights, render, write_page

ALL_SECTIONS = {
    *("verdict", "numbers", "attackers", "embedding"),
    *("scope", "tradeoff", "fairness", "settings", "reading"),
}


class Page(HTMLParser):
    """Tags with their attributes, and texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def text(contents, views):
    return render(contents, views)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_every_section_is_there_and_listed_at_the_top(page):
    assert {s["id"] for s in page.all("section")} == ALL_SECTIONS
    listed = {a["href"].removeprefix("#") for a in page.all("a")}
    assert listed == ALL_SECTIONS - {"verdict"}


def test_sections_without_contents_are_left_out(make_evaluation):
    rows = make_evaluation().rows[:2]
    found = Page(render(read_contents(replace(make_evaluation(), rows=rows, details={}))))
    assert {s["id"] for s in found.all("section")} == {"numbers", "settings", "reading"}


def test_every_picture_is_in_the_page(page, contents, views):
    labels = [a["aria-label"] for a in page.all("svg")]
    assert len(labels) == len(page_figures(contents, views)) == 3


def test_names_that_look_like_markup_stay_text(page, nasty):
    assert page.all("script") == page.all("img") == []
    assert not any(name.startswith("on") for _, a in page.tags for name in a)
    shown = "".join(page.texts)
    for name in nasty[:5]:
        assert name in shown


def test_loads_and_runs_nothing(page):
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:,")), tag
    (policy,) = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; ")
    assert "script-src" not in policy


def test_pictures_follow_the_theme_of_the_page(text):
    """A colour that is no variable would stay as it is on dark paper."""
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "var(--class-0)" in drawn
    assert "var(--method-1)" in drawn
    assert "var(--ink)" in drawn
    assert re.findall("#[0-9a-f]{6}", drawn) == []
    assert not re.search(r"<text(?![^>]*fill)", drawn)  # black by default


def test_points_say_their_names(text, views):
    titles = [unescape(t) for t in re.findall(r"<title>(.*?)</title>", text)]
    assert set(views.names) <= set(titles)
    assert any(re.fullmatch(r"boosted trees: 41\.0 % \(38\.0 to 44\.0\)", t) for t in titles)


def test_same_contents_same_page(contents, views, text):
    assert render(contents, views) == text


def test_a_full_page_stays_under_a_megabyte(contents, views):
    n = 1200
    names = tuple(f"a rather long word or document id {i}" for i in range(n))
    panel = replace(views.before, x=(0.123,) * n, y=(-0.123,) * n)
    full = replace(views, names=names, codes=(0,) * n, before=panel, after=(panel,) * 3)
    assert len(render(contents, full).encode()) < 1_000_000


def test_undefined_numbers_are_dashes(page):
    assert "nan" not in "".join(page.texts).lower().split()
    assert "–" in page.texts


def test_a_path_alone_makes_a_page(make_path):
    found = Page(render(read_contents(make_path((5, 3), metrics=[]))))
    assert {s["id"] for s in found.all("section")} == {"verdict", "tradeoff", "reading"}
    assert "No rank was chosen and certified" in "".join(found.texts)


@pytest.mark.parametrize(("metrics", "drawn"), [([], False), (["attack"], True)])
def test_the_line_of_chance_is_explained_only_if_it_is_drawn(
    make_certificate, make_path, metrics, drawn
):
    contents = read_contents({"before": make_certificate(), "": make_path(metrics=metrics)})
    section = render(contents).split('<section id="tradeoff">')[1].split("</section>")[0]
    assert (contents.tradeoff.reference is not None) == drawn
    assert ("dashed line" in section) == drawn


def test_one_page_for_results_and_for_their_contents(tmp_path, contents, views):
    path = write_page(contents, tmp_path / "page.html", views)
    text = path.read_text(encoding="utf-8")
    made = re.search(r" on ([-0-9]{10} [:0-9]{5})\.", text).group(1)
    assert text == render(contents, views, made=datetime.fromisoformat(made))
    assert f"<dd><bdi>{made[:10]}</bdi></dd>" in text  # the day is at the top too


def test_a_certificate_alone_makes_a_page(make_certificate):
    found = Page(render(read_contents(make_certificate())))
    assert {"verdict", "attackers", "numbers"} <= {s["id"] for s in found.all("section")}


def test_contents_of_nothing_make_a_page():
    assert "How to read this report" in render(Contents("empty"))


def test_writes_the_file_at_once_and_replaces_it(tmp_path, make_evaluation):
    file = tmp_path / "new" / "report.html"
    assert to_html(make_evaluation(), file, title="first") == file
    make_evaluation().to_html(file)
    text = file.read_text(encoding="utf-8")
    assert "first" not in text.split("</title>")[0]
    assert [f.name for f in file.parent.iterdir()] == ["report.html"]


def test_says_how_to_install_jinja(tmp_path, make_evaluation, monkeypatch):
    from unspot.report import page

    page._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'pip install "unspot\[report\]"'):
        to_html(make_evaluation(), tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_numbers_needs_neither_torch_nor_pandas(tmp_path, make_evaluation):
    file = tmp_path / "evaluation.json"
    file.write_text(make_evaluation().to_json(), encoding="utf-8")
    script = f"""
import sys
from pathlib import Path
from unspot import Evaluation
from unspot.report import to_html
text = Path({str(file)!r}).read_text(encoding="utf-8")
to_html(Evaluation.from_json(text), {str(tmp_path / "page.html")!r})
print(*{{"torch", "pandas", "sklearn"}} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_verdict_among_several_erasers_names_its_own(contents):
    chosen = contents.columns[contents.headline.column]
    several = re.search(r"<h2>.*?</h2>", render(contents), re.DOTALL)[0]
    assert len(contents.columns) > 1
    assert f"{chosen}: The concept: attackers" in unescape(re.sub("<[^>]*>", "", several))


def test_attackers_task_and_neighbours_are_read_first(make_evaluation):
    titles = [number.title for number in highlights(read_contents(make_evaluation()))]
    assert titles == ["Strongest attacker", "Task, linear model", "Neighbours kept (A_50 %)"]
