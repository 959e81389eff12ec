"""TempME: a small network that scores temporal motifs, and through them the events of a link, trained once for a model.

Reference: Chen and Ying, "TempME: towards the explainability of temporal graph neural networks via motif discovery",
NeurIPS 2023.

A temporal motif is up to three past events that hang together and end at a node of a link, the latest first. Event 1
touches an end of the link, event 2 is earlier and touches event 1, event 3 is earlier still and lies among the nodes of
the other two. `end` is the end of the link, `other` the other node of event 1, `third` the node that event 2 brings in:

    event 2   the same pair as event 1 | end and third | other and third
    event 3   none | end and other | end and third | other and third

These are 12 kinds. An event 1 that nothing precedes is a motif of its own, of the 13th kind. The network reads:

    event     x = both directions of step(a + ReLU(b + W·event)); a, b: the embeddings of the event's two nodes
    motif     y = ReLU(merge[x₁, attention of x₁ over x₂ and x₃])
    score     of a motif: out·ReLU(hidden[y, kind]); its probability p is the sigmoid of that
    event     its importance is the largest p of the motifs that contain it, 0 if there are none

The network is trained on links of the training period and the model's own decisions. Each motif of a link gets a random
gate: the higher its score, the more often it is open. An event has the weight of the widest gate among its motifs, and
those in no motif have none. With the candidates weighted so, the model should decide as it does with all of them. What
keeps the gates from all being open is a null model:

    loss = cross-entropy(logit with these weights, decision) + cost · KL
    KL   = (1 - s) · log((1 - s) / (1 - prior)) + Σ_c q_c · log(q_c / (prior · f_c))

p is the probability that a motif's gate is open; s = mean p; q_c = the sum of p over the motifs of kind c, divided by
the number of motifs, so that s = Σ q_c; f_c = the frequency of kind c by chance (`null_frequencies`). In all means,
every link of a batch counts the same. The divergence is 0 if a share `prior` of the gates is open, of each kind as many
as expected by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.differentiable import SoftModel
from cody.baselines.lessons import Lesson, Training, check_costs, decisions, draw_links
from cody.baselines.pgexplainer import check_graph, describe_events, embed_ends, standardize
from cody.errors import CallError
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.models.sizes import Sizes
from cody.search.oracle import Oracle
from cody.search.policies import Policy

MISSING = -1  # in place of an event
KINDS = 13  # of motifs
ALONE = 12  # the kind of a single event
FIRST, DRAWS = 20, 3  # events 1 for each end of a link; events 2 for each of them


class Motifs(NamedTuple):
    """The motifs of one link."""

    events: IntArray  # [M, 3] places among the candidates, the latest first; MISSING where there is none
    kind: IntArray  # [M]


def sample_motifs(
    graph: TemporalGraph,
    query: Query,
    events: IntArray,
    rng: np.random.Generator,
    *,
    first: int = FIRST,
    draws: int = DRAWS,
) -> Motifs:
    """Motifs among the candidates of a link, which must be in the order of time.

    Each of the latest `first` candidates at an end of the link is event 1 of up to `draws` motifs.
    """
    return _sample(graph.src[events], graph.dst[events], query, rng, first, draws)


def null_frequencies(
    graph: TemporalGraph, queries: Sequence[Query], events: Sequence[IntArray], rng: np.random.Generator
) -> FloatArray:
    """How frequent each kind would be by chance: the candidates of a link keep their times and swap destinations.

    Every link counts the same. One motif of each kind is added, so that no frequency is 0. [KINDS]
    """
    total, links = np.ones(KINDS) / KINDS, 1
    for query, rows in zip(queries, events, strict=True):
        _, kind = _sample(graph.src[rows], rng.permutation(graph.dst[rows]), query, rng, FIRST, DRAWS)
        if len(kind):
            total, links = total + np.bincount(kind, minlength=KINDS) / len(kind), links + 1
    return total / links


def _sample(src: IntArray, dst: IntArray, query: Query, rng: np.random.Generator, first: int, draws: int) -> Motifs:
    found: list[tuple[int, int, int]] = []
    kinds: list[int] = []
    for end in dict.fromkeys((query.src, query.dst)):
        latest = np.flatnonzero((src == end) | (dst == end))[::-1][:first]
        for one in latest.tolist():
            touching = np.flatnonzero(_ends_among(src[:one], dst[:one], (src[one], dst[one])).any(axis=0))
            for two in _draw(touching, draws, rng):
                nodes = src[one], dst[one], src[two], dst[two]
                within = np.flatnonzero(_ends_among(src[:two], dst[:two], nodes).all(axis=0))
                three = _draw(within, 1, rng)[0] if two != MISSING else MISSING
                found.append((one, two, three))
                kinds.append(kind_of(end, _pair(src, dst, one), _pair(src, dst, two), _pair(src, dst, three)))
    return Motifs(np.array(found, dtype=np.int64).reshape(-1, 3), np.array(kinds, dtype=np.int64))


def _ends_among(src: IntArray, dst: IntArray, nodes: Sequence[int]) -> BoolArray:
    """Which ends of events are among the nodes. [2, n]"""
    return np.array([(ends[:, None] == np.array(nodes)).any(axis=1) for ends in (src, dst)])


def _draw(places: IntArray, count: int, rng: np.random.Generator) -> list[int]:
    """Up to `count` different ones; MISSING if there is none."""
    drawn: list[int] = rng.permutation(places)[:count].tolist()
    return drawn or [MISSING]


def _pair(src: IntArray, dst: IntArray, place: int) -> set[int]:
    return set() if place == MISSING else {int(src[place]), int(dst[place])}


def kind_of(end: int, one: set[int], two: set[int], three: set[int]) -> int:
    """The kind of a motif whose events connect these nodes: two each, one if it begins where it ends, none if missing.

    >>> a, b, c = 0, 1, 2
    >>> kind_of(a, {a, b}, set(), set()), kind_of(a, {a, b}, {a, b}, set()), kind_of(a, {a, b}, {b, c}, {a, c})
    (12, 0, 10)
    """
    if not two:
        return ALONE
    shape = 0 if two == one else 1 if end in two else 2
    if not three:
        return 4 * shape
    third = two - one
    place = 1 if three <= one else 2 if three <= {end} | third else 3
    return 4 * shape + place


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
        return self.out(torch.relu(self.hidden(torch.cat([motif, kind], dim=-1)))).squeeze(-1)

    def embed_events(self, described: Described) -> Tensor:
        """What the events are to their two nodes. [m, 2h]"""
        event = self.event((described.event - self.mean) / self.scale)  # [m, h]
        src, dst = self.node((described.ends - self.node_mean) / self.node_scale).unbind(1)
        ways = [self.step(one + torch.relu(other + event)) for one, other in ((src, dst), (dst, src))]
        return torch.relu(torch.cat(ways, dim=-1))

    def fit_scale(self, described: Sequence[Described]) -> None:
        """Bring all that it reads to one scale."""
        standardize(torch.cat([one.event for one in described]), self.mean, self.scale)
        standardize(torch.cat([one.ends for one in described]).flatten(0, 1), self.node_mean, self.node_scale)


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
    link, features = describe_events(model, queries, events)
    starts = np.searchsorted(link, np.arange(len(queries)))
    places = [
        np.where(own.events == MISSING, len(link), own.events + start)
        for own, start in zip(motifs, starts, strict=True)
    ]
    motif, kind = np.concatenate(places), np.concatenate([own.kind for own in motifs])
    sizes = np.array([len(own.kind) for own in motifs])
    positions = np.stack([np.bincount(column, minlength=len(link) + 1)[:-1] for column in motif.T], axis=1)  # [m, 3]
    share = positions / np.maximum(1, sizes)[link][:, None]
    return Described(
        event=torch.cat([features, torch.from_numpy(share.astype(np.float32))], dim=-1),
        ends=embed_ends(model, queries, events)[1],
        motifs=torch.from_numpy(motif),
        kind=torch.from_numpy(kind),
        link=torch.from_numpy(np.repeat(np.arange(len(queries)), sizes)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifSettings(Training):
    """How to train TempME's network. Every other link has a destination that was drawn at random."""

    scorer = MotifScorer
    smaller = "learning rate or divergence"

    hidden: int = 32
    prior: float = 0.05  # share of open gates that costs nothing
    divergence: float = 0.5  # weight of the divergence from the null model in the loss
    temperature: tuple[float, float] = (1.0, 0.3)

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        check_costs(self, "divergence")
        if not 0 < self.prior < 1:
            raise CallError(f"prior must be above 0 and below 1, not {self.prior}")

    def lessons(self, model: SoftModel) -> list[Lesson]:
        """Each knows also how frequent the kinds of motifs would be by chance, which all of them share."""
        batches = list(draw_links(model, self, strangers=True))
        rng = np.random.default_rng([self.seed, 3])
        lessons = [_lesson(model, queries, events, rng) for queries, events in batches]
        queries = [query for some, _ in batches for query in some]
        events = [rows for _, some in batches for rows in some]
        by_chance = null_frequencies(model.graph, queries, events, rng)
        frequencies = torch.from_numpy(by_chance.astype(np.float32))
        return [lesson._replace(frequencies=frequencies) for lesson in lessons]

    def _event_weights(self, gates: Tensor, lesson: Lesson) -> Tensor:
        return importance(gates, lesson.described)

    def _penalty(self, scores: Tensor, gates: Tensor, lesson: Lesson) -> Tensor:
        return self.divergence * divergence(scores, lesson, self.prior)


