"""PGExplainer for events: a small network that scores how much each candidate matters, trained once for a model.

Reference: Luo et al., "Parameterized explainer for graph neural network", NeurIPS 2020. The scorer reads a candidate
event and the explained link: the model's own embeddings of the four nodes at the explained time, the event's features,
and the encoding of the time since. `train.py` trains it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.differentiable import SoftModel
from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.models.shapes import Shapes, linear
from cody.models.sizes import Sizes
from cody.search.oracle import Oracle
from cody.search.policies import Policy


class Scorer(nn.Module):
    """From the description of a candidate to its score; the higher, the more it matters. [m, width] → [m]"""

    FILES = "explainer"  # it is saved in explainer.json and explainer.safetensors

    mean: Tensor  # [width] of the descriptions it was trained on
    scale: Tensor  # [width]

    def __init__(self, sizes: Sizes, hidden: int) -> None:
        super().__init__()
        width = 5 * sizes.dimension + sizes.edge_features
        self.size = hidden
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.hidden = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, 1)

    @staticmethod
    def shapes(sizes: Sizes, hidden: int) -> Shapes:
        """The shapes of its weights, known without building it."""
        width = 5 * sizes.dimension + sizes.edge_features
        return {"mean": (width,), "scale": (width,), **linear("hidden", width, hidden), **linear("out", hidden, 1)}

    def forward(self, described: Tensor) -> Tensor:
        scaled = (described - self.mean) / self.scale
        score: Tensor = self.out(torch.relu(self.hidden(scaled))).squeeze(-1)
        return score

    def fit_scale(self, described: Tensor) -> None:
        """Bring embeddings, features and encodings to one scale. Columns that hardly vary are not magnified."""
        self.mean.copy_(described.mean(0))
        self.scale.copy_(described.std(0, correction=0).clamp_min(0.01))


def new_scorer(sizes: Sizes, hidden: int, seed: int) -> Scorer:
    """A scorer with random weights.

    Args:
        sizes: Sizes of the explained network.
        hidden: Width of the hidden layer.
        seed: The same seed gives the same weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Scorer(sizes, hidden)


def learned_order(model: SoftModel, scorer: Scorer) -> Policy:
    """The policy that puts the highest score first. It needs no evaluations."""

    def pgexplainer(
        graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
    ) -> IntArray:
        check_graph(graph, model)
        recent = np.sort(events)[::-1]
        with torch.no_grad():
            scores = scorer(describe(model, [query], [recent])).numpy()
        return recent[np.argsort(-np.round(scores, 5), kind="stable")]

    return pgexplainer


def check_graph(graph: TemporalGraph, model: SoftModel) -> None:
    """Reject a graph that the model of a policy does not belong to."""
    if graph.identity != model.graph.identity:
        raise CallError(f"the model of this policy is for the graph {model.graph.identity}, not {graph.identity}")


@torch.no_grad()
def describe(model: SoftModel, queries: Sequence[Query], events: Sequence[IntArray]) -> Tensor:
    """The inputs of the scorer for the candidates of some links, link by link. [m, 5d + F]

    Args:
        model: The model that is explained.
        queries: The links.
        events: The candidate rows of each link.
    """
    graph = model.graph
    rows = np.concatenate(events).astype(np.int64)
    link = np.repeat(np.arange(len(queries)), [len(own) for own in events])
    link_ends, event_ends = embed_ends(model, queries, events)
    edge = [] if graph.features is None else [torch.from_numpy(graph.features[rows])]
    elapsed = np.array([query.time for query in queries])[link] - graph.time[rows]
    since = model.network.encode(torch.from_numpy(elapsed.astype(np.float32)))
    return torch.cat([*event_ends.unbind(1), *edge, since, *link_ends[link].unbind(1)], dim=-1)


@torch.no_grad()
def embed_ends(model: SoftModel, queries: Sequence[Query], events: Sequence[IntArray]) -> tuple[Tensor, Tensor]:
    """The model's embeddings of the two nodes of each link and of each candidate. [Q, 2, d], [m, 2, d]

    All are as of the time of the link.

    Args:
        model: The model that is explained.
        queries: The links.
        events: The candidate rows of each link.
    """
    graph = model.graph
    counts = [len(rows) for rows in events]
    rows = np.concatenate(events).astype(np.int64)
    link = np.repeat(np.arange(len(queries)), counts)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Two places for the nodes of the link, then two for each candidate; unused places repeat the source.
    nodes = np.repeat(np.array([[query.src] for query in queries]), 2 + 2 * max(counts, default=0), axis=1)
    nodes[:, 1] = [query.dst for query in queries]
    nodes[link, 2 + 2 * place], nodes[link, 3 + 2 * place] = graph.src[rows], graph.dst[rows]
    embeddings = model.embed(queries, nodes)  # [Q, R, d]
    own = torch.stack([embeddings[link, 2 + 2 * place], embeddings[link, 3 + 2 * place]], dim=1)
    return embeddings[:, :2], own
