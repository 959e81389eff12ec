"""The sizes of a network, and what they require of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cody.errors import ModelError
from cody.graph import FloatArray, TemporalGraph
from cody.utils.words import sanitize


@dataclass(frozen=True, slots=True)
class Sizes:
    """Everything that determines the shape of a network and how it reads a graph."""

    dimension: int = 172  # of embeddings, memory and time encoding
    layers: int = 2
    heads: int = 2
    neighbours: int = 20  # most recent events that a node attends to
    batch: int = 200  # rows of one replay batch: the grid of a memory
    edge_features: int = 0
    dropout: float = 0.1  # while training

    def __post_init__(self) -> None:
        limits = {"dimension": 10_000, "layers": 10, "heads": 100, "neighbours": 10_000, "batch": 10**9}
        for name, limit in limits.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= limit:
                raise ModelError(f"{name} must be a whole number from 1 to {limit:,}, not {sanitize(repr(value))}")
        if type(self.edge_features) is not int or not 0 <= self.edge_features <= 1_000_000:
            given = sanitize(repr(self.edge_features))
            raise ModelError(f"edge_features must be a whole number from 0 to 1,000,000, not {given}")
        if 2 * self.dimension % self.heads:
            raise ModelError(f"twice the dimension ({self.dimension}) must be a multiple of the heads ({self.heads})")
        if not isinstance(self.dropout, int | float) or not 0.0 <= self.dropout < 1.0:
            raise ModelError(f"dropout must be at least 0 and below 1, not {sanitize(repr(self.dropout))}")


PRESETS = {
    "paper": Sizes(),
    "compact": Sizes(dimension=64, neighbours=10),
}


def edge_width(graph: TemporalGraph) -> int:
    return 0 if graph.features is None else graph.features.shape[1]


def node_inputs(graph: TemporalGraph, sizes: Sizes) -> FloatArray | None:
    """Node features, padded with zeros to the network's dimension. [N, d], or None if there are none"""
    if edge_width(graph) != sizes.edge_features:
        raise ModelError(
            f"the model was built for {sizes.edge_features} event features, but the graph has {edge_width(graph)}"
        )
    if graph.node_features is None:
        return None
    width = graph.node_features.shape[1]
    if width > sizes.dimension:
        raise ModelError(f"{width} node features do not fit a model of dimension {sizes.dimension}")
    inputs = np.zeros((graph.num_nodes, sizes.dimension), dtype=np.float32)
    inputs[:, :width] = graph.node_features
    return inputs
