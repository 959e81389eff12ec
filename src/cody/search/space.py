"""The search space: the changes that an explanation considers, and the log that they live on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, whole_number
from cody.graph.dependants import RULES, WITHIN, Rule, dependants
from cody.graph.edits import NOTHING, Add, Alter, Edit, Move
from cody.graph.neighbourhood import Near, ends_first, nearest
from cody.graph.protected import Protected
from cody.graph.units import EVENT, KINDS, Label, Unit, UnitKind, day, named_kind, node, pair
from cody.models import contract
from cody.models.contract import Change, Model, Session
from cody.search.daily import DailyLimit
from cody.search.options import name_and_options
from cody.search.proposals import AnyTime, Proposal, Proposer
from cody.utils.words import is_date

IMAGINED = (Add, Move, Alter, AnyTime)
NO_UNITS: Mapping[int, Unit] = MappingProxyType({})
MOST_READ = 65_536  # nearest events that are looked at for units
MOST_EVENTS = 5_000  # of all candidate units together: what one evaluation may change, and what takes memory
FEWEST, OVERLAP = 3, 0.8  # events of an answer, and the share of it and a unit that both have, to be nearly that unit


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
        return self.in_units(contract.open_session(model, query, self.events))

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

    def may_change(edit: Proposal) -> bool:
        return (isinstance(edit, int) and edit in units) or not _is_protected(graph, edit, protect)

    intrusion: dict[int, tuple[int, int]] = {}
    imagined: list[Edit | AnyTime] = []
    for number, propose in enumerate(edits):
        room = size - len(imagined)
        allowed = [edit for edit in propose(graph, query, rows, room) if may_change(edit)]
        new = [edit for edit in allowed if isinstance(edit, IMAGINED)]
        if len(new) > room:
            name = name_and_options(propose)["name"]
            advice = "propose fewer, or allow more candidates"
            raise CallError(f"{name} proposes {len(new)} edits, and there is room for {room}: {advice}")
        removed = (_past(query, rows, row) for row in allowed if not isinstance(row, IMAGINED))
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
                logits += contract.as_floats(self.session.logits(batch))
                batch = []
            batch.append(events)
        return np.array(logits + contract.as_floats(self.session.logits(batch)), dtype=np.float64)

    @property
    def size(self) -> int:
        return contract.size_of(self.session)

    @property
    def weight(self) -> int:
        return contract.weight_of(self.session)

    @property
    def corrections(self) -> Mapping[Change, float]:
        """Answers that the session has corrected since, as sets of units."""
        corrected = contract.corrections_of(self.session)
        if not corrected:
            return {}
        return {units: corrected[events] for units in self.requested if (events := self.change(units)) in corrected}


# Which units are candidates: those of the nearest events, each with all its events before the link.


@dataclass(slots=True, eq=False)
class NearUnits:
    """The units near a link; each is known by the same row whatever the number of candidates."""

    graph: TemporalGraph
    query: Query  # the link, as the model sees it
    hops: int  # neighbourhood radius
    near: Near  # finds the nearest events
    protect: Protected | None  # events that may not be removed, as of this link: units are without them
    kind: UnitKind | None  # which events change together; None: each event is a unit of its own
    rule: Rule | None  # which events go along with others; None: none
    row_of: dict[Label, int] = field(default_factory=dict)  # by which each unit is known
    left_out: int = 0  # of the units that were wanted last, because all together would be too large

    def of_size(self, size: int) -> dict[int, Unit]:
        """At most `size` units, by the row that each is known by, the nearest first."""
        if self.kind is None:
            rows = nearest(self.graph, self.query, self.hops, size, self.near, self.protect)
            units = {row: Unit("", np.array([row])) for row in rows.tolist()}
        else:
            units = self._units(self.kind, size)
        return self._limited(units)

    def known_by(self, rows: Sequence[int]) -> dict[int, Unit]:
        """The units that rows stand for, where a user names rows; rows that stand for themselves are left out."""
        given = np.array([row for row in rows if row < self.query.before], dtype=np.int64)
        if self.kind is None:
            labelled = {row: Unit("", np.array([row])) for row in given.tolist()}
        else:
            labels = self.kind.labels(self.graph, self.query, given)
            pairs = [(row, label) for row, some in zip(given.tolist(), labels, strict=True) for label in some]
            if self.kind.anchors is not None:
                named = [label for _, label in pairs]
                anchors = dict(zip(named, self.kind.anchors(self.graph, self.query, self.hops, named), strict=True))
                pairs = [(row, label) for row, label in pairs if anchors[label] == row]
            made = self.kind.units(self.graph, self.query.before, [label for _, label in pairs])
            labelled = {row: unit for (row, _), unit in zip(pairs, made, strict=True)}
        free = {row: unit._replace(rows=self._unprotected(unit.rows)) for row, unit in labelled.items()}
        return {row: unit._replace(dependants=self._dependants(unit.rows.tolist())) for row, unit in free.items()}

    def _units(self, kind: UnitKind, size: int) -> dict[int, Unit]:
        labels = self._nearest_labels(kind, size)
        named = [(label, self.row_of[label]) for label in labels if label in self.row_of]
        made = kind.units(self.graph, self.query.before, [label for label, _ in named])
        free = (unit._replace(rows=self._unprotected(unit.rows)) for unit in made)
        return {row: unit for (_, row), unit in zip(named, free, strict=True) if len(unit.rows)}

    def _nearest_labels(self, kind: UnitKind, size: int) -> list[Label]:
        """The labels of the nearest events, the nearest first; what a unit is known by is noted in `row_of`."""
        count = size
        while True:
            rows = nearest(self.graph, self.query, self.hops, count, self.near, self.protect)
            labelled = kind.labels(self.graph, self.query, rows)
            labels = list(dict.fromkeys(chain.from_iterable(labelled)))
            if len(labels) >= size or len(rows) < count or count >= MOST_READ:
                break
            count *= 4
        labels = labels[:size]
        if kind.anchors is None:  # an event belongs to one unit, so the nearest one is that of no other
            for row, some in zip(rows.tolist(), labelled, strict=True):
                self.row_of |= {label: self.row_of.get(label, row) for label in some}
        else:
            anchors = zip(labels, kind.anchors(self.graph, self.query, self.hops, labels), strict=True)
            self.row_of |= {label: row for label, row in anchors if row is not None}
        return labels

    def _unprotected(self, rows: IntArray) -> IntArray:
        return rows if self.protect is None else rows[~self.protect.mask(self.graph, rows)]

    def _limited(self, units: dict[int, Unit]) -> dict[int, Unit]:
        """The nearest units with what goes along, as many as are not too large to be evaluated together."""
        chosen: dict[int, Unit] = {}
        events = self.left_out = 0
        for row, unit in units.items():
            complete = unit._replace(dependants=self._dependants(unit.rows.tolist()))
            events += len(complete.rows) + len(complete.dependants)
            if chosen and events > MOST_EVENTS:
                self.left_out = len(units) - len(chosen)
                break
            chosen[row] = complete
        return chosen

    def _dependants(self, rows: Iterable[int]) -> IntArray:
        if self.rule is None:
            return np.zeros(0, dtype=np.int64)
        return self._unprotected(dependants(self.graph, self.rule, rows, self.query.before))


def nearly_a_unit(graph: TemporalGraph, query: Query, rows: Sequence[int]) -> tuple[Unit, int] | None:
    """The conversation, node or day that a set of events nearly is, and how many of them it has; None: it is none.

    Most of the events belong to it, and they are most of its events.

    Args:
        graph: The log.
        query: The link.
        rows: The events.
    """
    real = np.array([row for row in rows if row < graph.num_events], dtype=np.int64)
    if len(real) < FEWEST or len(real) < len(rows):
        return None
    found: list[tuple[float, Unit, int]] = []
    # Seconds since a first event grow into dates.
    dated = is_date(float(graph.time[real].min())) and is_date(query.time)
    for kind in (pair, node, day) if dated else (pair, node):
        counted = Counter(chain.from_iterable(kind.labels(graph, query, real)))
        if not counted:
            continue
        label, shared = counted.most_common(1)[0]
        (unit,) = kind.units(graph, query.before, [label])
        found.append((shared / (len(real) + len(unit.rows) - shared), unit, shared))
    overlap, unit, shared = max(found, key=lambda each: each[0], default=(0.0, Unit("", real), 0))
    return (unit, shared) if overlap >= OVERLAP else None


def written_units(parameters: Mapping[str, Any], model: Model, graph: TemporalGraph, query: Query) -> NearUnits | None:
    """The units near a link that the settings of a document describe; None: they were made by a user's function.

    Args:
        parameters: The settings.
        model: The model that is explained.
        graph: The log of events.
        query: The link.
    """
    by, rule, settings = (parameters.get(name) or {} for name in ("by", "dependants", "candidates"))
    hops = settings.get("hops") or 1 if isinstance(settings, dict) else None
    if not isinstance(by, dict) or not isinstance(rule, dict) or not isinstance(hops, int) or hops < 1:
        raise CallError("its settings are not understood")
    if by.get("name", EVENT) not in KINDS or (rule and rule.get("name") not in RULES):
        return None
    kind = named_kind(by.get("name", EVENT), gap=by.get("gap"), ends=bool(by.get("ends")))
    chosen = RULES[rule["name"]](rule.get("within", WITHIN)) if rule else None
    protect = Protected.from_parameters(parameters.get("protect"))
    seen = contract.as_seen(model, graph, query)
    return NearUnits(graph, seen, hops, ends_first, protect and protect.at(query), kind, chosen)
