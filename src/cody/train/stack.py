"""What TGN and TGAT have in common: a stack of attention layers, and the score of a link or of classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cody.models.labels import LabelTask
from cody.models.sizes import Sizes
from cody.train.layers import Perceptron, TemporalAttention, TimeEncoder
from cody.train.plan import EmbeddingPlan


class AttentionStack(nn.Module):
    """Embeds nodes from their recent events and those of their neighbours; scores pairs of embeddings."""

    def __init__(self, sizes: Sizes, task: LabelTask | None = None) -> None:
        super().__init__()
        d = sizes.dimension
        self.sizes, self.task = sizes, task  # without a task, pairs are links
        self.encode = TimeEncoder(d)
        self.attention = nn.ModuleList(
            TemporalAttention(d, sizes.edge_features, sizes.heads, sizes.dropout) for _ in range(sizes.layers)
        )
        self.score = Perceptron(d, d, d, 1 if task is None else task.outputs)
        if task is not None and task.about == "node":
            with torch.no_grad():
                self.score.hidden.weight[:, d:] = 0.0  # only the source counts; `label_logits` keeps it so

    def embed(self, plan: EmbeddingPlan, inputs: Tensor | None) -> Tensor:
        """Embeddings of the planned nodes from their layer-0 inputs (None: all zero). [m, d] → [Q, R, d]"""
        embeddings = inputs
        for attention, hop in zip(self.attention, plan.hops, strict=True):
            embeddings = attention(embeddings, hop, self.encode)
        assert embeddings is not None
        return embeddings[plan.roots]
