"""A model under test: the calls, and how its answers are read."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from threading import Barrier
from typing import Any, NamedTuple

import numpy as np

from cody.errors import BudgetError, ModelError, first_line
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.graph.neighbourhood import candidates
from cody.models.contract import Change, Model, as_floats, as_scores, check_logits, label_task
from cody.utils.deadline import until

UNCHANGED: Change = frozenset()
QUICK_QUERIES = 2
LARGE = 500  # rows; changes of more, or of the distant past, can take very long: only few checks use them
MANY_ROWS = 100_000

Ask = Callable[[list[Change]], Any]  # changes → answers of a model, a session or a reference, for one query


class Failed(Exception):  # noqa: N818  the model's failure, not ours
    """What is wrong with the model, and the cause, if it is not the usual one of the check."""

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


class Skipped(Exception):  # noqa: N818  not an error
    """Why a check cannot be made."""


class TrialQuestion(NamedTuple):
    """Changes to the history of one query."""

    query: Query
    changes: list[Change]


class TwoAnswers(NamedTuple):
    """Two answers to the same call, and how each was obtained: "… is 1.23 alone but 1.31 in a batch of 4"."""

    query: Query
    changes: Sequence[Change]
    one: FloatArray  # [B], or [B, C] of class scores
    other: FloatArray
    here: str = ""
    there: str = ""

    def differing(self, tolerance: float) -> list[int]:
        """The positions of the answers that are not equal."""
        unequal = ~(np.abs(self.one - self.other) <= tolerance)
        return np.flatnonzero(unequal.reshape(len(unequal), -1).any(axis=1)).tolist()

    def described(self, place: int) -> str:
        """The two answers at a position, in words."""
        one, other = np.ravel(self.one[place]), np.ravel(self.other[place])
        worst = int(np.abs(one - other).argmax())  # of the classes
        here, there = f"{one[worst]:.6g} {self.here}".strip(), f"{other[worst]:.6g} {self.there}".strip()
        return f"the logit of {words_for(self.query, [self.changes[place]])} is {here} but {there}"


@dataclass(slots=True)
class Trial:
    """A model, its test queries, and what was observed in all of its calls."""

    model: Model
    graph: TemporalGraph
    questions: Sequence[TrialQuestion]
    reference: Model | None
    tolerance: float
    rng: np.random.Generator
    quick: bool
    deadline: float  # of `time.monotonic`
    columns: dict[str, str] = field(init=False)  # hashes of the columns of the graph before the first call
    identity: object = field(init=False)  # of the model, at that time
    changed_list: str = ""  # the first call whose list of changes the model modified
    odd_form: str = ""  # the first answer that was not an array of the promised form

    def __post_init__(self) -> None:
        self.columns = hashes_of_columns(self.graph, quick=self.quick)
        self.identity = identity_or_error(self.model)

    @property
    def outputs(self) -> int:
        """How many numbers there are for a link: 1, or one for each of more than two classes."""
        task = label_task(self.model)
        return 1 if task is None else task.outputs

    def ask(self, query: Query, changes: Sequence[Change], ask: Ask | None = None) -> FloatArray:
        """The answers of the model, or of the function `ask`, checked to be numbers. [B], or [B, C] of class scores"""
        self.check_time()
        call, given = words_for(query, changes), list(changes)
        try:
            with until(self.deadline):
                answers = (ask or partial(self.model.logits, query))(given)
        except (Exception, Stop) as error:
            if isinstance(error, BudgetError):
                self.check_time()
            raise Failed(f"{call} raised {type(error).__name__}: {first_line(error)}", RAISED) from None
        if given != list(changes):
            self.changed_list = self.changed_list or call
        form = form_of(answers)
        promised = isinstance(answers, np.ndarray) and answers.dtype.kind == "f"
        if ask is None and not (promised and answers.ndim == 1 + (self.outputs > 1)):
            self.odd_form = self.odd_form or f"{form} for {call}"
        if self.outputs > 1:
            wanted = f"one score for each of {self.outputs} classes per set"
            return _read_classes(query, changes, answers, self.outputs, f"the answer for {call} must be {wanted}")
        return _read(query, changes, answers, f"the answer for {call} must be one number per set, not {form}")

    def same(self, query: Query, changes: Sequence[Change], ask: Ask, there: str) -> TwoAnswers:
        """The answers of the model, and those of another function, called `there`, to the same call."""
        return TwoAnswers(query, changes, self.ask(query, changes), self.ask(query, changes, ask), "", there)

    def pairs(
        self, query: Query, one: Sequence[Change], other: Sequence[Change], words: str, ask: Ask | None = None
    ) -> TwoAnswers:
        """The answers to pairs of changes, from one batch."""
        answers = self.ask(query, [*one, *other], ask)
        return TwoAnswers(query, one, answers[: len(one)], answers[len(one) :], "", words)

    def ask_hypothetical(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """The answers for a link that did not happen. A model may reject such links. [B]"""
        try:
            return self.ask(query, changes)
        except Failed as failure:
            if failure.cause != RAISED:
                raise
        raise Skipped("needs a link that did not happen, and the model rejects those (see `hypothetical`)")

    def check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise Skipped("time ran out before it was finished")

    def other(self, query: Query, step: int = 1) -> TrialQuestion:
        """The query after this one, cyclically."""
        place = [question.query for question in self.questions].index(query)
        return self.questions[(place + step) % len(self.questions)]

    def fresh(self, query: Query, share: int = 3) -> Change:
        """A removal that was probably not evaluated before: a share of the rows in `past_of`."""
        rows = past_of(self.graph, query)
        return some_of(rows, len(rows) // share, self.rng)


RAISED = "the error is the model's own: make this call directly, and read the traceback"
NOT_NUMBERS = "logits(query, changes) returns one number for each change, for example np.array(scores) of shape (B,)"
WRONG_COUNT = (
    "only the first change is evaluated, or the scores of several links are returned together: there must be one "
    "number for each change, in their order"
)
NOT_FINITE = (
    "a mean or a softmax is taken over no neighbours at all, or a product has overflowed: give nodes without "
    "events a vector of zeros"
)


def _read(query: Query, changes: Sequence[Change], answers: Any, complaint: str) -> FloatArray:
    """Answers as numbers. [B]"""
    try:
        logits = as_floats(answers)
    except Exception:
        raise Failed(complaint, NOT_NUMBERS) from None
    if len(logits) != len(changes):
        raise Failed(complaint, WRONG_COUNT)
    try:
        check_logits(query, changes, logits)
    except ModelError as error:
        raise Failed(str(error), NOT_FINITE) from None
    return np.array(logits, dtype=np.float64)


def _read_classes(query: Query, changes: Sequence[Change], answers: Any, classes: int, complaint: str) -> FloatArray:
    """Class scores as numbers. [B, C]"""
    try:
        scores = as_scores(query, changes, answers).copy()
    except ModelError as error:
        cause = NOT_FINITE if "logit is" in str(error) else NOT_NUMBERS
        raise Failed(f"{complaint}: {error}", cause) from None
    if scores.shape[1] != classes and len(changes):
        raise Failed(f"{complaint}, not {scores.shape[1]}", NOT_NUMBERS)
    return scores


def form_of(answers: Any) -> str:
    """A description of what a model returned."""
    kind = f"a {type(answers).__module__}.{type(answers).__name__}".replace("builtins.", "")
    shape, dtype = getattr(answers, "shape", None), getattr(answers, "dtype", None)
    if shape is not None:
        return f"{kind} of shape {tuple(shape)} and type {dtype}"
    return f"{kind} of length {len(answers)}" if hasattr(answers, "__len__") else kind


# Interruptions


class Stop(KeyboardInterrupt):
    """What a person's Ctrl-C would raise."""


