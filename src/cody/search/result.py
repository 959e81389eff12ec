"""What a search is given, and what it gives back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from cody.graph import IntArray
from cody.models.contract import Change
from cody.models.decision import flips, shift
from cody.search.oracle import Oracle

# Why a search ended. The last three are budgets.
EXHAUSTED = "exhausted"  # every set of candidates that could have won was tried
FOUND = "found"  # it was content with what it had
STUCK = "stuck"  # none of the next steps led closer
ITERATIONS = "iterations"
EVALUATIONS = "evaluations"
SECONDS = "seconds"
ENDINGS = (EXHAUSTED, FOUND, STUCK, ITERATIONS, EVALUATIONS, SECONDS)

Asked = tuple[tuple[Change, float], ...]  # changes with their logits, in the order of asking


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: its best set, all counterfactuals that it met, what is proven, and what was asked."""

    rows: tuple[int, ...]  # the best set, in the order in which the search put it together
    iterations: int
    ended: str  # one of the words above
    counterfactuals: Asked  # all that were met, best first: fewest rows, then furthest
    proven: int  # every set of fewer than so many candidates was tried, or has an event that alone does it
    asked: Asked  # everything
    factual: bool = False  # the rows speak for the decision, whether or not it changes without them


Search = Callable[[Oracle, IntArray], Found]


def result(
    oracle: Oracle, ranking: IntArray, rows: tuple[int, ...], iterations: int, ended: str, *, factual: bool = False
) -> Found:
    """What a search gives back: its best set, and all that follows from what it asked."""
    counterfactuals = met(oracle.asked)
    proven = lower_bound(oracle.asked, ranking.tolist(), dict(counterfactuals))
    return Found(rows, iterations, ended, counterfactuals, proven, tuple(oracle.asked.items()), factual)


def met(asked: Mapping[Change, float]) -> Asked:
    """The counterfactuals among what was asked, best first."""
    original = asked.get(frozenset())
    if original is None:
        return ()
    flipped = [(change, logit) for change, logit in asked.items() if flips(original, logit)]
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
    asked: Collection[Change], candidates: Collection[int], counterfactuals: Collection[Change] = ()
) -> int:
    """The smallest size of which not every set of candidates was asked: a smaller counterfactual is known or none is.

    Beyond the number of candidates if all sets were asked. That of nothing is always known, and sets with an event
    that alone changes the decision need not be asked: none of them is smaller than that event.

    >>> lower_bound([frozenset({1}), frozenset({2}), frozenset({1, 3})], [1, 2, 3])
    1
    >>> lower_bound([frozenset({1}), frozenset({2}), frozenset({1, 2})], [1, 2])
    3
    >>> lower_bound([frozenset({1}), frozenset({2})], [1, 2], [frozenset({1})])
    3
    """
    known = set(candidates)
    if not all(frozenset({row}) in asked for row in known):
        return 1
    rest = known.difference(*(change for change in counterfactuals if len(change) == 1))
    counts = Counter(len(change) for change in asked if change <= rest)
    size = 2 if known else 1
    while size <= len(known) and counts[size] == math.comb(len(rest), size):
        size += 1
    return size


def best_asked(oracle: Oracle, candidates: Iterable[int]) -> tuple[int, ...]:
    """The best set of candidates that was asked about: the smallest that changes the decision, else the furthest.

    What a search answers when its budget ran out before it could look at everything it had paid for.
    """
    original = oracle.asked.get(frozenset())
    if original is None:
        return ()

    def worth(change: Change) -> tuple[bool, float, float]:
        moved, size = shift(original, oracle.asked[change]), float(len(change))
        changed = flips(original, oracle.asked[change])
        return (changed, -size, moved) if changed else (changed, moved, -size)

    known = frozenset(candidates)
    best: Change = max((change for change in oracle.asked if change <= known), key=worth)
    return tuple(sorted(best))
