"""A TGN as PyTorch Geometric's users build it, and its training: the model that the examples explain.

    python examples/pyg_tgn.py --epochs 5 --out tgn.pt

`TGNMemory` and `LastNeighborLoader` come from the library; the two modules on top of them live in each user's own
script, as here. Nothing in this file knows of CoDy except where the events come from.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.data import TemporalData
from torch_geometric.nn import TGNMemory, TransformerConv
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

BATCH, NEIGHBOURS = 200, 10


class AttentionEmbedding(nn.Module):
    """One layer of attention over recent events: their messages, and how long before the last update they were."""

    def __init__(self, width: int, out: int, message: int, encode_time: nn.Module) -> None:
        super().__init__()
        self.encode_time = encode_time
        edge = message + encode_time.out_channels
        self.attention = TransformerConv(width, out // 2, heads=2, dropout=0.1, edge_dim=edge)

    def forward(self, x: Tensor, last_update: Tensor, edge_index: Tensor, t: Tensor, msg: Tensor) -> Tensor:
        elapsed = (last_update[edge_index[0]] - t).to(x.dtype)
        return self.attention(x, edge_index, torch.cat([self.encode_time(elapsed), msg], dim=-1))


class LinkPredictor(nn.Module):
    """A perceptron on two embeddings; the result is a logit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.source, self.target, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.out((self.source(source) + self.target(target)).relu())


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


def train(tgn: TGN, data: TemporalData, epochs: int, until: int) -> list[float]:
    """Train on the first `until` events, each against a random destination. The mean loss of each epoch."""
    parameters = {parameter for module in tgn for parameter in module.parameters()}
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    losses = []
    for module in tgn:
        module.train()
    for _ in range(epochs):
        tgn.memory.reset_state()
        loader, total = LastNeighborLoader(data.num_nodes, NEIGHBOURS), 0.0
        for first in range(0, until, BATCH):
            batch = data[first : min(first + BATCH, until)]
            optimizer.zero_grad()
            loss = _loss(tgn, data, batch, loader)
            tgn.memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
            loader.insert(batch.src, batch.dst)
            loss.backward()
            optimizer.step()
            tgn.memory.detach()
            total += loss.item() * len(batch.src)
        losses.append(total / until)
    for module in tgn:
        module.eval()
    return losses


def _loss(tgn: TGN, data: TemporalData, batch: TemporalData, loader: LastNeighborLoader) -> Tensor:
    others = data.dst[torch.randint(len(data.dst), (len(batch.src),))]
    n_id, edge_index, e_id = loader(torch.cat([batch.src, batch.dst, others]).unique())
    place = torch.empty(data.num_nodes, dtype=torch.long)
    place[n_id] = torch.arange(len(n_id))
    z, last_update = tgn.memory(n_id)
    z = tgn.gnn(z, last_update, edge_index, data.t[e_id], data.msg[e_id])
    source, target, other = z[place[batch.src]], z[place[batch.dst]], z[place[others]]
    happened, did_not = tgn.link_predictor(source, target), tgn.link_predictor(source, other)
    loss = nn.functional.binary_cross_entropy_with_logits
    return loss(happened, torch.ones_like(happened)) + loss(did_not, torch.zeros_like(did_not))


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
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    data = temporal_data(cody.load(options.data))
    torch.manual_seed(0)
    tgn = new_tgn(data)
    print(train(tgn, data, options.epochs, until=len(data.src) * 85 // 100))
    save(tgn, options.out)


if __name__ == "__main__":
    main()
