"""Interventions on the past of a link: what an audit changes to see what a model reacts to.

Each is a function of a log, a link and the events near it, and gives a modified past: rows that did not happen and
edits, or the few rows that remain, or a later time of the link. Whatever is random comes from `rng`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from cody.explaining.verification import UNRELATED
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.edits import Add, Alter, Edit, Move
from cody.models.contract import NOTHING, Change
from cody.utils.words import is_date

DAY = 86_400.0


class ModifiedPast(NamedTuple):
    """A link with another past: without some rows and with edits, or with a few rows only."""

    query: Query
    removed: Change = NOTHING
    edits: tuple[Edit, ...] = ()
    kept: Change | None = None  # the past consists of these rows only
    new_nodes: tuple[str, ...] = ()


class Near(NamedTuple):
    """A link and the past events near it, oldest first."""

    graph: TemporalGraph
    query: Query
    rows: IntArray
    rng: np.random.Generator

    @property
    def times(self) -> list[float]:
        return [float(time) for time in self.graph.time[self.rows]]


Modify = Callable[[Near], ModifiedPast | None]  # None: it does not apply to this link


@dataclass(frozen=True, slots=True)
class Intervention:
    """A way to modify the past of a link."""

    name: str
    group: str  # what it tells about: one of the words below
    modify: Modify
    fault: str = ""  # what a model that reacts to it does wrong; empty: a model may react to it


ORDER, TIME, WHEN = "order", "times", "order and times"
DIRECTION, PARTNERS, FEATURES = "direction", "partners", "features"
NEIGHBOURS, HISTORY, FAULT = "neighbours", "history", "must not matter"
USES = {  # what a model uses that reacts to interventions of these groups
    ORDER: "the order of events",
    TIME: "their times",
    DIRECTION: "their direction",
    PARTNERS: "their partners",
    NEIGHBOURS: "the histories of neighbours",
    FEATURES: "their features",
}


def day_of(graph: TemporalGraph) -> float:
    """A day, where times are dates; elsewhere a hundredth of the time that the log spans, which may be 0."""
    last = float(graph.time[graph.num_events - 1])
    return DAY if is_date(last) else (last - float(graph.time[0])) / 100


def _moved(near: Near, times: list[float]) -> ModifiedPast | None:
    """The events near the link at other times, none of them after the link."""
    now = near.query.time
    pairs = zip(near.rows.tolist(), near.times, times, strict=True)
    moves = tuple(Move(row, min(new, now)) for row, old, new in pairs if min(new, now) != old)
    return ModifiedPast(near.query, edits=moves) if moves else None


def later(near: Near) -> ModifiedPast | None:
    """The link a day later: everything is longer ago."""
    day = day_of(near.graph)
    return ModifiedPast(near.query._replace(time=near.query.time + day)) if day else None


def stretched(near: Near) -> ModifiedPast | None:
    """Every event near the link twice as long ago."""
    first = float(near.graph.time[0])
    return _moved(near, [max(2 * time - near.query.time, first) for time in near.times])


def rounded(near: Near) -> ModifiedPast | None:
    """Times rounded down to the day."""
    day = day_of(near.graph)
    return _moved(near, [max(time - time % day, float(near.graph.time[0])) for time in near.times]) if day else None


def shuffled(near: Near) -> ModifiedPast | None:
    """The times of the events near the link exchanged among them, so that they are in another order."""
    return _moved(near, near.rng.permutation(near.times).tolist())


def other_order(near: Near) -> ModifiedPast | None:
    """The times of events of the same ends exchanged: each end is active at the same moments, in another order."""
    graph, query, times = near.graph, near.query, np.array(near.times)
    sides = [(graph.src[near.rows] == end) | (graph.dst[near.rows] == end) for end in (query.src, query.dst)]
    for with_src, with_dst in product((False, True), repeat=2):
        same = np.flatnonzero((sides[0] == with_src) & (sides[1] == with_dst))
        times[same] = near.rng.permutation(times[same])
    return _moved(near, times.tolist())


def other_gaps(near: Near) -> ModifiedPast | None:
    """The times between one event near the link and the next exchanged: other times, in the same order."""
    gaps = np.diff([*near.times, near.query.time])
    return _moved(near, (near.query.time - np.cumsum(near.rng.permutation(gaps)[::-1])[::-1]).tolist())


def reversed_direction(near: Near) -> ModifiedPast | None:
    """Source and destination of the events near the link exchanged."""
    return _with_ends(near, near.rows, near.graph.dst[near.rows], near.graph.src[near.rows])


def other_partners(near: Near) -> ModifiedPast | None:
    """The nodes that the two ends of the link interacted with exchanged among the events, on the same side."""
    src, dst = near.graph.src[near.rows], near.graph.dst[near.rows]
    ends = (near.query.src, near.query.dst)
    sent = np.isin(src, ends)
    received = np.isin(dst, ends) & ~sent
    new_src, new_dst = src.copy(), dst.copy()
    new_dst[sent], new_src[received] = near.rng.permutation(dst[sent]), near.rng.permutation(src[received])
    other = ((new_src != src) | (new_dst != dst)) & (new_src != new_dst)
    return _with_ends(near, near.rows[other], new_src[other], new_dst[other])


def other_histories(near: Near) -> ModifiedPast | None:
    """What the partners of each end did with others exchanged among these partners."""
    src, dst = near.graph.src[near.rows], near.graph.dst[near.rows]
    ends = (near.query.src, near.query.dst)
    stands_for = np.arange(near.graph.num_nodes)
    taken = np.isin(stands_for, ends)
    for end in ends:
        partners = np.unique(np.concatenate([dst[src == end], src[dst == end]]))
        partners = partners[~taken[partners]]  # whoever met both ends counts once
        taken[partners] = True
        stands_for[partners] = near.rng.permutation(partners)
    new_src, new_dst = stands_for[src], stands_for[dst]
    with_others = ~np.isin(src, ends) & ~np.isin(dst, ends)
    other = with_others & ((new_src != src) | (new_dst != dst))
    return _with_ends(near, near.rows[other], new_src[other], new_dst[other])


def _with_ends(near: Near, rows: IntArray, src: IntArray, dst: IntArray) -> ModifiedPast | None:
    """Some events with another source and destination."""
    graph = near.graph
    columns = zip(rows.tolist(), src.tolist(), dst.tolist(), _features(graph, rows), strict=True)
    edits = tuple(Add(graph.name(a), graph.name(b), float(graph.time[row]), some) for row, a, b, some in columns)
    return ModifiedPast(near.query, frozenset(rows.tolist()), edits) if edits else None


def _features(graph: TemporalGraph, rows: IntArray) -> list[tuple[float, ...] | None]:
    features = graph.features_of(rows)
    return [None] * len(rows) if features is None else [tuple(map(float, row)) for row in features]


def no_features(near: Near) -> ModifiedPast | None:
    """The features of the events near the link set to zero."""
    if near.graph.features is None or not _have_features(near):
        return None
    zeros = (0.0,) * near.graph.features.shape[1]
    return ModifiedPast(near.query, edits=tuple(Alter(row, zeros) for row in near.rows.tolist()))


def _have_features(near: Near) -> bool:
    """Whether the features of events near the link tell something: others than those of the first event of all."""
    known, first = (near.graph.features_of(rows) for rows in (near.rows, np.zeros(1, dtype=np.int64)))
    return known is not None and bool((known != first).any())


def permuted_features(near: Near) -> ModifiedPast | None:
    """The features of the events near the link exchanged among them."""
    if not _have_features(near):
        return None
    features = [some for some in _features(near.graph, near.rows) if some is not None]
    order = near.rng.permutation(len(features)).tolist()
    pairs = zip(near.rows.tolist(), order, strict=True)
    return ModifiedPast(near.query, edits=tuple(Alter(row, features[place]) for row, place in pairs))


def without_repeats(near: Near) -> ModifiedPast | None:
    """Of several events near the link from one node to another, the latest alone."""
    ends = [(int(near.graph.src[row]), int(near.graph.dst[row])) for row in near.rows.tolist()]
    latest = dict(zip(ends, near.rows.tolist(), strict=True))  # later ones replace earlier ones
    removed = frozenset(near.rows.tolist()) - frozenset(latest.values())
    return ModifiedPast(near.query, removed) if removed else None


def last_events(number: int, near: Near) -> ModifiedPast:
    """A past that consists of the latest events of each end of the link."""
    query, graph = near.query, near.graph
    kept = (graph.history(node, query.before)[-number:].tolist() for node in {query.src, query.dst})
    return ModifiedPast(query, kept=frozenset(row for rows in kept for row in rows))


def only_of_either(near: Near) -> ModifiedPast:
    """A past that consists of all events of the two ends: nothing that others did with each other."""
    return last_events(near.query.before, near)


def only_of(ends: tuple[str, ...], near: Near) -> ModifiedPast:
    """A past that consists of the events of the source, of the destination, or of the two together."""
    query, graph = near.query, near.graph
    kept = [frozenset(graph.history(getattr(query, end), query.before).tolist()) for end in ends]
    return ModifiedPast(query, kept=frozenset.intersection(*kept))


def unrelated_events(near: Near) -> ModifiedPast | None:
    """Three more events, shortly before the link, between nodes that nobody knows."""
    if not len(near.rows):
        return None
    times = np.linspace(near.times[0], near.query.time, 5)[1:-1].tolist()
    return ModifiedPast(near.query, edits=tuple(Add(*UNRELATED, time) for time in times), new_nodes=UNRELATED)


def without_future(near: Near) -> ModifiedPast | None:
    """The events from the link on removed: they have not happened yet."""
    first, stop = near.query.before, near.graph.num_events
    return ModifiedPast(near.query, frozenset(range(first, min(first + 200, stop)))) if first < stop else None


LAST = {f"only the last {number} of each end": number for number in (1, 2, 5, 10, 20, 50)}
OWN = "only events of either end"
LATER = "the prediction one day later"
INTERVENTIONS = (
    Intervention("times exchanged among events", WHEN, shuffled),
    Intervention("times exchanged within each end", ORDER, other_order),
    Intervention(LATER, TIME, later),
    Intervention("events twice as long ago", TIME, stretched),
    Intervention("gaps between events exchanged", TIME, other_gaps),
    Intervention("times rounded to the day", TIME, rounded),
    Intervention("source and destination exchanged", DIRECTION, reversed_direction),
    Intervention("partners exchanged among events", PARTNERS, other_partners),
    Intervention("histories of neighbours exchanged", NEIGHBOURS, other_histories),
    Intervention(OWN, NEIGHBOURS, only_of_either),
    Intervention("features set to zero", FEATURES, no_features),
    Intervention("features exchanged among events", FEATURES, permuted_features),
    Intervention("repeated events removed", HISTORY, without_repeats),
    *(Intervention(name, HISTORY, partial(last_events, number)) for name, number in LAST.items()),
    Intervention("only events of the two together", HISTORY, partial(only_of, ("src", "dst"))),
    Intervention("only events of the source", HISTORY, partial(only_of, ("src",))),
    Intervention("only events of the destination", HISTORY, partial(only_of, ("dst",))),
    Intervention("unrelated events added", FAULT, unrelated_events, fault="reacts to events of strangers"),
    Intervention("later events removed", FAULT, without_future, fault="looks into the future"),
)
