"""Make the pictures of the README and the documentation from the real demo.

    python tools/make_pictures.py           # all of them
    python tools/make_pictures.py sources

``demo`` writes ``docs/_static/before-after.png`` and ``docs/_static/report.png``; it needs
selenium, and Chromium with its driver, and takes about a minute. ``sources`` writes
``docs/_static/sources.png``.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from unspot.cli.demo import run_demo
from unspot.datasets import load_glove_gender
from unspot.report import make_views
from unspot.report.figures import embedding_figure

STATIC = Path(__file__).parents[1] / "docs" / "_static"
RESULTS = STATIC.parents[1] / "benchmarks" / "results" / "sites.json"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
WIDTH, HEIGHT = 1100, 1240
COLOURS = ("#9aa5b1", "#0072b2")
MOST_BYTES = 300_000


def main(names: list[str]) -> None:
    STATIC.mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        PICTURES[name]()


def demo() -> None:
    """Draw the words of the demo before and after, and the top of its report."""
    with tempfile.TemporaryDirectory() as folder:
        data = load_glove_gender()
        _, eraser = run_demo(Path(folder), data)
        views = make_views(eraser, data)
        ends = (views.before, views.after[-1])
        save(embedding_figure(views, ends), STATIC / "before-after.png")
        page = screenshot(Path(folder) / "report.html", Path(folder))
        shrink(Image.open(io.BytesIO(page)), STATIC / "report.png")


def save(figure: Any, path: Path) -> None:
    """Write a figure as a small file."""
    figure.savefig(path, dpi=150)
    shrink(Image.open(path), path)


def screenshot(page: Path, folder: Path) -> bytes:
    """Capture the top of the page in light colours."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        light = [{"name": "prefers-color-scheme", "value": "light"}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": light})
        browser.get(page.as_uri())
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    finally:
        browser.quit()
    return base64.b64decode(shot["data"])


def sources() -> None:
    """Draw search among five programming languages, before and after the language is erased."""
    import matplotlib.pyplot as plt

    figures = json.loads(RESULTS.read_text())["code_language"]
    erased = max((name for name in figures if name.startswith("erase")), key=len)
    bars = {"before": figures["rows as they are"], "language\nerased": figures[erased]}
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 2, figsize=(7.4, 1.9), sharey=True, layout="constrained")
    titles = {
        "R@1": "searches that find the same task first",
        "same source of ten": "same language among the ten nearest",
    }
    for axes, (measure, title) in zip(panels, titles.items(), strict=True):
        shares = [100 * row[measure][0] for row in bars.values()]
        axes.bar_label(axes.barh([*bars], shares, color=COLOURS[:2]), fmt="%.0f %%", padding=3)
        axes.set(title=title, xlim=(0, 112), xticks=[])
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(left=False)
    fair = 100 * bars["before"]["fair share"][0]
    panels[1].axvline(fair, color="0.4", linestyle=":")
    panels[1].text(fair + 1, 1.52, f"fair share {fair:.0f} %", color="0.4", va="bottom")
    panels[0].invert_yaxis()
    save(figure, STATIC / "sources.png")


def shrink(image: Image.Image, path: Path) -> None:
    """Write with 256 colours, which is enough for pictures of charts."""
    image.convert("RGB").quantize(256).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}.")


PICTURES = {"demo": demo, "sources": sources}


if __name__ == "__main__":
    main(sys.argv[1:])
