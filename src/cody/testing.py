"""Does a model keep the rules that every explanation relies on? And a toy model that does, computable by hand.

>>> from cody.graph import TemporalGraph
>>> graph = TemporalGraph.from_arrays(src=[0, 3, 1, 0, 1], dst=[1, 4, 2, 2, 0], time=[0.0, 5.0, 10.0, 20.0, 30.0])
>>> report = check_model(ToyModel(graph), graph)
>>> report.passed
True
>>> report.raise_if_failed()  # what a test of your own model says; print(report) shows each check
"""

from __future__ import annotations

import hashlib
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from threading import Barrier
from typing import Any, Literal

import numpy as np

from cody.candidates import candidates
from cody.errors import CallError, ModelError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, check_query
from cody.model import Change, Model
from cody.toy import ToyModel

__all__ = ["Outcome", "Report", "ToyModel", "check_model"]

Status = Literal["passed", "failed", "noted", "skipped"]
NOTHING: Change = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one check found."""

    name: str
    meaning: str  # the rule, in one line
    status: Status  # "noted": allowed, but probably not what the author of the model wants
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What all checks found; printed, a table."""

    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    @property
    def passed(self) -> bool:
        """Whether no check failed; notes and skipped checks do not count."""
        return not self.failures

    def raise_if_failed(self) -> None:
        """Raise a `ModelError` that shows the table, if a check failed."""
        if self.failures:
            raise ModelError(f"the model does not keep the rules\n{self}")

    def __str__(self) -> str:
        counts = Counter(outcome.status for outcome in self.outcomes)
        lines = [", ".join(f"{count} {status}" for status, count in counts.items())]
        for outcome in self.outcomes:
            lines.append(f"{outcome.status:<8} {outcome.name:<13} {outcome.meaning}")
            lines += textwrap.wrap(outcome.message, 80, initial_indent=" " * 9, subsequent_indent=" " * 9)
        return "\n".join(lines)


