"""The search space: the changes that an explanation considers, and the log that they live on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph, whole_number
from cody.graph.edits import NOTHING, Add, Alter, Edit, Move
from cody.graph.protected import Protected
from cody.search.options import describe
from cody.search.proposals import AnyTime, Proposal, Proposer

IMAGINED = (Add, Move, Alter, AnyTime)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The rows that may change, on a log that is longer by the events that were proposed."""

    graph: TemporalGraph
    rows: IntArray  # real ones that may be removed, and imagined ones, in the order of time
    edits: tuple[Edit, ...]  # the imagined events
    intrusion: dict[int, tuple[int, int]]  # row → which function proposed it, and at which place
    at_any_time: frozenset[int]  # imagined rows that may also be at other times

    def ignoring_time(self, row: int) -> Hashable:
        """The same for rows that differ in time or features only: the two nodes, or the event that is replaced."""
        if row < self.graph.num_events or self.graph.imagined is None:
            return row
        replaced = int(self.graph.imagined.replaces[row - self.graph.num_events])
        return (int(self.graph.src[row]), int(self.graph.dst[row])) if replaced == NOTHING else ("other", replaced)


def build_space(
    graph: TemporalGraph,
    query: Query,
    rows: IntArray,
    size: int,
    edits: Sequence[Proposer],
    protect: Protected | None = None,
) -> SearchSpace:
    """Everything that the proposers propose, those of the first one the least intrusive.

    Args:
        graph: The log.
        query: The link.
        rows: Past events near the link.
        size: Number of events that may be imagined at most.
        edits: Functions that propose changes, the least intrusive first.
        protect: Events that may not be changed, whatever is proposed.
    """
    intrusion: dict[int, tuple[int, int]] = {}
    imagined: list[Edit | AnyTime] = []
    for number, propose in enumerate(edits):
        removed, new = _proposed(propose, graph, query, rows, size - len(imagined), protect)
        intrusion |= dict.fromkeys(removed, (number, 0))
        first = graph.num_events + len(imagined)
        intrusion |= {first + place: (number, place) for place in range(len(new))}
        imagined += new
    at_any_time = (graph.num_events + place for place, edit in enumerate(imagined) if isinstance(edit, AnyTime))
    events = tuple(edit.edit if isinstance(edit, AnyTime) else edit for edit in imagined)
    longer = graph.imagine(events) if events else graph
    _check_visible(longer, query, events)
    known = np.array(list(intrusion), dtype=np.int64)
    return SearchSpace(longer, longer.in_time_order(known), events, intrusion, frozenset(at_any_time))


class Proposed(NamedTuple):
    """What one function proposes."""

    removed: list[int]
    imagined: list[Edit | AnyTime]


def _proposed(
    propose: Proposer, graph: TemporalGraph, query: Query, rows: IntArray, room: int, protect: Protected | None
) -> Proposed:
    """What a function proposes, without changes of protected events; invalid proposals are rejected."""
    allowed = [edit for edit in propose(graph, query, rows, room) if not _is_protected(graph, edit, protect)]
    imagined = [edit for edit in allowed if isinstance(edit, IMAGINED)]
    if len(imagined) > room:
        raise CallError(
            f"{describe(propose)['name']} proposes {len(imagined)} edits, and there is room for {room}: "
            "propose fewer, or allow more candidates"
        )
    return Proposed([_past(query, rows, row) for row in allowed if not isinstance(row, IMAGINED)], imagined)


def _check_visible(graph: TemporalGraph, query: Query, edits: Sequence[Edit]) -> None:
    """Reject imagined events that do not lie before the link."""
    visible = set(graph.imagined_before(query).tolist()) if edits else set()
    for row, edit in enumerate(edits, start=graph.num_events):
        if row not in visible:
            raise CallError(f"{edit!r:.80} was proposed, but it does not lie before the link")


def _is_protected(graph: TemporalGraph, edit: Proposal, protect: Protected | None) -> bool:
    """Whether an edit would change a protected event. Adding an event changes none."""
    edit = edit.edit if isinstance(edit, AnyTime) else edit
    row = edit.row if isinstance(edit, Move | Alter) else edit
    if protect is None or not isinstance(row, int) or not 0 <= row < graph.num_events:
        return False
    return bool(protect.mask(graph, np.array([row]))[0])


def _past(query: Query, rows: IntArray, row: Any) -> int:
    """The row of a past event that is proposed to be removed. Rows near the link may be imagined by the user."""
    number = whole_number("a proposal is Add(…), Move(…), Alter(…) or the row of an event to remove, and that", row)
    if not 0 <= number < query.before and number not in rows:
        raise CallError(f"it was proposed to remove event {number}, which does not lie before the link")
    return number
