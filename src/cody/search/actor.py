"""What one node could do itself: of everything that is proposed, the edits of events that start at it.

And what it could still do: events that it could add from one moment on, until the time of the link.
"""

from __future__ import annotations

from functools import partial

from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.edits import Add, Alter, Move
from cody.search.proposals import (
    PAIRS,
    AnyTime,
    Pair,
    Proposal,
    Proposer,
    each_at_times,
    is_plausible,
    partners_of,
    plausible_pairs,
    tidy_time,
)

MOST_TIMES = 16  # at which each pair is proposed


def done_by(actor: int, propose: Proposer) -> Proposer:
    """A function that proposes what this one does, as far as the actor could do it: leave out or send its own events.

    Args:
        actor: A node.
        propose: Such as `cody.search.proposals.removals`.

    >>> from cody.search.proposals import removals
    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0, 2], dst=[1, 2, 2, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> import numpy as np
    >>> done_by(0, removals)(graph, graph.query(3), np.array([0, 1, 2]), 3)
    [0, 2]
    """
    return partial(by_actor, actor=actor, propose=propose)


def by_actor(
    graph: TemporalGraph, query: Query, rows: IntArray, room: int, *, actor: int, propose: Proposer
) -> list[Proposal]:
    """Those of the proposals that the actor could carry out."""
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
    """Events from the actor to nodes near the link, at times spread between `since` and the link: the soonest first."""
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
