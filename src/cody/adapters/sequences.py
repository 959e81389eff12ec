"""Saved GraphMixers and DyGFormers as models: a link is scored by the recent events of its two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cody.adapters.history import from_steps
from cody.adapters.past import Past, recent
from cody.errors import CallError
from cody.graph import FloatArray, Query, TemporalGraph
from cody.models.contract import Model, fingerprint
from cody.models.folder import SavedModel
from cody.models.sizes import SequenceSizes, edge_width, node_width
from cody.utils.extras import needed_by

with needed_by("a GraphMixer or a DyGFormer", "train"):
    import torch

from cody.train.sequences import SEQUENCE_NETWORKS, SequenceNetwork, link_sequences


def open_saved(saved: SavedModel, graph: TemporalGraph, engine: Any = None) -> Model:
    """The model in a folder, on a graph.

    Args:
        saved: The content of the folder.
        graph: The log of events.
        engine: Not used: there is one form of these models.
    """
    sizes = saved.sizes
    assert isinstance(sizes, SequenceSizes)
    network = SEQUENCE_NETWORKS[saved.kind](sizes)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in saved.arrays.items()})
    return model_of_sequences(network, graph)


def model_of_sequences(network: SequenceNetwork, graph: TemporalGraph) -> Model:
    """A trained network as a model of a log.

    Args:
        network: The network.
        graph: The log of events.
    """
    sizes, network = network.sizes, network.double().eval().requires_grad_(False)
    network.encode.to(torch.float32)  # times are encoded in the precision of the training
    made_for, has = (sizes.edge_features, sizes.node_features), (edge_width(graph), node_width(graph))
    if made_for != has:
        raise CallError(
            f"the {network.kind} was made for {made_for[0]} features of events and {made_for[1]} of nodes; the data "
            f"have {has[0]} and {has[1]}"
        )

    @torch.no_grad()
    def of_links(links: Sequence[Query], pasts: Sequence[Past]) -> FloatArray:
        seen_on = pasts[0].graph
        ends = np.array([[link.src, link.dst] for link in links], dtype=np.int64)
        of = np.repeat(np.arange(len(pasts)), ends.size // len(pasts))
        rows = recent(pasts, of, ends.ravel(), sizes.neighbours)
        time = np.full(len(ends), links[0].time)
        inputs = link_sequences(seen_on, ends, time, rows.reshape(len(ends), 2, -1), sizes)
        inputs = inputs._replace(edge=inputs.edge.double(), node=inputs.node.double(), seen=inputs.seen.double())
        return network(inputs._replace(elapsed=inputs.elapsed.double())).numpy()

    arrays = [weight.numpy() for weight in network.state_dict().values()]
    return from_steps(
        graph,
        score=lambda query, past: float(of_links([query], [past])[0]),
        score_many=lambda query, pasts: of_links([query] * len(pasts), pasts),
        score_links=lambda links, past: of_links(links, [past]),
        identity=f"{network.kind}-{fingerprint(*arrays)}",
        hops=1,
        gives_logits=True,
    )
