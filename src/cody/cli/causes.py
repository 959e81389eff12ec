"""cody causes: the few events, pairs, nodes or days that many predictions share as their cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cody.cli import options as shared
from cody.cli.command import COUNT, FILE, argument, bundled, command, given_by, option_fields
from cody.cli.messages import print_csv, print_json
from cody.cli.progress import progress
from cody.cli.view import read_documents
from cody.errors import CallError, DataError
from cody.explaining.explanation import Explanation
from cody.graph.units import day, node, pair
from cody.study.causes import MOST, TRIED, SharedCauses
from cody.study.causes import shared_causes as causes_of

EVENT = "event"
KINDS = {EVENT: None, "pair": pair, "node": node, "day": day}
_causes = option_fields("The causes")


@dataclass(frozen=True, slots=True)
class CauseOptions:
    """What a cause is, how many are looked for, and where the result goes."""

    by: str = _causes(type=click.Choice([*KINDS]), default=EVENT, help="What one cause is.")
    most: int = _causes(type=COUNT, default=MOST, help="Maximum number of causes.")
    tried: int = _causes(type=COUNT, default=TRIED, help="Number of possible causes evaluated for each place.")
    predicted: bool = _causes(is_flag=True, help="Only of links that are predicted, or flagged.")
    html: Path | None = given_by(shared.html_option)
    as_csv: bool = given_by(shared.csv_option)
    as_json: bool = given_by(shared.json_option)


@command(
    "causes",
    examples={
        "cody causes survey.jsonl --by node": "without which nodes would most of these predictions flip?",
        "cody causes why.jsonl --by pair --html causes.html": "without which conversations, as a page",
    },
)
@argument(
    "files", "Explanations: lines that survey, evaluate or explain --events wrote.", nargs=-1, required=True, type=FILE
)
@bundled("options", CauseOptions)
@shared.model_options
def causes(files: Sequence[Path], options: CauseOptions, source: shared.ModelSource) -> None:
    """Find the few causes that many predictions share.

    Greedy: each cause is the one without which most further predictions flip; each set is verified on all of them.
    """
    shared.check_formats(options.as_csv, options.as_json)
    shared.check_page(options.html)
    whys = [why for file in files for why in _explanations(file) if why.original > 0 or not options.predicted]
    if not whys:
        raise CallError(
            f"{', '.join(map(str, files))}: there are no explanations{' of predicted links' * options.predicted}"
        )
    named = source.named()
    model = source.open(named)
    with progress("Sets of causes evaluated", None) as move:
        found = causes_of(
            whys, model, named.graph, by=KINDS[options.by], most=options.most, tried=options.tried, watch=move
        )
    _show(found, options)


def _explanations(file: Path) -> list[Explanation]:
    read = []
    for number, document in enumerate(read_documents(file), start=1):
        try:
            read.append(Explanation.from_json(document))
        except DataError as error:
            raise DataError(f"{file}, explanation {number}: {error}") from None
    return read


def _show(found: SharedCauses, options: CauseOptions) -> None:
    shared.write_page(found.to_html, options.html)
    if options.as_json:
        print_json(found.to_dict())
    elif options.as_csv:
        print_csv(("number", "name", "events", "flips", "more", "own"), found.rows())
    else:
        from cody.cli.show import Prose, print_parts
        from cody.study.causes_words import notes, table

        print_parts([Prose(found.sentence, bold=True)])
        if found.causes:
            print_parts(["", table(found), ""])
        print_parts(map(Prose, notes(found)))
