"""The search space: the changes that an explanation considers, and the log that they live on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, whole_number
from cody.graph.edits import NOTHING, Add, Alter, Edit, Move
from cody.graph.protected import Protected
from cody.graph.units import Unit
from cody.models.contract import Change, Model, Session, as_floats, corrections_of, open_session, size_of, weight_of
from cody.search.daily import DailyLimit
from cody.search.options import name_and_options
from cody.search.proposals import AnyTime, Proposal, Proposer

IMAGINED = (Add, Move, Alter, AnyTime)
NO_UNITS: Mapping[int, Unit] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The rows that may change, on a log that is longer by the events that were proposed.

    Where units of several events change together, each is known by one row of its own, and searches, policies, proofs
    and results handle that row only. `change` and `session` say what it stands for; nothing else does.
    """

    graph: TemporalGraph
    rows: IntArray  # real ones that may be removed, and imagined ones, in the order of time
    edits: tuple[Edit, ...]  # the imagined events
    intrusion: dict[int, tuple[int, int]]  # row → which function proposed it, and at which place
    at_any_time: frozenset[int]  # imagined rows that may also be at other times
    units: Mapping[int, Unit]  # row → the events that it stands for; a row that is not here stands for itself
    members: Mapping[int, Change]  # the same as sets
    left_out: int = 0  # near units that are no candidates because all together would have too many events
    limit: DailyLimit | None = None  # how many may change on a day; None: all of them

    def change(self, rows: Iterable[int]) -> Change:
        """The events that change where these rows do: themselves, or all events of their units."""
        if not self.members:
            return frozenset(rows)
        return frozenset().union(*(self.members.get(row, (row,)) for row in rows))

    @property
    def events(self) -> list[int]:
        """All rows of the log that may change."""
        return sorted(self.change(self.rows.tolist())) if self.members else self.rows.tolist()

    def session(self, model: Model, query: Query) -> Session:
        """A session of a model about sets of rows of this space."""
        return self.in_units(open_session(model, query, self.events))

    def in_units(self, session: Session) -> Session:
        """A session about sets of rows of this space, from one about sets of events."""
        return UnitSession(session, self.change) if self.members else session

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
    units: Mapping[int, Unit] = NO_UNITS,
) -> SearchSpace:
    """Everything that the proposers propose, those of the first one the least intrusive.

    Args:
        graph: The log.
        query: The link.
        rows: Past events near the link.
        size: Number of events that may be imagined at most.
        edits: Functions that propose changes, the least intrusive first.
        protect: Events that may not be changed, whatever is proposed.
        units: What some of the rows stand for; they have no protected events.
    """
    intrusion: dict[int, tuple[int, int]] = {}
    imagined: list[Edit | AnyTime] = []
    for number, propose in enumerate(edits):
        removed, new = _proposed(propose, graph, query, rows, size - len(imagined), protect, units)
        intrusion |= dict.fromkeys(removed, (number, 0))
        first = graph.num_events + len(imagined)
        intrusion |= {first + place: (number, place) for place in range(len(new))}
        imagined += new
    at_any_time = (graph.num_events + place for place, edit in enumerate(imagined) if isinstance(edit, AnyTime))
    events = tuple(edit.edit if isinstance(edit, AnyTime) else edit for edit in imagined)
    longer = graph.imagine(events, query=query) if events else graph
    _check_visible(longer, query, events)
    known = np.array(list(intrusion), dtype=np.int64)
    units = {row: unit for row, unit in units.items() if row in intrusion}
    members = {row: unit.change for row, unit in units.items()}
    return SearchSpace(longer, longer.in_time_order(known), events, intrusion, frozenset(at_any_time), units, members)


class Proposed(NamedTuple):
    """What one function proposes."""

    removed: list[int]
    imagined: list[Edit | AnyTime]


def _proposed(
    propose: Proposer,
    graph: TemporalGraph,
    query: Query,
    rows: IntArray,
    room: int,
    protect: Protected | None,
    units: Mapping[int, Unit],
) -> Proposed:
    """What a function proposes, without changes of protected events; invalid proposals are rejected."""
    proposed = propose(graph, query, rows, room)
    allowed = [
        edit
        for edit in proposed
        if (isinstance(edit, int) and edit in units) or not _is_protected(graph, edit, protect)
    ]
    imagined = [edit for edit in allowed if isinstance(edit, IMAGINED)]
    if len(imagined) > room:
        raise CallError(
            f"{name_and_options(propose)['name']} proposes {len(imagined)} edits, and there is room for {room}: "
            "propose fewer, or allow more candidates"
        )
    return Proposed([_past(query, rows, row) for row in allowed if not isinstance(row, IMAGINED)], imagined)


def _check_visible(graph: TemporalGraph, query: Query, edits: Sequence[Edit]) -> None:
    """Reject imagined events that do not lie before the link."""
    visible = set(graph.imagined_before(query).tolist()) if edits else set()
    for row, edit in enumerate(edits, start=graph.num_events):
        if row not in visible:
            raise CallError(f"{edit!r:.80} was proposed, but it does not lie before the prediction")


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
        raise CallError(f"it was proposed to remove event {number}, which does not lie before the prediction")
    return number


# A session about sets of units, on top of one about sets of events.

EVENTS_AT_ONCE = 500_000  # of all sets of a batch: sets of thousands of events take memory


class UnitSession:
    """Evaluates sets of units: the only place where a search's rows become the events that they stand for.

    Args:
        session: About sets of events.
        change: Gives the events of a set of units.
    """

    def __init__(self, session: Session, change: Callable[[Iterable[int]], Change]) -> None:
        self.session, self.change = session, change
        self.requested: dict[Change, None] = {}

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each set of units. [B]"""
        self.requested |= dict.fromkeys(changes)
        logits: list[float] = []
        batch: list[Change] = []
        for change in changes:
            events = self.change(change)
            if batch and sum(map(len, batch)) + len(events) > EVENTS_AT_ONCE:
                logits += as_floats(self.session.logits(batch))
                batch = []
            batch.append(events)
        return np.array(logits + as_floats(self.session.logits(batch)), dtype=np.float64)

    @property
    def size(self) -> int:
        return size_of(self.session)

    @property
    def weight(self) -> int:
        return weight_of(self.session)

    @property
    def corrections(self) -> Mapping[Change, float]:
        """Answers that the session has corrected since, as sets of units."""
        corrected = corrections_of(self.session)
        if not corrected:
            return {}
        return {units: corrected[events] for units in self.requested if (events := self.change(units)) in corrected}
