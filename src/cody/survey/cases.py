"""Explained links, and what can be said about an event that might be decisive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cody.candidates import candidates
from cody.evaluate.record import Record
from cody.explainers import NEAR
from cody.graph import BoolArray, IntArray, Query, TemporalGraph

SAME, REVERSE = "the same link before", "the reverse direction"
SOURCE, DESTINATION, FURTHER = (
    "another event of the source",
    "another event of the destination",
    "two or more hops away",
)
RELATIONS = (SAME, REVERSE, SOURCE, DESTINATION, FURTHER)


@dataclass(frozen=True, slots=True)
class Case:
    """A link, its candidates, and which of them are decisive: the prediction changes without them."""

    record: Record
    query: Query
    candidates: IntArray  # [C] rows, ascending
    decisive: BoolArray  # [C]; all False where no counterfactual was found

    @property
    def event(self) -> int:
        return self.record.event

    @property
    def flips(self) -> bool:
        """Whether a counterfactual was found."""
        return bool(self.decisive.any())

    @property
    def size(self) -> int:
        """How many events it consists of."""
        return int(self.decisive.sum())


def cases(records: Iterable[Record], graph: TemporalGraph) -> list[Case]:
    """The records of one explainer as cases. The candidates of each are those that the explainer had."""
    near = {function.__name__: function for function in NEAR.values()}
    made = []
    for record in records:
        chosen = record.options["candidates"]
        query = graph.query(record.event)
        rows = candidates(graph, query, chosen["hops"], chosen["size"], near=near[chosen["near"]])
        named = record.rows if record.is_necessary else ()
        made.append(Case(record, query, rows, np.isin(rows, named)))
    return made


def relations(graph: TemporalGraph, case: Case) -> IntArray:
    """What each candidate is to the link, as a place in `RELATIONS`. [C]"""
    src, dst = graph.src[case.candidates], graph.dst[case.candidates]
    one, other = case.query.src, case.query.dst
    kinds = [
        (src == one) & (dst == other),
        (src == other) & (dst == one),
        (src == one) | (dst == one),
        (src == other) | (dst == other),
    ]
    return np.select(kinds, range(len(kinds)), len(kinds))


def is_repeated(graph: TemporalGraph, case: Case) -> BoolArray:
    """Whether the two nodes of each candidate had an event with each other before. [C]"""
    return np.array([_met_before(graph, row) for row in case.candidates.tolist()], dtype=bool)


def _met_before(graph: TemporalGraph, row: int) -> bool:
    node = int(graph.src[row])
    earlier = graph.history(node, row)
    return bool((graph.other_end(earlier, node) == graph.dst[row]).any())


def ages(graph: TemporalGraph, case: Case) -> np.ndarray:
    """How long before the link each candidate happened. [C]"""
    return np.asarray(case.query.time - graph.time[case.candidates])


def ranks(case: Case) -> IntArray:
    """1 for the latest candidate, 2 for the one before it, … [C]"""
    return np.arange(len(case.candidates), 0, -1)
