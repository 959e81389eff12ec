"""In which order a search tries the candidates. A policy is a function; what it puts first is tried first.

Ties are broken by the more recent event, then by the later row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.nearby import distances
from cody.oracle import Oracle

Policy = Callable[[TemporalGraph, Query, IntArray, Oracle, np.random.Generator], IntArray]


def random(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator) -> IntArray:
    """In no order: what the others must beat."""
    shuffled: IntArray = rng.permutation(events)
    return shuffled


def temporal(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
) -> IntArray:
    """The most recent first. Rows are in time order, so equal times go by row."""
    return np.sort(events)[::-1]


def spatio_temporal(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
) -> IntArray:
    """The nearest first, of equally near ones the most recent."""
    recent = np.sort(events)[::-1]
    return recent[np.argsort(distances(graph, query, recent), kind="stable")]


def event_impact(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator
) -> IntArray:
    """First the event that alone moves the logit furthest towards the other decision. Costs an answer each."""
    if oracle.evaluations is not None and oracle.evaluations <= len(events):
        raise CallError(
            f"event-impact asks about each of {len(events)} candidates: a budget of {oracle.evaluations} evaluations "
            f"is too small, it must be at least {len(events) + 1}"
        )
    recent = np.sort(events)[::-1]
    original, *without = oracle.ask([frozenset(), *(frozenset({row}) for row in recent.tolist())])
    return recent[np.argsort([-shift(original, logit) for logit in without], kind="stable")]


def shift(original: float, logit: float) -> float:
    """How far a logit has moved from the original one towards the other decision; below 0: away from it.

    >>> shift(2.0, 0.5), shift(-2.0, 0.5), shift(-2.0, -3.0)
    (1.5, 2.5, -1.0)
    """
    return original - logit if original > 0 else logit - original
