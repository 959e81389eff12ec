"""Logits as a differentiable function of a weight for each event, for explainers that are trained by gradients.

Each candidate event of a link has a weight from 0 to 1, best thought of as the probability that it happened; all other
events are certain.

- Attention: a weight multiplies the event's attention before normalization, and the result of a node is multiplied by
  the probability that it had any event (`Hop.weight`).
- Memory: a node's memory is the mean of its possible versions, each with the probability that its event was the node's
  last one. The encoding of the time since its last update is the mean with the same weights.

With all weights 1 this is the model's logit. With weights 0 and 1 it is the logit without the events of weight 0,
except in one respect: where a node has more events than it attends to, a removed one makes room for an older one, and
one of weight 0 does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from cody.engine.fast import FastTGAT
from cody.engine.lineage import NO_VERSION, Lineage
from cody.engine.masks import EditableEvents
from cody.engine.tgn import FastTGN
from cody.engine.versions import index_of, latest_event
from cody.engine.weights import Weights
from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.grid import Grid
from cody.models.contract import Model, label_task
from cody.train.architectures import ARCHITECTURES, TGN, Network
from cody.train.layers import EmbeddingPlan, plan


@dataclass(frozen=True, slots=True)
class Chains:
    """For n memories, the possible versions of each: it is the first one whose event happened.

    t = versions in all chains, L = length of the longest. The last event of a chain is certain.
    """

    weight: Tensor  # [n, L] place of the weight of each version's event; beyond the end of a chain, that of certainty
    valid: Tensor  # [n, L] False beyond the end of a chain
    owner: Tensor  # [t] the memory that each version belongs to
    version: Tensor  # [t] ids

    def probabilities(self, weights: Tensor) -> Tensor:
        """The probability of each version. [m + 1] → [t]"""
        happened = weights[self.weight]  # [n, L]
        none_before = torch.cumprod(1 - happened, dim=1)
        none_before = torch.cat([torch.ones_like(happened[:, :1]), none_before[:, :-1]], dim=1)
        return (happened * none_before)[self.valid]

    def mean(self, probabilities: Tensor, values: Tensor) -> Tensor:
        """The mean of the versions' values. [t], [t, d] → [n, d]"""
        sums = values.new_zeros(len(self.weight), values.shape[1])
        return sums.index_add(0, self.owner, probabilities[:, None] * values)


class Generation(NamedTuple):
    """g versions that can be computed together from those of earlier generations."""

    own: Chains
    other: Chains
    elapsed: Tensor  # [t of own] from each possible last update of the node to the event
    edge: Tensor | None  # [g, F]


@dataclass(frozen=True, slots=True)
class SoftMemory:
    """How to compute the memories of some nodes from the weights. Id 0 is the empty memory."""

    known: IntArray  # [k] indices of versions that no weight changes; their ids are 1 … k
    generations: list[Generation]  # their ids follow
    latest: Chains  # of the requested nodes

    def read(self, model: SoftModel, weights: Tensor) -> Tensor:
        """The memory of each node. [m + 1] → [n, d]"""
        network, known = cast(TGN, model.network), model.read_versions(self.known)
        values = torch.cat([known.new_zeros(1, network.sizes.dimension), known])
        for own, other, elapsed, edge in self.generations:
            probabilities = own.probabilities(weights)
            own_memory = own.mean(probabilities, values[own.version])
            since = own.mean(probabilities, network.encode(elapsed))
            other_memory = other.mean(other.probabilities(weights), values[other.version])
            values = torch.cat([values, network.remember_since(own_memory, other_memory, edge, since)])
        return self.latest.mean(self.latest.probabilities(weights), values[self.latest.version])


@dataclass(frozen=True, slots=True)
class SoftLinks:
    """Some links, ready to be scored with any weights of their m candidate events."""

    model: SoftModel
    plan: EmbeddingPlan
    weight: list[Tensor]  # of each hop: [n, K] place of each event's weight; m: it is certain
    memory: SoftMemory | None  # of the planned nodes
    sizes: list[int]  # candidates of each link; they sum to m

    def logits(self, weights: Tensor) -> Tensor:
        """One logit for each link. The weights of all candidates, link by link [m] → [Q]"""
        weights = torch.cat([weights, weights.new_ones(1)])
        hops = [hop._replace(weight=weights[where]) for hop, where in zip(self.plan.hops, self.weight, strict=True)]
        memory = None if self.memory is None else self.memory.read(self.model, weights)
        inputs = self.model.add_features(self.plan.nodes, memory)
        embeddings = self.model.network.embed(self.plan._replace(hops=hops), inputs)  # [Q, 2, d]
        return self.model.network.score(embeddings[:, 0], embeddings[:, 1]).squeeze(-1)


