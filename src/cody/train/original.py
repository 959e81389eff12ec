"""Weights of the public TGN code base, under its parameter names."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from cody.errors import ModelError
from cody.graph import TemporalGraph
from cody.models.folder import check_free
from cody.models.sizes import Sizes, check_shapes, network_shapes, node_inputs
from cody.train.architectures import TGAT, TGN
from cody.train.checkpoint import Checkpoint, as_numbers, read_foreign_weights, save_model

# `memory.*` is state; the others exist in the original, but its answers do not depend on them.
UNUSED = re.compile(r"memory\.|memory_updater\.layer_norm\.|embedding_module\.time_encoder\.|.*neighbor_finder")
RENAMED = {
    "time_encoder.w.bias": "encode.phase",
    "affinity_score.fc1.": "score.hidden.",
    "affinity_score.fc2.": "score.out.",
    "memory_updater.memory_updater.": "memory.",
}
IN_ATTENTION = {
    "merger.fc1.": "merge.hidden.",
    "merger.fc2.": "merge.out.",
    "multi_head_target.out_proj.": "out.",
    "multi_head_target.q_proj_weight": "query.weight",
    "multi_head_target.k_proj_weight": "key.weight",
    "multi_head_target.v_proj_weight": "value.weight",
}


def network_from_original(
    weights: dict[str, Tensor], *, layers: int, heads: int, neighbours: int, batch: int
) -> TGN | TGAT:
    """A network with these weights; with a memory if the weights have one."""
    renamed = as_numbers(_rename(weights), "the imported weights")
    (dimension,) = _shape(renamed, "encode.frequency", 1)
    edge_features = _shape(renamed, "attention.0.key.weight", 2)[1] - 2 * dimension
    sizes = Sizes(dimension, layers, heads, neighbours, batch, edge_features)
    memory = any(name.startswith("memory.") for name in renamed)
    shapes = {name: tuple(weight.shape) for name, weight in renamed.items()}
    check_shapes(shapes, network_shapes(sizes, memory=memory), "the imported weights")
    network = TGN(sizes) if memory else TGAT(sizes)
    network.load_state_dict(renamed)
    return network.eval()


def import_original(
    file: Path, graph: TemporalGraph, folder: Path, *, layers: int, heads: int, neighbours: int, batch: int
) -> Sizes:
    """Save the weights in `file` as a model for `graph`."""
    check_free(folder, "model", "model")
    weights, left_out = read_foreign_weights(file)
    network = network_from_original(weights, layers=layers, heads=heads, neighbours=neighbours, batch=batch)
    node_inputs(graph, network.sizes)  # raises an error if the graph does not fit
    origin = {"imported_from": file.name, "left_out": list(left_out)}
    save_model(folder, Checkpoint(network, graph.identity, origin))
    return network.sizes


def _rename(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """From the original's names to ours. Torch stacks the three projections if keys are as wide as queries."""
    renamed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        attention = re.fullmatch(r"embedding_module\.attention_models\.(\d+)\.(.+)", name)
        if UNUSED.match(name):
            continue
        if name == "time_encoder.w.weight":
            renamed["encode.frequency"] = weight.flatten()
        elif attention and attention[2].startswith("multi_head_target.in_proj_"):
            part = attention[2].removeprefix("multi_head_target.in_proj_")
            rows = weight.shape[0] if weight.ndim else 0
            if rows % 3 or not rows:
                raise ModelError(f"parameter {name!r} should stack three projections, but has {rows} rows")
            for which, third in zip(("query", "key", "value"), weight.chunk(3), strict=True):
                renamed[f"attention.{attention[1]}.{which}.{part}"] = third.contiguous()
        elif attention:
            renamed[f"attention.{attention[1]}." + _replace(attention[2], IN_ATTENTION, name)] = weight
        else:
            renamed[_replace(name, RENAMED, name)] = weight
    return renamed


def _replace(name: str, table: dict[str, str], full_name: str) -> str:
    for old, new in table.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    raise ModelError(
        f"unknown parameter {full_name!r}: these are not weights of the original TGN-attn "
        "(identity messages, last-message aggregation, GRU memory, graph attention)"
    )


def _shape(weights: dict[str, Tensor], name: str, axes: int) -> torch.Size:
    if name not in weights or weights[name].ndim != axes:
        raise ModelError(f"no weight corresponds to {name!r}: these are not weights of the original TGN code")
    return weights[name].shape
