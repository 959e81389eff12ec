"""A model that can be computed by hand, for examples and tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from cody.errors import CallError
from cody.graph import FloatArray, Query, TemporalGraph, check_query
from cody.model import Change, check_changes, fingerprint


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
    fade, while both of two events count. `bias` is the answer without any past.
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
        self.weights = np.ones(graph.num_events) if weights is None else np.array(weights, dtype=np.float64)
        if self.weights.shape != (graph.num_events,) or not np.isfinite(self.weights).all():
            raise CallError(f"weights must be one finite number for each of the {graph.num_events} events")
        span = float(graph.time[-1] - graph.time[0])
        self.half_life = (span or math.inf) if half_life is None else half_life
        if not self.half_life > 0:
            raise CallError(f"half_life must be above 0, not {half_life}")
        self.pairs = dict(pairs or {})
        check_changes(graph, [frozenset(pair) for pair in self.pairs])
        self.indirect, self.bias = indirect, bias

    @property
    def identity(self) -> str:
        """Another one for other weights or options, and for every class that inherits from this."""
        numbers = [self.half_life, self.indirect, self.bias]
        pairs = [[*pair, extra] for pair, extra in sorted(self.pairs.items())]
        return f"{type(self).__qualname__}-{fingerprint(self.weights, numbers, pairs)}"

    def logits(self, query: Query, removals: Sequence[Change]) -> FloatArray:
        """One logit for each removal set. [B]"""
        check_query(self.graph, query)
        removals = check_changes(self.graph, removals)
        return np.array([self._logit(query, removed) for removed in removals], dtype=np.float64)

    def _logit(self, query: Query, removed: Change) -> float:
        shares = self._shares(query, removed)
        age = {row: query.time - float(self.graph.time[row]) for row in shares}
        faded = (share * self.weights[row] * 0.5 ** (age[row] / self.half_life) for row, share in shares.items())
        together = (extra for (one, other), extra in self.pairs.items() if one in shares and other in shares)
        return math.fsum([self.bias, *faded, *together])  # exact, so the order of the terms does not matter

    def _shares(self, query: Query, removed: Change) -> dict[int, float]:
        """How much each event counts: 1 if it touches the query's nodes, `indirect` one hop away."""
        direct = self._kept([query.src, query.dst], query.before, removed)
        shares = dict.fromkeys(direct, 1.0)
        for row in direct if self.indirect else ():
            for earlier in self._kept([self.graph.src[row], self.graph.dst[row]], row, removed):
                shares.setdefault(earlier, self.indirect)
        return shares

    def _kept(self, nodes: Iterable[int], before: int, removed: Change) -> list[int]:
        rows = (row for node in nodes for row in self.graph.history(node, before).tolist())
        return [row for row in rows if row not in removed]
