"""Predictions for many links: a list of them with a summary in words; of labels, and of any other decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, check_query
from cody.models.contract import LabelTask, Model, about_node, label_task, scores_of_links
from cody.models.decided import decision_of, named_decision, subject_of_decision
from cody.models.deciding import ByLabel
from cody.models.decision import Decision, Labelled, RatherThan, State
from cody.models.margins import probability
from cody.utils.frames import frame_of_kind
from cody.utils.words import count, from_to, is_date

PERIOD = (0.85, 1.0)  # default period of scored links, as shares of all events: no model was fit to it
LINKS_AT_ONCE = 1024  # between two reports of progress
DEFAULT_THRESHOLD = 0.5  # of models that propose none

Watch = Callable[[int, int], None]  # how many links are scored, of how many


class PredictedLink(Protocol):
    """One row of a list of predictions: a named tuple."""

    @property
    def time(self) -> float: ...
    @property
    def right(self) -> bool | None: ...  # whether the prediction is right; None: unknown
    def _asdict(self) -> dict[str, Any]: ...


Row = TypeVar("Row", bound=PredictedLink)


@dataclass(frozen=True, slots=True, repr=False)
class PredictionList(Generic[Row]):
    """Scored links, each a named tuple."""

    columns: ClassVar[tuple[str, ...]]  # names of the fields of a row

    graph: TemporalGraph
    queries: tuple[Query, ...]
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> Row:
        return self.rows[place]

    def at(self, places: Iterable[int]) -> Self:
        """The predictions at some positions, counted from 0."""
        chosen = list(places)
        queries = tuple(self.queries[place] for place in chosen)
        return replace(self, queries=queries, rows=tuple(self.rows[place] for place in chosen))

    @property
    def wrong(self) -> Self:
        """Those that are known to be wrong."""
        return self.at(place for place, row in enumerate(self.rows) if row.right is False)

    @property
    def unit(self) -> str:
        """What one of them is called in sentences."""
        return self.graph.name_of_event()

    @property
    def sentence(self) -> str:
        """How many there are, from when to when, and how good the predictions are."""
        if not len(self):
            return f"No {self.unit}s."
        first, last = (limit(query.time for query in self.queries) for limit in (min, max))
        return f"{count(len(self), self.unit)} from {from_to(first, last)}: {'; '.join(self._outcomes())}."

    def _outcomes(self) -> Iterator[str]:
        raise NotImplementedError

    def to_frame(self, kind: str = "pandas") -> Any:
        """A table with one row for each of them; times that are dates are readable ones, in UTC.

        Args:
            kind: "pandas", "polars" or "arrow".
        """
        import pandas

        frame = pandas.DataFrame(list(self), columns=list(self.columns))
        if len(self) and all(is_date(row.time) for row in self):
            frame["time"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
        return frame_of_kind(frame, kind)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sentence})"


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

    @classmethod
    def of(cls, links: Iterable[tuple[bool | None, bool]]) -> PredictionCounts:
        """Counts of links, each given by whether it happened and whether it was predicted; None: not known."""
        kinds = Counter(links)
        return cls(kinds[True, True], kinds[True, False], kinds[False, True], kinds[False, False])

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

    @property
    def found(self) -> str:
        """The hits and misses, in words."""
        return f"{self.hits:,} predicted, {self.missed:,} missed (recall {_percent(self.recall)})"

    @property
    def alarms(self) -> str:
        """The false alarms, in words."""
        precision = "" if self.precision is None else f" (precision {_percent(self.precision)})"
        return f"{count(self.false_alarms, 'false alarm')}{precision}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def links_to_score(
    graph: TemporalGraph, links: Iterable[int | Query] | None, node: Any = None, called: str = "links"
) -> list[int | Query]:
    """The given links, else the events of the test period, all or those of a node.

    Args:
        graph: The log of events.
        links: Rows of events, and queries; None: the test period.
        node: Only the events of this node, by its name.
        called: What the links are called in an error.
    """
    if links is not None and node is not None:
        raise CallError(f"give {called} or a node, not both")
    if links is not None:
        return list(links)
    rows = rows_between(graph, PERIOD)
    return list((rows if node is None else of_node(graph, rows, node)).tolist())


def rows_and_queries(
    graph: TemporalGraph, links: Iterable[int | Query]
) -> tuple[tuple[int | None, ...], tuple[Query, ...]]:
    """The row of each link that is an event of the log, and the query about each link, checked."""
    chosen = list(links)
    rows = tuple(None if isinstance(link, Query) else int(link) for link in chosen)
    queries = tuple(link if isinstance(link, Query) else graph.query(link) for link in chosen)
    for query in queries:
        check_query(graph, query)
    return rows, queries


def beginning(graph: TemporalGraph, event: int | None, query: Query) -> tuple[int | None, str, str, float]:
    """What every prediction begins with: the row of the event, if it happened, its nodes by their names, and the time.

    Args:
        graph: The log of events.
        event: The row of the event.
        query: The query about it; about a node, it has that node at both ends.
    """
    dst = query.dst if event is None else int(graph.dst[event])
    return event, graph.name(query.src), graph.name(dst), query.time


def score_in_parts(
    queries: Sequence[Query], score: Callable[[Sequence[Query]], Iterable[Any]], watch: Watch | None
) -> list[Any]:
    """The scores of many links, a part at a time.

    Args:
        queries: The links.
        score: Scores some of them.
        watch: Called with the number of scored links so far and in total.
    """
    scores: list[Any] = []
    for first in range(0, len(queries), LINKS_AT_ONCE):
        scores.extend(score(queries[first : first + LINKS_AT_ONCE]))
        if watch is not None:
            watch(len(scores), len(queries))
    return scores


def rows_between(graph: TemporalGraph, shares: tuple[float, float]) -> IntArray:
    """The rows of the events in a period, given as two shares of the log."""
    first, last = (round(share * graph.num_events) for share in shares)
    return np.arange(first, last)


def of_node(graph: TemporalGraph, rows: IntArray, node: Any) -> IntArray:
    """Those of the rows that are events of a node.

    Args:
        graph: The log of events.
        rows: Rows to choose from.
        node: The node, by its name.
    """
    one = graph.node(node)
    return rows[(graph.src[rows] == one) | (graph.dst[rows] == one)]


# Labels of events and nodes


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


def predict_labels(
    model: Model, graph: TemporalGraph, events: Iterable[int | Query], threshold: float | None, watch: Watch | None
) -> LabelPredictions:
    """The labels that a model expects of events, each scored as of just before it happened.

    Args:
        model: A model with `classes`.
        graph: The log of events.
        events: Rows of events, and queries (`graph.link`).
        threshold: Probability above which the second of two classes is predicted. Default: as the model proposes,
            else 0.5.
        watch: Called with the number of scored events so far and in total.
    """
    task = label_task(model)
    if task is None:
        raise CallError("the model has no classes: it scores links; cody.predict does both")
    line = check_threshold(task, threshold)
    places, links = rows_and_queries(graph, events)
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


# Any decision: ranked above another node, within a range, one of several labels


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
    model: Model, graph: TemporalGraph, links: Iterable[int | Query], decision: Decision | ByLabel, watch: Watch | None
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
    about = (decision_of(model, query, decision).about(graph, query) for query in queries)
    kept = [place for place, known in enumerate(about) if known is not None]
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
    subject, left_out = subject_of_decision(model, general), len(queries) - len(kept)
    return DecidedPredictions(graph, tuple(compared), tuple(rows), general, subject, left_out)


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
