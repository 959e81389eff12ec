"""What one node could do itself: of everything that is proposed, the edits of events that start at it."""

from __future__ import annotations

from functools import partial

from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.edits import Add, Alter, Move
from cody.search.proposals import AnyTime, Proposal, Proposer


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
