"""A model small enough to compute by hand, for examples and tests."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from cody.errors import CallError
from cody.graph import Difference, FloatArray, Query, TemporalGraph, check_query
from cody.graph.edits import NOTHING
from cody.models.contract import Change, check_changes, fingerprint


class ToyModel:
    """A `Model` without a network: the sum of the weights of the query's past events, each fading with its age.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[0.0, 10.0, 20.0])
    >>> model = ToyModel(graph, weights=[4, -1, 1], half_life=10)
    >>> query = graph.query(2)  # 4 / 4 for event 0, 20 old, and -1 / 2 for event 1, 10 old
    >>> model.logits(query, [frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1})]).tolist()
    [0.5, -0.5, 1.0, 0.0]
    >>> ToyModel(graph, weights=[4, -1, 1], half_life=10, pairs={(0, 1): 2.0}).logits(query, [frozenset()]).tolist()
    [2.5]

    An event counts if it touches `src` or `dst`. With `indirect`, one that does not still counts by that factor if it
    is followed by a kept event that joins one of its nodes to `src` or `dst`. `pairs` adds an amount, which does not
    fade, if both of two events count. `bias` is the logit of an empty history.

    An imagined event counts if a change names it. An added one weighs 1, a moved one as much as before. Features
    matter in imagined events only: their sum is added to the weight, minus the sum of the features that an altered
    event had. `weights` may also have a number for each imagined event.

    >>> from cody.graph.edits import Add, Move
    >>> longer = graph.imagine([Add(0, 2, 10.0), Move(1, 0.0)])  # rows 3 and 4
    >>> model.on(longer).logits(query, [frozenset(), frozenset({3}), frozenset({4}), frozenset({0, 4})]).tolist()
    [0.5, 1.0, 0.75, -0.25]
    """

    def __init__(
        self,
        graph: TemporalGraph,
        weights: ArrayLike | None = None,  # [E]; None: 1 for each event
        *,
        half_life: float | None = None,  # None: the span of the graph
        pairs: Mapping[tuple[int, int], float] | None = None,
        indirect: float = 0.0,
        bias: float = 0.0,
    ) -> None:
        self.graph = graph
        self.given = np.ones(graph.num_events) if weights is None else np.array(weights, dtype=np.float64)
        self.weights = _weights_of_all_rows(graph, self.given)  # [rows]
        span = float(graph.time[graph.num_events - 1] - graph.time[0])
        self.half_life = (span or math.inf) if half_life is None else half_life
        if not self.half_life > 0:
            raise CallError(f"half_life must be above 0, not {half_life}")
        self.pairs = dict(pairs or {})
        check_changes(graph, [frozenset(pair) for pair in self.pairs])
        self.indirect, self.bias = indirect, bias
        self.hops = 2 if indirect else 1

    @property
    def identity(self) -> str:
        """Different for other weights or options, and for every subclass."""
        pairs = [(*rows, extra) for rows, extra in sorted(self.pairs.items())]
        options = [self.half_life, self.indirect, self.bias]
        return f"{type(self).__qualname__}-{fingerprint(self.given, pairs, options)}"

    def on(self, graph: TemporalGraph) -> Self:
        """The same model on the same log with other imagined events."""
        if graph.base_identity != self.graph.base_identity:
            raise CallError(f"{graph} is another log than {self.graph}, which the weights belong to")
        other = copy.copy(self)
        other.graph, other.given = graph, self.given[: graph.num_events]
        other.weights = _weights_of_all_rows(graph, other.given)
        return other

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        check_query(self.graph, query)
        changes = check_changes(self.graph, changes)
        return np.array([self._logit(query, change) for change in changes], dtype=np.float64)

    def _logit(self, query: Query, change: Change) -> float:
        shares = self._shares(query, self.graph.difference(change, query))
        age = {row: query.time - float(self.graph.time[row]) for row in shares}
        faded = (share * self.weights[row] * 0.5 ** (age[row] / self.half_life) for row, share in shares.items())
        together = (extra for (one, other), extra in self.pairs.items() if one in shares and other in shares)
        return math.fsum([self.bias, *faded, *together])  # exact, so the order of the terms does not matter

    def _shares(self, query: Query, outcome: Difference) -> dict[int, float]:
        """How much each event counts: 1 if it touches the query's nodes, `indirect` one hop away."""
        direct = self._happened([query.src, query.dst], query.before, outcome.present, outcome.absent)
        shares = dict.fromkeys(direct, 1.0)
        for row in direct if self.indirect else ():
            ends = [int(self.graph.src[row]), int(self.graph.dst[row])]
            place = int(self.graph.next_real(np.array([row]))[0])
            imagined = [other for other in outcome.present if self._order(other) < self._order(row)]
            for earlier in self._happened(ends, place, imagined, outcome.absent):
                shares.setdefault(earlier, self.indirect)
        return shares

    def _happened(
        self, nodes: Collection[int], before: int, imagined: Sequence[int], absent: Collection[int]
    ) -> list[int]:
        """The events of some nodes: real ones before a row that are not absent, and imagined ones."""
        real = (row for node in nodes for row in self.graph.history(node, before).tolist())
        touching = (row for row in imagined if self.graph.src[row] in nodes or self.graph.dst[row] in nodes)
        return [*(row for row in real if row not in absent), *touching]

    def _order(self, row: int) -> int:
        return int(self.graph.time_rank(np.array([row]))[0])


def _weights_of_all_rows(graph: TemporalGraph, given: FloatArray) -> FloatArray:
    """The weights of all rows: the given ones, and those derived for imagined events."""
    if given.shape not in ((graph.num_events,), (graph.num_rows,)) or not np.isfinite(given).all():
        raise CallError(f"weights must be one finite number for each of the {graph.num_events} events")
    if graph.imagined is None or len(given) == graph.num_rows:
        return given
    replaces = graph.imagined.replaces
    usual = np.where(replaces == NOTHING, 1.0, given[replaces])
    if graph.features is not None:
        rows = np.arange(graph.num_events, graph.num_rows)
        before = np.where(replaces == NOTHING, 0.0, graph.features[replaces].sum(axis=1, dtype=np.float64))
        after = graph.features_of(rows)
        assert after is not None
        usual = usual + after.sum(axis=1, dtype=np.float64) - before
    return np.concatenate([given, usual])
