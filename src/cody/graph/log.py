"""The immutable log of events, and the queries about it.

An event is a row: ids are 0-based rows, never padded, never confused with times. `before` always counts visible rows:
a query with `before = i` sees rows 0 … i-1. A log may be followed by imagined rows (`imagine`): they are numbered after
the real ones and take part only where a change names them.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cody.errors import CallError, DataError, TimeWarning, did_you_mean
from cody.graph import columns
from cody.graph.columns import BoolArray, FloatArray, IntArray
from cody.graph.edits import NOTHING, Alter, Edit, Imagined, check_features, imagined_rows
from cody.utils.signatures import readable_help
from cody.utils.words import duration, is_date, moment_and_zone

LATEST = ("now", "end")  # words for the time of the last event
SHOWN_FEATURES = 4  # of an event; more of them tell a reader nothing
FEW = 32  # nodes whose histories are searched one after the other


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
    labels: IntArray | None = None  # [E] int32 class of each real event, -1: unknown; never an input of a model
    label_names: tuple[str, ...] | None = None  # [C] what the user calls each class; None where there are no labels
    event_name: str | None = None  # what one event is: "message", "rating"; None: just an event

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
        labels: ArrayLike | None = None,
        label_names: Sequence[str] | None = None,
        event_name: str | None = None,
        num_nodes: int | None = None,
        sort: bool = False,
    ) -> TemporalGraph:
        """A graph from columns, which are checked once and indexed by node.

        Args:
            src: source of each event, as a 0-based node id. [E]
            dst: destination of each event. [E]
            time: time of each event, non-decreasing. [E]
            features: numbers that come with each event. [E, F]
            node_features: numbers that come with each node. [N, D]
            names: what the user calls each node, a text or a whole number. [N]
            feature_names: what event features are called where they are shown or altered. [F]
            labels: class of each event, 0, 1, …; -1 where it is unknown. No model sees them as inputs. [E]
            label_names: what the classes are called. Default: 0, 1, … [C]
            event_name: what one event is called, such as "message".
            num_nodes: number of nodes; it may exceed the largest id. Default: as many as the ids need.
            sort: sort the events by time, keeping the order of equal times, instead of rejecting unsorted ones.
        """
        times = columns.check_times(time)
        sources = columns.check_node_ids("src", src, times.size)
        targets = columns.check_node_ids("dst", dst, times.size)
        edge_features = columns.check_feature_table("features", features, times.size, "events")
        node_names = None if names is None else columns.check_names(names)
        classes = None if labels is None else columns.check_labels(labels, times.size)
        node_table = None if node_features is None else columns.as_array("node_features", node_features)
        if sort:
            order = np.argsort(times, kind="stable")
            sources, targets, times = sources[order], targets[order], times[order]
            edge_features = None if edge_features is None else edge_features[order]
            classes = None if classes is None else classes[order]
        columns.check_sorted(times)
        count = columns.count_nodes(sources, targets, num_nodes, node_table, node_names)
        node_table = columns.check_feature_table("node_features", node_table, count, "nodes")
        named = columns.check_feature_names(edge_features, feature_names)
        graph = _assemble(count, (sources, targets, times, edge_features, node_table), node_names, named)
        return graph.with_labels(classes, label_names, event_name)

    def with_labels(
        self, labels: ArrayLike | None, label_names: Sequence[str] | None = None, event_name: str | None = None
    ) -> TemporalGraph:
        """The same events with these labels and names instead of those they have; `identity` does not change.

        Args:
            labels: class of each event, 0, 1, …; -1 where it is unknown. [E]
            label_names: what the classes are called. Default: 0, 1, … [C]
            event_name: what one event is called. Default: as before.

        >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[10.0, 20.0, 30.0])
        >>> labelled = graph.with_labels([0, -1, 1], ["trust", "distrust"], event_name="rating")
        >>> labelled.label_of(2), labelled.label_of(1), labelled.name_of_event(), labelled.identity == graph.identity
        ('distrust', None, 'rating', True)
        """
        classes = None if labels is None else columns.check_labels(labels, self.num_events)
        names = columns.check_label_names(classes, label_names)
        event = self.event_name if event_name is None else str(event_name)
        return replace(self, labels=classes, label_names=names, event_name=event)

    def label_of(self, row: int) -> str | None:
        """The name of the class of an event; None if it is unknown, or if the event is imagined."""
        if self.labels is None or row >= self.num_events or self.labels[row] < 0:
            return None
        assert self.label_names is not None
        return self.label_names[int(self.labels[row])]

    def name_of_event(self) -> str:
        """What one event is called: as the user calls it, else "event"."""
        return "event" if self.event_name is None else self.event_name

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
        """The query about event `row`, as it stood just before it happened."""
        row = columns.whole_number("the row of an event", row)
        if not 0 <= row < self.num_events:
            raise CallError(f"event {row} is out of range: rows go from 0 to {self.num_events - 1}")
        return Query(int(self.src[row]), int(self.dst[row]), float(self.time[row]), row)

    def link(self, src: Any, dst: Any, time: float | str | date | np.datetime64) -> Query:
        """The query about a link that need not have happened. Warns (`TimeWarning`) long after the end of the log.

        Args:
            src: a node, as the user names it.
            dst: the other node.
            time: a time, as in `when`; all events up to and including it are visible.
        """
        query = self.query_at(src, dst, time)
        warn_if_long_after(self, query.time)
        return query

    def query_at(self, src: Any, dst: Any, time: float | str | date | np.datetime64) -> Query:
        """The query of `link`, without its warning.

        Args:
            src: The source node, by its name.
            dst: The destination node, by its name.
            time: When the link is scored.
        """
        moment = self.when(time)
        before = int(np.searchsorted(self.time[: self.num_events], moment, side="right"))
        return Query(self.node(src), self.node(dst), moment, before)

    def ahead(self, query: Query, until: float | str | date | np.datetime64) -> Query:
        """The same link at a later time, as if nothing happened until then: events after the query stay unseen.

        Args:
            query: The link.
            until: A time after that of the query.

        >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[10.0, 20.0, 30.0])
        >>> graph.ahead(graph.query(1), 40.0)
        Query(src=1, dst=2, time=40.0, before=1)
        """
        moment = self.when(until)
        if not moment > query.time:
            written = (moment_and_zone(moment), moment_and_zone(query.time))
            raise CallError(f"{written[0]} does not lie after the time of the prediction, {written[1]}")
        warn_if_long_after(self, moment)
        return query._replace(time=moment)

    def is_ahead(self, query: Query) -> bool:
        """Whether a query leaves out events that happened before its time, as those of `ahead` do."""
        return query.before < self.num_events and bool(self.time[query.before] < query.time)

    def state(self, node: Any, time: float | str | date | np.datetime64) -> Query:
        """The query about the state of a node, for models that label nodes: it has the node at both ends.

        Args:
            node: The node, as the user names it.
            time: When, as in `link`.
        """
        return self.link(node, node, time)

    def when(self, time: float | str | date | np.datetime64) -> float:
        """A time as the user gives it: a number, a date, or "now" or "end", which both mean the time of the last event.

        A date means unix seconds. Without a time zone it is in UTC; as text, in the zone that CODY_TIMEZONE names, else
        UTC.
        """
        if isinstance(time, str) and time.strip().casefold() in LATEST:
            return float(self.time[self.num_events - 1])
        return columns.to_seconds(time)

    def node(self, name: Any) -> int:
        """The id of the node that the user calls `name`."""
        wanted = str(name)
        if self.names is None:
            try:
                number = int(wanted)
            except ValueError:
                raise CallError(f"node {name!r} is not a number, and the nodes of this graph have no names") from None
            return self._existing(number)
        numbers = self.names.dtype.kind in "iu"
        if numbers and not re.fullmatch("0|-?[1-9][0-9]{0,19}", wanted):
            found = np.empty(0, dtype=np.int64)  # "07" and "7.0" are not the name of any node
        else:
            found = np.flatnonzero(self.names == (int(wanted) if numbers else wanted))
        if not found.size:
            raise CallError(f"there is no node {wanted!r}{did_you_mean(wanted, self.names)}")
        return int(found[0])

    def _existing(self, node: int) -> int:
        node = columns.whole_number("node", node)
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

        Equals `offsets[node]` where the node has no such event. A binary search in all histories at once, if there are
        more than a few.
        """
        low, high = self.offsets[nodes], self.offsets[np.asarray(nodes) + 1]
        before = np.broadcast_to(before, low.shape)
        if low.ndim == 1 and len(low) <= FEW:
            lists, given = np.asarray(self.incidence), (low.tolist(), high.tolist(), before.tolist())
            within = [lists[first:stop].searchsorted(row) for first, stop, row in zip(*given, strict=True)]
            return low + np.array(within, dtype=low.dtype)
        # All look-ups are in step: as many halvings as the longest history needs, and shorter ones stay where they are.
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            earlier = (self.incidence.take(middle, mode="clip") < before) & (low < high)
            np.copyto(low, middle + 1, where=earlier)
            np.copyto(high, middle, where=~earlier)
        return low

    def recent(self, nodes: IntArray, before: IntArray | int, count: int) -> IntArray:
        """The most recent rows of each node, latest first, -1 where there are fewer. [n, count]

        Args:
            nodes: The nodes. [n]
            before: Only rows below it count; one number, or one per node.
            count: Number of rows per node.
        """
        positions = self.ends(nodes, before)[:, None] - 1 - np.arange(count)
        exists = positions >= self.offsets[nodes][:, None]
        rows = self.incidence[np.maximum(positions, 0)] if len(self.incidence) else np.zeros_like(positions)
        return np.where(exists, rows, -1)

    def other_end(self, rows: IntArray, nodes: IntArray | int) -> IntArray:
        """The node at the other end of each event; of a self-loop, the node itself. [n], [n] → [n]"""
        return self.src[rows] + self.dst[rows] - nodes

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
        old_row, place = row, row - self.num_events
        if self.imagined is not None and place >= 0 and isinstance(self.imagined.edits[place], Alter):
            old_row = int(self.imagined.replaces[place])
        changes = zip(names, self._features_in_words(old_row), self._features_in_words(row), strict=True)
        return ", ".join(f"{name} {new}" if old == new else f"{name} {old} → {new}" for name, old, new in changes)

    def _features_in_words(self, row: int) -> list[str]:
        features = self.features_of(np.array([row]))
        assert features is not None
        return [f"{value:.6g}".replace("-", "−") for value in features[0].tolist()]

    def next_real(self, rows: IntArray) -> IntArray:
        """The first real row at or after each row: a real one itself, of an imagined one the next. [n] → [n]"""
        if self.imagined is None:
            return rows
        real = rows < self.num_events
        return np.where(real, rows, self.imagined.next_real[np.where(real, 0, rows - self.num_events)])

    def time_rank(self, rows: IntArray) -> IntArray:
        """Numbers in the order of time, for real and imagined rows; `rows` themselves if none is imagined. [n] → [n]

        With k imagined rows there are k + 1 numbers for each real row: the last is its own, those before it belong to
        the imagined rows that come before it.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if self.imagined is None:
            return rows
        real, count = rows < self.num_events, len(self.imagined)
        own = np.where(real, count, self.imagined.rank[np.where(real, 0, rows - self.num_events)])
        return self.next_real(rows) * (count + 1) + own

    def first_rank(self, rows: IntArray) -> IntArray:
        """The lowest `time_rank` that a row can have whose `next_real` is this one. [n] → [n]"""
        return rows if self.imagined is None else rows * (len(self.imagined) + 1)

    def in_time_order(self, rows: IntArray) -> IntArray:
        """These rows, real and imagined, the oldest first. [n] → [n]"""
        return rows[np.argsort(self.time_rank(rows), kind="stable")]

    @property
    def base_identity(self) -> str:
        """The identity of the real events, whatever is imagined."""
        return self.identity if self.imagined is None else self.imagined.base_identity

    def difference(self, change: Iterable[int], query: Query) -> Difference:
        """What a query sees of a change. Of several imagined rows that replace the same real row, the first counts."""
        absent = {row for row in change if row < query.before}
        if self.imagined is None:
            return Difference(frozenset(absent), ())
        visible = set(self.imagined_before(query).tolist())
        replacement: dict[int, int] = {}  # real row → the imagined row that takes its place
        present = []
        for row in sorted(row for row in change if row >= self.num_events):
            real = int(self.imagined.replaces[row - self.num_events])
            counts = real == NOTHING or replacement.setdefault(real, row) == row
            if counts and row in visible:
                present.append(row)
        absent.update(real for real in replacement if real < query.before)
        return Difference(frozenset(absent), tuple(present))

    def imagined_before(self, query: Query) -> IntArray:
        """The imagined rows that a query would see if they were present, in the order of time."""
        if self.imagined is None:
            return np.empty(0, dtype=np.int64)
        # A row is seen with the real rows before it, except an altered event, which takes the place of its next one.
        altered = self.imagined.next_real == self.imagined.replaces
        seen = (self.imagined.next_real + altered <= query.before) & (self.imagined.time <= query.time)
        return self.in_time_order(self.num_events + np.flatnonzero(seen))

    def imagine(
        self, edits: Sequence[Edit], *, new_nodes: Sequence[Any] = (), query: Query | None = None
    ) -> TemporalGraph:
        """The log with one more row for each edit, absent unless a change names it.

        The rows are numbered from `num_events` on, in the order of the edits. Real rows keep their numbers, and queries
        of this graph are queries of the longer one. Columns of features are not copied.

        Args:
            edits: What might have been.
            new_nodes: Names of nodes that edits may have although they do not exist.
            query: A query of `ahead`: what is imagined after the past that it sees comes before the events that it does
                not see.

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
        placed = "" if query is None or not self.is_ahead(query) else f"|{query.before}"
        last = query.before if query is not None and placed else self.num_events
        rows = imagined_rows(wider, edits, self.identity, last)
        names = ("src", "dst", "time")
        longer: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(rows, name)]) for name in names}
        added = columns.identity_of(wider.num_nodes, rows.src, rows.dst, rows.time, rows.features, rows.replaces)
        combined = hashlib.blake2b(f"{self.identity}|{added}{placed}".encode(), digest_size=16).hexdigest()
        return replace(wider, **longer, identity=combined, imagined=rows)

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
        every = [*known.tolist(), *names] if known.dtype.kind in "iu" else [*known, *map(str, names)]
        offsets = np.concatenate([self.offsets, np.repeat(self.offsets[-1:], len(names))])
        return replace(self, node_features=features, names=columns.check_names(every), offsets=offsets)

    def with_change(self, change: Iterable[int]) -> TemporalGraph:
        """The log as it would be: without the real rows of a change, with the imagined ones. Events are numbered anew.

        >>> from cody.graph.edits import Move
        >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[1, 2, 2], time=[10.0, 20.0, 30.0])
        >>> graph.imagine([Move(1, 5.0)]).with_change({2, 3}).time
        array([ 5., 10.])
        """
        everything = Query(0, 0, np.inf, self.num_events)
        absent, present = self.difference(change, everything)
        rows = np.array([row for row in range(self.num_events) if row not in absent] + list(present), dtype=np.int64)
        if not len(rows):
            raise CallError("without these events there are none left")
        return self._of_rows(self.in_time_order(rows))

    def select(self, rows: IntArray | BoolArray) -> TemporalGraph:
        """The graph of these events only: the same nodes, events numbered from 0."""
        columns.check_sorted(columns.check_times(self.time[rows]))
        return self._of_rows(np.arange(self.num_rows)[rows])

    def _of_rows(self, rows: IntArray) -> TemporalGraph:
        """The same nodes with these events, which are in the order of time, numbered from 0."""
        inputs = self.src[rows], self.dst[rows], self.time[rows], self.features_of(rows), self.node_features
        graph = _assemble(self.num_nodes, inputs, self.names, self.feature_names)
        if self.labels is None:
            return replace(graph, event_name=self.event_name)
        real = rows < self.num_events  # what might have been has no known label
        labels = np.where(real, self.labels[np.where(real, rows, 0)], -1)
        return graph.with_labels(labels, self.label_names, self.event_name)


