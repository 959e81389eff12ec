"""Attention as attribution: how much of what a model attends to are its events.

Every layer attends, for each of its nodes, to the events of that node, in several heads. a(l, v, e) is the mean over
the heads of the weight that node v gives to event e in layer l; layer L is the highest.

- Mean: the mean of a(l, v, e) over all layers l and nodes v that attend to e. It does not know whether much depends on
  v.
- Rollout: half of what a node stands for is its own vector in the layer below, the other half are its events: the two
  nodes of the query stand for 1/2 each, and a node v that stands for m passes m/2 on to itself and m/2 · a(l, v, e) to
  the other node of each event e, in the layer below. The share of e is the sum of m/2 · a(l, v, e) over layers and
  nodes, times 2/L, so that the shares add up to 1 where every node has events.

Neither says what the decision would be without an event, or whether it is for or against it.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from cody.graph import Query, TemporalGraph
from cody.models.contract import Model, attention_of

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
