"""cody verify: the claims of an explanation, checked against data and model."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

import click

from cody.cli.command import COUNT, FILE, Number, argument, command, option
from cody.cli.messages import print_json
from cody.cli.options import ModelSource, is_left_out, json_option, model_options
from cody.cli.progress import progress
from cody.cli.view import read_documents
from cody.errors import CallError, DataError
from cody.utils.words import count, sanitize

if TYPE_CHECKING:
    from cody.explaining.claims import ClaimReport

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
    from cody.cli.messages import Prose, print_parts
    from cody.utils.tables import TextTable

    for number, report in reports.items():
        table = TextTable("claim", "result", "detail", title=f"Explanation {number}" if several else "", whole=[1])
        for claim in report.claims:
            table.add_row(claim.about, claim.status, sanitize(claim.detail, 200))
        print_parts([table, "", Prose(report.sentence), *([""] if several else [])])
