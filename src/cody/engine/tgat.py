"""The fast TGAT: the inputs are the node features, and no change of the past can change them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cody.engine.fast import FastModel, Inputs
from cody.engine.masks import EditableEvents, Masks
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, sorted_unique


class FeatureInputs:
    """Node features; the id of a node's input is the node."""

    exact = True
    size = most = 0  # they are not remembered for a query

    def __init__(self, features: FloatArray | None, editable: EditableEvents, nodes: IntArray) -> None:
        self.values = None if features is None else features[nodes]
        self.depends = np.zeros((len(nodes), editable.words), dtype=np.uint64)

    def exactly(self) -> FeatureInputs:
        return self

    def finer(self) -> FeatureInputs:
        return self

    def begin(self, changes: Masks) -> None:
        pass

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> IntArray:
        return nodes

    def compute(self, plan: IntArray) -> IntArray:
        return plan


class FastTGAT(FastModel):
    """A TGAT, equal to its `Replay`."""

    def __init__(self, network: Any, graph: TemporalGraph, *, dtype: Any = np.float64) -> None:
        super().__init__(network, graph, has_inputs=graph.node_features is not None, dtype=dtype)

    def attended(self, query: Query) -> IntArray:
        """The rows that all layers together attend to with nothing changed. Ascending."""
        nodes, sizes = sorted_unique(np.array([query.src, query.dst])), self.weights.sizes
        rows = nodes[:0]
        for _ in range(sizes.layers):  # one hop further with each layer
            rows = self.graph.recent(nodes, query.before, sizes.neighbours)
            rows = sorted_unique(rows[rows >= 0])
            nodes = sorted_unique(np.concatenate([nodes, self.graph.src[rows], self.graph.dst[rows]]))
        return rows

    def inputs(self, query: Query, editable: EditableEvents, nodes: IntArray) -> Inputs:
        return FeatureInputs(self.features, editable, nodes)

    def inputs_as_they_are(self, nodes: IntArray, before: IntArray) -> FloatArray | None:
        return None if self.features is None else self.features[nodes]