class Interrupting(frozenset[int]):
    """A change that raises what Ctrl-C would, once it has been read a few times."""

    reads_left = sys.maxsize

    def _count_read(self) -> None:
        self.reads_left -= 1
        if self.reads_left < 0:
            raise Stop("interrupted")

    def __iter__(self) -> Iterator[int]:
        self._count_read()
        return super().__iter__()

    def __contains__(self, row: object) -> bool:
        self._count_read()
        return super().__contains__(row)


def interrupt(trial: Trial, changes: Sequence[Change], ask: Ask) -> None:
    """Make calls that end early: a row that does not exist, Ctrl-C at several moments, no time left."""
    moments = (0, 3) if trial.quick else (0, 1, 3, 10)
    interrupting = [Interrupting(changes[-1]) for _ in moments]
    for change, reads in zip(interrupting, moments, strict=True):
        change.reads_left = reads
    for last in (frozenset({trial.graph.num_rows}), *interrupting):
        trial.check_time()
        with suppress(Exception, Stop):
            ask([*changes[:2], last])
    for change in interrupting:
        change.reads_left = sys.maxsize  # the model may have cached it
    with suppress(Exception), until(0.0):
        ask(list(changes[::-1]))


# Threads


def in_two_threads(asks: Sequence[Callable[[], FloatArray]]) -> list[FloatArray]:
    """The answers of two simultaneous calls."""
    all_ready = Barrier(len(asks))

    def start(ask: Callable[[], FloatArray]) -> FloatArray:
        all_ready.wait()
        return ask()

    with _frequent_switches(), ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(start, asks))


