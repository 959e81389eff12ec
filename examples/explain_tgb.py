"""Why does my TGB TGN predict this link? In a clone of TGB, with what its TGN example saved:

    python explain_tgb.py saved_models/TGN_tgbl-wiki_1_0.pth 150000

TGB is a package (`py-tgb`) for the data and a clone for the `modules`. Its link predictor ends with a sigmoid.
"""

import sys

import torch
from modules.decoder import LinkPredictor
from modules.emb_module import GraphAttentionEmbedding
from modules.memory_module import TGNMemory
from modules.msg_agg import LastAggregator
from modules.msg_func import IdentityMessage
from tgb.linkproppred.dataset_pyg import PyGLinkPropPredDataset

import cody
from cody.adapters import pyg


def trained(weights="tgn.pth", name="tgbl-wiki"):
    data = PyGLinkPropPredDataset(name=name, root="datasets").get_TemporalData()
    saved = torch.load(weights, weights_only=True)
    width, messages = saved["memory"]["memory"].size(-1), data.msg.size(-1)
    message = IdentityMessage(messages, width, width)
    memory = TGNMemory(
        data.num_nodes, messages, width, width, message_module=message, aggregator_module=LastAggregator()
    )
    gnn = GraphAttentionEmbedding(in_channels=width, out_channels=width, msg_dim=messages, time_enc=memory.time_enc)
    link_pred = LinkPredictor(in_channels=width)
    for part, module in (("memory", memory), ("gnn", gnn), ("link_pred", link_pred)):
        module.load_state_dict(saved[part])
    return pyg.wrap(
        memory=memory, gnn=gnn, link_predictor=link_pred, data=data, batch=200, neighbours=10, probabilities=True
    )


if __name__ == "__main__":
    model = trained(sys.argv[1])
    why = cody.explain(model, model.graph, model.graph.query(int(sys.argv[2])))
    print(why.sentence)
