"""Make the pictures of the README and the documentation from the real demo.

    python tools/make_pictures.py           # all of them
    python tools/make_pictures.py search

``demo`` writes ``docs/_static/before-after.png`` and ``docs/_static/report.png``; it needs
selenium, and Chromium with its driver, and takes about a minute. ``search`` writes
``docs/_static/search.png``.
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
#: Before and after.
COLOURS = ("#6a737d", "#0072b2")
#: Whose search is drawn.
ERASER = "erase, R@1 kept"
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


def search() -> None:
    """Draw search among five programming languages, before and after the language is erased."""
    import matplotlib.pyplot as plt

    figures = json.loads(RESULTS.read_text())["code_language"]
    sides = {"before": figures["rows as they are"], "after": figures[ERASER]}
    titles = {
        "R@1": "Searches that find the same task first",
        "same source of ten": "Same language among the ten nearest",
    }
    style = {"font.size": 11, "axes.titlesize": 12, "axes.titlelocation": "left"}
    with plt.rc_context({**style, "axes.titlepad": 10, "ytick.major.size": 0}):
        figure, panels = plt.subplots(2, 1, figsize=(5.6, 3.1), layout="constrained")
        for axes, (measure, title) in zip(panels, titles.items(), strict=True):
            shares = [100 * side[measure][0] for side in sides.values()]
            axes.barh([*sides], shares, height=0.72, color=COLOURS)
            for place, share in enumerate(shares):
                where: dict[str, Any] = {"ha": "right", "va": "center", "color": "white"}
                axes.text(share - 1.5, place, f"{share:.0f} %", weight="bold", **where)
            axes.set(title=title, xlim=(0, 100), xticks=[])
            axes.spines[["top", "right", "bottom"]].set_visible(False)
            axes.invert_yaxis()
        fair = 100 * sides["before"]["fair share"][0]
        panels[1].axvline(fair, color="0.1", linestyle=(0, (2, 2)))
        panels[1].text(fair + 1.5, 1, f"fair share: {fair:.0f} %", color="0.1", va="center")
    save(figure, STATIC / "search.png")


def shrink(image: Image.Image, path: Path) -> None:
    """Write with 256 colours, which is enough for pictures of charts."""
    image.convert("RGB").quantize(256).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}.")


PICTURES = {"demo": demo, "search": search}


if __name__ == "__main__":
    main(sys.argv[1:])
