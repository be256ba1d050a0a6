"""Make the pictures of the README and the documentation from the real demo.

    python tools/make_pictures.py

Needs matplotlib, selenium, and Chromium with its driver; takes about a minute. Writes
``docs/_static/before-after.png`` and ``docs/_static/report.png``.
"""

from __future__ import annotations

import base64
import io
import shutil
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver

from unspot.cli.demo import STORIES
from unspot.cli.tour import run_demo
from unspot.datasets import load_glove_gender
from unspot.report.figures import before_after_figure, save

STATIC = Path(__file__).parents[1] / "docs" / "_static"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
WIDTH, HEIGHT = 1100, 1240
MOST_BYTES = 300_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = STORIES["words"]
        found = run_demo(Path(folder), load_glove_gender(), title=story.title, show=story.show)
        STATIC.mkdir(parents=True, exist_ok=True)
        picture = save(before_after_figure(found.views), STATIC / "before-after.png", dpi=150)
        shrink(Image.open(picture), picture)
        page = screenshot(Path(folder) / "report.html", Path(folder))
        shrink(Image.open(io.BytesIO(page)), STATIC / "report.png")


def screenshot(page: Path, folder: Path) -> bytes:
    """The top of the page in light colours."""
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
        while not browser.execute_script("return document.documentElement.dataset.ready"):
            time.sleep(0.1)
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    finally:
        browser.quit()
    return base64.b64decode(shot["data"])


def shrink(image: Image.Image, path: Path) -> None:
    """Write with 256 colours, which is enough for pictures of charts."""
    image.convert("RGB").quantize(256).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}.")


if __name__ == "__main__":
    main()
