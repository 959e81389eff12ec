"""Pages that show explanations."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

from cody.cli.common import app, say
from cody.cli.parser import PAGE, Argument, Option
from cody.errors import CallError, DataError
from cody.explanation import Explanation
from cody.words import count, plain


@app.command("view")
def view(
    file: Annotated[Path, Argument(help="What cody explain --json printed; - reads standard input.")],
    out_: Annotated[
        Path | None, Option("--out", writes=PAGE, help="The page. Default: the same name, ending in .html.")
    ] = None,
    line: Annotated[
        int | None, Option(min=1, help="Which, if the file has one explanation a line. Default: the first.")
    ] = None,
    open_: Annotated[bool, Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Make a page of an explanation: one HTML file that shows it, and lets events be switched off and on."""
    from cody.view import write_page

    if out_ is None and str(file) == "-":
        raise CallError("an explanation from standard input needs --out FILE")
    page = file.with_suffix(".html") if out_ is None else out_
    write_page(_read(file, line), page)
    say(f"Page: {plain(page, 200)}")
    if open_:
        webbrowser.open(page.absolute().as_uri())


def _read(file: Path, line: int | None) -> Explanation:
    """One explanation of a file that has one, or one a line. If there are several and none was chosen, that is said."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is no explanation: not text") from None
    lines = [entry for entry in text.splitlines() if entry.strip()]
    whole = len(lines) > 1 and lines[0].strip() == "{"  # written over several lines by somebody else
    documents = [text] if whole else lines
    if not 0 < (line or 1) <= len(documents):
        raise CallError(f"--line {line or 1} is out of range: {file} has {count(len(documents), 'explanation')}")
    if line is None and len(documents) > 1:
        say(f"line 1 of {len(documents):,}: --line N makes a page of another")
    return Explanation.from_json(documents[(line or 1) - 1])
