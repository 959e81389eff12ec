"""Modules that are called as those of TGB and TGM are, where these differ from PyG's; none of their code is here.

Both write the memory by a `memory_updater`. Of a node's messages of the same time their aggregators take the first;
TGM's compares times in single precision. TGB's link predictor ends with a sigmoid.
"""

import sys
from types import ModuleType

import torch
from torch import nn
from torch_geometric.nn import TGNMemory
from torch_geometric.nn.models.tgn import IdentityMessage

from adapters.pyg_models import pyg_tgn


class Memory(TGNMemory):
    """A memory that is written by its `memory_updater`, and has no `gru`."""

    def __init__(self, num_nodes, raw_msg_dim, memory_dim, time_dim, message_module, aggregator_module):
        super().__init__(num_nodes, raw_msg_dim, memory_dim, time_dim, message_module, aggregator_module)
        self.memory_updater = self.gru
        del self.gru

    def _get_updated_memory(self, n_id):
        self._assoc[n_id] = torch.arange(len(n_id))
        sides = (self.msg_s_store, self.msg_s_module), (self.msg_d_store, self.msg_d_module)
        parts = zip(*(self._compute_msg(n_id, *side)[:3] for side in sides), strict=True)
        messages, times, nodes = (torch.cat(part) for part in parts)
        chosen = self.aggr_module(messages, self._assoc[nodes], times, len(n_id))
        updated = torch.zeros_like(self.last_update).scatter_reduce(0, nodes, times, "amax")
        return self.memory_updater(chosen, self.memory[n_id]), updated[n_id]


class FirstOfTheLatest(nn.Module):
    """Of each node the message with the latest time; of several, the first."""

    def forward(self, msg, index, t, dim_size):
        chosen = msg.new_zeros(dim_size, msg.size(-1))
        for node in index.unique():
            places = (index == node).nonzero().flatten()
            chosen[node] = msg[places[(t[places] == t[places].max()).nonzero()[0]]]
        return chosen


class InSinglePrecision(FirstOfTheLatest):
    def forward(self, msg, index, t, dim_size):
        return super().forward(msg, index, t.float(), dim_size)


class Embedding(pyg_tgn.AttentionEmbedding):
    def __init__(self, in_channels, out_channels, msg_dim, time_enc):
        super().__init__(in_channels, out_channels, msg_dim, time_enc)


class Chance(pyg_tgn.LinkPredictor):
    """TGB's: a probability."""

    def __init__(self, in_channels):
        super().__init__(in_channels)

    def forward(self, z_src, z_dst):
        return super().forward(z_src, z_dst).sigmoid()


class Decoder(nn.Module):
    """TGM's: one number for each link, not a column of them."""

    def __init__(self, node_dim, hidden_dim=64):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2 * node_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 1))

    def forward(self, z_src, z_dst):
        return self.model(torch.cat([z_src, z_dst], dim=1)).view(-1)


class Data:
    """The events of a graph, as either library has them."""

    def __init__(self, graph):
        self.temporal = pyg_tgn.temporal_data(graph)
        self.edge_index = torch.stack([self.temporal.src, self.temporal.dst], dim=1).int()
        self.time, self.edge_x = self.temporal.t, self.temporal.msg
        self.edge_mask = torch.arange(len(self.time))

    def get_TemporalData(self):  # noqa: N802
        return self.temporal


def install_tgb(monkeypatch, graph):
    """Let the names that users import from TGB mean the classes here."""
    _install(monkeypatch, "modules.decoder", LinkPredictor=Chance)
    _install(monkeypatch, "modules.emb_module", GraphAttentionEmbedding=Embedding)
    _install(monkeypatch, "modules.memory_module", TGNMemory=Memory)
    _install(monkeypatch, "modules.msg_agg", LastAggregator=FirstOfTheLatest)
    _install(monkeypatch, "modules.msg_func", IdentityMessage=IdentityMessage)
    _install(monkeypatch, "tgb.linkproppred.dataset_pyg", PyGLinkPropPredDataset=lambda name, root: Data(graph))


def install_tgm(monkeypatch, graph):
    """The same for TGM."""
    parts = {"GraphAttentionEmbedding": Embedding, "IdentityMessage": IdentityMessage}
    _install(monkeypatch, "tgm.nn.encoder.tgn", LastAggregator=InSinglePrecision, **parts)
    _install(monkeypatch, "tgm.nn", LinkPredictor=Decoder, TGNMemory=Memory)
    _install(monkeypatch, "tgm.data", DGData=type("DGData", (), {"from_tgb": staticmethod(lambda name: Data(graph))}))


def _install(monkeypatch, name, **contents):
    parents = name.split(".")[:-1]
    for place in range(len(parents)):
        package = ".".join(parents[: place + 1])
        if package not in sys.modules:
            monkeypatch.setitem(sys.modules, package, ModuleType(package))
    module = ModuleType(name)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name, module)
