"""The past events near a query: what an explanation may remove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from cody.errors import CallError
from cody.graph.columns import BoolArray, FloatArray, IntArray, is_in, sorted_unique, whole_number
from cody.graph.log import Query, TemporalGraph, check_query
from cody.graph.protected import Protected
from cody.utils.signatures import readable_help

# (graph, query, hops, size) → at most `size` rows of past events, the most relevant first; fewer: there are no others
Near = Callable[[TemporalGraph, Query, int, int], IntArray]

# Sources and destinations of events → which of the events are wanted. [n], [n] → [n]
Wanted = Callable[[IntArray, IntArray], BoolArray]

SIZE = 64  # candidates of the paper
OWN, AROUND = 3, 1  # of four candidates, so many are events of the ends of the link, and of nodes that these have met

LONG_WALK = 200_000  # events; reading more of them takes more than a few milliseconds


def neighbourhood(graph: TemporalGraph, query: Query, hops: int) -> tuple[IntArray, IntArray]:
    """The nodes near the query's two nodes in the visible history, sorted, and their distances. [n], [n]

    Args:
        graph: The log of events.
        query: The link that is scored.
        hops: Neighbourhood radius in hops.
    """
    distance = _distances(graph, query, min(hops, graph.num_nodes))
    nodes = np.flatnonzero(distance >= 0)
    return nodes, distance[nodes].astype(np.int64)


def ends_first(graph: TemporalGraph, query: Query, hops: int, size: int) -> IntArray:
    """The latest events of the two end nodes, and the latest events of their neighbours in these.

    That is what a temporal model reads, nearest first: the last events of the two nodes, then the last events of their
    partners in those, and so on for as many hops as the model looks. In a busy graph, the latest events within two hops
    mostly involve unrelated nodes. Three out of four rows are events of the end nodes, as long as there are enough of
    both.

    Args:
        graph: The log of events.
        query: The link that is scored.
        hops: Neighbourhood radius in hops.
        size: Maximum number of events.

    >>> graph = TemporalGraph.from_arrays(src=[0, 3, 1, 3, 0], dst=[1, 4, 3, 2, 2], time=[1.0, 2.0, 3.0, 4.0, 5.0])
    >>> link = Query(src=0, dst=1, time=6.0, before=5)
    >>> ends_first(graph, link, 2, 3), ends_first(graph, link, 2, 9)
    (array([4, 2, 3]), array([4, 2, 3, 0, 1]))
    """
    own = by_turns([graph.history(node, query.before)[: -size - 1 : -1] for node in (query.src, query.dst)])
    around = _around(graph, query, hops, own[: max(1, size * OWN // (OWN + AROUND))], size)
    if len(own) + len(around) < size:  # then the nodes that all of them lead to
        around = _around(graph, query, hops, own, size)
    place = np.concatenate([_turns(len(own), OWN), _turns(len(around), AROUND)])
    return np.concatenate([own, around])[np.argsort(place, kind="stable")][:size]


def by_turns(lists: Sequence[IntArray]) -> IntArray:
    """The first row of each list, then the second of each, …; each row once."""
    place = np.concatenate([np.arange(len(rows)) for rows in lists])
    rows = np.concatenate(lists)[np.argsort(place, kind="stable")]
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)]


def _turns(count: int, share: int) -> FloatArray:
    """When it is the turn of each of `count` things of which `share` come at a time. [count]"""
    return (np.arange(count) + 0.5) / share


def _around(graph: TemporalGraph, query: Query, hops: int, own: IntArray, size: int) -> IntArray:
    """The `size` latest other events of nodes that these events lead to, nearer nodes first; the latest first."""
    inside = np.zeros(graph.num_nodes, dtype=bool)
    rows = known = own
    for _ in range(1, hops):
        if len(known) - len(own) >= size:
            break
        inside[graph.src[rows]] = inside[graph.dst[rows]] = True
        inside[[query.src, query.dst]] = False
        most, nodes = size + len(known), np.flatnonzero(inside)
        rows = _latest(graph, 0, query.before, most, lambda src, dst: inside[src] | inside[dst], nodes)[::-1]
        known = np.concatenate([known, rows[~is_in(rows, known)]])
    return known[len(own) :]


def near_all(near: Near, others: Sequence[int]) -> Near:
    """What a function finds near a link and near those from its source to other destinations, by turns.

    Args:
        near: Finds events near one link.
        others: The other destinations.
    """
    if not others:
        return near

    @wraps(near)
    def near_each(graph: TemporalGraph, query: Query, hops: int, size: int) -> IntArray:
        links = [query, *(query._replace(dst=other) for other in others)]
        return by_turns([np.asarray(near(graph, link, hops, size)) for link in links])[:size]

    return near_each


def events_on_paths(graph: TemporalGraph, query: Query, hops: int, size: int) -> IntArray:
    """Events on a path of at most `hops` edges from the query's nodes, the latest first: the paper's text.

    Args:
        graph: The log of events.
        query: The link that is scored.
        hops: Neighbourhood radius in hops.
        size: Maximum number of events.
    """
    return _touching(graph, query, _distances(graph, query, hops - 1) >= 0, size)[::-1]


def events_among_nodes(graph: TemporalGraph, query: Query, hops: int, size: int) -> IntArray:
    """Events between nodes within `hops` of the query's nodes, the latest first: the published tables.

    Args:
        graph: The log of events.
        query: The link that is scored.
        hops: Neighbourhood radius in hops.
        size: Maximum number of events.
    """
    distance = _distances(graph, query, hops - 1)
    # Events that touch a node within hops - 1 are among the nodes too, so nothing older is among the latest.
    start = _oldest_of_latest(_touching(graph, query, distance >= 0, size), size)
    rim = np.flatnonzero(distance == hops - 1)
    last_hop = int((graph.offsets[rim + 1] - graph.offsets[rim]).sum())
    if last_hop > LONG_WALK:
        # The last hop of a dense neighbourhood is long, but recent events often suffice: try without walking all of it.
        tried = max(start, query.before - last_hop // 64)
        found = _latest(graph, tried, query.before, size, _lazily_within_one_more_hop(graph, query, distance >= 0))
        if len(found) == size or tried == start:
            return found[::-1]
    _step(graph, query, distance, hops)
    inside = distance >= 0
    nodes = np.flatnonzero(inside)
    return _latest(graph, start, query.before, size, lambda src, dst: inside[src] & inside[dst], nodes)[::-1]


@readable_help
def candidates(
    graph: TemporalGraph,
    query: Query,
    hops: int = 2,
    size: int = SIZE,
    *,
    near: Near = ends_first,
    protect: Protected | None = None,
) -> IntArray:
    """Rows of the events that an explanation may remove, in the order of time.

    Args:
        graph: the log.
        query: the link.
        hops: how many events away from the link to look.
        size: how many events at most.
        near: which ones: `ends_first`, or the two readings of the paper, `events_on_paths` and `events_among_nodes`.
        protect: events that may not be removed; others take their places.

    Imagined rows that the query would see are always included.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 3, 0], dst=[1, 2, 4, 2], time=[1.0, 2.0, 3.0, 4.0])
    >>> candidates(graph, graph.query(3))
    array([0, 1])
    """
    hops, size = whole_number("hops", hops), whole_number("size", size)
    if hops < 1 or size < 1:
        raise CallError(f"hops and size must be at least 1, not {hops} and {size}")
    check_query(graph, query)
    hops = min(hops, graph.num_nodes)  # no path is longer than that
    real = np.sort(nearest(graph, query, hops, size, near, protect and protect.at(query)))
    return graph.in_time_order(np.concatenate([real, graph.imagined_before(query)]))


def nearest(
    graph: TemporalGraph, query: Query, hops: int, size: int, near: Near, protect: Protected | None
) -> IntArray:
    """The most relevant real events that may be removed, the most relevant first; fewer than `size`: no others.

    Args:
        graph: The log.
        query: The link.
        hops: How many events away from the link to look.
        size: How many events at most.
        near: Which ones.
        protect: Events that may not be removed, as of this link.
    """
    count = size
    while True:  # further away, until enough of them may be removed
        found = _rows_of_the_past(near(graph, query, hops, count), query, near)
        free = found if protect is None else found[~protect.mask(graph, found)]
        if len(free) >= size or len(found) < count:
            return free[:size]
        count *= 4


def _rows_of_the_past(found: Any, query: Query, near: Near) -> IntArray:
    """What a function has found near a link, if that is what it should be."""
    rows = np.asarray(found)
    if not rows.size:
        return np.zeros(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= query.before:
        name = getattr(near, "__name__", type(near).__name__)
        last = query.before - 1
        raise CallError(f"near must give rows of past events, here 0 to {last}; {name} gave {found!r:.60}")
    return rows


def groups(graph: TemporalGraph, rows: IntArray, *, most: int = 16) -> list[frozenset[int]]:
    """Rows that belong together, with the same two nodes or the same time; groups with the latest events first.

    Args:
        graph: The log of events.
        rows: Candidate rows.
        most: Maximum number of groups.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 3, 0], dst=[1, 0, 4, 2], time=[1.0, 2.0, 3.0, 3.0])
    >>> groups(graph, np.arange(4)) == [{2, 3}, {0, 1}]
    True
    """
    together: dict[Any, list[int]] = {}
    for row in graph.in_time_order(rows)[::-1].tolist():
        ends = frozenset((int(graph.src[row]), int(graph.dst[row])))
        for what in (ends, float(graph.time[row])):
            together.setdefault(what, []).append(row)
    several = dict.fromkeys(frozenset(group) for group in together.values() if 1 < len(group) < len(rows))
    return list(several)[:most]


def distances(graph: TemporalGraph, query: Query, events: IntArray) -> IntArray:
    """Hops from the query to the nearer end of each event: 0 if it touches one of the query's nodes. [m] → [m]

    An event that no path of the visible past leads to has the number of nodes as its distance.

    Args:
        graph: The log of events.
        query: The link that is scored.
        events: Rows of the events.
    """
    distance = np.full(graph.num_nodes, -1, dtype=np.int32)
    distance[[query.src, query.dst]] = 0
    hop, ends = 0, np.stack([graph.src[events], graph.dst[events]])  # [2, m]
    while (distance[ends] < 0).all(axis=0).any():
        hop += 1
        if not _step(graph, query, distance, hop):
            break
    return np.where(distance[ends] < 0, graph.num_nodes, distance[ends]).min(axis=0)


def surroundings(
    graph: TemporalGraph, query: Query, events: IntArray, hops: int, size: int = 16
) -> tuple[IntArray, IntArray, IntArray]:
    """The nodes of some candidates and of the query, their distances, and the latest other events among them.

    Nothing older than the candidates is considered. Nodes beyond `hops` count as that far. [n], [n], [m]

    Args:
        graph: The log of events.
        query: The link that is scored.
        events: Candidate rows.
        hops: Neighbourhood radius in hops.
        size: Maximum number of other events.
    """
    nodes = sorted_unique(np.concatenate([[query.src, query.dst], graph.src[events], graph.dst[events]]))
    hops = min(hops, graph.num_nodes)
    distance = _distances(graph, query, hops - 1)[nodes].astype(np.int64)
    among = np.zeros(graph.num_nodes, dtype=bool)
    among[nodes] = True
    real = events[events < graph.num_events]
    start, most = int(real.min(initial=query.before)), size + len(real)
    latest = _latest(graph, start, query.before, most, lambda src, dst: among[src] & among[dst], nodes)
    return nodes, np.where(distance < 0, hops, distance), latest[~is_in(latest, real)][-size:]


def _distances(graph: TemporalGraph, query: Query, hops: int) -> IntArray:
    """Hops from the query's nodes in the visible past, for every node; -1 beyond `hops`. [N]"""
    distance = np.full(graph.num_nodes, -1, dtype=np.min_scalar_type(-hops - 2))  # a step beyond `hops` fits too
    distance[[query.src, query.dst]] = 0
    for hop in range(1, hops + 1):
        if not _step(graph, query, distance, hop):
            break
    return distance


