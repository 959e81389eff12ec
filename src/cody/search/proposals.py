"""Proposers: the edits of the history that an explanation considers.

A proposer is given the past events near a link, and returns the edits that are worth evaluating, the least intrusive
first. `removals` are the paper's. `additions` and `moves` propose events that could have happened: between nodes near
the link, in roles that they had before, at times at which events happened there. `alterations` propose other features
for past events. To allow a fixed list of events only, write a function:

    def mine(graph, query, rows, room):
        return [Add("1395", "1772", "2004-07-28 03:54")]

    explain(model, graph, query, edits=(removals, mine))

Its edits are taken as they are. Those that are wrapped in `AnyTime` may also be at another time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph, sorted_unique
from cody.graph.edits import Add, Alter, Edit, Move
from cody.utils.words import is_date


class AnyTime(NamedTuple):
    """An event that may be added or moved to any time, not only this one: the answer has the least intrusive time."""

    edit: Add | Move


Proposal = int | Edit | AnyTime  # the row of a past event to remove, or an event that could have happened
Proposer = Callable[[TemporalGraph, Query, IntArray, int], Sequence[Proposal]]
# (graph, query, rows near the link that may be touched, how many edits there is room for) → least intrusive first

AGES = (0.02, 0.3, 0.9)  # how long ago: shares of the events near the link that are more recent
# Times as recent as the latest of these, as long ago as the oldest: few events have that much effect.
SOONER, LONGER = 16, 4
PARTNERS = 4  # of each end, the most recent ones
PAIRS = 10  # of nodes that events are proposed between
MOVED = 8  # events that are proposed to be moved
ALTERED = 8  # events of each end that are proposed to have other features
VALUES = 4  # other features of each
RECENT = 64  # events of a node that are looked at for its partners
HORIZON = 2_000  # events before the link; nothing older is proposed, unless events near the link are older
MINUTE = 60.0  # seconds

Pair = tuple[int, int]  # source and destination


def removals(graph: TemporalGraph, query: Query, rows: IntArray, room: int) -> list[Proposal]:
    """Each of the past events near the link may be removed.

    Args:
        graph: The log.
        query: The link.
        rows: Past events near the link that may be changed.
        room: Not used.
    """
    return list(rows.tolist())


def additions(graph: TemporalGraph, query: Query, rows: IntArray, room: int) -> list[Proposal]:
    """Contacts of the two ends, of an end with partners of the other, and with its own: the oldest and usual first.

    Args:
        graph: The log.
        query: The link.
        rows: Past events near the link; they give the times.
        room: Number of edits at most.
    """
    times = plausible_times(graph, query, rows)[:room]
    if not times:
        return []
    pairs = plausible_pairs(graph, query)[: min(PAIRS, room // len(times))]
    return [AnyTime(edit) for edit in each_at_times(graph, query, pairs, times)]


def each_at_times(graph: TemporalGraph, query: Query, pairs: Sequence[Pair], times: Iterable[float]) -> list[Add]:
    """An event between each of some pairs at each of some times, the oldest and usual first.

    Args:
        graph: The log.
        query: The link.
        pairs: Sources and destinations.
        times: When.
    """
    often = {pair: len(_rows_of(graph, query, pair)) for pair in pairs}
    features = {pair: features_of_pair(graph, query, pair) for pair in pairs}
    order = sorted((time, -often[pair], place) for time in times for place, pair in enumerate(pairs))
    chosen = ((pairs[place], time) for time, _, place in order)
    return [Add(graph.name(pair[0]), graph.name(pair[1]), time, features[pair]) for pair, time in chosen]


def moves(graph: TemporalGraph, query: Query, rows: IntArray, room: int) -> list[Proposal]:
    """The latest events of the two ends, earlier and later: the smallest shift first.

    Args:
        graph: The log.
        query: The link.
        rows: Past events near the link; they give the times.
        room: Number of edits at most.
    """
    times = plausible_times(graph, query, rows)
    targets = {times[0], times[min(len(AGES), len(times) - 1)]} if times else set()
    ends = [graph.history(end, query.before)[-MOVED:] for end in (query.src, query.dst)]
    own = sorted_unique(np.concatenate(ends))
    shifts = ((abs(time - float(graph.time[row])), row, time) for row in own[-MOVED:].tolist() for time in targets)
    return [AnyTime(Move(row, time)) for _, row, time in sorted(each for each in shifts if each[0])[:room]]


def alterations(graph: TemporalGraph, query: Query, rows: IntArray, room: int) -> list[Proposal]:
    """The latest events of the two ends, with features that other events had: the smallest change first.

    Features are taken as a whole, from the latest events before the link: of those that differ from an event's own,
    the nearest, the furthest, and some between.

    Args:
        graph: The log; its events must have features.
        query: The link.
        rows: Not used.
        room: Number of edits at most.

    >>> graph = TemporalGraph.from_arrays([0, 1, 0], [1, 0, 1], [1.0, 2.0, 3.0], features=[[-1.0], [5.0], [9.0]])
    >>> alterations(graph, graph.query(2), np.array([0, 1]), 9)
    [Alter(row=1, features=(-1.0,)), Alter(row=0, features=(5.0,))]
    """
    if graph.features is None:
        raise CallError("events of this graph have no features that could be altered")
    ends = [graph.history(end, query.before)[-ALTERED:] for end in (query.src, query.dst)]
    own = sorted_unique(np.concatenate(ends))[::-1][:room]
    if not len(own):
        return []
    recent = np.unique(graph.features[max(0, query.before - HORIZON) : query.before], axis=0)  # [V, F]
    scale = np.where(np.ptp(recent, axis=0) > 0, np.std(recent, axis=0), 1.0)
    changes: list[tuple[float, int, tuple[float, ...]]] = []
    for place, row in enumerate(own.tolist()):
        distance = np.linalg.norm((recent - graph.features[row]) / scale, axis=1)
        others = np.argsort(distance, kind="stable")[np.count_nonzero(distance == 0) :]
        some = _spread(others, min(VALUES, room // len(own)))
        changes += [(float(distance[other]), place, tuple(recent[other].tolist())) for other in some]
    return [Alter(int(own[place]), features) for _, place, features in sorted(changes)]


def _spread(values: IntArray, number: int) -> IntArray:
    """So many of some values, evenly spread, the first and the last among them; all, if there are fewer."""
    if len(values) <= number:
        return values
    return values[np.linspace(0, len(values) - 1, number).round().astype(np.int64)]


def plausible_times(graph: TemporalGraph, query: Query, rows: IntArray) -> list[float]:
    """A few times before the link, latest first: as long ago as events near the link are.

    Args:
        graph: The log.
        query: The link.
        rows: Past events near the link.
    """
    recent = query.before - HORIZON
    own = [rows[rows >= recent] for rows in (graph.history(end, query.before) for end in (query.src, query.dst))]
    earlier = np.arange(np.searchsorted(graph.time[: query.before], query.time))[-RECENT:]
    for near in (rows, np.concatenate(own), earlier):  # where all of them have the timestamp of the link, look further
        ages = query.time - graph.time[near]
        ages = ages[ages > 0]
        if len(ages):
            break
    else:
        return []
    some = np.quantile(ages, AGES, method="lower").tolist()
    times = [query.time - age for age in (some[0] / SOONER, *some)]
    older = query.time - LONGER * some[-1]
    times += [older] if older >= horizon(graph, query) else []
    return sorted({tidy_time(time, query) for time in times}, reverse=True)


def horizon(graph: TemporalGraph, query: Query) -> float:
    """The earliest time that is proposed: recomputing a memory takes longer the older the change is."""
    return float(graph.time[max(0, query.before - HORIZON)])


def tidy_time(time: float, query: Query) -> float:
    """A time before the link, rounded to whole minutes, or to three digits of how long ago it is.

    >>> tidy_time(1_090_991_265.5, Query(0, 1, 1_090_991_999.0, 9)), tidy_time(97.12345, Query(0, 1, 100.0, 9))
    (1090991220.0, 97.12)
    """
    digits = 2 - math.floor(math.log10(query.time - time)) if time < query.time else 3
    step = MINUTE if is_date(query.time) else 10.0**-digits
    whole = math.floor(time / step)
    if whole * step >= query.time:
        whole -= 1
    return round(whole * step, max(0, digits))


def plausible_pairs(graph: TemporalGraph, query: Query) -> list[Pair]:
    """Pairs of nodes between which an event is plausible: the two ends first, then an end and a node near it.

    A source must have been a source before, a destination a destination: where users edit pages, no page edits a user.
    """
    ends = (query.src, query.dst), (query.dst, query.src)
    groups: list[list[Pair]] = [[ends[0]], [ends[1]]]
    for end, other in ends:
        ring = partners_of(graph, query, other)
        near = _pairs(graph, query, end, ring)
        if not near:  # where the two ends are of different kinds, the partners of partners are of the right one
            beyond = chain.from_iterable(partners_of(graph, query, node) for node in ring)
            near = _pairs(graph, query, end, dict.fromkeys(beyond))
        groups += [near, _pairs(graph, query, end, partners_of(graph, query, end))]
    turns = chain.from_iterable(zip_longest(*groups))
    return [pair for pair in dict.fromkeys(turns) if pair is not None and is_plausible(graph, query, pair)]


def partners_of(graph: TemporalGraph, query: Query, node: int) -> list[int]:
    """The other nodes of the latest events of a node, the most recent first.

    Args:
        graph: The log.
        query: The link.
        node: The node.
    """
    rows = graph.history(node, query.before)[-RECENT:][::-1]
    others = dict.fromkeys(graph.other_end(rows, node).tolist())
    return [other for other in others if other != node][:PARTNERS]


def _pairs(graph: TemporalGraph, query: Query, end: int, others: Iterable[int]) -> list[Pair]:
    """Plausible pairs of an end and some nodes, in either direction."""
    both = ((end, other) if first else (other, end) for other in others if other != end for first in (True, False))
    return [pair for pair in both if is_plausible(graph, query, pair)][: 2 * PARTNERS]


def is_plausible(graph: TemporalGraph, query: Query, pair: Pair) -> bool:
    """Whether the source of a pair has been a source, and its destination a destination, before the link.

    Args:
        graph: The log.
        query: The link.
        pair: Two nodes.
    """
    src, dst = pair
    if pair == (query.src, query.dst):
        return True
    sent = src == query.src or bool((graph.src[graph.history(src, query.before)] == src).any())
    received = dst == query.dst or bool((graph.dst[graph.history(dst, query.before)] == dst).any())
    return src != dst and sent and received


def _rows_of(graph: TemporalGraph, query: Query, pair: Pair) -> IntArray:
    """The past events from one node to another."""
    rows = graph.history(pair[0], query.before)
    return rows[(graph.src[rows] == pair[0]) & (graph.dst[rows] == pair[1])]


def features_of_pair(graph: TemporalGraph, query: Query, pair: Pair) -> tuple[float, ...] | None:
    """The features of the last event of that pair, else of its source, else of its destination.

    Args:
        graph: The log.
        query: The link.
        pair: Two nodes.
    """
    if graph.features is None:
        return None
    src, dst = pair
    histories = _rows_of(graph, query, pair), graph.history(src, query.before), graph.history(dst, query.before)
    latest = next((int(rows[-1]) for rows in histories if len(rows)), None)
    return None if latest is None else tuple(graph.features[latest].tolist())


def check_proposers(edits: Any) -> tuple[Proposer, ...]:
    """The proposers as a tuple; anything else is rejected."""
    functions = tuple(edits) if isinstance(edits, list | tuple) else (edits,)
    for function in functions:
        if not callable(function):
            what = "edits are functions that propose them, like those of cody.search.proposals"
            raise CallError(f"{what}, not {function!r:.60}")
    if not functions:
        raise CallError("edits must name at least one function that proposes some, for example removals")
    return functions


# What one node could do itself: of everything that is proposed, the edits of events that start at it. And what it could
# still do: events that it could add from one moment on, until the time of the link.

MOST_TIMES = 16  # at which each pair is proposed


def done_by(actor: int, propose: Proposer) -> Proposer:
    """A function that proposes what this one does, as far as the actor could do it: leave out or send its own events.

    Args:
        actor: A node.
        propose: Such as `cody.search.proposals.removals`.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0, 2], dst=[1, 2, 2, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> import numpy as np
    >>> done_by(0, removals)(graph, graph.query(3), np.array([0, 1, 2]), 3)
    [0, 2]
    """
    return partial(by_actor, actor=actor, propose=propose)


def by_actor(
    graph: TemporalGraph, query: Query, rows: IntArray, room: int, *, actor: int, propose: Proposer
) -> list[Proposal]:
    """Those of the proposals that the actor could carry out.

    Args:
        graph: The log.
        query: The link.
        rows: Past events near the link.
        room: Number of edits at most.
        actor: A node.
        propose: Such as `removals`.
    """
    return [each for each in propose(graph, query, rows, room) if _source(graph, each) == actor]


def _source(graph: TemporalGraph, proposal: Proposal) -> int:
    """The node at which an event starts."""
    edit = proposal.edit if isinstance(proposal, AnyTime) else proposal
    if isinstance(edit, Add):
        return graph.node(edit.src)
    return int(graph.src[edit.row if isinstance(edit, Move | Alter) else edit])


def from_now_on(actor: int, since: float) -> Proposer:
    """A function that proposes events which the actor could add after a time and before that of the link.

    Args:
        actor: A node.
        since: The time.

    >>> import numpy as np
    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[10.0, 20.0, 30.0])
    >>> [(edit.src, edit.dst, edit.time) for edit in from_now_on(0, 30.0)(graph, Query(0, 2, 40.0, 2), np.array([]), 4)]
    [('0', '1', 32.5), ('0', '2', 32.5), ('0', '1', 37.5), ('0', '2', 37.5)]
    """
    return partial(own_additions, actor=actor, since=since)


def own_additions(
    graph: TemporalGraph, query: Query, rows: IntArray, room: int, *, actor: int, since: float
) -> list[Proposal]:
    """Events from the actor to nodes near the link, at times spread between `since` and the link: the soonest first.

    Args:
        graph: The log.
        query: The link.
        rows: Not used.
        room: Number of edits at most.
        actor: A node.
        since: All events are later.
    """
    pairs = own_pairs(graph, query, actor)[: min(PAIRS, room)]
    times = times_between(since, query, room // len(pairs)) if pairs else []
    return [*each_at_times(graph, query, pairs, times)]


def own_pairs(graph: TemporalGraph, query: Query, actor: int) -> list[Pair]:
    """The actor with each end of the link, their partners and its own, where such an event is plausible.

    Args:
        graph: The log.
        query: The link.
        actor: The source of all these pairs.
    """
    near = [dst for src, dst in plausible_pairs(graph, query) if src == actor]
    partners = [other for node in (query.src, query.dst, actor) for other in partners_of(graph, query, node)]
    others = dict.fromkeys((query.dst, query.src, *near, *partners))
    return [(actor, other) for other in others if other != actor and is_plausible(graph, query, (actor, other))]


def times_between(since: float, query: Query, number: int) -> list[float]:
    """Times after one and before the link, evenly spread, the soonest first.

    Args:
        since: All times are later.
        query: The link.
        number: How many at most.
    """
    number = max(1, min(number, MOST_TIMES))
    span = query.time - since
    times = (since + span * (place + 0.5) / number for place in range(number))
    return sorted({tidy if (tidy := tidy_time(time, query)) > since else time for time in times})
