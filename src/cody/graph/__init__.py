"""The log of events, queries about it, edits to it, and the neighbourhoods in it. An id of an event is its row."""

from cody.graph.columns import (
    LONGEST_NAME,
    BoolArray,
    FloatArray,
    IntArray,
    check_room_for_names,
    is_in,
    reject_long_texts,
    sorted_unique,
    whole_number,
)
from cody.graph.log import Difference, Query, TemporalGraph, check_query, verify_graph, warn_if_long_after

__all__ = [
    "LONGEST_NAME",
    "BoolArray",
    "Difference",
    "FloatArray",
    "IntArray",
    "Query",
    "TemporalGraph",
    "check_query",
    "check_room_for_names",
    "is_in",
    "reject_long_texts",
    "sorted_unique",
    "verify_graph",
    "warn_if_long_after",
    "whole_number",
]
