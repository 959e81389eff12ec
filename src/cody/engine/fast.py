"""Exact answers for many changes at once, computing only what each of them changes.

Read `replay.py` first: it says what an answer is. Here the same answer is put together from parts that most changes
share. A part is the embedding of a node in a layer; it is a function of the node and of those events that are changed
and can reach it (`masks.py` says which). For each change, the two nodes of the query are looked up in the last layer.
What is not there yet asks the layer below for its neighbours, and so on down to the inputs (`FastTGAT`: node features;
`tgn.py`: features and memory). Then every layer, lowest first, computes all its new parts in one go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol, Self

import numpy as np

from cody.engine.attention import Decoder, Maps
from cody.engine.layer import Below, CompiledLayer, CompiledLinkDecoder, EventInputs, Layer, LinkDecoder, Reach
from cody.engine.library import library
from cody.engine.links import InputsWithout, LinkScorer, LinksWithout
from cody.engine.masks import EditableEvents, Masks, Windows
from cody.engine.replay import NetworkOnGraph, Replay
from cody.engine.selfcheck import CheckedSession
from cody.engine.short import scores_of_kept
from cody.engine.threads import one_thread
from cody.engine.vectors import Vectors, numbered_rows
from cody.engine.weights import Weights
from cody.errors import CallError
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph, check_queries, check_query, sorted_unique
from cody.models.contract import AttentionLayer, Change, Margin, check_changes, first_score
from cody.utils.deadline import check_deadline

SCORES_AT_ONCE = 65_536  # of all links together: bounds the temporary memory where many links are scored
CHANGES_AT_ONCE = 256  # bounds the temporary memory of a large batch
NUMBERS_KEPT = 100_000_000  # remembered about a query (0.8 GB) before it is started afresh
NUMBERS_AT_ONCE = 12_000_000  # that a batch may add to the inputs, as far as that can be expected
REFINED = 1  # how often estimates that are wrong are made less rough, before all answers are exact
ON_THE_LINE = 2e-5  # a logit this close to 0 is computed by the reference: rounding could decide it


class Inputs(Below, Protocol):
    """What the attention layers of a query start from: the layer-0 input of each node."""

    @property
    def exact(self) -> bool:
        """Whether nothing is approximated."""

    def exactly(self) -> Inputs:
        """The same inputs without approximation; none is computed yet."""

    def finer(self) -> Inputs:
        """The same inputs with an approximation that is less rough; none is computed yet."""

    @property
    def most(self) -> int:
        """How many numbers a change can add at most."""

    def begin(self, changes: Masks) -> None:
        """What is planned and computed next is about these changes of the past. [n, w]"""


class QueryWorkspace:
    """All that is known about links of one moment, for changes of some events. It only grows; no answer ever changes.

    With many links, whatever a change does not touch is computed once for all of them.
    """

    def __init__(
        self, model: FastModel, links: Sequence[Query], rows: Iterable[int], margin: Margin = first_score
    ) -> None:
        self.model, self.links, self.margin = model, links, margin
        query, sizes = links[0], model.weights.sizes
        self.editable = EditableEvents(model.graph, query, rows)
        ends = np.array([[link.src, link.dst] for link in links])  # [n, 2]
        nodes = roots = sorted_unique(ends.ravel())
        for _ in range(sizes.layers):  # one hop further with each layer
            check_deadline()
            windows = Windows(model.graph, query, self.editable, nodes, sizes.neighbours)
            nodes = sorted_unique(np.concatenate([nodes, windows.other.ravel()]))
        self.reach = Reach(nodes, windows)
        self.roots = self.reach.place(roots)
        self.source_root, self.target_root = np.searchsorted(roots, ends).T  # [n], [n] which of the roots
        self.windows = windows
        self.events = EventInputs(model.weights, model.graph, query, windows.events)
        self.refined = 0  # how often estimates were made less rough
        self._begin(model.inputs(query, self.editable, nodes))

    def _begin(self, inputs: Inputs) -> None:
        """Nothing is computed yet from these inputs."""
        self.inputs = inputs
        loaded = library() if self.model.weights.dtype == np.float64 else None
        layer = Layer if loaded is None else partial(CompiledLayer, loaded)
        decoder = LinkDecoder if loaded is None else partial(CompiledLinkDecoder, loaded)
        self.layers: list[Layer] = []
        for maps in self.model.maps:
            below: Below = self.layers[-1] if self.layers else inputs
            self.layers.append(layer(maps, below, self.windows, self.reach, self.events))
        self.decoder = decoder(self.model.decoder)
        self.largest: int | None = None  # how many numbers of inputs a change has added, in the mean of a batch
        self.scored = numbered_rows(len(self.roots))  # ids of the roots' vectors → number of their scores
        self.scores = Vectors(len(self.links) * self.model.outputs, np.float64)  # [≥ numbers, m] of the links

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
        expected = self.inputs.most if self.largest is None else min(self.inputs.most, 2 * self.largest)
        several = max(1, SCORES_AT_ONCE // len(self.links))
        return max(1, min(CHANGES_AT_ONCE, several, NUMBERS_AT_ONCE // (expected + 1)))

    def answer(self, changes: Sequence[Change]) -> list[FloatArray]:
        """The scores of the first of these changes, [m] each: of as many as are computed at once."""
        return list(self.scores_of(changes))

    def scores_of(self, changes: Sequence[Change]) -> FloatArray:
        """The scores of the first of these changes: of as many as are computed at once. → [n, m]"""
        changes = changes[: self.changes_at_once]
        masks = self.editable.masks(changes)
        n, last, known = len(masks), self.layers[-1], self.inputs.size
        self.inputs.begin(masks)
        roots, change = np.repeat(self.roots, n), np.tile(np.arange(n), len(self.roots))
        ids = last.compute(last.plan(roots, np.tile(masks, (len(self.roots), 1)), change))
        self.largest = max(self.largest or 0, -(-(self.inputs.size - known) // n))
        vectors = ids.reshape(len(self.roots), n).T  # [n, roots]
        numbers, new = self.scored.find(vectors)
        if len(new):
            scores = self._score(vectors[new], [changes[place] for place in new.tolist()])
            self.scores.append(len(new))[:] = scores
        return self.scores.values[numbers]

    def _score(self, vectors: IntArray, changes: list[Change]) -> FloatArray:
        """The scores of the links from the vectors of the roots; with each, a change that leads to it. → [n, m]"""
        source, target = vectors[:, self.source_root].ravel(), vectors[:, self.target_root].ravel()
        scores = self.decoder.score(self.layers[-1].values, source, target).reshape(len(vectors), -1)
        if self.exact:
            for place in np.flatnonzero(np.abs(self.margin(scores)) < ON_THE_LINE).tolist():
                reference = self.model.reference_of_links(self.links, changes[place])
                scores[place] = reference.scores(self.links, changes[place : place + 1])[0]
        return scores


class FastSession(CheckedSession):
    """A fast model that scores one link, or several of the same moment."""

    def __init__(self, model: FastModel, links: Sequence[Query], margin: Margin | None, rows: Iterable[int]) -> None:
        super().__init__(links, model.outputs, margin, rows)  # with the rows, masks are made once
        self.model, self.margin = model, margin or first_score
        self._workspace: QueryWorkspace | None = None

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

    def scores(self, changes: Sequence[Change]) -> FloatArray:
        """The scores of all links for each change. [B, m]"""
        changes = check_changes(self.model.graph, changes)
        if changes and not any(changes) and self._workspace is None:  # a link that is only scored needs no masks
            return np.tile(self.model.logits_of_links(self.links).ravel(), (len(changes), 1))
        answers = [self.table([])]
        with one_thread():
            while changes:
                workspace = self._take(changes)
                is_exact = workspace.exact
                some = workspace.scores_of(changes) if is_exact else self.table(self._check.answer(workspace, changes))
                answers.append(some)
                changes = changes[len(answers[-1]) :]
                self._workspace = self._check.trusted(workspace)
        return np.concatenate(answers)

    def _take(self, changes: Sequence[Change]) -> QueryWorkspace:
        """What is known, if that is enough for these changes and not too much."""
        changed = frozenset[int]().union(*changes)
        workspace, self._workspace = self._workspace, None
        if workspace is not None and changed <= workspace.editable.rows and workspace.size <= NUMBERS_KEPT:
            return workspace
        self.rows = self.rows | changed
        return self._check.trusted(QueryWorkspace(self.model, self.links, self.rows, self.margin))


class FastModel(NetworkOnGraph):
    """A network on a graph; equal to `Replay` up to rounding. Each architecture says what its inputs are.

    It computes in double precision by default: then an answer, rounded as the `Oracle` does, does not depend on what
    else was in the same batch, except about long histories (`tgn.SMALL_CHANGE`). It remembers nothing; sessions
    do, and belong to who opened them.
    """

    def __init__(self, network: Any, graph: TemporalGraph, *, has_inputs: bool, dtype: Any) -> None:
        self.graph = graph
        self.weights = Weights.of(network).astype(dtype)
        self.features = self.weights.features(graph)  # [N, d]
        layers = range(self.weights.sizes.layers)
        self.maps = [Maps.of(self.weights, layer, with_embeddings=has_inputs or layer > 0) for layer in layers]
        self.decoder = Decoder(self.weights)

    @property
    def outputs(self) -> int:
        """How many scores there are for a link: 1, or one for each class."""
        return len(self.weights["score.out.weight"])

    def on(self, graph: TemporalGraph) -> Self:
        """The same model on a log that is longer by imagined rows."""
        if graph.base_identity != self.graph.base_identity:
            raise CallError(f"{graph} is another log than {self.graph}; load the model for it")
        other = copy.copy(self)
        vars(other).pop("replay", None)
        other.graph, other.features = graph, self.weights.features(graph)
        return other

    def inputs(self, query: Query, editable: EditableEvents, nodes: IntArray) -> Inputs:
        raise NotImplementedError

    def inputs_as_they_are(self, nodes: IntArray, before: IntArray) -> FloatArray | None:
        """The inputs of nodes with nothing changed, each before a row; None where all are zero. [n], [n] → [n, d]"""
        raise NotImplementedError

    def logits_of_links(self, queries: Sequence[Query]) -> FloatArray:
        """The logit of each link with nothing changed. [n]"""
        check_queries(self.graph, queries)
        with one_thread():
            scorer = LinkScorer(self.weights, self.graph, self.maps, self.decoder, self.inputs_as_they_are)
            return scorer.logits(queries)

    def links_without(self, removed: Change) -> LinksWithout:
        """Scores links of the log without some events."""
        return LinksWithout(self, removed)

    def inputs_without(self, without: TemporalGraph, removed: BoolArray) -> InputsWithout:
        """The inputs on a log without some events: its lists of events lack those that are `removed`. [rows]"""
        return InputsWithout(self)

    def session(self, query: Query, rows: Iterable[int] = ()) -> FastSession:
        """A session about a query. `rows` will probably be changed, in one combination or another."""
        check_query(self.graph, query)
        return FastSession(self, (query,), None, rows)

    def session_of_links(self, links: Sequence[Query], margin: Margin, rows: Iterable[int] = ()) -> FastSession:
        """A session about links of one moment, which shares everything that a change does not touch.

        Args:
            links: All with the same time and the same visible past.
            margin: Of the decision that their scores lead to.
            rows: What will probably be changed.
        """
        check_queries(self.graph, links)
        return FastSession(self, links, margin, rows)

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        return self.session(query).logits(changes)

    def reference(self, query: Query, change: Change, *, full: bool = False) -> Replay:
        """The definition of what this model answers: from row 0 if `full`, else from as late as it can."""
        return self.reference_of_links([query], change, full=full)

    def reference_of_links(self, links: Sequence[Query], change: Change, *, full: bool = False) -> Replay:
        """The same for links of one moment."""
        return self.replay

    def attention(self, query: Query) -> list[AttentionLayer]:
        """What each layer attends to with nothing changed, the highest first."""
        return self.reference(query, frozenset()).attention(query)

    @cached_property
    def replay(self) -> Replay:
        return Replay(self.weights, self.graph, dtype=self.weights.dtype)

    def only(self, query: Query, kept: Change) -> float:
        """The logit of a past that consists of the kept events only."""
        return float(self.only_of_links([query], kept)[0])

    def only_of_links(self, links: Sequence[Query], kept: Change) -> FloatArray:
        """The scores of links of one moment, for a past that consists of the kept events only. [m]"""
        check_queries(self.graph, links)
        (kept,) = check_changes(self.graph, [kept])
        return scores_of_kept(self.replay, links, kept)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.graph}, {self.weights.sizes.dimension} dimensions)"


class FeatureInputs:
    """Node features, which no change of the past can change; the id of a node's input is the node."""

    exact = True
    size = most = 0  # they are not remembered for a query

    def __init__(self, features: FloatArray | None, editable: EditableEvents, nodes: IntArray) -> None:
        self.values = None if features is None else features[nodes]
        self.depends = np.zeros((len(nodes), editable.words), dtype=np.uint64)

    def exactly(self) -> FeatureInputs:
        return self

    def finer(self) -> FeatureInputs:
        return self

    def begin(self, changes: Masks) -> None:
        pass

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> IntArray:
        return nodes

    def compute(self, plan: IntArray) -> IntArray:
        return plan


class FastTGAT(FastModel):
    """A TGAT, equal to its `Replay`."""

    def __init__(self, network: Any, graph: TemporalGraph, *, dtype: Any = np.float64) -> None:
        super().__init__(network, graph, has_inputs=graph.node_features is not None, dtype=dtype)

    def attended(self, query: Query) -> IntArray:
        """The rows that all layers together attend to with nothing changed. Ascending."""
        nodes, sizes = sorted_unique(np.array([query.src, query.dst])), self.weights.sizes
        rows = nodes[:0]
        for _ in range(sizes.layers):  # one hop further with each layer
            rows = self.graph.recent(nodes, query.before, sizes.neighbours)
            rows = sorted_unique(rows[rows >= 0])
            nodes = sorted_unique(np.concatenate([nodes, self.graph.src[rows], self.graph.dst[rows]]))
        return rows

    def inputs(self, query: Query, editable: EditableEvents, nodes: IntArray) -> Inputs:
        return FeatureInputs(self.features, editable, nodes)

    def inputs_as_they_are(self, nodes: IntArray, before: IntArray) -> FloatArray | None:
        return None if self.features is None else self.features[nodes]
