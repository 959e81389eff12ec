"""The one question that everything asks: what would the model say had these events not happened?"""

from __future__ import annotations

import math
import operator
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cody.deadline import until
from cody.errors import BudgetError, CallError, ModelError
from cody.graph import FloatArray, Query, TemporalGraph, whole_number

Removal = frozenset[int]  # rows of events that did not happen

DECIMALS = 5  # of an answer
LARGEST_LOGIT = 2**53 / 10**DECIMALS  # beyond it, a double has no such decimals: no model means such a number


class Model(Protocol):
    """Anything that scores a link of a temporal graph without some of its past events.

    An answer depends on the arguments alone: no call leaves anything behind that a later call could notice.
    """

    def logits(self, query: Query, removals: Sequence[Removal]) -> FloatArray:
        """One logit for each removal set; above 0 means that the link is predicted. [B]"""
        ...


def check_removals(graph: TemporalGraph, removals: Iterable[Iterable[int]]) -> list[Removal]:
    """Removal sets as frozen sets of plain integers; rows that are not events of the graph are refused."""
    try:
        checked = [frozenset(operator.index(row) for row in removal) for removal in removals]
    except TypeError:
        raise CallError("removals must be sets of event rows, for example [frozenset(), frozenset({3, 7})]") from None
    for removal in checked:
        for row in removal:
            if not 0 <= row < graph.num_events:
                raise CallError(f"event {row} cannot be removed: rows go from 0 to {graph.num_events - 1}")
    return checked


def _as_floats(answers: object) -> list[float]:
    """The answers of a model as plain numbers."""
    try:
        return [float(logit) for logit in answers]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ModelError(f"the model must give one number for each removal set, not {str(answers)[:60]!r}") from None


def check_logits(query: Query, removals: Sequence[Removal], logits: Sequence[float]) -> None:
    """Reject answers that are not numbers, or absurdly large ones, and name the set that got them."""
    if len(logits) != len(removals):
        raise ModelError(f"the model gave {len(logits)} logits for {len(removals)} removal sets")
    for removal, logit in zip(removals, logits, strict=True):
        if not abs(logit) < LARGEST_LOGIT:
            raise ModelError(f"the model's logit is {logit} for {query} without events {sorted(removal)}")


def check_seconds(seconds: float) -> float:
    """A budget of time as a number."""
    if isinstance(seconds, str) or not 0 < seconds < math.inf:
        raise CallError(f"a budget of seconds must be a finite number above 0, not {seconds!r}")
    return float(seconds)


@dataclass(frozen=True, slots=True)
class Counts:
    """What asking has cost so far. A set counts once for each time it is asked, whatever the batch."""

    asked: int = 0  # sets that somebody wanted the answer of
    remembered: int = 0  # of these, asked before
    evaluated: int = 0  # sets that the model computed: unique ones
    ahead: int = 0  # of these, computed before anybody had asked
    batches: int = 0  # calls of the model

    @property
    def share_unused(self) -> float:
        """Share of the evaluations that nobody has asked for (yet)."""
        used = self.asked - self.remembered
        return max(0.0, 1 - used / self.evaluated) if self.evaluated else 0.0