def check_query(graph: TemporalGraph, query: Query) -> None:
    """Reject a query that does not fit the graph."""
    if not isinstance(query, Query):
        raise CallError(f"a query is made by graph.query(row) or graph.link(src, dst, time), not {query!r}")
    for end in ("src", "dst"):
        _check_end(graph, end, getattr(query, end))
    if not 0 <= columns.whole_number("before", query.before) <= graph.num_events:
        raise CallError(f"before={query.before} is out of range: the graph has {graph.num_events} events")
    last = query.before - 1
    if columns.finite_time(query.time) < graph.time[last] and query.before:
        raise CallError(f"time={query.time} is earlier than the latest visible event, row {last} at {graph.time[last]}")


def check_queries(graph: TemporalGraph, queries: Sequence[Query]) -> None:
    """Reject queries that do not fit the graph; where only destinations differ, the rest is checked once."""
    known: Query | None = None
    for query in queries:
        if known is not None and isinstance(query, Query) and query[:1] + query[2:] == known[:1] + known[2:]:
            _check_end(graph, "dst", query.dst)
        else:
            check_query(graph, query)
            known = query


def _check_end(graph: TemporalGraph, end: str, node: int) -> None:
    if not 0 <= columns.whole_number(end, node) < graph.num_nodes:
        raise CallError(f"{end}={node} is not a node: nodes go from 0 to {graph.num_nodes - 1}")


def verify_graph(graph: TemporalGraph) -> None:
    """Read a whole graph and reject it if its columns are not those that were saved. Names are not checked."""
    inputs = (graph.src, graph.dst, graph.time, graph.features, graph.node_features)
    identity = columns.identity_of(graph.num_nodes, *inputs)
    if identity != graph.identity:
        raise DataError(f"the events have the identity {identity}, not {graph.identity}: they were changed or damaged")
    offsets, incidence = columns.index_by_node(graph.src, graph.dst, graph.num_nodes)
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


# What a model may read of a log: src, dst, time, features, node_features.
Inputs = tuple[IntArray, IntArray, FloatArray, FloatArray | None, FloatArray | None]


def _assemble(
    num_nodes: int, inputs: Inputs, names: NDArray[Any] | None, feature_names: tuple[str, ...] | None
) -> TemporalGraph:
    """A graph from columns that have been checked."""
    every = (*inputs, names, *columns.index_by_node(*inputs[:2], num_nodes))
    for column in every:
        if column is not None:
            column.setflags(write=False)
    return TemporalGraph(*every, columns.identity_of(num_nodes, *inputs), feature_names=feature_names)
