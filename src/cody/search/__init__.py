"""Searches for changes of the history that flip a prediction: functions of an oracle and the ranked candidates."""

from cody.search.further import diverse_counterfactuals, prove, search_alternatives
from cody.search.greedy import greedy, shortest_prefix, top_share
from cody.search.result import Search, SearchResult, result
from cody.search.scout import scout
from cody.search.sufficient import sufficient
from cody.search.tree import ALPHA, cody, greedy_then_cody

__all__ = [
    "ALPHA",
    "Search",
    "SearchResult",
    "cody",
    "diverse_counterfactuals",
    "greedy",
    "greedy_then_cody",
    "prove",
    "result",
    "scout",
    "search_alternatives",
    "shortest_prefix",
    "sufficient",
    "top_share",
]
