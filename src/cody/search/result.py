"""The result of a search, and what follows from the sets that it evaluated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from cody.graph import IntArray
from cody.models.contract import Change
from cody.models.margins import flips, shift
from cody.search.daily import DailyLimit
from cody.search.oracle import Oracle

# Why a search ended.
EXHAUSTED = "exhausted"  # every set of candidates that could be better was evaluated
FOUND = "found"  # it stopped with what it had
STUCK = "stuck"  # no next step moved the score closer
ITERATIONS = "iterations"
EVALUATIONS = "evaluations"
SECONDS = "seconds"
BUDGETS = (ITERATIONS, EVALUATIONS, SECONDS)
ENDINGS = (EXHAUSTED, FOUND, STUCK, *BUDGETS)

Evaluated = tuple[tuple[Change, float], ...]  # changes with their logits, in the order of evaluation


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found: its best set, all counterfactuals, what is proven, and every set that was evaluated."""

    rows: tuple[int, ...]  # the best set, in the order in which the search put it together
    iterations: int
    ended: str  # one of the words above
    counterfactuals: Evaluated  # all that were found, best first: fewest rows, then the largest shift
    proven: int  # every set of fewer candidates was evaluated, or contains an event that flips the prediction alone
    evaluated: Evaluated  # every set
    factual: bool = False  # the rows speak for the decision, whether or not it changes without them
    estimated: int | None = None  # further sets that were only estimated, by a search by estimates


Search = Callable[[Oracle, IntArray], SearchResult]


class Window(NamedTuple):
    """When an imagined event also flips the prediction. The model was evaluated at every time that is given here."""

    first: float
    last: float
    tried: int  # times from the first to the last, both included: the prediction flips at each
    fails: float | None  # the next time beyond, on the less intrusive side, at which it does not; None: not tested


class Wider(NamedTuple):
    """A search among more events than the candidates, where no counterfactual was found either."""

    events: int  # the candidates included
    evaluations: int  # besides those among the candidates


def result(
    oracle: Oracle, ranking: IntArray, rows: tuple[int, ...], iterations: int, ended: str, *, factual: bool = False
) -> SearchResult:
    """The result of a search: its best set, and all that follows from the sets that it evaluated.

    Args:
        oracle: That the search used.
        ranking: The candidates.
        rows: The best set, in the order in which the search put it together.
        iterations: Of the search.
        ended: Why it ended: `EXHAUSTED`, `FOUND`, `STUCK`, `ITERATIONS`, `EVALUATIONS` or `SECONDS`.
        factual: The rows speak for the decision, whether or not it flips without them.
    """
    counterfactuals = flipping_sets(oracle.evaluated)
    evaluated = {change: logit for change, logit in oracle.evaluated.items() if oracle.is_possible(change)}
    proven = lower_bound(evaluated, ranking.tolist(), dict(counterfactuals), oracle.limit)
    return SearchResult(rows, iterations, ended, counterfactuals, proven, tuple(evaluated.items()), factual)


def flipping_sets(evaluated: Mapping[Change, float]) -> Evaluated:
    """The counterfactuals among the evaluated sets, best first."""
    original = evaluated.get(frozenset())
    if original is None:
        return ()
    flipped = [(change, logit) for change, logit in evaluated.items() if flips(original, logit)]
    return tuple(sorted(flipped, key=lambda pair: (len(pair[0]), -shift(original, pair[1]), sorted(pair[0]))))


def distinct(changes: Iterable[Change]) -> list[Change]:
    """Of changes, best first, those that contain none of the ones before them.

    >>> distinct([frozenset({1}), frozenset({1, 2}), frozenset({2, 3})]) == [{1}, {2, 3}]
    True
    """
    chosen: list[Change] = []
    for change in changes:
        if not any(other <= change for other in chosen):
            chosen.append(change)
    return chosen


def lower_bound(
    evaluated: Collection[Change],
    candidates: Collection[int],
    counterfactuals: Collection[Change] = (),
    limit: DailyLimit | None = None,
) -> int:
    """The smallest size of which not every set was evaluated: a smaller counterfactual is known, or there is none.

    Beyond the number of candidates if all sets were evaluated. The empty set always counts as evaluated, and so do sets
    with an event that flips the prediction alone: none of them is smaller than that event.

    Args:
        evaluated: Sets.
        candidates: Rows.
        counterfactuals: The sets that flip the prediction.
        limit: How many candidates may change on a day, so that no other sets count; the evaluated ones are among them.

    >>> lower_bound([frozenset({1}), frozenset({2}), frozenset({1, 3})], [1, 2, 3])
    1
    >>> lower_bound([frozenset({1}), frozenset({2}), frozenset({1, 2})], [1, 2])
    3
    >>> lower_bound([frozenset({1}), frozenset({2})], [1, 2], [frozenset({1})])
    3
    """
    known = set(candidates)
    if not all(frozenset({row}) in evaluated for row in known):
        return 1
    rest = known.difference(*(change for change in counterfactuals if len(change) == 1))
    counts = Counter(len(change) for change in evaluated if change <= rest)
    size = 2 if known else 1
    number_of_sets = partial(math.comb, len(rest)) if limit is None else partial(limit.number_of_sets, rest)
    while size <= len(known) and counts[size] == number_of_sets(size):
        size += 1
    return size


def best_evaluated(oracle: Oracle, candidates: Iterable[int]) -> tuple[int, ...]:
    """The best evaluated set of candidates: the smallest that flips the prediction, else that with the largest shift.

    The answer of a search whose budget ended before it could look at everything that was evaluated.
    """
    original = oracle.evaluated.get(frozenset())
    if original is None:
        return ()

    def worth(change: Change) -> tuple[bool, float, float]:
        moved, size = shift(original, oracle.evaluated[change]), float(len(change))
        changed = flips(original, oracle.evaluated[change])
        return (changed, -size, moved) if changed else (changed, moved, -size)

    known = frozenset(candidates)
    best: Change = max((change for change in oracle.evaluated if change <= known), key=worth)
    return tuple(sorted(best))
