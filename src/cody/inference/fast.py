"""Exact answers for many removal sets at once, computing only what each of them changes.

Read `replay.py` first: it says what an answer is. Here the same answer is put together from parts that most removal
sets share. A part is the embedding of a node in a layer; it is a function of the node and of those removed events that
can reach it (`scope.py` says which). For each set, the two nodes of the query are looked up in the last layer. What
is not there yet asks the layer below for its neighbours, and so on down to the inputs (`tgat.py`: node features;
`tgn.py`: features and memory). Then every layer, lowest first, computes all its new parts in one go.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cody.deadline import check_deadline, in_time
from cody.graph import FloatArray, Query, TemporalGraph, check_query
from cody.inference.only import only
from cody.inference.replay import Replay, frozen
from cody.inference.scope import Mask, Neighbours, Universe
from cody.models import Network
from cody.models.checkpoint import network_identity
from cody.models.layers import Folded, TemporalAttention
from cody.models.sizes import node_inputs
from cody.nearby import candidates
from cody.oracle import Removal, check_removals

SETS_AT_ONCE = 256  # bounds the temporary memory of a large batch
VALUES_KEPT = 100_000_000  # numbers remembered about a query (0.8 GB) before it is started afresh
QUERIES_KEPT = 4


Key = TypeVar("Key", bound=Hashable)


class Store(Generic[Key]):
    """Vectors by key. A key gets its id when it is first asked for, its vector later, and then never another."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        self.ids: dict[Key, int] = {}
        self.pending: list[Key] = []  # the latest keys, which have no vector yet
        self.values = torch.zeros(64, width, dtype=dtype)  # [≥ ids, width]

    def id(self, key: Key) -> int:
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.ids)
            self.pending.append(key)
        return found

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return len(self.ids) * self.values.shape[1]

    def write(self, vectors: Tensor) -> None:
        """Give all pending keys their vectors, in their order."""
        first = len(self.ids) - len(self.pending)
        self.reserve()[first : len(self.ids)] = vectors
        self.pending = []

    def reserve(self) -> Tensor:
        """The vectors, with room for all ids."""
        if len(self.values) < len(self.ids):
            grown = self.values.new_zeros(2 * len(self.ids), self.values.shape[1])
            grown[: len(self.values)] = self.values
            self.values = grown
        return self.values


class Unchanged(dict[int, int]):
    """node → the id of its vector with nothing removed; made when it is first looked up."""

    def __init__(self, make: Callable[[int], int]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, node: int) -> int:
        found = self[node] = self.make(node)
        return found


class Below(Protocol):
    """What an attention layer reads from: another layer, or the inputs of the lowest one.

    The id of a node's vector without the events in `mask` is `unchanged[node]` if it depends on none of them, else
    `changed(node, mask & depends[node])`. A new id has its vector after the next computation.
    """

    depends: dict[int, Mask]  # node → the removed events that its vector can depend on
    unchanged: Unchanged

    @property
    def values(self) -> Tensor | None:
        """[≥ ids, d]; None where all of them are zero."""
        ...

    def changed(self, node: int, mask: Mask) -> int: ...


class Inputs(Below, Protocol):
    """What the attention layers of a query start from: the layer-0 input of each node."""

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        ...

    @property
    def most(self) -> int:
        """How many numbers a set can add at most."""
        ...

    def grow(self, nodes: list[int]) -> None:
        """The universe has grown: make `depends` anew, for these nodes."""
        ...

    def compute(self) -> None: ...


class Events:
    """What is attended to of each event, by row: [its features, encoding of the time since]."""

    def __init__(self, model: FastModel, query: Query) -> None:
        self.model = model
        self.time = query.time
        width = model.network.sizes.edge_features + model.network.sizes.dimension
        self.store: Store[int] = Store(width, model.dtype)

    def compute(self) -> None:
        store, graph = self.store, self.model.graph
        if not store.pending:
            return
        rows = np.array(store.pending, dtype=np.int64)
        elapsed = torch.from_numpy(self.time - graph.time[rows]).to(self.model.dtype)
        parts = [self.model.network.encode(elapsed)]
        if graph.features is not None:
            parts.insert(0, torch.from_numpy(graph.features[rows]).to(self.model.dtype))
        store.write(torch.cat(parts, dim=-1))


