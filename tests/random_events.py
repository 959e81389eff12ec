"""Small random graphs and networks with random weights, for comparing implementations."""

from dataclasses import replace

import numpy as np
import torch

from cody.graph import Query, TemporalGraph
from cody.models.sizes import Sizes, edge_width
from cody.train.architectures import ARCHITECTURES


def random_graph(rng, *, nodes=12, events=80, edge_features=0, node_features=0, bipartite=False, ties=True):
    """Self-loops, repeated edges, equal times and isolated nodes all occur."""
    if bipartite:
        src, dst = rng.integers(0, nodes // 2, events), rng.integers(nodes // 2, nodes, events)
    else:
        src, dst = rng.integers(0, nodes, events), rng.integers(0, nodes, events)
    time = np.sort(rng.integers(0, 1 + events // 2, events) * 10.0 if ties else rng.random(events) * events)
    return TemporalGraph.from_arrays(
        src,
        dst,
        time,
        features=rng.normal(size=(events, edge_features)) if edge_features else None,
        node_features=rng.normal(size=(nodes + 2, node_features)) if node_features else None,
        num_nodes=nodes + 2,
    )


def random_queries(rng, graph, count):
    """Real events, links between any nodes at any time, self-loops, and links before the first event."""
    queries = [graph.query(int(row)) for row in rng.integers(0, graph.num_events, count)]
    for before in rng.integers(0, graph.num_events + 1, count).tolist():
        src, dst = rng.integers(0, graph.num_nodes, 2).tolist()
        queries.append(Query(src, dst, float(graph.time[-1] + rng.random()), before))
    return [*queries, Query(0, 0, 1e6, 0), Query(1, 1, 1e6, graph.num_events), *queries[:2]]


def random_network(graph, kind, seed=0, **sizes):
    """A network whose weights are large enough for every input to matter."""
    torch.manual_seed(seed)
    small = replace(Sizes(dimension=8, neighbours=4, batch=7), edge_features=edge_width(graph), **sizes)
    network = ARCHITECTURES[kind](small)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval()
