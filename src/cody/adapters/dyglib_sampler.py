"""Neighbour samplers with the interface of DyGLib's: one for modified histories, one for testing a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cody.adapters.past import Past, recent
from cody.errors import ModelError
from cody.graph import FloatArray, IntArray

Columns = tuple[IntArray, IntArray, FloatArray]  # nodes, events and times, all as they are counted there


class Sampler:
    """The common base of the samplers."""

    sample_neighbor_strategy = "recent"
    seed = 0

    def reset_random_state(self) -> None:
        """Nothing is random."""

    def get_historical_neighbors(
        self, node_ids: IntArray, node_interact_times: FloatArray, num_neighbors: int = 20
    ) -> Columns:
        """The most recent ones, in the last of `num_neighbors` places each. [n, K] three times"""
        raise NotImplementedError

    def get_multi_hop_neighbors(
        self, num_hops: int, node_ids: IntArray, node_interact_times: FloatArray, num_neighbors: int = 20
    ) -> tuple[list[IntArray], list[IntArray], list[FloatArray]]:
        """The same, of neighbours of neighbours too: a list of hops each."""
        hops = [self.get_historical_neighbors(node_ids, node_interact_times, num_neighbors)]
        while len(hops) < num_hops:
            nodes, _, times = hops[-1]
            further = self.get_historical_neighbors(nodes.ravel(), times.ravel(), num_neighbors)
            hops.append(tuple(table.reshape(len(node_ids), -1) for table in further))  # type: ignore[arg-type]
        nodes_, events, times_ = zip(*hops, strict=True)
        return list(nodes_), list(events), list(times_)


class PastSampler(Sampler):
    """The neighbours that DyGLib's `NeighborSampler` with the strategy "recent" returns, for modified histories.

    A call has the same number of nodes for each history, those of the first history first. All models of the library
    without memory do this: a link is a row of a table, and its neighbours are consecutive.
    """

    def __init__(self, pasts: Sequence[Past]) -> None:
        self.pasts = pasts

    def some(self, node_ids: IntArray, places: list[int]) -> PastSampler:
        """A sampler of the histories of some of the nodes of a call, by their places."""
        of = self._past_of(node_ids)[places].tolist()
        return self if len(self.pasts) == 1 else PastSampler([self.pasts[each] for each in of])

    def get_historical_neighbors(
        self, node_ids: IntArray, node_interact_times: FloatArray, num_neighbors: int = 20
    ) -> Columns:
        graph, nodes = self.pasts[0].graph, np.asarray(node_ids, dtype=np.int64) - 1
        times = np.asarray(node_interact_times, dtype=np.float64)
        times = np.where(nodes < 0, -np.inf, times)  # there, node 0 stands for none
        nodes = np.maximum(nodes, 0)
        longest = int((graph.offsets[nodes + 1] - graph.offsets[nodes]).max(initial=0))
        width = min(num_neighbors, longest + graph.num_rows - graph.num_events)
        rows = recent(self.pasts, self._past_of(nodes), nodes, width, until=times)[:, ::-1]
        exists, rows = rows >= 0, np.maximum(rows, 0)
        others = graph.other_end(rows, nodes[:, None]).astype(np.int64)
        columns = (others + 1, np.int64), (rows + 1, np.int64), (graph.time[rows], np.float32)
        empty = ((0, 0), (num_neighbors - width, 0))
        found = [np.pad(np.where(exists, column, 0).astype(dtype), empty) for column, dtype in columns]
        return found[0], found[1], found[2]

    def get_all_first_hop_neighbors(
        self, node_ids: IntArray, node_interact_times: FloatArray
    ) -> tuple[list[IntArray], list[IntArray], list[FloatArray]]:
        """All neighbours of each node before its time, oldest first."""
        requests = zip(self._past_of(node_ids).tolist(), node_ids.tolist(), node_interact_times.tolist(), strict=True)
        nodes, events, times = zip(*(self._all(self.pasts[of], node, time) for of, node, time in requests), strict=True)
        return list(nodes), list(events), list(times)

    def find_neighbors_before(
        self, node_id: int, interact_time: float, return_sampled_probabilities: bool = False
    ) -> tuple[IntArray, IntArray, FloatArray, FloatArray | None]:
        """Neighbours, events and times of a node before a time, oldest first."""
        if return_sampled_probabilities:
            raise ModelError("neighbours sampled with probabilities are not supported; use the most recent ones")
        (past,) = self.pasts
        return *self._all(past, int(node_id), interact_time), None

    def _past_of(self, nodes: IntArray) -> IntArray:
        """Which history each of the nodes of a call belongs to. [n]"""
        each, rest = divmod(len(nodes), len(self.pasts))
        if rest:
            raise ModelError(f"the model looked up neighbours of {len(nodes)} nodes for {len(self.pasts)} links")
        return np.repeat(np.arange(len(self.pasts)), each)

    def _all(self, past: Past, node: int, time: float) -> Columns:
        if node == 0:  # there, it stands for none
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing, np.empty(0)
        graph, rows = past.graph, past.of_node(node - 1)
        rows = rows[: int(np.searchsorted(graph.time[rows], time))]
        return graph.other_end(rows, node - 1).astype(np.int64) + 1, rows + 1, graph.time[rows]


class Probe(Sampler):
    """A sampler that returns one neighbour for every node, and records how far from the link a model goes.

    The distance is encoded in the times: those of the link are `NOW`, and each neighbour is one earlier.
    """

    NOW = 4096.0  # exact in single precision, as all numbers below it are

    def __init__(self) -> None:
        self.hops = 0  # of events that the model has looked up
        self.neighbours = 0  # of a node, at most; all of them, if `every`
        self.every = False

    def get_historical_neighbors(
        self, node_ids: IntArray, node_interact_times: FloatArray, num_neighbors: int = 20
    ) -> Columns:
        times = np.asarray(node_interact_times, dtype=np.float64)
        self.hops = max(self.hops, int(self.NOW - times.min()) + 1)
        self.neighbours = max(self.neighbours, num_neighbors)
        ones = np.ones((len(node_ids), num_neighbors), dtype=np.int64)
        return ones, ones, (ones * (times - 1)[:, None]).astype(np.float32)

    def get_all_first_hop_neighbors(
        self, node_ids: IntArray, node_interact_times: FloatArray
    ) -> tuple[list[IntArray], list[IntArray], list[FloatArray]]:
        self.every = True
        columns = self.get_historical_neighbors(node_ids, node_interact_times, 1)
        return list(columns[0]), list(columns[1]), list(columns[2])
