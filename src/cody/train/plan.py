"""Which nodes and events a batch of queries needs, layer by layer: integers only, no weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.train.layers import Hop


class EmbeddingPlan(NamedTuple):
    """The distinct (question, node) pairs that a stack of attention layers computes.

    Within a question, a node occurs once in each layer, however many events lead to it.
    """

    nodes: IntArray  # [m] nodes of the layer-0 inputs
    question: IntArray  # [m] the question each of them belongs to
    before: IntArray  # [m] how many rows each of them may see
    hops: list[Hop]  # lowest layer first; the last one gives the embeddings that `roots` points into
    roots: torch.Tensor  # [Q, R] position of the embedding of each requested node
    events: list[IntArray]  # of each hop: [n, K] the events attended to, as question · E + row; -1: none


def plan(
    graph: TemporalGraph, roots: IntArray, time: FloatArray, before: IntArray, layers: int, neighbours: int
) -> EmbeddingPlan:
    """A plan for the embeddings of nodes `roots` [Q, R] at `time` [Q] with the first `before` [Q] rows visible."""
    keys, where = _distinct(np.arange(len(roots))[:, None] * graph.num_nodes + roots, graph.num_nodes * len(roots))
    hops: list[Hop] = []
    events: list[IntArray] = []
    for _ in range(layers):
        question, node = np.divmod(keys, graph.num_nodes)
        rows = graph.recent(node, before[question], neighbours)  # [n, K]
        exists = rows >= 0
        other = graph.other_end(rows, node[:, None])
        needed = np.where(
            exists, keys[:, None] - node[:, None] + other, keys[:, None]
        )  # where masked, any node will do
        below, index = _distinct(np.concatenate([keys[:, None], needed], axis=1), graph.num_nodes * len(roots))
        elapsed = np.where(exists, time[question][:, None] - graph.time[rows], 0.0)
        hop = Hop(
            own=torch.from_numpy(index[:, 0]),
            neighbour=torch.from_numpy(index[:, 1:]),
            edge=None if graph.features is None else torch.from_numpy(graph.features[rows]),
            elapsed=torch.from_numpy(elapsed.astype(np.float32)),
            exists=torch.from_numpy(exists),
        )
        hops.insert(0, hop)
        events.insert(0, np.where(exists, question[:, None] * graph.num_events + rows, -1))
        keys = below
    question, node = np.divmod(keys, graph.num_nodes)
    return EmbeddingPlan(node, question, before[question], hops, torch.from_numpy(where), events)


def _distinct(keys: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """The distinct keys, ascending, and the place of each key among them: as `np.unique` does, but faster."""
    if bound > 50_000_000:
        distinct, inverse = np.unique(keys, return_inverse=True)
        return distinct, inverse.reshape(keys.shape)
    seen = np.zeros(bound, dtype=bool)
    seen[keys] = True
    distinct = np.flatnonzero(seen)
    position = np.empty(bound, dtype=np.int64)
    position[distinct] = np.arange(len(distinct))
    return distinct, position[keys]
