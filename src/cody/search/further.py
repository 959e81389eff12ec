"""What follows a search: proofs that no small set flips the prediction, and counterfactuals that differ."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb

import numpy as np

from cody.errors import BudgetError
from cody.graph import IntArray, is_in
from cody.models.contract import Change
from cody.models.margins import flips
from cody.search.oracle import Oracle
from cody.search.result import Search, SearchResult, distinct, flipping_sets, result
from cody.search.scout import usual_evaluations
from cody.search.tree import needed


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


TRIES = 2  # further searches for each counterfactual that is wanted, where none is disjoint


def diverse_counterfactuals(found: SearchResult, count: int) -> list[Change]:
    """Up to `count` of the counterfactuals that were found: the answer, then others, ordered by size, then by shift.

    None contains another, and no single event of one can be left out. Those are chosen that have least in common with
    the ones before.
    """
    answer = frozenset(found.rows)
    if answer not in dict(found.counterfactuals):
        return []
    pool = [change for change in irreducible(found) if not (change <= answer or answer <= change)]
    chosen: list[Change] = []
    while pool and len(chosen) < count - 1:
        taken = answer.union(*chosen)
        chosen.append(min(pool, key=lambda change: len(change & taken)))  # of equal ones, the first is the best
        pool.remove(chosen[-1])
    order = [change for change, _ in found.counterfactuals]
    return [answer, *sorted(chosen, key=order.index)]


def irreducible(found: SearchResult) -> list[Change]:
    """The counterfactuals, best first, of which no single event can be left out, and that contain no other."""
    logits = dict(found.evaluated)

    def is_needed(change: Change, row: int) -> bool:
        return change - {row} in logits and not flips(logits[frozenset()], logits[change - {row}])

    some = (change for change, _ in found.counterfactuals if all(is_needed(change, row) for row in change))
    return distinct(some)


def search_alternatives(
    oracle: Oracle, ranking: IntArray, search: Search, found: SearchResult, count: int
) -> SearchResult:
    """Search among fewer candidates until `count` diverse counterfactuals are known.

    First without all events of those that are known, so that the next one is disjoint from them; where none is found,
    without one event of each, so that the next one contains none of them. Each of these searches may use as many
    evaluations as the first one, as long as the oracle has a budget.

    Args:
        oracle: Scores changes of the link.
        ranking: The candidates, the most promising first.
        search: Called among fewer candidates.
        found: The result of the first search.
        count: Number of counterfactuals wanted, the answer included.
    """

    def found_without(absent: Change) -> list[Change]:
        rest = ranking[~is_in(ranking, np.fromiter(absent, np.int64, len(absent)))]
        with oracle.within(usual_evaluations(len(rest))):  # a search that uses all of it finds more of them
            further = search(oracle, rest)
        if further.counterfactuals:
            needed(oracle, further.rows)
        return diverse_counterfactuals(with_best(oracle, ranking, found, found.ended), count)

    known, before = diverse_counterfactuals(found, count), 0
    while before < len(known) < count:
        before = len(known)
        known = found_without(frozenset().union(*known))
    idle = 0  # searches in a row that evaluated nothing new
    for number in range(TRIES * (count - 1)):
        longest = max(map(len, known), default=0)
        if longest < 2 or len(known) >= count or idle > TRIES * longest:
            break
        evaluations = len(oracle.evaluated)
        known = found_without(frozenset(sorted(change)[number % len(change)] for change in known))
        idle = idle + 1 if len(oracle.evaluated) == evaluations else 0
    return with_best(oracle, ranking, found, found.ended)
