"""The sizes of PyTorch Geometric's example TGN, and the shapes of its weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cody.errors import ModelError
from cody.models.shapes import Shapes, linear
from cody.utils.words import sanitize


@dataclass(frozen=True, slots=True)
class PygSizes:
    """Everything that determines the shape of such a TGN, and how it is fed."""

    memory: int
    time: int  # of a time encoding
    embedding: int
    heads: int
    messages: int  # features per event
    neighbours: int  # recent events that a node attends to
    batch: int  # rows between two updates of the memory
    start: float = 0.0  # the time that the model counts as 0
    message: float | None = None  # the feature of every event, if events have none
    splits: tuple[int, ...] = ()  # rows from which batches are counted anew
    sees_own_batch: bool = True  # whether a link sees earlier events of its batch; missing in folders of version 0.2

    def __post_init__(self) -> None:
        limits = {"memory": 10_000, "time": 10_000, "embedding": 10_000, "heads": 100, "neighbours": 10_000}
        for name, limit in (limits | {"batch": 10**9, "messages": 10**6}).items():
            value = getattr(self, name)
            if type(value) is not int or not (name != "messages") <= value <= limit:
                raise ModelError(f"{name} must be a whole number up to {limit:,}, not {sanitize(repr(value))}")
        if not (isinstance(self.splits, list | tuple) and all(type(row) is int and row >= 0 for row in self.splits)):
            raise ModelError(f"splits must be rows of events, not {sanitize(repr(self.splits))}")
        object.__setattr__(self, "splits", tuple(self.splits))  # a file has a list
        if type(self.sees_own_batch) is not bool:
            raise ModelError(f"sees_own_batch must be true or false, not {sanitize(repr(self.sees_own_batch))}")
        if self.embedding % self.heads:
            raise ModelError(f"the embedding ({self.embedding}) must be a multiple of the heads ({self.heads})")
        for name in ("start", "message"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
                raise ModelError(f"{name} must be a finite number, not {sanitize(repr(value))}")


def pyg_shapes(sizes: PygSizes) -> Shapes:
    """The shapes of memory, attention and link predictor."""
    d, e = sizes.memory, sizes.embedding
    shapes = linear("memory.time_enc.lin", 1, sizes.time) | linear("gnn.time_enc.lin", 1, sizes.time)
    shapes |= {"memory.gru.weight_ih": (3 * d, 2 * d + sizes.messages + sizes.time), "memory.gru.weight_hh": (3 * d, d)}
    shapes |= {"memory.gru.bias_ih": (3 * d,), "memory.gru.bias_hh": (3 * d,)}
    for part in ("key", "query", "value", "skip"):
        shapes |= linear(f"gnn.conv.lin_{part}", d, e)
    shapes["gnn.conv.lin_edge.weight"] = (e, sizes.messages + sizes.time)
    return (
        shapes
        | linear("link_pred.lin_src", e, e)
        | linear("link_pred.lin_dst", e, e)
        | linear("link_pred.lin_final", e, 1)
    )
