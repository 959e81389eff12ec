"""PyG models with random weights, and the plainest way to ask one: everything from the first row, for each set."""

import importlib.util
from pathlib import Path

import torch
from torch_geometric.nn.models.tgn import LastNeighborLoader

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    """A file of examples/ as a module."""
    described = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


pyg_tgn = example("pyg_tgn")


def random_tgn(graph, seed=0, width=8):
    """A TGN whose weights are large enough for every input to matter, and its events."""
    torch.manual_seed(seed)
    data = pyg_tgn.temporal_data(graph)
    tgn = pyg_tgn.TGN(*_modules(graph, data, width))
    with torch.no_grad():
        for module in tgn:
            for parameter in module.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
            module.eval()
        tgn.memory.time_enc.lin.weight.mul_(0.05)  # times are large numbers
    return tgn, data


def _modules(graph, data, width):
    from torch_geometric.nn import TGNMemory
    from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator

    messages = data.msg.size(-1)
    message = IdentityMessage(messages, width, width)
    memory = TGNMemory(graph.num_nodes, messages, width, width, message, LastAggregator())
    embedding = pyg_tgn.AttentionEmbedding(width, width, messages, memory.time_enc)
    return memory, embedding, pyg_tgn.LinkPredictor(width)


@torch.no_grad()
def naive_logit(tgn, data, query, removed, batch, neighbours):
    """What the user's own loop would say: the library's memory and loader, fed the events that are left."""
    memory, gnn, link_predictor = tgn
    memory.reset_state()
    loader = LastNeighborLoader(memory.num_nodes, neighbours)
    kept = []
    for first in range(0, query.before, batch):
        rows = [row for row in range(first, min(first + batch, query.before)) if row not in removed]
        if rows:
            memory.update_state(data.src[rows], data.dst[rows], data.t[rows], data.msg[rows])
            loader.insert(data.src[rows], data.dst[rows])
            kept += rows
    n_id, edge_index, e_id = loader(torch.tensor([query.src, query.dst]).unique())
    e_id = torch.tensor(kept, dtype=torch.long)[e_id]  # the loader counts what was inserted
    z, last_update = memory(n_id)
    z = gnn(z, last_update, edge_index, data.t[e_id], data.msg[e_id])
    place = {node: number for number, node in enumerate(n_id.tolist())}
    return float(link_predictor(z[[place[query.src]]], z[[place[query.dst]]]))


def states(tgn):
    """Everything in the modules, as one value to compare."""
    weights = [(name, tensor.numpy()) for module in tgn for name, tensor in module.state_dict().items()]
    stores = [tgn.memory.msg_s_store, tgn.memory.msg_d_store]
    messages = [tensor.tolist() for store in stores for node in sorted(store) for tensor in store[node]]
    return [(name, array.tobytes()) for name, array in weights], messages, [module.training for module in tgn]
