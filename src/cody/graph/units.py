"""Units: events that change together. A conversation, everything of a node, a day, an hour, a session.

A kind of unit says to which units an event belongs, and which events a unit has. `pair`, `node`, `day`, `hour` and
`session()` are such kinds; `labelled_by` makes one of a user's function.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph.columns import FloatArray, IntArray
from cody.graph.log import Query, TemporalGraph
from cody.graph.neighbourhood import neighbourhood
from cody.utils.words import from_to, is_date, moment, parse_duration, sanitize, zone

TALKS = ("message", "mail", "email", "comment", "post", "letter", "call")  # events that make up a conversation
GAP = 3600.0  # seconds without an event that end a session, where times are dates

Label = Hashable  # identifies a unit of one kind
NONE: IntArray = np.zeros(0, dtype=np.int64)


class Unit(NamedTuple):
    """Events that change together."""

    name: str  # in words: "conversation 1866 ↔ 447"
    rows: IntArray  # ascending
    dependants: IntArray = NONE  # events that go along by a rule (`cody.graph.dependants`)

    @property
    def change(self) -> frozenset[int]:
        """All events that change with it."""
        return frozenset(self.rows.tolist() + self.dependants.tolist())


@dataclass(frozen=True, slots=True)
class UnitKind:
    """A way to put events together."""

    name: str
    labels: Callable[[TemporalGraph, Query, IntArray], list[tuple[Label, ...]]]  # the units that each row belongs to
    rows: Callable[[TemporalGraph, int, Sequence[Label]], list[IntArray]]  # all rows below a number, for each label
    words: Callable[[TemporalGraph, Label], str]  # the name of a unit, without the noun
    thing: str  # what one such unit is called
    find: Callable[[TemporalGraph, str], Label] | None = None  # the label that a user's text means; None: not by text
    # See `node_anchors`.
    anchors: Callable[[TemporalGraph, Query, int, Sequence[Label]], list[int | None]] | None = None
    options: tuple[tuple[str, Any], ...] = ()  # what it was given, for documents
    talk: str = ""  # what such a unit is called where events make up a conversation

    def noun(self, graph: TemporalGraph) -> str:
        """What one such unit is called."""
        return self.talk if self.talk and graph.name_of_event() in TALKS else self.thing

    def units(self, graph: TemporalGraph, before: int, labels: Sequence[Label]) -> list[Unit]:
        """The units of these labels, with all their events before a row.

        Args:
            graph: The log.
            before: Only rows below it count.
            labels: The units.
        """
        rows, noun = self.rows(graph, before, labels), self.noun(graph)
        return [Unit(f"{noun} {self.words(graph, label)}", some) for label, some in zip(labels, rows, strict=True)]

    def as_parameters(self) -> dict[str, Any]:
        """As plain data, for documents."""
        return {"name": self.name, **dict(self.options)}


def find_unit(graph: TemporalGraph, kind: UnitKind, text: str) -> Unit:
    """The unit that a user names, with all its events of the log; an error if there are none.

    Args:
        graph: The log.
        kind: Such as `pair`.
        text: Such as "1866 447".

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 3, 0], dst=[1, 0, 4, 2], time=[1.0, 2.0, 3.0, 4.0])
    >>> find_unit(graph, pair, "1 0")[:2]
    ('pair 0 ↔ 1', array([0, 1]))
    """
    if kind.find is None:
        raise CallError(f"a unit by {kind.name} has no name of its own; name an event, a node, a pair or a day")
    (unit,) = kind.units(graph, graph.num_events, [kind.find(graph, text)])
    if not len(unit.rows):
        span = from_to(*graph.time[[0, graph.num_events - 1]].tolist()) if graph.num_events else "nothing to nothing"
        raise CallError(f"there are no events of {unit.name}; the log goes from {span}")
    return unit


# The two nodes of an event.


def _pair_labels(graph: TemporalGraph, query: Query, rows: IntArray) -> list[tuple[Label, ...]]:
    ends = np.sort(np.stack([graph.src[rows], graph.dst[rows]]), axis=0)
    return [(tuple(both),) for both in ends.T.tolist()]


def _pair_rows(graph: TemporalGraph, before: int, labels: Sequence[Any]) -> list[IntArray]:
    found = []
    for low, high in labels:
        one, other = sorted((low, high), key=lambda node: len(graph.history(node, before)))
        rows = graph.history(one, before)
        found.append(rows[graph.other_end(rows, one) == other])
    return found


def _pair_words(graph: TemporalGraph, label: Any) -> str:
    return " ↔ ".join(sanitize(graph.name(node), 24) for node in label)


def _pair_found(graph: TemporalGraph, text: str) -> Label:
    try:
        names = shlex.split(text.replace("↔", " ").replace("→", " "))
    except ValueError:
        names = []
    if len(names) != 2:
        raise CallError(f"{text[:60]!r} is not a pair of nodes; write two names, with quotes around one with spaces")
    return tuple(sorted(graph.node(name) for name in names))


# The nodes of events, but for the two that a question is about.


def _node_labels(graph: TemporalGraph, query: Query, rows: IntArray, *, ends: bool) -> list[tuple[Label, ...]]:
    left_out = () if ends else (query.src, query.dst)
    pairs = zip(graph.src[rows].tolist(), graph.dst[rows].tolist(), strict=True)
    return [tuple(node for node in dict.fromkeys(both) if node not in left_out) for both in pairs]


def _node_rows(graph: TemporalGraph, before: int, labels: Sequence[Any]) -> list[IntArray]:
    return [graph.history(node, before) for node in labels]


def _node_words(graph: TemporalGraph, label: Any) -> str:
    return sanitize(graph.name(label), 24)


def node_anchors(
    graph: TemporalGraph, query: Query, hops: int, labels: Sequence[Any], *, ends: bool
) -> list[int | None]:
    """An event of its own for each node, by which searches know it: the latest one that connects it to a nearer node.

    Events belong to two nodes, so the latest event of a node may be that of another one, too; no two nodes have the
    same latest event to a nearer node. The two ends have no nearer node: they come first, with their latest event.

    Args:
        graph: The log.
        query: The link.
        hops: How far from the link nodes are looked for.
        labels: Nodes.
        ends: Whether the two ends are units, too.

    Returns:
        A row for each node; None where there is none left.
    """
    near, distance = neighbourhood(graph, query, hops)
    hop = np.full(graph.num_nodes, graph.num_nodes)
    hop[near] = distance
    anchor: dict[Label, int | None] = {}
    for node in dict.fromkeys((query.src, query.dst, *labels) if ends else labels):
        rows = graph.history(node, query.before)[::-1]
        if hop[node]:
            rows = rows[hop[graph.other_end(rows, node)] < hop[node]]
        taken = set(anchor.values())  # by an end
        anchor |= dict.fromkeys([node], next((row for row in rows.tolist() if row not in taken), None))
    return [anchor[label] for label in labels]


# Days and hours, in the time zone in which dates are shown.


class _Period(NamedTuple):
    """A day or an hour: its length, and how it begins."""

    word: str
    length: timedelta
    starts_at: dict[str, int]  # parts of a moment that are 0 at its beginning
    shown: str  # format of its name
    example: str

    def begin(self, time: float) -> float:
        return datetime.fromtimestamp(time, zone()).replace(**self.starts_at).timestamp()  # type: ignore[arg-type]

    def end(self, begin: float) -> float:
        """When the next one begins. A day has 23 or 25 hours where clocks change, an hour is an hour."""
        if self.length < timedelta(days=1):
            return begin + self.length.total_seconds()
        return (datetime.fromtimestamp(begin, zone()) + self.length).timestamp()

    def labels(self, graph: TemporalGraph, query: Query, rows: IntArray) -> list[tuple[Label, ...]]:
        times: FloatArray = graph.time[rows]
        for time in times[:1].tolist():
            if not is_date(time):
                raise CallError(f"events have no {self.word}: their times are numbers such as {time:g}, not dates")
        quarters = (times // 900).astype(np.int64)  # no zone begins an hour in between
        begin = {quarter: self.begin(900.0 * quarter) for quarter in set(quarters.tolist())}
        return [(begin[quarter],) for quarter in quarters.tolist()]

    def rows(self, graph: TemporalGraph, before: int, labels: Sequence[Any]) -> list[IntArray]:
        times = graph.time[:before]
        spans = [np.searchsorted(times, (begin, self.end(begin)), side="left") for begin in labels]
        return [np.arange(first, stop) for first, stop in spans]

    def words(self, graph: TemporalGraph, label: Any) -> str:
        return datetime.fromtimestamp(label, zone()).strftime(self.shown)

    def find(self, graph: TemporalGraph, text: str) -> Label:
        try:
            typed = datetime.fromisoformat(text.strip())
        except ValueError:
            article = "an" if self.word == "hour" else "a"
            raise CallError(f"{text[:40]!r} is not {article} {self.word}; write {self.example}") from None
        return self.begin((typed if typed.tzinfo else typed.replace(tzinfo=zone())).timestamp())

    def kind(self) -> UnitKind:
        return UnitKind(self.word, self.labels, self.rows, self.words, self.word, self.find)


_HOUR_STARTS = {"minute": 0, "second": 0, "microsecond": 0}
_DAY = _Period("day", timedelta(days=1), {"hour": 0, **_HOUR_STARTS}, "%Y-%m-%d", "2004-07-27")
_HOUR = _Period("hour", timedelta(hours=1), _HOUR_STARTS, "%Y-%m-%d %H:00", "2004-07-27 14:00")


# Sessions: what one node sends without a longer pause.


def _sessions_of(graph: TemporalGraph, node: int, before: int, gap: float) -> list[IntArray]:
    """The sessions of a node as a source, oldest first."""
    rows = graph.history(node, before)
    sent = rows[graph.src[rows] == node]
    return np.split(sent, 1 + np.flatnonzero(np.diff(graph.time[sent]) > gap))


def _session_labels(graph: TemporalGraph, query: Query, rows: IntArray, *, gap: float) -> list[tuple[Label, ...]]:
    labels: dict[int, tuple[Label, ...]] = {}
    for node in set(graph.src[rows].tolist()):
        for session_ in _sessions_of(graph, node, query.before, gap):
            labels |= dict.fromkeys(session_.tolist(), ((node, int(session_[0])),) if len(session_) else ())
    return [labels[row] for row in rows.tolist()]


def _session_rows(graph: TemporalGraph, before: int, labels: Sequence[Any], *, gap: float) -> list[IntArray]:
    found: dict[Label, IntArray] = {}
    for node in {node for node, _ in labels}:
        sessions = _sessions_of(graph, node, before, gap)
        found |= {(node, int(some[0])): some for some in sessions if len(some)}
    return [found[label] for label in labels]


def _session_words(graph: TemporalGraph, label: Any) -> str:
    node, first = label
    return f"of {sanitize(graph.name(node), 24)} from {moment(float(graph.time[first]))}"


def session(gap: float = GAP) -> UnitKind:
    """What one node sends without a pause longer than `gap` seconds (or whatever times are counted in)."""
    if not gap > 0:
        raise CallError(f"the gap between sessions must be a time above 0, not {gap}")
    chosen = float(gap)
    labels, rows = partial(_session_labels, gap=chosen), partial(_session_rows, gap=chosen)
    return UnitKind("session", labels, rows, _session_words, "session", options=(("gap", chosen),))


# A user's function.


class _Own(NamedTuple):
    """Units by the labels that a function gives."""

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def labels(self, graph: TemporalGraph, query: Query, rows: IntArray) -> list[tuple[Label, ...]]:
        return [() if label is None else (label,) for label in self.called(graph, rows)]

    def rows(self, graph: TemporalGraph, before: int, labels: Sequence[Label]) -> list[IntArray]:
        found: dict[Label, list[int]] = {label: [] for label in labels}
        for row, label in enumerate(self.called(graph, np.arange(before))):
            if label in found:
                found[label].append(row)
        return [np.array(rows, dtype=np.int64) for rows in found.values()]

    def words(self, graph: TemporalGraph, label: Label) -> str:
        return sanitize(label, 48)

    def called(self, graph: TemporalGraph, rows: IntArray) -> list[Label]:
        """The labels of rows, if that is what they are."""
        given = self.function(graph, rows)
        labels = given.tolist() if isinstance(given, np.ndarray) else list(given) if isinstance(given, Iterable) else []
        if len(labels) != len(rows):
            raise CallError(f"by={self.name} must return one label for each of {len(rows)} rows, not {given!r:.60}")
        try:
            set(labels)
        except TypeError as error:
            raise CallError(f"by={self.name} must return labels such as numbers or texts: {error}") from None
        return labels


def labelled_by(function: Callable[[TemporalGraph, IntArray], Sequence[Label]]) -> UnitKind:
    """Events with the same label are a unit, events with the label None are in none.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 3, 0], dst=[1, 0, 4, 2], time=[1.0, 2.0, 3.0, 4.0])
    >>> by_source = labelled_by(lambda graph, rows: graph.src[rows])
    >>> by_source.units(graph, 4, [0])[0][:2]
    ('unit 0', array([0, 3]))
    """
    if not callable(function):
        raise CallError(f"by is a kind of unit such as cody.graph.units.pair, or a function, not {function!r:.60}")
    own = _Own(function)
    return UnitKind(own.name, own.labels, own.rows, own.words, "unit")


def as_kind(by: UnitKind | Callable[[TemporalGraph, IntArray], Sequence[Label]] | None) -> UnitKind | None:
    """A kind of unit, or a function that labels events, as a kind; None: single events."""
    return by if by is None or isinstance(by, UnitKind) else labelled_by(by)


def nodes(*, ends: bool = False) -> UnitKind:
    """All events of a node; of the two nodes that a question is about only if `ends`."""
    labels, anchors = partial(_node_labels, ends=ends), partial(node_anchors, ends=ends)
    options = (("ends", True),) if ends else ()
    return UnitKind("node", labels, _node_rows, _node_words, "node", TemporalGraph.node, anchors, options)


pair = UnitKind("pair", _pair_labels, _pair_rows, _pair_words, "pair", _pair_found, talk="conversation")
node = nodes()
day = _DAY.kind()
hour = _HOUR.kind()

EVENT = "event"
KINDS = (EVENT, "pair", "node", "day", "hour", "session")  # as the command line names them


def named_kind(name: str, *, gap: float | str | None = None, ends: bool = False) -> UnitKind | None:
    """The kind of unit of that name; None for single events.

    Args:
        name: One of `KINDS`.
        gap: Of sessions: a number, or a duration such as "1h".
        ends: Of nodes: whether the two ends of a link are units, too.
    """
    if gap is not None and name != "session":
        raise CallError("a gap ends a session: give it with --by session")
    if ends and name != "node":
        raise CallError("the ends of a link are units by node: give --by node")
    if name == "session":
        return session(GAP if gap is None else parse_duration(gap) if isinstance(gap, str) else gap)
    if name == "node":
        return nodes(ends=ends)
    kinds = {EVENT: None, "pair": pair, "day": day, "hour": hour}
    if name not in kinds:
        raise CallError(f"there is no unit {name!r}; there are {', '.join(KINDS)}")
    return kinds[name]
