"""Exact answers for many changes at once, computing only what each of them changes.

Read `replay.py` first: it says what an answer is. Here the same answer is put together from parts that most changes
share. A part is the embedding of a node in a layer; it is a function of the node and of those events that are otherwise
and can reach it (`masks.py` says which). For each change, the two nodes of the query are looked up in the last layer.
What is not there yet asks the layer below for its neighbours, and so on down to the inputs (`tgat.py`: node features;
`tgn.py`: features and memory). Then every layer, lowest first, computes all its new parts in one go.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from cody.deadline import check_deadline
from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, check_query
from cody.inference.kept_only import logit_of_kept
from cody.inference.masks import Masks, Universe, Windows
from cody.inference.replay import Replay
from cody.inference.threads import one_thread
from cody.inference.weights import Weights
from cody.model import Change, check_changes

CHANGES_AT_ONCE = 256  # bounds the temporary memory of a large batch
NUMBERS_KEPT = 100_000_000  # remembered about a query (0.8 GB) before it is started afresh
NODES_AT_ONCE = 64  # of an attention layer: what they attend to stays in the processor's cache


class Vectors:
    """A table of vectors that only grows."""

    def __init__(self, width: int, dtype: Any) -> None:
        self.values = np.empty((64, width), dtype=dtype)  # [≥ length, width]
        self.length = 0

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.length * int(self.values.shape[1])

    def append(self, count: int) -> FloatArray:
        """Room for more vectors, to be filled in."""
        stop = self.length + count
        if stop > len(self.values):
            grown = np.empty((max(stop, 2 * len(self.values)), self.values.shape[1]), dtype=self.values.dtype)
            grown[: self.length] = self.values[: self.length]
            self.values = grown
        self.length = stop
        return self.values[stop - count : stop]


class Parts(NamedTuple):
    """Vectors that were asked for and are not there yet: nodes, each with what is otherwise. Their ids follow."""

    nodes: IntArray  # [n]
    masks: Masks  # [n, w]


class Below(Protocol):
    """What an attention layer reads from: another layer, or the inputs of the lowest one."""

    depends: Masks  # [nodes, w] which events the vector of a node can depend on

    @property
    def values(self) -> FloatArray | None:
        """[≥ ids, d]; None where all of them are zero."""
        ...

    def ids(self, nodes: IntArray, masks: Masks) -> tuple[IntArray, Any]:
        """Where the vectors of nodes stand, and what has to be computed first. [n], [n, w] → [n]"""
        ...


class Inputs(Below, Protocol):
    """What the attention layers of a query start from: the layer-0 input of each node."""

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        ...

    @property
    def most(self) -> int:
        """How many numbers a change can add at most."""
        ...

    def compute(self, work: Any) -> None: ...


class Events:
    """What is attended to of each event: [its features, encoding of the time since]. Computed when first used."""

    def __init__(self, weights: Weights, graph: TemporalGraph, query: Query, rows: IntArray) -> None:
        self.weights, self.graph, self.time, self.rows = weights, graph, query.time, rows
        self.slot = np.full(len(rows), -1)  # [rows] where its vector stands
        self.vectors = Vectors(weights.sizes.edge_features + weights.sizes.dimension, weights.dtype)

    def look_up(self, events: IntArray) -> IntArray:
        """Where the vectors of events stand. [...] → [...]"""
        slots = self.slot[events]
        if (slots < 0).any():
            new = np.unique(events[slots < 0])
            self.slot[new] = self.vectors.length + np.arange(len(new))
            self._compute(self.rows[new], self.vectors.append(len(new)))
            slots = self.slot[events]
        return slots

    def _compute(self, rows: IntArray, vectors: FloatArray) -> None:
        weights, graph = self.weights, self.graph
        vectors[:, weights.sizes.edge_features :] = weights.encode(self.time - graph.time[rows])
        features = weights.edge(graph, rows)
        if features is not None:
            vectors[:, : weights.sizes.edge_features] = features


class Maps(NamedTuple):
    """The linear maps of an attention layer, as few as they can be. H = heads, W = width of an event, d = dimension.

    Each node asks a single question, so the question is projected into key space, and the weighted sum of the events
    out of value space; no neighbour is ever projected. Linear maps that follow each other are multiplied first.
    """

    own: FloatArray  # [d, H·W + d] a node's own embedding → its question to the events, its share of the hidden layer
    own_bias: FloatArray  # [H·W + d]
    answer: FloatArray  # [H·W, d] weighted sum of the events → hidden layer
    answer_bias: FloatArray  # [d]
    finish: FloatArray  # [d, d] hidden layer → embedding
    finish_bias: FloatArray  # [d]
    heads: int
    width: int

    @classmethod
    def of(cls, weights: Weights, layer: int, *, with_embeddings: bool) -> Maps:
        """Of layer `layer`. Without embeddings, those of the layer below are all zero and left out: W = d + F."""
        name, heads, d = f"attention.{layer}", weights.sizes.heads, weights.sizes.dimension
        query, key, value = (weights[f"{name}.{which}.weight"] for which in ("query", "key", "value"))  # [2d, ...]
        width = key.shape[1] - (0 if with_embeddings else d)
        query, key, value = (each.reshape(heads, -1, each.shape[1]) for each in (query, key, value))  # [H, 2d/H, ...]
        key, value = key[..., -width:], value[..., -width:]
        scale = 1 / math.sqrt(query.shape[1])
        now = weights[f"{name}.query.bias"] + weights[f"{name}.query.weight"][:, d:] @ weights.encode(np.zeros(()))
        hidden, hidden_bias = weights[f"{name}.merge.hidden.weight"], weights[f"{name}.merge.hidden.bias"]
        onward = (hidden[:, : 2 * d] @ weights[f"{name}.out.weight"]).reshape(d, heads, -1)  # [d, H, 2d/H]
        # The key's bias adds the same number to all scores of a node, which the softmax takes away again.
        ask = np.einsum("hcw,hcd->dhw", key, query[..., :d]).reshape(d, -1) * scale
        ask_bias = np.einsum("hcw,hc->hw", key, now.reshape(heads, -1)).ravel() * scale
        value_bias = np.einsum("ohc,hc->o", onward, weights[f"{name}.value.bias"].reshape(heads, -1))
        return cls(
            own=np.concatenate([ask, hidden[:, 2 * d :].T], axis=1),
            own_bias=np.concatenate([ask_bias, hidden_bias]),
            answer=np.einsum("ohc,hcw->hwo", onward, value).reshape(-1, d),
            answer_bias=value_bias + hidden[:, : 2 * d] @ weights[f"{name}.out.bias"],
            finish=np.ascontiguousarray(weights[f"{name}.merge.out.weight"].T),
            finish_bias=weights[f"{name}.merge.out.bias"],
            heads=heads,
            width=width,
        )


class Step(NamedTuple):
    """Everything that a layer needs to compute n new embeddings."""

    own: IntArray  # [n] ids in the layer below
    neighbour: IntArray  # [n, K] ids in the layer below
    event: IntArray  # [n, K] where the vectors of the events stand
    length: IntArray  # [n] how many events the node attends to


class Layer:
    """One attention layer of a query: the embeddings it has, and how to make others.

    It computes what `Weights.attend` does. Nodes are known by their place among all nodes of the query.
    """

    def __init__(self, maps: Maps, below: Below, windows: Windows, reach: Reach, events: Events) -> None:
        self.maps = maps
        self.below = below
        self.windows = windows
        self.reach = reach
        self.events = events
        self.depends = self._depends()
        self.known: dict[tuple[int, ...], int] = {}  # (node, mask) → id, where something is otherwise
        self.unchanged = np.full(len(reach.nodes), -1)  # id of the embedding with nothing otherwise
        self.vectors = Vectors(len(maps.answer_bias), maps.answer.dtype)
        # What a node's own embedding is mapped to, by the id of that embedding. Many vectors of this layer share it.
        self.own_slot = np.full(64, -1)
        self.own_parts = Vectors(len(maps.own_bias), maps.answer.dtype)

    @property
    def size(self) -> int:
        return self.vectors.size + self.own_parts.size

    @property
    def values(self) -> FloatArray:
        return self.vectors.values

    def _depends(self) -> Masks:
        """A node depends on its own events, and on what it and its possible neighbours depend on in the layer below."""
        below, windows = self.below.depends, self.windows
        depends = np.zeros_like(below)
        nodes = self.reach.place(windows.nodes)
        neighbours = np.bitwise_or.reduce(below[self.reach.place(windows.other)], axis=1)
        depends[nodes] = windows.touching | below[nodes] | neighbours
        return depends

    def ids(self, nodes: IntArray, masks: Masks) -> tuple[IntArray, Parts]:
        masks = masks & self.depends[nodes]
        touched = masks.any(axis=1)
        first = self.vectors.length
        fresh = np.unique(nodes[~touched][self.unchanged[nodes[~touched]] < 0])
        self.unchanged[fresh] = first + np.arange(len(fresh))
        ids = self.unchanged[nodes]
        new: list[int] = []
        which = np.flatnonzero(touched)
        keys = zip(nodes[which].tolist(), *masks[which].T.tolist(), strict=True)
        first += len(fresh)
        for place, key in zip(which.tolist(), keys, strict=True):
            found = self.known.get(key)
            if found is None:
                found = self.known[key] = first + len(new)
                new.append(place)
            ids[place] = found
        zero = np.zeros((len(fresh), masks.shape[1]), dtype=np.uint64)
        return ids, Parts(np.concatenate([fresh, nodes[new]]), np.concatenate([zero, masks[new]]))

    def plan(self, parts: Parts) -> tuple[Step, Any]:
        """What new embeddings are made of, and what the layer below has to compute first."""
        chosen = self.windows.choose(self.reach.window[parts.nodes], parts.masks)
        n, places = chosen.other.shape
        exists = np.arange(places) < chosen.length[:, None]  # [n, K]
        nodes = np.concatenate([parts.nodes, self.reach.place(chosen.other[exists])])
        masks = np.concatenate([parts.masks, np.repeat(parts.masks, chosen.length, axis=0)])
        ids, work = self.below.ids(nodes, masks)
        neighbour = np.zeros((n, places), dtype=np.int64)
        neighbour[exists] = ids[n:]
        event = np.where(exists, chosen.event, chosen.event[:, :1])
        return Step(ids[:n], neighbour, self.events.look_up(event), chosen.length), work

    def compute(self, step: Step) -> None:
        """Make the embeddings of a step."""
        own = self._own_parts(step.own)
        vectors = self.vectors.append(len(own))
        for first in range(0, len(own), NODES_AT_ONCE):
            some = slice(first, first + NODES_AT_ONCE)
            vectors[some] = self._attend(own[some], step.neighbour[some], step.event[some], step.length[some])

    def _attend(self, own: IntArray, neighbour: IntArray, event: IntArray, length: IntArray) -> FloatArray:
        maps = self.maps
        asked = self.own_parts.values[own]  # [n, H·W + d]
        question = asked[:, : maps.heads * maps.width].reshape(-1, maps.heads, maps.width)  # [n, H, W]
        hidden = asked[:, maps.heads * maps.width :]  # [n, d]
        parts = [self.events.vectors.values[event]]  # [n, K, F + d]
        scores = question[..., -parts[0].shape[-1] :] @ parts[0].swapaxes(1, 2)  # [n, H, K]
        if self.below.values is not None:
            parts.insert(0, self.below.values[neighbour])  # [n, K, d]
            scores += question[..., : parts[0].shape[-1]] @ parts[0].swapaxes(1, 2)
        scores[np.broadcast_to(np.arange(scores.shape[-1]) >= length[:, None, None], scores.shape)] = -np.inf
        scores[length == 0] = 0.0  # any shares: a node without events sees nothing
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        seen = np.concatenate([shares @ part for part in parts], axis=-1)  # [n, H, W]
        answer = seen.reshape(len(own), -1) @ maps.answer + maps.answer_bias  # [n, d]
        hidden = np.maximum(hidden + answer * (length > 0)[:, None], 0)
        result: FloatArray = hidden @ maps.finish + maps.finish_bias
        return result

    def _own_parts(self, ids: IntArray) -> IntArray:
        """Where the maps of embeddings of the layer below stand; made when first used. [n] → [n]"""
        if self.below.values is None:  # all of them are zero
            if not self.own_parts.length:
                self.own_parts.append(1)[:] = self.maps.own_bias
            return np.zeros_like(ids)
        if len(self.own_slot) < len(self.below.values):
            more = np.full(len(self.below.values) - len(self.own_slot), -1)
            self.own_slot = np.concatenate([self.own_slot, more])
        new = np.unique(ids[self.own_slot[ids] < 0])
        if len(new):
            self.own_slot[new] = self.own_parts.length + np.arange(len(new))
            self.own_parts.append(len(new))[:] = self.below.values[new] @ self.maps.own + self.maps.own_bias
        return self.own_slot[ids]


class Reach:
    """The nodes that can take part in an answer, numbered: those of the inputs, and those that attend to events."""

    def __init__(self, nodes: IntArray, windows: Windows) -> None:
        self.nodes = nodes  # ascending
        self.window = np.full(len(nodes), -1)  # which of the windows is the node's
        self.window[np.searchsorted(nodes, windows.nodes)] = np.arange(len(windows.nodes))

    def place(self, nodes: IntArray) -> IntArray:
        return np.searchsorted(self.nodes, nodes)


class Workspace:
    """All that is known about one query, for changes of one universe. It only grows, and no answer ever changes."""

    def __init__(self, model: FastModel, query: Query, rows: Iterable[int]) -> None:
        self.weights = model.weights
        sizes = model.weights.sizes
        self.universe = Universe(model.graph, query, rows)
        nodes = np.unique([query.src, query.dst])
        for _ in range(sizes.layers):  # one hop further with each layer
            check_deadline()
            windows = Windows(model.graph, query, self.universe, nodes, sizes.neighbours)
            nodes = np.unique(np.concatenate([nodes, windows.other.ravel()]))
        self.reach = Reach(nodes, windows)
        self.roots = self.reach.place(np.array([query.src, query.dst]))
        events = Events(model.weights, model.graph, query, windows.events)
        self.inputs = model.inputs(query, self.universe, nodes)
        self.layers: list[Layer] = []
        for maps in model.maps:
            below: Below = self.layers[-1] if self.layers else self.inputs
            self.layers.append(Layer(maps, below, windows, self.reach, events))
        self.logits: dict[tuple[int, int], float] = {}  # ids of the two nodes' embeddings → logit

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return self.inputs.size + sum(layer.size for layer in self.layers)

    @property
    def changes_at_once(self) -> int:
        """Fewer where the past is long, so that memory is looked at in time."""
        return max(1, min(CHANGES_AT_ONCE, NUMBERS_KEPT // (4 * self.inputs.most + 1)))

    def answer(self, changes: Sequence[Change]) -> list[float]:
        """The logits of the first of these changes: of as many as are computed at once."""
        masks = self.universe.masks(changes[: self.changes_at_once])
        n, last = len(masks), self.layers[-1]
        ids, work = last.ids(np.repeat(self.roots, n), np.concatenate([masks, masks]))
        steps: list[tuple[Layer, Step]] = []
        for layer in reversed(self.layers):
            check_deadline()
            step, work = layer.plan(work)
            steps.append((layer, step))
        self.inputs.compute(work)
        for layer, step in reversed(steps):
            layer.compute(step)
        return self._scores(list(zip(ids[:n].tolist(), ids[n:].tolist(), strict=True)))

    def _scores(self, pairs: list[tuple[int, int]]) -> list[float]:
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.logits]
        if new:
            source, target = np.array(new).T
            values = self.layers[-1].values
            self.logits.update(zip(new, self.weights.score(values[source], values[target]).tolist(), strict=True))
        return [self.logits[pair] for pair in pairs]


class FastSession:
    """A fast model asked about one query.

    What it knows is taken out while it changes: if a call fails or is interrupted, that is gone, and the next call
    starts afresh.
    """

    def __init__(self, model: FastModel, query: Query, rows: Iterable[int]) -> None:
        self.model = model
        self.query = query
        self.rows = frozenset(rows)  # what will probably be otherwise: better to make the masks once
        self._workspace: Workspace | None = None

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        changes = check_changes(self.model.graph, changes)
        answers: list[float] = []
        with one_thread():
            while len(answers) < len(changes):
                workspace = self._take(changes[len(answers) :])
                answers += workspace.answer(changes[len(answers) :])
                self._workspace = workspace
        return np.array(answers, dtype=np.float64)

    def _take(self, changes: Sequence[Change]) -> Workspace:
        """What is known, if that is enough for these changes and not too much."""
        asked = frozenset[int]().union(*changes)
        workspace, self._workspace = self._workspace, None
        if workspace is not None and asked <= workspace.universe.rows and workspace.size <= NUMBERS_KEPT:
            return workspace
        if asked:  # a link that is only scored needs no masks
            self.rows = self.rows | asked
        return Workspace(self.model, self.query, self.rows if asked else ())


class FastModel:
    """A network asked about a graph; equal to `Replay` up to rounding. Each architecture says what its inputs are.

    It computes in double precision by default: then an answer, rounded as the `Oracle` does, does not depend on what
    else was asked in the same batch. It remembers nothing; sessions do, and belong to who opened them.
    """

    def __init__(self, network: Any, graph: TemporalGraph, *, has_inputs: bool, dtype: Any) -> None:
        self.graph = graph
        self.weights = Weights.of(network).astype(dtype)
        self.features = self.weights.features(graph)  # [N, d]
        layers = range(self.weights.sizes.layers)
        self.maps = [Maps.of(self.weights, layer, with_embeddings=has_inputs or layer > 0) for layer in layers]

    @property
    def identity(self) -> str:
        """A hash of what the answers depend on, besides the graph."""
        return self.weights.identity

    @property
    def hops(self) -> int:
        """How far events can lie from a link and still be attended to."""
        return self.weights.sizes.layers

    def on(self, graph: TemporalGraph) -> Self:
        """The same model on a log that is longer by imagined rows."""
        if graph.log != self.graph.log:
            raise CallError(f"{graph} is another log than {self.graph}; load the model for it")
        other = copy.copy(self)
        vars(other).pop("replay", None)
        other.graph, other.features = graph, self.weights.features(graph)
        return other

    def inputs(self, query: Query, universe: Universe, nodes: IntArray) -> Inputs:
        raise NotImplementedError

    def session(self, query: Query, rows: Iterable[int] = ()) -> FastSession:
        """A session about a query. `rows` will probably be otherwise, in one combination or another."""
        check_query(self.graph, query)
        return FastSession(self, query, rows)

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        return self.session(query).logits(changes)

    def plain(self, query: Query, change: Change, *, full: bool = False) -> Replay:
        """The definition of what this model answers: from row 0 if `full`, else from as late as it can."""
        return self.replay

    @cached_property
    def replay(self) -> Replay:
        return Replay(self.weights, self.graph, dtype=self.weights.dtype)

    def only(self, query: Query, kept: Change) -> float:
        """The logit of a past that consists of the kept events only."""
        check_query(self.graph, query)
        (kept,) = check_changes(self.graph, [kept])
        return logit_of_kept(self.replay, query, kept)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.graph}, {self.weights.sizes.dimension} dimensions)"
