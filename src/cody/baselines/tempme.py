"""TempME: a small network that scores temporal motifs, and through them the events of a link, trained once for a model.

Reference: Chen and Ying, "TempME: towards the explainability of temporal graph neural networks via motif discovery",
NeurIPS 2023. `motifs.py` samples the motifs, `train_tempme.py` trains the network.

    event     x = both directions of step(a + ReLU(b + W·event)); a, b: the embeddings of the event's two nodes
    motif     y = ReLU(merge[x₁, attention of x₁ over x₂ and x₃])
    score     of a motif: out·ReLU(hidden[y, kind]); its probability p is the sigmoid of that
    event     its importance is the largest p of the motifs that contain it, 0 if there are none
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.differentiable import SoftModel
from cody.baselines.motifs import KINDS, MISSING, Motifs, sample_motifs
from cody.baselines.pgexplainer import check_graph, embed_ends
from cody.graph import IntArray, Query, TemporalGraph
from cody.models.shapes import Shapes, linear
from cody.models.sizes import Sizes
from cody.search.oracle import Oracle
from cody.search.policies import Policy


class Described(NamedTuple):
    """The inputs of the network for some links with m candidates and M motifs in all."""

    event: Tensor  # [m, d + F + 3] features, encoding of the time since, how often it is event 1, 2 and 3 of a motif
    ends: Tensor  # [m, 2, d] embeddings of its source and destination, at the time of the link
    motifs: Tensor  # [M, 3] candidates, the latest first; m where there is none
    kind: Tensor  # [M]
    link: Tensor  # [M] the number of each motif's link


class MotifScorer(nn.Module):
    """From the description of some links to a score for each motif; the higher, the more it matters. → [M]"""

    FILES = "motifs"  # it is saved in motifs.json and motifs.safetensors

    mean: Tensor  # [d + F + 3] of the events it was trained on
    scale: Tensor  # [d + F + 3]
    node_mean: Tensor  # [d] of the embeddings
    node_scale: Tensor  # [d]

    def __init__(self, sizes: Sizes, hidden: int) -> None:
        super().__init__()
        width = sizes.dimension + sizes.edge_features + 3
        self.size = hidden
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.register_buffer("node_mean", torch.zeros(sizes.dimension))
        self.register_buffer("node_scale", torch.ones(sizes.dimension))
        self.event = nn.Linear(width, hidden)
        self.node = nn.Linear(sizes.dimension, hidden)
        self.step = nn.Linear(hidden, hidden)
        self.query = nn.Linear(2 * hidden, hidden)
        self.key = nn.Linear(2 * hidden, hidden)
        self.value = nn.Linear(2 * hidden, hidden)
        self.merge = nn.Linear(3 * hidden, hidden)
        self.hidden = nn.Linear(hidden + KINDS, hidden)
        self.out = nn.Linear(hidden, 1)

    @staticmethod
    def shapes(sizes: Sizes, hidden: int) -> Shapes:
        """The shapes of its weights, known without building it."""
        width = sizes.dimension + sizes.edge_features + 3
        return {
            "mean": (width,),
            "scale": (width,),
            "node_mean": (sizes.dimension,),
            "node_scale": (sizes.dimension,),
            **linear("event", width, hidden),
            **linear("node", sizes.dimension, hidden),
            **linear("step", hidden, hidden),
            **linear("query", 2 * hidden, hidden),
            **linear("key", 2 * hidden, hidden),
            **linear("value", 2 * hidden, hidden),
            **linear("merge", 3 * hidden, hidden),
            **linear("hidden", hidden + KINDS, hidden),
            **linear("out", hidden, 1),
        }

    def forward(self, described: Described) -> Tensor:
        events = self.embed_events(described)  # [m, 2h]
        events = torch.cat([events, events.new_zeros(1, events.shape[1])])  # the last stands for a missing one
        first, earlier = events[described.motifs[:, 0]], events[described.motifs[:, 1:]]  # [M, 2h], [M, 2, 2h]
        missing = described.motifs[:, 1:] == len(events) - 1  # [M, 2]
        fit = (self.query(first)[:, None] * self.key(earlier)).sum(-1) / math.sqrt(self.size)  # [M, 2]
        share = torch.softmax(fit.masked_fill(missing, -1e9), dim=-1) * ~missing
        context = (share[..., None] * self.value(earlier)).sum(1)  # [M, h]
        motif = torch.relu(self.merge(torch.cat([first, context], dim=-1)))  # [M, h]
        kind = nn.functional.one_hot(described.kind, KINDS).to(motif.dtype)
        score: Tensor = self.out(torch.relu(self.hidden(torch.cat([motif, kind], dim=-1)))).squeeze(-1)
        return score

    def embed_events(self, described: Described) -> Tensor:
        """What the events are to their two nodes. [m, 2h]"""
        event = self.event((described.event - self.mean) / self.scale)  # [m, h]
        src, dst = self.node((described.ends - self.node_mean) / self.node_scale).unbind(1)
        ways = [self.step(one + torch.relu(other + event)) for one, other in ((src, dst), (dst, src))]
        return torch.relu(torch.cat(ways, dim=-1))

    def fit_scale(self, event: Tensor, ends: Tensor) -> None:
        """Bring all that it reads to one scale. Columns that hardly vary are not magnified."""
        for values, mean, scale in (
            (event, self.mean, self.scale),
            (ends.flatten(0, 1), self.node_mean, self.node_scale),
        ):
            mean.copy_(values.mean(0))
            scale.copy_(values.std(0, correction=0).clamp_min(0.01))


def new_motif_scorer(sizes: Sizes, hidden: int, seed: int) -> MotifScorer:
    """A scorer with random weights; the same seed gives the same ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MotifScorer(sizes, hidden)


