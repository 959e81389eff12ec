"""Exact answers for many removal sets at once, computing only what each of them changes.

Read `replay.py` first: it says what an answer is. Here the same answer is put together from parts that most removal
sets share. A part is the embedding of a node in a layer; it is a function of the node and of those removed events that
can reach it (`scope.py` says which). For each set, the two nodes of the query are looked up in the last layer. What
is not there yet asks the layer below for its neighbours, and so on down to the inputs (`tgat.py`: node features;
`tgn.py`: features and memory). Then every layer, lowest first, computes all its new parts in one go.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from cody.graph import FloatArray, Query, TemporalGraph, candidates, check_query
from cody.inference.scope import Mask, Neighbours, Universe
from cody.models import Network
from cody.models.layers import Folded, TemporalAttention
from cody.models.sizes import node_inputs
from cody.oracle import Removal, check_removals

SETS_AT_ONCE = 256  # bounds the temporary memory of a large batch
VALUES_KEPT = 50_000_000  # numbers remembered about a query (200 MB in float32) before it is started afresh
QUERIES_KEPT = 4


class Store:
    """Vectors under ids, in the order in which they were asked for. A vector never changes."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        self.values = torch.zeros(64, width, dtype=dtype)
        self.ids: dict[Hashable, int] = {}
        self.computed = 0  # ids below this one have their value

    def fit(self) -> Tensor:
        """The vectors, with room for all ids. [≥ ids, width]"""
        if len(self.values) < len(self.ids):
            grown = self.values.new_zeros(2 * len(self.ids), self.values.shape[1])
            grown[: len(self.values)] = self.values
            self.values = grown
        return self.values


class Inputs(Protocol):
    """What the attention layers of a query start from: the layer-0 input of each node."""

    @property
    def values(self) -> Tensor | None:
        """[≥ ids, d]; None where all of them are zero."""
        ...

    def grow(self, nodes: list[int]) -> dict[int, Mask]:
        """The universe has grown. Which removed events can the input of each node depend on?"""
        ...

    def want(self, node: int, mask: Mask) -> int:
        """The id of a node's input without the events in `mask`; its value is there after `compute`."""
        ...

    def compute(self) -> None: ...


class Events:
    """What is attended to of each event: its features and the time since then, as [features, encoding]."""

    def __init__(self, model: FastModel, query: Query) -> None:
        self.model = model
        self.time = query.time
        self.store = Store(model.network.sizes.dimension + model.network.sizes.edge_features, model.dtype)

    def want(self, rows: list[int]) -> list[int]:
        ids = self.store.ids
        return [ids.setdefault(row, len(ids)) for row in rows]

    def compute(self) -> None:
        store, graph = self.store, self.model.graph
        rows = np.fromiter(list(store.ids)[store.computed :], dtype=np.int64)
        if not len(rows):
            return
        elapsed = torch.from_numpy(self.time - graph.time[rows]).to(self.model.dtype)
        parts = [self.model.network.encode(elapsed)]
        if graph.features is not None:
            parts.insert(0, torch.from_numpy(graph.features[rows]).to(self.model.dtype))
        store.fit()[store.computed : len(store.ids)] = torch.cat(parts, dim=-1)
        store.computed = len(store.ids)


class Layer:
    """One attention layer of a query: the embeddings it has, and those it is asked for."""

    def __init__(
        self, attention: TemporalAttention, maps: Folded, below: Layer | Inputs, events: Events, neighbours: Neighbours
    ) -> None:
        self.attention = attention
        self.maps = maps
        self.below = below
        self.events = events
        self.neighbours = neighbours
        self.store = Store(len(maps.out_bias), maps.out_bias.dtype)
        self.depends: dict[int, Mask] = {}  # node → the removed events that its embedding can depend on
        self.pending: list[tuple[int, Mask]] = []  # what the ids without a value stand for

    @property
    def values(self) -> Tensor:
        return self.store.values

    def want(self, node: int, mask: Mask) -> int:
        """The id of a node's embedding without the events in `mask`; its value is there after `compute`."""
        item = (node, mask & self.depends[node])
        ids = self.store.ids
        found = ids.get(item)
        if found is None:
            found = ids[item] = len(ids)
            self.pending.append(item)
        return found

    def grow(self, nodes: set[int], below: dict[int, Mask]) -> dict[int, Mask]:
        """A node depends on its own events, and on what it and its possible neighbours depend on in the layer below."""
        self.depends = {}
        for node in nodes:
            mask = self.neighbours.universe.of_node.get(node, 0) | below[node]
            for other in self.neighbours.others[node]:
                mask |= below[other]
            self.depends[node] = mask
        return self.depends

    def expand(self) -> None:
        """Ask the layer below for everything that the new embeddings need."""
        want, count = self.below.want, self.neighbours.count
        own, neighbour, event, lengths = [], [], [], []
        for node, mask in self.pending:
            recent = self.neighbours.recent(node, mask)
            below = [want(other, mask) for other in recent.nodes]
            blank = [0] * (count - len(recent.rows))
            own.append(want(node, mask))
            neighbour.append([below[place] for place in recent.place] + blank)
            event.append(self.events.want(recent.rows) + blank)
            lengths.append(len(recent.rows))
        self.columns = [torch.tensor(column) for column in (own, neighbour, event, lengths)]

    def compute(self) -> None:
        """The attention of `TemporalAttention.forward`, for the new embeddings."""
        if not self.pending:
            return
        own, neighbour, event, lengths = self.columns  # [n], [n, K], [n, K], [n]
        maps, below, merge = self.maps, self.below.values, self.attention.merge
        seen = self.events.store.values[event]  # [n, K, F + d]
        question = maps.ask_bias.expand(len(own), -1, -1)  # [n, H, W]
        hidden = merge.hidden.bias.expand(len(own), -1)  # [n, d]
        if below is not None:
            seen = torch.cat([below[neighbour], seen], dim=-1)  # [n, K, W]
            question = torch.addmm(maps.ask_bias.flatten(), below[own], maps.ask.flatten(0, 1).T).view_as(question)
            hidden = hidden + below[own] @ maps.own.T
        scores = question @ seen.mT  # [n, H, K]
        missing = torch.arange(neighbour.shape[1]) >= lengths[:, None]
        weights = torch.softmax(scores.masked_fill_(missing[:, None], torch.finfo(scores.dtype).min), dim=-1)
        answer = (weights @ seen).flatten(1) @ maps.answer.flatten(1).T  # [n, d]
        answer = answer + maps.value_bias.sum(0) + maps.out_bias
        hidden = hidden + answer * (lengths > 0)[:, None]
        self.store.fit()[self.store.computed : len(self.store.ids)] = merge.out(torch.relu(hidden))
        self.store.computed = len(self.store.ids)
        self.pending = []


