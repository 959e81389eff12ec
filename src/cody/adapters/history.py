"""Models that are fed their history: a few functions become a model that can score any modified history.

The rule is that of `cody.engine.replay`: a fixed grid of batches over the real rows, in which a change leaves holes
and fills imagined places; every full batch before the query, then the batch that it cuts, unless the model does not see
its own batch. `HistoryModel` feeds them, saves the state of the model at some lines of the grid, and replays only from
the last of these before the oldest changed row.
"""

from __future__ import annotations

import bisect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from cody.adapters.past import Events, Past, tied_with
from cody.engine.threads import one_thread
from cody.errors import CallError, ModelError
from cody.graph import Difference, FloatArray, IntArray, Query, TemporalGraph, check_query, whole_number
from cody.graph.grid import Grid, make_grid
from cody.models.contract import HOPS, Change, LabelTask, Margin, add_labels, check_changes, label_task_of
from cody.utils.deadline import check_deadline
from cody.utils.signatures import check_callable

CALLS = (
    *("score(query, past)", "start()", "observe(events)", "save()", "restore(saved)"),
    *("reads(query, past)", "score_many(query, pasts)", "score_links(links, past)", "attends(query, past)"),
)  # of the functions of a model
SNAPSHOT_BYTES = 512 * 2**20
Needed = Callable[[list[IntArray], IntArray], list[IntArray]]  # batches, nodes that are read → events that can matter


@dataclass(frozen=True, slots=True)
class ModelSteps:
    """The functions of a model; see `from_steps`."""

    score: Callable[[Query, Past], Any]
    start: Callable[[], Any] | None = None
    observe: Callable[[Events], Any] | None = None
    save: Callable[[], Any] | None = None
    restore: Callable[[Any], Any] | None = None
    reads: Callable[[Query, Past], IntArray] | None = None
    score_many: Callable[[Query, Sequence[Past]], Any] | None = None
    score_links: Callable[[Sequence[Query], Past], Any] | None = None
    attends: Callable[[Query, Past], IntArray] | None = None
    labels: LabelTask | None = None
    gives_logits: bool = False  # and certainly not probabilities

    @property
    def outputs(self) -> int:
        """How many numbers there are for a link."""
        return 1 if self.labels is None else self.labels.outputs


