"""Models of discrete time: a snapshot of the graph for each day or hour, fed one after the other.

A snapshot is a batch of the grid: its borders lie at multiples of a duration, whatever is removed, and a link is scored
with the snapshots before its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cody.adapters.history import SNAPSHOT_BYTES, HistoryModel, from_steps
from cody.adapters.past import Events, Past
from cody.engine.threads import one_thread
from cody.errors import CallError, CodyError, ModelError, first_line
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import HOPS
from cody.utils.signatures import check_callable
from cody.utils.words import count

MOST_PERIODS = 1_000_000  # that are fed one after the other, with or without events
TRIED = 3  # snapshots that a model is fed when it is wrapped
CLOSE = 1e-4  # two computations of a logit; rounding moves it by far less


class GraphSnapshot(NamedTuple):
    """The events of one period, in their order; there may be none."""

    number: int  # of the period, counted from that of the first event
    src: IntArray  # [n]
    dst: IntArray  # [n]
    time: FloatArray  # [n]
    features: FloatArray | None  # [n, F]

    @property
    def edge_index(self) -> IntArray:
        """Sources and destinations, as torch wants them: in 64 bits. [2, n]"""
        return np.stack([self.src, self.dst]).astype(np.int64)


class _Fed(NamedTuple):
    """What a model was fed so far. Nothing in it is changed in place."""

    state: Any
    done: int  # snapshots that the state includes
    waiting: tuple[GraphSnapshot, ...]  # parts of the next one, which ends when something later comes


def from_snapshots(
    graph: TemporalGraph,
    *,
    every: float,
    start: Callable[[], Any],
    step: Callable[[Any, GraphSnapshot], Any],
    score: Callable[[Any, Query], Any],
    identity: str,
    begin: float | None = None,
    classes: Sequence[str] | None = None,
    about: str = "event",
    threshold: float | None = None,
    hops: int = HOPS,
    snapshot_bytes: int = SNAPSHOT_BYTES,
) -> HistoryModel:
    """A model that reads the graph as a sequence of snapshots, such as ROLAND, GC-LSTM or EvolveGCN.

    When it is wrapped, the first snapshots are fed a few times: functions whose answers depend on earlier calls are
    rejected.

    A link of period n is scored with the state after the periods before n; periods without events are fed, too. Events
    in the period of the link itself change nothing. A link after the last event sees all of them.

    Args:
        graph: The log of events.
        every: Length of a period, in seconds or whatever the unit of the log is.
        start: `start()` returns the state before the first snapshot.
        step: `step(state, snapshot)` returns the state after one more snapshot, and leaves the state it was given as it
            is; `snapshot.edge_index` is [2, n].
        score: `score(state, query)` returns the logit of a link; with more than two classes, one score per class. About
            a whole graph, a number that does not depend on the link, for `cody.between`.
        identity: A string that changes whenever the answers of the model may change.
        begin: When the first period begins. Default: at the last multiple of `every` before the first event.
        classes: Names of the classes, if the model labels events or nodes instead of predicting links.
        about: What is labelled: "event" or "node".
        threshold: With two classes, the probability above which the second one is predicted. Default: 0.5.
        hops: How many events away from a link candidates are looked for.
        snapshot_bytes: Memory budget for saved states.

    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 1], dst=[1, 2, 2], time=[1.0, 2.0, 11.0])
    >>> def count(state, snapshot):
    ...     return state / 2 + len(snapshot.src)
    >>> halved = {"start": lambda: 0.0, "step": count, "score": lambda state, query: state - 0.4}
    >>> model = from_snapshots(graph, every=5, **halved, identity="recent events")
    >>> model.logits(graph.query(2), [frozenset(), frozenset({0})])  # the period between them has no events
    array([0.6, 0.1])
    """
    check_callable(start, "start()")
    check_callable(step, "step(state, snapshot)")
    check_callable(score, "score(state, query)")
    times = graph.time[: graph.num_events]
    first = _first_period(times, every, begin)
    fed = _Feeder(start, step, score, every, first)
    numbers = fed.numbers(times)
    _check_repeatable(fed, graph, numbers)
    return from_steps(
        graph,
        score=fed.score,
        start=fed.begin,
        observe=fed.observe,
        save=lambda: fed.fed,
        restore=fed.restore,
        identity=f"{identity} every {every:g} from {first:g}",
        classes=classes,
        about=about,
        threshold=threshold,
        batch=max(1, len(times)),
        splits=(np.flatnonzero(np.diff(numbers)) + 1).tolist(),
        sees_own_batch=False,
        hops=hops,
        snapshot_bytes=snapshot_bytes,
    )


def _first_period(times: FloatArray, every: Any, begin: Any) -> float:
    """When the first period begins. Periods that make no sense are rejected."""
    if not (isinstance(every, int | float) and 0 < every < math.inf):
        raise CallError(f"every is the length of a period, a number above 0, not {every!r:.60}")
    if not (begin is None or (isinstance(begin, int | float) and math.isfinite(begin))):
        raise CallError(f"begin is a time, a number as in the log, not {begin!r:.60}")
    if not len(times):
        return float(begin or 0.0)
    if begin is not None and begin > times[0]:
        raise CallError(f"begin is {begin:g}, but the first event is at {times[0]:g}: no snapshot would have it")
    first = float(begin) if begin is not None else math.floor(times[0] / every) * every
    periods = (times[-1] - first) / every
    if periods > MOST_PERIODS:
        given = f"every={every:g}" + ("" if begin is None else f" from begin={begin:g}")
        raise CallError(
            f"{given} makes {periods:,.0f} snapshots up to the last event, and each is fed; the most are "
            f"{MOST_PERIODS:,}. The log's unit is usually seconds: a day is 86_400"
        )
    return first


@dataclass(slots=True)
class _Feeder:
    """Feeds snapshots to the functions of a user."""

    start: Callable[[], Any]
    step: Callable[[Any, GraphSnapshot], Any]
    score_of: Callable[[Any, Query], Any]
    every: float
    first: float
    fed: _Fed = _Fed(None, 0, ())  # noqa: RUF009  it is never changed in place

    def numbers(self, times: FloatArray) -> IntArray:
        """The period of each time."""
        return np.floor((times - self.first) / self.every).astype(np.int64)

    def begin(self) -> None:
        with _naming("start()"):
            self.fed = _Fed(self.start(), 0, ())

    def restore(self, fed: _Fed) -> None:
        self.fed = fed

    def observe(self, events: Events) -> None:
        """The events of one period; an imagined one at its end may come with those of the next."""
        numbers = self.numbers(events.time)
        for number in np.unique(numbers).tolist():
            self.fed = self._until(number)
            part = _snapshot(number, Events(events.graph, events.rows[numbers == number]))
            self.fed = self.fed._replace(waiting=(*self.fed.waiting, part))

    def score(self, query: Query, past: Past) -> Any:
        (number,) = self.numbers(np.array([query.time]))
        if self.fed.waiting and past.query.before == past.graph.num_events:  # they may be of the link's own period
            number = max(number, self.fed.waiting[0].number + 1)
        state = self._until(int(number)).state
        with _naming(f"score(state, query) for the link {query.src} → {query.dst} after snapshot {number - 1}"):
            return self.score_of(state, query)

    def _until(self, number: int) -> _Fed:
        """The state after all periods before one."""
        state, done, waiting = self.fed
        while done < number:
            snapshot = _joined(done, waiting)
            begin, events = self.first + done * self.every, count(len(snapshot.src), "event")
            about = f"({events}, from {begin:g} to {begin + self.every:g})"
            with _naming(f"step(state, snapshot) for snapshot {done} {about}"):
                state = self.step(state, snapshot)
            done, waiting = done + 1, ()
        return _Fed(state, done, waiting)


@one_thread()
def _check_repeatable(feeder: _Feeder, graph: TemporalGraph, numbers: IntArray) -> None:
    """Reject functions whose answers depend on earlier calls: a state changed in place, a module with its own."""
    begins = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()][: TRIED + 1]
    snapshots = [
        _snapshot(int(numbers[begin]), Events(graph, np.arange(begin, stop))) for begin, stop in pairwise(begins)
    ]
    queries = [graph.query(row) for row in begins[1:]]

    def score(place: int, state: Any) -> FloatArray:
        given = feeder.score_of(state, queries[place])
        return np.asarray(given.detach() if hasattr(given, "detach") else given, dtype=np.float64)

    try:
        states, scores = [feeder.start()], []
        for place, snapshot in enumerate(snapshots):
            states.append(feeder.step(states[-1], snapshot))
            scores.append(score(place, states[-1]))
        later = [score(place, state) for place, state in enumerate(states[1:])]
        again = [score(place, feeder.step(states[place], snapshot)) for place, snapshot in enumerate(snapshots)]
    except Exception:  # it is reported, with what it was called for, when the model is first asked
        return
    for answers in (later, again):
        for snapshot, first, second in zip(snapshots, scores, answers, strict=True):
            if not np.allclose(first, second, atol=CLOSE, rtol=CLOSE, equal_nan=True):
                raise ModelError(
                    f"the score after snapshot {snapshot.number} depends on earlier calls: first it is {first}, then "
                    f"{second}. step(state, snapshot) must return a new state, leave the one that it is given as it "
                    "is, and keep nothing in a module: what changes is part of the state; no dropout (module.eval())"
                )


@contextmanager
def _naming(call: str) -> Iterator[None]:
    """An exception of a user's function, with what it was called for."""
    try:
        yield
    except CodyError:
        raise
    except Exception as error:
        raise ModelError(f"{call} failed: {type(error).__name__}: {first_line(error)}") from error


def _snapshot(number: int, events: Events) -> GraphSnapshot:
    return GraphSnapshot(number, events.src, events.dst, events.time, events.features)


def _joined(number: int, parts: Sequence[GraphSnapshot]) -> GraphSnapshot:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.array([], dtype=np.int64)
        return GraphSnapshot(number, none, none, np.array([]), None)
    _, src, dst, time, features = zip(*parts, strict=True)
    joined = None if features[0] is None else np.concatenate(features)
    return GraphSnapshot(number, np.concatenate(src), np.concatenate(dst), np.concatenate(time), joined)