class SoftModel:
    """A fast model in a form that gradients can flow through. Single precision is enough for training."""

    def __init__(self, model: Model, *, dtype: torch.dtype = torch.float32) -> None:
        if not isinstance(model, FastTGN | FastTGAT):
            raise CallError(f"gradients are available only for the TGN and TGAT of this package, not for {model!r}")
        if (task := label_task(model)) is not None:
            raise CallError(
                "explainers that learn from gradients support only whether a link is predicted (threshold 0.5); this "
                f"model predicts labels of {task.about}s"
            )
        self.fast = model
        self.graph = model.graph
        self.dtype = dtype
        self.network = _network(model.weights, dtype)
        features = model.features
        self.features = None if features is None else torch.from_numpy(features).to(dtype)  # [N, d]

    def links(self, queries: Sequence[Query], events: Sequence[IntArray]) -> SoftLinks:
        """Prepare links with their candidate events: computes, once, all that does not depend on weights."""
        plan_ = self._plan(queries, np.array([[query.src, query.dst] for query in queries], dtype=np.int64))
        keys = np.concatenate([number * self.graph.num_events + rows for number, rows in enumerate(events)])
        weight = [torch.from_numpy(_places(keys.astype(np.int64), hop)) for hop in plan_.events]
        memory = _soft_memory(self.fast, queries, events, plan_, self.dtype) if isinstance(self.fast, FastTGN) else None
        return SoftLinks(self, plan_, weight, memory, [len(rows) for rows in events])

    @torch.no_grad()
    def embed(self, queries: Sequence[Query], nodes: IntArray) -> Tensor:
        """Embeddings of some nodes for each query, with nothing changed. [Q, R] → [Q, R, d]"""
        plan_ = self._plan(queries, nodes)
        memory = None
        if isinstance(self.fast, FastTGN):
            rows = latest_event(self.graph, plan_.nodes, plan_.before)
            known = rows >= 0
            memory = torch.zeros(len(rows), self.network.sizes.dimension, dtype=self.dtype)
            memory[torch.from_numpy(known)] = self.read_versions(index_of(self.graph, rows[known], plan_.nodes[known]))
        return self.network.embed(plan_, self.add_features(plan_.nodes, memory))

    def read_versions(self, index: IntArray) -> Tensor:
        """The versions of a TGN's memories with nothing changed. [n] → [n, d]"""
        return torch.from_numpy(cast(FastTGN, self.fast).read_versions(index)).to(self.dtype)

    def add_features(self, nodes: IntArray, memory: Tensor | None) -> Tensor | None:
        """The layer-0 inputs of nodes, None where all are zero. [n], [n, d] → [n, d]"""
        if self.features is None:
            return memory
        features = self.features[torch.from_numpy(nodes)]
        return features if memory is None else memory + features

    def _plan(self, queries: Sequence[Query], roots: IntArray) -> EmbeddingPlan:
        time, before = np.array([query.time for query in queries]), np.array([query.before for query in queries])
        plan_ = plan(self.graph, roots, time, before, self.network.sizes.layers, self.network.sizes.neighbours)
        return plan_._replace(hops=[hop._replace(elapsed=hop.elapsed.to(self.dtype)) for hop in plan_.hops])


def _network(weights: Weights, dtype: torch.dtype) -> Network:
    """The network of these weights, frozen, computing in `dtype`."""
    network = ARCHITECTURES[weights.kind](weights.sizes)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.arrays.items()})
    network.to(dtype).eval().requires_grad_(False)
    network.encode.to(torch.float32)  # times are encoded in the precision of the training
    return network


def _places(keys: IntArray, wanted: IntArray) -> IntArray:
    """The place of each wanted number among the m keys; m where it is not one of them."""
    order = np.argsort(keys)
    if not len(order):
        return np.zeros_like(wanted)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, place, len(keys))


