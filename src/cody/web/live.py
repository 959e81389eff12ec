"""A graph and a model that many clients use at once: sessions that expire, and a queue of searches."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from cody.errors import BudgetError, CallError, CodyError, first_line
from cody.explaining.explanation import Explanation, Verification
from cody.explaining.pipeline import explain
from cody.explaining.verification import verify_change
from cody.explaining.what_if import Scenario
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.dependants import Rule
from cody.graph.edits import Add
from cody.graph.neighbourhood import SIZE, candidates, ends_first
from cody.graph.protected import Protected
from cody.graph.units import UnitKind
from cody.models.contract import Change, LabelTask, Model, as_seen, label_task, model_on, reach, size_of
from cody.models.decided import decide, decision_of
from cody.models.predict import Predictions, likely_partners, predict
from cody.models.predictions import LabelPredictions, label_query
from cody.search import SearchResult
from cody.search.oracle import Oracle, counting
from cody.search.result import FOUND, result
from cody.search.space import NearUnits
from cody.study.explainers import WHY_NOT, explainer, find, find_edits
from cody.utils.deadline import until
from cody.utils.words import moment_and_zone
from cody.web.sessions import Answer, StateSession, Wanted, open_states

WAITING, RUNNING, DONE, CANCELLED, FAILED = "waiting", "running", "done", "cancelled", "failed"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server."""

    body: int = 64 * 1024  # bytes of a request
    searches: int = 2  # at once
    queue: int = 16  # queued or running searches
    seconds: float = 30.0  # for one search
    look: float = 1.0  # seconds for evaluating the events of a page alone; the others are shown as not evaluated
    away: float = 10.0  # seconds without a poll after which a search is abandoned
    keep: float = 600.0  # seconds that sessions and explanations are kept after their last use
    sessions: int = 32
    numbers: int = 16_000_000  # cached by all sessions together, roughly; the one in use may have more
    rows: int = 1024  # different events in one session; then it starts afresh
    threads: int = 4  # for short requests; each has some memory of its own
    explanations: int = 256


class BusyError(CodyError):
    """The queue of searches is full."""


class UnknownError(CodyError):
    """No such explanation, or it has expired."""


class StoppedError(Exception):
    """The search was abandoned."""


@dataclass(slots=True)
class OpenSession:
    """An open session; whoever uses it holds its lock."""

    session: StateSession
    first_imagined: int
    rows: set[int] = field(default_factory=set)  # that it has evaluated
    lock: threading.Lock = field(default_factory=threading.Lock)
    used: float = 0.0


class SearchLimits(NamedTuple):
    """What is searched with, and how far."""

    explainer: str
    why_not: bool = False  # events may be added and moved, too
    evaluations: int | None = None  # None: as the explainer usually has it
    candidates: int | None = None


@dataclass(slots=True)
class Job:
    """A search: queued, running or finished."""

    id: str
    case: Scenario
    choice: SearchLimits
    decision: Wanted = None
    state: str = WAITING
    tried: int = 0
    why: Explanation | None = None
    error: str | None = None
    stopped: bool = False
    used: float = 0.0  # time of the last poll


