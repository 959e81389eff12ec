"""cody predict: scores of many links, which predictions are right, and the most likely partners of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cody.cli.command import COUNT, FILE, bundled, command, option, section
from cody.cli.messages import print_csv, print_json, say
from cody.cli.options import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    DataSource,
    ModelSource,
    check_formats,
    csv_option,
    events_option,
    json_option,
    model_options,
    named_rows,
    node_option,
    parse_period,
    period_option,
    rows_of_node,
)
from cody.cli.progress import progress
from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.models.predict import PERIOD, Prediction, Predictions, rows_between, rows_of_links
from cody.models.predict import predict as predict_links
from cody.utils import words

SHOWN = 20  # links in a table
OF_LINKS = ("event", "happened", "right")  # columns that mean nothing for forecasts


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """Which links are scored."""

    node: str | None
    period: str | None
    since: str | None
    until: str | None
    events: str | None
    links: Path | None
    next: int | None
    time: str | None

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
            return named_rows(self.events)
        if links is not None:
            return rows_of_links(graph, links)
        if self.since is None and self.until is None:
            rows = rows_between(graph, PERIOD if self.period is None else parse_period(self.period))
        else:
            since = None if self.since is None else graph.when(self.since)
            rows = graph.rows_within(since, None if self.until is None else words.end_of(self.until, graph.when))
        if self.node is not None:
            rows = rows_of_node(graph, rows, self.node, by_default=self.by_default)
        if not len(rows):
            raise CallError("there are no events in this period")
        return list(rows.tolist())


_links = section("Which links")
predict_options = bundled(
    "links",
    PredictOptions,
    node_option,
    period_option,
    _links("--since", metavar="TIME", help="Events from this time on."),
    _links("--until", metavar="TIME", help="Events up to this time; a day is included."),
    events_option,
    _links(
        "--links",
        type=FILE,
        help="Links in a file of events, as --data reads it. Those that did not happen count as false alarms if "
        "predicted.",
    ),
    _links("--next", type=COUNT, metavar="N", help="The N most likely partners of --node instead."),
    _links("--time", help="With --next: a date, a number, or now, the end of the log. Default: now."),
)


@command(
    "predict",
    examples={
        "cody predict --wrong": "links of the test period that the model misses",
        "cody predict --node 1118 --next 10": "the 10 nodes that 1118 will most likely write to next",
    },
)
@predict_options
@model_options
@option("--wrong", is_flag=True, help="Show only wrong predictions: missed links and false alarms.")
@option("--last", type=COUNT, metavar="N", help=f"Show the last N. Default: {SHOWN} in a table, else all.")
@csv_option
@json_option
def predict(
    links: PredictOptions, source: ModelSource, wrong: bool, last: int | None, as_csv: bool, as_json: bool
) -> None:
    """Score links, and see which predictions are right: in the test period, of a node, or who is likely to be next."""
    links.check(wrong=wrong)
    check_formats(as_csv, as_json)
    forecast = links.next is not None
    given = None if links.links is None else DataSource(str(links.links), True, source.unit).load()
    if given is not None and not Path(source.data).is_file():
        source = replace(source, unit=None)  # it is that of the links alone
    named = source.named()
    graph = named.graph
    queries = None if forecast else links.queries(graph, given)
    model = source.open(named)
    with progress("links", None if queries is None else len(queries)) as move:
        found = predict_links(
            model,
            graph,
            queries,
            node=links.node if forecast else None,
            next=links.next,
            time=links.time or "now",
            watch=lambda done, total: move(completed=done, total=total),
        )
    if links.next is not None and len(found) < links.next:
        say(f"{words.sanitize(links.node)} has only {words.count(len(found), 'possible partner')} at that time")
    listed = found.wrong if wrong else found
    most = last or (len(listed) if as_csv or as_json or forecast else SHOWN)
    shown = listed.at(range(max(0, len(listed) - most), len(listed)))
    if as_json:
        print_json(_rows(shown, forecast=forecast))
    elif as_csv:
        _print_csv(_rows(shown, forecast=forecast), forecast=forecast)
    else:
        from cody.cli import show

        options = _as_options(source)
        show.print_parts(
            show.partners(shown, str(links.node), options)
            if forecast
            else show.predictions(found, listed, shown, options)
        )


def _rows(shown: Predictions, *, forecast: bool) -> list[dict[str, Any]]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    rows = [each._asdict() | {"logit": round(each.logit, 6), "score": round(each.score, 6)} for each in shown]
    if forecast:
        for place, row in enumerate(rows):
            for name in OF_LINKS:
                del row[name]
            row |= shown.contact(place)._asdict()
    return rows


def _print_csv(rows: list[dict[str, Any]], *, forecast: bool) -> None:
    names = [name for name in Prediction._fields if not (forecast and name in OF_LINKS)]
    times = [name for name in ("time", "last", "next") if forecast or name == "time"]
    dated = (row | {name: words.timestamp(row[name]) for name in times if row[name] is not None} for row in rows)
    print_csv([*names, *times[1:]], dated)


def _as_options(source: ModelSource) -> str:
    """The options that a further command needs for the same data and model."""
    defaults = {"--data": (source.data, DEFAULT_DATA), "--model": (source.model, DEFAULT_MODEL)}
    given = [f"{name} {words.sanitize(value)}" for name, (value, default) in defaults.items() if value != default]
    given += ["--sort"] * source.sort + ([] if source.unit is None else [f"--unit {source.unit}"])
    return "".join(f" {option}" for option in given)
