"""One attention layer of a query: which vectors it has, and how to make others; `fast.py` says what for.

This is the numpy form. `compiled_layers.py` does the same with the compiled library.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from cody.engine.attention import Attention, Maps, Source
from cody.engine.masks import AttendedEvents, Masks, Requests, Windows
from cody.engine.rows import numbered_rows
from cody.engine.vectors import Products, Vectors
from cody.engine.weights import Weights
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.utils.deadline import check_deadline


class VectorRequest(NamedTuple):
    """Vectors that are requested, by node and mask, and which of them have to be made."""

    numbers: IntArray  # [n] of node and mask
    new: Requests  # [m] those that are to be made; each mask with the bits that the vector depends on


class KnownVectors:
    """Which vectors there are, by node and mask.

    Args:
        depends: Which events the vector of each node can depend on. [nodes, w]
    """

    def __init__(self, depends: Masks) -> None:
        self.depends = depends
        self.rows = numbered_rows(1 + depends.shape[1])
        self.ids = np.zeros(0, dtype=np.int64)  # of the vector, by number of node and mask

    def find(self, nodes: IntArray, masks: Masks, change: IntArray) -> VectorRequest:
        """Look vectors up. [n], [n, w], [n]"""
        numbers, new = self.rows.find_masked(nodes, masks, self.depends)
        nodes = nodes[new]
        return VectorRequest(numbers, Requests(nodes, masks[new] & self.depends[nodes], change[new]))

    def add(self, request: VectorRequest, made: IntArray) -> IntArray:
        """Take the ids of what was made, [m], and give those of all that was requested. → [n]"""
        self.ids = np.concatenate([self.ids, made])
        return self.ids[request.numbers]


class Below(Protocol):
    """What an attention layer reads from: another layer, or the inputs of the lowest one.

    Whatever is planned has to be computed before anything else is planned. After a failure in between, nothing of it
    can be used any more.
    """

    depends: Masks  # [nodes, w] which events the vector of a node can depend on

    @property
    def values(self) -> FloatArray | None:
        """[≥ ids, d]; None where all of them are zero."""

    @property
    def size(self) -> int:
        """How many numbers are remembered."""

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> Any:
        """What has to be computed for the vectors of nodes under masks. [n], [n, w], [n]

        `change` says to which of the changes a mask belongs that `Inputs.begin` was given last. A mask may have fewer
        bits than that change; those are missing that the vector cannot depend on.
        """

    def compute(self, plan: Any) -> IntArray:
        """Compute it. The ids of these vectors. → [n]"""


class EventInputs:
    """What is attended to of each event: [its features, encoding of the time since]. Computed when first used."""

    def __init__(self, weights: Weights, graph: TemporalGraph, query: Query, rows: IntArray) -> None:
        self.weights, self.graph, self.time, self.rows = weights, graph, query.time, rows
        self.slot = np.full(len(rows), -1)  # [rows] where its vector stands
        self.vectors = Vectors(weights.sizes.edge_features + weights.sizes.dimension, weights.dtype)

    def look_up(self, events: IntArray) -> IntArray:
        """Where the vectors of events stand. [...] → [...]"""
        slots = self.slot[events]
        if (slots < 0).any():
            new = sorted_unique(events[slots < 0])
            self.slot[new] = self.vectors.length + np.arange(len(new))
            self.add(new)
            slots = self.slot[events]
        return slots

    def add(self, new: IntArray) -> None:
        """Compute the vectors of events which stand in the next slots. [n]"""
        if len(new):
            self._compute(self.rows[new], self.vectors.append(len(new)))

    def _compute(self, rows: IntArray, vectors: FloatArray) -> None:
        weights, graph = self.weights, self.graph
        weights.encode_into(self.time - graph.time[rows], vectors[:, weights.sizes.edge_features :])
        features = weights.edge(graph, rows)
        if features is not None:
            vectors[:, : weights.sizes.edge_features] = features


class LayerPlan(NamedTuple):
    """A plan of a layer."""

    request: VectorRequest
    chosen: AttendedEvents  # what the vectors that are to be made attend to
    below: Any  # the plan of the layer below: for the nodes themselves, then for their neighbours


class Layer:
    """One attention layer of a query: the vectors it has, and how to make others.

    It computes what `Weights.attend` does, up to the hidden layer (see `Maps`). Nodes are known by their place among
    all nodes of the query. Vectors that are made of the same parts are the same, whatever is changed.
    """

    def __init__(self, maps: Maps, below: Below, windows: Windows, reach: Reach, events: EventInputs) -> None:
        self.maps = maps
        self.below = below
        self.windows = windows
        self.reach = reach
        self.events = events
        self.depends = self._depends()
        self.known = KnownVectors(self.depends)
        self.made_of = numbered_rows(1 + 2 * windows.count)  # ids of the vectors below and of the events → id
        self.vectors = Vectors(len(maps.answer_bias), maps.answer.dtype)
        self.own = Products(maps.to_questions)  # many vectors of this layer share what a node has below
        self.attention = Attention(maps, windows.count)

    @property
    def size(self) -> int:
        return self.vectors.size + self.own.vectors.size

    @property
    def values(self) -> FloatArray:
        return self.vectors.values

    def _depends(self) -> Masks:
        """A node depends on its own events, and on what it and its possible neighbours depend on in the layer below."""
        below, nodes = self.below.depends, self.reach.attending
        depends = np.zeros_like(below)
        neighbours = np.bitwise_or.reduce(below[self.reach.other], axis=1)
        depends[nodes] = self.windows.touching | below[nodes] | neighbours
        return depends

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> LayerPlan:
        check_deadline()
        request = self.known.find(nodes, masks, change)
        chosen = self.windows.choose(self.reach.window[request.new.nodes], request.new.masks)
        return LayerPlan(request, chosen, self.below.plan(*request.new.below(chosen, self.reach.other)))

    def compute(self, plan: LayerPlan) -> IntArray:
        ids, (places, length) = self.below.compute(plan.below), plan.chosen
        events = self.events.look_up(self.windows.event.take(places))
        parts = self._parts(ids, events, length)
        numbers, new = self.made_of.find(parts)
        if len(new):
            self._attend(parts[new], length[new])
        return self.known.add(plan.request, numbers)

    def _parts(self, ids: IntArray, events: IntArray, length: IntArray) -> IntArray:
        """What vectors are made of: own vector, vectors of the neighbours, events; -1: none. → [n, 1 + 2K]

        Args:
            ids: Of the vectors below: of the nodes themselves, then of their neighbours, one node after the other.
            events: Of the neighbours. [m]
            length: How many neighbours each node has. [n]
        """
        most = self.windows.count
        exists = np.arange(most) < length[:, None]  # [n, K]
        parts = np.full((len(length), 1 + 2 * most), -1)
        parts[:, 0] = ids[: len(length)]
        parts[:, 1 : 1 + most][exists] = ids[len(length) :]
        parts[:, 1 + most :][exists] = events
        return parts

    def _attend(self, parts: IntArray, length: IntArray) -> None:
        """Make vectors of these parts. [m, 1 + 2K], [m] how many neighbours there are"""
        below, places = self.below.values, parts.shape[1] // 2
        sources = [(self.events.vectors.values, parts[:, 1 + places :])]
        questions: Source = self.maps.own_bias[None], np.zeros(len(parts), dtype=np.int64)
        if below is not None:  # else all of them are zero
            slots = self.own.slots(below, parts[:, 0])
            questions = self.own.vectors.values, slots
            sources.insert(0, (below, parts[:, 1 : 1 + places]))
        self.vectors.append(len(parts))[:] = self.attention(questions, sources, length)


class Reach:
    """The nodes that can take part in an answer, numbered: those of the inputs, and those that attend to events."""

    def __init__(self, nodes: IntArray, windows: Windows) -> None:
        self.nodes = nodes  # ascending
        self.attending = self.place(windows.nodes)  # [n] nodes with a window
        self.other = self.place(windows.other)  # [n, L] the nodes at the other ends of the events in each window
        self.window = np.full(len(nodes), -1)  # which of the windows is the node's
        self.window[self.attending] = np.arange(len(windows.nodes))

    def place(self, nodes: IntArray) -> IntArray:
        return np.searchsorted(self.nodes, nodes)
