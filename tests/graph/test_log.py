"""TemporalGraph against a twin written in the plainest way from the definitions."""

from __future__ import annotations

import itertools
import re
import sys
import tracemalloc
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.errors import CallError, DataError, TimeWarning
from cody.graph import Query, TemporalGraph, check_queries, check_query, verify_graph
from cody.graph.columns import hand_over
from cody.graph.neighbourhood import candidates, ends_first, events_among_nodes, events_on_paths, neighbourhood
from cody.models.predict import likely_partners
from cody.models.toy import ToyModel

NEAR = sys.modules[candidates.__module__]  # `cody.candidates` is the function of that name


class Twin:
    """The same graph as a list of (src, dst) rows, with every answer by looking at all of them."""

    def __init__(self, events: list[tuple[int, int]]) -> None:
        self.events = events

    def history(self, node: int, before: int) -> list[int]:
        return [row for row in range(before) if node in self.events[row]]

    def distances(self, query: Query, hops: int) -> dict[int, int]:
        distance = {query.src: 0, query.dst: 0}
        for hop in range(1, hops + 1):
            reached = set(distance)
            for src, dst in self.events[: query.before]:
                if src in reached or dst in reached:
                    distance.setdefault(src, hop)
                    distance.setdefault(dst, hop)
        return distance

    def events_on_paths(self, query: Query, hops: int, size: int) -> list[int]:
        near = self.distances(query, hops - 1)
        rows = [row for row in range(query.before) if any(end in near for end in self.events[row])]
        return rows[-size:]

    def ends_first(self, query: Query, hops: int, size: int) -> list[int]:
        latest = (self.history(end, query.before)[::-1][:size] for end in (query.src, query.dst))
        own = [row for turn in itertools.zip_longest(*latest) for row in dict.fromkeys(turn) if row is not None]
        own = list(dict.fromkeys(own))
        around = self._around(query, hops, own[: max(1, 3 * size // 4)], size)
        if len(own) + len(around) < size:
            around = self._around(query, hops, own, size)
        turns = [(place + 0.5) / 3 for place in range(len(own))], [place + 0.5 for place in range(len(around))]
        return [row for _, row in sorted(zip([*turns[0], *turns[1]], own + around, strict=True), key=lambda x: x[0])][
            :size
        ]

    def _around(self, query: Query, hops: int, own: list[int], size: int) -> list[int]:
        """The latest events of the nodes that `own` events lead to, then of the nodes that those lead to, …"""
        found, rows, inside = list(own), own, set[int]()
        for _ in range(1, hops):
            if len(found) < len(own) + size:
                inside |= {end for row in rows for end in self.events[row]} - {query.src, query.dst}
                rows = [row for row in range(query.before)[::-1] if inside.intersection(self.events[row])]
                rows = rows[: size + len(found)]
                found += [row for row in rows if row not in found]
        return found[len(own) :]

    def events_among_nodes(self, query: Query, hops: int, size: int) -> list[int]:
        near = self.distances(query, hops)
        rows = [row for row in range(query.before) if all(end in near for end in self.events[row])]
        return rows[-size:]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[TemporalGraph, Twin]:
    """Few nodes: self-loops, repeated edges and isolated nodes are common. Coarse times: many are equal."""
    nodes = draw(st.integers(1, 12))
    node = st.integers(0, nodes - 1)
    events = draw(st.lists(st.tuples(node, node), min_size=1, max_size=40))
    steps = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0]), min_size=len(events), max_size=len(events)))
    src, dst = zip(*events, strict=True)
    return TemporalGraph.from_arrays(src, dst, np.cumsum(steps), num_nodes=nodes), Twin(events)


@st.composite
def questions(draw: st.DrawFn) -> tuple[TemporalGraph, Twin, Query]:
    graph, twin = draw(graphs())
    node = st.integers(0, graph.num_nodes - 1)
    before = draw(st.integers(0, graph.num_events))
    return graph, twin, Query(draw(node), draw(node), 1e9, before)


@given(graphs(), st.data())
def test_history_is_the_rows_that_touch_the_node(pair: tuple[TemporalGraph, Twin], data: st.DataObject) -> None:
    graph, twin = pair
    before = data.draw(st.integers(0, graph.num_events))
    for node in range(graph.num_nodes):
        assert graph.history(node, before).tolist() == twin.history(node, before)


