"""Saved TGNs of PyTorch Geometric: imported from a state dict or trained, and opened as the library's own classes.

Only a model whose code is known can be saved without it: the TGN of the library's example (`TGNMemory` with
`IdentityMessage` and `LastAggregator`, a `TransformerConv` over time encodings and messages, a perceptron on the sum of
two layers). The parts of its weights are recognized by the names in the library and its example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cody.utils.extras import needed_by

with needed_by("a TGN of PyTorch Geometric", "pyg"):
    import torch
    from torch import Tensor, nn
    from torch_geometric.nn import TGNMemory, TransformerConv
    from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

from cody.adapters import pyg
from cody.engine import reference_model
from cody.errors import CallError, ModelError
from cody.graph import IntArray, TemporalGraph
from cody.graph.grid import make_grid, usual_splits
from cody.models.contract import Model
from cody.models.folder import SavedModel, check_free, write_model
from cody.models.separation import average_precision
from cody.models.sizes import PygSizes, check_shapes, edge_width, pyg_shapes
from cody.train.checkpoint import as_arrays, as_numbers, read_foreign_weights, renamed
from cody.train.training import TrainingSettings, random_destinations, split
from cody.utils.words import count

KIND = "pyg-tgn"
STATE = r"memory\.(memory|last_update|_assoc)"  # not weights: they follow from the events
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
WIDTH, BATCH, NEIGHBOURS = 32, 50, 10  # of a model that is trained here
ONE = 1.0  # the message of events without features, as in the library's example
CALLS = ("batch", "splits", "sees_own_batch", "neighbours", "start", "message")  # saved options of `pyg.wrap`


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
    weights = as_numbers(renamed(tensors, KNOWN, STATE, ELSE), str(file))
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
    parts = new_modules(sizes, graph.num_nodes)
    parts.load_state_dict({name: torch.from_numpy(array) for name, array in saved.arrays.items()}, strict=False)
    given = {name: getattr(sizes, name) for name in CALLS} | {"data": graph, "fast": engine is not reference_model}
    return pyg.wrap(memory=parts["memory"], gnn=parts["gnn"], link_predictor=parts["link_pred"], **given)


def new_modules(sizes: PygSizes, nodes: int) -> nn.ModuleDict:
    """The modules of the library's example, with random weights: memory, gnn and link_pred."""
    parts = {
        "memory": new_memory(sizes, nodes),
        "gnn": PygAttention(sizes),
        "link_pred": PygPerceptron(sizes.embedding),
    }
    return nn.ModuleDict(parts)


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


def _sizes(weights: dict[str, Tensor], **given: Any) -> PygSizes:
    """The sizes, from the shapes and the given options."""

    def shape(name: str) -> torch.Size:
        if name not in weights or weights[name].ndim != 2:
            raise ModelError(f"there is no weight {name!r}: {ELSE}")
        return weights[name].shape

    memory, time = shape("memory.gru.weight_hh")[1], shape("memory.time_enc.lin.weight")[0]
    messages = shape("memory.gru.weight_ih")[1] - 2 * memory - time
    return PygSizes(memory, time, shape("gnn.conv.lin_key.weight")[0], messages=messages, **given)


# Training, as the example of the library does it.


def train_pyg_tgn(graph: TemporalGraph, settings: TrainingSettings, folder: Path) -> None:
    """Train on links against random destinations and save the weights. The same seed gives the same weights.

    Args:
        graph: The log of events.
        settings: How to train; all epochs are trained.
        folder: Where the model is saved.
    """
    width = edge_width(graph)
    sizes = PygSizes(
        *(WIDTH, WIDTH, WIDTH, 2, width or 1, NEIGHBOURS, BATCH, float(graph.time[0])), message=None if width else ONE
    )
    stop = int(split(graph, settings).validation[0]) // BATCH * BATCH
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        parts = new_modules(sizes, graph.num_nodes)
        optimizer = torch.optim.Adam(parts.parameters(), settings.learning_rate)
        for epoch in range(1, settings.epochs + 1):
            _train_epoch(parts, optimizer, graph, random_destinations(graph, settings.seed, 3, epoch)(stop))
    scores = _score_all(parts, graph, random_destinations(graph, settings.seed, 2)(graph.num_events))[:, stop:]
    found = average_precision(scores.ravel(), np.repeat([True, False], scores.shape[1]))
    weights = {name: tensor for name, tensor in parts.state_dict().items() if not re.fullmatch(STATE, name)}
    origin = {"settings": asdict(settings), "test": {"average_precision": found}}
    write_model(folder, SavedModel(KIND, sizes, as_arrays(weights), graph.identity, origin))


def _train_epoch(parts: Any, optimizer: torch.optim.Optimizer, graph: TemporalGraph, others: IntArray) -> None:
    parts.train()
    for logits in _batches(parts, graph, others):
        wanted = torch.tensor([[1.0], [0.0]]).expand_as(logits)
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(logits, wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        parts["memory"].detach()


@torch.no_grad()
def _score_all(parts: nn.ModuleDict, graph: TemporalGraph, others: IntArray) -> NDArray[np.float32]:
    """Of each event, and of its source with another destination. [2, E]"""
    parts.eval()
    return np.concatenate([logits.numpy() for logits in _batches(parts, graph, others)], axis=1)


def _batches(parts: Any, graph: TemporalGraph, others: IntArray) -> Iterator[Tensor]:
    """The logits of the first events, a batch at a time, and of the same sources with others. [2, batch]"""
    columns = graph.src, graph.dst, graph.time - graph.time[0]
    src, dst, time = (torch.from_numpy(column.astype(np.int64)) for column in columns)
    message = torch.full((graph.num_events, 1), ONE) if graph.features is None else torch.tensor(graph.features).float()
    loader = LastNeighborLoader(graph.num_nodes, NEIGHBOURS)
    memory, gnn, link_pred = parts.values()
    memory.reset_state()
    for first in range(0, len(others), BATCH):
        some = slice(first, min(first + BATCH, len(others)))
        ends = torch.stack([src[some], dst[some], torch.from_numpy(others[some].astype(np.int64))])  # [3, batch]
        nodes, edges, rows = loader(torch.unique(ends))  # the nodes ascend
        z, updated = memory(nodes)
        z = gnn(z, updated, edges, time[rows], message[rows])
        z = z[torch.searchsorted(nodes, ends)]  # [3, batch, d]
        logits: Tensor = link_pred(z[[0, 0]], z[1:]).squeeze(-1)
        # before the gradients are computed, as in the example
        memory.update_state(src[some], dst[some], time[some], message[some])
        loader.insert(src[some], dst[some])
        yield logits
