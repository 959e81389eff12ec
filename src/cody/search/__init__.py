"""Searches for changes of the past that change a prediction: functions of an oracle and the candidates in order."""

from cody.search.diverse import look_for_others, ways_out
from cody.search.exhaustive import prove
from cody.search.greedy import greedy
from cody.search.result import Found, Search, result
from cody.search.scout import scout
from cody.search.share import top_share
from cody.search.tree import ALPHA, cody, greedy_then_cody

__all__ = [
    "ALPHA",
    "Found",
    "Search",
    "cody",
    "greedy",
    "greedy_then_cody",
    "look_for_others",
    "prove",
    "result",
    "scout",
    "top_share",
    "ways_out",
]
