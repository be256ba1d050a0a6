"""The page in a real browser: Chromium without a window, driven by Selenium."""

import json
import shutil
import time

import pytest

from unspot.report.contents import Contents, Measure
from unspot.report.html import render
from unspot.tables import Number

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--force-device-scale-factor=1",
)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = (
        _found(*names) for names in (("chromium", "chromium-browser"), ("chromedriver",))
    )
    if program is None or driver is None:
        pytest.skip("no Chromium with its driver here; .ci/install-browser installs both")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


def _found(*names):
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def file(tmp_path_factory, contents, views):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(contents, views), encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser, file):
    """Open the page at a width and in a theme, and wait until its charts are drawn."""

    def open_at(width=1200, theme="light", path=file):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": theme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get_log("browser"), browser.get_log("performance")  # what was before is not ours
        browser.get(path.as_uri())
        _wait(lambda: browser.execute_script("return document.documentElement.dataset.ready"))
        return browser

    return open_at


def _wait(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "the page did not get ready"
        time.sleep(0.05)
    return found


def _css(browser, selector):
    return browser.find_elements("css selector", selector)


def _hover(browser, element):
    """What the tooltip says when the mouse comes to an element."""
    from selenium.webdriver.common.action_chains import ActionChains

    place = "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})"
    browser.execute_script(place, element)

    def tooltip():
        ActionChains(browser).move_by_offset(1, 1).move_to_element(element).perform()
        return _css(browser, "#vg-tooltip-element.visible")

    return _wait(tooltip, seconds=20)[0].text


def test_draws_every_chart_without_a_word_on_the_console(open_page):
    browser = open_page()
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    places = _css(browser, ".chart")
    assert len(places) == 1 + 3 + 3 + 1 + 3
    for place in places:
        assert place.get_attribute("data-drawn") == "yes"
        (drawing,) = place.find_elements("css selector", "svg.marks")
        assert drawing.size["width"] > 300
        assert drawing.size["height"] > 100


def test_asks_the_network_for_nothing(open_page, file):
    browser = open_page()
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert {url.split(",")[0] for url in asked} <= {file.as_uri(), "data:"}


def test_every_section_is_visible(open_page):
    browser = open_page()
    for section in _css(browser, "main section"):
        assert section.is_displayed()
        assert section.size["height"] > 60, section.get_attribute("id")


def test_names_appear_as_text_and_never_run(open_page, nasty):
    browser = open_page()
    assert browser.execute_script("return window.hacked") is None
    assert _css(browser, "img") == []
    text = browser.execute_script("return document.querySelector('main').textContent")
    for name in nasty[:5]:
        assert name in text


def test_hovering_a_dot_shows_its_numbers(open_page):
    browser = open_page()
    dot = _css(browser, '[data-chart="attackers"] .mark-symbol path')[0]
    shown = _hover(browser, dot)
    assert "attacker" in shown
    assert "%" in shown


def test_hovering_a_point_shows_its_name_as_text(open_page, views, nasty):
    browser = open_page()
    points = _css(browser, '[data-chart="map-0"] .mark-symbol path')
    assert len(points) == len(views.codes)
    wanted = next(i for i, name in enumerate(views.names) if name.startswith(nasty[0]))
    shown = _hover(browser, points[wanted])
    # Points lie on each other, so that the one on top may be another: all have such names.
    assert any(name in shown for name in nasty)
    assert browser.execute_script("return window.hacked") is None


def test_hovering_the_tradeoff_shows_values(open_page):
    browser = open_page()
    dots = _css(browser, '[data-chart="tradeoff"] .mark-symbol path')
    shown = _hover(browser, dots[-1])
    assert "accuracy of the task" in shown


def test_clicking_a_class_hides_it(open_page, views):
    browser = open_page()
    points = '[data-chart="map-0"] .mark-symbol path'
    everything = len(_css(browser, points))
    button = _css(browser, "#map .legend button")[0]
    browser.execute_script("arguments[0].click()", button)
    rest = sum(code != 0 for code in views.codes)
    _wait(lambda: len(_css(browser, points)) == rest, seconds=10)
    assert button.get_attribute("aria-pressed") == "false"
    browser.execute_script("arguments[0].click()", button)
    _wait(lambda: len(_css(browser, points)) == everything, seconds=10)


def _colours(browser):
    script = """
    const style = (e) => getComputedStyle(e);
    const dot = document.querySelector('[data-chart="attackers"] .mark-symbol path');
    const label = document.querySelector('[data-chart="attackers"] .role-axis-label text');
    return [style(document.body).backgroundColor, style(document.body).color,
            style(dot).fill, style(label).fill];
    """
    return browser.execute_script(script)


def test_follows_the_theme_of_the_system_and_the_buttons(open_page):
    light = _colours(open_page(theme="light"))
    browser = open_page(theme="dark")
    dark = _colours(browser)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    buttons = {b.get_attribute("data-theme"): b for b in _css(browser, ".themes button")}
    for name, expected in (("light", light), ("dark", dark), ("auto", dark)):
        browser.execute_script("arguments[0].click()", buttons[name])
        assert _colours(browser) == expected


def test_prints_in_light_colours(open_page):
    light = _colours(open_page(theme="light"))
    browser = open_page(theme="dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert _colours(browser) == light
    assert not _css(browser, ".themes")[0].is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("width", [380, 768, 1400])
def test_never_scrolls_sideways(open_page, width):
    browser = open_page(width=width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    wide = browser.execute_script(
        "return [...document.querySelectorAll('main *:not(svg *)')]"
        ".filter(e => e.getBoundingClientRect().right > arguments[0] + 1)"
        ".map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40))",
        width,
    )
    assert wide == []


@pytest.mark.parametrize(("width", "media"), [(1200, ""), (745, "print")])
def test_nine_erasers_are_seen_without_scrolling(open_page, tmp_path, width, media):
    """As in the table of a benchmark, with the numbers of the paper."""
    shares, bits = (Number(0.444, 0.012),) * 9, (Number(27.82, 0.05),) * 9
    measures = tuple(
        Measure(unit, "Probe of the paper’s tables", values[0], values, unit, published=values)
        for unit, values in (("share", shares), ("kbit", bits))
    )
    names = tuple(f"L̄EOPARD, cascaded, rank {i}" for i in range(9))
    path = tmp_path / "many.html"
    path.write_text(render(Contents("Benchmark", columns=names, measures=measures)))
    browser = open_page(width=width, path=path)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
    seen, needed = browser.execute_script(
        "const box = document.querySelector('.wide'); return [box.clientWidth, box.scrollWidth]"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert needed <= seen


def test_labels_of_axes_do_not_overlap(open_page):
    for width in (380, 1200):
        browser = open_page(width=width)
        overlaps = browser.execute_script(
            """
            const found = [];
            for (const axis of document.querySelectorAll('.role-axis-label')) {
              const boxes = [...axis.querySelectorAll('text')]
                .filter(t => getComputedStyle(t).opacity !== '0')
                .map(t => [t.getBoundingClientRect(), t.textContent]);
              for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
                const [a, s] = boxes[i], [b, t] = boxes[j];
                if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
                  found.push(s + ' / ' + t);
              }
            }
            return found;
            """
        )
        assert overlaps == []


def test_tables_need_no_scripts(browser, file):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(file.as_uri())
        assert "Before and after" in _css(browser, "#numbers h2")[0].text
        assert "%" in _css(browser, "#numbers td")[0].text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_no_chart_of_numbers_alone_warns(open_page, tmp_path, make_certificate, make_path):
    """Charts without intervals, without a chosen point, or with nothing before erasure."""
    from unspot.report.reading import read_contents

    for name, results in {"certificate": make_certificate(), "path": make_path()}.items():
        contents = read_contents(results)
        path = tmp_path / f"{name}.html"
        path.write_text(render(contents), encoding="utf-8")
        browser = open_page(path=path)
        assert [entry["message"] for entry in browser.get_log("browser")] == []
