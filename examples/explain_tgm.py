"""Why does my TGM TGN predict this link? With the state dicts of memory, encoder and decoder in one file:

    python examples/explain_tgm.py tgn.pt 150000

TGM's TGN example draws edges from a node to its recent neighbours, where PyG and TGB draw them from the neighbours to
the node; so `Turned` turns those of the adapter. If your own loop draws them as PyG does, leave it out.
"""

import sys
from types import SimpleNamespace

import torch
from tgm.data import DGData
from tgm.nn import LinkPredictor, TGNMemory
from tgm.nn.encoder.tgn import GraphAttentionEmbedding, IdentityMessage, LastAggregator
from torch import nn

import cody
from cody.adapters import pyg


class Turned(nn.Module):
    """An encoder that gets its edges the other way round."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, z, last_update, edge_index, t, msg):
        return self.encoder(z, last_update, edge_index.flip(0), t, msg)


def trained(weights="tgn.pt", name="tgbl-wiki"):
    data = DGData.from_tgb(name)
    saved = torch.load(weights, weights_only=True)
    width, messages = saved["memory"]["memory"].size(-1), data.edge_x.size(-1)
    message = IdentityMessage(messages, width, width)
    memory = TGNMemory(
        len(saved["memory"]["memory"]),
        messages,
        width,
        width,
        message_module=message,
        aggregator_module=LastAggregator(),
    )
    encoder = GraphAttentionEmbedding(in_channels=width, out_channels=width, msg_dim=messages, time_enc=memory.time_enc)
    decoder = LinkPredictor(node_dim=width, hidden_dim=width)
    for part, module in (("memory", memory), ("encoder", encoder), ("decoder", decoder)):
        module.load_state_dict(saved[part])
    src, dst = data.edge_index.long().T
    events = SimpleNamespace(src=src, dst=dst, t=data.time[data.edge_mask], msg=data.edge_x)
    return pyg.wrap(memory=memory, gnn=Turned(encoder), link_predictor=decoder, data=events, batch=200, neighbours=10)


if __name__ == "__main__":
    model = trained(sys.argv[1])
    why = cody.explain(model, model.graph, model.graph.query(int(sys.argv[2])))
    print(why.sentence)
