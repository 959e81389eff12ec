"""Searches for removal sets that change a prediction. Each takes an oracle and the candidates in a policy's order."""

from cody.search.found import Found, Search
from cody.search.greedy import greedy
from cody.search.share import top_share
from cody.search.tree import ALPHA, cody, greedy_then_cody

__all__ = ["ALPHA", "Found", "Search", "cody", "greedy", "greedy_then_cody", "top_share"]
