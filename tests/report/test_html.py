"""The page as text: what it holds, what it must not hold. In a browser: ``test_browser.py``."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from html import unescape
from html.parser import HTMLParser

import pytest

from unspot.report import to_html
from unspot.report.charts import charts
from unspot.report.contents import Contents
from unspot.report.files import PathNumbers
from unspot.report.html import render, script_json, write_page
from unspot.report.reading import read_contents

ALL_SECTIONS = {
    *("verdict", "numbers", "attackers", "witness", "map"),
    *("scope", "tradeoff", "fairness", "neighbours", "settings", "reading"),
}


class Page(HTMLParser):
    """Tags with their attributes, texts, and the contents of script blocks."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.scripts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
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


def test_every_place_has_its_chart(page, contents, views):
    places = [a["data-chart"] for _, a in page.tags if "data-chart" in a]
    assert sorted(places) == sorted(charts(contents, views))
    held = json.loads(page.scripts[0])
    assert sorted(held) == sorted(places)


def test_names_that_look_like_markup_stay_text(page, nasty):
    assert [a.get("type") for a in page.all("script")].count(None) == 4  # ours, and no other
    assert page.all("img") == []
    assert not any(name.startswith("on") for _, a in page.tags for name in a)
    shown = "".join(page.texts)
    for name in nasty[:5]:
        assert name in shown


def test_loads_nothing_from_elsewhere(page):
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert attributes.get("href", "#").startswith(("#", "data:,")), tag


def test_the_policy_allows_our_scripts_alone(page):
    (policy,) = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; ")
    allowed = re.search("script-src ([^;]*)", policy).group(1).split()
    ours = [s for s, a in zip(page.scripts, page.all("script"), strict=True) if "type" not in a]
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in ours]
    assert allowed == [f"'sha256-{digest}'" for digest in digests]
    assert "unsafe" not in " ".join(allowed)


def test_carries_the_licences_of_its_charts(page):
    (licences,) = [
        s
        for s, a in zip(page.scripts, page.all("script"), strict=True)
        if a.get("id") == "licences"
    ]
    assert "University of Washington Interactive Data Lab" in licences


def test_same_contents_same_page(contents, views, text):
    assert render(contents, views) == text


def test_a_full_page_stays_under_three_megabytes(contents, views):
    n = 2000
    names = tuple(f"a rather long word or document id {i}" for i in range(n))
    points = replace(views.before.points, x=(0.123,) * n, y=(-0.123,) * n)
    panel = replace(views.before, points=points)
    full = replace(views, names=names, codes=(0,) * n, before=panel, after=(panel,) * 3)
    assert len(render(contents, full).encode()) < 3_000_000


def test_undefined_numbers_are_dashes(page):
    assert "nan" not in "".join(page.texts).lower().split()
    assert "–" in page.texts


def test_no_number_of_javascript_is_nan():
    assert script_json({"x": [float("nan"), float("inf"), 1.5]}) == '{"x":[null,null,1.5]}'


def test_a_path_alone_makes_a_page():
    points = tuple({"rank": r, "held_out": 0.01 * r} for r in (5, 3))
    found = Page(render(read_contents(PathNumbers("LEOPARD", points))))
    assert {s["id"] for s in found.all("section")} == {"verdict", "tradeoff", "reading"}
    assert "NO VERDICT" in "".join(found.texts)


@pytest.mark.parametrize(("metrics", "drawn"), [({}, False), ({"attack": 0.4}, True)])
def test_the_line_of_chance_is_explained_only_if_it_is_drawn(make_certificate, metrics, drawn):
    points = tuple({"rank": r, "held_out": 0.01 * r, **metrics} for r in (5, 3))
    contents = read_contents({"before": make_certificate(), "": PathNumbers("LEOPARD", points)})
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
    from unspot.report import html

    html._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'pip install "unspot\[report\]"'):
        to_html(make_evaluation(), tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_the_bundled_scripts_are_those_of_the_note():
    from importlib.resources import files

    static = files("unspot.report").joinpath("static")
    note = static.joinpath("README.md").read_text(encoding="utf-8")
    for name in ("vega", "vega-lite", "vega-embed"):
        digest = hashlib.sha256(static.joinpath(f"{name}.min.js").read_bytes()).hexdigest()
        assert f"`{digest}`" in note


def test_a_page_of_numbers_needs_neither_torch_nor_pandas(tmp_path, make_evaluation):
    file = tmp_path / "evaluation.json"
    file.write_text(make_evaluation().to_json(), encoding="utf-8")
    script = f"""
import sys
from unspot.report import to_html
from unspot.report.files import read_results
from unspot.report.tables import save_tables
results, views = read_results([{str(file)!r}])
to_html(results, {str(tmp_path / "page.html")!r}, views=views)
print(*{{"torch", "pandas", "sklearn", "matplotlib"}} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_verdict_among_several_erasers_names_its_own(contents):
    chosen = contents.columns[contents.headline.column]
    several = re.search(r"<h2>.*?</h2>", render(contents), re.DOTALL)[0]
    assert len(contents.columns) > 1
    assert f"{chosen}: LEAKS" in unescape(re.sub("<[^>]*>", "", several))


def test_labels_of_axes_keep_apart(contents):
    """On a phone there is no room for all, and they would run into each other."""
    axes = re.findall(r'"axis": ({[^{}]*})', json.dumps(charts(contents, None)))
    numbers = [axis for axis in map(json.loads, axes) if "format" in axis]
    assert numbers
    assert all(axis["labelSeparation"] > 0 for axis in numbers)
