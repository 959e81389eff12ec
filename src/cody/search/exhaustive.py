"""Proofs that no small set of candidates flips the prediction, because every one of them was evaluated."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb

from cody.errors import BudgetError
from cody.graph import IntArray
from cody.search.oracle import Oracle
from cody.search.result import SearchResult, flipping_sets, result


def prove(oracle: Oracle, ranking: IntArray, found: SearchResult, size: int, *, every: bool = False) -> SearchResult:
    """Evaluate every set of fewer than `size` candidates, smaller ones first, and return the best of all.

    Events that flip the prediction alone are not combined: no set with one of them is minimal.

    Args:
        oracle: Scores changes of the link.
        ranking: The candidates, the most promising first.
        found: The result of a search.
        size: Every smaller set is evaluated.
        every: Find all such sets; by default it ends with the first size at which one is found.
    """
    ended = found.ended
    try:
        oracle.ask([frozenset()])
        for length in range(1, min(size, len(ranking) + 1)):
            smaller = [change for change, _ in flipping_sets(oracle.evaluated) if len(change) < length]
            if smaller and not every:
                break
            alone = frozenset().union(*(change for change in smaller if len(change) == 1))
            sets = map(frozenset, combinations([row for row in ranking.tolist() if row not in alone], length))
            rest = (change for change in sets if change not in oracle.evaluated and oracle.is_possible(change))
            while batch := list(islice(rest, oracle.sets_at_once)):
                oracle.ask(batch)
    except BudgetError as spent:
        ended = str(spent)
    return with_best(oracle, ranking, found, ended)


def number_of_sets(candidates: int, size: int) -> int:
    """How many sets of fewer than `size` candidates there are.

    >>> number_of_sets(64, 3), number_of_sets(3, 10**30)
    (2081, 8)
    """
    return sum(comb(candidates, length) for length in range(min(size, candidates + 1)))


def with_best(oracle: Oracle, ranking: IntArray, found: SearchResult, ended: str) -> SearchResult:
    """The result with everything evaluated since; a smaller counterfactual found on the way becomes the answer.

    Args:
        oracle: Has all that was evaluated.
        ranking: The candidates, the most promising first.
        found: The result of a search.
        ended: Why the evaluation ended.
    """
    rows, counterfactuals = found.rows, flipping_sets(oracle.evaluated)
    if counterfactuals and not found.factual:
        best = counterfactuals[0][0]
        if len(best) < len(rows) or frozenset(rows) not in dict(counterfactuals):
            rows = tuple(row for row in ranking.tolist() if row in best)
    return result(oracle, ranking, rows, found.iterations, ended, factual=found.factual)
