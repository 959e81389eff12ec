"""A TGN as somebody else would have written it: it holds its own memory, and is fed its history batch by batch."""

import numpy as np

from cody.adapters import from_steps
from cody.engine.weights import HopInputs, Weights


class StepwiseTGN:
    """The networks of `cody.models`, as one object with state; one layer of attention."""

    def __init__(self, network, graph):
        self.weights = Weights.of(network).astype(np.float64)
        self.graph, self.features = graph, self.weights.features(graph)
        self.fed = 0  # events
        self.start()

    def start(self):
        self.memory = np.zeros((self.graph.num_nodes, self.weights.sizes.dimension))
        self.updated = np.zeros(self.graph.num_nodes)

    def observe(self, events):
        self.fed += len(events)
        last = {}
        for place, ends in enumerate(zip(events.src.tolist(), events.dst.tolist(), strict=True)):
            last |= dict.fromkeys(ends, place)
        nodes, places = np.array(list(last)), np.array(list(last.values()))
        other = events.src[places] + events.dst[places] - nodes
        edge = None if events.features is None else events.features[places].astype(np.float64)
        elapsed = events.time[places] - self.updated[nodes]
        self.memory[nodes] = self.weights.remember(self.memory[nodes], self.memory[other], edge, elapsed)
        self.updated[nodes] = events.time[places]

    def save(self):
        return self.memory.copy(), self.updated.copy()

    def restore(self, saved):
        self.memory, self.updated = (array.copy() for array in saved)

    def reads(self, query, past):
        ends = np.array([query.src, query.dst])
        rows = past.recent(ends, self.weights.sizes.neighbours)
        rows = rows[rows >= 0]
        return np.concatenate([ends, past.graph.src[rows], past.graph.dst[rows]])

    def score(self, query, past):
        graph = past.graph
        nodes = np.array([query.src, query.dst])
        rows = past.recent(nodes, self.weights.sizes.neighbours)
        exists = rows >= 0
        neighbour = np.where(exists, graph.src[rows] + graph.dst[rows] - nodes[:, None], nodes[:, None])
        elapsed = np.where(exists, query.time - graph.time[rows], 0.0)
        inputs = self.memory if self.features is None else self.memory + self.features
        hop = HopInputs(nodes, neighbour, self.weights.edge(graph, rows), elapsed, exists)
        source, target = self.weights.attend(0, inputs, hop)
        return self.weights.score(source, target)


def wrapped(tgn, graph, *, save=True, reads=True, **options):
    """The TGN in the frame, with or without what is optional."""
    steps = {"score": tgn.score, "start": tgn.start, "observe": tgn.observe}
    if save:
        steps |= {"save": tgn.save, "restore": tgn.restore}
    if reads:
        steps["reads"] = tgn.reads
    sizes = tgn.weights.sizes
    return from_steps(graph, **steps, identity=tgn.weights.identity, batch=sizes.batch, hops=1, **options)
