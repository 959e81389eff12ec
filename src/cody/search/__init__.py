"""Searches for changes of the history that flip a prediction: functions of an oracle and the ranked candidates."""

from cody.search.diverse import diverse_counterfactuals, search_alternatives
from cody.search.exhaustive import prove
from cody.search.greedy import greedy
from cody.search.result import Search, SearchResult, result
from cody.search.scout import scout
from cody.search.share import shortest_prefix, top_share
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