def from_steps(
    graph: TemporalGraph,
    *,
    score: Callable[[Query, Past], Any],
    identity: str,
    start: Callable[[], Any] | None = None,
    observe: Callable[[Events], Any] | None = None,
    save: Callable[[], Any] | None = None,
    restore: Callable[[Any], Any] | None = None,
    reads: Callable[[Query, Past], IntArray] | None = None,
    score_many: Callable[[Query, Sequence[Past]], Any] | None = None,
    score_links: Callable[[Sequence[Query], Past], Any] | None = None,
    attends: Callable[[Query, Past], IntArray] | None = None,
    classes: Sequence[str] | None = None,
    about: str = "event",
    threshold: float | None = None,
    batch: int = 200,
    splits: Iterable[int] = (),
    sees_own_batch: bool = True,
    feeds_own_batch: bool = True,
    hops: int = HOPS,
    gives_logits: bool = False,
    snapshot_bytes: int = SNAPSHOT_BYTES,
) -> HistoryModel:
    """A model built from a few functions.

    A model without memory needs only `score`. A model with memory also needs `start` and `observe`; with `save` and
    `restore`, its state is saved at some places of the log, and put back after every call. Without these two, each
    evaluation replays the whole log, and the model is left in the state of the last one.

    Args:
        graph: The log of events that the model is fed.
        score: `score(query, past)` returns the logit of a link; `past` is the history it sees (`past.events`,
            `past.recent(nodes, count)`). With more than two classes, it returns one score per class.
        identity: A string that changes whenever the answers of the model may change.
        start: `start()` resets the model to an empty history.
        observe: `observe(events)` feeds the next batch.
        save: `save()` returns a copy of the state, which must not share anything that `observe` writes to.
        restore: `restore(saved)` puts a saved state back.
        reads: `reads(query, past)` returns the nodes whose state `score` reads. Give it only if an event changes the
            state of its own two nodes and of no others, from their states before the batch: events that cannot reach
            these nodes are then not replayed.
        score_many: `score_many(query, pasts)` returns the logits of many histories at once, for a model without memory.
        score_links: `score_links(links, past)` returns the logits of many links of one moment at once, for rankings.
            By default, `score` is called for each of them; the events are fed once in either case.
        attends: `attends(query, past)` returns the rows that a score depends on, of a model without memory. Give it
            only if no other event can change the score alone: proofs rest on it.
        classes: Names of the classes, if the model labels events or nodes instead of predicting links. Of two, the
            second one is predicted where the logit is above 0.
        about: What is labelled: "event" or "node".
        threshold: With two classes, the probability above which the second one is predicted. Default: 0.5.
        batch: Number of events that the model was fed at a time during training.
        splits: Rows from which batches are counted anew, as with one loader per part of the data.
        sees_own_batch: If False, a link sees no event of its own batch, as in a loop that scores a batch of links and
            then feeds it; a link after the last event sees all of them.
        feeds_own_batch: If False, only the state lacks the events of the link's own batch: `score` still finds them in
            `past`.
        hops: How many events away from a link the model looks.
        gives_logits: Do not warn if all answers lie between 0 and 1.
        snapshot_bytes: Memory budget for saved states.

    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 1, 0], dst=[1, 2, 2, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> def touching(query, past):
    ...     return sum(query.src in (a, b) for a, b in zip(past.events.src, past.events.dst)) - 1.5
    >>> model = from_steps(graph, score=touching, identity="events of the source")
    >>> model.logits(graph.query(3), [frozenset(), frozenset({0})])
    array([ 0.5, -0.5])
    """
    labels = label_task_of(classes, about, threshold)
    steps = ModelSteps(
        score, start, observe, save, restore, reads, score_many, score_links, attends, labels, gives_logits
    )
    for call in CALLS:
        if (function := getattr(steps, call.partition("(")[0])) is not None:
            check_callable(function, call)
    for one, other in (("start", "observe"), ("observe", "start"), ("save", "restore"), ("restore", "save")):
        if getattr(steps, one) is not None and getattr(steps, other) is None:
            raise CallError(f"a model with {one}() needs {other}() too")
    if save is not None and start is None:
        raise CallError("save() and restore() are for a model with memory, which has start() and observe() too")
    if not isinstance(graph, TemporalGraph):
        raise CallError(f"the first argument is a graph, as returned by cody.load, not {graph!r:.60}")
    hops = whole_number("hops", hops)
    if hops < 1:
        raise CallError(f"hops must be at least 1, not {hops}")
    feeding = Feeding(make_grid(batch, splits), bool(sees_own_batch), bool(feeds_own_batch))
    return HistoryModel(graph, steps, str(identity), feeding, hops, Snapshots(snapshot_bytes // 2))


@dataclass(frozen=True, slots=True)
class Feeding:
    """How a model is fed: its batches, and whether a link sees the earlier events of its own."""

    grid: Grid
    sees_own_batch: bool = True
    feeds_own_batch: bool = True  # whether the state includes them, if it sees them


@dataclass(eq=False, repr=False)
class HistoryModel:
    """A model made of `ModelSteps`. Calls are serialised by a lock."""

    graph: TemporalGraph
    steps: ModelSteps
    identity: str
    feeding: Feeding
    hops: int
    snapshots: Snapshots  # of the unchanged log
    modules: Any = None  # of an adapter: the object behind its functions
    turn: Any = field(default_factory=threading.RLock)  # to use the functions; models that share them share it

    def __post_init__(self) -> None:
        self.grid = self.feeding.grid
        add_labels(self, self.steps.labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity} on {self.graph})"

    @property
    def gives_logits(self) -> bool:
        return self.steps.gives_logits

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change, [B]; with more than two classes, the score of each. [B, C]"""
        return self.session(query).logits(changes)

    def sees_before(self, query: Query) -> int:
        """The first row that cannot affect a query."""
        return query.before if self.feeding.sees_own_batch else self._before_own_batch(query)

    def state_before(self, query: Query) -> int:
        """The first row that the state does not include when a query is scored."""
        return query.before if self.feeding.feeds_own_batch else self._before_own_batch(query)

    def _before_own_batch(self, query: Query) -> int:
        """Where nothing happens after the past of a query, all of it was fed before it is scored."""
        is_last = query.before == self.graph.num_events or self.graph.is_ahead(query)
        return query.before if is_last else self.grid.line(query.before)

    def attended(self, query: Query) -> IntArray | None:
        """The rows that the answer depends on with nothing changed, sorted; None if that is not known."""
        if self.steps.attends is None or self.steps.start is not None:
            return None
        query = self.as_fed(query)
        rows = self.steps.attends(query, Past(self.graph, query))
        return np.unique(np.asarray(rows, dtype=np.int64))

    def as_fed(self, query: Query) -> Query:
        """The query, with what the model sees before it."""
        check_query(self.graph, query)
        return query._replace(before=self.sees_before(query))

    def session(self, query: Query, rows: Iterable[int] = ()) -> HistorySession:
        """A session for a query: it caches the states before the changed rows."""
        return HistorySession(self, [self.as_fed(query)])

    def session_of_links(self, links: Sequence[Query], margin: Margin, rows: Iterable[int] = ()) -> HistorySession:
        """A session for links of one moment: events are fed once for all of them.

        Args:
            links: All with the same time and visible past.
            margin: Of the decision that their scores lead to. Not needed: all scores are exact.
            rows: Rows that will probably be changed.
        """
        return HistorySession(self, [self.as_fed(link) for link in links])

    def reference(self, query: Query, change: Change, *, full: bool = False) -> HistoryReference:
        """The reference implementation: every event is replayed, and at most one saved state is used.

        Args:
            query: The link that is scored.
            change: The edited rows: a real row is removed, an imagined row is added.
            full: Replay from row 0 instead of from the latest state before the change.
        """
        (change,) = check_changes(self.graph, [change])
        query = self.as_fed(query)
        line = 0 if full or self.steps.save is None else self.line_before(query, self.graph.difference(change, query))
        return HistoryReference(self, self.snapshots.last_line(line))

    def reference_of_links(self, links: Sequence[Query], change: Change, *, full: bool = False) -> HistoryReference:
        """The same for links of one moment.

        Args:
            links: The links that are scored.
            change: The edited rows.
            full: Replay from row 0 instead of from the latest state before the change.
        """
        return self.reference(links[0], change, full=full)

    def on(self, graph: TemporalGraph) -> Self:
        """The same model on another log of the same nodes."""
        other = copy(self)
        other.graph, other.turn = graph, self.turn  # the functions are the same
        if graph.base_identity == self.graph.base_identity:
            other.snapshots = self.snapshots
        return other

    def fed(self, feeding: Feeding) -> Self:
        """The same functions with another feeding; this is another model."""
        other = copy(self)
        other.identity, other.feeding, other.grid = f"{self.identity} {feeding}", feeding, feeding.grid
        other.turn = self.turn
        return other

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Exclusive use of the user's model, on one thread; its state is restored afterwards, whatever happens."""
        with self.turn, one_thread():
            if self.steps.save is None or self.steps.restore is None:
                yield
                return
            before = self.steps.save()
            try:
                yield
            finally:
                self.steps.restore(before)

    def line_before(self, query: Query, outcome: Difference) -> int:
        """The last line of the grid before the first changed row, and at or before the query."""
        imagined = self.graph.next_real(np.array(outcome.present, dtype=np.int64)).tolist()
        first: int = min([*outcome.absent, *imagined, query.before])
        return self.grid.line(first)

    def go_to(self, line: int, near: Snapshots) -> None:
        """Bring the model to a line of the grid with nothing changed, from the last saved state before it."""
        begin, saved = max(self.snapshots.last(line), near.last(line), key=lambda snapshot: snapshot[0])
        self.begin(saved)
        unchanged = Past.whole(self.graph, line)
        for number in range(self.grid.number(begin), self.grid.number(line)):
            first = self.grid.first(number)
            if self.snapshots.wants(number, first):
                self.keep(self.snapshots, first)
            self.observe(self.grid.rows(number, line), unchanged)
        if line not in near and line > begin:
            self.keep(near, line)

    def begin(self, saved: Any) -> None:
        if saved is None:
            assert self.steps.start is not None
            self.steps.start()
        else:
            assert self.steps.restore is not None
            self.steps.restore(saved)

    def keep(self, snapshots: Snapshots, line: int) -> None:
        if self.steps.save is not None:
            snapshots.keep(line, self.steps.save())

    def observe(self, rows: IntArray, past: Past | None = None) -> None:
        """Feed a batch."""
        check_deadline()
        if len(rows):
            assert self.steps.observe is not None
            self.steps.observe(Events(self.graph, rows, past))

    def feed(
        self, past: Past, line: int, links: Sequence[Query], *, needed: Needed | None, fed: IntArray | None = None
    ) -> None:
        """Feed the events of a history from a row on, batch by batch.

        Args:
            past: The history to feed.
            line: The first row to feed.
            links: What is scored then.
            needed: Which events of batches can affect the states that are read; None: feed all of them.
            fed: If given, only these rows are fed.
        """
        rows = past.rows(line)
        fed_before = self.state_before(past.query)
        if fed_before < past.query.before:
            rows = rows[self.graph.next_real(rows) < fed_before]
        if fed is not None:
            rows = rows[np.isin(rows, fed)]
        batches = np.split(rows, np.flatnonzero(np.diff(self.grid.number(self.graph.next_real(rows)))) + 1)
        if self.steps.reads is not None and needed is not None:
            read = [self.steps.reads(link, past.of_link(link)) for link in links]
            batches = needed(batches, np.unique(np.concatenate(read)))
        for batch in batches:
            self.observe(batch, past)

    def that_reach(self, batches: list[IntArray], nodes: IntArray) -> list[IntArray]:
        """Of each batch, the events that the states of `nodes` after the last one can depend on."""
        needed = np.zeros(self.graph.num_nodes, dtype=bool)
        needed[nodes] = True
        reaching = []
        for rows in reversed(batches):
            again = tied_with(self.graph, self.graph.time, self.grid, rows)
            rows, again = (some[needed[self.graph.src[some]] | needed[self.graph.dst[some]]] for some in (rows, again))
            for some in (rows, again):
                needed[self.graph.src[some]] = needed[self.graph.dst[some]] = True
            reaching.append(rows)
        return reaching[::-1]

    def score(self, past: Past, links: Sequence[Query]) -> FloatArray:
        """The scores of links of one moment, from the current state: one number for each, or one per class. [m]"""
        steps, outputs = self.steps, self.steps.outputs
        if steps.score_links is not None and len(links) > 1:
            return _table(steps.score_links(links, past), len(links), outputs, "score_links(links, past)").ravel()
        return np.concatenate(
            [_table([steps.score(link, past.of_link(link))], 1, outputs, "score(query, past)")[0] for link in links]
        )

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name != "turn"}
        return kept | {"snapshots": Snapshots(self.snapshots.most)}  # a copy, perhaps in another process, has its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.turn = threading.RLock()


