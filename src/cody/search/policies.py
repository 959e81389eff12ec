"""Policies: the order in which a search visits the candidates, the most promising first.

A policy is a function `(graph, query, events, oracle, rng) → events`: the log, the link, the candidates, an oracle that
scores changes, and a random generator. Ties are broken by the more recent event, then by the later row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.neighbourhood import distances
from cody.models.margins import shift
from cody.search.oracle import Oracle

ONWARD = 0.25  # of what passes through an event, the share that came to it through earlier events

Rng = np.random.Generator
Policy = Callable[[TemporalGraph, Query, IntArray, Oracle, Rng], IntArray]


def latest_first(graph: TemporalGraph, events: IntArray) -> IntArray:
    """Rows, real and imagined ones, the most recent first."""
    return graph.in_time_order(events)[::-1]


def random(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """In random order: the baseline of the other policies.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Not used.
        rng: Makes the order.
    """
    return rng.permutation(events)


def temporal(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """The most recent first; of equal times, the later row.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Not used.
        rng: Not used.
    """
    return latest_first(graph, events)


def spatio_temporal(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """The nearest first, of equally near ones the most recent.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Not used.
        rng: Not used.
    """
    recent = latest_first(graph, events)
    return recent[np.argsort(distances(graph, query, recent), kind="stable")]


def flow(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """First the event through which most of what reaches the link passes; needs no evaluations.

    Followed backwards, one unit arrives at each node of the link. What arrives at a node is shared among its earlier
    candidates, by exp(-elapsed time / mean elapsed time of all candidates); a share `ONWARD` of what passes through an
    event goes on to its other node, and is shared there in the same way. The score of an event is all that passes
    through it. So of two equally near and recent events, the one whose node has fewer others counts more.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Not used.
        rng: Not used.
    """
    recent = latest_first(graph, events)
    ends, times = np.stack([graph.src[recent], graph.dst[recent]]), graph.time[recent]  # [2, m], [m]
    scale = float(np.mean(query.time - times)) if len(recent) else 0.0
    passing = np.zeros(ends.shape)  # [2, m] what comes to each candidate through its source, and its destination

    def share_out(amount: float, node: int, since: float, first: int) -> None:
        """Share what arrives at a node among its candidates from place `first` on, which are earlier."""
        elapsed = np.maximum(since - times[first:], 0.0)
        weight = (ends[:, first:] == node) * np.exp(-elapsed / (scale or 1.0))  # [2, m - first]
        if weight.any():
            passing[:, first:] += amount * weight / weight.sum()

    for node in (query.src, query.dst):
        share_out(1.0, node, query.time, 0)
    for place in range(len(recent)):
        for side in (0, 1):
            share_out(ONWARD * passing[side, place], ends[1 - side, place], times[place], place + 1)
    return recent[np.argsort(-np.round(passing.sum(axis=0), 9), kind="stable")]


def event_impact(graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: Rng) -> IntArray:
    """First the event whose change alone moves the logit furthest towards a flip. Takes one evaluation for each.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        oracle: Scores each event alone.
        rng: Not used.
    """
    if oracle.evaluations is not None and oracle.evaluations <= len(events):
        budget = f"a budget of {oracle.evaluations} evaluations is too small, it must be at least {len(events) + 1}"
        raise CallError(f"event-impact evaluates each of {len(events)} candidates: {budget}")
    recent = latest_first(graph, events)
    original, *without = oracle.ask([frozenset(), *(frozenset({row}) for row in recent.tolist())])
    return recent[np.argsort([-shift(original, logit) for logit in without], kind="stable")]
