"""How far links lie from events: over how many others, whatever their order in time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cody.graph.columns import IntArray
from cody.graph.log import Query, TemporalGraph

FURTHEST = 12  # hops that are counted
NEVER = np.iinfo(np.int64).max
NOT_CONNECTED = -1


def hops_from(graph: TemporalGraph, rows: IntArray, links: Sequence[Query]) -> IntArray:
    """How many events lie between each link and the nearest of some events, as the link sees the log. [n]

    0: it shares a node with one of them. -1: nothing that happened before the link connects it with an earlier one of
    them, or more than 12 events do. Only the rows themselves are needed in the order of time; the events between may
    be older: a model that attends to a neighbour sees what has become of it since.

    Args:
        graph: The log.
        rows: The events.
        links: The links.

    >>> graph = TemporalGraph.from_arrays(src=[0, 2, 3, 5], dst=[1, 1, 2, 6], time=[1.0, 2.0, 3.0, 4.0])
    >>> hops_from(graph, np.array([0]), [graph.query(row) for row in (1, 2, 3)])
    array([ 0,  1, -1])
    """
    src, dst = graph.src[: graph.num_events], graph.dst[: graph.num_events]
    first = np.full(graph.num_nodes, NEVER)  # [nodes] the first row at which a node is within that many hops
    for ends in (src[rows], dst[rows]):
        np.minimum.at(first, ends, rows)
    sources, targets, before = (np.array([link[field] for link in links], dtype=np.int64) for field in (0, 1, 3))
    hops = np.full(len(links), NOT_CONNECTED)
    every = np.arange(graph.num_events)
    for hop in range(FURTHEST + 1):
        near = (hops == NOT_CONNECTED) & (np.minimum(first[sources], first[targets]) < before)
        hops[near] = hop
        further = first.copy()
        np.minimum.at(further, src, np.maximum(every, first[dst]))
        np.minimum.at(further, dst, np.maximum(every, first[src]))
        if (hops >= 0).all() or np.array_equal(further, first):
            break
        first = further
    return hops
