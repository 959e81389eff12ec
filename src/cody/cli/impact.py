"""cody impact and cody causes: which later predictions depend on some events, and which events many depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cody.cli import options as shared
from cody.cli.command import argument, bundled, command, given, given_by, option_fields, section
from cody.cli.predict import PredictOptions
from cody.cli.terminal import Prose, ShownPart, progress
from cody.cli.types import FILE, whole
from cody.cli.view import read_documents
from cody.errors import CallError, DataError
from cody.explaining.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.graph.dependants import Rule
from cody.graph.units import Unit, day, find_unit, node, pair
from cody.study import impact_words
from cody.study.causes import MOST, TRIED, SharedCauses
from cody.study.causes import shared_causes as causes_of
from cody.study.impact import VERIFIED, Impact, MovedLink, predicted_thing
from cody.study.impact import impact as impact_of
from cody.utils import words

KINDS = {"pair": pair, "node": node, "day": day}
_removed, _links = option_fields("The events"), option_fields("Which links")
_output = section("Output")


@dataclass(frozen=True, slots=True)
class RemovedOptions:
    """The events that did not happen."""

    event: int | None = _removed("One event, by its row.", "ROW", type=int)
    events: str | None = _removed("Several: rows 10,20,30, or a file of rows.", "ROWS")
    node: str | None = _removed("Everything of a node.", "NAME")
    pair: str | None = _removed('Everything between two nodes: "1866 447".', "NODES")
    day: str | None = _removed("Everything of a day.", "DATE")
    with_dependants: str | None = _removed(shared.HELP_OF_RULE, "RULE")

    def check(self) -> None:
        """Refuse to remove nothing, or two things."""
        if len(given(self, "event", "events", *KINDS)) != 1:
            raise CallError("name the events that did not happen, by one of --event, --events, --node, --pair, --day")

    @property
    def rule(self) -> Rule | None:
        """Which events go along; None: none."""
        return None if self.with_dependants is None else shared.rule_in(self.with_dependants)

    def unit(self, graph: TemporalGraph) -> int | list[int] | Unit:
        """The events that the options name."""
        if self.event is not None:
            return self.event
        if self.events is not None:
            return shared.named_rows(self.events)
        ((name, text),) = ((name, text) for name in KINDS if (text := getattr(self, name)) is not None)
        return find_unit(graph, KINDS[name], text)


@dataclass(frozen=True, slots=True)
class LaterOptions:
    """Which links are looked at."""

    period: str | None = given_by(shared.period_option)
    since: str | None = _links("Links from this time on.", "TIME")
    until: str | None = _links("Links up to this time; a day is included.", "TIME")
    links: Path | None = _links("Links in a file of events, as --data reads it.", type=FILE)
    links_of: str | None = _links("Only links of this node.", "NAME")

    def check(self) -> None:
        """Refuse options that contradict each other."""
        others = given(self, "links_of", "period", "since", "until")
        if self.links is not None and others:
            raise CallError(f"--links names the links itself: leave out {' and '.join(others)}")
        self.chosen.check(wrong=False)

    def queries(self, graph: TemporalGraph, unit: str | None) -> Sequence[int | Query]:
        """The links that the options name; `unit` is that of the times in the file."""
        given = None if self.links is None else shared.DataSource(str(self.links), True, unit).load()
        return self.chosen.queries(graph, given)

    @property
    def chosen(self) -> PredictOptions:
        """The same as for predictions."""
        return PredictOptions(self.links_of, self.period, self.since, self.until, None, self.links, None, None)


@command(
    "impact",
    examples={
        "cody impact --event 53852": "what depends on this message",
        "cody impact --node 105 --html impact.html": "on everything of node 105, as a page",
        'cody impact --pair "1866 447" --csv': "on a conversation, every link that moves",
        "cody impact --day 2004-07-27 --threshold 0.8": "on a day, where links are predicted above 0.8",
    },
)
@bundled("removed", RemovedOptions)
@bundled("later", LaterOptions)
@shared.decision_options
@shared.model_options
@_output("--verify", type=whole(0), default=VERIFIED, metavar="N", help="Verify the N flips that move furthest.")
@shared.output_options
def impact(
    removed: RemovedOptions,
    later: LaterOptions,
    decide: shared.DecisionOptions,
    source: shared.ModelSource,
    verify: int,
    output: shared.OutputOptions,
) -> None:
    """Find the later predictions that would be different without some events."""
    removed.check()
    later.check()
    output.check()
    decision, rule = decide.decision(), removed.rule
    named = source.named()
    graph = named.graph
    events, links = removed.unit(graph), later.queries(graph, source.unit)
    model = source.open(named)
    with progress(f"{predicted_thing(model, graph, decision)}s", len(links)) as move:
        found = impact_of(model, graph, events, links, decision=decision, dependants=rule, verify=verify, watch=move)
    shared.write_page(found.to_html, output.html)
    rows = (row | {"time": words.timestamp(row["time"])} for row in found.rows())
    output.print(found, MovedLink.__struct_fields__, rows, _parts(found))


def _parts(found: Impact) -> Iterator[ShownPart]:
    """The finding, the links that move furthest, how long it lasts and how far it spreads."""
    yield Prose(impact_words.subject(found))
    yield Prose(found.sentence, bold=True)
    for table in impact_words.tables(found):
        yield from ("", table)
    rest = found.moved_links - impact_words.SHOWN
    if rest > 0:
        further = words.count(rest, f"further {impact_words.called(found)}")
        yield from ("", Prose(f"{further} {'moves' if rest == 1 else 'move'}; --csv and --json list all."))
    yield ""
    yield from map(Prose, impact_words.notes(found))


# Causes that many predictions share.

EVENT = "event"
CAUSE_COLUMNS = ("number", "name", "events", "flips", "more", "own")
_causes = option_fields("The causes")


@dataclass(frozen=True, slots=True)
class CauseOptions:
    """What a cause is, how many are looked for, and where the result goes."""

    by: str = _causes("What one cause is.", one_of=[EVENT, *KINDS], default=EVENT)
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
        named = ", ".join(map(str, files))
        raise CallError(f"{named}: there are no explanations{' of predicted links' * options.predicted}")
    loaded = source.named()
    model, limits = source.open(loaded), {"most": options.most, "tried": options.tried}
    with progress("Sets of causes evaluated", None) as move:
        found = causes_of(whys, model, loaded.graph, by=KINDS.get(options.by), **limits, watch=move)
    shared.write_page(found.to_html, options.output.html)
    options.output.print(found, CAUSE_COLUMNS, found.rows(), _parts_of_causes(found))


def _explanations(file: Path) -> list[Explanation]:
    read = []
    for number, document in enumerate(read_documents(file), start=1):
        try:
            read.append(Explanation.from_json(document))
        except DataError as error:
            raise DataError(f"{file}, explanation {number}: {error}") from None
    return read


def _parts_of_causes(found: SharedCauses) -> Iterator[ShownPart]:
    yield Prose(found.sentence, bold=True)
    if found.causes:
        yield from ("", found.table(), "")
    yield from map(Prose, found.notes())
