"""Models that read the latest events of both ends of a link as tokens, and nothing else: CRAFT, SASRec and the like.

model = from_tokens(graph, score=score, count=(30, 1), identity="my CRAFT")
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cody.adapters.history import HistoryModel, from_steps
from cody.adapters.past import Past, recent
from cody.adapters.trials import ScoresTogether, answers_alone, as_table, keys_of
from cody.errors import CallError, SlowModelWarning
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, whole_number
from cody.models.contract import label_task_of
from cody.utils.signatures import check_callable


class Tokens(NamedTuple):
    """The latest events of some nodes, the oldest of them first, from the left; where there are fewer, −1 follows."""

    rows: IntArray  # [n, K] of the log, −1: none
    nodes: IntArray  # [n, K] at the other end, −1: none
    time: FloatArray  # [n, K] 0: none
    features: FloatArray | None  # [n, K, F]

    @property
    def number(self) -> IntArray:
        """How many there are of each node. [n]"""
        return (self.rows >= 0).sum(axis=1)


class Links(NamedTuple):
    """Links to score, each with what can be seen of its two ends."""

    src: IntArray  # [n]
    dst: IntArray  # [n]
    time: FloatArray  # [n]
    of_src: Tokens
    of_dst: Tokens


def from_tokens(
    graph: TemporalGraph,
    *,
    score: Callable[[Links], Any],
    count: int | Sequence[int],
    identity: str,
    same_time: bool = False,
    classes: Sequence[str] | None = None,
    about: str = "event",
    threshold: float | None = None,
) -> HistoryModel:
    """A model without memory that scores a link by the latest events of its ends.

    The candidates are what it reads: removing one brings an older event into view.

    Args:
        graph: The log of events.
        score: `score(links)` returns one logit for each of some links; with more than two classes, one score per class.
        count: How many events of each end; two numbers if they differ between source and destination.
        identity: A string that changes whenever the answers of the model may change.
        same_time: Whether earlier rows with the time of the link itself are read, too.
        classes: Names of the classes, if the model labels events or nodes instead of predicting links.
        about: What is labelled: "event" or "node".
        threshold: With two classes, the probability above which the second one is predicted. Default: 0.5.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0, 0], dst=[2, 2, 2, 2], time=[1.0, 2.0, 3.0, 4.0])
    >>> def again(links):
    ...     return (links.of_src.nodes == links.dst[:, None]).sum(axis=1) - 1.5
    >>> model = from_tokens(graph, score=again, count=5, identity="met before")
    >>> model.logits(graph.query(3), [frozenset(), frozenset({2})])
    array([ 0.5, -0.5])
    """
    check_callable(score, "score(links)")
    if not isinstance(graph, TemporalGraph):
        raise CallError(f"the first argument is a graph, as returned by cody.load, not {graph!r:.60}")
    labels = label_task_of(classes, about, threshold)
    reader = _Reader(score, _counts(count), bool(same_time), 1 if labels is None else labels.outputs)
    given: dict[str, Any] = {"score": reader.score, "attends": reader.attends, "classes": classes, "about": about}
    given |= {"identity": f"{identity} {reader.counts} {reader.same_time}", "threshold": threshold, "hops": 1}
    if answers_alone(reader, graph):
        return from_steps(graph, **given, score_many=reader.score_many, score_links=reader.score_links)
    warnings.warn(
        "explanations will be slow: the score of a link depends on the other links of its batch. Here each link is "
        "scored alone",
        SlowModelWarning,
        stacklevel=2,
    )
    return from_steps(graph, **given)


def _counts(count: int | Sequence[int]) -> tuple[int, int]:
    numbers = tuple(count) if isinstance(count, Sequence) and not isinstance(count, str) else (count, count)
    if len(numbers) != 2:
        raise CallError(f"count is a number of events, or two: of the source and of the destination; not {count!r:.60}")
    of_src, of_dst = (whole_number("count", number) for number in numbers)
    if min(of_src, of_dst) < 0 or max(of_src, of_dst) < 1:
        raise CallError(f"count must be at least 1, not {count!r:.60}")
    return of_src, of_dst


class _Reader(ScoresTogether):
    """Reads tokens, and calls the user's function with them."""

    def __init__(self, score: Callable[[Links], Any], counts: tuple[int, int], same_time: bool, outputs: int) -> None:
        self.score_of, self.counts, self.same_time, self.outputs = score, counts, same_time, outputs

    def attends(self, query: Query, past: Past) -> IntArray:
        """The rows that are read."""
        links = self._links([query], [past])
        rows = np.concatenate([links.of_src.rows.ravel(), links.of_dst.rows.ravel()])
        return np.unique(rows[rows >= 0])

    def read(self, query: Query, pasts: Sequence[Past]) -> list[bytes]:
        links = self._links([query] * len(pasts), pasts)
        return keys_of(np.concatenate([links.of_src.rows, links.of_dst.rows], axis=1))

    def scores(self, links: Sequence[Query], pasts: Sequence[Past]) -> FloatArray:
        answers = self.score_of(self._links(links, pasts))
        return as_table(answers, len(links), self.outputs, "score(links)")

    def _links(self, links: Sequence[Query], pasts: Sequence[Past]) -> Links:
        src, dst, time, _ = (np.array(column) for column in zip(*links, strict=True))
        of = np.arange(len(links)) if len(pasts) > 1 else np.zeros(len(links), dtype=np.int64)
        ends = zip((src, dst), self.counts, strict=True)
        return Links(src, dst, time, *(self._tokens(pasts, of, nodes, time, count) for nodes, count in ends))

    def _tokens(self, pasts: Sequence[Past], of: IntArray, nodes: IntArray, time: FloatArray, count: int) -> Tokens:
        graph = pasts[0].graph
        rows = recent(pasts, of, nodes, count, until=None if self.same_time else time.astype(np.float64))[:, ::-1]
        rows = np.take_along_axis(rows, np.argsort(rows < 0, axis=1, kind="stable"), axis=1)
        there, places = rows >= 0, np.maximum(rows, 0)
        features = graph.features_of(places)
        if features is not None:
            features = np.where(there[..., None], features, 0)
        others = np.where(there, graph.other_end(places, nodes[:, None]), -1)
        return Tokens(rows, others, np.where(there, graph.time[places], 0.0), features)