@contextmanager
def _frequent_switches() -> Iterator[None]:
    """Let Python switch between threads much more often than every 5 ms: many calls are shorter than that."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


# Test queries


def pick_queries(graph: TemporalGraph, rng: np.random.Generator, *, quick: bool) -> list[Query]:
    """The first and the last event, some between, and an early one with events that cannot reach it.

    In the quick form: one with a rich, but not too long history, and that early one.
    """
    count = graph.num_events
    isolated = [row for row in range(min(count, 200)) if out_of_reach(graph, graph.query(row)).size]
    if quick:
        busiest = _busiest(graph, min(count * 4 // 5, LARGE))
        rows = list(dict.fromkeys([busiest, isolated[-1] if isolated else count * 4 // 5]))
    else:
        rows = sorted({0, count - 1, *rng.integers(0, count, 3).tolist(), *isolated[-1:]})
    return [graph.query(row) for row in rows]


def _busiest(graph: TemporalGraph, last: int) -> int:
    """Of some rows up to `last`, the one whose two nodes have had the most events."""

    def events_before(row: int) -> int:
        return sum(len(graph.history(int(node), row)) for node in (graph.src[row], graph.dst[row]))

    return max(range(last // 2, last + 1), key=events_before)


def pick_changes(graph: TemporalGraph, query: Query, rng: np.random.Generator, *, quick: bool) -> list[Change]:
    """Different removals near the query, where they should matter, and of the whole history, if not too long."""
    near, many = candidates(graph, query), past_of(graph, query)
    sizes = [(near, 3), (many, len(many) // 2), (many, len(many))]
    if not quick:
        sizes += [(near, 1), (near, len(near) // 2)]
    return list(dict.fromkeys([UNCHANGED, *(some_of(rows, size, rng) for rows, size in sizes)]))


def past_of(graph: TemporalGraph, query: Query) -> IntArray:
    """The rows that a query sees; if there are very many, those near it."""
    return np.arange(query.before) if query.before <= LARGE else candidates(graph, query)


def some_of(rows: IntArray, size: int, rng: np.random.Generator) -> Change:
    return frozenset(rng.choice(rows, min(size, len(rows)), replace=False).tolist())


def out_of_reach(graph: TemporalGraph, query: Query) -> IntArray:
    """Visible rows that no chain of visible events connects to the query's nodes."""
    reached = np.zeros(graph.num_nodes, dtype=bool)
    front = {query.src, query.dst}
    while front:
        reached[list(front)] = True
        rows = np.concatenate([graph.history(node, query.before) for node in front])
        ends = np.concatenate([graph.src[rows], graph.dst[rows]])
        front = set(ends[~reached[ends]].tolist())
    return np.flatnonzero(~reached[graph.src[: query.before]])


def hashes_of_columns(graph: TemporalGraph, *, quick: bool) -> dict[str, str]:
    """Hashes that show whether the graph was written to; in the quick form, of a sample of the rows of long columns."""
    columns = {column.name: getattr(graph, column.name) for column in fields(graph)}
    arrays = {
        name: np.ascontiguousarray(column[:: len(column) // MANY_ROWS + 1 if quick else 1])
        for name, column in columns.items()
        if isinstance(column, np.ndarray)
    }
    return {name: hashlib.blake2b(array.view(np.uint8).data).hexdigest() for name, array in arrays.items()}


def identity_or_error(model: Model) -> object:
    """The identity of the model, or the error instead."""
    try:
        return model.identity
    except Exception as error:
        return error


# Words


def words_for(query: Query, changes: Sequence[Change]) -> str:
    if len(changes) != 1:
        return f"{query} with {len(changes)} sets"
    return f"{query} with the change {listed(changes[0])}" if changes[0] else f"{query} with nothing changed"


def listed(rows: Change) -> str:
    shown = ", ".join(str(row) for row in sorted(rows)[:6])
    return f"{{{shown}}}" if len(rows) <= 6 else f"{{{shown}, … {len(rows)} in all}}"
