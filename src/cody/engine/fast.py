"""Exact answers for many changes at once, computing only what each of them changes.

Read `replay.py` first: it says what an answer is. Here the same answer is put together from parts that most changes
share. A part is the embedding of a node in a layer; it is a function of the node and of those events that are changed
and can reach it (`masks.py` says which). For each change, the two nodes of the query are looked up in the last layer.
What is not there yet asks the layer below for its neighbours, and so on down to the inputs (`tgat.py`: node features;
`tgn.py`: features and memory). Then every layer, lowest first, computes all its new parts in one go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from cody.engine.attention import Attention, Decoder, Maps
from cody.engine.kept_only import logit_of_kept
from cody.engine.links import LinkScorer
from cody.engine.masks import AttendedEvents, EditableEvents, Masks, Windows, distinct
from cody.engine.replay import Replay
from cody.engine.selfcheck import SelfCheck
from cody.engine.threads import one_thread
from cody.engine.vectors import Products, Vectors
from cody.engine.weights import Weights
from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, check_query, sorted_unique
from cody.models.contract import Change, check_changes
from cody.utils.deadline import check_deadline

CHANGES_AT_ONCE = 256  # bounds the temporary memory of a large batch
NUMBERS_KEPT = 100_000_000  # remembered about a query (0.8 GB) before it is started afresh
REFINED = 1  # how often estimates that are wrong are made less rough, before all answers are exact
ON_THE_LINE = 2e-5  # a logit this close to 0 is computed by the reference: rounding could decide it


class VectorRequest(NamedTuple):
    """Vectors that were asked for, by node and mask: those that are there, and those that have to be made."""

    ids: IntArray  # [n] of the vector; ~k of the k-th one that is to be made
    nodes: IntArray  # [m] to be made
    masks: Masks  # [m, w]
    places: IntArray  # [m] where each was asked for; of those with nothing changed, anywhere


class KnownVectors:
    """Which vectors there are, by node and mask."""

    def __init__(self, nodes: int) -> None:
        self.unchanged = np.full(nodes, -1)  # id of the vector with nothing changed
        self.changed: dict[tuple[int, ...], int] = {}  # (node, mask) → id

    def find(self, nodes: IntArray, masks: Masks) -> VectorRequest:
        """Look vectors up. [n], [n, w]"""
        touched = np.flatnonzero(masks.any(axis=1))
        ids = self.unchanged[nodes]
        ids[touched] = 0
        missing, fresh = np.flatnonzero(ids < 0), nodes[:0]
        if len(missing):
            fresh = sorted_unique(nodes[missing])
            ids[missing] = ~np.searchsorted(fresh, nodes[missing])
        touched_nodes, touched_masks = nodes[touched], masks[touched]
        first, inverse = distinct(touched_nodes, touched_masks)
        some_nodes, some_masks = touched_nodes[first], touched_masks[first]
        keys = zip(some_nodes.tolist(), *some_masks.T.tolist(), strict=True)
        found = np.array([self.changed.get(key, -1) for key in keys], dtype=np.int64)
        new = found < 0
        found[new] = ~np.arange(len(fresh), len(fresh) + np.count_nonzero(new))
        ids[touched] = found[inverse]
        zero = np.zeros((len(fresh), masks.shape[1]), dtype=np.uint64)
        return VectorRequest(
            ids,
            np.concatenate([fresh, some_nodes[new]]),
            np.concatenate([zero, some_masks[new]]),
            np.concatenate([np.zeros_like(fresh), touched[first[new]]]),
        )

    def add(self, asked: VectorRequest, made: IntArray) -> IntArray:
        """Take the ids of what was made, [m], and give those of all that was asked for. → [n]"""
        if len(made):
            touched = asked.masks.any(axis=1)
            self.unchanged[asked.nodes[~touched]] = made[~touched]
            keys = zip(asked.nodes[touched].tolist(), *asked.masks[touched].T.tolist(), strict=True)
            self.changed.update(zip(keys, made[touched].tolist(), strict=True))
        ids, missing = asked.ids.copy(), asked.ids < 0
        ids[missing] = made[~ids[missing]]
        return ids


class Below(Protocol):
    """What an attention layer reads from: another layer, or the inputs of the lowest one.

    Nothing is remembered before it is computed: a plan is a value, and a plan that is dropped leaves nothing behind.
    """

    depends: Masks  # [nodes, w] which events the vector of a node can depend on

    @property
    def values(self) -> FloatArray | None:
        """[≥ ids, d]; None where all of them are zero."""
        ...

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        ...

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> Any:
        """What has to be computed for the vectors of nodes under masks. [n], [n, w], [n]

        `change` says to which of the changes a mask belongs that `Inputs.begin` was given last. A mask may have fewer
        bits than that change; those are missing that the vector cannot depend on.
        """
        ...

    def compute(self, plan: Any) -> IntArray:
        """Compute it. The ids of these vectors. → [n]"""
        ...


class Inputs(Below, Protocol):
    """What the attention layers of a query start from: the layer-0 input of each node."""

    @property
    def exact(self) -> bool:
        """Whether nothing is approximated."""
        ...

    def exactly(self) -> Inputs:
        """The same inputs without approximation; none is computed yet."""
        ...

    def finer(self) -> Inputs:
        """The same inputs with an approximation that is less rough; none is computed yet."""
        ...

    @property
    def most(self) -> int:
        """How many numbers a change can add at most."""
        ...

    def begin(self, changes: Masks) -> None:
        """What is planned and computed next is about these changes of the past. [n, w]"""
        ...


class EventInputs:
    """What is attended to of each event: [its features, encoding of the time since]. Computed when first used."""

    def __init__(self, weights: Weights, graph: TemporalGraph, query: Query, rows: IntArray) -> None:
        self.weights, self.graph, self.time, self.rows = weights, graph, query.time, rows
        self.slot = np.full(len(rows), -1)  # [rows] where its vector stands
        self.vectors = Vectors(weights.sizes.edge_features + weights.sizes.dimension, weights.dtype)

    def look_up(self, events: IntArray) -> IntArray:
        """Where the vectors of events stand. [...] → [...]"""
        slots = self.slot[events]
        if (slots < 0).any():
            new = sorted_unique(events[slots < 0])
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


class LayerPlan(NamedTuple):
    """A plan of a layer."""

    asked: VectorRequest
    chosen: AttendedEvents  # what the vectors that are to be made attend to
    below: Any  # the plan of the layer below: for the nodes themselves, then for their neighbours


class Layer:
    """One attention layer of a query: the vectors it has, and how to make others.

    It computes what `Weights.attend` does, up to the hidden layer (see `Maps`). Nodes are known by their place among
    all nodes of the query. Vectors that are made of the same parts are the same, whatever is changed.
    """

    def __init__(self, maps: Maps, below: Below, windows: Windows, reach: Reach, events: EventInputs) -> None:
        self.maps = maps
        self.below = below
        self.windows = windows
        self.reach = reach
        self.events = events
        self.depends = self._depends()
        self.known = KnownVectors(len(reach.nodes))
        self.made_of: dict[bytes, int] = {}  # ids of the vectors below and of the events → id
        self.vectors = Vectors(len(maps.answer_bias), maps.answer.dtype)
        self.own = Products(maps.own, maps.own_bias)  # many vectors of this layer share what a node has below
        self.attention = Attention(maps, windows.count)

    @property
    def size(self) -> int:
        return self.vectors.size + self.own.vectors.size

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

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> LayerPlan:
        check_deadline()
        asked = self.known.find(nodes, masks & self.depends[nodes])
        change = change[asked.places]
        chosen = self.windows.choose(self.reach.window[asked.nodes], asked.masks)
        neighbours = self.reach.place(chosen.other[chosen.exists])
        below = self.below.plan(
            np.concatenate([asked.nodes, neighbours]),
            np.concatenate([asked.masks, np.repeat(asked.masks, chosen.length, axis=0)]),
            np.concatenate([change, np.repeat(change, chosen.length)]),
        )
        return LayerPlan(asked, chosen, below)

    def compute(self, plan: LayerPlan) -> IntArray:
        ids = self.below.compute(plan.below)
        made, exists = len(plan.asked.nodes), plan.chosen.exists
        places = exists.shape[1]
        parts = np.full((made, 1 + 2 * places), -1)  # own vector, vectors of the neighbours, events
        parts[:, 0] = ids[:made]
        parts[:, 1 : 1 + places][exists] = ids[made:]
        parts[:, 1 + places :][exists] = self.events.look_up(plan.chosen.event[exists])
        return self.known.add(plan.asked, self._made_of(parts))

    def _made_of(self, parts: IntArray) -> IntArray:
        """The ids of vectors that are made of these parts. [m, 1 + 2K] → [m]"""
        content, width, made_of = parts.tobytes(), parts.shape[1] * parts.itemsize, self.made_of
        ids: list[int] = []
        new: list[int] = []  # places
        for place in range(len(parts)):
            key = content[place * width : (place + 1) * width]
            id_ = made_of.get(key)
            if id_ is None:
                id_ = made_of[key] = self.vectors.length + len(new)
                new.append(place)
            ids.append(id_)
        if new:
            self._attend(parts[new])
        return np.array(ids, dtype=np.int64)

    def _attend(self, parts: IntArray) -> None:
        """Make vectors of these parts."""
        below, places = self.below.values, parts.shape[1] // 2
        length = (parts[:, 1 + places :] >= 0).sum(axis=1)
        sources = [(self.events.vectors.values, parts[:, 1 + places :])]
        if below is None:  # all of them are zero
            asked = np.broadcast_to(self.maps.own_bias, (len(parts), len(self.maps.own_bias)))
        else:
            asked = self.own.of(below, parts[:, 0])  # [m, H·W + d]
            sources.insert(0, (below, parts[:, 1 : 1 + places]))
        self.vectors.append(len(parts))[:] = self.attention(asked, sources, length)


class Reach:
    """The nodes that can take part in an answer, numbered: those of the inputs, and those that attend to events."""

    def __init__(self, nodes: IntArray, windows: Windows) -> None:
        self.nodes = nodes  # ascending
        self.window = np.full(len(nodes), -1)  # which of the windows is the node's
        self.window[np.searchsorted(nodes, windows.nodes)] = np.arange(len(windows.nodes))

    def place(self, nodes: IntArray) -> IntArray:
        return np.searchsorted(self.nodes, nodes)


class QueryWorkspace:
    """All that is known about one query, for changes of one universe. It only grows, and no answer ever changes."""

    def __init__(self, model: FastModel, query: Query, rows: Iterable[int]) -> None:
        self.model, self.query = model, query
        sizes = model.weights.sizes
        self.universe = EditableEvents(model.graph, query, rows)
        nodes = sorted_unique(np.array([query.src, query.dst]))
        for _ in range(sizes.layers):  # one hop further with each layer
            check_deadline()
            windows = Windows(model.graph, query, self.universe, nodes, sizes.neighbours)
            nodes = sorted_unique(np.concatenate([nodes, windows.other.ravel()]))
        self.reach = Reach(nodes, windows)
        self.roots = self.reach.place(np.array([query.src, query.dst]))
        self.windows = windows
        self.events = EventInputs(model.weights, model.graph, query, windows.events)
        self.refined = 0  # how often estimates were made less rough
        self._begin(model.inputs(query, self.universe, nodes))

    def _begin(self, inputs: Inputs) -> None:
        """Nothing is computed yet from these inputs."""
        self.inputs = inputs
        self.layers: list[Layer] = []
        for maps in self.model.maps:
            below: Below = self.layers[-1] if self.layers else inputs
            self.layers.append(Layer(maps, below, self.windows, self.reach, self.events))
        self.decoder = self.model.decoder
        self.source, self.target = Products(self.decoder.source), Products(self.decoder.target)
        self.largest: int | None = None  # how many numbers of inputs a change has added, in the mean of a batch
        self.logits: dict[tuple[int, int], float] = {}  # ids of the two nodes' vectors → logit

    @property
    def exact(self) -> bool:
        """Whether its answers are exact, not estimates."""
        return self.inputs.exact

    @cached_property
    def exactly(self) -> QueryWorkspace:
        """The same without approximation. It has its own vectors, and the rest in common."""
        other = copy.copy(self)
        other._begin(self.inputs.exactly())
        return other

    @cached_property
    def finer(self) -> QueryWorkspace:
        """The same with estimates that are less rough; those of the finest are exact."""
        if self.refined == REFINED:
            return self.exactly
        other = copy.copy(self)
        other.refined += 1
        other._begin(self.inputs.finer())
        return other

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        exact = self.exactly.size if "exactly" in vars(self) else 0
        return self.inputs.size + sum(layer.size for layer in self.layers) + exact

    @property
    def changes_at_once(self) -> int:
        """Fewer where the past is long, so that memory is looked at in time."""
        expected = self.inputs.most if self.largest is None else min(self.inputs.most, 4 * self.largest)
        return max(1, min(CHANGES_AT_ONCE, NUMBERS_KEPT // (4 * expected + 1)))

    def answer(self, changes: Sequence[Change]) -> list[float]:
        """The logits of the first of these changes: of as many as are computed at once."""
        changes = changes[: self.changes_at_once]
        masks = self.universe.masks(changes)
        n, last, known = len(masks), self.layers[-1], self.inputs.size
        self.inputs.begin(masks)
        roots, change = np.repeat(self.roots, n), np.tile(np.arange(n), 2)
        ids = last.compute(last.plan(roots, np.concatenate([masks, masks]), change))
        self.largest = max(self.largest or 0, -(-(self.inputs.size - known) // n))
        pairs = list(zip(ids[:n].tolist(), ids[n:].tolist(), strict=True))
        new = {pair: change for pair, change in zip(pairs, changes, strict=True) if pair not in self.logits}
        if new:
            self._score(new)
        return [self.logits[pair] for pair in pairs]

    def _score(self, pairs: dict[tuple[int, int], Change]) -> None:
        """Score pairs of vectors; with each, a change of the past that leads to it."""
        source, target = np.array(list(pairs)).T
        values = self.layers[-1].values
        logits = self.decoder.score(self.source.of(values, source), self.target.of(values, target))
        self.logits.update(zip(pairs, logits.tolist(), strict=True))
        for pair, change in pairs.items() if self.exact else ():
            if abs(self.logits[pair]) < ON_THE_LINE:
                reference = self.model.reference(self.query, change)
                self.logits[pair] = float(reference.logits(self.query, [change])[0])


class FastSession:
    """A fast model asked about one query.

    What it knows is taken out while it changes: if a call fails or is interrupted, that is gone, and the next call
    starts afresh.
    """

    def __init__(self, model: FastModel, query: Query, rows: Iterable[int]) -> None:
        self.model = model
        self.query = query
        self.rows = frozenset(rows)  # what will probably be changed: better to make the masks once
        self._workspace: QueryWorkspace | None = None
        self._check = SelfCheck()

    @property
    def size(self) -> int:
        """How many numbers it keeps, roughly: vectors, and what is known about the versions of the past."""
        workspace = self._workspace
        return 0 if workspace is None else workspace.size + workspace.inputs.most

    @property
    def weight(self) -> int:
        """How many numbers one answer computes at most, roughly: those of the memories that may change."""
        with one_thread():
            self._workspace = self._take([])
        return self._workspace.inputs.most

    @property
    def corrections(self) -> Mapping[Change, float]:
        """The exact answers to what it had answered before it found that it must not approximate."""
        return self._check.corrections

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        changes = check_changes(self.model.graph, changes)
        if changes and not any(changes) and self._workspace is None:  # a link that is only scored needs no masks
            return np.repeat(self.model.logits_of_links([self.query]), len(changes))
        answers: list[float] = []
        with one_thread():
            while len(answers) < len(changes):
                workspace = self._take(changes[len(answers) :])
                answers += self._check.answer(workspace, changes[len(answers) :])
                self._workspace = self._check.trusted(workspace)
        return np.array(answers, dtype=np.float64)

    def _take(self, changes: Sequence[Change]) -> QueryWorkspace:
        """What is known, if that is enough for these changes and not too much."""
        asked = frozenset[int]().union(*changes)
        workspace, self._workspace = self._workspace, None
        if workspace is not None and asked <= workspace.universe.rows and workspace.size <= NUMBERS_KEPT:
            return workspace
        self.rows = self.rows | asked
        return self._check.trusted(QueryWorkspace(self.model, self.query, self.rows))


class FastModel:
    """A network asked about a graph; equal to `Replay` up to rounding. Each architecture says what its inputs are.

    It computes in double precision by default: then an answer, rounded as the `Oracle` does, does not depend on what
    else was asked in the same batch, except about long histories (`tgn.SMALL_CHANGE`). It remembers nothing; sessions
    do, and belong to who opened them.
    """

    gives_logits = True

    def __init__(self, network: Any, graph: TemporalGraph, *, has_inputs: bool, dtype: Any) -> None:
        self.graph = graph
        self.weights = Weights.of(network).astype(dtype)
        self.features = self.weights.features(graph)  # [N, d]
        layers = range(self.weights.sizes.layers)
        self.maps = [Maps.of(self.weights, layer, with_embeddings=has_inputs or layer > 0) for layer in layers]
        self.decoder = Decoder(self.weights)

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
        if graph.base_identity != self.graph.base_identity:
            raise CallError(f"{graph} is another log than {self.graph}; load the model for it")
        other = copy.copy(self)
        vars(other).pop("replay", None)
        other.graph, other.features = graph, self.weights.features(graph)
        return other

    def inputs(self, query: Query, universe: EditableEvents, nodes: IntArray) -> Inputs:
        raise NotImplementedError

    def inputs_as_they_are(self, nodes: IntArray, before: IntArray) -> FloatArray | None:
        """The inputs of nodes with nothing changed, each before a row; None where all are zero. [n], [n] → [n, d]"""
        raise NotImplementedError

    def logits_of_links(self, queries: Sequence[Query]) -> FloatArray:
        """The logit of each link with nothing changed. [n]"""
        for query in queries:
            check_query(self.graph, query)
        with one_thread():
            scorer = LinkScorer(self.weights, self.graph, self.maps, self.decoder, self.inputs_as_they_are)
            return scorer.logits(queries)

    def session(self, query: Query, rows: Iterable[int] = ()) -> FastSession:
        """A session about a query. `rows` will probably be changed, in one combination or another."""
        check_query(self.graph, query)
        return FastSession(self, query, rows)

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        return self.session(query).logits(changes)

    def reference(self, query: Query, change: Change, *, full: bool = False) -> Replay:
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
