"""TGAT: attention over a node's most recent events, and over those of its neighbours. No memory.

Reference: Xu et al., "Inductive representation learning on temporal graphs", ICLR 2020; as the public TGN code
implements it (the same attention stack, without memory).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from cody.graph import IntArray, TemporalGraph
from cody.models.contract import LabelTask
from cody.models.sizes import Sizes, node_inputs
from cody.train.layers import AttentionStack


class TGAT(AttentionStack):
    """Scores links from node features and the times of past events."""

    kind: ClassVar[str] = "tgat"

    def __init__(self, sizes: Sizes, task: LabelTask | None = None) -> None:
        super().__init__(sizes, task)
        self.memory = None

    def stream(self, graph: TemporalGraph) -> FeatureStream:
        """The layer-0 inputs of each node as events happen: nothing but its features."""
        return FeatureStream(self, graph)


class FeatureStream:
    """The layer-0 inputs of a model without memory."""

    def __init__(self, network: TGAT, graph: TemporalGraph) -> None:
        features = node_inputs(graph, network.sizes)
        self.features = None if features is None else torch.from_numpy(features)

    def inputs(self, nodes: IntArray, before: IntArray) -> Tensor | None:
        """[m], [m] → [m, d], or None where all are zero."""
        return None if self.features is None else self.features[torch.from_numpy(nodes)]

    def advance(self, stop: int) -> None:
        """Feed the events up to row `stop`."""
