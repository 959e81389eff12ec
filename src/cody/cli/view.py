"""cody view: explanations as pages."""

from __future__ import annotations

import re
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from cody.cli.command import COUNT, FILE, PAGE, argument, command, option
from cody.cli.messages import say
from cody.errors import CallError, DataError
from cody.explaining.explanation import Explanation
from cody.utils.words import count, sanitize

NOT_EXPLAINED = re.compile(r'\{"schema": ?"cody/(evaluation|failure)/')  # lines of an evaluation that explain nothing


@command("view")
@argument("file", "What cody explain --json printed; - reads standard input.", type=FILE)
@option("--out", type=PAGE, help="The page. Default: the name of FILE, ending in .html.")
@option("--line", type=COUNT, help="Line of the explanation, if the file has several. Default: the first.")
@option("--all", "every", is_flag=True, help="A page of each line, and an index page.")
@option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def view(file: Path, out: Path | None, line: int | None, every: bool, open_browser: bool) -> None:
    """Turn an explanation into an HTML page: one self-contained file, in which events can be switched on and off."""
    if out is None and str(file) == "-":
        raise CallError("an explanation from standard input needs --out FILE")
    if every and line is not None:
        raise CallError("give --line or --all, not both")
    page = _page_beside(file) if out is None else out
    documents = read_documents(file)
    if every:
        _write_all(documents, file, page)
    else:
        _write_one(documents, line, file, page)
    say(f"Page: {sanitize(page, 200)}")
    if open_browser:
        webbrowser.open(page.absolute().as_uri())


def _page_beside(file: Path) -> Path:
    """The page that is named like the file, unless that is the page of a survey whose records these are."""
    from cody.web.file import is_survey_page

    page = file.with_suffix(".html")
    if is_survey_page(page):
        raise CallError(f"{page} is the page of a survey and would be overwritten; choose another name with --out FILE")
    return page


def _write_all(documents: Sequence[str], file: Path, page: Path) -> None:
    """A list, and a page of each explanation."""
    from cody.web.file import write_pages

    if not documents:
        raise CallError(f"{file} has no explanations")
    write_pages([Explanation.from_json(document) for document in documents], page)


def _write_one(documents: Sequence[str], line: int | None, file: Path, page: Path) -> None:
    """A page of one explanation; a note if there are several and none was chosen."""
    from cody.web import write_page

    chosen = line or 1
    if chosen > len(documents):
        raise CallError(f"--line {chosen} is out of range: {file} has {count(len(documents), 'explanation')}")
    write_page(Explanation.from_json(documents[chosen - 1]), page)
    if line is None and len(documents) > 1:
        say(f"line 1 of {len(documents):,}: --line N makes a page of another, --all one of each")


def read_documents(file: Path) -> list[str]:
    """The documents in a file that has one, or one a line."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is not an explanation: not text") from None
    if text[:15].lower().startswith("<!doctype html"):
        raise CallError(f"{file} is a page; give the JSON document that cody explain --json or --out wrote")
    lines = [entry for entry in text.splitlines() if entry.strip() and not NOT_EXPLAINED.match(entry)]
    whole = len(lines) > 1 and lines[0].strip() == "{"  # written over several lines by somebody else
    return [text] if whole else lines