class HistorySession:
    """Evaluates changes of links of one moment, and caches the states before the changed rows."""

    def __init__(self, model: HistoryModel, links: Sequence[Query]) -> None:
        self.model, self.links, self.query = model, links, links[0]
        self.near = Snapshots(model.snapshots.most)

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change, [B]; with more than two classes, the score of each. [B, C]"""
        scores = self.scores(changes)
        return scores[:, 0] if self.model.steps.outputs == 1 else scores

    def scores(self, changes: Sequence[Change]) -> FloatArray:
        """The scores of all links for each change. [B, m]"""
        model, graph = self.model, self.model.graph
        checked = check_changes(graph, changes)
        pasts = [Past(graph, self.query, graph.difference(change, self.query)) for change in checked]
        with model.borrowed():
            if self._many_at_once(len(pasts)):
                return np.concatenate([self._scores_of_many(link, pasts) for link in self.links], axis=1)
            scores = [self._scores(past) for past in pasts]
        return np.array(scores, dtype=np.float64).reshape(len(pasts), len(self.links) * model.steps.outputs)

    def _many_at_once(self, pasts: int) -> bool:
        """Whether to score a link in all histories at once, rather than all links in one history."""
        steps = self.model.steps
        possible = steps.start is None and steps.score_many is not None and pasts > 0
        return possible and (steps.score_links is None or len(self.links) <= pasts)

    def _scores_of_many(self, link: Query, pasts: Sequence[Past]) -> FloatArray:
        check_deadline()
        steps = self.model.steps
        assert steps.score_many is not None
        answers = steps.score_many(link, [past.of_link(link) for past in pasts])
        return _table(answers, len(pasts), steps.outputs, "score_many(query, pasts)")

    def _scores(self, past: Past) -> FloatArray:
        check_deadline()
        if self.model.steps.start is not None:
            line = self.model.line_before(self.query, past.outcome)
            self.model.go_to(line, self.near)
            self.model.feed(past, line, self.links, needed=self.model.that_reach)
        return self.model.score(past, self.links)


@dataclass(frozen=True, slots=True)
class HistoryReference:
    """The reference implementation of a history-fed model: one state, then all events, or all that can matter."""

    model: HistoryModel
    since: int
    needed: Needed | None = None

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit per change, [B], or one row of class scores; a change before `since` is replayed from row 0."""
        scores = self.scores([query], changes)
        return scores[:, 0] if self.model.steps.outputs == 1 else scores

    def scores(self, links: Sequence[Query], changes: Sequence[Change]) -> FloatArray:
        """The scores of all links, which are of one moment, for each change. [B, m]"""
        model = self.model
        links = [model.as_fed(link) for link in links]
        outcomes = [model.graph.difference(change, links[0]) for change in check_changes(model.graph, changes)]
        with model.borrowed():
            scores = [self._scores(Past(model.graph, links[0], outcome), links) for outcome in outcomes]
        return np.array(scores, dtype=np.float64).reshape(len(outcomes), len(links) * model.steps.outputs)

    def _scores(self, past: Past, links: Sequence[Query]) -> FloatArray:
        model = self.model
        if model.steps.start is not None:
            possible = self.since <= model.line_before(past.query, past.outcome)
            begin, saved = model.snapshots.last(self.since if possible else 0)
            model.begin(saved)
            model.feed(past, begin, links, needed=self.needed)
        return model.score(past, links)


