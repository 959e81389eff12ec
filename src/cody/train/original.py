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
from cody.train.checkpoint import Checkpoint, as_numbers, read_foreign_weights, renamed, save_model

# `memory.*` is state; the others exist in the original, but its answers do not depend on them.
UNUSED = r"(memory\.|memory_updater\.layer_norm\.|embedding_module\.time_encoder\.|.*neighbor_finder).*"
FREQUENCY = "time_encoder.w.weight"
ATTENTION = r"embedding_module\.attention_models\.(\d+)\."
KNOWN = {
    re.escape(FREQUENCY): "encode.frequency",
    r"time_encoder\.w\.bias": "encode.phase",
    r"affinity_score\.fc1\.(.+)": r"score.hidden.\1",
    r"affinity_score\.fc2\.(.+)": r"score.out.\1",
    r"memory_updater\.memory_updater\.(.+)": r"memory.\1",
    rf"{ATTENTION}merger\.fc1\.(.+)": r"attention.\1.merge.hidden.\2",
    rf"{ATTENTION}merger\.fc2\.(.+)": r"attention.\1.merge.out.\2",
    rf"{ATTENTION}multi_head_target\.out_proj\.(.+)": r"attention.\1.out.\2",
    rf"{ATTENTION}multi_head_target\.q_proj_(.+)": r"attention.\1.query.\2",
    rf"{ATTENTION}multi_head_target\.k_proj_(.+)": r"attention.\1.key.\2",
    rf"{ATTENTION}multi_head_target\.v_proj_(.+)": r"attention.\1.value.\2",
}
ELSE = (
    "these are not weights of the original TGN-attn (identity messages, last-message aggregation, GRU memory, graph "
    "attention)"
)


def network_from_original(
    weights: dict[str, Tensor], *, layers: int, heads: int, neighbours: int, batch: int
) -> TGN | TGAT:
    """A network with these weights; with a memory if the weights have one."""
    ours = as_numbers(renamed(_separate(weights), KNOWN, UNUSED, ELSE), "the imported weights")
    (dimension,) = _shape(ours, "encode.frequency", 1)
    edge_features = _shape(ours, "attention.0.key.weight", 2)[1] - 2 * dimension
    sizes = Sizes(dimension, layers, heads, neighbours, batch, edge_features)
    memory = any(name.startswith("memory.") for name in ours)
    shapes = {name: tuple(weight.shape) for name, weight in ours.items()}
    check_shapes(shapes, network_shapes(sizes, memory=memory), "the imported weights")
    network = TGN(sizes) if memory else TGAT(sizes)
    network.load_state_dict(ours)
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


def _separate(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same weights one by one: torch stacks the three projections if keys are as wide as queries."""
    separate: dict[str, Tensor] = {}
    for name, weight in weights.items():
        before, stacked, part = name.partition("in_proj_")
        if not stacked:
            separate[name] = weight.flatten() if name == FREQUENCY else weight
            continue
        rows = weight.shape[0] if weight.ndim else 0
        if rows % 3 or not rows:
            raise ModelError(f"parameter {name!r} should stack three projections, but has {rows} rows")
        for which, third in zip("qkv", weight.chunk(3), strict=True):
            separate[f"{before}{which}_proj_{part}"] = third.contiguous()
    return separate


def _shape(weights: dict[str, Tensor], name: str, axes: int) -> torch.Size:
    if name not in weights or weights[name].ndim != axes:
        raise ModelError(f"no weight corresponds to {name!r}: these are not weights of the original TGN code")
    return weights[name].shape
