"""The oracle: scores a link under changed histories, counts the evaluations, and enforces the budgets."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from cody.errors import BudgetError, CallError
from cody.graph import Query, whole_number
from cody.models.contract import DECIMALS, Change, Model, Session, as_floats, check_logits, corrections_of, open_session
from cody.search.daily import DailyLimit
from cody.utils.deadline import check_seconds, until


@dataclass(frozen=True, slots=True)
class Counts:
    """Evaluations so far. A set counts each time it is requested, whatever the batch."""

    requested: int = 0  # sets
    remembered: int = 0  # of these, requested before
    computed: int = 0  # distinct sets that the model scored
    ahead: int = 0  # of these, computed before they were requested
    batches: int = 0  # calls to the model

    @property
    def share_unused(self) -> float:
        """Share of the evaluations that have not been requested (yet)."""
        used = self.requested - self.remembered
        return max(0.0, 1 - used / self.computed) if self.computed else 0.0


class Oracle:
    """Scores changes of one query: in batches, each set once, within a budget.

    The only object in a search that changes. Logits are rounded to 5 decimals: the last bits of a matrix product
    depend on its shape, and decisions must not depend on how sets were batched.

    A request that exceeds a budget raises `BudgetError` and is not evaluated; a model that checks the deadline
    (`cody.utils.deadline`) is stopped in time.

    Args:
        model: Any model.
        query: The link.
        sets_at_once: Size of a batch at most; it bounds the memory that a batch takes.
        evaluations: Budget of distinct sets.
        seconds: Budget of time, from now on.
        watch: Called with the oracle after each batch.
        answers: Logits that are known already; takes the new ones. Oracles of the same model and query can share it,
            and each still counts all that was requested of it as its own evaluations (`evaluated`).
        rows: What will probably be changed, for the session of the model.
        groups: Rows that belong together, for a search that changes them together.
        session: Used instead of a new session of the model.
        paid: Sets that an earlier search has paid for: they do not count against the budget of evaluations.
        limit: How many candidates may change on a day. Other sets count as if they changed nothing: the model is not
            asked, and no result has them.

    >>> from cody.graph import TemporalGraph
    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 1, 1], time=[1.0, 2.0, 3.0])
    >>> oracle = Oracle(ToyModel(graph), graph.query(2))
    >>> oracle.ask([frozenset(), frozenset({0}), frozenset()])
    [1.20711, 0.70711, 1.20711]
    >>> oracle.counts
    Counts(requested=3, remembered=1, computed=2, ahead=0, batches=1)
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
        answers: dict[Change, float] | None = None,
        rows: Sequence[int] = (),
        groups: Sequence[Change] = (),
        session: Session | None = None,
        paid: Collection[Change] = (),
        limit: DailyLimit | None = None,
    ) -> None:
        if sets_at_once < 1:
            raise CallError(f"sets_at_once must be at least 1, not {sets_at_once}")
        if evaluations is not None and whole_number("evaluations", evaluations) < 1:
            raise CallError(f"a budget of evaluations must be at least 1, not {evaluations}")
        seconds = None if seconds is None else check_seconds(seconds)
        self.model, self.query, self.watch, self.groups, self.limit = model, query, watch, groups, limit
        self.sets_at_once, self.evaluations, self.seconds = sets_at_once, evaluations, seconds
        self._session = open_session(model, query, rows) if session is None else session
        self.evaluated: dict[Change, float] = {}  # the evaluations that count, in order
        self.spent = 0  # of the budget of evaluations
        self.besides = 0  # histories that a search scored in another way, such as some events alone
        self._paid = frozenset(paid)
        self._answers: dict[Change, float] = {} if answers is None else answers
        # When the budget of time is used up, on the clock `time.monotonic`.
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._in_model = 0.0  # seconds
        self._questions = self._evaluated = self._ahead = self._batches = 0

    @property
    def counts(self) -> Counts:
        remembered = self._questions - len(self.evaluated)
        return Counts(self._questions, remembered, self._evaluated, self._ahead, self._batches)

    def ask(self, changes: Sequence[Change]) -> list[float]:
        """The logit of each change."""
        new = {change for change in changes if change not in self.evaluated}
        cost = sum(self.costs(change) for change in new)
        if self.evaluations is not None and cost and self.spent + cost > self.evaluations:
            raise BudgetError("evaluations")
        if new:  # known answers are free
            self._check_time()
        try:
            self._rule_out([change for change in new if not self.is_possible(change)])
            self._evaluate(changes)
        finally:  # if time runs out in the middle, the answers so far count too
            known = [change for change in changes if change in self._answers]
            self._questions += len(known)
            self.spent += sum(map(self.costs, set(known)))
            self.evaluated.update((change, self._answers[change]) for change in known)
        return [self._answers[change] for change in changes]

    def _rule_out(self, changes: Sequence[Change]) -> None:
        """Answer sets that could not be like the one that changes nothing."""
        if changes:
            nothing: Change = frozenset()
            self._evaluate([nothing])
            self._answers.update(dict.fromkeys(changes, self._answers[nothing]))

    def is_possible(self, change: Change) -> bool:
        """Whether a set is one that could be."""
        return self.limit is None or self.limit.allows(change)

    def costs(self, change: Change) -> bool:
        """Whether evaluating a set takes one of the budget: not if it was evaluated before."""
        return change not in self.evaluated and change not in self._paid

    def reserve(self, evaluations: int) -> AbstractContextManager[None]:
        """Reserve evaluations of the budget for later, if it is larger than that."""
        whole = self.evaluations
        return self._budget(whole if whole is None or whole <= evaluations else whole - evaluations)

    def within(self, evaluations: int) -> AbstractContextManager[None]:
        """A budget of that many further evaluations, where there is none."""
        return self._budget(self.spent + evaluations if self.evaluations is None else self.evaluations)

    @contextmanager
    def _budget(self, evaluations: int | None) -> Iterator[None]:
        """Another budget of evaluations, for a while."""
        whole, self.evaluations = self.evaluations, evaluations
        try:
            yield
        finally:
            self.evaluations = whole

    def prefetch(self, changes: Iterable[Change]) -> None:
        """Compute answers that will probably be wanted soon, in one batch: the first of them, as the budget allows."""
        new = (change for change in dict.fromkeys(changes) if change not in self._answers)
        unknown = [change for change in new if self.is_possible(change)]
        if self.evaluations is not None:
            del unknown[max(0, self.evaluations - self.spent) :]
        if self.seconds is not None:
            del unknown[self._room() :]
        self._ahead += len(unknown)
        self._evaluate(unknown, wanted=False)

    def look_up(self, changes: Sequence[Change]) -> list[float]:
        """The logit of each change, not counted and whatever the budget: for a report."""
        self._evaluate(changes, limited=False)
        return [self._answers[change] for change in changes]

    def knows(self, change: Change) -> bool:
        """Whether the logit is known without the model."""
        return change in self._answers

    def remembered(self, change: Change) -> float | None:
        """The logit, if it is known without the model. Not counted."""
        return self._answers.get(change)

    def _evaluate(self, changes: Sequence[Change], *, wanted: bool = True, limited: bool = True) -> None:
        """Have the model answer what is not known yet. Answers that are not finite are errors only if `wanted`."""
        unknown = deque(change for change in dict.fromkeys(changes) if change not in self._answers)
        while unknown:
            room = self._room() if limited else self.sets_at_once
            batch = [unknown.popleft() for _ in range(min(room, len(unknown)))]
            begun = time.monotonic()
            with until(self.deadline if limited else math.inf):
                logits = as_floats(self._session.logits(batch))
            self._in_model += time.monotonic() - begun
            if wanted or len(logits) != len(batch):
                check_logits(self.query, batch, logits)
            answers = zip(batch, logits, strict=True)
            self._answers.update((change, round(logit, DECIMALS)) for change, logit in answers if math.isfinite(logit))
            self._evaluated += len(batch)
            self._batches += 1
            self._correct(corrections_of(self._session))
            if self.watch is not None:
                self.watch(self)
            if unknown and wanted and limited:
                self._check_time()

    def _correct(self, corrections: Mapping[Change, float]) -> None:
        """Take back answers that the session has found to be off: what is claimed follows from the right ones."""
        for answers in (self._answers, self.evaluated):
            known = corrections.keys() & answers.keys()
            answers.update((change, round(corrections[change], DECIMALS)) for change in known)

    def _room(self) -> int:
        """How many sets to evaluate at once: with a budget of time, what takes at most half of the rest of it.

        What a batch takes is not known before, and a batch that is stopped is lost: so it begins with one set, and no
        batch is more than twice as large as all before it.
        """
        if self.seconds is None:
            return self.sets_at_once
        if not self._evaluated:
            return 1
        each = max(self._in_model / self._evaluated, 1e-9)
        fitting = int((self.deadline - time.monotonic()) / (2 * each))
        return max(1, min(self.sets_at_once, 2 * self._evaluated, fitting))

    def _check_time(self) -> None:
        if time.monotonic() >= self.deadline:
            raise BudgetError("seconds")


def counting(report: Callable[[int], None]) -> Callable[[Oracle], None]:
    """A `watch` for `cody.explain` that reports how many sets were evaluated so far, in all of its searches."""
    evaluated: set[Change] = set()

    def watch(oracle: Oracle) -> None:
        evaluated.update(oracle.evaluated)
        report(len(evaluated))

    return watch
