"""GreeDy: always remove the event that moves the score furthest towards a flip, and never go back.

And no search at all: the first share of a ranking, which is how methods that rank events explain.
"""

from __future__ import annotations

from typing import NamedTuple

from cody.errors import BudgetError, CallError
from cody.graph import IntArray, whole_number
from cody.models.margins import flips, shift
from cody.search.oracle import Oracle
from cody.search.result import EXHAUSTED, FOUND, STUCK, SearchResult, best_evaluated, result

Path = tuple[int, ...]  # the events of a set, in the order in which they were removed


class Walk(NamedTuple):
    """A greedy search: the best path, and all visited paths, each after its parent."""

    best: Path
    visited: list[Path]
    steps: int
    ended: str


def greedy(oracle: Oracle, ranking: IntArray, *, children: int = 10) -> SearchResult:
    """Evaluate the first few of the remaining candidates, remove the best, repeat until the prediction flips.

    Ends without success when none of them moves the score closer. Algorithm GreeDy of the paper, appendix A.

    Args:
        oracle: Scores changes of the link.
        ranking: The candidates, the most promising first.
        children: Number of candidates that are evaluated in each step.
    """
    found = walk(oracle, ranking, children)
    return result(oracle, ranking, found.best, found.steps, found.ended)


def walk(oracle: Oracle, ranking: IntArray, children: int) -> Walk:
    """The greedy search with all that it visited.

    Args:
        oracle: Scores changes of the link.
        ranking: The candidates, the most promising first.
        children: Number of candidates that are evaluated in each step.
    """
    if whole_number("children", children) < 1:
        raise CallError(f"children must be at least 1, not {children}")
    best: Path = ()
    visited: list[Path] = []
    remaining, steps = ranking.tolist(), 0
    try:
        original = current = oracle.ask([frozenset()])[0]
        visited.append(best)
        while remaining and not flips(original, current):
            next_events = remaining[:children]
            logits = oracle.ask([frozenset({*best, event}) for event in next_events])
            visited += [(*best, event) for event in next_events]
            steps += 1
            event, logit = max(zip(next_events, logits, strict=True), key=lambda pair: shift(original, pair[1]))
            if shift(original, logit) <= shift(original, current):
                return Walk(best, visited, steps, STUCK)
            best, current = (*best, event), logit
            remaining.remove(event)
    except BudgetError as spent:
        known = best_evaluated(oracle, ranking.tolist())
        return Walk(best if set(known) == set(best) else known, visited, steps, str(spent))
    if flips(original, current):
        return Walk(best, visited, steps, FOUND)
    return Walk(best, visited, steps, STUCK if len(ranking) else EXHAUSTED)


def top_share(oracle: Oracle, ranking: IntArray, *, sparsity: float = 0.2) -> SearchResult:
    """The first share of the candidates, rounded to whole events; at least one, unless the share is 0.

    Evaluates nothing: the set is what the ranking puts first, whether or not it flips the prediction.

    Args:
        oracle: Not used.
        ranking: The candidates, the most important first.
        sparsity: Share of the candidates, between 0 and 1.
    """
    if not 0 <= sparsity <= 1:
        raise CallError(f"sparsity is a share of the candidates, between 0 and 1, not {sparsity}")
    count = max(round(sparsity * len(ranking)), int(sparsity > 0))
    named = tuple(ranking[:count].tolist())
    return result(oracle, ranking, named, 0, FOUND if len(ranking) else EXHAUSTED, factual=True)


def shortest_prefix(oracle: Oracle, ranking: IntArray) -> SearchResult:
    """The fewest first events of a ranking without which the decision changes: the counterfactual of an attribution.

    Args:
        oracle: Scores the prefixes.
        ranking: The candidates, the most important first.
    """
    rows: list[int] = ranking.tolist()
    try:
        (original,) = oracle.ask([frozenset()])
        for length in range(1, len(rows) + 1):
            if flips(original, oracle.ask([frozenset(rows[:length])])[0]):
                return result(oracle, ranking, tuple(rows[:length]), length, FOUND)
    except BudgetError as spent:
        return result(oracle, ranking, best_evaluated(oracle, rows), 0, str(spent))
    return result(oracle, ranking, best_evaluated(oracle, rows), len(rows), STUCK if rows else EXHAUSTED)
