"""The sizes of a network, what they require of the data, and the shapes of its weights.

Shapes are known without building the network, so that a file can be checked before it is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

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
        check_whole(self, 1, dimension=10_000, layers=10, heads=100, neighbours=10_000, batch=10**9)
        check_whole(self, 0, edge_features=10**6)
        if 2 * self.dimension % self.heads:
            raise ModelError(f"twice the dimension ({self.dimension}) must be a multiple of the heads ({self.heads})")
        if not isinstance(self.dropout, int | float) or not 0.0 <= self.dropout < 1.0:
            raise ModelError(f"dropout must be at least 0 and below 1, not {sanitize(repr(self.dropout))}")


def check_whole(sizes: object, least: int, **limits: int) -> None:
    """Reject sizes that are not whole numbers between `least` and their limits."""
    for name, limit in limits.items():
        value = getattr(sizes, name)
        if type(value) is not int or not least <= value <= limit:
            raise ModelError(f"{name} must be a whole number from {least} to {limit:,}, not {sanitize(repr(value))}")


PRESETS = {"paper": Sizes(), "compact": Sizes(dimension=64, neighbours=10)}


def edge_width(graph: TemporalGraph) -> int:
    return 0 if graph.features is None else graph.features.shape[1]


def node_width(graph: TemporalGraph) -> int:
    return 0 if graph.node_features is None else graph.node_features.shape[1]


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
        check_whole(self, 1, memory=10_000, time=10_000, embedding=10_000, heads=100, neighbours=10_000, batch=10**9)
        check_whole(self, 0, messages=10**6)
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


@dataclass(frozen=True, slots=True)
class SequenceSizes:
    """Everything that determines the shape of a network that reads the recent events of a link's two nodes."""

    batch: ClassVar[int] = 50  # links of a training step

    dimension: int = 32
    neighbours: int = 16  # recent events of each node
    layers: int = 1
    heads: int = 2  # DyGFormer
    edge_features: int = 0
    node_features: int = 0

    def __post_init__(self) -> None:
        check_whole(self, 1, dimension=10_000, neighbours=10_000, layers=10, heads=100)
        check_whole(self, 0, edge_features=10**6, node_features=10**6)
        if self.dimension % self.heads:
            raise ModelError(f"the dimension ({self.dimension}) must be a multiple of the heads ({self.heads})")


Shapes = Mapping[str, tuple[int, ...]]  # of the weights, by name


def linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def network_shapes(sizes: Sizes, *, memory: bool) -> Shapes:
    """The shapes of TGAT, or with `memory` those of TGN."""
    d = sizes.dimension
    width, event = 2 * d, 2 * d + sizes.edge_features  # of a query, and of a key or value
    shapes: dict[str, tuple[int, ...]] = {"encode.frequency": (d,), "encode.phase": (d,)}
    for layer in (f"attention.{number}" for number in range(sizes.layers)):
        shapes |= linear(f"{layer}.query", width, width) | linear(f"{layer}.out", width, width)
        shapes |= linear(f"{layer}.key", event, width) | linear(f"{layer}.value", event, width)
        shapes |= linear(f"{layer}.merge.hidden", width + d, d) | linear(f"{layer}.merge.out", d, d)
    shapes |= linear("score.hidden", width, d) | linear("score.out", d, 1)
    if memory:
        shapes |= {"memory.weight_ih": (3 * d, event + d), "memory.weight_hh": (3 * d, d)}
        shapes |= {"memory.bias_ih": (3 * d,), "memory.bias_hh": (3 * d,)}
    return shapes


def check_shapes(found: Shapes, wanted: Shapes, source: str) -> None:
    """Reject weights that are not exactly those of a network."""
    for name, shape in found.items():
        if name not in wanted:
            layers = len({weight.split(".")[1] for weight in wanted if weight.startswith("attention.")})
            hint = f" (the network has {layers} layers)" if name.startswith("attention.") else ""
            raise ModelError(f"{source}: parameter {name!r} does not belong to this architecture{hint}")
        if shape != wanted[name]:
            raise ModelError(f"{source}: parameter {name!r} has shape {shape}, expected {wanted[name]}")
    missing = sorted(wanted.keys() - found.keys())
    if missing:
        raise ModelError(f"{source}: parameter {missing[0]!r} is missing")


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


def _sequence_shapes(sizes: SequenceSizes, token: int) -> dict[str, tuple[int, ...]]:
    """What GraphMixer and DyGFormer have in common."""
    d = sizes.dimension
    shapes: dict[str, tuple[int, ...]] = {"encode.frequency": (d,), "encode.phase": (d,)}
    shapes |= linear("score.hidden", 2 * d, d) | linear("score.out", d, 1) | linear("token", token, d)
    for number in range(sizes.layers):
        shapes |= _mixing(f"channels.{number}", d, 2 * d, d)
    return shapes


def _mixing(name: str, width: int, hidden: int, dimension: int) -> dict[str, tuple[int, ...]]:
    norm = {f"{name}.norm.weight": (dimension,), f"{name}.norm.bias": (dimension,)}
    return norm | linear(f"{name}.hidden", width, hidden) | linear(f"{name}.out", hidden, width)


def graphmixer_shapes(sizes: SequenceSizes) -> Shapes:
    """The shapes of a GraphMixer."""
    d, places = sizes.dimension, sizes.neighbours
    shapes = _sequence_shapes(sizes, d + sizes.edge_features)
    for number in range(sizes.layers):
        shapes |= _mixing(f"tokens.{number}", places, places, d)
    return shapes | (linear("own", 2 * sizes.node_features, d) if sizes.node_features else {})


def dygformer_shapes(sizes: SequenceSizes) -> Shapes:
    """The shapes of a DyGFormer."""
    d = sizes.dimension
    shapes = _sequence_shapes(sizes, 2 * d + sizes.edge_features + sizes.node_features)
    shapes |= linear("count_hidden", 1, d) | linear("count_out", d, d)
    for number in range(sizes.layers):
        attention, norm = f"attention.{number}", f"norm.{number}"
        shapes |= {f"{attention}.in_proj_weight": (3 * d, d), f"{attention}.in_proj_bias": (3 * d,)}
        shapes |= linear(f"{attention}.out_proj", d, d) | {f"{norm}.weight": (d,), f"{norm}.bias": (d,)}
    return shapes


class Architecture(NamedTuple):
    """What is known about a kind of model without torch."""

    sizes: type[Sizes] | type[PygSizes] | type[SequenceSizes]
    shapes: Callable[[Any], Shapes]  # of the weights, from the sizes


ARCHITECTURES = {
    "tgn": Architecture(Sizes, partial(network_shapes, memory=True)),
    "tgat": Architecture(Sizes, partial(network_shapes, memory=False)),
    "pyg-tgn": Architecture(PygSizes, pyg_shapes),
    "graphmixer": Architecture(SequenceSizes, graphmixer_shapes),
    "dygformer": Architecture(SequenceSizes, dygformer_shapes),
}
