"""Make the screenshots of the README and of the gallery anew: `python docs/make_images.py`.

Needs Chromium, playwright, and for the gallery the extras pyg and figures.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import cody

IMAGES = Path(__file__).parent / "images"
EVENT = 53869
MARGIN = 12  # pixels around what is shown
GALLERY = {"explain": "why", "pyg": "why", "survey": "found", "compare": ""}  # which variable of a notebook is shown
THUMBNAIL = (620, 400)  # pixels


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


def results_of(notebook: Path) -> dict[str, Any]:
    """What the cells of a notebook leave behind; the value of the last expression is called `_`."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    parsed = ast.parse("\n".join(codes))
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    exec(compile(parsed, str(notebook), "exec"), names)
    if isinstance(last, ast.Expr):
        names["_"] = eval(compile(ast.Expression(last.value), str(notebook), "eval"), names)
    return names


def gallery(browser: Browser, folder: Path) -> None:
    """A picture of what each notebook shows."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    os.chdir(folder)  # notebooks write files
    for name, shown in GALLERY.items():
        names, file = results_of(IMAGES.parent / "gallery" / f"{name}.ipynb"), IMAGES / f"gallery-{name}.png"
        if shown:
            page, made = browser.new_page(viewport={"width": 1240, "height": 800}), folder / f"{name}.html"
            made.write_text(names[shown].to_html(), encoding="utf-8")
            page.goto(made.as_uri())
            page.screenshot(path=file)
            page.close()
        else:
            names["_"].savefig(file, dpi=200)
        picture = Image.open(file).convert("RGB")
        picture.thumbnail(THUMBNAIL)
        picture.quantize(64).save(file, optimize=True)


def main() -> None:
    graph = cody.load("collegemsg")
    model, query = cody.load_model("tgn-collegemsg", graph), graph.query(EVENT)
    cody.explain(model, graph, query)  # what is read once does not count
    begun = time.process_time()
    why = cody.explain(model, graph, query, count=3)
    why = replace(why, seconds=time.process_time() - begun)  # whatever else this machine does meanwhile
    why = replace(why, parameters=why.parameters | {"data": "collegemsg", "model": "tgn-collegemsg"})
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "why.html"
        file.write_text(why.to_html(), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shoot(browser, file.as_uri(), "light", ".head", ".part-timeline", IMAGES / "page.png")
        shoot(browser, file.as_uri(), "dark", ".how .two", ".how .two", IMAGES / "page-dark.png")
        gallery(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