class Scope:
    """All that is known about one query. It grows with the sets that are asked, and no answer ever changes."""

    def __init__(self, model: FastModel, query: Query) -> None:
        self.query = query
        self.score = model.network.score
        sizes = model.network.sizes
        self.universe = Universe(model.graph, query)
        self.neighbours = Neighbours(model.graph, query, sizes.neighbours, self.universe)
        self.events = Events(model, query)
        self.inputs = model.inputs(query, self.universe)
        self.layers: list[Layer] = []
        for attention, maps in zip(model.network.attention, model.maps, strict=True):
            below = self.layers[-1] if self.layers else self.inputs
            layer = Layer(cast(TemporalAttention, attention), maps, below, self.events, self.neighbours)
            self.layers.append(layer)
        self.logits: dict[tuple[int, int], float] = {}  # ids of the two nodes' embeddings → logit
        # What an explanation will most likely remove: better to make the masks once than a few at a time.
        self.universe.add(candidates(model.graph, query, hops=sizes.layers).tolist())
        self._grow()

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return sum(layer.values.numel() for layer in self.layers)

    def answer(self, removals: Sequence[Removal]) -> list[float]:
        if self.universe.add(row for removal in removals for row in removal):
            self._grow()
        last = self.layers[-1]
        pairs = []
        for removal in removals:
            mask = self.universe.mask(removal)
            pairs.append((last.want(self.query.src, mask), last.want(self.query.dst, mask)))
        self._compute()
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.logits]
        if new:
            source, target = torch.tensor(new).T
            scores = self.score(last.values[source], last.values[target]).flatten()
            self.logits.update(zip(new, scores.tolist(), strict=True))
        return [self.logits[pair] for pair in pairs]

    def _grow(self) -> None:
        """Find the nodes that each layer may be asked for, last layer first; then make the masks, inputs first."""
        within = [{self.query.src, self.query.dst}]
        for _ in self.layers:
            self.neighbours.grow(sorted(within[-1]))
            within.append(within[-1].union(*(self.neighbours.others[node] for node in within[-1])))
        depends = self.inputs.grow(sorted(within.pop()))
        for layer in self.layers:
            depends = layer.grow(within.pop(), depends)

    def _compute(self) -> None:
        for layer in reversed(self.layers):
            layer.expand()
        self.events.compute()
        self.inputs.compute()
        for layer in self.layers:
            layer.compute()


class FastModel:
    """A network asked about a graph; equal to `Replay` up to rounding. Each architecture says what its inputs are.

    Safe to ask from several threads. What it remembers about a query is dropped when a call fails or is interrupted.
    """

    def __init__(self, network: Network, graph: TemporalGraph, *, has_inputs: bool, dtype: torch.dtype) -> None:
        self.graph = graph
        self.dtype = dtype
        self.network = copy.deepcopy(network).to(dtype).eval().requires_grad_(False)
        features = node_inputs(graph, network.sizes)
        self.features = None if features is None else features.to(dtype)  # [N, d]
        self.maps: list[Folded] = []
        for attention in cast(Iterable[TemporalAttention], self.network.attention):
            self.maps.append(attention.folded(self.network.encode, with_embeddings=has_inputs or bool(self.maps)))
        self.scopes: OrderedDict[Query, Scope] = OrderedDict()
        self.lock = threading.Lock()

    def inputs(self, query: Query, universe: Universe) -> Inputs:
        raise NotImplementedError

    def logits(self, query: Query, removals: Sequence[Removal]) -> FloatArray:
        """One logit for each removal set. [B]"""
        check_query(self.graph, query)
        check_removals(self.graph, removals)
        answers: list[float] = []
        with self.lock, torch.no_grad():
            for start in range(0, len(removals), SETS_AT_ONCE):
                scope = self._scope(query)
                try:
                    answers += scope.answer(removals[start : start + SETS_AT_ONCE])
                except BaseException:
                    self.scopes.pop(query, None)  # it may have promised ids whose values were never computed
                    raise
        return np.array(answers, dtype=np.float64)

    def _scope(self, query: Query) -> Scope:
        scope = self.scopes.get(query)
        if scope is None or scope.size > VALUES_KEPT:
            scope = self.scopes[query] = Scope(self, query)
            while len(self.scopes) > QUERIES_KEPT:
                self.scopes.popitem(last=False)
        self.scopes.move_to_end(query)
        return scope
