"""A search for what flips a decision in several models at once.

Its margin is that of the model which is furthest from the other decision: where that one flips, all of them do. So any
search can be used, and knows nothing of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from cody.graph import FloatArray, IntArray
from cody.models.contract import DECIMALS, NOTHING, Change, Session, as_floats
from cody.models.margins import flips
from cody.search.oracle import Oracle
from cody.search.result import Search, SearchResult, flipping_sets, result


class WorstOf:
    """A session whose margins are those of the model that is furthest from the other decision.

    Args:
        oracle: Of the model that is explained.
        others: Sessions of the other models, about the same candidates.
        original: The margin with nothing changed.
    """

    def __init__(self, oracle: Oracle, others: Sequence[Session], original: float) -> None:
        self.oracle, self.others = oracle, others
        self.sign = 1.0 if flips(-1.0, original) else -1.0  # of the decision
        self.margins: dict[Change, tuple[float, ...]] = {}  # of each model

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """The margin of the worst model for each change. [B]"""
        every = [self.oracle.look_up(changes), *(as_floats(session.logits(changes)) for session in self.others)]
        margins = np.round(np.array(every, dtype=np.float64), DECIMALS)  # [models, B]
        self.margins.update(zip(changes, map(tuple, margins.T.tolist()), strict=True))
        return self.sign * (self.sign * margins).max(axis=0)

    def held(self, change: Change) -> int:
        """In how many models a change flips the decision."""
        return sum(flips(self.sign, margin) for margin in self.margins[change])


def search_across(search: Search, others: Sequence[Session], oracle: Oracle, ranking: IntArray) -> SearchResult:
    """What flips the decision of all models, if the search finds it; else what flips that of most.

    In the latter case, it searches once more for what flips that of the explained model alone: margins of a model that
    never flips lead nowhere. Models that decide differently from the start are left out.

    Args:
        search: Any search.
        others: Sessions of the other models, about the same candidates.
        oracle: Of the model that is explained: its margins are reported.
        ranking: The candidates.
    """
    (original,) = oracle.ask([NOTHING])
    agreeing = [session for session in others if not flips(original, as_floats(session.logits([NOTHING]))[0])]
    worst = WorstOf(oracle, agreeing, original)
    # Half of a budget is for what flips the explained model alone.
    left = None if oracle.evaluations is None else max(1, (oracle.evaluations - oracle.spent) // 2)
    inner = Oracle(
        oracle.model,
        oracle.query,
        evaluations=left,
        seconds=None if math.isinf(oracle.deadline) else max(1e-3, (oracle.deadline - time.monotonic()) / 2),
        watch=None if oracle.watch is None else lambda _: oracle.watch and oracle.watch(oracle),
        groups=oracle.groups,
        session=worst,
    )
    found = search(inner, ranking)
    oracle.ask(list(inner.evaluated))  # all of them are known
    rows = found.rows
    if agreeing and not found.factual and frozenset(rows) not in dict(found.counterfactuals):
        found = search(oracle, ranking)
        rows = _best(found, worst, oracle)
    return result(oracle, ranking, rows, found.iterations, found.ended, factual=found.factual)


def _best(found: SearchResult, worst: WorstOf, oracle: Oracle) -> tuple[int, ...]:
    """The set that flips most models, the explained one among them; none does: what the search says."""
    flipping = [change for change, _ in flipping_sets(oracle.evaluated)]
    if not flipping:
        return found.rows
    worst.logits([change for change in flipping if change not in worst.margins])

    def worth(change: Change) -> tuple[int, int, list[int]]:
        return -worst.held(change), len(change), sorted(change)

    best: Change = min(flipping, key=worth)
    return tuple(sorted(best))
