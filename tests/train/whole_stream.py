"""The stream of a TGN in its plain form: all versions of all nodes in one table, at the places of `graph.incidence`."""

import numpy as np
import torch
from torch import nn

from cody.models.sizes import node_inputs


class WholeStream:
    """As `MemoryStream`, for rows in any order."""

    def __init__(self, network, graph):
        self.network, self.graph = network, graph
        self.features = node_inputs(graph, network.sizes)
        self.row = graph.incidence
        node = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
        start = self.row // network.sizes.batch * network.sizes.batch
        self.own, self.other = self._latest(node, start), self._latest(graph.other_end(self.row, node), start)
        updated = np.where(self.own >= 0, graph.time[self.row[self.own]], 0.0)
        self.elapsed = (graph.time[self.row] - updated).astype(np.float32)
        self.versions = torch.zeros(len(self.row) + 1, network.sizes.dimension)  # the last one, -1, stays zero
        self.written = 0

    def _latest(self, nodes, before):
        ends = self.graph.ends(nodes, before)
        return np.where(ends > self.graph.offsets[nodes], ends - 1, -1)

    def inputs(self, nodes, before):
        place, index = np.unique(self._latest(nodes, before), return_inverse=True)
        memory = self._version(place[place >= 0])
        if place[0] < 0:
            memory = torch.cat([memory.new_zeros(1, memory.shape[1]), memory])
        inputs = nn.functional.embedding(torch.from_numpy(index), memory)
        return inputs if self.features is None else inputs + torch.from_numpy(self.features[nodes])

    def advance(self, stop):
        size = self.network.sizes.batch
        with torch.no_grad():
            for first in range(self.written, stop, size):
                place = np.flatnonzero((self.row >= first) & (self.row < min(first + size, stop)))
                self.versions[torch.from_numpy(place)] = self._version(place)
        self.written = stop

    def _version(self, place):
        own, other = (self.versions[torch.from_numpy(parent[place])] for parent in (self.own, self.other))
        edge = None if self.graph.features is None else torch.from_numpy(self.graph.features[self.row[place]])
        return self.network.remember(own, other, edge, torch.from_numpy(self.elapsed[place]))