def _lesson(model: SoftModel, queries: list[Query], events: list[IntArray], rng: np.random.Generator) -> Lesson:
    motifs = [sample_motifs(model.graph, query, rows, rng) for query, rows in zip(queries, events, strict=True)]
    links, described = model.links(queries, events), describe_motifs(model, queries, events, motifs)
    counts = torch.bincount(described.link, minlength=len(queries))  # [Q]
    share = 1 / (counts[described.link] * max(1, int((counts > 0).sum())))
    return Lesson(links, described, decisions(links), share)


def divergence(scores: Tensor, lesson: Lesson, prior: float) -> Tensor:
    """The divergence of the open gates from the null model, in nats. [M] → []"""
    if not len(scores):
        return scores.sum()  # 0, and its gradient too
    probability = torch.sigmoid(scores).clamp(1e-6, 1 - 1e-6) * lesson.share  # [M]
    of_kind = probability.new_zeros(KINDS).index_add(0, lesson.described.kind, probability)  # [KINDS]
    closed = 1 - of_kind.sum()
    expected = prior * lesson.frequencies  # [KINDS]
    present = of_kind > 0  # a kind that does not occur adds nothing
    opened = of_kind[present] * torch.log(of_kind[present] / expected[present])
    return closed * torch.log(closed / (1 - prior)) + opened.sum()
