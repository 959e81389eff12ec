"""Predictions for many links: which are right, and who is likely to interact next."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph, check_query, sorted_unique, warn_if_long_after
from cody.models.contract import Model, check_is_model, logits_of_links
from cody.models.decision import probability
from cody.utils.signatures import readable_help
from cody.utils.words import count, from_to, is_date

if TYPE_CHECKING:
    import pandas

PERIOD = (
    0.85,
    1.0,
)  # default period of scored links, as shares of all events: no model was fit to it
LINKS_AT_ONCE = 1024  # between two reports of progress

logger = logging.getLogger(__name__)

Watch = Callable[[int, int], None]  # how many links are scored, of how many


class Prediction(NamedTuple):
    """One scored link, with the names of its nodes."""

    event: int | None  # the row of the event, if the link happened; it is scored as of just before
    src: str
    dst: str
    time: float
    logit: float
    score: float
    predicted: bool
    happened: bool | None  # at that exact time; None: the log ends there, or this is a forecast
    right: bool | None  # whether the prediction is right; None: unknown


class Contact(NamedTuple):
    """When two nodes met, in either direction, before and after a moment; None: never."""

    last: float | None
    next: float | None


class PredictionCounts(NamedTuple):
    """How many links were predicted and how many happened, where that is known.

    >>> PredictionCounts(hits=90, missed=10, false_alarms=30, rejected=70).recall
    0.9
    >>> PredictionCounts(hits=90, missed=10, false_alarms=30, rejected=70).precision
    0.75
    """

    hits: int  # happened, and predicted
    missed: int  # happened, not predicted
    false_alarms: int  # did not happen, but predicted
    rejected: int  # neither

    @property
    def happened(self) -> int:
        return self.hits + self.missed

    @property
    def did_not_happen(self) -> int:
        return self.false_alarms + self.rejected

    @property
    def recall(self) -> float | None:
        """The share of predicted links among those that happened; None if there are none."""
        return self.hits / self.happened if self.happened else None

    @property
    def precision(self) -> float | None:
        """The share of links that happened among those predicted; None without links of both kinds and a prediction."""
        predicted = self.hits + self.false_alarms
        return self.hits / predicted if predicted and self.happened and self.did_not_happen else None


@dataclass(frozen=True, slots=True, repr=False)
class Predictions:
    """Scored links, each a `Prediction`."""

    graph: TemporalGraph
    queries: tuple[Query, ...]
    events: tuple[int | None, ...]  # the row of each link that is an event of the log
    logits: tuple[float, ...]
    happened: tuple[bool | None, ...]  # None: not known

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[Prediction]:
        for query, event, logit, happened in zip(self.queries, self.events, self.logits, self.happened, strict=True):
            predicted = logit > 0
            right = None if happened is None else predicted == happened
            ends = self.graph.name(query.src), self.graph.name(query.dst)
            yield Prediction(event, *ends, query.time, logit, probability(logit), predicted, happened, right)

    def __getitem__(self, place: int) -> Prediction:
        return next(iter(self.at([range(len(self))[place]])))

    def at(self, places: Iterable[int]) -> Predictions:
        """The predictions at some positions, counted from 0."""
        chosen = list(places)
        return Predictions(
            self.graph,
            tuple(self.queries[place] for place in chosen),
            tuple(self.events[place] for place in chosen),
            tuple(self.logits[place] for place in chosen),
            tuple(self.happened[place] for place in chosen),
        )

    @property
    def wrong(self) -> Predictions:
        """Missed links, which happened and were not predicted, and false alarms, which did not and were."""
        return self.at(place for place, each in enumerate(self) if each.right is False)

    @property
    def counts(self) -> PredictionCounts:
        """Counts of hits, misses, false alarms and right rejections, among links with a known outcome."""
        kinds = Counter((each.happened, each.predicted) for each in self)
        return PredictionCounts(kinds[True, True], kinds[True, False], kinds[False, True], kinds[False, False])

    @property
    def sentence(self) -> str:
        """How many links there are; recall of those that happened; false alarms and precision where some did not."""
        if not len(self):
            return "No links."
        first, last = (limit(query.time for query in self.queries) for limit in (min, max))
        return f"{count(len(self), 'link')} from {from_to(first, last)}: {'; '.join(self._outcomes())}."

    def _outcomes(self) -> Iterator[str]:
        """The outcomes of the links, by kind."""
        known = self.counts
        unknown = sum(happened is None for happened in self.happened)
        if known.happened:
            which = "" if known.happened == len(self) else f"of {known.happened:,} that happened, "
            yield f"{which}{known.hits:,} predicted, {known.missed:,} missed (recall {_percent(known.recall)})"
        if known.did_not_happen:
            alarms = count(known.false_alarms, "false alarm")
            precision = "" if known.precision is None else f" (precision {_percent(known.precision)})"
            yield f"of {known.did_not_happen:,} that did not happen at that time, {alarms}{precision}"
        if unknown:
            which = "" if unknown == len(self) else f"of {unknown:,} that the log does not decide, "
            predicted = sum(each.predicted and each.happened is None for each in self)
            yield f"{which}{predicted:,} predicted"

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


@readable_help
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
    """Predictions for links, each scored as of just before it happened.

    A query that is not an event of the log is a link that did not happen, unless the log ends there: predicting it is a
    false alarm. Give both kinds of links to measure precision; events alone measure recall only.

    Args:
        model: The model.
        graph: The log of events.
        links: Rows of events, and queries (`graph.link`). By default, the events of the last 15 % of the log.
        node: Only the events of this node; with `next`, the node whose partners are predicted.
        next: Instead of scoring links, return this many most likely partners of `node`, best first.
        time: When `node` meets its next partner.
        watch: Called with the number of scored links so far and in total.
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
        raise CallError("next returns the partners of a node: give node=…, and no links")
    return likely_partners(model, graph, node, next, time, watch=watch)