@given(graphs(), st.data())
def test_ends_and_recent_agree_with_history(pair: tuple[TemporalGraph, Twin], data: st.DataObject) -> None:
    graph, twin = pair
    count = data.draw(st.integers(1, 5))
    nodes = np.tile(np.arange(graph.num_nodes), data.draw(st.sampled_from([1, 40])))  # a few, and many
    before = np.array(data.draw(st.randoms(use_true_random=False)).choices(range(graph.num_events + 1), k=len(nodes)))
    histories = [twin.history(node, int(limit)) for node, limit in zip(nodes, before, strict=True)]
    assert (graph.ends(nodes, before) - graph.offsets[nodes]).tolist() == [len(rows) for rows in histories]
    padded = [([*reversed(rows)] + [-1] * count)[:count] for rows in histories]
    assert graph.recent(nodes, before, count).tolist() == padded


@given(questions(), st.integers(0, 3))
def test_neighbourhood_is_a_breadth_first_search(question: tuple[TemporalGraph, Twin, Query], hops: int) -> None:
    graph, twin, query = question
    nodes, distances = neighbourhood(graph, query, hops)
    assert dict(zip(nodes.tolist(), distances.tolist(), strict=True)) == twin.distances(query, hops)
    assert nodes.tolist() == sorted(nodes.tolist())


@pytest.mark.parametrize("long_walk", [0, 3, 10**9])
@given(question=questions(), hops=st.integers(1, 3), size=st.integers(1, 12))
@settings(max_examples=200)
def test_candidates_follow_both_definitions(
    question: tuple[TemporalGraph, Twin, Query], hops: int, size: int, long_walk: int
) -> None:
    """`long_walk` chooses between the two ways to the same answer."""
    graph, twin, query = question
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NEAR, "LONG_WALK", long_walk)
        paths = candidates(graph, query, hops, size, near=events_on_paths)
        among = candidates(graph, query, hops, size, near=events_among_nodes)
    assert paths.tolist() == twin.events_on_paths(query, hops, size)
    assert among.tolist() == twin.events_among_nodes(query, hops, size)


@given(question=questions(), hops=st.integers(1, 4), size=st.integers(1, 12))
@settings(max_examples=200)
def test_candidates_are_the_latest_events_of_each_end_and_of_the_nodes_that_they_met(
    question: tuple[TemporalGraph, Twin, Query], hops: int, size: int
) -> None:
    graph, twin, query = question
    found = ends_first(graph, query, hops, size)
    assert found.tolist() == twin.ends_first(query, hops, size)
    assert candidates(graph, query, hops, size).tolist() == sorted(found.tolist())
    if len(found) < size:  # then there are no others
        assert sorted(found.tolist()) == twin.events_on_paths(query, hops, len(twin.events))


def test_of_four_candidates_three_are_events_of_the_ends() -> None:
    """Node 0 writes to a hub, node 1 to another, and the hubs to everybody, more often than anybody else."""
    rng = np.random.default_rng(0)
    src = rng.choice([0, 1, 2, 3], 4_000, p=[0.02, 0.02, 0.48, 0.48])
    dst = np.where(src < 2, src + 2, rng.integers(4, 50, 4_000))
    graph = TemporalGraph.from_arrays(src, dst, np.arange(4_000))
    query = Query(0, 1, 4_000.0, 4_000)
    rows = ends_first(graph, query, 2, 64)
    assert sum(src[rows] < 2) == 48
    assert sum(src[rows] == 0) == sum(src[rows] == 1) == 24
    assert len(ends_first(graph, query, 1, 64)) == 64
    assert set(src[ends_first(graph, query, 1, 64)]) == {0, 1}
    assert sum(src[events_on_paths(graph, query, 2, 64)] < 2) < 10


@pytest.mark.parametrize("long_walk", [0, 100, 10**9])
@pytest.mark.parametrize("seed", range(4))
def test_candidates_follow_both_definitions_in_larger_graphs_with_hubs(
    seed: int, long_walk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NEAR, "LONG_WALK", long_walk)
    rng = np.random.default_rng(seed)
    src, dst = (np.minimum(rng.zipf(1.5, 3_000), 600) - 1 for _ in range(2))
    graph = TemporalGraph.from_arrays(src, dst, np.arange(3_000), num_nodes=600)
    twin = Twin(list(zip(src.tolist(), dst.tolist(), strict=True)))
    for row in rng.integers(0, 3_000, 5).tolist():
        query = graph.query(row)._replace(src=int(rng.integers(600)))
        for size in (1, 8, 64):
            paths, among = (candidates(graph, query, size=size, near=n) for n in (events_on_paths, events_among_nodes))
            assert paths.tolist() == twin.events_on_paths(query, 2, size)
            assert among.tolist() == twin.events_among_nodes(query, 2, size)