Key = tuple[int, int]  # (number of the link, index of the version); SHARED if no weight changes the version
Chain = list[tuple[Key, int]]  # versions, latest first, each with the place of its event's weight
SHARED = -1


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How to compute a version that depends on weights."""

    key: Key
    row: int
    own: Chain
    other: Chain


def _soft_memory(
    model: FastTGN, queries: Sequence[Query], events: Sequence[IntArray], plan_: EmbeddingPlan, dtype: torch.dtype
) -> SoftMemory:
    certain = sum(len(rows) for rows in events)
    latest: list[Chain] = [[] for _ in plan_.nodes]
    generations: list[list[_Recipe]] = []
    first = 0
    for number, (query, rows) in enumerate(zip(queries, events, strict=True)):
        places = {row: first + place for place, row in enumerate(rows.tolist())}
        first += len(rows)
        own = np.flatnonzero(plan_.question == number)
        lineage = _SoftLineage(model, query, number, plan_.nodes[own], places, certain)
        for place, version in zip(own.tolist(), lineage.lineage.latest.tolist(), strict=True):
            latest[place] = lineage.chain(version)
        lineage.add_to(generations)
    return _assemble(model.graph, generations, latest, dtype)


class _SoftLineage:
    """The versions that the memories of one link are computed from."""

    def __init__(
        self, model: FastTGN, query: Query, number: int, nodes: IntArray, places: dict[int, int], certain: int
    ) -> None:
        editable = EditableEvents(model.graph, query, places)
        self.lineage = Lineage.of(model.graph, Grid(model.weights.sizes.batch), query, editable, nodes)
        self.number = number
        self.places = places  # row of a candidate → place of its weight
        self.certain = certain  # place of the weight 1

    def chain(self, version: int) -> Chain:
        """The possible versions of a memory, from `version` backwards."""
        lineage, chain = self.lineage, list[tuple[Key, int]]()
        while lineage.bit[version] >= 0:
            chain.append((self._key(version), self.places[int(lineage.row[version])]))
            version = int(lineage.previous[version])
        return [*chain, (self._key(version), self.certain)]

    def _key(self, version: int) -> Key:
        lineage = self.lineage
        return (self.number if lineage.parents[version].any() else SHARED, int(lineage.index[version]))

    def add_to(self, generations: list[list[_Recipe]]) -> None:
        """Put each version that depends on weights into the first generation after all those it is computed from."""
        level: dict[Key, int] = {}
        lineage = self.lineage
        for version in np.flatnonzero(lineage.parents.any(axis=1)).tolist():  # in the order of their rows
            own, other = self.chain(int(lineage.own[version])), self.chain(int(lineage.other[version]))
            recipe = _Recipe(self._key(version), int(lineage.row[version]), own, other)
            needed = (level.get(key, -1) for key, _ in recipe.own + recipe.other)
            level[recipe.key] = 1 + max(needed)
            if level[recipe.key] == len(generations):
                generations.append([])
            generations[level[recipe.key]].append(recipe)


def _assemble(
    graph: TemporalGraph, generations: list[list[_Recipe]], latest: list[Chain], dtype: torch.dtype
) -> SoftMemory:
    """Number all versions, those that no weight changes first, and turn the lists into tensors."""
    recipes = [recipe for generation in generations for recipe in generation]
    chains = [*latest, *(recipe.own for recipe in recipes), *(recipe.other for recipe in recipes)]
    used = {key for chain in chains for key, _ in chain}
    known = sorted(index for owner, index in used if owner == SHARED and index != NO_VERSION)
    keys = [(SHARED, NO_VERSION), *((SHARED, index) for index in known), *(recipe.key for recipe in recipes)]
    ids = {key: number for number, key in enumerate(keys)}
    columns: list[Generation] = []
    for generation in generations:
        rows = np.array([recipe.row for recipe in generation])
        own = _chains([recipe.own for recipe in generation], ids)
        updated = np.array([index for recipe in generation for (_, index), _ in recipe.own])
        updates = np.where(updated == NO_VERSION, 0.0, graph.time[updated // 2])
        elapsed = torch.from_numpy(graph.time[rows][own.owner.numpy()] - updates).to(dtype)
        edge = None if graph.features is None else torch.from_numpy(graph.features[rows]).to(dtype)
        columns.append(Generation(own, _chains([recipe.other for recipe in generation], ids), elapsed, edge))
    return SoftMemory(np.array(known, dtype=np.int64), columns, _chains(latest, ids))


def _chains(chains: list[Chain], ids: dict[Key, int]) -> Chains:
    lengths = np.array([len(chain) for chain in chains])
    weight = np.zeros((len(chains), int(lengths.max())), dtype=np.int64)
    valid = np.arange(weight.shape[1]) < lengths[:, None]
    weight[valid] = [place for chain in chains for _, place in chain]
    weight = np.where(valid, weight, weight.max())  # the last place is that of certainty
    version = np.array([ids[key] for chain in chains for key, _ in chain])
    owner = np.repeat(np.arange(len(chains)), lengths)
    return Chains(*(torch.from_numpy(column) for column in (weight, valid, owner, version)))