def _table(answers: Any, count: int, outputs: int, call: str) -> FloatArray:
    """The answers of a user's function as a table. [count, outputs]"""
    try:
        rows = [np.array([float(number) for number in np.ravel(answer)]) for answer in answers]
    except (TypeError, ValueError, RuntimeError):
        rows = []
    if len(rows) != count or any(len(row) != outputs for row in rows):
        wanted = "one number" if outputs == 1 else f"one number for each of {outputs} classes"
        each = "" if call.startswith("score(") else f" for each of {count}"
        given = answers[0] if call.startswith("score(") else answers
        raise ModelError(f"{call} must return {wanted}{each}, not {str(given)[:60]!r}")
    return np.array(rows).reshape(count, outputs)


class Snapshots:
    """Saved states by row, at most `most` bytes: if there is no room, every second one is dropped."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0  # bytes
        self.stride = 1  # between lines to save
        self._lines: list[int] = []  # sorted
        self._saved: dict[int, Any] = {}

    def __contains__(self, line: int) -> bool:
        return line in self._saved

    def wants(self, number: int, line: int) -> bool:
        """Whether the state at the line with this number should be saved."""
        return number > 0 and number % self.stride == 0 and line not in self._saved

    def last(self, row: int) -> tuple[int, Any]:
        """The last line at or before `row` with a saved state, and that state; row 0 and None if there is none."""
        line = self.last_line(row)
        return line, self._saved.get(line)

    def last_line(self, row: int) -> int:
        place = bisect.bisect_right(self._lines, row)
        return self._lines[place - 1] if place else 0

    def keep(self, line: int, saved: Any) -> None:
        """Save a state, dropping others if necessary."""
        size = size_of(saved)
        while self._lines and self.size + size > self.most:
            self.stride *= 2
            for dropped in self._lines[::2]:
                self.size -= size_of(self._saved.pop(dropped))
            self._lines = self._lines[1::2]
        if size <= self.most:
            self._saved[line] = saved
            bisect.insort(self._lines, line)
            self.size += size


def size_of(saved: Any) -> int:
    """The approximate size of a state in bytes.

    >>> import numpy as np
    >>> size_of({"memory": np.zeros((10, 10)), "rest": [np.zeros(5)]}) >= 840
    True
    """
    size = getattr(saved, "nbytes", None)
    if isinstance(size, int):
        return size
    parts = saved.values() if isinstance(saved, dict) else saved if isinstance(saved, list | tuple) else ()
    return sys.getsizeof(saved) + sum(map(size_of, parts))
