"""The immutable log of events, and the question asked about it.

An event is a row: ids are 0-based rows, never padded, never confused with times. `before` always counts
visible rows: a query with `before = i` sees rows 0 … i-1.
"""

from __future__ import annotations

import hashlib
import operator
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cody.errors import CallError, DataError, TimeWarning, did_you_mean, first_line
from cody.graph.edits import NOTHING, Alter, Edit, Imagined, check_features, imagined_rows
from cody.utils.signatures import readable_help
from cody.utils.words import duration, is_date, moment_and_zone, parse_moment

IntArray = NDArray[np.integer[Any]]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]

LONGEST_NAME = 1_000  # characters; the names of all nodes take as much room as the longest
MOST_ROOM_FOR_NAMES = 2 * 2**30  # bytes
LATEST = ("now", "end")  # words for the time of the last event
SHOWN_FEATURES = 4  # of an event; more of them tell a reader nothing
LATEST_TIME = 1e19  # above nanoseconds since 1970; float32 models cannot compute with larger times


@readable_help
class Query(NamedTuple):
    """The scored link: would `src` and `dst` interact at `time`, given the first `before` events?

    It need not be an event that happened.
    """

    src: int
    dst: int
    time: float
    before: int


class Difference(NamedTuple):
    """How a past differs from the log, as far as a query can see it."""

    absent: frozenset[int]  # real rows that did not happen
    present: tuple[int, ...]  # imagined rows that did


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TemporalGraph:
    """Events in time order, as columns, with the list of events of each node.

    Build one with `TemporalGraph.from_arrays`, `cody.load` (files, names, tables) or `cody.data.open_graph`.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[10.0, 20.0, 30.0])
    >>> graph
    TemporalGraph(3 nodes, 3 events)
    >>> graph.history(0, before=2)
    array([0])
    >>> graph.query(2)
    Query(src=0, dst=2, time=30.0, before=2)
    """

    src: IntArray  # [E] int32 node ids; imagined rows follow the E real ones, also in `dst` and `time`
    dst: IntArray  # [E] int32 node ids
    time: FloatArray  # [E] float64, non-decreasing; events of equal time are ordered by row
    features: FloatArray | None  # [E, F] float32
    node_features: FloatArray | None  # [N, D] float32
    names: NDArray[Any] | None  # [N] what the user calls each node; None: its number
    offsets: IntArray  # [N + 1] int64; the events of node v are incidence[offsets[v] : offsets[v + 1]]
    incidence: IntArray  # [2E - loops] int64 event rows, ascending within each node; a self-loop occurs once
    identity: str  # hash of everything above that an answer can depend on
    imagined: Imagined | None = None  # what might have been
    feature_names: tuple[str, ...] | None = None  # [F] what the user calls each event feature; None: f0, f1, …

    @classmethod
    def from_arrays(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        time: ArrayLike,
        *,
        features: ArrayLike | None = None,
        node_features: ArrayLike | None = None,
        names: Sequence[Any] | NDArray[Any] | None = None,
        feature_names: Sequence[str] | None = None,
        num_nodes: int | None = None,
        sort: bool = False,
    ) -> TemporalGraph:
        """Check the columns, once, and index them. Node ids are 0-based; `num_nodes` may exceed the largest.

        Events must be sorted by time; `sort=True` sorts them, keeping the order of equal times. `feature_names` are
        what features are called where they are shown or altered.
        """
        times = _times(time)
        sources, targets = _node_ids("src", src, times.size), _node_ids("dst", dst, times.size)
        edge_features = _feature_table("features", features, times.size, "events")
        labels = None if names is None else _labels(names)
        node_table = None if node_features is None else _array("node_features", node_features)
        if sort:
            order = np.argsort(times, kind="stable")
            sources, targets, times = sources[order], targets[order], times[order]
            edge_features = None if edge_features is None else edge_features[order]
        _check_sorted(times)
        count = _count_nodes(sources, targets, num_nodes, node_table, labels)
        node_table = _feature_table("node_features", node_table, count, "nodes")
        graph = _assemble(count, sources, targets, times, edge_features, node_table, labels)
        return graph if feature_names is None else replace(graph, feature_names=_feature_names(graph, feature_names))

    @property
    def num_nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_events(self) -> int:
        """How many events happened; imagined ones do not count."""
        return len(self.src) - (0 if self.imagined is None else len(self.imagined))

    @property
    def num_rows(self) -> int:
        """How many rows there are, imagined ones included."""
        return len(self.src)

    def __repr__(self) -> str:
        imagined = "" if self.imagined is None else f", {len(self.imagined):,} imagined"
        return f"TemporalGraph({self.num_nodes:,} nodes, {self.num_events:,} events{imagined})"

    def query(self, row: int) -> Query:
        """The question whether event `row` would happen, asked just before it did."""
        row = whole_number("the row of an event", row)
        if not 0 <= row < self.num_events:
            raise CallError(f"event {row} is out of range: rows go from 0 to {self.num_events - 1}")
        return Query(int(self.src[row]), int(self.dst[row]), float(self.time[row]), row)

    def link(self, src: Any, dst: Any, time: float | str | date | np.datetime64) -> Query:
        """The question about a link that need not have happened, between nodes as the user names them.

        All events up to and including `time` are visible. `when` says what a time may be. A `TimeWarning` says if it is
        long after the end of the log.
        """
        query = self.query_at(src, dst, time)
        warn_if_long_after(self, query.time)
        return query

    def query_at(self, src: Any, dst: Any, time: float | str | date | np.datetime64) -> Query:
        """As `link`, whatever the time."""
        moment = self.when(time)
        before = int(np.searchsorted(self.time[: self.num_events], moment, side="right"))
        return Query(self.node(src), self.node(dst), moment, before)

    def when(self, time: float | str | date | np.datetime64) -> float:
        """A time as the user gives it: a number, a date, or "now" or "end", which both mean the time of the last event.

        A date means unix seconds. Without a time zone it is in UTC; as text, in the zone that CODY_TIMEZONE names, else
        UTC.
        """
        if isinstance(time, str) and time.strip().casefold() in LATEST:
            return float(self.time[self.num_events - 1])
        return _moment(time)

    def node(self, name: Any) -> int:
        """The id of the node that the user calls `name`."""
        if self.names is None:
            return self._node_number(name)
        wanted = str(name)
        numbers = self.names.dtype.kind in "iu"
        if numbers and not re.fullmatch("0|-?[1-9][0-9]{0,19}", wanted):
            found = np.empty(0, dtype=np.int64)  # "07" and "7.0" are not the name of any node
        else:
            found = np.flatnonzero(self.names == (int(wanted) if numbers else wanted))
        if not found.size:
            raise CallError(f"there is no node {wanted!r}{did_you_mean(wanted, self.names)}")
        return int(found[0])

    def _node_number(self, name: Any) -> int:
        try:
            node = int(str(name))
        except ValueError:
            raise CallError(f"node {name!r} is not a number, and the nodes of this graph have no names") from None
        return self._existing(node)

    def _existing(self, node: int) -> int:
        node = whole_number("node", node)
        if not 0 <= node < self.num_nodes:
            raise CallError(f"node {node} is out of range: nodes go from 0 to {self.num_nodes - 1}")
        return node

    def name(self, node: int) -> str:
        """What the user calls node `node`."""
        node = self._existing(node)
        return str(node if self.names is None else self.names[node])

    def history(self, node: int, before: int) -> IntArray:
        """Rows < `before` of the events that touch `node`, oldest first. A view, found by binary search."""
        node = self._existing(node)
        rows = self.incidence[self.offsets[node] : self.offsets[node + 1]]
        return rows[: np.searchsorted(rows, before)]

    def rows_within(self, first: float | None, last: float | None) -> IntArray:
        """The rows of real events between two times, both included; None: no limit on that side."""
        times = self.time[: self.num_events]
        begin = 0 if first is None else int(np.searchsorted(times, first, side="left"))
        stop = self.num_events if last is None else int(np.searchsorted(times, last, side="right"))
        return np.arange(begin, max(begin, stop))

    def ends(self, nodes: IntArray, before: IntArray | int) -> IntArray:
        """For each node, the position in `incidence` just after its last row < `before`. [n] → [n]

        Equals `offsets[node]` where the node has no such event. A binary search in all histories at once.
        """
        low, high = self.offsets[nodes], self.offsets[np.asarray(nodes) + 1]
        before = np.broadcast_to(before, low.shape)
        # All look-ups are in step: as many halvings as the longest history needs, and shorter ones stay where they are.
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            earlier = (self.incidence.take(middle, mode="clip") < before) & (low < high)
            np.copyto(low, middle + 1, where=earlier)
            np.copyto(high, middle, where=~earlier)
        return low

    def recent(self, nodes: IntArray, before: IntArray | int, count: int) -> IntArray:
        """The `count` most recent rows < `before` of each node, latest first, -1 where there are fewer. [n, count]"""
        positions = self.ends(nodes, before)[:, None] - 1 - np.arange(count)
        exists = positions >= self.offsets[nodes][:, None]
        rows = self.incidence[np.maximum(positions, 0)] if len(self.incidence) else np.zeros_like(positions)
        return np.where(exists, rows, -1)

    def other_end(self, rows: IntArray, nodes: IntArray | int) -> IntArray:
        """The node at the other end of each event; of a self-loop, the node itself. [n], [n] → [n]"""
        other: IntArray = self.src[rows] + self.dst[rows] - nodes
        return other

    def features_of(self, rows: IntArray) -> FloatArray | None:
        """The features of events, imagined ones included; None if events have none. [...] → [..., F]"""
        if self.features is None or self.imagined is None:
            return None if self.features is None else self.features[rows]
        real = rows < self.num_events
        assert self.imagined.features is not None
        imagined = self.imagined.features[np.where(real, 0, rows - self.num_events)]
        return np.where(real[..., None], self.features[np.where(real, rows, 0)], imagined)

    def names_of_features(self) -> tuple[str, ...]:
        """What the features of events are called: as the user calls them, else f0, f1, …"""
        width = 0 if self.features is None else self.features.shape[1]
        return tuple(f"f{place}" for place in range(width)) if self.feature_names is None else self.feature_names

    def carried(self, row: int) -> str:
        """The features of an event in words; of an altered one, what it had and has. Empty where they are too many.

        >>> from cody.graph.edits import Alter
        >>> graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2], features=[[-10], [3]], feature_names=["rating"])
        >>> graph.carried(0), graph.imagine([Alter(0, [10])]).carried(2)
        ('rating −10', 'rating −10 → 10')
        """
        names = self.names_of_features()
        if not 0 < len(names) <= SHOWN_FEATURES:
            return ""
        values = self._features_in_words(row)
        was = values
        if self.imagined is not None and row >= self.num_events:
            place = row - self.num_events
            if isinstance(self.imagined.edits[place], Alter):
                was = self._features_in_words(int(self.imagined.replaces[place]))
        changes = zip(names, was, values, strict=True)
        return ", ".join(f"{name} {new}" if old == new else f"{name} {old} → {new}" for name, old, new in changes)

    def _features_in_words(self, row: int) -> list[str]:
        features = self.features_of(np.array([row]))
        assert features is not None
        return [f"{value:.6g}".replace("-", "−") for value in features[0].tolist()]

    def place(self, rows: IntArray) -> IntArray:
        """The row itself if it is real; if it is imagined, the real row that it comes before. [n] → [n]"""
        if self.imagined is None:
            return rows
        real = rows < self.num_events
        return np.where(real, rows, self.imagined.place[np.where(real, 0, rows - self.num_events)])

    def order(self, rows: IntArray) -> IntArray:
        """A number for each row, real or imagined, ascending with time. [n] → [n]"""
        rows = np.asarray(rows, dtype=np.int64)
        if self.imagined is None:
            return rows
        real, count = rows < self.num_events, len(self.imagined)
        rank = self.imagined.rank[np.where(real, 0, rows - self.num_events)]
        return np.where(real, (rows + 1) * (count + 1) - 1, self.place(rows) * (count + 1) + rank)

    def order_before(self, rows: IntArray) -> IntArray:
        """A number between the order of everything that comes before real rows and their own. [n] → [n]"""
        return rows if self.imagined is None else rows * (len(self.imagined) + 1)

    @property
    def log(self) -> str:
        """The identity of the real events, whatever is imagined."""
        return self.identity if self.imagined is None else self.imagined.log

    def outcome(self, change: Iterable[int], query: Query) -> Difference:
        """What a query sees of a change. Of several imagined rows that replace the same real row, the first counts."""
        absent = {row for row in change if row < query.before}
        present: list[int] = []
        if self.imagined is not None:
            replaced: set[int] = set()
            visible = set(self.imagined_before(query).tolist())
            for row in sorted(row for row in change if row >= self.num_events):
                real = int(self.imagined.replaces[row - self.num_events])
                if real not in replaced and row in visible:
                    present.append(row)
                if real != NOTHING:
                    replaced.add(real)
            absent |= {row for row in replaced if row < query.before}
        return Difference(frozenset(absent), tuple(present))

    def imagined_before(self, query: Query) -> IntArray:
        """The imagined rows that a query would see if they were present, in the order of time."""
        if self.imagined is None:
            return np.empty(0, dtype=np.int64)
        # A row comes before the real one at its place, except an altered event, which takes that place itself.
        first = self.imagined.place + (self.imagined.place == self.imagined.replaces)
        seen = (first <= query.before) & (self.imagined.time <= query.time)
        rows = self.num_events + np.flatnonzero(seen)
        return rows[np.argsort(self.order(rows))]

    def imagine(self, edits: Sequence[Edit], *, new_nodes: Sequence[Any] = ()) -> TemporalGraph:
        """The log with one more row for each edit, absent unless a change names it.

        The rows are numbered from `num_events` on, in the order of the edits. Real rows keep their numbers, and queries
        of this graph are queries of the longer one. An edit may have nodes that do not exist if `new_nodes` names
        them. Columns of features are not copied.

        >>> from cody.graph.edits import Add, Move
        >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[10.0, 20.0, 30.0])
        >>> longer = graph.imagine([Add(0, 2, 15.0), Move(1, 5.0)])
        >>> longer
        TemporalGraph(3 nodes, 3 events, 2 imagined)
        >>> longer.imagined_before(longer.query(2))
        array([4, 3])
        """
        if self.imagined is not None:
            raise CallError("this log has imagined rows already; pass all edits to imagine at once")
        edits = list(edits)
        wider = self._with_nodes(list(new_nodes))
        if not edits:
            return wider
        check_features(self, edits)
        rows = imagined_rows(wider, edits, self.identity)
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(rows, name)]) for name in ("src", "dst", "time")
        }
        identity = _identity(wider.num_nodes, rows.src, rows.dst, rows.time, rows.features, rows.replaces)
        combined = hashlib.blake2b(f"{self.identity}|{identity}".encode(), digest_size=16).hexdigest()
        return replace(wider, **columns, identity=combined, imagined=rows)

    def _with_nodes(self, names: list[Any]) -> TemporalGraph:
        """The same events with additional nodes, which have no events."""
        if not names:
            return self
        known = np.arange(self.num_nodes) if self.names is None else self.names
        if {str(name) for name in names} & set(known.astype(str).tolist()):
            raise CallError(f"new_nodes names a node that already exists: {names!r:.60}")
        features = self.node_features
        if features is not None:
            features = np.concatenate([features, np.zeros((len(names), features.shape[1]), dtype=features.dtype)])
        return replace(
            self,
            node_features=features,
            names=_labels([*known.tolist(), *names] if known.dtype.kind in "iu" else [*known, *map(str, names)]),
            offsets=np.concatenate([self.offsets, np.repeat(self.offsets[-1:], len(names))]),
        )

    def with_change(self, change: Iterable[int]) -> TemporalGraph:
        """The log as it would be: without the real rows of a change, with the imagined ones. Events are numbered anew.

        >>> from cody.graph.edits import Move
        >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[10.0, 20.0, 30.0])
        >>> graph.imagine([Move(1, 5.0)]).with_change({2, 3}).time
        array([ 5., 10.])
        """
        everything = Query(0, 0, np.inf, self.num_events)
        absent, present = self.outcome(change, everything)
        rows = np.array([row for row in range(self.num_events) if row not in absent] + list(present), dtype=np.int64)
        if not len(rows):
            raise CallError("without these events there are none left")
        rows = rows[np.argsort(self.order(rows), kind="stable")]
        graph = _assemble(
            self.num_nodes,
            self.src[rows],
            self.dst[rows],
            self.time[rows],
            self.features_of(rows),
            self.node_features,
            self.names,
        )
        return replace(graph, feature_names=self.feature_names)

    def select(self, rows: IntArray | BoolArray) -> TemporalGraph:
        """The graph of these events only: the same nodes, events numbered from 0."""
        times = _times(self.time[rows])
        _check_sorted(times)
        features = None if self.features is None else self.features[rows]
        graph = _assemble(
            self.num_nodes, self.src[rows], self.dst[rows], times, features, self.node_features, self.names
        )
        return replace(graph, feature_names=self.feature_names)


