"""Predictions for many links: which are right, and who is likely to interact next. `predict` also predicts labels."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph, sorted_unique, warn_if_long_after
from cody.models import predictions
from cody.models.contract import Model, check_is_model, label_task, logits_of_links
from cody.models.decided import decision_of
from cody.models.deciding import ByLabel, above
from cody.models.decision import Above, Decision, InTop
from cody.models.margins import logit_of, probability
from cody.models.predict_ranks import RankPredictions, predict_ranks
from cody.models.predictions import PredictionCounts, PredictionList, Watch
from cody.utils.signatures import readable_help

logger = logging.getLogger(__name__)
ANY = Query(0, 0, 0.0, 0)  # a decision that is given is the same about every link


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


@dataclass(frozen=True, slots=True, repr=False)
class Predictions(PredictionList[Prediction]):
    """Scored links, each a `Prediction`. `wrong` has missed links and false alarms."""

    columns = Prediction._fields

    @property
    def unit(self) -> str:
        return "link"

    @property
    def counts(self) -> PredictionCounts:
        """Counts of hits, misses, false alarms and right rejections, among links with a known outcome."""
        return PredictionCounts.of((each.happened, each.predicted) for each in self)

    def _outcomes(self) -> Iterator[str]:
        """Recall of the links that happened; false alarms and precision where some did not."""
        known = self.counts
        unknown = len(self) - sum(known)
        if known.happened:
            which = "" if known.happened == len(self) else f"of {known.happened:,} that happened, "
            yield f"{which}{known.found}"
        if known.did_not_happen:
            yield f"of {known.did_not_happen:,} that did not happen at that time, {known.alarms}"
        if unknown:
            which = "" if unknown == len(self) else f"of {unknown:,} that the log does not decide, "
            predicted = sum(each.predicted and each.happened is None for each in self)
            yield f"{which}{predicted:,} predicted"

    def contact(self, place: int) -> Contact:
        """When the two nodes of a link met before and after it was scored."""
        query = self.queries[place]
        rows = _together(self.graph, query.src, query.dst)
        before, after = self.graph.time[rows[rows < query.before]], self.graph.time[rows[rows >= query.before]]
        return Contact(*(float(some[place]) if len(some) else None for some, place in ((before, -1), (after, 0))))


@readable_help
def predict(
    model: Model,
    graph: TemporalGraph,
    links: Iterable[int | Query] | None = None,
    *,
    node: Any = None,
    next: int | None = None,
    time: Any = "now",
    threshold: float | None = None,
    decision: Decision | ByLabel | None = None,
    watch: Watch | None = None,
) -> Predictions | predictions.LabelPredictions | RankPredictions | predictions.DecidedPredictions:
    """Predictions for links, or of the labels of events, each scored as of just before it happened.

    A model with `classes` predicts labels. For other models, a query that is not an event of the log is a link that did
    not happen, unless the log ends there: predicting it is a false alarm. Give both kinds of links to measure
    precision; events alone measure recall only.

    Args:
        model: The model.
        graph: The log of events.
        links: Rows of events, and queries (`graph.link`). By default, the events of the last 15 % of the log.
        node: Only the events of this node; with `next`, the node whose partners are predicted.
        next: Instead of scoring links, return this many most likely partners of `node`, best first.
        time: When `node` meets its next partner.
        threshold: Probability above which a link, or the second of two classes, is predicted. Default: as a model of
            labels proposes, else 0.5.
        decision: What is decided about each link instead: `cody.in_top(10)` ranks its destination,
            `cody.rather_than(node)` compares it, `cody.labelled(name)` and `cody.between(2, 5)`; see `cody.explain`.
        watch: Called with the number of scored links or events so far and in total.
    """
    check_is_model(model)
    threshold, decision = _threshold_of(model, threshold, decision)
    labels = decision is None and label_task(model) is not None
    if next is not None:
        if decision is not None:
            raise CallError("next returns the likely partners of a node, by their scores: leave out the decision")
        if labels:
            raise CallError("next returns the likely partners of a node; this model predicts labels: leave it out")
        if node is None or links is not None:
            raise CallError("next returns the partners of a node: give node=…, and no links")
        return likely_partners(model, graph, node, next, time, threshold=threshold, watch=watch)
    rows = predictions.links_to_score(graph, links, node, "events" if labels else "links")
    if labels:
        return predictions.predict_labels(model, graph, rows, threshold, watch)
    if isinstance(decision, InTop):
        among = decision.among if decision.own is None else decision.own
        return predict_ranks(model, graph, rows, k=decision.k, among=among, watch=watch)
    if decision is not None:
        return predictions.predict_decided(model, graph, rows, decision, watch)
    return _scored(model, graph, rows, threshold, watch)


def _threshold_of(
    model: Model, threshold: float | None, decision: Decision | ByLabel | None
) -> tuple[float | None, Decision | ByLabel | None]:
    """A decision that is only a threshold, as that; any other as it is. One that the model cannot answer is rejected.

    Args:
        model: The model.
        threshold: As the user gave it.
        decision: As the user gave it.
    """
    if decision is None:
        return threshold, None
    if threshold is not None:
        raise CallError("give a threshold or a decision, not both")
    if isinstance(decision, InTop):  # its rivals may be those of each link
        return None, decision
    known = decision_of(model, ANY, decision)
    if not isinstance(known, Above):
        return None, decision
    return known.threshold, None


def likely_partners(
    model: Model,
    graph: TemporalGraph,
    node: Any,
    number: int,
    time: Any = "now",
    *,
    threshold: float | None = None,
    watch: Watch | None = None,
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
        threshold: Probability above which a link is predicted. Default: 0.5.
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
    scored = _scored(model, graph, queries, threshold, watch, forecast=True)
    best = np.argsort([-each.logit for each in scored], kind="stable")[:number]
    return scored.at(best.tolist())


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


def _together(graph: TemporalGraph, one: int, other: int) -> IntArray:
    """The rows of events between two nodes, in either direction."""
    rows = graph.history(one, graph.num_events)
    return rows[graph.other_end(rows, one) == other]


def _scored(
    model: Model,
    graph: TemporalGraph,
    links: Iterable[int | Query],
    threshold: float | None,
    watch: Watch | None,
    *,
    forecast: bool = False,
) -> Predictions:
    """The predictions for links. `forecast`: the link need not happen at that exact time."""
    line = logit_of(above(0.5 if threshold is None else threshold).threshold)
    events, queries = predictions.rows_and_queries(graph, links)
    logger.debug("scoring %d links", len(queries))
    logits = predictions.score_in_parts(queries, partial(logits_of_links, model), watch)
    rows = []
    for event, query, logit in zip(events, queries, logits, strict=True):
        happened = None if forecast else event is not None or _happened(graph, query)
        predicted = logit > line
        right = None if happened is None else predicted == happened
        start = predictions.beginning(graph, event, query)
        rows.append(Prediction(*start, logit, probability(logit), predicted, happened, right))
    return Predictions(graph, queries, tuple(rows))


def _happened(graph: TemporalGraph, query: Query) -> bool | None:
    """Whether the log has an event from source to destination at this exact time; None if it ends there."""
    rows = graph.rows_within(query.time, query.time)
    if bool(((graph.src[rows] == query.src) & (graph.dst[rows] == query.dst)).any()):
        return True
    return None if query.before >= graph.num_events else False
