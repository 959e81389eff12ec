"""The one question that everything asks: what would the model say had these events not happened?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cody.errors import CallError
from cody.graph import FloatArray, Query, TemporalGraph

Removal = frozenset[int]  # rows of events that did not happen


class Model(Protocol):
    """Anything that scores a link of a temporal graph without some of its past events.

    An answer depends on the arguments alone: no call leaves anything behind that a later call could notice.
    """

    def logits(self, query: Query, removals: Sequence[Removal]) -> FloatArray:
        """One logit for each removal set; above 0 means that the link is predicted. [B]"""
        ...


def check_removals(graph: TemporalGraph, removals: Sequence[Removal]) -> None:
    """Refuse rows that are not events of the graph."""
    for removal in removals:
        for row in removal:
            if not 0 <= row < graph.num_events:
                raise CallError(f"event {row} cannot be removed: rows go from 0 to {graph.num_events - 1}")
