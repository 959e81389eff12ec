"""A real browser for the tests of the page: Chromium as the distribution packages it."""

import shutil
import subprocess
import tarfile
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = "axe-core@4.10.3"
SCHEMES = ("light", "dark")
WIDTHS = (380, 1280, 1600)
PATIENCE = 300_000  # milliseconds until something must have happened, on a busy machine


def shows(locator, text):
    """Wait until an element shows a text. (Waiting for an expression is not possible: the page forbids `eval`.)"""
    from playwright.sync_api import expect

    expect(locator).to_contain_text(text, timeout=PATIENCE)


@contextmanager
def chromium():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A tab that remembers everything it complained about and everything it asked for."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, why, tmp_path, fragment=""):
        file = tmp_path / "why.html"
        file.write_text(why.to_html(), encoding="utf-8")
        self.page.goto(file.as_uri() + fragment)
        return self.page

    def close(self):
        self.context.close()


@contextmanager
def tab(browser, **options):
    """A tab without complaints: whatever the page prints on the console fails the test."""
    watched = Watched(browser, **options)
    try:
        yield watched
        assert watched.complaints == []
    finally:
        watched.close()


def axe_source(folder):
    """The accessibility checker axe, from npm; skipped where that cannot be reached."""
    if not list(folder.glob("axe-core-*.tgz")):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed, so axe cannot be fetched")
        try:
            subprocess.run([npm, "pack", AXE, "--silent"], cwd=folder, check=True, capture_output=True, timeout=240)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"axe cannot be fetched from npm: {error}")
    with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


def serious_faults(page, source):
    """What axe, given its source, finds serious or critical on a page."""
    page.evaluate(source)
    return [
        (fault["id"], fault["nodes"][0]["html"][:200], fault["nodes"][0]["failureSummary"])
        for fault in page.evaluate("axe.run().then((found) => found.violations)")
        if fault["impact"] in ("serious", "critical")
    ]


MOVED = """() => {
  const blocks = "main > *, .scorebar, .scorebar > *, .meter, .ends, .states *, .drawing > *, .standings > *, tbody tr";
  const places = () => [...document.querySelectorAll(blocks)].map((e) => {
    const { x, y, width, height } = e.getBoundingClientRect();
    return `${e.tagName} ${[x, y + scrollY, width, height].map(Math.round)}`;
  });
  const first = places();
  const moved = new Set();
  for (const state of document.querySelectorAll(".states button")) {
    for (const event of document.querySelectorAll(".plot .event, .edge")) {
      state.click();
      event.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      places().forEach((place, number) => place !== first[number] && moved.add(`${first[number]} is now ${place}`));
    }
  }
  return [...moved];
}"""


def moved_by_clicks(page):
    """What lies elsewhere, or is larger or smaller, after some first click on an event or a line."""
    return page.evaluate(MOVED)
