"""Pages that show explanations."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cody.cli.common import app, say
from cody.cli.parser import PAGE, Argument, Option
from cody.errors import CallError, DataError
from cody.explain.explanation import Explanation
from cody.utils.words import count, sanitize


@app.command("view")
def view(
    file: Annotated[Path, Argument(help="What cody explain --json printed; - reads standard input.")],
    out_: Annotated[
        Path | None, Option("--out", writes=PAGE, help="The page. Default: the same name, ending in .html.")
    ] = None,
    line: Annotated[
        int | None, Option(min=1, help="Which, if the file has one explanation a line. Default: the first.")
    ] = None,
    all_: Annotated[bool, Option("--all", help="A page of each line, and a list that links them.")] = False,
    open_: Annotated[bool, Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Make a page of an explanation: one HTML file that shows it, and lets events be switched off and on."""
    if out_ is None and str(file) == "-":
        raise CallError("an explanation from standard input needs --out FILE")
    if all_ and line is not None:
        raise CallError("give --line or --all, not both")
    page = file.with_suffix(".html") if out_ is None else out_
    documents = _read(file)
    if all_:
        _write_all(documents, file, page)
    else:
        _write_one(documents, line, file, page)
    say(f"Page: {sanitize(page, 200)}")
    if open_:
        webbrowser.open(page.absolute().as_uri())


def _write_all(documents: Sequence[str], file: Path, page: Path) -> None:
    """A list, and a page of each explanation."""
    from cody.web.index import write_pages

    if not documents:
        raise CallError(f"{file} has no explanations")
    write_pages([Explanation.from_json(document) for document in documents], page)


def _write_one(documents: Sequence[str], line: int | None, file: Path, page: Path) -> None:
    """A page of one explanation. If there are several and none was chosen, that is said."""
    from cody.web import write_page

    chosen = line or 1
    if chosen > len(documents):
        raise CallError(f"--line {chosen} is out of range: {file} has {count(len(documents), 'explanation')}")
    write_page(Explanation.from_json(documents[chosen - 1]), page)
    if line is None and len(documents) > 1:
        say(f"line 1 of {len(documents):,}: --line N makes a page of another, --all one of each")


def _read(file: Path) -> list[str]:
    """The documents in a file that has one, or one a line."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is no explanation: not text") from None
    lines = [entry for entry in text.splitlines() if entry.strip()]
    whole = len(lines) > 1 and lines[0].strip() == "{"  # written over several lines by somebody else
    return [text] if whole else lines
