"""Predictions of any decision for many links: ranked above another node, within a range, one of several labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, Query, TemporalGraph
from cody.models.contract import Model, label_task, scores_of_links
from cody.models.decided import decision_of, named_decision, subject_of_decision
from cody.models.deciding import ByLabel
from cody.models.decision import Decision, Labelled, RatherThan, State
from cody.models.predict_labels import label_query
from cody.models.predictions import PredictionCounts, PredictionList, Watch, beginning, rows_and_queries, score_in_parts


class Compared(NamedTuple):
    """A decision about a link, and the links whose scores it reads."""

    decision: Decision
    links: list[Query]  # the link itself, then those with its rivals

    @classmethod
    def of(cls, model: Model, graph: TemporalGraph, query: Query, decision: Decision | ByLabel | None) -> Compared:
        general = decision_of(model, query, decision)
        chosen = named_decision(general.about(graph, query) or general, graph, query)
        rivals = chosen.rivals(graph, query).tolist()
        return cls(chosen, [query, *(query._replace(dst=rival) for rival in rivals)])


def scores_compared(score: Callable[[Sequence[Query]], FloatArray], compared: Sequence[Compared]) -> list[FloatArray]:
    """The scores that each decision reads, all computed together. [1, m] each

    Args:
        score: Links → the scores of each. [n, m]
        compared: The decisions, with their links.
    """
    scores = score([link for each in compared for link in each.links])
    stops = np.cumsum([len(each.links) for each in compared])
    return [part.reshape(1, -1) for part in np.split(scores, stops[:-1])]


class DecidedPrediction(NamedTuple):
    """One decision about a link or an event, with the names of its nodes."""

    event: int | None  # the row of the event, if it happened; it is decided as of just before
    src: str
    dst: str
    time: float
    margin: float  # above 0: the decision is positive
    figure: str  # what lies behind it, in words: the scores of both nodes, the value, the best class
    predicted: str  # what is decided
    positive: bool
    label: str | None  # as the log has it; None: unknown, or no labels are predicted
    right: bool | None  # a label as in the log; a destination that was chosen and is ranked above; None: unknown


@dataclass(frozen=True, slots=True, repr=False)
class DecidedPredictions(PredictionList[DecidedPrediction]):
    """Decisions about links or events, each a `DecidedPrediction`. `wrong` has those that are known to be wrong."""

    columns = DecidedPrediction._fields

    decision: Decision  # without what depends on the link
    subject: str  # what is decided on: a link, or an event or node that is labelled
    left_out: int = 0  # links that would be compared with themselves

    @property
    def counts(self) -> PredictionCounts:
        """Of a label: hits, misses, false alarms and right rejections, among known labels."""
        assert isinstance(self.decision, Labelled)
        label = self.decision.label
        return PredictionCounts.of((each.label == label, each.positive) for each in self if each.label is not None)

    def _outcomes(self) -> Iterator[str]:
        positive = sum(each.positive for each in self)
        yield f"{positive:,} {self.decision.claim()} ({100 * positive / len(self):.1f} %)"
        if isinstance(self.decision, Labelled) and (counts := self.counts).happened:
            yield f"of {counts.happened:,} with the label {self.decision.label}, {counts.found}"
            yield counts.alarms
        if self.left_out:
            yield f"left out: {self.left_out:,} from or to that node"


def predict_decided(
    model: Model,
    graph: TemporalGraph,
    links: Iterable[int | Query],
    decision: Decision | ByLabel,
    watch: Watch | None = None,
) -> DecidedPredictions:
    """What a model decides about links or events, each as of just before it happened.

    Args:
        model: The model.
        graph: The log of events.
        links: Rows of events, and queries (`graph.link`).
        decision: What is decided.
        watch: Called with the number of decided links so far and in total.
    """
    task = label_task(model)
    events, queries = rows_and_queries(graph, links)
    if task is not None:
        queries = tuple(label_query(graph, task, query) for query in queries)
    kept = [
        place
        for place, query in enumerate(queries)
        if decision_of(model, query, decision).about(graph, query) is not None
    ]
    if not kept:
        raise CallError("every link has the node that it would be compared with at an end: name another one")
    rows = []
    compared = [queries[place] for place in kept]
    decide = partial(_decide, model, graph, decision)
    for place, (known, state) in zip(kept, score_in_parts(compared, decide, watch), strict=True):
        event = events[place]
        assert state.margin is not None
        margin, positive = state.margin, state.margin > 0
        label = None if task is None or event is None else graph.label_of(event)
        right = _is_right(known, event, positive, label)
        start = beginning(graph, event, queries[place])
        rows.append(DecidedPrediction(*start, margin, known.figure(state), known.cell(margin), positive, label, right))
    general = decision_of(model, compared[0], decision)
    return DecidedPredictions(
        graph, tuple(compared), tuple(rows), general, subject_of_decision(model, general), len(queries) - len(kept)
    )


def _is_right(decision: Decision, event: int | None, positive: bool, label: str | None) -> bool | None:
    """Whether what is decided is what the log says; None where it does not say it.

    Args:
        decision: What is decided.
        event: The row of the event, if it happened.
        positive: Whether the margin is above 0.
        label: That of the event, if it is known.
    """
    if isinstance(decision, Labelled):
        return None if label is None else positive == (label == decision.label)
    return positive if isinstance(decision, RatherThan) and event is not None else None


def _decide(
    model: Model, graph: TemporalGraph, decision: Decision | ByLabel, queries: Sequence[Query]
) -> list[tuple[Decision, State]]:
    """The decision about each query, and how it stands."""
    compared = [Compared.of(model, graph, query, decision) for query in queries]
    found = []
    for each, scores in zip(compared, scores_compared(partial(scores_of_links, model), compared), strict=True):
        names = [graph.name(link.dst) for link in each.links]
        state = State(float(each.decision.margin(scores)[0]), each.decision.standing(scores[0], names))
        found.append((each.decision, state))
    return found