def motif_order(model: SoftModel, scorer: MotifScorer) -> Policy:
    """The policy that puts the events of the most important motifs first. It needs no evaluations.

    Equally important ones, such as the events of one motif, are in order of time, the latest first; those in no motif
    come last.
    """

    def tempme(
        graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
    ) -> IntArray:
        check_graph(graph, model)
        rows = np.sort(events)
        described = describe_motifs(model, [query], [rows], [sample_motifs(graph, query, rows, rng)])
        with torch.no_grad():
            found = importance(torch.sigmoid(scorer(described)), described).numpy()
        return rows[::-1][np.argsort(-np.round(found[::-1], 5), kind="stable")]

    return tempme


def importance(values: Tensor, described: Described) -> Tensor:
    """For each candidate the largest value of the motifs that contain it, 0 if there are none. [M] → [m]"""
    places = described.motifs.flatten()
    largest = values.new_zeros(len(described.event) + 1)  # the last stands for a missing one
    largest = largest.scatter_reduce(0, places, values.repeat_interleave(3), "amax")
    return largest[:-1]


@torch.no_grad()
def describe_motifs(
    model: SoftModel, queries: Sequence[Query], events: Sequence[IntArray], motifs: Sequence[Motifs]
) -> Described:
    """All inputs of the network for some links."""
    graph = model.graph
    rows = np.concatenate(events).astype(np.int64)
    counts = np.array([len(some) for some in events])
    starts = np.cumsum(counts) - counts
    link = np.repeat(np.arange(len(queries)), counts)
    places = [
        np.where(own.events == MISSING, len(rows), own.events + start)
        for own, start in zip(motifs, starts, strict=True)
    ]
    motif, kind = np.concatenate(places), np.concatenate([own.kind for own in motifs])
    sizes = np.array([len(own.kind) for own in motifs])
    positions = np.stack([np.bincount(column, minlength=len(rows) + 1)[:-1] for column in motif.T], axis=1)  # [m, 3]
    share = positions / np.maximum(1, sizes)[link][:, None]
    elapsed = np.array([query.time for query in queries])[link] - graph.time[rows]
    since = model.network.encode(torch.from_numpy(elapsed.astype(np.float32)))
    features = [] if graph.features is None else [torch.from_numpy(graph.features[rows])]
    return Described(
        event=torch.cat([*features, since, torch.from_numpy(share.astype(np.float32))], dim=-1),
        ends=embed_ends(model, queries, events)[1],
        motifs=torch.from_numpy(motif),
        kind=torch.from_numpy(kind),
        link=torch.from_numpy(np.repeat(np.arange(len(queries)), sizes)),
    )