def sorted_unique(numbers: IntArray) -> IntArray:
    """The different numbers, in order: `numpy.unique`, which takes several times as long for a few numbers.

    >>> sorted_unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(numbers, axis=None)
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def check_query(graph: TemporalGraph, query: Query) -> None:
    """Reject a query that does not fit the graph."""
    if not isinstance(query, Query):
        raise CallError(f"a query is made by graph.query(row) or graph.link(src, dst, time), not {query!r}")
    for end in ("src", "dst"):
        node = whole_number(end, getattr(query, end))
        if not 0 <= node < graph.num_nodes:
            raise CallError(f"{end}={node} is not a node: nodes go from 0 to {graph.num_nodes - 1}")
    if not 0 <= whole_number("before", query.before) <= graph.num_events:
        raise CallError(f"before={query.before} is out of range: the graph has {graph.num_events} events")
    last = query.before - 1
    if _finite_time(query.time) < graph.time[last] and query.before:
        raise CallError(f"time={query.time} is earlier than the latest visible event, row {last} at {graph.time[last]}")


def verify_graph(graph: TemporalGraph) -> None:
    """Read a whole graph and reject it if its columns are not those that were saved. Names are not checked."""
    columns = (graph.src, graph.dst, graph.time, graph.features, graph.node_features)
    identity = _identity(graph.num_nodes, *columns)
    if identity != graph.identity:
        raise DataError(f"the events have the identity {identity}, not {graph.identity}: they were changed or damaged")
    offsets, incidence = _index_by_node(graph.src, graph.dst, graph.num_nodes)
    if not (np.array_equal(offsets, graph.offsets) and np.array_equal(incidence, graph.incidence)):
        raise DataError("the events of each node (offsets, incidence) do not match src and dst: save it again")


def warn_if_long_after(graph: TemporalGraph, time: float) -> None:
    """Warn if a time is longer after the last event than the whole log is long: no model knows such times."""
    if not graph.num_events:
        return
    first, last = float(graph.time[0]), float(graph.time[graph.num_events - 1])
    if not time - last > last - first > 0:
        return
    dates = is_date(first) and is_date(time)
    gap, span = (duration(each) if dates else f"{each:.6g}" for each in (time - last, last - first))
    warnings.warn(
        f"{moment_and_zone(time)} is {gap} after the last event ({moment_and_zone(last)}), and the whole log spans "
        f"{span}: the model knows nothing of such times",
        TimeWarning,
        stacklevel=3,
    )


def whole_number(what: str, value: Any) -> int:
    """An int or a numpy integer; 1.0, True and "1" are errors."""
    if not isinstance(value, bool | np.bool_):  # older versions of numpy count with theirs
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise CallError(f"{what} must be a whole number, not {_shortened(value)}")


def _moment(time: Any) -> float:
    """A number unchanged, a date (also as text) as unix seconds, like the readers of files."""
    if isinstance(time, str):
        time = parse_moment(time)
    try:
        if isinstance(time, date) and not isinstance(time, datetime):
            time = datetime(time.year, time.month, time.day)
        if isinstance(time, datetime):  # pandas' Timestamp too
            time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        if isinstance(time, np.datetime64):
            time = (time - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    except (ValueError, TypeError):  # NaT
        raise CallError(f"time must be a moment, not {time!r}") from None
    return _finite_time(time)


def _finite_time(time: Any) -> float:
    rejected = (str, bytes, bool, np.datetime64, np.timedelta64)  # float() takes some of them
    try:
        number = float("nan") if isinstance(time, rejected) else float(time)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not abs(number) <= LATEST_TIME:
        raise CallError(f"time must be a finite number, at most {LATEST_TIME:g} in size, not {_shortened(time)}")
    return number


def _shortened(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return "such a large number"
    return text if len(text) <= 40 else f"{text[:40]}…"


def _array(column: str, values: Any) -> NDArray[Any]:
    """The values as a numpy array, unless they would lose their meaning when converted to numbers."""
    # An ndarray proper is not masked; asking numpy.ma would import it, which takes longer than all the rest.
    if type(values) is not np.ndarray and isinstance(values, np.ma.MaskedArray):
        raise DataError(f"{column} is a masked array; fill in or drop the masked values")
    try:
        reject_long_texts(values)
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{column} must be an array of numbers: {first_line(error)}") from None
    if array.dtype.kind in "mM":
        raise DataError(f"{column} holds {array.dtype}; convert it to seconds, or use cody.load, which converts dates")
    if array.dtype.kind == "c":
        raise DataError(f"{column} must be real numbers, not {array.dtype}")
    return array


def reject_long_texts(values: Any) -> None:
    """Reject long texts in a list before numpy reads it: in an array, each text takes as much room as the longest."""
    if not isinstance(values, list | tuple):
        return
    table = np.array(values, dtype=object)
    for position, value in enumerate(table.ravel()):
        if isinstance(value, str | bytes) and len(value) > LONGEST_NAME:
            row = position * len(values) // table.size
            raise ValueError(f"row {row} has a text of {len(value):,} characters")


def _times(time: ArrayLike) -> FloatArray:
    array = _array("time", time)
    try:
        times = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"time must be numbers: {first_line(error)} (cody.load converts dates)") from None
    if times.ndim != 1:
        raise DataError(f"time must be one column, not an array of shape {times.shape}")
    if not times.size:
        raise DataError("there are no events")
    bad = np.flatnonzero(~(np.abs(times) <= LATEST_TIME))
    if bad.size:
        limit = f" and at most {LATEST_TIME:g} in size" if np.isfinite(times[bad[0]]) else ""
        raise DataError(f"time must be finite{limit}; row {bad[0]} has {times[bad[0]]}")
    return times


def _check_sorted(times: FloatArray) -> None:
    back = np.flatnonzero(np.diff(times) < 0)
    if back.size:
        row = back[0] + 1
        raise DataError(
            f"events must be sorted by time; row {row} is earlier than row {row - 1} "
            "(sort=True, or --sort on the command line, sorts them and keeps the order of equal times)"
        )


def _node_ids(column: str, ids: ArrayLike, events: int) -> IntArray:
    array = _array(column, ids)
    if array.shape != (events,):
        raise DataError(f"{column} has shape {array.shape}, time has {events} rows")
    if array.dtype.kind not in "iu":
        whole = array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.round(array))))
        if not whole:
            raise DataError(f"{column} must be integer node ids, not {array.dtype} (cody.load maps other ids)")
    bad = np.flatnonzero((array < 0) | (array >= 2**31))
    if bad.size:
        raise DataError(f"{column} must be ids from 0 to 2^31 - 1; row {bad[0]} has {array[bad[0]]}")
    return array.astype(np.int32)


def _feature_table(column: str, table: ArrayLike | None, rows: int, of_what: str) -> FloatArray | None:
    if table is None:
        return None
    array = _array(column, table)
    try:
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, and are rejected below
            array = array.astype(np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{column} must be numbers: {first_line(error)}") from None
    if array.ndim != 2 or len(array) != rows:
        raise DataError(f"{column} must have {rows} rows, one for each of the {of_what}, not shape {array.shape}")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise DataError(f"{column} must be finite numbers; row {bad[0]} has a NaN or an infinity")
    return array if array.shape[1] else None


def _feature_names(graph: TemporalGraph, names: Sequence[str]) -> tuple[str, ...]:
    width = 0 if graph.features is None else graph.features.shape[1]
    texts = tuple(map(str, names))
    if len(texts) != width or len(set(texts)) < width:
        raise DataError(f"feature_names must be {width} different names, one for each feature, not {list(texts)!r:.60}")
    return texts


def _count_nodes(
    src: IntArray,
    dst: IntArray,
    num_nodes: int | None,
    node_features: NDArray[Any] | None,
    names: NDArray[Any] | None,
) -> int:
    largest = int(max(src.max(), dst.max()))
    given = {} if num_nodes is None else {"num_nodes": whole_number("num_nodes", num_nodes)}
    tables = {"node_features": node_features, "names": names}
    given |= {key: table.shape[0] if table.ndim else 0 for key, table in tables.items() if table is not None}
    if len(set(given.values())) > 1:
        counts = ", ".join(f"{key}: {count}" for key, count in given.items())
        raise DataError(f"the number of nodes is contradictory ({counts})")
    count = next(iter(given.values()), largest + 1)
    if largest >= count:
        raise DataError(f"node id {largest} appears in the events, but {next(iter(given))} says {count} nodes")
    if count > 1_000 * len(src) + 10**6 and node_features is None and names is None:
        raise DataError(
            f"{count:,} nodes are too many for {len(src):,} events: the ids are sparse; number the nodes 0, 1, 2, … "
            "(cody.load on a table with the columns src, dst and time does)"
        )
    return count


def _labels(names: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """The names as an array of whole numbers, or of text of a fixed width."""
    try:
        given = np.array(names, dtype=None if isinstance(names, np.ndarray) else object)
        if given.dtype.kind == "O" and all(type(name) is int or isinstance(name, np.integer) for name in given.flat):
            numbers = np.array(given.tolist())
            given = numbers if numbers.dtype.kind in "iu" else given  # too large numbers would become floats
    except (TypeError, ValueError) as error:
        raise DataError(f"names must be one word or number for each node: {first_line(error)}") from None
    if given.ndim != 1:
        raise DataError(f"names must be one-dimensional, not an array of shape {given.shape}")
    labels = given if given.dtype.kind in "iu" else _texts(given)
    distinct, counts = np.unique(labels, return_counts=True)
    if len(distinct) < len(labels):
        raise DataError(f"names must differ from node to node; {str(distinct[counts > 1][0])!r} occurs more than once")
    return labels


def _texts(names: NDArray[Any]) -> NDArray[np.str_]:
    """Names as an array of text, if their longest leaves room for all."""
    texts = names if names.dtype.kind == "U" else [_text(node, name) for node, name in enumerate(names)]
    lengths = np.char.str_len(names) if texts is names else np.array([len(text) for text in texts], dtype=np.int64)
    bad = np.flatnonzero(lengths > LONGEST_NAME)
    if bad.size:
        raise DataError(
            f"names must have at most {LONGEST_NAME:,} characters; that of node {bad[0]} has {lengths[bad[0]]:,}"
        )
    longest = int(lengths.max(initial=1))
    check_room_for_names(len(names), longest)
    labels = np.array(texts, dtype=f"U{longest}")
    letters = labels.view(np.uint32).reshape(len(labels), longest)
    bad = np.flatnonzero(((letters >= 0xD800) & (letters < 0xE000)).any(axis=1))
    if bad.size:
        raise DataError(f"names must be text; that of node {bad[0]} has half a character: {str(labels[bad[0]])!a}")
    return labels


def _text(node: int, name: Any) -> str:
    if isinstance(name, list | tuple | dict | np.ndarray):
        raise DataError(f"names must be one word or number for each node; node {node} has {_shortened(name)}")
    try:
        return name.decode() if isinstance(name, bytes) else str(name)
    except ValueError as error:  # bytes that are not UTF-8, a number of thousands of digits
        reason = first_line(error)
        raise DataError(f"names must be one word or number for each node; that of node {node}: {reason}") from None


def check_room_for_names(nodes: int, longest: int) -> None:
    """Reject names that would fill the memory: each takes as much room as the longest."""
    room = 4 * nodes * longest
    if room > MOST_ROOM_FOR_NAMES:
        raise DataError(
            f"the names of {nodes:,} nodes would take {room / 2**30:.1f} GiB, because each takes as much room as "
            f"the longest, of {longest:,} characters; shorten the longest ones, or number the nodes"
        )


def _assemble(
    count: int,
    src: IntArray,
    dst: IntArray,
    time: FloatArray,
    features: FloatArray | None,
    node_features: FloatArray | None,
    names: NDArray[Any] | None,
) -> TemporalGraph:
    """A graph from columns that have been checked."""
    identity = _identity(count, src, dst, time, features, node_features)
    columns = (src, dst, time, features, node_features, names, *_index_by_node(src, dst, count))
    for column in columns:
        if column is not None:
            column.setflags(write=False)
    return TemporalGraph(*columns, identity)


def _index_by_node(src: IntArray, dst: IntArray, num_nodes: int) -> tuple[IntArray, IntArray]:
    # Sorting node · 2E + 2 · row + side in place needs a quarter of the memory of a stable argsort, and less time.
    slots = 2 * len(src)
    keys = np.empty((len(src), 2), dtype=np.int64)
    keys[:, 0], keys[:, 1] = src, dst
    keys *= slots
    keys += np.arange(slots).reshape(-1, 2)
    flat = keys.reshape(-1)
    loops = src == dst
    if loops.any():  # a self-loop occurs once
        flat = np.delete(flat, 2 * np.flatnonzero(loops) + 1)
    flat.sort()
    offsets = np.searchsorted(flat, np.arange(num_nodes + 1) * slots).astype(np.int64)
    flat %= slots
    flat //= 2
    return offsets, flat


def _identity(num_nodes: int, *columns: NDArray[Any] | None) -> str:
    digest = hashlib.blake2b(str(num_nodes).encode(), digest_size=16)
    for column in columns:
        digest.update(b"|")
        if column is not None:
            digest.update(f"{column.dtype.str}{column.shape}".encode())
            digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()