def check_model(
    model: Model,
    graph: TemporalGraph,
    *,
    queries: Sequence[Query] | None = None,
    reference: Model | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Report:
    """Ask `model` about a thousand removal sets on `graph`, and report which rules of `Model` it keeps.

    A broken model makes a failed outcome, never an exception; `raise_if_failed()` of the result makes one.
    Without `queries`, a handful is picked: the first and the last event and some between. Two logits count as equal
    up to `tolerance`, since the last bits of a matrix product depend on its shape. A `reference` is a model known to
    be right, which is asked the same.
    """
    if not tolerance >= 0:
        raise CallError(f"tolerance must be 0 or more, not {tolerance}")
    rng = np.random.default_rng(seed)
    chosen = _pick(graph, rng) if queries is None else list(queries)
    if not chosen:
        raise CallError("queries is empty: give at least one, or None to have some picked")
    for query in chosen:
        check_query(graph, query)
    questions = [(query, _removal_sets(graph, query, rng)) for query in chosen]
    trial = _Trial(model, graph, questions, reference, tolerance, rng, _fingerprints(graph))
    outcomes: list[Outcome] = []
    for check in CHECKS:
        outcomes.append(_run(check, trial))
        if check.compare in (_shape, _sizes) and outcomes[-1].status == "failed":  # so would nearly all others
            rest = f"{len(CHECKS) - len(outcomes)} more checks"
            why = f"not run, since {check.name} failed: mend that first"
            outcomes.append(Outcome("the rest", rest, "skipped", why))
            break
    return Report(tuple(outcomes))


class _Failed(Exception):  # noqa: N818  the model's failure, not ours
    """What is wrong with the model."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A model, and what it is asked."""

    model: Model
    graph: TemporalGraph
    questions: Sequence[tuple[Query, list[Change]]]
    reference: Model | None
    tolerance: float
    rng: np.random.Generator
    fingerprints: dict[str, str]  # of the columns of the graph, before anything was asked

    def raw(self, query: Query, removals: Sequence[Change]) -> FloatArray:
        """The very array that the model returns, provided that it has the promised form."""
        asked = f"{query} {_without(removals[0])}" if len(removals) == 1 else f"{query} with {len(removals)} sets"
        try:
            answer: Any = self.model.logits(query, list(removals))
        except (Exception, _Stop) as error:
            raise _Failed(f"asking {asked} raised {type(error).__name__}: {error}") from None
        if not isinstance(answer, np.ndarray):
            found = f"a {type(answer).__module__}.{type(answer).__name__}".replace("builtins.", "")
        elif answer.shape != (len(removals),) or answer.dtype.kind != "f":
            found = f"shape {answer.shape} of {answer.dtype}"
        else:
            if np.isfinite(answer).all():
                return answer
            place = int(np.argmin(np.isfinite(answer)))
            raise _Failed(f"the logit of {query} {_without(removals[place])} is {answer[place]}, not finite")
        wanted = f"a numpy array of floats of shape ({len(removals)},)"
        raise _Failed(f"the answer to {asked} must be {wanted}, not {found}")

    def ask(self, query: Query, removals: Sequence[Change]) -> FloatArray:
        return self.raw(query, removals).copy()

    def other(self, query: Query, step: int = 1) -> tuple[Query, list[Change]]:
        """The next question after that of `query`, in a circle."""
        place = [asked for asked, _ in self.questions].index(query)
        return self.questions[(place + step) % len(self.questions)]


# Two answers to the same question, and words for them: " alone| in a batch" → "… is 1.23 alone but 1.31 in a batch: …"
Pair = tuple[Query, Sequence[Change], FloatArray, FloatArray, str]
Compare = Callable[[_Trial, Query, list[Change]], Iterable[Pair]]


@dataclass(frozen=True, slots=True)
class _Check:
    """Pairs of answers to each question, which should agree (or, with a `note`, should not all agree)."""

    name: str
    meaning: str
    compare: Compare
    rule: str  # what a failure says at its end
    skipped: str  # what is said if there is nothing to compare
    note: str


CHECKS: list[_Check] = []  # in the order in which they run: that of this file


def _check(meaning: str, rule: str = "", *, skipped: str = "", note: str = "") -> Callable[[Compare], Compare]:
    def add(compare: Compare) -> Compare:
        CHECKS.append(_Check(compare.__name__.strip("_"), meaning, compare, rule, skipped, note))
        return compare

    return add


def _pairs(check: _Check, trial: _Trial) -> Iterator[Pair]:
    for query, removals in trial.questions:
        yield from check.compare(trial, query, removals)


def _run(check: _Check, trial: _Trial) -> Outcome:
    done = partial(Outcome, check.name, check.meaning)
    compared = False
    try:
        for query, removals, one, other, words in _pairs(check, trial):
            compared = True
            differ = np.flatnonzero(~(np.abs(one - other) <= trial.tolerance)).tolist()
            if differ and check.note:
                return done("passed")
            if differ:
                place, (here, there) = differ[0], words.split("|")
                numbers = f"is {one[place]:.6g}{here} but {other[place]:.6g}{there}"
                raise _Failed(f"the logit of {query} {_without(removals[place])} {numbers}: {check.rule}")
    except _Failed as failure:
        return done("failed", str(failure))
    if check.skipped and not compared:
        return done("skipped", check.skipped)
    return done("noted", check.note) if check.note else done("passed")


@_check("finite floats, one for each removal set")
def _shape(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    trial.ask(query, [NOTHING])
    trial.ask(query, [NOTHING, NOTHING])
    return []


@_check("any mixture of set sizes, from nothing to everything")
def _sizes(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    past = trial.rng.permutation(query.before).tolist()
    trial.ask(query, [*removals, *(frozenset(past[: 2**power]) for power in range(query.before.bit_length()))])
    return []


@_check("no removal sets, no logits: shape (0,)")
def _empty_batch(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    trial.ask(query, [])
    return []


@_check("the same question gets the same answer twice", "nothing may be random or left behind by a call")
def _repeated(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    yield query, removals, trial.ask(query, removals), trial.ask(query, removals), " at first| when asked again"


@_check("an answer does not depend on the rest of its batch", "answers must not depend on the other sets of a batch")
def _alone(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    alone = np.concatenate([trial.ask(query, [removal]) for removal in removals])
    yield query, removals, alone, trial.ask(query, removals), f" alone| in a batch of {len(removals)}"


@_check("nor on the order of the batch", "answers must not depend on the order of a batch")
def _order(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    reverse = trial.ask(query, removals[::-1])[::-1]
    yield query, removals, trial.ask(query, removals), reverse, "| with the batch in reverse order"


@_check("nor on sets that stand in it twice", "a set must get the same logit each time it stands in a batch")
def _duplicates(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    twice = [removal for removal in removals for _ in range(2)]
    once = trial.ask(query, removals).repeat(2)
    yield query, twice, once, trial.ask(query, twice), "| with each set twice in the batch"


@_check("nor on the query that was asked before", "nothing may be left behind by a call")
def _interleaved(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    trial.ask(query, removals)
    again = trial.ask(query, removals)
    for step in (1, -1):
        other, other_removals = trial.other(query, step)
        trial.ask(other, other_removals)
        yield query, removals, again, trial.ask(query, removals), f" when asked again| when asked after {other}"


@_check(
    "a set asked of two queries gets an answer for each",
    "the answer to one query must not be given to another (is something remembered without its query? "
    "if the check `later` fails too, mend that first)",
    skipped="needs two queries, and events after one of them",
)
def _own_answers(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    other, _ = trial.other(query)
    if other != query and query.before < trial.graph.num_events:
        fresh = _some(np.arange(query.before), query.before // 3, trial.rng)
        trial.ask(other, [fresh])
        control = trial.ask(query, [fresh | {query.before}])  # means the same, but nobody can remember it
        words = f" after asking {other} the same| when event {query.before}, which is later, is removed too"
        yield query, [fresh], trial.ask(query, [fresh]), control, words


@_check("an answer is an array that no other call uses", "each call must return an array of its own")
def _own_array(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    answer = trial.raw(query, removals)
    expected = answer.copy()
    trial.ask(query, removals[::-1])
    yield query, removals, expected, answer, "| in the same array after the next call"
    with suppress(ValueError):  # a read-only array is safe
        answer += 1.0
    again = trial.ask(query, removals)
    yield query, removals, expected, again, "| after the caller wrote into the array of the last answer"


@_check(
    "removing events after the query changes nothing",
    "a query sees rows below `before` only, so later ones must not matter",
    skipped="no query has events after it",
)
def _later(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    after = np.arange(query.before, trial.graph.num_events)
    if after.size:
        later = _some(after, 100, trial.rng) | {query.before}
        more = trial.ask(query, [removal | later for removal in removals])
        yield query, removals, trial.ask(query, removals), more, f"| when later events {_rows(later)} are removed too"


@_check(
    "removing the latest events equals asking before them",
    "an event that is removed must count as little as one that the query does not see",
)
def _unseen(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    for before in sorted({0, query.before // 2, max(query.before - 1, 0)}):
        removed = [frozenset(range(before, query.before))]
        unseen = trial.ask(query._replace(before=before), [NOTHING])
        yield query, removed, trial.ask(query, removed), unseen, f"| with before={before} and nothing removed"


@_check(
    "removing events that cannot reach the query does nothing",
    "no chain of visible events joins these to the query's nodes, so they must not matter",
    skipped="for each query, all past events are joined to its nodes",
)
def _unreachable(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    far = frozenset(_out_of_reach(trial.graph, query).tolist())
    if far:
        more = trial.ask(query, [removal | far for removal in removals])
        yield query, removals, trial.ask(query, removals), more, f"| when events {_rows(far)} are removed too"


@_check("links that did not happen are answered too")
def _hypothetical(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    graph = trial.graph
    others = np.setdiff1d(graph.dst, [query.src, query.dst])
    if others.size:
        trial.ask(query._replace(dst=int(trial.rng.choice(others))), removals)
    time = max(query.time, float(graph.time[-1])) + 1.0
    trial.ask(query._replace(time=time, before=graph.num_events), removals)
    return []


@_check("removing an event that does not exist is an error")
def _refused(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    for row in (-1, trial.graph.num_events):
        try:
            trial.model.logits(query, [frozenset({row})])
        except Exception:
            continue
        raise _Failed(
            f"asking {query} without {{{row}}} raised nothing, though rows go from 0 to {trial.graph.num_events - 1}: "
            "begin logits() with cody.model.check_changes(graph, removals)"
        )
    return []


@_check("after an error or Ctrl-C the model answers as before", "a call that fails must leave nothing behind")
def _after_error(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    expected = trial.ask(query, removals)
    nobody, nothing_such = query._replace(src=trial.graph.num_nodes), frozenset({trial.graph.num_events})
    interrupted = [_Interrupting(removals[-1]) for _ in range(4)]
    for looks, removal in zip((0, 1, 3, 10), interrupted, strict=True):
        removal.looks = looks
    for bad_query, last in [(nobody, NOTHING), (query, nothing_such), *((query, last) for last in interrupted)]:
        with suppress(Exception, _Stop):
            trial.model.logits(bad_query, [*removals[:2], last])
    for removal in interrupted:
        removal.looks = sys.maxsize  # whoever kept it may look
    yield query, removals, expected, trial.ask(query, removals), " at first| after calls that were wrong or interrupted"


@_check("the list of removal sets is left as it was")
def _arguments(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    given = list(removals)
    with suppress(Exception):  # other checks tell
        trial.model.logits(query, given)
    if given != removals:
        raise _Failed(f"asking {query} changed the list of removal sets that was given: work on a copy")
    return []


@_check(
    "two threads that ask at once get the usual answers",
    "keep what a call works on in local variables, not in the model, or take a lock",
)
def _threads(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    questions = [(query, removals), trial.other(query)]
    expected = [trial.ask(*question) for question in questions]
    together = Barrier(2)

    def ask(question: tuple[Query, list[Change]]) -> FloatArray:
        together.wait()
        return trial.ask(*question)

    with _restless_threads(), ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, questions))
    for asked, one, answer in zip(questions, expected, answers, strict=True):
        yield *asked, one, answer, " in one thread| while another thread was asking too"


@_check(
    "removing the whole past changes some logit",
    skipped="no query has a past",
    note="removing the whole past changes no logit of any query: the model ignores its history",
)
def _past_matters(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    if query.before:
        past = [frozenset(range(query.before))]
        yield query, past, trial.ask(query, [NOTHING]), trial.ask(query, past), ""


@_check(
    "asking much later changes some logit",
    note="asking later by twice the span of the graph changes no logit of any query: the model ignores time",
)
def _time_matters(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    span = float(trial.graph.time[-1] - trial.graph.time[0])
    later = trial.ask(query._replace(time=query.time + 2.0 * span + 1.0), [NOTHING])
    yield query, [NOTHING], trial.ask(query, [NOTHING]), later, ""


@_check("a reference model gives the same answers", "they must agree", skipped="no reference was given")
def _reference(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    if trial.reference is not None:
        yield query, removals, trial.ask(query, removals), trial.reference.logits(query, removals), "| by the reference"


@_check("the graph is bit-identical after all of this")
def _graph(trial: _Trial, query: Query, removals: list[Change]) -> Iterable[Pair]:
    now = _fingerprints(trial.graph)
    changed = [column for column, before in trial.fingerprints.items() if now[column] != before]
    if changed:
        raise _Failed(f"{', '.join(changed)} of the graph changed while the model was asked: work on a copy")
    return []


class _Stop(KeyboardInterrupt):
    """What a person's Ctrl-C would raise."""


class _Interrupting(frozenset[int]):
    """A removal set during which Ctrl-C is pressed, after it was looked at a few times."""

    looks = sys.maxsize

    def _look(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise _Stop("interrupted")

    def __iter__(self) -> Iterator[int]:
        self._look()
        return super().__iter__()

    def __contains__(self, row: object) -> bool:
        self._look()
        return super().__contains__(row)


@contextmanager
def _restless_threads() -> Iterator[None]:
    """Let Python threads take turns much more often than every 5 ms, longer than many a call takes."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _pick(graph: TemporalGraph, rng: np.random.Generator) -> list[Query]:
    """The first and the last event, some between, and an early one with events that cannot reach it."""
    count = graph.num_events
    apart = (row for row in range(min(count, 200)) if _out_of_reach(graph, graph.query(row)).size)
    rows = {0, count - 1, *rng.integers(0, count, 3).tolist(), next(apart, 0)}
    return [graph.query(row) for row in sorted(rows)]


def _removal_sets(graph: TemporalGraph, query: Query, rng: np.random.Generator) -> list[Change]:
    """Different sets, from nothing to the whole past, most of them near the query, where they should matter."""
    near, past = candidates(graph, query), np.arange(query.before)
    sizes = [(near, 1), (near, 3), (near, len(near) // 2), (past, len(past) // 2), (past, len(past))]
    return list(dict.fromkeys([NOTHING, *(_some(rows, size, rng) for rows, size in sizes)]))


def _some(rows: IntArray, size: int, rng: np.random.Generator) -> Change:
    return frozenset(rng.choice(rows, min(size, len(rows)), replace=False).tolist())


def _out_of_reach(graph: TemporalGraph, query: Query) -> IntArray:
    """Visible rows that no chain of visible events joins to the query's nodes."""
    reached = np.zeros(graph.num_nodes, dtype=bool)
    front = {query.src, query.dst}
    while front:
        reached[list(front)] = True
        rows = np.concatenate([graph.history(node, query.before) for node in front])
        ends = np.concatenate([graph.src[rows], graph.dst[rows]])
        front = set(ends[~reached[ends]].tolist())
    return np.flatnonzero(~reached[graph.src[: query.before]])


def _fingerprints(graph: TemporalGraph) -> dict[str, str]:
    columns = {field.name: getattr(graph, field.name) for field in fields(graph)}
    arrays = {name: np.ascontiguousarray(column) for name, column in columns.items() if isinstance(column, np.ndarray)}
    return {name: hashlib.blake2b(array.view(np.uint8).data).hexdigest() for name, array in arrays.items()}


def _without(removal: Change) -> str:
    return f"without {_rows(removal)}" if removal else "with nothing removed"


def _rows(rows: Change) -> str:
    shown = ", ".join(str(row) for row in sorted(rows)[:6])
    return f"{{{shown}}}" if len(rows) <= 6 else f"{{{shown}, … {len(rows)} in all}}"
