"""What a model looks at with nothing changed, as candidates: by weights of attention, by what its memory holds."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from cody.engine import weights as network
from cody.engine.replay import Replay
from cody.graph.neighbourhood import ends_first


def by_attention(model, graph, query, hops, size):
    """The events with the largest weight of attention; then the nearest others."""
    weights = weights_of_attention(model, graph, query)
    return _filled_up(sorted(weights, key=weights.get, reverse=True), graph, query, hops, size)


def weights_of_attention(model, graph, query):
    """Event row → weight, for all events that any layer attends to.

    Each end of the link has the weight 1. A node shares its weight among the events it attends to, in the mean over
    heads, and passes each share on to the node at the other end, in the layer below, where it has its own besides.
    """
    found = {}
    weight = dict.fromkeys((query.src, query.dst), 1.0)
    for nodes, rows, shares in _watched(model, query):
        below = dict(weight)
        for node, its_rows, its_shares in zip(nodes.tolist(), rows, shares.mean(axis=1), strict=True):
            count = np.count_nonzero(its_rows >= 0)
            for row, share in zip(its_rows[:count].tolist(), its_shares[:count].tolist(), strict=True):
                other = int(graph.dst[row] if graph.src[row] == node else graph.src[row])
                found[row] = found.get(row, 0.0) + weight[node] * share
                below[other] = below.get(other, 0.0) + weight[node] * share
        weight = below
    return found


def _watched(model, query):
    """Nodes, their events and the shares of these, of each layer, the last layer first. [n], [n, K], [n, H, K]"""
    asked, shares = [], []
    embed, softmax = Replay._embed, network.softmax

    def watched_embed(self, nodes, layer, *rest):
        if layer > 0:
            asked.append((nodes, np.stack([self._recent(int(node), *rest[:2]) for node in nodes])))
        return embed(self, nodes, layer, *rest)

    def watched_softmax(scores, exists):
        shares.append(softmax(scores, exists))
        return shares[-1]

    with patch.object(Replay, "_embed", watched_embed), patch.object(network, "softmax", watched_softmax):
        model.reference(query, frozenset()).logits(query, [frozenset()])
    return [(*each, share) for each, share in zip(asked, reversed(shares), strict=True)]


def by_memory(batch, graph, query, hops, size):
    """The events that the memories of both ends are made of, backwards in time: theirs, those before, and so on.

    An event gives its two nodes a memory that is made of what both had at the start of its batch. A model without a
    memory has batches of one event.
    """
    found = {}
    nodes = [(node, query.before) for node in dict.fromkeys((query.src, query.dst))]
    while nodes and len(found) < size:
        latest = {(node, int(rows[-1])) for node, before in nodes if len(rows := graph.history(node, before))}
        generation = sorted({row for _, row in latest} - found.keys(), reverse=True)
        found |= dict.fromkeys(generation)
        ends = [(int(end), row // batch * batch) for row in generation for end in (graph.src[row], graph.dst[row])]
        nodes = list(dict.fromkeys(ends))
    return _filled_up(list(found), graph, query, hops, size)


def _filled_up(rows, graph, query, hops, size):
    near = ends_first(graph, query, hops, size).tolist()
    return np.array(list(dict.fromkeys([*rows, *near])), dtype=np.int64)[:size]