class Oracle:
    """A model asked about one query: remembers answers, counts them, and asks for many at once.

    The only object in a search that changes. Answers are rounded to 5 decimals: the last bits of a matrix product
    depend on its shape, and decisions must not depend on how questions were batched.

    With a budget of `evaluations` (distinct sets asked) or `seconds` (since it was made), a question that has no room
    raises `BudgetError` and is not asked; a model that looks at the clock (`cody.deadline`) is stopped in time. `watch`
    is called after each batch. `memory` holds answers that are known already, and takes the new ones: oracles of the
    same model and query can share it, and each still counts as its own evaluations (`asked`) whatever it asked.

    >>> from cody.graph import TemporalGraph
    >>> from cody.testing import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 1, 1], time=[1.0, 2.0, 3.0])
    >>> oracle = Oracle(ToyModel(graph), graph.query(2))
    >>> oracle.ask([frozenset(), frozenset({0}), frozenset()])
    [1.20711, 0.70711, 1.20711]
    >>> oracle.counts
    Counts(asked=3, remembered=1, evaluated=2, ahead=0, batches=1)
    """

    def __init__(
        self,
        model: Model,
        query: Query,
        *,
        sets_at_once: int = 256,
        evaluations: int | None = None,
        seconds: float | None = None,
        watch: Callable[[Oracle], None] | None = None,
        memory: dict[Removal, float] | None = None,
    ) -> None:
        if sets_at_once < 1:
            raise CallError(f"sets_at_once must be at least 1, not {sets_at_once}")
        if evaluations is not None and whole_number("evaluations", evaluations) < 1:
            raise CallError(f"a budget of evaluations must be at least 1, not {evaluations}")
        seconds = None if seconds is None else check_seconds(seconds)
        self.model = model
        self.query = query
        self.sets_at_once = sets_at_once  # bounds the memory that a batch takes
        self.evaluations = evaluations
        self.seconds = seconds
        self.watch = watch
        self.asked: dict[Removal, float] = {}  # what somebody wanted to know: the evaluations that count, in order
        self._answers: dict[Removal, float] = {} if memory is None else memory
        self._started = time.monotonic()
        self._in_model = 0.0  # seconds
        self._questions = self._evaluated = self._ahead = self._batches = 0

    @property
    def deadline(self) -> float:
        """When the budget of time is used up, on the clock `time.monotonic`."""
        return math.inf if self.seconds is None else self._started + self.seconds

    @property
    def counts(self) -> Counts:
        return Counts(
            asked=self._questions,
            remembered=self._questions - len(self.asked),
            evaluated=self._evaluated,
            ahead=self._ahead,
            batches=self._batches,
        )

    def ask(self, removals: Sequence[Removal]) -> list[float]:
        """The logit of each removal set."""
        new = {removal for removal in removals if removal not in self.asked}
        if self.evaluations is not None and new and len(self.asked) + len(new) > self.evaluations:
            raise BudgetError("evaluations")
        if new:  # what was paid for is there for good
            self._check_time()
        try:
            self._evaluate(removals)
        finally:  # if time runs out in the middle, the answers so far count too
            known = [removal for removal in removals if removal in self._answers]
            self._questions += len(known)
            self.asked.update((removal, self._answers[removal]) for removal in known)
        return [self._answers[removal] for removal in removals]

    def ask_ahead(self, removals: Iterable[Removal]) -> None:
        """Compute answers that will probably be wanted soon, in one batch: the first of them, as the budget allows."""
        unknown = [removal for removal in dict.fromkeys(removals) if removal not in self._answers]
        if self.evaluations is not None:
            del unknown[max(0, self.evaluations - len(self.asked)) :]
        if self.seconds is not None:
            del unknown[self._room() :]
        self._ahead += len(unknown)
        self._evaluate(unknown, wanted=False)

    def tell(self, removals: Sequence[Removal]) -> list[float]:
        """The logit of each removal set, charged to nobody and whatever the budget: for a report."""
        self._evaluate(removals, limited=False)
        return [self._answers[removal] for removal in removals]

    def knows(self, removal: Removal) -> bool:
        """Whether the answer is there without asking the model."""
        return removal in self._answers

    def remembered(self, removal: Removal) -> float | None:
        """The answer, if it is there without asking the model. Nobody is charged."""
        return self._answers.get(removal)

    def _evaluate(self, removals: Sequence[Removal], *, wanted: bool = True, limited: bool = True) -> None:
        """Have the model answer what is not known yet. Nonsense about a set that nobody wanted yet is overlooked."""
        unknown = deque(removal for removal in dict.fromkeys(removals) if removal not in self._answers)
        while unknown:
            room = self._room() if limited else self.sets_at_once
            batch = [unknown.popleft() for _ in range(min(room, len(unknown)))]
            begun = time.monotonic()
            with until(self.deadline if limited else math.inf):
                logits = _as_floats(self.model.logits(self.query, batch))
            self._in_model += time.monotonic() - begun
            if wanted or len(logits) != len(batch):
                check_logits(self.query, batch, logits)
            answers = zip(batch, logits, strict=True)
            self._answers.update(
                (removal, round(logit, DECIMALS)) for removal, logit in answers if math.isfinite(logit)
            )
            self._evaluated += len(batch)
            self._batches += 1
            if self.watch is not None:
                self.watch(self)
            if unknown and wanted and limited:
                self._check_time()

    def _room(self) -> int:
        """How many sets to ask about at once: with a budget of time, as many as it probably has room for."""
        if self.seconds is None:
            return self.sets_at_once
        if not self._evaluated:
            return 1  # nobody knows yet how slow the model is
        each = max(self._in_model / self._evaluated, 1e-9)
        return min(self.sets_at_once, max(1, int((self.deadline - time.monotonic()) / each)))

    def _check_time(self) -> None:
        if time.monotonic() >= self.deadline:
            raise BudgetError("seconds")
