"""A past that consists of a few events only: nothing else happened, the memory started from zero.

By definition the answer is `Replay(network, graph).logits(query, [all visible rows - kept])`. Almost all of its work is
to skip events; here only the kept ones are looked at, so the cost does not grow with the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cody.engine.replay import MemoryState, Replay
from cody.engine.weights import Weights
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, is_in, sorted_unique

NO_EVENTS = -1  # in place of a node that has none


def scores_of_kept(plain: Replay, links: Sequence[Query], kept: Iterable[int]) -> FloatArray:
    """The scores of links of one moment that see no events but `kept`; these may be imagined ones. [m]"""
    graph, query = plain.graph, links[0]
    seen = {row for row in kept if row < query.before} | set(graph.imagined_before(query).tolist()).intersection(kept)
    rows = graph.in_time_order(np.array(sorted(seen), dtype=np.int64))
    every = np.array([(link.src, link.dst) for link in links])  # [m, 2]
    first, which = _distinct(graph, rows, every)
    ends = every[first]
    nodes = sorted_unique(np.concatenate([graph.src[rows], graph.dst[rows], ends.ravel()]))
    small = _small_graph(graph, query, rows, nodes)
    state = _replay(plain.weights, small, graph.next_real(rows) // plain.weights.sizes.batch)
    same = [Query(src, dst, query.time, len(rows)) for src, dst in np.searchsorted(nodes, ends).tolist()]
    scores: FloatArray = plain.on(small, state).scores(same, [frozenset()])[0]
    return scores.reshape(len(same), -1)[which].ravel()


def _distinct(graph: TemporalGraph, rows: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """The first of the links that score the same, and which of these each link is. [m, 2] → [n], [m]

    Nodes without any event are alike, unless they have features.
    """
    src, dst = ends.T
    if graph.node_features is None:
        known = sorted_unique(np.concatenate([graph.src[rows], graph.dst[rows]]))
        dst = np.where(is_in(dst, known) | (dst == src), dst, NO_EVENTS)
    _, first, which = np.unique(np.stack([src, dst]), axis=1, return_index=True, return_inverse=True)
    return first, which.ravel()


def _small_graph(graph: TemporalGraph, query: Query, rows: IntArray, nodes: IntArray) -> TemporalGraph:
    """The kept events among the nodes that matter, and the query's own link, which the query does not see."""
    features = graph.features_of(rows)
    if features is not None:
        features = np.concatenate([features, np.zeros((1, features.shape[1]), dtype=features.dtype)])
    return TemporalGraph.from_arrays(
        np.searchsorted(nodes, np.append(graph.src[rows], query.src)),
        np.searchsorted(nodes, np.append(graph.dst[rows], query.dst)),
        np.append(graph.time[rows], query.time),
        features=features,
        node_features=None if graph.node_features is None else graph.node_features[nodes],
        num_nodes=len(nodes),
    )


def _replay(weights: Weights, small: TemporalGraph, batches: IntArray) -> MemoryState:
    """The memory once all kept events have happened, each in the batch of its original row."""
    memory = np.zeros((small.num_nodes, weights.sizes.dimension), dtype=weights.dtype)
    updated = np.zeros(small.num_nodes)
    if not weights.has_memory:
        return MemoryState(len(batches), memory, updated)
    for batch in sorted_unique(batches):
        rows = np.flatnonzero(batches == batch)
        last_event = {int(node): int(row) for row in rows for node in (small.src[row], small.dst[row])}
        nodes, last = np.array(list(last_event)), np.array(list(last_event.values()))
        elapsed = (small.time[last] - updated[nodes]).astype(weights.dtype)
        other = small.other_end(last, nodes)
        memory[nodes] = weights.remember(memory[nodes], memory[other], weights.edge(small, last), elapsed)
        updated[nodes] = small.time[last]
    return MemoryState(len(batches), memory, updated)