def near_a_busy_pair(monkeypatch: pytest.MonkeyPatch, src: list[int], dst: list[int]) -> list[int]:
    """The candidates of a link 0 → 1, one hop around it, after these events and before very many of its own."""
    monkeypatch.setattr(NEAR, "LONG_WALK", 0)  # so many that the neighbours of the pair are not all looked up
    later, before = 100 * len(src), len(src)
    graph = TemporalGraph.from_arrays(src + [0] * later, dst + [1] * later, range(before + later))
    return candidates(graph, graph.query(before), hops=1, size=2 * before, near=events_among_nodes).tolist()


def test_a_meeting_long_ago_counts_as_much_as_a_recent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes 2 and 3 met node 0 once, and then only each other and node 4, which never met node 0."""
    src, dst = [2, 3] + [2, 4] * 100, [0, 0] + [3, 3] * 100
    assert near_a_busy_pair(monkeypatch, src, dst) == [0, 1, *range(2, 202, 2)]


def test_a_single_meeting_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 2 met itself again and again, and node 0 once."""
    for row in (0, 1, 26, 27, 28, 29, 90, 91, 92, 93, 98, 99):
        dst = [2] * 100
        dst[row] = 0
        assert near_a_busy_pair(monkeypatch, [2] * 100, dst) == list(range(100))


