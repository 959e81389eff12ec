"""Attributions: how much each candidate contributes to a decision. As rankings, they are policies like any other.

The game: v(K) is the margin where of all candidates only those of K are kept. Shapley values share v(all) - v(none)
among the candidates; Owen values do so among pairs of nodes first, then within each pair. Both are exact for few
candidates; else they are means over a few random orders, each with its reverse, and have Student's intervals. The
variance of a value counts as one draw more with the mean variance of all: an event that made no difference in a few
orders may in others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, combinations
from typing import NamedTuple, TypeVar

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Change, Model, attention_of
from cody.models.margins import shift
from cody.search.oracle import Oracle
from cody.search.policies import Rng, latest_first

MOST_EXACT = 1024  # sets that exact values may take
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)  # of 95 %, for means of 2, 3, … pairs of orders
ORDERS = 1 + len(STUDENT)  # pairs of random orders, where values are sampled

Member = TypeVar("Member")


class Attribution(NamedTuple):
    """What each candidate contributes to the margin of a decision. The values add up to `original` - `base`."""

    rows: tuple[int, ...]
    values: FloatArray  # [n]
    error: FloatArray  # [n] half of the interval of 95 %; 0 where values are exact
    base: float  # the margin without any candidate
    original: float  # the margin with all of them

    @property
    def is_exact(self) -> bool:
        return not self.error.any()


def attribute(oracle: Oracle, groups: Sequence[Sequence[int]], rng: Rng) -> Attribution:
    """The Owen values of the members of groups; with one member in each group, these are the Shapley values.

    Args:
        oracle: Scores removals.
        groups: The candidates.
        rng: Draws orders, where there are too many sets for exact values.
    """
    rows = tuple(row for group in groups for row in group)
    everything = frozenset(rows)
    base, original = oracle.ask([everything, frozenset()])
    sets = sum(2 ** (len(groups) - 1 + len(group)) for group in groups)
    left = math.inf if oracle.evaluations is None else oracle.evaluations - oracle.spent
    if sets <= min(MOST_EXACT, left):
        return Attribution(rows, _exact(oracle, groups, everything), np.zeros(len(rows)), base, original)
    pairs = int(min(ORDERS, left // (2 * len(rows))))
    if pairs < 2:
        needed, budget = min(4 * len(rows), sets) + 2, f"a budget of {oracle.evaluations} is too small"
        raise CallError(f"attributions of {len(rows)} candidates take at least {needed} evaluations: {budget}")
    drawn = np.array([_sampled(oracle, groups, everything, rng) for _ in range(pairs)])  # [pairs, n]
    return Attribution(rows, drawn.mean(axis=0), _half_widths(drawn), base, original)


def _half_widths(drawn: FloatArray) -> FloatArray:
    """Half of the interval of each mean. [pairs, n] → [n]"""
    pairs, variance = len(drawn), drawn.var(axis=0, ddof=1)
    return STUDENT[pairs - 2] * np.sqrt(((pairs - 1) * variance + variance.mean()) / pairs / pairs)


def _exact(oracle: Oracle, groups: Sequence[Sequence[int]], everything: Change) -> FloatArray:
    values = []
    for group in groups:
        others = _subsets([other for other in groups if other is not group])
        known = [(weight, frozenset(chain.from_iterable(some))) for weight, some in others]
        for row in group:
            for_row = [
                (one * two, kept | frozenset(inner))
                for one, kept in known
                for two, inner in _subsets([other for other in group if other != row])
            ]
            without = oracle.ask([everything - kept for _, kept in for_row])
            with_it = oracle.ask([everything - kept - {row} for _, kept in for_row])
            steps = zip(for_row, with_it, without, strict=True)
            values.append(math.fsum(weight * (after - before) for (weight, _), after, before in steps))
    return np.array(values)


def _subsets(members: Sequence[Member]) -> list[tuple[float, tuple[Member, ...]]]:
    """All subsets, each with the share of orders in which exactly these come before one that is no member."""
    sizes = range(len(members) + 1)
    shares = [1 / (len(sizes) * math.comb(len(members), size)) for size in sizes]
    return [(shares[size], some) for size in sizes for some in combinations(members, size)]


def _sampled(oracle: Oracle, groups: Sequence[Sequence[int]], everything: Change, rng: Rng) -> FloatArray:
    """The mean of what each candidate adds in a random order that keeps groups together, and in its reverse. [n]"""
    order = [row for place in rng.permutation(len(groups)) for row in rng.permutation(groups[place]).tolist()]
    added: dict[int, float] = dict.fromkeys(order, 0.0)
    for way in (order, order[::-1]):
        margins = oracle.ask([everything - frozenset(way[:kept]) for kept in range(len(way) + 1)])
        for row, before, after in zip(way, margins[:-1], margins[1:], strict=True):
            added[row] += (after - before) / 2
    return np.array([added[row] for group in groups for row in group])


def pairs_of(graph: TemporalGraph, events: IntArray) -> list[list[int]]:
    """The events of each pair of nodes, the latest first."""
    found: dict[Change, list[int]] = defaultdict(list)
    for row in latest_first(graph, events).tolist():
        found[frozenset((int(graph.src[row]), int(graph.dst[row])))].append(row)
    return list(found.values())


def singles(graph: TemporalGraph, events: IntArray) -> list[list[int]]:
    """Each event on its own, the latest first."""
    return [[row] for row in latest_first(graph, events).tolist()]


def shapley(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """First the event with the largest Shapley value for the decision.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Scores removals.
        rng: Draws orders.
    """
    return _ranked(attribute(oracle, singles(graph, events), rng))


def owen(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """First the event with the largest Owen value, where the events of two nodes belong together.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Scores removals.
        rng: Draws orders.
    """
    return _ranked(attribute(oracle, pairs_of(graph, events), rng))


def occlusion(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """First the events of the two nodes without whose events, all together, the margin falls furthest.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Scores each pair of nodes.
        rng: Not used.
    """
    groups = pairs_of(graph, events)
    original, *without = oracle.ask([frozenset(), *map(frozenset, groups)])
    order = np.argsort([-shift(original, margin) for margin in without], kind="stable")
    return np.array([row for place in order for row in groups[place]], dtype=np.int64)


def _ranked(found: Attribution) -> IntArray:
    towards = found.values if found.original > 0 else -found.values
    return np.array(found.rows, dtype=np.int64)[np.argsort(-np.round(towards, 9), kind="stable")]


# Attention as attribution: how much of what a model attends to are its events.
#
# Every layer attends, for each of its nodes, to the events of that node, in several heads. a(l, v, e) is the mean over
# the heads of the weight that node v gives to event e in layer l; layer L is the highest.
#
# - Mean: the mean of a(l, v, e) over all layers l and nodes v that attend to e. It does not know whether much depends
#   on v.
# - Rollout: half of what a node stands for is its own vector in the layer below, the other half are its events: the
#   two nodes of the query stand for 1/2 each, and a node v that stands for m passes m/2 on to itself and
#   m/2 · a(l, v, e) to the other node of each event e, in the layer below. The share of e is the sum of
#   m/2 · a(l, v, e) over layers and nodes, times 2/L, so that the shares add up to 1 where every node has events.
#
# Neither says what the decision would be without an event, or whether it is for or against it.

Shares = dict[int, float]


def mean_attention(model: Model, graph: TemporalGraph, query: Query) -> Shares:
    """The mean weight of each event that is attended to, by its row.

    Args:
        model: A model that offers its attention, such as a TGN or a TGAT of this package.
        graph: The log of events.
        query: The link.
    """
    given: dict[int, list[float]] = defaultdict(list)
    for layer in attention_of(model, query):
        by_head = layer.weights.mean(axis=1)  # [n, K]
        for row, weight in zip(layer.rows.ravel().tolist(), by_head.ravel().tolist(), strict=True):
            if row >= 0:
                given[row].append(weight)
    return {row: float(np.mean(weights)) for row, weights in given.items()}


def attention_rollout(model: Model, graph: TemporalGraph, query: Query) -> Shares:
    """The share of each event in what all layers together attend to, by its row.

    Args:
        model: A model that offers its attention, such as a TGN or a TGAT of this package.
        graph: The log of events.
        query: The link.
    """
    layers = attention_of(model, query)
    shares: Shares = defaultdict(float)
    stands_for: dict[int, float] = defaultdict(float)
    for node in (query.src, query.dst):
        stands_for[node] += 1 / 2
    for layer in layers:
        below: dict[int, float] = defaultdict(float)
        for node, rows, weights in zip(layer.nodes.tolist(), layer.rows, layer.weights.mean(axis=1), strict=True):
            half, events = stands_for[node] / 2, rows[rows >= 0]
            below[node] += half
            others = graph.other_end(events, node).tolist()
            for row, other, weight in zip(events.tolist(), others, weights[rows >= 0].tolist(), strict=True):
                below[other] += half * weight
                shares[row] += 2 / len(layers) * half * weight
        stands_for = below
    return dict(shares)
