"""Saved TGNs of PyTorch Geometric: imported from a state dict, and opened as the library's own classes.

Only a model whose code is known can be saved without it: the TGN of the library's example (`TGNMemory` with
`IdentityMessage` and `LastAggregator`, a `TransformerConv` over time encodings and messages, a perceptron on the sum of
two layers). The parts of its weights are recognized by the names in the library and its example.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cody.utils.extras import needed_by

with needed_by("a TGN of PyTorch Geometric", "pyg"):
    import torch
    from torch import Tensor, nn
    from torch_geometric.nn import TGNMemory, TransformerConv
    from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator

from cody.adapters import pyg
from cody.engine import reference_model
from cody.errors import CallError, ModelError
from cody.graph import TemporalGraph
from cody.graph.grid import make_grid, usual_splits
from cody.models.contract import Model
from cody.models.folder import SavedModel, check_free, write_model
from cody.models.sizes import PygSizes, check_shapes, edge_width, pyg_shapes
from cody.train.checkpoint import as_arrays, as_numbers, read_foreign_weights
from cody.utils.words import count

KIND = "pyg-tgn"
STATE = re.compile(r"memory\.(memory|last_update|_assoc)")  # not weights: they follow from the events
KNOWN = {  # users may choose other prefixes
    r"memory\.((?:time_enc\.lin|gru)\..+)": r"memory.\1",
    r"(?:gnn|encoder)\.(?:.+\.)?(lin_(?:key|query|value|edge|skip)\..+)": r"gnn.conv.\1",
    r"(?:gnn|encoder)\.(?:.+\.)?lin\.(weight|bias)": r"gnn.time_enc.lin.\1",
    r"(?:link_pred|link_predictor|decoder)\.(lin_(?:src|dst|final)\..+)": r"link_pred.\1",
}
ELSE = (
    "only the TGN of PyTorch Geometric's own example can be imported; for any other model, name a function that builds "
    "it: --model MODULE:FUNCTION, as docs/own-model.md shows"
)


class PygAttention(nn.Module):
    """Attention over recent events: their messages, and how long before the neighbour's last update they were."""

    def __init__(self, sizes: PygSizes) -> None:
        super().__init__()
        self.time_enc = new_memory(sizes, 1).time_enc
        width, edge = sizes.embedding // sizes.heads, sizes.messages + sizes.time
        self.conv = TransformerConv(sizes.memory, width, heads=sizes.heads, edge_dim=edge)

    def forward(self, z: Tensor, last_update: Tensor, edge_index: Tensor, t: Tensor, msg: Tensor) -> Tensor:
        encoded = self.time_enc((last_update[edge_index[0]] - t).to(z.dtype))
        return self.conv(z, edge_index, torch.cat([encoded, msg], dim=-1))


class PygPerceptron(nn.Module):
    """The logit of a link, from the embeddings of its nodes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin_src, self.lin_dst = nn.Linear(width, width), nn.Linear(width, width)
        self.lin_final = nn.Linear(width, 1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.lin_final((self.lin_src(source) + self.lin_dst(target)).relu())


def import_pyg(
    file: Path,
    graph: TemporalGraph,
    folder: Path,
    *,
    heads: int,
    neighbours: int,
    batch: int,
    start: float = 0.0,
    message: float | None = None,
    splits: Sequence[int] | None = None,
    sees_own_batch: bool = False,
) -> PygSizes:
    """Save the weights in `file`, the state dicts of memory, gnn and link_pred, as a model for `graph`.

    The options are those of `pyg.wrap`; they are saved with the weights.
    """
    check_free(folder, "model", "model")
    tensors, left_out = read_foreign_weights(file)
    weights = as_numbers(_recognized(tensors), str(file))
    grid = make_grid(batch, usual_splits(graph) if splits is None else splits)
    fed = {"batch": grid.size, "splits": grid.splits, "sees_own_batch": sees_own_batch}
    sizes = _sizes(weights, heads=heads, neighbours=neighbours, start=start, message=message, **fed)
    check_shapes({name: tuple(weight.shape) for name, weight in weights.items()}, pyg_shapes(sizes), str(file))
    _check_messages(file, sizes, graph)
    saved = SavedModel(
        KIND, sizes, as_arrays(weights), graph.identity, {"imported_from": file.name, "left_out": list(left_out)}
    )
    write_model(folder, saved)
    return sizes


def open_saved(saved: SavedModel, graph: TemporalGraph, engine: Any = None) -> Model:
    """The model in a folder, on `graph`."""
    sizes = saved.sizes
    assert isinstance(sizes, PygSizes)
    parts = {
        "memory": new_memory(sizes, graph.num_nodes),
        "gnn": PygAttention(sizes),
        "link_pred": PygPerceptron(sizes.embedding),
    }
    for part, module in parts.items():
        mine = {
            name.removeprefix(f"{part}."): array for name, array in saved.arrays.items() if name.startswith(f"{part}.")
        }
        module.load_state_dict({name: torch.from_numpy(array) for name, array in mine.items()}, strict=False)
    return pyg.wrap(
        memory=parts["memory"],
        gnn=parts["gnn"],
        link_predictor=parts["link_pred"],
        data=graph,
        batch=sizes.batch,
        splits=sizes.splits,
        sees_own_batch=sizes.sees_own_batch,
        neighbours=sizes.neighbours,
        start=sizes.start,
        message=sizes.message,
        fast=engine is not reference_model,
    )


def new_memory(sizes: PygSizes, nodes: int) -> TGNMemory:
    """A memory of the library as its example builds it, with random weights."""
    message = IdentityMessage(sizes.messages, sizes.memory, sizes.time)
    return TGNMemory(nodes, sizes.messages, sizes.memory, sizes.time, message, LastAggregator())


def _check_messages(file: Path, sizes: PygSizes, graph: TemporalGraph) -> None:
    wanted = f"{file} is for messages of {count(sizes.messages, 'number')}"
    width = edge_width(graph)
    if sizes.message is not None and width:
        raise CallError(f"--message is for data without features; these have {width}, which are the messages")
    if sizes.messages == 1 and not width and sizes.message is None:
        raise ModelError(f"{wanted}, but the data have no features: give the number that every event had, --message 1?")
    if sizes.messages != width + (sizes.message is not None):
        raise ModelError(f"{wanted}, but the data have {count(width, 'feature')}")


def _recognized(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights under our names."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if STATE.fullmatch(name):
            continue
        known = [re.sub(pattern, to, name) for pattern, to in KNOWN.items() if re.fullmatch(pattern, name)]
        if not known:
            raise ModelError(f"unknown parameter {name!r}: {ELSE}")
        if known[0] in found:
            raise ModelError(f"parameter {name!r} is a second {known[0]!r}: {ELSE}")
        found[known[0]] = weight
    return found


def _sizes(weights: dict[str, Tensor], **given: Any) -> PygSizes:
    """The sizes, from the shapes and the given options."""

    def shape(name: str) -> torch.Size:
        if name not in weights or weights[name].ndim != 2:
            raise ModelError(f"there is no weight {name!r}: {ELSE}")
        return weights[name].shape

    memory, time = shape("memory.gru.weight_hh")[1], shape("memory.time_enc.lin.weight")[0]
    messages = shape("memory.gru.weight_ih")[1] - 2 * memory - time
    return PygSizes(memory, time, shape("gnn.conv.lin_key.weight")[0], messages=messages, **given)
