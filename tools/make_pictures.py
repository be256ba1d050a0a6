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
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unspot import Cascade
from unspot.cli.demo import run_demo
from unspot.datasets import load_glove_gender, load_translations
from unspot.report import make_views
from unspot.report.figures import embedding_figure

STATIC = Path(__file__).parents[1] / "docs" / "_static"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
WIDTH, HEIGHT = 1100, 1240
COLOURS = ("#0072b2", "#d55e00", "#009e73")
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
    """Draw the shares of translations among near verses, before and after erasure."""
    import matplotlib.pyplot as plt

    data = load_translations()
    eraser = Cascade(rank=256, random_state=0).fit(data.train.X, data.train.z)
    shares = {
        "before": neighbours_by_source(data.test.X, data.test),
        "after the translation is erased": neighbours_by_source(
            eraser.transform(data.test.X), data.test
        ),
    }
    sources = np.unique(data.test.z)
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 2, figsize=(7.4, 2.1), sharey=True, layout="constrained")
    for axes, (when, table) in zip(panels, shares.items(), strict=True):
        left = np.zeros(len(sources))
        for column, (source, colour) in enumerate(zip(sources, COLOURS, strict=True)):
            axes.barh(sources, 100 * table[:, column], left=left, color=colour, label=source)
            left += 100 * table[:, column]
        for row, share in enumerate(np.diagonal(table)):
            own = 100 * (table[row, :row].sum() + share / 2)
            axes.text(own, row, f"{100 * share:.0f} %", ha="center", va="center", color="white")
        axes.set(title=when, xlim=(0, 100), xlabel="of the ten nearest other verses, %")
        axes.tick_params(left=False)
        axes.spines["left"].set_visible(False)
    panels[0].set_ylabel("a verse of")
    panels[0].invert_yaxis()
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    save(figure, STATIC / "sources.png")


def neighbours_by_source(X: Any, split: Any) -> Any:
    """Compute shares of sources among the ten nearest rows of other verses."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = unit @ unit.T
    cosines[split.groups[:, None] == split.groups] = -np.inf
    nearest = split.z[np.argsort(-cosines, axis=1)[:, :10]]  # (n, 10)
    sources = np.unique(split.z)
    return np.array(
        [[np.mean(nearest[split.z == own] == other) for other in sources] for own in sources]
    )


def shrink(image: Image.Image, path: Path) -> None:
    """Write with 256 colours, which is enough for pictures of charts."""
    image.convert("RGB").quantize(256).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}.")


PICTURES = {"demo": demo, "sources": sources}


if __name__ == "__main__":
    main(sys.argv[1:])
