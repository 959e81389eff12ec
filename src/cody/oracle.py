"""The one question that everything asks: what would the model say had these events not happened?"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cody.errors import CallError, ModelError
from cody.graph import FloatArray, Query, TemporalGraph

Removal = frozenset[int]  # rows of events that did not happen


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


def check_logits(query: Query, removals: Sequence[Removal], logits: Sequence[float]) -> None:
    """Refuse answers that are none, and name the set that got them."""
    if len(logits) != len(removals):
        raise ModelError(f"the model gave {len(logits)} logits for {len(removals)} removal sets")
    for removal, logit in zip(removals, logits, strict=True):
        if not math.isfinite(logit):
            raise ModelError(f"the model's logit is {logit} for {query} without events {sorted(removal)}")


@dataclass(frozen=True, slots=True)
class Counts:
    """What asking has cost so far. A set counts once for each time it is asked, whatever the batch."""

    asked: int = 0  # sets that somebody wanted the answer of
    remembered: int = 0  # of these, answered without the model
    evaluated: int = 0  # sets that the model computed: unique ones
    ahead: int = 0  # of these, computed before anybody had asked
    batches: int = 0  # calls of the model

    @property
    def share_unused(self) -> float:
        """Share of the evaluations that nobody has asked for (yet)."""
        used = self.asked - self.remembered
        return 1 - used / self.evaluated if self.evaluated else 0.0


class Oracle:
    """A model asked about one query: remembers answers, counts them, and asks for many at once.

    The only object in a search that changes. Answers are rounded to 5 decimals: the last bits of a matrix product
    depend on its shape, and decisions must not depend on how questions were batched.

    >>> from cody.graph import TemporalGraph
    >>> from cody.testing import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 1, 1], time=[1.0, 2.0, 3.0])
    >>> oracle = Oracle(ToyModel(graph), graph.query(2))
    >>> oracle.ask([frozenset(), frozenset({0}), frozenset()])
    [1.20711, 0.70711, 1.20711]
    >>> oracle.counts
    Counts(asked=3, remembered=1, evaluated=2, ahead=0, batches=1)
    """

    def __init__(self, model: Model, query: Query, *, sets_at_once: int = 256) -> None:
        if sets_at_once < 1:
            raise CallError(f"sets_at_once must be at least 1, not {sets_at_once}")
        self.model = model
        self.query = query
        self.sets_at_once = sets_at_once  # bounds the memory that a batch takes
        self.counts = Counts()
        self._answers: dict[Removal, float] = {}
        self._unused: set[Removal] = set()

    def ask(self, removals: Sequence[Removal]) -> list[float]:
        """The logit of each removal set."""
        unknown = self._evaluate(removals)
        fresh = unknown | self._unused.intersection(removals)  # paid for by this question
        self._unused -= fresh
        self._count(asked=len(removals), remembered=len(removals) - len(fresh))
        return [self._answers[removal] for removal in removals]

    def ask_ahead(self, removals: Iterable[Removal]) -> None:
        """Compute answers that will probably be wanted soon, in the same batch."""
        unknown = self._evaluate(list(removals))
        self._unused |= unknown
        self._count(ahead=len(unknown))

    def knows(self, removal: Removal) -> bool:
        """Whether the answer is there without asking the model."""
        return removal in self._answers

    def _evaluate(self, removals: Sequence[Removal]) -> set[Removal]:
        """Have the model answer what is not known yet; returns these sets."""
        unknown = [removal for removal in dict.fromkeys(removals) if removal not in self._answers]
        for start in range(0, len(unknown), self.sets_at_once):
            batch = unknown[start : start + self.sets_at_once]
            logits = [float(logit) for logit in self.model.logits(self.query, batch)]
            check_logits(self.query, batch, logits)
            self._answers.update((removal, round(logit, 5)) for removal, logit in zip(batch, logits, strict=True))
            self._count(evaluated=len(batch), batches=1)
        return set(unknown)

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self.counts, name) for name in Counts.__slots__}
        self.counts = Counts(**{name: count + more.get(name, 0) for name, count in counts.items()})
