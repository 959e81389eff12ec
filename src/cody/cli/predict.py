"""cody predict: scores of many links or labels, which are right, and the most likely partners of a node."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cody.cli import options as shared
from cody.cli.command import bundled, command, given_by, option_fields
from cody.cli.terminal import WRONG, Prose, ShownPart, print_csv, print_json, print_parts, progress, say
from cody.cli.types import FILE
from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.models.contract import Model, label_task
from cody.models.decided import LINK_PREDICTED
from cody.models.deciding import ByLabel
from cody.models.decision import LINK, NO_LINK, Above, Decision, InTop
from cody.models.margins import numbers
from cody.models.predict import Predictions, rows_of_links
from cody.models.predict import predict as score
from cody.models.predict_ranks import RankPredictions
from cody.models.predictions import PERIOD, DecidedPredictions, LabelPredictions, PredictionList, rows_between
from cody.utils import words
from cody.utils.tables import TextTable

SHOWN = 20  # links in a table
OF_LINKS = ("event", "happened", "right")  # columns that mean nothing for forecasts


_links, _shown = option_fields("Which links"), option_fields("")


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """Which links are scored."""

    node: str | None = given_by(shared.node_option)
    period: str | None = given_by(shared.period_option)
    since: str | None = _links("Events from this time on.", "TIME")
    until: str | None = _links("Events up to this time; a day is included.", "TIME")
    events: str | None = given_by(shared.events_option)
    links: Path | None = _links(
        "Links in a file of events, as --data reads it. Those that did not happen count as false alarms if predicted.",
        type=FILE,
    )
    next: int | None = _links("The N most likely partners of --node instead.", "N")
    time: str | None = _links("With --next: a date, a number, or now, the end of the log. Default: now.")

    @property
    def by_default(self) -> bool:
        """Whether the user chose no period."""
        return self.period is None and self.since is None and self.until is None

    def check(self, *, wrong: bool) -> None:
        """Refuse options that contradict each other."""
        if self.next is not None and self.node is None:
            raise CallError("--next lists the likely partners of a node: give --node NAME")
        if self.time is not None and self.next is None:
            raise CallError("--time belongs to --next; --since and --until choose events by their time")
        ways = [self.events is not None, self.links is not None, not self.by_default]
        if sum(ways) > 1 or (self.next is not None and any(ways)) or (self.node is not None and any(ways[:2])):
            raise CallError(
                "give one of --events, --links, or --node with --next or a period (--period, --since, --until)"
            )
        if self.period is not None and (self.since is not None or self.until is not None):
            raise CallError("give --period, or --since and --until, not both")
        if wrong and self.next is not None:
            raise CallError("--wrong compares predictions with the log; --next lists forecasts: leave one out")

    def queries(self, graph: TemporalGraph, links: TemporalGraph | None) -> Sequence[int | Query]:
        if self.events is not None:
            return shared.named_rows(self.events)
        if links is not None:
            return rows_of_links(graph, links)
        if self.since is None and self.until is None:
            rows = rows_between(graph, PERIOD if self.period is None else shared.parse_period(self.period))
        else:
            since = None if self.since is None else graph.when(self.since)
            rows = graph.rows_within(since, None if self.until is None else words.end_of(self.until, graph.when))
        if self.node is not None:
            rows = shared.rows_of_node(graph, rows, self.node, by_default=self.by_default)
        if not len(rows):
            raise CallError("there are no events in this period")
        return list(rows.tolist())


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """Which predictions are shown, and in what form."""

    wrong: bool = _shown("Show only wrong predictions.")
    last: int | None = _shown(f"Show the last N. Default: {SHOWN} in a table, else all.", "N")
    as_csv: bool = given_by(shared.csv_option)
    as_json: bool = given_by(shared.json_option)

    def most(self, number: int) -> int:
        """How many of so many are shown."""
        return min(number, self.last or (number if self.as_csv or self.as_json else SHOWN))


@command(
    "predict",
    examples={
        "cody predict --wrong": "links of the test period that the model misses",
        "cody predict --node 1118 --next 10": "the 10 nodes that 1118 will most likely write to next",
        "cody predict --top 10 --last 50": "where the recipients of the last 50 messages ranked",
        "cody predict --rather-than 942": "which recipients the model ranks above 942",
        "cody predict --data bitcoin-otc --model tgn-bitcoin-otc --threshold 0.5": "labels, which ratings are distrust",
    },
)
@bundled("links", PredictOptions)
@shared.model_options
@shared.decision_options
@bundled("shown", ShownOptions)
def predict(
    links: PredictOptions, source: shared.ModelSource, decide: shared.DecisionOptions, shown: ShownOptions
) -> None:
    """Score links or labels, and see which predictions are right, in the test period or of a node; or who is next."""
    forecast = links.next is not None
    links.check(wrong=shown.wrong)
    shared.check_formats(shown.as_csv, shown.as_json)
    decision = decide.decision()
    if forecast and not (decision is None or isinstance(decision, Above)):
        name = decide.given[0]
        raise CallError(f"{name} decides about links that are given, and --next lists the likely ones: leave one out")
    given = None if links.links is None else shared.DataSource(str(links.links), True, source.unit).load()
    if given is not None and not Path(source.data).is_file():
        source = replace(source, unit=None)  # it is that of the links alone
    named = source.named()
    queries = None if forecast else links.queries(named.graph, given)
    model = source.open(named)
    if label_task(model) is not None and forecast:
        raise CallError("--next ranks the partners of a node; this model predicts labels: leave it out")
    if isinstance(decision, InTop) and queries is not None:  # a rank takes the scores of all rivals: only what is shown
        every, queries = len(queries), queries[len(queries) - shown.most(len(queries)) :]
        if len(queries) < every:
            of = words.count(every, words.sanitize(named.graph.name_of_event(), 24))
            say(f"only the last {len(queries):,} of {of} are ranked: --last N ranks more")
    found = _scored(model, named.graph, queries, links, decision)
    if links.next is not None and len(found) < links.next:
        say(f"{words.sanitize(links.node)} has only {words.count(len(found), 'possible partner')} at that time")
    _print(found, links, shown, decide.again + _as_options(source))


def _scored(
    model: Model,
    graph: TemporalGraph,
    queries: Sequence[int | Query] | None,
    links: PredictOptions,
    decision: Decision | ByLabel | None,
) -> PredictionList[Any]:
    """Score links or labels, or make other decisions about them, and show how far that is."""
    unit = "link" if label_task(model) is None else graph.name_of_event()
    with progress(f"{unit}s", None if queries is None else len(queries)) as move:
        if queries is not None:
            return score(model, graph, queries, decision=decision, watch=move)
        threshold = decision.threshold if isinstance(decision, Above) else None
        partners: dict[str, Any] = {"node": links.node, "next": links.next, "time": links.time or "now"}
        return score(model, graph, **partners, threshold=threshold, watch=move)


def _print(found: PredictionList[Any], links: PredictOptions, options: ShownOptions, again: str) -> None:
    """Print predictions. `again`: the options of further commands."""
    forecast = links.next is not None
    listed = found.wrong if options.wrong else found
    most = len(listed) if forecast and options.last is None else options.most(len(listed))
    shown = listed.at(range(len(listed) - most, len(listed)))
    if options.as_json:
        print_json(_rows(shown, forecast=forecast))
    elif options.as_csv:
        _print_csv(shown, forecast=forecast)
    elif isinstance(shown, Predictions) and forecast:
        print_parts(_partners(shown, str(links.node), again))
    else:
        print_parts(_predictions(found, listed, shown, again))


def _rows(shown: PredictionList[Any], *, forecast: bool) -> list[dict[str, Any]]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    rounded = ("logit", "score", "margin")
    rows = [
        {name: round(value, 6) if name in rounded else value for name, value in each._asdict().items()}
        for each in shown
    ]
    if forecast and isinstance(shown, Predictions):
        for place, row in enumerate(rows):
            for name in OF_LINKS:
                del row[name]
            row |= shown.contact(place)._asdict()
    return rows


def _print_csv(shown: PredictionList[Any], *, forecast: bool) -> None:
    names = [name for name in shown.columns if not (forecast and name in OF_LINKS)]
    times = ["time", "last", "next"] if forecast else ["time"]
    rows = _rows(shown, forecast=forecast)
    dated = (row | {name: words.timestamp(row[name]) for name in times if row[name] is not None} for row in rows)
    print_csv([*names, *times[1:]], dated)


def _as_options(source: shared.ModelSource) -> str:
    """The options that a further command needs for the same data and model."""
    defaults = {"--data": (source.data, shared.DEFAULT_DATA), "--model": (source.model, shared.DEFAULT_MODEL)}
    given = [f"{name} {words.sanitize(value)}" for name, (value, default) in defaults.items() if value != default]
    given += ["--sort"] * source.sort + ([] if source.unit is None else [f"--unit {source.unit}"])
    return "".join(f" {option}" for option in given)


def _predictions(
    found: PredictionList[Any], listed: PredictionList[Any], shown: PredictionList[Any], options: str
) -> Iterable[ShownPart]:
    """Scored links, labels or ranks, the wrong predictions marked; of long lists the end, and how to see the rest.

    Args:
        found: All that were scored.
        listed: Those that the user wants to see: all, or the wrong predictions.
        shown: The last of these.
        options: Options of the command that asks why.
    """
    yield Prose(words.sanitize(found.sentence, 2000))
    if isinstance(found, LabelPredictions):
        yield Prose(words.sanitize(found.rule, 400))
    if not len(shown):
        if len(found):
            yield Prose("None of them is known to be wrong.")
        return
    yield ""
    event, pair, headings, cells = _columns(shown)
    rows = TextTable(event, pair, words.heading_of_times(shown[0].time), *headings)
    for each, figures in zip(shown, cells, strict=True):
        row = "" if each.event is None else str(each.event)
        rows.add_row(row, words.link(each.src, each.dst, 20), words.moment(each.time), *figures)
    yield rows
    yield ""
    if len(shown) < len(listed):
        wrong = ", --wrong the wrong ones" if listed is found and len(found.wrong) else ""
        kind = found.unit if listed is found else "wrong prediction"
        yield Prose(f"{len(shown):,} of {words.count(len(listed), kind)} shown: --last N shows more{wrong}, --csv all.")
    latest = min(reversed(list(shown)), key=lambda each: each.event is None)  # of events, if there are any
    yield f"Explain it:  cody explain {_link_options(latest)}{options}"


def _columns(shown: PredictionList[Any]) -> tuple[str, str, Sequence[str], list[list[str]]]:
    """What an event and its nodes are called in a table, the headings of the other columns, and their cells."""
    if isinstance(shown, RankPredictions):
        ranks = [
            [f"{each.score:.2f}", f"{each.rank:,}", f"{each.of:,}", "yes" if each.in_top else "no"] for each in shown
        ]
        return "#event", "link", ["#score", "#rank", "#of", f"top {shown.k}"], ranks
    if isinstance(shown, LabelPredictions):
        scores = numbers(*(each.score for each in shown), line=shown.threshold)
        outcomes = [
            [_marked(each, each.predicted, 24), words.sanitize("–" if each.label is None else each.label, 24)]
            for each in shown
        ]
        cells = [[score, *outcome] for score, outcome in zip(scores, outcomes, strict=True)]
        return "#row", words.sanitize(shown.unit, 24), ["#score", "predicted", "label"], cells
    if isinstance(shown, DecidedPredictions):
        pair = "link" if shown.subject == "link" else words.sanitize(shown.unit, 24)
        names = [f"#{name}" for name in shown.decision.headings if name]
        figures = ([numbers(each.margin)[0], words.sanitize(each.figure, 40)][: len(names)] for each in shown)
        cells = [[*each, _marked(row, row.predicted, 40)] for each, row in zip(figures, shown, strict=True)]
        return "#event", pair, [*names, "predicted"], cells
    cells = [[f"{each.score:.2f}", _marked(each, LINK if each.predicted else NO_LINK, 40)] for each in shown]
    return "#event", "link", ["#score", "predicted"], cells


def _marked(each: Any, predicted: str, width: int) -> str:
    return words.sanitize(predicted, width) + (WRONG if each.right is False else "")


def _link_options(link: Any) -> str:
    """The options that name a link."""
    if link.event is not None:
        return f"--event {link.event}"
    src, dst = (shlex.quote(words.sanitize(end)) for end in (link.src, link.dst))
    return f"--src {src} --dst {dst} --time {link.time:.15g}"


def _partners(shown: Predictions, node: str, options: str) -> Iterable[ShownPart]:
    """The most likely partners of a node, best first."""
    if not len(shown):
        yield Prose(f"{words.sanitize(node)} has no possible partners.")
        return
    when = shown[0].time
    first = shown.queries[0]
    yield Prose(f"The most likely partners of {words.sanitize(node)}, as of {words.moment_and_zone(when)}:")
    yield ""
    now = when == float(shown.graph.time[shown.graph.num_events - 1])
    rows = TextTable("link", "#score", "predicted", "last contact", *([] if now else ["next contact"]))
    for place, each in enumerate(shown):
        contact = shown.contact(place)
        before = "never" if contact.last is None else f"{words.earlier(contact.last, when)} before"
        after = "never" if contact.next is None else f"{words.earlier(when, contact.next)} later"
        link = words.link(each.src, each.dst, 20)
        rows.add_row(link, f"{each.score:.2f}", LINK_PREDICTED.outcome(each.logit), before, *([] if now else [after]))
    yield rows
    yield ""
    src, dst = (shlex.quote(words.sanitize(shown.graph.name(end))) for end in (first.src, first.dst))
    link_again = f"--src {src} --dst {dst} --time {'now' if now else shlex.quote(words.timestamp(when))}"
    yield f"Explain it:  cody explain {link_again}{options}"