def likely_partners(
    model: Model, graph: TemporalGraph, node: Any, number: int, time: Any = "now", *, watch: Watch | None = None
) -> Predictions:
    """The nodes that a node will most likely interact with next, best first.

    A node that has been a source is scored with every node that has been a destination by then; a node that has only
    been a destination is scored with every source.

    Args:
        model: The model.
        graph: The log of events.
        node: The node, by its name.
        number: How many partners to return.
        time: The time of the interaction; all events up to it are known.
        watch: Called with the number of scored links so far and in total.
    """
    if number < 1:
        raise CallError(f"next must be at least 1, not {number}")
    one, when = graph.node(node), graph.when(time)
    warn_if_long_after(graph, when)
    before = int(np.searchsorted(graph.time[: graph.num_events], when, side="right"))
    if not before:
        raise CallError(f"{time!r} is before the first event, so nothing is known about {str(node)!r} then")
    is_source = bool((graph.src[:before] == one).any()) or not bool((graph.dst[:before] == one).any())
    others = sorted_unique((graph.dst if is_source else graph.src)[:before])
    others = others[others != one].tolist()
    queries = [Query(one, other, when, before) if is_source else Query(other, one, when, before) for other in others]
    scored = _scored(model, graph, queries, watch, forecast=True)
    best = np.argsort(-np.array(scored.logits), kind="stable")[:number]
    return scored.at(best.tolist())


def rows_between(graph: TemporalGraph, shares: tuple[float, float]) -> IntArray:
    """The rows of the events in a period, given as two shares of the log."""
    first, last = (round(share * graph.num_events) for share in shares)
    return np.arange(first, last)


def rows_of_links(graph: TemporalGraph, links: TemporalGraph) -> list[int | Query]:
    """Links of another log as links of this one: the row of each event that happened, a query for the others.

    Of equal events at the same time, each is used once.
    """
    rows: list[int | Query] = []
    used: set[int] = set()
    if links.num_events:
        warn_if_long_after(graph, float(links.time[-1]))  # once for all of them
    for src, dst, time in zip(links.src.tolist(), links.dst.tolist(), links.time.tolist(), strict=True):
        query = graph.query_at(links.name(src), links.name(dst), time)
        same = _together(graph, query.src, query.dst)
        same = same[(graph.time[same] == time) & (graph.src[same] == query.src)]
        row = next((row for row in same.tolist() if row not in used), None)
        used |= set() if row is None else {row}
        rows.append(query if row is None else row)
    return rows


def of_node(graph: TemporalGraph, rows: IntArray, node: Any) -> IntArray:
    """Those of the rows that are events of a node.

    Args:
        graph: The log of events.
        rows: Rows to choose from.
        node: The node, by its name.
    """
    one = graph.node(node)
    touching: IntArray = rows[(graph.src[rows] == one) | (graph.dst[rows] == one)]
    return touching


def _together(graph: TemporalGraph, one: int, other: int) -> IntArray:
    """The rows of events between two nodes, in either direction."""
    rows = graph.history(one, graph.num_events)
    between: IntArray = rows[graph.other_end(rows, one) == other]
    return between


def _scored(
    model: Model, graph: TemporalGraph, links: Iterable[int | Query], watch: Watch | None, *, forecast: bool = False
) -> Predictions:
    """The predictions for links. `forecast`: the link need not happen at that exact time."""
    chosen = list(links)
    events = tuple(None if isinstance(link, Query) else int(link) for link in chosen)
    queries = tuple(link if isinstance(link, Query) else graph.query(link) for link in chosen)
    for query in queries:
        check_query(graph, query)
    logits: list[float] = []
    logger.debug("scoring %d links", len(queries))
    for first in range(0, len(queries), LINKS_AT_ONCE):
        logits += logits_of_links(model, queries[first : first + LINKS_AT_ONCE])
        if watch is not None:
            watch(len(logits), len(queries))
    happened = tuple(
        None if forecast else event is not None or _happened(graph, query)
        for event, query in zip(events, queries, strict=True)
    )
    return Predictions(graph, queries, events, tuple(logits), happened)


def _happened(graph: TemporalGraph, query: Query) -> bool | None:
    """Whether the log has an event from source to destination at this exact time; None if it ends there."""
    times = graph.time[: graph.num_events]
    rows = slice(*(np.searchsorted(times, query.time, side=side) for side in ("left", "right")))
    if bool(((graph.src[rows] == query.src) & (graph.dst[rows] == query.dst)).any()):
        return True
    return None if query.before >= graph.num_events else False


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
