"""What a model says about many links, as they are: which it gets right, and who is likely to be next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cody.decision import probability
from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph, check_query
from cody.model import Model, check_is_model, logits_of_links
from cody.words import count, is_date, moment

if TYPE_CHECKING:
    import pandas

PERIOD = (
    0.85,
    1.0,
)  # shares of the events whose links are scored unless others are asked for: no model was fit to them
LINKS_AT_ONCE = 1024  # between two reports of progress

Watch = Callable[[int, int], None]  # how many links are scored, of how many


class Prediction(NamedTuple):
    """One scored link, with its nodes as the user calls them."""

    event: int | None  # the row of the event, if the link is one that happened, asked just before it did
    src: str
    dst: str
    time: float
    logit: float
    score: float
    predicted: bool
    right: bool | None  # None: the log does not say whether the link happened


class Contact(NamedTuple):
    """When two nodes met, in either direction, before and after a moment; None: never."""

    last: float | None
    next: float | None


@dataclass(frozen=True, slots=True, repr=False)
class Predictions:
    """Scored links, each a `Prediction`."""

    graph: TemporalGraph
    queries: tuple[Query, ...]
    events: tuple[int | None, ...]  # the row of each link that happened
    logits: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[Prediction]:
        for query, event, logit in zip(self.queries, self.events, self.logits, strict=True):
            predicted = logit > 0
            right = None if event is None else predicted
            ends = self.graph.name(query.src), self.graph.name(query.dst)
            yield Prediction(event, *ends, query.time, logit, probability(logit), predicted, right)

    def __getitem__(self, place: int) -> Prediction:
        return next(iter(self.at([range(len(self))[place]])))

    def at(self, places: Iterable[int]) -> Predictions:
        """Those at some places, counted from 0."""
        chosen = list(places)
        return Predictions(
            self.graph,
            tuple(self.queries[place] for place in chosen),
            tuple(self.events[place] for place in chosen),
            tuple(self.logits[place] for place in chosen),
        )

    @property
    def wrong(self) -> Predictions:
        """The links that happened and were not predicted."""
        return self.at(place for place, each in enumerate(self) if each.right is False)

    @property
    def sentence(self) -> str:
        """How many links there are, and how many of those that happened were predicted."""
        if not len(self):
            return "No links."
        first, last = (moment(limit(query.time for query in self.queries)) for limit in (min, max))
        said = f"{count(len(self), 'link')} from {first} to {last}"
        happened = sum(event is not None for event in self.events)
        if not happened:
            return f"{said}: {sum(logit > 0 for logit in self.logits):,} predicted."
        missed = sum(each.right is False for each in self)
        which = "" if happened == len(self) else f"of {happened:,} that happened, "
        share = 100 * (1 - missed / happened)
        return f"{said}: {which}{happened - missed:,} predicted, {missed:,} missed ({share:.1f} % right)."

    def contact(self, place: int) -> Contact:
        """When the two nodes of a link met before and after it was scored."""
        query = self.queries[place]
        rows = _together(self.graph, query.src, query.dst)
        before, after = rows[rows < query.before], rows[rows >= query.before]
        times = self.graph.time
        return Contact(
            float(times[before[-1]]) if len(before) else None, float(times[after[0]]) if len(after) else None
        )

    def to_frame(self) -> pandas.DataFrame:
        """A table, one row for each link; times that are dates are readable ones, in UTC."""
        import pandas

        frame = pandas.DataFrame(list(self), columns=list(Prediction._fields))
        if len(self) and all(is_date(query.time) for query in self.queries):
            frame["time"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
        return frame

    def __repr__(self) -> str:
        return f"Predictions({self.sentence})"


def predict(
    model: Model,
    graph: TemporalGraph,
    links: Iterable[int | Query] | None = None,
    *,
    node: Any = None,
    next: int | None = None,
    time: Any = "now",
    watch: Watch | None = None,
) -> Predictions:
    """Score links: rows of events (each asked just before it happened) and queries (`graph.link`).

    Without `links`: the events of the last 15 % of the log; with `node`, those of this node. With `node` and `next`:
    the most likely partners of that node at `time`, best first (`likely_partners`).
    """
    check_is_model(model)
    if next is None:
        if links is None:
            rows = rows_between(graph, PERIOD)
            links = (rows if node is None else of_node(graph, rows, node)).tolist()
        elif node is not None:
            raise CallError("give links or a node, not both")
        return _scored(model, graph, links, watch)
    if node is None or links is not None:
        raise CallError("next asks for the partners of a node: give node=…, and no links")
    return likely_partners(model, graph, node, next, time, watch=watch)


def likely_partners(
    model: Model, graph: TemporalGraph, node: Any, number: int, time: Any = "now", *, watch: Watch | None = None
) -> Predictions:
    """The nodes that a node will most likely interact with next, given all events up to `time`, best first.

    A node that has been a source is scored with every node that has been a destination by then; one that has only ever
    been a destination, with every source.
    """
    if number < 1:
        raise CallError(f"next must be at least 1, not {number}")
    asked, when = graph.node(node), graph.when(time)
    before = int(np.searchsorted(graph.time[: graph.num_events], when, side="right"))
    if not before:
        raise CallError(f"{time!r} is before the first event: nothing is known about {str(node)!r} then")
    is_source = bool((graph.src[:before] == asked).any()) or not bool((graph.dst[:before] == asked).any())
    others = np.unique((graph.dst if is_source else graph.src)[:before])
    others = others[others != asked].tolist()
    queries = [
        Query(asked, other, when, before) if is_source else Query(other, asked, when, before) for other in others
    ]
    scored = _scored(model, graph, queries, watch)
    best = np.argsort(-np.array(scored.logits), kind="stable")[:number]
    return scored.at(best.tolist())


def rows_between(graph: TemporalGraph, shares: tuple[float, float]) -> IntArray:
    """The rows of the events between two shares of the log."""
    first, last = (round(share * graph.num_events) for share in shares)
    return np.arange(first, last)


def rows_of_links(graph: TemporalGraph, links: TemporalGraph) -> list[int | Query]:
    """Links of another log as links of this one: the row of each event that happened, a query for the others.

    Of equal events at the same time, each is used once.
    """
    rows: list[int | Query] = []
    used: set[int] = set()
    for src, dst, time in zip(links.src.tolist(), links.dst.tolist(), links.time.tolist(), strict=True):
        query = graph.link(links.name(src), links.name(dst), time)
        same = _together(graph, query.src, query.dst)
        same = same[(graph.time[same] == time) & (graph.src[same] == query.src)]
        row = next((row for row in same.tolist() if row not in used), None)
        used |= set() if row is None else {row}
        rows.append(query if row is None else row)
    return rows


def of_node(graph: TemporalGraph, rows: IntArray, node: Any) -> IntArray:
    """Those of the rows that are events of a node, as the user calls it."""
    asked = graph.node(node)
    touching: IntArray = rows[(graph.src[rows] == asked) | (graph.dst[rows] == asked)]
    return touching


def _together(graph: TemporalGraph, one: int, other: int) -> IntArray:
    """The rows of events between two nodes, in either direction."""
    rows = graph.history(one, graph.num_events)
    between: IntArray = rows[graph.other_end(rows, one) == other]
    return between


def _scored(model: Model, graph: TemporalGraph, links: Iterable[int | Query], watch: Watch | None) -> Predictions:
    asked = list(links)
    events = tuple(None if isinstance(link, Query) else int(link) for link in asked)
    queries = tuple(link if isinstance(link, Query) else graph.query(link) for link in asked)
    for query in queries:
        check_query(graph, query)
    logits: list[float] = []
    for first in range(0, len(queries), LINKS_AT_ONCE):
        logits += logits_of_links(model, queries[first : first + LINKS_AT_ONCE])
        if watch is not None:
            watch(len(logits), len(queries))
    return Predictions(graph, queries, events, tuple(logits))
