"""Which links a command is about, from its options."""

from __future__ import annotations

from cody.cli.messages import say
from cody.errors import CallError
from cody.explain.what_if import read_rows
from cody.graph import IntArray, Query, TemporalGraph
from cody.models.predict import of_node
from cody.utils import words


def asked_links(
    graph: TemporalGraph, event: int | None, events: str | None, src: str | None, dst: str | None, time: str | None
) -> list[Query]:
    """The links that were asked about, in one of three ways."""
    link = [src, dst, time]
    if (event is not None) + (events is not None) + any(part is not None for part in link) != 1 or (
        any(part is None for part in link) and event is None and events is None
    ):
        raise CallError("give --event ROW, or --src, --dst and --time of a link (explain also: --events ROWS)")
    if event is not None:
        return [graph.query(event)]
    if events is not None:
        return [graph.query(row) for row in named_rows(events)]
    query = graph.link(src, dst, str(time))
    if not query.before:
        began = words.moment_and_zone(float(graph.time[0]))
        raise CallError(f"--time {time!r} is before the first event ({began}): there is no past to explain it by")
    return [query]


def named_rows(events: str) -> list[int]:
    """The rows that `--events` names, each once, in their order."""
    named = read_rows(events)
    if not named:
        raise CallError(f"--events {events!r} names no event")
    rows = list(dict.fromkeys(named))
    if len(rows) < len(named):
        say(f"{words.count(len(named), 'row')} named, {len(rows):,} of them different: each is used once")
    return rows


def rows_of_node(graph: TemporalGraph, rows: IntArray, node: str, *, by_default: bool) -> IntArray:
    """Those of the rows that are events of a node. `by_default`: nobody asked for this period, so it is said."""
    chosen = of_node(graph, rows, node)
    if not len(chosen):
        raise CallError(f"there are no events of node {node!r} in this period")
    every = len(graph.history(graph.node(node), graph.num_events))
    if by_default and len(chosen) < every:
        these = f"{len(chosen):,} of the {words.count(every, 'event')} of {words.sanitize(node)}"
        say(f"{these}: those of the test period, the last 15 % of the log (--period 0..1 takes all)")
    return chosen