class Maps(NamedTuple):
    """The linear maps of an attention layer, as few as they can be; the shapes are those of `Folded`."""

    own: Tensor  # [H·W + d, d] a node's own embedding → its question to the events, its share of the hidden layer
    own_bias: Tensor  # [H·W + d]
    answer: Tensor  # [H·W, d] weighted sum of the events → hidden layer
    answer_bias: Tensor  # [d]
    finish: Callable[[Tensor], Tensor]  # hidden layer → embedding
    heads: int
    width: int

    @classmethod
    def of(cls, attention: TemporalAttention, folded: Folded) -> Maps:
        return cls(
            own=torch.cat([folded.ask.flatten(0, 1), folded.own]),
            own_bias=torch.cat([folded.ask_bias.flatten(), attention.merge.hidden.bias]),
            answer=folded.answer.flatten(1).T.contiguous(),
            answer_bias=folded.value_bias.sum(0) + folded.out_bias,
            finish=attention.merge.out,
            heads=folded.ask_bias.shape[0],
            width=folded.ask_bias.shape[1],
        )


class Layer:
    """One attention layer of a query: the embeddings it has, and those it is asked for.

    It computes what `TemporalAttention.forward` does.
    """

    def __init__(self, maps: Maps, below: Below, neighbours: Neighbours) -> None:
        self.maps = maps
        self.below = below
        self.neighbours = neighbours
        self.store: Store[tuple[int, Mask]] = Store(len(maps.answer_bias), maps.answer.dtype)
        self.depends: dict[int, Mask] = {}
        ids = self.store.id  # not through `self`: an object that refers to itself is freed late
        self.unchanged = Unchanged(lambda node: ids((node, 0)))
        # What a node's own embedding is mapped to, by the id of that embedding. Many vectors of this layer share it.
        self.own: Store[int] = Store(len(maps.own_bias), maps.answer.dtype)

    @property
    def values(self) -> Tensor:
        return self.store.values

    def changed(self, node: int, mask: Mask) -> int:
        return self.store.id((node, mask))

    def grow(self, nodes: set[int]) -> None:
        """A node depends on its own events, and on what it and its possible neighbours depend on in the layer below."""
        below = self.below.depends
        self.depends = {}
        for node in nodes:
            mask = self.neighbours.universe.of_node.get(node, 0) | below[node]
            for other in self.neighbours.tails[node].nodes:
                mask |= below[other]
            self.depends[node] = mask

    def expand(self) -> None:
        """Ask the layer below for everything that the new embeddings need."""
        depends, unchanged, changed = self.below.depends, self.below.unchanged, self.below.changed
        lists: list[int] = []
        starts: list[int] = []
        below: list[int] = []
        own: list[int] = []
        for node, mask in in_time(self.store.pending):
            recent = self.neighbours.recent(node, mask)
            lists.append(recent.id)
            starts.append(len(below))
            nodes = (node, *recent.nodes)
            ids = [changed(each, left) if (left := mask & depends[each]) else unchanged[each] for each in nodes]
            own.append(self.own.id(ids[0]))
            below += ids[1:]
        below.append(0)  # where the empty list of a last node would point
        places = self.neighbours.places[lists] + np.array(starts, dtype=np.int64)[:, None]
        self.columns = (
            torch.tensor(own),  # [n]
            torch.from_numpy(np.array(below, dtype=np.int64)[places]),  # [n, K]
            torch.from_numpy(self.neighbours.events[lists]),  # [n, K]
            torch.from_numpy(self.neighbours.lengths[lists]),  # [n]
        )

    def compute(self, events: Tensor) -> None:
        if not self.store.pending:
            return
        self._own_parts()
        own, neighbour, event, lengths = self.columns
        maps = self.maps
        asked = self.own.values[own]  # [n, H·W + d]
        question = asked[:, : maps.heads * maps.width].reshape(-1, maps.heads, maps.width)  # [n, H, W]
        hidden = asked[:, maps.heads * maps.width :]  # [n, d]
        parts = [functional.embedding(event, events)]  # [n, K, F + d]
        if self.below.values is not None:
            parts.insert(0, functional.embedding(neighbour, self.below.values))  # [n, K, d]
        scores = question[..., -parts[-1].shape[-1] :] @ parts[-1].mT  # [n, H, K]
        if len(parts) == 2:
            scores += question[..., : parts[0].shape[-1]] @ parts[0].mT
        missing = torch.arange(event.shape[1]) >= lengths[:, None]
        scores.masked_fill_(missing[:, None], torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        seen = torch.cat([weights @ part for part in parts], dim=-1)  # [n, H, W]
        answer = torch.addmm(maps.answer_bias, seen.flatten(1), maps.answer)  # [n, d]
        self.store.write(maps.finish(torch.relu(hidden + answer * (lengths > 0)[:, None])))

    def _own_parts(self) -> None:
        new = self.own.pending
        if not new:
            return
        if self.below.values is None:
            self.own.write(self.maps.own_bias.expand(len(new), -1))
        else:
            self.own.write(torch.addmm(self.maps.own_bias, self.below.values[new], self.maps.own.T))


class Scope:
    """All that is known about one query. It grows with the sets that are asked, and no answer ever changes."""

    def __init__(self, model: FastModel, query: Query) -> None:
        self.query = query
        self.score = model.network.score
        sizes = model.network.sizes
        self.universe = Universe(model.graph, query)
        self.events = Events(model, query)
        self.neighbours = Neighbours(model.graph, query, sizes.neighbours, self.universe, self.events.store.id)
        self.inputs = model.inputs(query, self.universe)
        self.layers: list[Layer] = []
        for maps in model.maps:
            below: Below = self.layers[-1] if self.layers else self.inputs
            self.layers.append(Layer(maps, below, self.neighbours))
        self.logits: dict[tuple[int, int], float] = {}  # ids of the two nodes' embeddings → logit
        # What an explanation will most likely remove: better to make the masks once than a few at a time.
        self.likely = partial(candidates, model.graph, query, hops=sizes.layers)

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return self.inputs.size + sum(layer.store.size + layer.own.size for layer in self.layers)

    @property
    def sets_at_once(self) -> int:
        """Fewer where the past is long, so that memory is looked at in time."""
        return max(1, min(SETS_AT_ONCE, VALUES_KEPT // (4 * self.inputs.most + 1)))

    def expect(self, rows: Iterable[int]) -> None:
        if self.universe.add(rows) or not self.inputs.depends:
            self._grow()

    def answer(self, removals: Sequence[Removal]) -> list[float]:
        """The logits of the first of these sets: of as many as are computed at once."""
        if any(removals) and not self.universe.bits:
            self.expect(self.likely().tolist())
        self.expect(row for removal in removals for row in removal)
        removals = removals[: self.sets_at_once]
        last = self.layers[-1]
        pairs = []
        for removal in removals:
            mask = self.universe.mask(removal)
            pairs.append((self._id(self.query.src, mask), self._id(self.query.dst, mask)))
        self._compute()
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.logits]
        if new:
            source, target = torch.tensor(new).T
            scores = self.score(last.values[source], last.values[target]).flatten()
            self.logits.update(zip(new, scores.tolist(), strict=True))
        return [self.logits[pair] for pair in pairs]

    def _id(self, node: int, mask: Mask) -> int:
        last = self.layers[-1]
        mask &= last.depends[node]
        return last.changed(node, mask) if mask else last.unchanged[node]

    def _grow(self) -> None:
        """Find the nodes that each layer may be asked for, last layer first; then make the masks, inputs first."""
        within = [{self.query.src, self.query.dst}]
        for _ in self.layers:
            self.neighbours.grow(sorted(within[-1]))
            within.append(within[-1].union(*(self.neighbours.tails[node].nodes for node in within[-1])))
        self.inputs.grow(sorted(within.pop()))
        for layer in self.layers:
            layer.grow(within.pop())

    def _compute(self) -> None:
        for layer in reversed(self.layers):
            check_deadline()
            layer.expand()
        self.events.compute()
        self.inputs.compute()
        for layer in self.layers:
            layer.compute(self.events.store.values)


class FastModel:
    """A network asked about a graph; equal to `Replay` up to rounding. Each architecture says what its inputs are.

    It computes in double precision by default: then an answer, rounded as the `Oracle` does, does not depend on what
    else was asked in the same batch.

    Safe to ask from several threads. What it remembers about a query is gone when a call fails or is interrupted.
    """

    def __init__(self, network: Network, graph: TemporalGraph, *, has_inputs: bool, dtype: torch.dtype) -> None:
        self.graph = graph
        self.dtype = dtype
        self.network = frozen(network, dtype)
        features = node_inputs(graph, network.sizes)
        self.features = None if features is None else features.to(dtype)  # [N, d]
        self.maps: list[Maps] = []
        for attention in cast(Iterable[TemporalAttention], self.network.attention):
            folded = attention.folded(self.network.encode, with_embeddings=has_inputs or bool(self.maps))
            self.maps.append(Maps.of(attention, folded))
        self.scopes: OrderedDict[Query, Scope] = OrderedDict()
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets what the answers depend on, and nothing that was remembered."""
        return {name: value for name, value in vars(self).items() if name not in ("scopes", "lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.scopes, self.lock = OrderedDict(), threading.Lock()

    @cached_property
    def identity(self) -> str:
        """A hash of what the answers depend on, besides the graph."""
        return network_identity(self.network)

    @property
    def hops(self) -> int:
        """How far events can lie from a link and still be attended to."""
        return self.network.sizes.layers

    def inputs(self, query: Query, universe: Universe) -> Inputs:
        raise NotImplementedError

    def plain(self, query: Query, removal: Removal, *, full: bool = False) -> Replay:
        """The definition of what this model answers about a set: from row 0 if `full`, else from as late as it can."""
        return self._replay

    @cached_property
    def _replay(self) -> Replay:
        return Replay(self.network, self.graph, dtype=self.dtype)

    def expect(self, query: Query, rows: Iterable[int]) -> None:
        """These events will be removed in one combination or another: what depends on them is worked out once."""
        with self._scope(query) as scope:
            scope.expect(rows)

    def only(self, query: Query, kept: Removal) -> float:
        """The logit of a past that consists of the kept events only."""
        check_query(self.graph, query)
        (kept,) = check_removals(self.graph, [kept])
        return only(self._replay, query, kept)

    def forget(self) -> None:
        """Drop what is remembered about queries. No answer changes; the next one costs what the first did."""
        with self.lock:
            self.scopes.clear()

    def logits(self, query: Query, removals: Sequence[Removal]) -> FloatArray:
        """One logit for each removal set. [B]"""
        check_query(self.graph, query)
        removals = check_removals(self.graph, removals)
        answers: list[float] = []
        while len(answers) < len(removals):
            with self._scope(query) as scope, torch.no_grad():
                answers += scope.answer(removals[len(answers) :])
        return np.array(answers, dtype=np.float64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.graph}, {self.network.sizes.dimension} dimensions)"

    @contextmanager
    def _scope(self, query: Query) -> Iterator[Scope]:
        """What is known about a query, taken out while it changes: if that fails or is interrupted, it is gone."""
        with self.lock:
            scope = self.scopes.pop(query, None)
            if scope is None or scope.size > VALUES_KEPT:
                scope = Scope(self, query)
            yield scope
            self.scopes[query] = scope
            while len(self.scopes) > QUERIES_KEPT:
                self.scopes.popitem(last=False)
