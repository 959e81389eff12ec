"""A past that consists of a few events only: every other one removed, the memory started from zero.

By definition the answer is `Replay(network, graph).logits(query, [all visible rows - kept])`. Almost all of its work is
to skip events; here only the kept ones are looked at, so the cost does not grow with the graph.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from cody.graph import IntArray, Query, TemporalGraph
from cody.inference.replay import Replay, State
from cody.models import TGN, Network


def only(network: Network, graph: TemporalGraph, query: Query, kept: Iterable[int], dtype: torch.dtype) -> float:
    """The logit of a query that sees no events but `kept`. The network has that dtype, and is not being trained."""
    rows = np.array(sorted(row for row in set(kept) if row < query.before), dtype=np.int64)
    nodes = np.unique(np.concatenate([graph.src[rows], graph.dst[rows], [query.src, query.dst]]))
    small = _small_graph(graph, query, rows, nodes)
    state = _replay(network, small, rows // network.sizes.batch, dtype)
    asked = Query(int(small.src[-1]), int(small.dst[-1]), query.time, len(rows))
    (logit,) = Replay(network, small, start=state, dtype=dtype, shared=True).logits(asked, [frozenset()])
    return float(logit)


def _small_graph(graph: TemporalGraph, query: Query, rows: IntArray, nodes: IntArray) -> TemporalGraph:
    """The kept events among the nodes that matter, and the query's own link, which the query does not see."""
    features = graph.features
    if features is not None:
        features = np.concatenate([features[rows], np.zeros_like(features[:1])])
    return TemporalGraph.from_arrays(
        np.searchsorted(nodes, np.append(graph.src[rows], query.src)),
        np.searchsorted(nodes, np.append(graph.dst[rows], query.dst)),
        np.append(graph.time[rows], query.time),
        features=features,
        node_features=None if graph.node_features is None else graph.node_features[nodes],
        num_nodes=len(nodes),
    )


def _replay(network: Network, small: TemporalGraph, batches: IntArray, dtype: torch.dtype) -> State:
    """The memory once all kept events have happened, each in the batch of its original row."""
    memory = torch.zeros(small.num_nodes, network.sizes.dimension, dtype=dtype)
    updated = np.zeros(small.num_nodes)
    if not isinstance(network, TGN):
        return State(len(batches), memory, updated)
    for batch in np.unique(batches):
        rows = np.flatnonzero(batches == batch)
        last_event = {int(node): int(row) for row in rows for node in (small.src[row], small.dst[row])}
        nodes, last = np.array(list(last_event)), np.array(list(last_event.values()))
        other = small.src[last] + small.dst[last] - nodes
        edge = None if small.features is None else torch.from_numpy(small.features[last]).to(dtype)
        elapsed = torch.from_numpy(small.time[last] - updated[nodes]).to(dtype)
        with torch.no_grad():
            memory[nodes] = network.remember(memory[nodes], memory[other], edge, elapsed)
        updated[nodes] = small.time[last]
    return State(len(batches), memory, updated)