def test_a_short_walk_back_does_not_go_beyond_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two events are visible; what the nodes meet later makes the last hop look long."""
    monkeypatch.setattr(NEAR, "LONG_WALK", 0)
    graph = TemporalGraph.from_arrays([0, 1] + [0, 1] * 200, [1, 2] + [2, 0] * 200, range(402))
    assert candidates(graph, Query(0, 1, 1.0, 2), size=3, near=events_among_nodes).tolist() == [0, 1]


@given(graphs())
def test_an_event_is_never_its_own_candidate(pair: tuple[TemporalGraph, Twin]) -> None:
    graph, _ = pair
    for row in range(graph.num_events):
        assert (candidates(graph, graph.query(row)) < row).all()


def test_sort_keeps_the_order_of_equal_times_and_moves_features_along() -> None:
    rows = np.arange(1_000)
    graph = TemporalGraph.from_arrays(rows, rows[::-1], rows % 2 * -1.0, features=rows[:, None], sort=True)
    odd_then_even = [*range(1, 1_000, 2), *range(0, 1_000, 2)]
    assert graph.src.tolist() == odd_then_even
    assert graph.features is not None
    assert graph.features[:, 0].tolist() == odd_then_even


def test_a_column_is_taken_as_it_is_only_where_it_is_handed_over() -> None:
    ids, time = np.arange(5, dtype=np.int32), np.arange(5, dtype=float)
    view = time[:]
    time.setflags(write=False)  # it can still be changed: by its views, or by making it writable again
    graph = TemporalGraph.from_arrays(ids, ids, time)
    view[0] = -99.0
    assert graph.time[0] == 0.0
    graph = TemporalGraph.from_arrays(hand_over(ids), hand_over(ids.astype(np.int64)), hand_over(view))
    assert np.shares_memory(graph.src, ids)
    assert not np.shares_memory(graph.dst, ids)
    assert not np.shares_memory(graph.time, view)  # a part of another array is copied
    assert type(graph.src) is type(graph.time) is np.ndarray
    for column in (graph.src, graph.time):
        with pytest.raises(ValueError, match="WRITEABLE"):
            column.setflags(write=True)


def test_nothing_can_be_written_into_a_graph_and_arguments_stay_writable() -> None:
    src, names = np.array([0, 1]), np.array(["ann", "bob"])
    graph = TemporalGraph.from_arrays(src, [1, 0], [1, 2], names=names)
    with pytest.raises(ValueError, match="read-only"):
        graph.src[0] = 1
    src[0], names[0] = 1, "eve"
    assert graph.src[0] == 0
    assert graph.name(0) == "ann"


def test_identity_depends_on_what_answers_depend_on() -> None:
    base = TemporalGraph.from_arrays([0, 1], [1, 0], [1, 2])
    assert base.identity == TemporalGraph.from_arrays([0, 1], [1, 0], [1, 2], names=["a", "b"]).identity
    others = [
        TemporalGraph.from_arrays([1, 1], [1, 0], [1, 2]),
        TemporalGraph.from_arrays([0, 1], [1, 0], [1, 3]),
        TemporalGraph.from_arrays([0, 1], [1, 0], [1, 2], num_nodes=3),
        TemporalGraph.from_arrays([0, 1], [1, 0], [1, 2], features=[[0], [0]]),
    ]
    assert len({base.identity, *(other.identity for other in others)}) == 5


def test_nodes_are_found_by_the_name_the_user_gave() -> None:
    numbers = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2], names=[7, 10, 300])
    assert [numbers.node(name) for name in (7, "10", 300)] == [0, 1, 2]
    words = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2], names=["ann", "bob", "7"])
    assert [words.node(name) for name in ("bob", 7)] == [1, 2]
    assert words.name(1) == "bob"
    for unknown in (8, "07", "7.0", "-", ""):
        with pytest.raises(CallError, match="there is no node"):
            numbers.node(unknown)
    with pytest.raises(CallError, match="did you mean 'ann'"):
        words.node("anne")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([1, "a", 1.5], ["1", "a", "1.5"]),
        ([True, False, None], ["True", "False", "None"]),
        ([b"a", "b", "x" * 1_000], ["a", "b", "x" * 1_000]),
        ([-1, 2**63, 5], ["-1", str(2**63), "5"]),
        ([2**63, 0, 1], [str(2**63), "0", "1"]),
        (np.array(["a", "bb", "c"], dtype=">U2000"), ["a", "bb", "c"]),
        (np.array([b"a", b"b", b"c"]), ["a", "b", "c"]),
        (np.array([0.5, 1.0, 2.0], dtype=np.float32), ["0.5", "1.0", "2.0"]),
        (np.array([3, 2, 1], dtype=np.uint8), ["3", "2", "1"]),
    ],
)
def test_whatever_names_a_node_is_shown_as_it_was_given(names: Any, shown: list[str]) -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2], names=names)
    assert [graph.name(node) for node in range(3)] == shown
    assert [graph.node(name) for name in shown] == [0, 1, 2]


def test_long_texts_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, long = 2_000, "x" * 1_000_000  # 8 GB, if each of the names took as much room as the longest
    many = [str(node) for node in range(nodes - 1)]
    tracemalloc.start()
    for columns in ({"names": [*many, long]}, {"src": [*many, long], "dst": range(nodes), "time": range(nodes)}):
        with pytest.raises(DataError, match="1,000,000"):
            TemporalGraph.from_arrays(**{"src": [0], "dst": [1], "time": [1]} | columns)  # type: ignore[arg-type]
    monkeypatch.setattr("cody.graph.columns.MOST_ROOM_FOR_NAMES", 2**20)
    with pytest.raises(DataError, match=r"the names of 2,000 nodes would take 0\.0 GiB, .* longest, of 900 characters"):
        TemporalGraph.from_arrays([0], [1], [1], names=[*many, "x" * 900])
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_a_link_sees_events_up_to_and_including_its_time() -> None:
    graph = TemporalGraph.from_arrays([0, 1, 0], [1, 2, 2], [1, 2, 2])
    assert graph.link(0, 2, 2) == Query(0, 2, 2.0, 3)
    assert graph.link(0, 2, 1.5).before == 1


def test_select_keeps_nodes_and_numbers_events_from_0() -> None:
    graph = TemporalGraph.from_arrays([0, 1, 2], [1, 2, 0], [1, 2, 3], features=[[1], [2], [3]], names=["a", "b", "c"])
    part = graph.select(np.array([0, 2]))
    assert (part.num_nodes, part.num_events, part.name(2)) == (3, 2, "c")
    assert part.features is not None
    assert part.features[:, 0].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"time": [1, float("nan")]}, "time must be finite; row 1 has nan"),
        ({"time": [float("inf"), 1]}, "time must be finite; row 0 has inf"),
        ({"time": ["a", "b"]}, "time must be numbers"),
        ({"time": [[1], [2]]}, "time must be one column"),
        ({"src": [], "dst": [], "time": []}, "there are no events"),
        ({"time": [2, 1]}, "row 1 is earlier than row 0 .*sort=True"),
        ({"src": [0, -1]}, "row 1 has -1"),
        ({"src": [0, 1.5]}, "src must be integer node ids"),
        ({"dst": [0, 2**31]}, "row 1 has 2147483648"),
        ({"dst": [0]}, r"dst has shape \(1,\), time has 2 rows"),
        ({"features": [[1]]}, "features must have 2 rows"),
        ({"features": [[1], [float("nan")]]}, "row 1 has a NaN"),
        ({"features": [[1], [1e300]]}, "row 1 has a NaN or an infinity"),
        ({"features": [["x"], ["y"]]}, "features must be numbers"),
        ({"node_features": [[1]]}, "node id 1 appears in the events, but node_features says 1 nodes"),
        ({"num_nodes": 2, "names": ["a", "b", "c"]}, "contradictory"),
        ({"names": ["a", "a"]}, "'a' occurs more than once"),
        ({"names": [["a"], ["b"]]}, r"names must be one-dimensional, not an array of shape \(2, 1\)"),
        ({"names": "ab"}, "names must be one-dimensional"),
        ({"names": [["a"], ["b", "c"]]}, "names must be one word or number for each node"),
        (
            {"time": np.array(["2020-01-01", "2020-01-02"], "datetime64[us]")},
            "datetime64.*convert it to seconds, or use cody.load",
        ),
        ({"time": np.array([1, 2], "timedelta64[s]")}, "timedelta64.*convert it to seconds, or use cody.load"),
        ({"time": [datetime(2020, 1, 1), datetime(2020, 1, 2)]}, r"time must be numbers.*cody\.load converts dates"),
        ({"time": [1j, 2j]}, "time must be real numbers, not complex128"),
        ({"time": np.ma.masked_array([1, 2], [False, True])}, "time is a masked array; fill in or drop"),
        ({"time": [1, 10**400]}, "time must be numbers"),
        ({"time": [1, 1e300]}, r"at most 1e\+19 in size; row 1 has 1e\+300"),
        ({"src": np.ma.masked_array([0, 1], [False, True])}, "src is a masked array"),
        ({"src": [[0], [1, 2]]}, "src must be an array of numbers"),
        ({"features": [[1j], [2j]]}, "features must be real numbers"),
        ({"features": [[1], [1, 2]]}, "features must be an array of numbers"),
        ({"node_features": 5}, "the events, but node_features says 0 nodes"),
        ({"dst": [0, 2_000_000_000]}, "2,000,000,001 nodes are too many for 2 events: the ids are sparse"),
        ({"num_nodes": 10**13}, "10,000,000,000,000 nodes are too many for 2 events"),
        ({"num_nodes": 0}, "num_nodes says 0 nodes"),
        ({"names": ["a", "b" * 1_001]}, "names must have at most 1,000 characters; that of node 1 has 1,001"),
        ({"names": np.array(["a", "b" * 1_001])}, "names must have at most 1,000 characters; that of node 1 has"),
        ({"names": np.array(["a", "b" * 1_001], dtype=object)}, "at most 1,000 characters; that of node 1 has 1,001"),
        ({"names": np.array([b"a", b"b" * 1_001])}, "names must have at most 1,000 characters; that of node 1"),
        ({"names": ["a", 10**1_001]}, "names must have at most 1,000 characters; that of node 1 has 1,002"),
        ({"names": ["a", 10**5_000]}, "that of node 1: Exceeds the limit"),
        ({"names": ["a", "\ud800"]}, r"that of node 1 has half a character: '\\ud800'"),
        ({"names": ["a", b"\xff"]}, "that of node 1: 'utf-8' codec can't decode"),
        ({"src": [0, "x" * 1_001]}, "src must be an array of numbers: row 1 has a text of 1,001 characters"),
        ({"time": [0, "1" * 1_001]}, "time must be an array of numbers: row 1 has a text of 1,001 characters"),
        ({"features": [[0, 0], [0, "1" * 1_001]]}, "features must be an array of numbers: row 1 has a text of 1,001"),
    ],
)
def test_columns_that_do_not_form_a_graph_are_refused(columns: dict[str, object], message: str) -> None:
    given_columns = {"src": [0, 1], "dst": [1, 0], "time": [1, 2]} | columns
    with pytest.raises(DataError, match=message):
        TemporalGraph.from_arrays(**given_columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query(3, 0, 9.0, 1), "src=3 is not a node"),
        (Query(0, -1, 9.0, 1), "dst=-1 is not a node"),
        (Query(0, 1, 9.0, 3), "before=3 is out of range"),
        (Query(0, 1, float("nan"), 1), "time must be a finite number"),
        (Query(0, 1, 0.5, 1), "earlier than the latest visible event, row 0"),
    ],
)
def test_queries_that_the_graph_cannot_answer_are_refused(query: Query, message: str) -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2])
    with pytest.raises(CallError, match=message):
        check_query(graph, query)


def test_an_event_out_of_range_is_refused() -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2])
    for row in (-1, 2):
        with pytest.raises(CallError, match=f"event {row} is out of range: rows go from 0 to 1"):
            graph.query(row)
    with pytest.raises(CallError, match="at least 1"):
        candidates(graph, graph.query(1), size=0)


@pytest.mark.parametrize("number", [1.0, True, np.True_, "1", None, np.array([1, 2])])
def test_what_counts_must_be_a_whole_number(number: Any) -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2])
    calls = [
        lambda: graph.query(number),
        lambda: graph.name(number),
        lambda: graph.history(number, 1),
        lambda: candidates(graph, graph.query(1), hops=number),
        lambda: candidates(graph, graph.query(1), size=number),
        lambda: check_query(graph, Query(number, 0, 2.0, 1)),
        lambda: check_query(graph, Query(0, number, 2.0, 1)),
        lambda: check_query(graph, Query(0, 1, 2.0, number)),
    ]
    if number is not None:
        calls.append(lambda: TemporalGraph.from_arrays([0], [0], [1], num_nodes=number))  # type: ignore[arg-type]
    for call in calls:
        with pytest.raises(CallError, match="must be a whole number, not"):
            call()


def test_numpy_integers_are_whole_numbers() -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2], num_nodes=np.int64(3))  # type: ignore[arg-type]
    query = graph.query(np.int32(1))  # type: ignore[arg-type]
    assert query == Query(1, 2, 2.0, 1)
    assert type(query.before) is int
    assert graph.name(np.uint8(2)) == "2"  # type: ignore[arg-type]
    check_query(graph, Query(*np.array([1, 2]), np.float32(2), np.int64(1)))
    assert candidates(graph, query, np.int64(2), np.int64(3)).tolist() == [0]  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [Query(0, 9, 2.0, 1), Query(9, 1, 2.0, 1), Query(0, 1, 2.0, 9), Query(0, 1, 0.5, 1)])
def test_each_of_many_queries_must_fit_even_if_only_its_destination_is_its_own(wrong: Query) -> None:
    graph = TemporalGraph.from_arrays([0, 0], [1, 2], [1, 2])
    check_queries(graph, [Query(0, 1, 2.0, 1), Query(0, 2, 2.0, 1), Query(1, 2, 2.0, 1)])
    with pytest.raises(CallError) as alone:
        check_query(graph, wrong)
    with pytest.raises(CallError, match=re.escape(str(alone.value))):
        check_queries(graph, [Query(0, 1, 2.0, 1), Query(0, 2, 2.0, 1), wrong])


def test_nodes_out_of_range_have_no_name_and_no_history() -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2], names=["a", "b", "c"])
    for node in (-1, 3, 99):
        for call in (graph.name, lambda node: graph.history(node, 2)):
            with pytest.raises(CallError, match=f"node {node} is out of range: nodes go from 0 to 2"):
                call(node)


@pytest.mark.parametrize("query", [(0, 1, 2.0, 1), None, 1])
def test_only_queries_are_accepted_as_queries(query: Any) -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2])
    with pytest.raises(CallError, match=r"a query is made by graph\.query\(row\) or graph\.link\(src, dst, time\)"):
        check_query(graph, query)


@pytest.mark.parametrize(
    "moment",
    [
        1082015761.0,
        datetime(2004, 4, 15, 7, 56, 1),
        datetime(2004, 4, 15, 9, 56, 1, tzinfo=timezone(timedelta(hours=2))),
        np.datetime64("2004-04-15T07:56:01", "ns"),
        pd.Timestamp("2004-04-15 07:56:01"),
        pd.Timestamp("2004-04-15 07:56:01", tz="UTC"),
    ],
)
def test_a_link_takes_the_time_as_seconds_or_as_a_date(moment: Any) -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1082015761, 1082050000])
    assert graph.link(0, 2, moment) == Query(0, 2, 1082015761.0, 1)
    assert graph.link(0, 2, date(2004, 4, 16)).time == 1082073600.0


def test_a_time_long_after_the_log_is_remarked_on() -> None:
    dates = TemporalGraph.from_arrays([0, 1], [1, 2], [1082015761, 1098000000])
    with pytest.warns(TimeWarning, match=r"2030-01-01 00:00 UTC is 25 years after the last event .* spans 185 days"):
        dates.link(0, 2, "2030-01-01")
    with pytest.warns(TimeWarning, match=r"2030-01-01 00:00 UTC is 25 years after the last event"):
        likely_partners(ToyModel(dates), dates, 0, 1, "2030-01-01")
    numbers = TemporalGraph.from_arrays([0, 1], [1, 2], [10.0, 20.0])
    with pytest.warns(TimeWarning, match=r"31 is 11 after the last event \(20\), and the whole log spans 10"):
        numbers.link(0, 2, 31.0)
    assert dates.link(0, 2, "2004-11-01").before == numbers.link(0, 2, 30.0).before == 2  # no warning


@pytest.mark.parametrize(
    "moment", ["x", "inf", None, True, 10**400, 1e300, float("nan"), pd.NaT, np.datetime64("NaT"), []]
)
def test_text_that_is_not_a_time_is_refused(moment: Any) -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2])
    with pytest.raises(CallError, match=r"time must be a|is not a time"):
        graph.link(0, 2, moment)
    with pytest.raises(CallError, match="time must be a finite number"):
        check_query(graph, Query(0, 2, moment, 1))


def test_times_in_nanoseconds_can_be_asked_about() -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1_082_015_761_000_000_000, 1_700_000_000_000_000_000])
    check_query(graph, graph.query(1))


@pytest.mark.parametrize("near", [ends_first, events_on_paths, events_among_nodes])
def test_paths_may_be_very_long(near: Any) -> None:
    """Events 0-1, 1-2, 2-3, …; the query is about node 0."""
    rows = np.arange(300)
    graph = TemporalGraph.from_arrays(rows, rows + 1, rows)
    query = Query(0, 0, 300.0, 300)
    for hops in (1, 2, 126, 127, 128, 129, 299, 300, 301, 40_000, 10**30):
        found = candidates(graph, query, hops, 10**30, near=near)
        assert found.tolist() == list(range(min(hops, 300)))
    assert neighbourhood(graph, query, 10**30)[1].max() == 300


def test_few_events_of_many_nodes_can_be_selected() -> None:
    nodes = np.arange(1_100_000)
    graph = TemporalGraph.from_arrays(nodes, nodes, nodes)
    part = graph.select(np.array([5]))
    assert (part.num_nodes, part.num_events) == (1_100_000, 1)
    assert part.identity == TemporalGraph.from_arrays([5], [5], [5.0], names=nodes).identity
    with pytest.raises(DataError, match="there are no events"):
        graph.select(nodes[:0])
    with pytest.raises(DataError, match="row 1 is earlier than row 0"):
        graph.select(np.array([5, 4]))


def test_a_name_is_found_though_there_are_very_many() -> None:
    names = [f"student {number}" for number in range(50_000)] + ["anastasia"]
    graph = TemporalGraph.from_arrays([0], [50_000], [1], names=names)
    for given_name, meant in (
        ("anatasia", "anastasia"),
        ("Student 49999", "student 49999"),
        ("studnt 49998", "student 49998"),
    ):
        with pytest.raises(CallError, match=f"there is no node '{given_name}'; did you mean '{meant}'"):
            graph.node(given_name)
    with pytest.raises(CallError, match=r"there are 'student 0', .*'student 4', …$"):
        graph.node("12:30")
    numbers = TemporalGraph.from_arrays([0], [1], [1], names=[7, 8])
    with pytest.raises(CallError, match="there is no node"):
        numbers.node("9" * 5_000)


def test_a_graph_whose_columns_do_not_belong_together_is_not_verified() -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1, 2])
    verify_graph(graph)
    with pytest.raises(DataError, match=f"not {graph.identity}: they were changed or damaged"):
        verify_graph(replace(graph, time=np.array([1.0, 3.0])))
    for column in ("offsets", "incidence"):
        with pytest.raises(DataError, match="do not match src and dst"):
            verify_graph(replace(graph, **{column: getattr(graph, column)[::-1]}))
