"""The fast TGAT: the inputs are the node features, and no removed event can change them."""

from __future__ import annotations

import torch
from torch import Tensor

from cody.graph import Query, TemporalGraph
from cody.inference.fast import FastModel, Inputs, Unchanged
from cody.inference.scope import Mask, Universe
from cody.models import TGAT


class FeatureInputs:
    """Node features; the id of a node's input is the node."""

    size = most = 0  # they are not remembered for a query

    def __init__(self, features: Tensor | None) -> None:
        self.values = features
        self.depends: dict[int, Mask] = {}
        self.unchanged = Unchanged(lambda node: node)

    def changed(self, node: int, mask: Mask) -> int:
        return node

    def grow(self, nodes: list[int]) -> None:
        self.depends = dict.fromkeys(nodes, 0)

    def compute(self) -> None:
        pass


class FastTGAT(FastModel):
    """A TGAT, equal to its `Replay`."""

    def __init__(self, network: TGAT, graph: TemporalGraph, *, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(network, graph, has_inputs=graph.node_features is not None, dtype=dtype)

    def inputs(self, query: Query, universe: Universe) -> Inputs:
        return FeatureInputs(self.features)