def _step(graph: TemporalGraph, query: Query, distance: IntArray, hop: int) -> bool:
    """Extend `distance` in place from `hop` - 1 to `hop`. Returns whether there was anything to extend."""
    ring = np.flatnonzero(distance == hop - 1)
    if not ring.size:
        return False
    rows = graph.incidence[_ranges(graph.offsets[ring], graph.ends(ring, query.before))]
    for ends in (graph.src[rows], graph.dst[rows]):
        distance[ends[distance[ends] < 0]] = hop
    return True


def _touching(graph: TemporalGraph, query: Query, inside: BoolArray, size: int) -> IntArray:
    """The `size` latest visible rows with an end inside. The query's nodes are inside."""
    own = [graph.history(node, query.before)[-size:] for node in {query.src, query.dst}]
    start = _oldest_of_latest(sorted_unique(np.concatenate(own)), size)
    nodes = np.flatnonzero(inside)
    return _latest(graph, start, query.before, size, lambda src, dst: inside[src] | inside[dst], nodes)


def _oldest_of_latest(rows: IntArray, size: int) -> int:
    """A row before which nothing can be among the `size` latest, given that `rows` are eligible."""
    return int(rows[-size]) if len(rows) >= size else 0


def _latest(
    graph: TemporalGraph, start: int, stop: int, size: int, wanted: Wanted, nodes: IntArray | None = None
) -> IntArray:
    """The `size` latest rows in start … stop-1 whose two ends are `wanted`, ascending; reads no further than needed.

    If `nodes` are given, only their events can be wanted.
    """
    found, block = np.empty(0, dtype=np.int64), 4 * size
    while start < stop and len(found) < size:
        first = max(start, stop - block)
        if nodes is None or stop - first < 16 * len(nodes):
            rows: IntArray = np.arange(first, stop)
        else:  # looking up the events of each node is cheaper than reading each row
            rows = sorted_unique(graph.incidence[_ranges(graph.ends(nodes, first), graph.ends(nodes, stop))])
        rows = rows[wanted(graph.src[rows], graph.dst[rows])]
        found, stop, block = np.concatenate([rows, found]), first, 4 * block
    return found[-size:]


