"""Scores of many links: where a model is right and wrong, and who is likely to be next."""

from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cody.cli.common import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    DataOption,
    JsonOption,
    ModelOption,
    OtherDataOption,
    SortOption,
    UnitOption,
    app,
    open_model,
    parse_shares,
    print_json,
    say,
)
from cody.cli.links import named_rows, rows_of_node
from cody.cli.options import CsvOption, EventsOption, NodeOption, PeriodOption
from cody.cli.parser import Option
from cody.cli.progress import progress
from cody.data import load
from cody.engine.named import NamedModel
from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.models.predict import PERIOD, Prediction, Predictions, predict, rows_between, rows_of_links
from cody.utils import words

SHOWN = 20  # links in a table
OF_LINKS = ("event", "happened", "right")  # columns that mean nothing for forecasts


@app.command(
    "predict",
    groups={
        "Which links": "node period since until events links next_ time",
        "Data and model": "data model sort unit allow_data_mismatch",
    },
    examples={
        "cody predict --wrong": "links of the test period that the model misses",
        "cody predict --node 1118 --next 10": "whom 1118 will most likely write to next",
    },
)
def predict_(
    data: DataOption = DEFAULT_DATA,
    model: ModelOption = DEFAULT_MODEL,
    node: NodeOption = None,
    next_: Annotated[
        int | None, Option("--next", min=1, help="Its most likely partners instead, so many. Needs --node.")
    ] = None,
    time: Annotated[
        str | None, Option(help="With --next: when; a date, a number, or now, the end of the log (default).")
    ] = None,
    period: PeriodOption = None,
    since: Annotated[str | None, Option(metavar="TIME", help="Events from this time on.")] = None,
    until: Annotated[str | None, Option(metavar="TIME", help="Events up to this time; a day is included.")] = None,
    events: EventsOption = None,
    links: Annotated[
        Path | None,
        Option(help="Links in a file of events, as --data takes them; those that did not happen tell false alarms."),
    ] = None,
    wrong: Annotated[
        bool, Option("--wrong", help="Show only wrong predictions: missed links and false alarms.")
    ] = False,
    last: Annotated[
        int | None, Option(min=1, help=f"Show the latest so many. Default: {SHOWN} in a table, else all.")
    ] = None,
    sort: SortOption = False,
    unit: UnitOption = None,
    allow_data_mismatch: OtherDataOption = False,
    csv_: CsvOption = False,
    json_: JsonOption = False,
) -> None:
    """Score links: which does the model get right, and who is likely to be next?"""
    _check_call(node, next_, time, [period, since, until], events, links, csv_ and json_)
    if wrong and next_ is not None:
        raise CallError("--wrong compares predictions with the log; the partners of --next are forecasts: leave it out")
    unit_of_data = unit if links is None or Path(data).is_file() else None  # else it is that of the links alone
    named = NamedModel(model, partial(load, data, sort=sort, unit=unit_of_data))
    graph = named.graph
    given = None if links is None else load(str(links), sort=True, unit=unit)
    asked = None if next_ is not None else _links(graph, node, period, since, until, events, given)
    loaded = open_model(named, allow_data_mismatch=allow_data_mismatch)
    with progress("links", None if asked is None else len(asked)) as move:
        found = predict(
            loaded,
            graph,
            asked,
            node=None if next_ is None else node,
            next=next_,
            time=time or "now",
            watch=lambda done, total: move(completed=done, total=total),
        )
    if next_ is not None and len(found) < next_:
        say(f"{words.sanitize(node)} has only {words.count(len(found), 'possible partner')} at that time")
    listed = found.wrong if wrong else found
    most = last or (len(listed) if csv_ or json_ or next_ is not None else SHOWN)
    shown = listed.at(range(max(0, len(listed) - most), len(listed)))
    if json_:
        print_json(_rows(shown, with_contacts=next_ is not None))
    elif csv_:
        _print_csv(_rows(shown, with_contacts=next_ is not None), with_contacts=next_ is not None)
    else:
        from cody.cli import show

        options = _as_options(data, model, sort=sort, unit=unit_of_data)
        show.print_parts(
            show.predictions(found, listed, shown, options)
            if next_ is None
            else show.partners(shown, str(node), options)
        )


def _check_call(
    node: str | None,
    next_: int | None,
    time: str | None,
    times: list[str | None],
    events: str | None,
    links: Path | None,
    both: bool,
) -> None:
    """Refuse options that contradict each other."""
    if next_ is not None and node is None:
        raise CallError("--next asks for the partners of a node: give --node NAME")
    if time is not None and next_ is None:
        raise CallError("--time belongs to --next; --since and --until choose events by their time")
    ways = [events is not None, links is not None, any(each is not None for each in times)]
    if sum(ways) > 1 or (next_ is not None and any(ways)) or (node is not None and any(ways[:2])):
        raise CallError("give one of --events, --links, or --node with --next or a period (--period, --since, --until)")
    if times[0] is not None and (times[1] is not None or times[2] is not None):
        raise CallError("give --period, or --since and --until, not both")
    if both:
        raise CallError("give --csv or --json, not both")


def _links(
    graph: TemporalGraph,
    node: str | None,
    period: str | None,
    since: str | None,
    until: str | None,
    events: str | None,
    links: TemporalGraph | None,
) -> list[int | Query]:
    """The links that were asked about."""
    if events is not None:
        return list(named_rows(events))
    if links is not None:
        return rows_of_links(graph, links)
    if since is None and until is None:
        rows = rows_between(graph, PERIOD if period is None else parse_shares(period))
    else:
        rows = graph.rows_within(
            None if since is None else graph.when(since), None if until is None else words.end_of(until, graph.when)
        )
    if node is not None:
        rows = rows_of_node(graph, rows, node, by_default=period is None and since is None and until is None)
    if not len(rows):
        raise CallError("there are no events in this period")
    return list(rows.tolist())


def _rows(shown: Predictions, *, with_contacts: bool) -> list[dict[str, Any]]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    rows = [each._asdict() | {"logit": round(each.logit, 6), "score": round(each.score, 6)} for each in shown]
    if with_contacts:
        for place, row in enumerate(rows):
            for name in OF_LINKS:
                del row[name]
            row |= shown.contact(place)._asdict()
    return rows


def _print_csv(rows: list[dict[str, Any]], *, with_contacts: bool) -> None:
    names = [name for name in Prediction._fields if not (with_contacts and name in OF_LINKS)]
    writer = csv.DictWriter(sys.stdout, [*names, *(["last", "next"] if with_contacts else [])], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        times = {name: words.timestamp(row[name]) for name in ("time", "last", "next") if row.get(name) is not None}
        writer.writerow(row | times)


def _as_options(data: str, model: str, *, sort: bool, unit: str | None) -> str:
    """What a further command needs to be told about data and model."""
    defaults = {"--data": (data, DEFAULT_DATA), "--model": (model, DEFAULT_MODEL)}
    given = [f"{name} {words.sanitize(value)}" for name, (value, default) in defaults.items() if value != default]
    given += ["--sort"] * sort + ([] if unit is None else [f"--unit {unit}"])
    return "".join(f" {option}" for option in given)
