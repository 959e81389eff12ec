"""Predicted labels of many events: the class and its score, which are right, precision and recall at a threshold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, Query, TemporalGraph
from cody.models.contract import Model, check_is_model, label_task, scores_of_links
from cody.models.labels import LabelTask, about_node
from cody.models.margins import probability
from cody.models.predictions import (
    PredictionCounts,
    PredictionList,
    Watch,
    beginning,
    links_to_score,
    rows_and_queries,
    score_in_parts,
)
from cody.utils.signatures import readable_help

DEFAULT_THRESHOLD = 0.5  # of models that propose none


class LabelPrediction(NamedTuple):
    """One labelled event, with the names of its nodes."""

    event: int | None  # the row of the event; it is scored as of just before
    src: str
    dst: str
    time: float
    score: float  # probability of the second of two classes; of more classes, that of the predicted one
    predicted: str  # class
    label: str | None  # as the log has it; None: unknown
    right: bool | None  # whether the prediction is right; None: unknown


@dataclass(frozen=True, slots=True, repr=False)
class LabelPredictions(PredictionList[LabelPrediction]):
    """Labelled events, each a `LabelPrediction`. `wrong` has those whose predicted class is not that of the log."""

    columns = LabelPrediction._fields

    task: LabelTask
    threshold: float  # probability above which the second of two classes is predicted

    @property
    def counts(self) -> PredictionCounts:
        """Hits, misses, false alarms and right rejections of the last class, among known labels."""
        return self.counts_of(self.task.classes[-1])

    def counts_of(self, name: str) -> PredictionCounts:
        """Hits, misses, false alarms and right rejections of a class, among known labels."""
        known = (each for each in self if each.label is not None)
        return PredictionCounts.of((each.label == name, each.predicted == name) for each in known)

    def _outcomes(self) -> Iterator[str]:
        """Precision and recall where the labels are known."""
        known = sum(each.label is not None for each in self)
        for name in self.task.classes[1:] if len(self.task.classes) == 2 else self.task.classes:
            counts = self.counts_of(name)
            if counts.happened:
                yield f"of {counts.happened:,} with the label {name}, {counts.found}"
            if known and (counts.false_alarms or counts.happened):
                yield counts.alarms
        if known < len(self):
            kinds = Counter(each.predicted for each in self if each.label is None)
            predicted = ", ".join(f"{kinds[name]:,} {name}" for name in self.task.classes if kinds[name])
            which = "" if not known else f"of {len(self) - known:,} without a known label, "
            yield f"{which}predicted are {predicted}"

    @property
    def rule(self) -> str:
        """When a class is predicted."""
        if len(self.task.classes) > 2:
            return "The class with the highest score is predicted."
        name, proposed = self.task.classes[1], self.threshold == self.task.threshold
        why = "; the model proposes this threshold, the best F1 of its validation period" if proposed else ""
        return f"Predicted is {name} where its score is above {self.threshold:.3g}{why}."


@readable_help
def predict_labels(
    model: Model,
    graph: TemporalGraph,
    events: Iterable[int | Query] | None = None,
    *,
    node: Any = None,
    threshold: float | None = None,
    watch: Watch | None = None,
) -> LabelPredictions:
    """The labels that a model expects of events, each scored as of just before it happened.

    Args:
        model: A model with `classes`.
        graph: The log of events.
        events: Rows of events, and queries (`graph.link`). By default, the events of the last 15 % of the log.
        node: Only the events of this node.
        threshold: Probability above which the second of two classes is predicted. Default: as the model proposes,
            else 0.5.
        watch: Called with the number of scored events so far and in total.
    """
    check_is_model(model)
    task = label_task(model)
    if task is None:
        raise CallError("the model has no classes: it scores links; cody.predict does both")
    line = check_threshold(task, threshold)
    places, links = rows_and_queries(graph, links_to_score(graph, events, node, "events"))
    queries = tuple(label_query(graph, task, link) for link in links)
    scores = score_in_parts(queries, lambda some: _class_scores(model, some, task.outputs), watch)
    rows = []
    for event, query, score in zip(places, queries, scores, strict=True):
        predicted, share = _decided(task, score, line)
        label = None if event is None else graph.label_of(event)
        right = None if label is None else predicted == label
        rows.append(LabelPrediction(*beginning(graph, event, query), share, predicted, label, right))
    return LabelPredictions(graph, queries, tuple(rows), task, line)


def label_query(graph: TemporalGraph, task: LabelTask, event: int | Query) -> Query:
    """The query about the label of an event; about a node, it has the source at both ends."""
    query = event if isinstance(event, Query) else graph.query(event)
    return about_node(query) if task.about == "node" else query


def check_threshold(task: LabelTask, given: float | None) -> float:
    """The threshold that counts: the given one, else the model's, else 0.5."""
    if given is None:
        return DEFAULT_THRESHOLD if task.threshold is None else task.threshold
    if len(task.classes) > 2:
        raise CallError("a threshold is for two classes; of several, the one with the highest score is predicted")
    if isinstance(given, bool) or not 0 < given < 1:
        raise CallError(f"threshold must be a probability between 0 and 1, not {given}")
    return float(given)


def _decided(task: LabelTask, score: Any, threshold: float) -> tuple[str, float]:
    """The predicted class, and the probability that is shown: of the second of two classes, else of the predicted."""
    if len(task.classes) == 2:
        share = probability(float(score))
        return task.classes[int(share > threshold)], share
    best = int(np.argmax(score))
    return task.classes[best], float(1 / np.exp(score - score[best]).sum())


def _class_scores(model: Model, queries: Sequence[Query], outputs: int) -> FloatArray:
    """[n], or [n, C] for more than two classes"""
    scores = scores_of_links(model, queries)
    if scores.shape[1] != outputs:
        raise CallError(f"the model must answer {outputs} finite scores, one for each class, not shape {scores.shape}")
    return scores[:, 0] if outputs == 1 else scores
