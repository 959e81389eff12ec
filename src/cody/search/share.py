"""No search: the first share of a ranking, which is how methods that rank events explain."""

from __future__ import annotations

from cody.errors import BudgetError, CallError
from cody.graph import IntArray
from cody.models.margins import flips
from cody.search.oracle import Oracle
from cody.search.result import EXHAUSTED, FOUND, STUCK, SearchResult, best_evaluated, result


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
