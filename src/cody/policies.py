"""The order in which a search tries the candidates. A policy is a function that puts the most promising first.

Ties are broken by the more recent event, then by the later row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cody.candidates import distances
from cody.decision import shift
from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.oracle import Oracle

Policy = Callable[[TemporalGraph, Query, IntArray, Oracle, np.random.Generator], IntArray]


def latest_first(graph: TemporalGraph, events: IntArray) -> IntArray:
    """Rows, real and imagined ones, the most recent first."""
    return events[np.argsort(graph.order(events))[::-1]]


def random(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator) -> IntArray:
    """In random order: the baseline of the other policies."""
    shuffled: IntArray = rng.permutation(events)
    return shuffled


def temporal(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
) -> IntArray:
    """The most recent first; of equal times, the later row."""
    return latest_first(graph, events)


def spatio_temporal(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
) -> IntArray:
    """The nearest first, of equally near ones the most recent."""
    recent = latest_first(graph, events)
    return recent[np.argsort(distances(graph, query, recent), kind="stable")]


def event_impact(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
) -> IntArray:
    """First the event whose change alone moves the logit furthest towards the other decision. Costs an answer each."""
    if oracle.evaluations is not None and oracle.evaluations <= len(events):
        raise CallError(
            f"event-impact asks about each of {len(events)} candidates: a budget of {oracle.evaluations} evaluations "
            f"is too small, it must be at least {len(events) + 1}"
        )
    recent = latest_first(graph, events)
    original, *without = oracle.ask([frozenset(), *(frozenset({row}) for row in recent.tolist())])
    return recent[np.argsort([-shift(original, logit) for logit in without], kind="stable")]