def _lazily_within_one_more_hop(graph: TemporalGraph, query: Query, inside: BoolArray) -> Wanted:
    """Whether both ends of an event are inside or one hop from it, worked out for the nodes that are looked up."""
    unknown, near, far = 0, 1, 2
    verdict = np.where(inside, np.int8(near), np.int8(unknown))

    def wanted(src: IntArray, dst: IntArray) -> BoolArray:
        ends = np.concatenate([src, dst])
        nodes = sorted_unique(ends[verdict[ends] == unknown])
        verdict[nodes] = np.where(_meets(graph, nodes, query.before, inside), near, far)
        return (verdict[src] == near) & (verdict[dst] == near)

    return wanted


def _meets(graph: TemporalGraph, nodes: IntArray, before: int, inside: BoolArray) -> BoolArray:
    """For each node outside, whether a visible event connects it to one inside. [n] → [n]"""
    found = np.zeros(len(nodes), dtype=bool)
    first, stop = graph.offsets[nodes], graph.ends(nodes, before)
    still, reach = np.flatnonzero(first < stop), 8
    while still.size:  # the latest events first: in a dense graph they settle nearly all nodes
        start = np.maximum(first[still], stop[still] - reach)
        rows = graph.incidence[_ranges(start, stop[still])]
        hits = inside[graph.src[rows]] | inside[graph.dst[rows]]
        lengths = stop[still] - start
        found[still] = np.logical_or.reduceat(hits, np.cumsum(lengths) - lengths)
        stop[still] = start
        still = still[~found[still] & (first[still] < start)]
        reach *= 8
    return found


def _ranges(starts: IntArray, ends: IntArray) -> IntArray:
    """The numbers start … end-1 of each pair, concatenated."""
    lengths = ends - starts
    shifts = np.repeat(ends - np.cumsum(lengths), lengths)
    return np.arange(lengths.sum()) + shifts


# How far links lie from events: over how many others, whatever their order in time.

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
