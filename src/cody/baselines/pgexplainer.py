"""PGExplainer for events: a small network that scores how much each candidate matters, trained once for a model.

Reference: Luo et al., "Parameterized explainer for graph neural network", NeurIPS 2020. The scorer reads a candidate
event and the explained link: the model's own embeddings of the four nodes at the explained time, the event's features,
and the encoding of the time since.

It is trained on links of the training period and the model's own decisions. Each candidate of a link gets a random
gate: the higher its score, the more often it is open. With the candidates weighted by their gates, the model should
decide as it does with all of them, with as few open gates as possible, and gates that are clearly open or closed. The
gates are relaxed (concrete distribution), less and less from epoch to epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.differentiable import SoftModel
from cody.baselines.lessons import Lesson, Training, check_costs, decisions, draw_links
from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
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

    def forward(self, described: Tensor) -> Tensor:
        scaled = (described - self.mean) / self.scale
        return self.out(torch.relu(self.hidden(scaled))).squeeze(-1)

    def fit_scale(self, described: Sequence[Tensor]) -> None:
        """Bring embeddings, features and encodings to one scale."""
        standardize(torch.cat(list(described)), self.mean, self.scale)


def standardize(values: Tensor, mean: Tensor, scale: Tensor) -> None:
    """Set mean and scale to those of the columns. Columns that hardly vary are not magnified.

    Args:
        values: One row for each thing that is read. [n, width]
        mean: Is set. [width]
        scale: Is set. [width]
    """
    mean.copy_(values.mean(0))
    scale.copy_(values.std(0, correction=0).clamp_min(0.01))


def learned_order(model: SoftModel, scorer: Scorer) -> Policy:
    """The policy that puts the highest score first. It needs no evaluations."""

    def pgexplainer(
        graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
    ) -> IntArray:
        check_graph(graph, model)
        recent = np.sort(events)[::-1]
        with torch.no_grad():
            scores = scorer(scorer_inputs(model, [query], [recent])).numpy()
        return recent[np.argsort(-np.round(scores, 5), kind="stable")]

    return pgexplainer


def check_graph(graph: TemporalGraph, model: SoftModel) -> None:
    """Reject a graph that the model of a policy does not belong to."""
    if graph.identity != model.graph.identity:
        raise CallError(f"the model of this policy is for the graph {model.graph.identity}, not {graph.identity}")


@torch.no_grad()
def scorer_inputs(model: SoftModel, queries: Sequence[Query], events: Sequence[IntArray]) -> Tensor:
    """The inputs of the scorer for the candidates of some links, link by link. [m, 5d + F]

    Args:
        model: The model that is explained.
        queries: The links.
        events: The candidate rows of each link.
    """
    link, own = describe_events(model, queries, events)
    link_ends, event_ends = embed_ends(model, queries, events)
    return torch.cat([*event_ends.unbind(1), own, *link_ends[link].unbind(1)], dim=-1)


@torch.no_grad()
def describe_events(model: SoftModel, queries: Sequence[Query], events: Sequence[IntArray]) -> tuple[IntArray, Tensor]:
    """The link of each candidate, and its features with the encoding of the time since. [m], [m, F + d]

    Args:
        model: The model that is explained.
        queries: The links.
        events: The candidate rows of each link.
    """
    graph, rows = model.graph, np.concatenate(events).astype(np.int64)
    link = np.repeat(np.arange(len(queries)), [len(own) for own in events])
    elapsed = np.array([query.time for query in queries])[link] - graph.time[rows]
    since = model.network.encode(torch.from_numpy(elapsed.astype(np.float32)))
    return link, since if graph.features is None else torch.cat([torch.from_numpy(graph.features[rows]), since], dim=-1)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSettings(Training):
    """How to train PGExplainer's scorer."""

    scorer = Scorer
    smaller = "learning rate, size or entropy"

    size: float = 2.0  # weight of the mean gate in the loss
    entropy: float = 0.1  # weight of the gates' entropy in the loss: they should be open or closed

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        check_costs(self, "size", "entropy")

    def lessons(self, model: SoftModel) -> list[Lesson]:
        lessons = []
        for queries, events in draw_links(model, self):
            links, sizes = model.links(queries, events), torch.tensor([len(rows) for rows in events])
            share = torch.repeat_interleave(1 / (sizes * len(sizes)), sizes)
            lessons.append(Lesson(links, scorer_inputs(model, queries, events), decisions(links), share))
        return lessons

    def _event_weights(self, gates: Tensor, lesson: Lesson) -> Tensor:
        return gates

    def _penalty(self, scores: Tensor, gates: Tensor, lesson: Lesson) -> Tensor:
        return ((self.size * gates + self.entropy * _entropy(gates)) * lesson.share).sum()


def _entropy(gates: Tensor) -> Tensor:
    """The entropy of an event that happens with the gate's value as its probability, in nats."""
    gates = gates.clamp(1e-6, 1 - 1e-6)
    return -(gates * gates.log() + (1 - gates) * (1 - gates).log())
