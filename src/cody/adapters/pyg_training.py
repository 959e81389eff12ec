"""Training of PyTorch Geometric's TGN as the library's own example trains it, saved as a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cody.utils.extras import needed_by

with needed_by("a TGN of PyTorch Geometric", "pyg"):
    import torch
    from torch import Tensor, nn
    from torch_geometric.nn import TGNMemory
    from torch_geometric.nn.models.tgn import LastNeighborLoader

from cody.adapters.pyg_folder import KIND, STATE, PygAttention, PygPerceptron, new_memory
from cody.graph import IntArray, TemporalGraph
from cody.models.folder import SavedModel, write_model
from cody.models.separation import average_precision
from cody.models.sizes import PygSizes, edge_width
from cody.train.checkpoint import as_arrays
from cody.train.training import TrainingSettings, random_destinations, split

WIDTH, BATCH, NEIGHBOURS = 32, 50, 10
ONE = 1.0  # the message of events without features, as in the library's example


class _TrainedParts(NamedTuple):
    """The three modules of the library's example."""

    memory: TGNMemory
    gnn: PygAttention
    link_pred: PygPerceptron


class _EventTensors(NamedTuple):
    """The log as the library has it."""

    src: Tensor
    dst: Tensor
    time: Tensor
    message: Tensor


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
        parts = _TrainedParts(new_memory(sizes, graph.num_nodes), PygAttention(sizes), PygPerceptron(WIDTH))
        optimizer = torch.optim.Adam({each for part in parts for each in part.parameters()}, settings.learning_rate)
        for epoch in range(1, settings.epochs + 1):
            _train_epoch(parts, optimizer, graph, random_destinations(graph, settings.seed, 3, epoch)(stop))
    scores = _score_all(parts, graph, random_destinations(graph, settings.seed, 2)(graph.num_events))[:, stop:]
    found = average_precision(scores.ravel(), np.repeat([True, False], scores.shape[1]))
    weights = {
        f"{name}.{each}": tensor
        for name, part in parts._asdict().items()
        for each, tensor in part.state_dict().items()
        if not STATE.fullmatch(f"{name}.{each}")
    }
    origin = {"settings": asdict(settings), "test": {"average_precision": found}}
    write_model(folder, SavedModel(KIND, sizes, as_arrays(weights), graph.identity, origin))


def _train_epoch(
    parts: _TrainedParts, optimizer: torch.optim.Optimizer, graph: TemporalGraph, others: IntArray
) -> None:
    for part in parts:
        part.train()
    for logits in _batches(parts, graph, others):
        wanted = torch.tensor([[1.0], [0.0]]).expand_as(logits)
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(logits, wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        parts.memory.detach()


@torch.no_grad()
def _score_all(
    parts: _TrainedParts, graph: TemporalGraph, others: IntArray
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Of each event, and of its source with another destination. [2, E]"""
    for part in parts:
        part.eval()
    return np.concatenate([logits.numpy() for logits in _batches(parts, graph, others)], axis=1)


def _batches(parts: _TrainedParts, graph: TemporalGraph, others: IntArray) -> Iterator[Tensor]:
    """The logits of the first events, a batch at a time, and of the same sources with others. [2, batch]"""
    events = _as_tensors(graph)
    loader = LastNeighborLoader(graph.num_nodes, NEIGHBOURS)
    parts.memory.reset_state()
    for first in range(0, len(others), BATCH):
        some = slice(first, min(first + BATCH, len(others)))
        src, dst, time, message = (column[some] for column in events)
        ends = torch.stack([src, dst, torch.from_numpy(others[some].astype(np.int64))])  # [3, batch]
        nodes, edges, rows = loader(torch.unique(ends))
        z, updated = parts.memory(nodes)
        z = parts.gnn(z, updated, edges, events.time[rows], events.message[rows])
        z = z[_places(nodes, ends)]  # [3, batch, d]
        logits: Tensor = parts.link_pred(z[[0, 0]], z[1:]).squeeze(-1)
        parts.memory.update_state(src, dst, time, message)  # before the gradients are computed, as in the example
        loader.insert(src, dst)
        yield logits


def _places(nodes: Tensor, wanted: Tensor) -> Tensor:
    place = torch.empty(int(nodes.max()) + 1, dtype=torch.long)
    place[nodes] = torch.arange(len(nodes))
    return place[wanted]


def _as_tensors(graph: TemporalGraph) -> _EventTensors:
    message = torch.full((graph.num_events, 1), ONE) if graph.features is None else torch.tensor(graph.features)
    src, dst, time = (
        torch.from_numpy(column.astype(np.int64)) for column in (graph.src, graph.dst, graph.time - graph.time[0])
    )
    return _EventTensors(src, dst, time, message.float())