@dataclass(frozen=True)
class Live:
    """A graph and a model, with their open sessions and searches."""

    graph: TemporalGraph
    model: Model
    data_name: str = ""
    model_name: str = ""
    limits: Limits = Limits()
    clock: Callable[[], float] = time.monotonic
    protect: Protected | None = None  # protected events
    decision: Wanted = None  # where a request names none; None: the one that the model makes by itself
    by: UnitKind | None = None  # what changes together; None: single events
    dependants: Rule | None = None  # what goes along with removed events
    seen: list[Any] = field(default_factory=list)  # the overview, once it was computed
    _sessions: OrderedDict[Any, OpenSession] = field(default_factory=OrderedDict)
    _jobs: OrderedDict[str, Job] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # ---- single requests

    @property
    def task(self) -> LabelTask | None:
        """What the model labels; None if it predicts links."""
        return label_task(self.model)

    def as_scored(self, case: Scenario) -> Scenario:
        """The case as the model scores it: about a node, if that is what it labels."""
        return case if self.task is None else case._replace(query=label_query(self.graph, self.task, case.query))

    def check(self, case: Scenario, decision: Wanted) -> None:
        """Raise an error if the model cannot decide this way about the link of a case."""
        decision_of(self.model, case.query, decision or self.decision).rivals(self.graph, case.query)

    def score(self, case: Scenario, decision: Wanted = None) -> Answer:
        """What is decided with nothing changed, and with the changes of a case."""
        case = self._with_units(case)
        kept = self._session(case, decision or self.decision)
        with kept.lock:
            original, changed = kept.session.states([frozenset(), _change(case, kept.first_imagined)])
        assert original.margin is not None  # no budget could run out
        assert changed.margin is not None
        return Answer(original.margin, changed.margin, kept.session.decision, changed)

    def verify(self, case: Scenario, answer: Answer) -> Verification | None:
        """What the reference implementation says about the answer to a case; None: there was no time for it."""
        case = self._with_units(case)
        graph, model = self.imagined(case)
        decided, claimed = decide(model, graph, case.query, answer.decision), (answer.original, answer.logit)
        with until(time.monotonic() + self.limits.seconds):
            return verify_change(decided, case.query, _change(case, self.graph.num_events), claimed, full=False)

    def _with_units(self, case: Scenario) -> Scenario:
        """The case without all events of the units that its rows stand for, and without what goes along with them."""
        if self.by is None and self.dependants is None:
            return case
        query = as_seen(self.model, self.graph, case.query)
        protect = self.protect and self.protect.at(case.query)
        near = NearUnits(self.graph, query, reach(self.model), ends_first, protect, self.by, self.dependants)
        units = near.known_by(sorted(case.removed))
        return case._replace(removed=case.removed.union(*(unit.change for unit in units.values())))

    def _session(self, case: Scenario, decision: Wanted) -> OpenSession:
        """The session that is kept for a case: an earlier one, or else a new one."""
        key, opened = (case.query, case.edits, decision), None
        while True:
            with self._lock:
                self._forget()
                kept = self._sessions.get(key)
                if kept is None or len(kept.rows | case.removed) > self.limits.rows:
                    kept = opened
                if kept is not None:
                    self._sessions[key] = kept
                    self._sessions.move_to_end(key)
                    while len(self._sessions) > self.limits.sessions:
                        self._sessions.popitem(last=False)
                    kept.rows |= case.removed
                    kept.used = self.clock()
                    return kept
                self._sessions.pop(key, None)
            graph, model = self.imagined(case)  # without the lock: finding the strongest rivals takes a moment
            opened = OpenSession(open_states(model, graph, case.query, decision), graph.num_events)

    def imagined(self, case: Scenario) -> tuple[TemporalGraph, Model]:
        """The log with the edits of a case, and the model on it."""
        if not case.edits:
            return self.graph, self.model
        graph = self.graph.imagine(list(case.edits))
        seen = set(graph.imagined_before(case.query).tolist())
        for row, edit in enumerate(case.edits, start=self.graph.num_events):
            if isinstance(edit, Add) and row not in seen:
                at = moment_and_zone(case.query.time)
                raise CallError(f"an added event must lie before the link, which is at {at}")
        return graph, model_on(self.model, graph)

    def _forget(self) -> None:
        """Drop what has expired and what exceeds the limits. The lock is held."""
        before, numbers = self.clock() - self.limits.keep, 0
        for key, kept in reversed(list(self._sessions.items())):  # the latest first
            numbers += size_of(kept.session.session)
            if kept.used < before or numbers > self.limits.numbers:
                del self._sessions[key]
        for job in self._jobs.values():
            if job.state == WAITING and not self._is_wanted(job):  # it blocks others in the queue
                job.stopped, job.state = True, CANCELLED
        over = [job for job in self._jobs.values() if job.state not in (WAITING, RUNNING)]
        for place, job in enumerate(sorted(over, key=lambda job: job.used)):
            if place < len(over) - self.limits.explanations or job.used < before:
                del self._jobs[job.id]

    # ---- links and nodes

    def events(self, before: int, count: int) -> Predictions | LabelPredictions:
        """The latest events before a row, latest first, with the model's prediction just before each."""
        rows = range(max(0, before - count), min(before, self.graph.num_events))
        return self.predicted(list(reversed(rows)))

    def events_of(self, node: int, count: int) -> Predictions | LabelPredictions:
        """The latest events of a node, latest first."""
        rows = self.graph.history(node, self.graph.num_events)[-count:]
        return self.predicted(rows[::-1].tolist())

    def predicted(self, links: Sequence[int | Query]) -> Predictions | LabelPredictions:
        """The model's predictions for events by their rows, and for other links."""
        found = predict(self.model, self.graph, links, watch=self._in_time())
        assert isinstance(found, Predictions | LabelPredictions)  # without a decision, it predicts nothing else
        return found

    def partners(self, node: int, count: int) -> Predictions:
        """The most likely next partners of a node, best first; none if the model does not predict links."""
        if self.task is not None:
            return Predictions(self.graph, (), ())
        return likely_partners(self.model, self.graph, self.graph.name(node), count, watch=self._in_time())

    def _in_time(self) -> Callable[[int, int], None]:
        """A progress callback that stops what takes too long."""
        ends = self.clock() + self.limits.seconds

        def watch(done: int, of: int) -> None:
            if done < of and self.clock() > ends:
                raise BudgetError(f"{done:,} of {of:,} links were scored within {self.limits.seconds:g} seconds")

        return watch

    def look(self, case: Scenario, decision: Wanted = None) -> Explanation:
        """The effect of each event alone: an explanation without a search."""
        graph, model = self.imagined(case)
        named = np.array(sorted(case.removed), dtype=np.int64)
        near = partial(_near_or_named, named=named, protect=self.protect and self.protect.at(case.query))
        change = _change(case, graph.num_events)

        def each_alone(oracle: Oracle, ranking: IntArray) -> SearchResult:
            with suppress(BudgetError):  # not evaluated: out of time
                oracle.ask([frozenset(), change])  # requested edits first
                oracle.ask([frozenset({row}) for row in ranking.tolist()])
            return result(oracle, ranking, (), 0, FOUND)

        why = explain(
            model,
            graph,
            case.query,
            decision=decision or self.decision,
            search=each_alone,
            size=SIZE + len(named),
            near=near,
            by=self.by,
            dependants=self.dependants,
            seconds=min(self.limits.look, self.limits.seconds),
        )
        return self._named(why)

    def _named(self, why: Explanation) -> Explanation:
        names = {"data": self.data_name, "model": self.model_name}
        return replace(why, parameters=why.parameters | {key: name for key, name in names.items() if name})

    # ---- searches

    def search(self, case: Scenario, name: str, *, decision: Wanted = None, **options: Any) -> Job:
        """The search for this request: an existing one, or a new one in the queue.

        Args:
            case: The link, and the edits.
            name: Of the explainer.
            decision: How it is decided.
            **options: Of `SearchLimits`.
        """
        choice, decision = SearchLimits(find(name).name, **options), decision or self.decision
        if choice.why_not and case.edits:
            undo = "undo your edits, or turn off added events"
            raise CallError(f"an explainer cannot add events to an edited history; {undo}")
        self.imagined(case)  # invalid edits and decisions are errors now, not when the search starts
        self.check(case, decision)
        with self._lock:
            self._forget()
            job = self._find(case, choice, decision)
            if job is None:
                active = sum(job.state in (WAITING, RUNNING) for job in self._jobs.values())
                if active >= self.limits.queue:
                    raise BusyError(f"{active} searches are queued or running; try again later")
                job = Job(secrets.token_urlsafe(12), case._replace(removed=frozenset()), choice, decision)
                self._jobs[job.id] = job
                self._workers.submit(self._run, job)
            job.used = self.clock()
        return job

    def found(self, case: Scenario, name: str, *, decision: Wanted = None, **options: Any) -> Explanation | None:
        """The result of the search for this request, if it has finished; arguments as for `search`."""
        with self._lock:
            job = self._find(case, SearchLimits(find(name).name, **options), decision or self.decision)
            if job is None:
                return None
            job.used = self.clock()
            return job.why

    def _find(self, case: Scenario, choice: SearchLimits, decision: Wanted) -> Job | None:
        """The search for this request, if there is one. The lock is held."""
        wanted = (case.query, case.edits, choice, decision)
        for job in self._jobs.values():
            same = (job.case.query, job.case.edits, job.choice, job.decision) == wanted
            if same and job.state in (WAITING, RUNNING, DONE) and not job.stopped:
                return job
        return None

    def job(self, id: str) -> Job:
        """A search by its id; this counts as a poll."""
        with self._lock:
            self._forget()
            job = self._jobs.get(id)
            if job is None:
                raise UnknownError("there is no such search: it was cancelled, or it has expired")
            job.used = self.clock()
        return job

    def cancel(self, id: str) -> Job:
        """Stop a search and delete it."""
        job = self.job(id)
        with self._lock:
            if job.state in (WAITING, RUNNING):
                job.stopped, job.state = True, CANCELLED
            self._jobs.pop(id, None)
        return job

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """The life of a server: short requests share a few threads, and in the end everything stops."""
        from anyio import to_thread  # a widget needs no server

        to_thread.current_default_thread_limiter().total_tokens = self.limits.threads
        yield
        self.close()

    def close(self) -> None:
        """Stop everything."""
        with self._lock:
            for job in self._jobs.values():
                job.stopped = True
        self._workers.shutdown(wait=True, cancel_futures=True)

    @cached_property
    def _workers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.limits.searches, thread_name_prefix="search")  # it starts threads when needed

    def _run(self, job: Job) -> None:
        try:
            with self._lock:
                self._check_wanted(job)
                job.state = RUNNING
            why = self._explain(job)
            with self._lock:
                if not job.stopped:
                    job.why, job.state = why, DONE
        except StoppedError:
            job.state = CANCELLED
        except CodyError as error:
            job.error, job.state = str(error), FAILED
        except Exception as error:  # a user's model may raise anything; the server keeps running
            job.error, job.state = f"{type(error).__name__}: {first_line(error)}", FAILED

    def _explain(self, job: Job) -> Explanation:
        graph, model = self.imagined(job.case)
        choice = job.choice
        chosen = explainer(
            choice.explainer,
            scorer=(self.model_name or None) if find(choice.explainer).needs_scorer else None,
            edits=find_edits(WHY_NOT if choice.why_not else ["remove"]),
            protect=self.protect,
            by=self.by,
            dependants=self.dependants,
            evaluations=choice.evaluations,
            size=choice.candidates,
        )

        def tell(tried: int) -> None:
            job.tried = tried
            self._check_wanted(job)

        given = {"decision": job.decision, "seconds": self.limits.seconds, "watch": counting(tell)}
        return self._named(chosen.explain(model, graph, job.case.query, **given))

    def _is_wanted(self, job: Job) -> bool:
        """Whether a search was not cancelled and has been polled recently."""
        return not job.stopped and self.clock() - job.used <= self.limits.away

    def _check_wanted(self, job: Job) -> None:
        if not self._is_wanted(job):
            raise StoppedError


def _change(case: Scenario, first_imagined: int) -> Change:
    """The rows that a case changes: those that it removes, and the imagined ones."""
    return case.removed | {first_imagined + place for place in range(len(case.edits))}


def _near_or_named(
    graph: TemporalGraph, query: Query, hops: int, size: int, *, named: IntArray, protect: Protected | None
) -> IntArray:
    """The events that the request names, and the candidates near the link, the latest first."""
    named = named[named < query.before]
    near = candidates(graph, query, hops, max(1, size - len(named)), protect=protect)[::-1]
    return np.concatenate([named, near[(near < graph.num_events) & ~np.isin(near, named)]])
