"""Reference models that cost nothing: each scores a link by one simple rule about the past of its two nodes.

They are ordinary models, so they can be explained, surveyed and audited. What a trained model knows beyond them is
what it has learned.

- `repeats`: the source has interacted with this destination before (EdgeBank; with a `window`, recently).
- `replies`: the destination has interacted with the source before.
- `popularity`: the destination has more events than most.
- `recency`: the destination was active a short time ago.
- `common_partners`: both have interacted with a third node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from cody.graph import FloatArray, IntArray, Query, TemporalGraph, check_query
from cody.models.contract import Change, check_changes

YES, NO = 1.0, -1.0  # logits of rules that only say yes or no
RECENT = 0.15  # share of the time that the log spans: EdgeBank's window


@dataclass(frozen=True, slots=True)
class KnownPast:
    """What a rule may know about a link: the events of its two nodes that happened, oldest first."""

    graph: TemporalGraph
    query: Query
    of_src: IntArray
    of_dst: IntArray


Rule = Callable[[KnownPast], float]  # → a logit


@dataclass(frozen=True, slots=True)
class RuleModel:
    """A model that scores a link by a rule about the past of its two nodes.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 1], time=[1.0, 2.0, 3.0])
    >>> RuleModel(graph, "repeats", repeats).logits(graph.query(2), [frozenset(), frozenset({0})]).tolist()
    [1.0, -1.0]
    """

    graph: TemporalGraph
    name: str
    rule: Rule
    hops: int = 1

    gives_logits = True

    @property
    def identity(self) -> str:
        """The name of its rule, with what is usual for it: it has no weights."""
        return " ".join(["rule", self.name, *(map(str, getattr(self.rule, "keywords", {}).values()))])

    def on(self, graph: TemporalGraph) -> Self:
        """The same rule on another log."""
        return replace(self, graph=graph)

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        check_query(self.graph, query)
        return np.array([self.rule(self._past(query, change)) for change in check_changes(self.graph, changes)])

    def _past(self, query: Query, change: Change) -> KnownPast:
        return KnownPast(self.graph, query, *(self._history(node, query, change) for node in (query.src, query.dst)))

    def _history(self, node: int, query: Query, change: Change) -> IntArray:
        """The events of a node that happened, oldest first."""
        rows = self.graph.history(node, query.before)
        if not change:
            return rows
        absent, present = self.graph.difference(change, query)
        added = [row for row in present if node in (self.graph.src[row], self.graph.dst[row])]
        kept = [row for row in rows.tolist() if row not in absent]
        return self.graph.in_time_order(np.array(kept + added, dtype=np.int64))


def repeats(past: KnownPast, window: float = math.inf) -> float:
    """Whether the source has interacted with this destination before, at most `window` ago."""
    graph, query = past.graph, past.query
    rows = past.of_src
    same = (graph.src[rows] == query.src) & (graph.dst[rows] == query.dst) & (query.time - graph.time[rows] <= window)
    return YES if same.any() else NO


def replies(past: KnownPast) -> float:
    """Whether the destination has interacted with the source before."""
    rows = past.of_dst
    return YES if ((past.graph.src[rows] == past.query.dst) & (past.graph.dst[rows] == past.query.src)).any() else NO


def popularity(past: KnownPast, usual: float) -> float:
    """How many events the destination has, compared with the usual number."""
    return math.log((1 + len(past.of_dst)) / (1 + usual))


def recency(past: KnownPast, usual: float) -> float:
    """How long ago the destination was active, compared with what is usual."""
    if not len(past.of_dst):
        return NO
    ago = past.query.time - float(past.graph.time[past.of_dst[-1]])
    return math.log((1 + usual) / (1 + max(ago, 0.0)))


def common_partners(past: KnownPast) -> float:
    """Whether both nodes have interacted with a third one."""
    graph, query = past.graph, past.query
    of_src = set(graph.other_end(past.of_src, query.src).tolist()) - {query.dst}
    of_dst = set(graph.other_end(past.of_dst, query.dst).tolist()) - {query.src}
    return YES if of_src & of_dst else NO


def reference_models(graph: TemporalGraph, links: Sequence[Query]) -> dict[str, RuleModel]:
    """The reference models of a log, by their names.

    Args:
        graph: The log.
        links: The links that will be scored. Popularity and recency say yes for the half of them whose destination
            has more events, or was active more recently, than the median.
    """
    events = [len(graph.history(link.dst, link.before)) for link in links]
    last = [graph.history(link.dst, link.before)[-1:].tolist() for link in links]
    gaps = [link.time - float(graph.time[row]) for link, rows in zip(links, last, strict=True) for row in rows]
    usual_events, usual_gap = (float(np.median(some)) if some else 0.0 for some in (events, gaps))
    span = float(graph.time[graph.num_events - 1] - graph.time[0])
    rules: dict[str, Rule] = {
        "EdgeBank": repeats,
        "EdgeBank, recent": partial(repeats, window=RECENT * span),
        "replies": replies,
        "popularity": partial(popularity, usual=usual_events),
        "recency": partial(recency, usual=usual_gap),
        "common partners": common_partners,
    }
    return {name: RuleModel(graph, name, rule) for name, rule in rules.items()}
