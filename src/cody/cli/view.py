"""cody view and cody verify: explanations in files, as pages, and checked against data and model."""

from __future__ import annotations

import re
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

import click

from cody.cli.command import argument, command, option
from cody.cli.options import ModelSource, is_left_out, json_option, model_options
from cody.cli.terminal import Prose, print_json, print_parts, progress, say
from cody.cli.types import COUNT, FILE, PAGE, Number
from cody.errors import CallError, DataError
from cody.explaining.explanation import Explanation
from cody.utils.tables import TextTable
from cody.utils.words import count, sanitize

if TYPE_CHECKING:
    from cody.explaining.claims import ClaimReport

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
        from cody.web.file import write_pages

        if not documents:
            raise CallError(f"{file} has no explanations")
        write_pages([Explanation.from_json(document) for document in documents], page)
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


ALL, SETS = "all", 20


class NumberOfSets(Number):
    """A number of sets; None: all."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value is None or value == ALL else super().convert(value, param, ctx)


@command(
    "verify",
    examples={
        "cody verify why.json": "replay what cody explain --json printed",
        "cody verify why.jsonl --sets all": "every explanation of a file, and every set that was evaluated",
        "cody verify why.zip": "what --bundle wrote, with the events and the model in it",
    },
)
@argument("file", "What cody explain --json, --out or --bundle wrote; - reads standard input.", type=FILE)
@option("--line", type=COUNT, help="Line of the explanation, if the file has several. Default: all of them.")
@option(
    "--sets",
    type=NumberOfSets(click.INT, 0),
    default=str(SETS),
    metavar="N|all",
    help="Number of evaluated sets to replay, besides the answer and its alternatives.",
)
@model_options
@json_option
def verify(file: Path, line: int | None, sets: int | None, source: ModelSource, as_json: bool) -> None:
    """Check the claims of an explanation: each is confirmed, contradicted, or not checked.

    The reference implementation replays the log from its first event. The exit code is 1 if a claim is contradicted.
    """
    if file.suffix.lower() == ".zip" or is_zipfile(file):
        if line is not None:
            raise CallError(f"--line chooses one of several explanations, and {file} holds one: leave it out")
        _print({1: _of_bundle(file, sets, source)}, as_json=as_json)
        return
    from cody.explaining.claims import verify_explanation

    documents = read_documents(file)
    if not documents:
        raise CallError(f"{file} has no explanations")
    if line is not None and line > len(documents):
        raise CallError(f"--line {line} is out of range: {file} has {count(len(documents), 'explanation')}")
    chosen = list(enumerate(documents, start=1)) if line is None else [(line, documents[line - 1])]
    named = source.named()
    model = source.open(named)
    reports: dict[int, ClaimReport] = {}
    for number, document in chosen:
        with progress("Replaying evaluated sets", None) as move:
            try:
                reports[number] = verify_explanation(document, model, named.graph, sets=sets, watch=move)
            except DataError as error:
                where = f"explanation {number} of {len(documents):,} in {file}" if len(documents) > 1 else str(file)
                raise DataError(f"{where}: {error}") from None
    _print(reports, as_json=as_json)


def _of_bundle(file: Path, sets: int | None, source: ModelSource) -> ClaimReport:
    """The claims of a bundle, by what is in it; by other data or another model where these are named."""
    from cody.engine.named import NamedModel
    from cody.explaining.bundle import opened_bundle, verify_opened

    graph = None if is_left_out("data") else source.load()
    with opened_bundle(file) as bundle, progress("Replaying evaluated sets", None) as move:
        if is_left_out("model") and bundle.folder is not None:
            opener = lambda _: bundle.model()  # noqa: E731
        else:
            any_log = replace(source, allow_data_mismatch=True)  # a claim says whether it is the right model
            opener = lambda log: any_log.open(NamedModel(source.model, lambda: log))  # noqa: E731
        return verify_opened(bundle, opener, graph, sets=sets, watch=move)


def _print(reports: dict[int, ClaimReport], *, as_json: bool) -> None:
    """Print what became of the claims; the exit code is 1 unless all are confirmed or not checked."""
    if as_json:
        print_json([report.to_dict() | {"line": number} for number, report in reports.items()])
    else:
        _show(reports, several=len(reports) > 1)
    if not all(report.is_confirmed for report in reports.values()):
        sys.exit(1)


def _show(reports: dict[int, ClaimReport], *, several: bool) -> None:
    for number, report in reports.items():
        rows = ((claim.about, claim.status, sanitize(claim.detail, 200)) for claim in report.claims)
        title = f"Explanation {number}" if several else ""
        table = TextTable("claim", "result", "detail", rows=rows, title=title, whole=[1])
        print_parts([table, "", Prose(report.sentence), *([""] if several else [])])
