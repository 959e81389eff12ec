"""Make the screenshots of the README anew: `python docs/make_images.py`. Needs Chromium and playwright."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import cody

IMAGES = Path(__file__).parent / "images"
EVENT = 53869
MARGIN = 12  # pixels around what is shown


def shoot(browser: Browser, address: str, scheme: str, first: str, last: str, file: Path) -> None:
    """What lies between the top of one element and the bottom of another."""
    context = browser.new_context(viewport={"width": 1180, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(address)
    page.evaluate("document.querySelector('.how').open = true")
    boxes = [page.locator(selector).bounding_box() for selector in (first, last)]
    assert all(boxes)
    top, bottom = boxes[0]["y"] - MARGIN, boxes[1]["y"] + boxes[1]["height"] + MARGIN  # type: ignore[index]
    clip = {"x": 0, "y": max(0, top), "width": 1180, "height": bottom - max(0, top)}
    page.screenshot(path=file, full_page=True, clip=clip)  # type: ignore[arg-type]
    context.close()
    Image.open(file).quantize(256).save(file, optimize=True)  # a third of the size


def main() -> None:
    graph = cody.load("collegemsg")
    model, query = cody.load_model("tgn-collegemsg", graph), graph.query(EVENT)
    cody.explain(model, graph, query)  # what is read once does not count
    begun = time.process_time()
    why = cody.explain(model, graph, query, count=3)
    why = replace(why, seconds=time.process_time() - begun)  # whatever else this machine does meanwhile
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "why.html"
        file.write_text(why.to_html(), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shoot(browser, file.as_uri(), "light", ".head", ".part-timeline", IMAGES / "page.png")
        shoot(browser, file.as_uri(), "dark", ".how .two", ".how .two", IMAGES / "page-dark.png")
        browser.close()


if __name__ == "__main__":
    main()
