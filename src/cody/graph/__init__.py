"""The log of events, queries about it, edits to it, and the neighbourhoods in it. An id of an event is its row."""

from cody.graph.columns import BoolArray, FloatArray, IntArray, is_in, sorted_unique, whole_number
from cody.graph.log import (
    Difference,
    Query,
    TemporalGraph,
    check_queries,
    check_query,
    verify_graph,
    warn_if_long_after,
)

__all__ = [
    "BoolArray",
    "Difference",
    "FloatArray",
    "IntArray",
    "Query",
    "TemporalGraph",
    "check_queries",
    "check_query",
    "is_in",
    "sorted_unique",
    "verify_graph",
    "warn_if_long_after",
    "whole_number",
]
