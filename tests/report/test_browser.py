"""The page in a real browser: Chromium without a window, driven by Selenium."""

import json
import shutil

import pytest

from unspot.report.page import render

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
    """Open the page at a width and in a theme."""

    def open_at(width=1200, theme="light", media=""):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": theme}
        settings = {"media": media, "features": [scheme]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", settings)
        browser.get_log("browser"), browser.get_log("performance")  # what was before is not ours
        browser.get(file.as_uri())
        return browser

    return open_at


def _css(browser, selector):
    return browser.find_elements("css selector", selector)


def _colours(browser, selector):
    """The colours that a selector's elements are filled with, as the browser computes them."""
    script = (
        "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e).fill)"
    )
    return set(browser.execute_script(script, selector))


def test_shows_every_picture_and_asks_for_nothing(open_page, file):
    browser = open_page()
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    pictures = _css(browser, ".chart svg")
    assert len(pictures) == 3
    for picture in pictures:
        assert picture.size["width"] > 300
        assert picture.size["height"] > 100
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    # Names that look like markup are text.
    assert _css(browser, "img") == _css(browser, "script") == []
    assert "<script>window.hacked = 1</script>" in browser.find_element("tag name", "h1").text


def test_follows_the_theme_of_the_system_and_prints_in_light(open_page):
    found = {}
    for theme, media in (("light", ""), ("dark", ""), ("dark", "print")):
        browser = open_page(theme=theme, media=media)
        paper = "return getComputedStyle(document.body).backgroundColor"
        texts = _colours(browser, "#attackers svg text")
        found[theme, media] = (browser.execute_script(paper), frozenset(texts))
    assert found["light", ""] != found["dark", ""]
    assert found["light", ""] == found["dark", "print"]
    assert "rgb(0, 0, 0)" not in found["dark", ""][1]


@pytest.mark.parametrize("width", [390, 1280])
def test_fits_a_phone_and_a_screen(open_page, width):
    browser = open_page(width=width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for selector in (".glance", "#verdict h2"):  # in five seconds: without scrolling
        assert _css(browser, selector)[0].rect["y"] < 800
    heights = browser.execute_script("""
      const texts = [...document.querySelectorAll(".chart svg text")];
      return texts.map((e) => e.getBoundingClientRect().height);
    """)
    assert min(heights) >= 9  # readable letters


def test_texts_of_a_picture_do_not_overlap(open_page):
    browser = open_page()
    overlaps = browser.execute_script("""
      const found = [];
      for (const id of ["attackers", "tradeoff", "embedding"]) {
        const texts = [...document.querySelectorAll(`#${id} svg text`)];
        const boxes = texts.map((e) => [e.textContent, e.getBoundingClientRect()]);
        for (const [i, [one, a]] of boxes.entries())
          for (const [other, b] of boxes.slice(i + 1))
            if (a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 3
                && b.top < a.bottom - 3) found.push([id, one, other]);
      }
      return found;
    """)
    assert overlaps == []
