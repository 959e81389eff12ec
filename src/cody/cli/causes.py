"""cody causes: the few events, pairs, nodes or days that many predictions share as their cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cody.cli import options as shared
from cody.cli.command import FILE, argument, bundled, command, given_by, option_fields
from cody.cli.messages import Prose, ShownPart
from cody.cli.progress import progress
from cody.cli.view import read_documents
from cody.errors import CallError, DataError
from cody.explaining.explanation import Explanation
from cody.graph.units import day, node, pair
from cody.study.causes import MOST, TRIED, SharedCauses
from cody.study.causes import shared_causes as causes_of

COLUMNS = ("number", "name", "events", "flips", "more", "own")
EVENT = "event"
KINDS = {EVENT: None, "pair": pair, "node": node, "day": day}
_causes = option_fields("The causes")


@dataclass(frozen=True, slots=True)
class CauseOptions:
    """What a cause is, how many are looked for, and where the result goes."""

    by: str = _causes("What one cause is.", type=click.Choice([*KINDS]), default=EVENT)
    most: int = _causes("Maximum number of causes.", default=MOST)
    tried: int = _causes("Number of possible causes evaluated for each place.", default=TRIED)
    predicted: bool = _causes("Only of links that are predicted, or flagged.")
    output: shared.OutputOptions = given_by(shared.output_options)


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
    options.output.check()
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
    shared.write_page(found.to_html, options.output.html)
    options.output.print(found, COLUMNS, found.rows(), _parts(found))


def _explanations(file: Path) -> list[Explanation]:
    read = []
    for number, document in enumerate(read_documents(file), start=1):
        try:
            read.append(Explanation.from_json(document))
        except DataError as error:
            raise DataError(f"{file}, explanation {number}: {error}") from None
    return read


def _parts(found: SharedCauses) -> Iterator[ShownPart]:
    yield Prose(found.sentence, bold=True)
    if found.causes:
        yield from ("", found.table(), "")
    yield from map(Prose, found.notes())
