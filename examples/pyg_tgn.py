"""A TGN as PyTorch Geometric's users build it, and its training: the model that the examples explain.

    python examples/pyg_tgn.py --epochs 8 --out tgn.pt

`TGNMemory` and `LastNeighborLoader` come from the library; the two modules on top of them live in each user's own
script, as here; their parts are called as in the library's own example. Of CoDy, this file needs only events and the
average precision, so that the extra `pyg` is all that it needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.data import TemporalData
from torch_geometric.nn import TGNMemory, TransformerConv
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

from cody.models import separation

BATCH, NEIGHBOURS = 200, 10


class AttentionEmbedding(nn.Module):
    """One layer of attention over recent events: their messages, and how long before the last update they were."""

    def __init__(self, width: int, out: int, message: int, time_enc: nn.Module) -> None:
        super().__init__()
        self.time_enc = time_enc
        edge = message + time_enc.out_channels
        self.conv = TransformerConv(width, out // 2, heads=2, dropout=0.1, edge_dim=edge)

    def forward(self, x: Tensor, last_update: Tensor, edge_index: Tensor, t: Tensor, msg: Tensor) -> Tensor:
        elapsed = (last_update[edge_index[0]] - t).to(x.dtype)
        return self.conv(x, edge_index, torch.cat([self.time_enc(elapsed), msg], dim=-1))


class LinkPredictor(nn.Module):
    """A perceptron on two embeddings; the result is a logit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin_src, self.lin_dst = nn.Linear(width, width), nn.Linear(width, width)
        self.lin_final = nn.Linear(width, 1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.lin_final((self.lin_src(source) + self.lin_dst(target)).relu())


class TGN(NamedTuple):
    """The three modules of a TGN."""

    memory: TGNMemory
    gnn: AttentionEmbedding
    link_predictor: LinkPredictor


def temporal_data(graph) -> TemporalData:
    """Events as PyG has them, in seconds since the first. Where they have no features, each carries a single 1."""
    msg = torch.ones(graph.num_events, 1) if graph.features is None else torch.tensor(graph.features)
    src, dst, t = (
        torch.tensor(column, dtype=torch.long) for column in (graph.src, graph.dst, graph.time - graph.time[0])
    )
    return TemporalData(src=src, dst=dst, t=t, msg=msg)


def new_tgn(data: TemporalData, width: int = 100) -> TGN:
    """An untrained TGN for these events."""
    messages = data.msg.size(-1)
    message = IdentityMessage(messages, width, width)
    memory = TGNMemory(data.num_nodes, messages, width, width, message, LastAggregator())
    return TGN(memory, AttentionEmbedding(width, width, messages, memory.time_enc), LinkPredictor(width))


def train(tgn: TGN, data: TemporalData, epochs: int, until: int) -> Iterator[float]:
    """Train on the first `until` events, each against a random destination. The mean loss of each epoch."""
    parameters = {parameter for module in tgn for parameter in module.parameters()}
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    loss_of = nn.functional.binary_cross_entropy_with_logits
    for _ in range(epochs):
        for module in tgn:
            module.train()
        total = 0.0
        for batch, score in replay(tgn, data, until):
            optimizer.zero_grad()
            happened, did_not = score()
            loss = loss_of(happened, torch.ones_like(happened)) + loss_of(did_not, torch.zeros_like(did_not))
            tgn.memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
            loss.backward()
            optimizer.step()
            tgn.memory.detach()
            total += loss.item() * len(batch.src)
        for module in tgn:
            module.eval()
        yield total / until


@torch.no_grad()
def average_precision(tgn: TGN, data: TemporalData, first: int, until: int) -> float:
    """How well events `first` to `until` are told from links with a random destination."""
    torch.manual_seed(0)  # the same destinations each time
    scores: list[Tensor] = []
    truth: list[Tensor] = []
    seen = 0
    for batch, score in replay(tgn, data, until):
        if seen >= first:
            some = score()
            scores += some
            truth += [torch.ones_like(some[0]), torch.zeros_like(some[1])]
        tgn.memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
        seen += len(batch.src)
    return separation.average_precision(torch.cat(scores).flatten().numpy(), torch.cat(truth).flatten().numpy() == 1)


def replay(tgn: TGN, data: TemporalData, until: int):
    """The first `until` events in batches, each with a function that scores its links before they happen."""
    tgn.memory.reset_state()
    loader = LastNeighborLoader(data.num_nodes, NEIGHBOURS)
    for first in range(0, until, BATCH):
        batch = data[first : min(first + BATCH, until)]
        yield batch, lambda batch=batch: _logits(tgn, data, batch, loader)
        loader.insert(batch.src, batch.dst)


def _logits(tgn: TGN, data: TemporalData, batch: TemporalData, loader: LastNeighborLoader) -> tuple[Tensor, Tensor]:
    """Of the links that happened, and of the same sources with random destinations."""
    others = torch.randint(int(data.dst.min()), int(data.dst.max()) + 1, (len(batch.src),))
    n_id, edge_index, e_id = loader(torch.cat([batch.src, batch.dst, others]).unique())
    place = torch.empty(data.num_nodes, dtype=torch.long)
    place[n_id] = torch.arange(len(n_id))
    z, last_update = tgn.memory(n_id)
    z = tgn.gnn(z, last_update, edge_index, data.t[e_id], data.msg[e_id])
    source, target, other = z[place[batch.src]], z[place[batch.dst]], z[place[others]]
    return tgn.link_predictor(source, target), tgn.link_predictor(source, other)


def save(tgn: TGN, path: Path) -> None:
    """The weights, without the state of the memory."""
    torch.save({name: module.state_dict() for name, module in tgn._asdict().items()}, path)


def load(path: Path, data: TemporalData) -> TGN:
    """A TGN with the weights in a file that `save` wrote."""
    weights = torch.load(path, weights_only=True)
    tgn = new_tgn(data, weights["memory"]["memory"].size(-1))
    for name, module in tgn._asdict().items():
        module.load_state_dict(weights[name])
        module.eval()
    return tgn


def main() -> None:
    import cody

    parser = argparse.ArgumentParser(description="Train a PyG TGN.")
    parser.add_argument("--data", default="collegemsg")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    data = temporal_data(cody.load(options.data))
    until = len(data.src) * 85 // 100 // BATCH * BATCH
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tgn = new_tgn(data)
    for epoch, loss in enumerate(train(tgn, data, options.epochs, until), start=1):
        print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
        save(tgn, options.out)
    print(f"average precision on the last 15 %: {average_precision(tgn, data, until, len(data.src)):.4f}")


if __name__ == "__main__":
    main()
