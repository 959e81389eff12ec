"""Masks, and the compiled forms of what is looked up by them."""

import numpy as np
import pytest

from cody.engine.attention import Attention, Maps
from cody.engine.library import library
from cody.engine.masks import EditableEvents, Windows
from cody.engine.vectors import CompiledRows, PureRows
from cody.graph.edits import Add
from random_events import random_graph

needs_library = pytest.mark.skipif(library() is None, reason="the compiled library is not built")


def both_forms(monkeypatch, compute):
    results = []
    for pure in ("1", "0"):
        monkeypatch.setenv("CODY_PURE", pure)
        results.append(compute())
    return results


@needs_library
@pytest.mark.parametrize("width", [1, 2, 41])
def test_both_forms_number_rows_in_the_order_in_which_they_come(width):
    rng = np.random.default_rng(width)
    pure, quick, seen = PureRows(), CompiledRows(library(), width), {}
    for count in (0, 1, 300, 5000, 3):
        rows = rng.integers(-2, 3, (count, width)) * rng.integers(1, 2**40, (1, width))
        known = len(seen)
        expected = [seen.setdefault(tuple(row), len(seen)) for row in rows.tolist()]
        for numbers, new in (quick.find(rows), pure.find(rows)):
            assert numbers.tolist() == expected
            assert new.tolist() == [expected.index(number) for number in range(known, len(seen))]


@pytest.mark.parametrize("imagined", [False, True])
@pytest.mark.parametrize("count", [1, 4, 20])
def test_a_node_attends_to_its_latest_events_that_happened(count, imagined):
    rng = np.random.default_rng(count)
    graph = random_graph(rng, nodes=12, events=200)
    if imagined:
        graph = graph.imagine([Add(3, 5, float(graph.time[150])), Add(5, 7, float(graph.time[20]))])
    query = graph.query(190)
    editable = EditableEvents(graph, query, [*range(90, 190), *range(200, graph.num_rows)])
    windows = Windows(graph, query, editable, np.arange(12), count)
    changes = [
        frozenset(rng.choice(sorted(editable.rows), size, replace=False).tolist()) for size in (0, 1, 5, 40, 100)
    ]
    bits = editable.masks(changes)
    nodes, which = np.repeat(np.arange(12), len(changes)), np.tile(np.arange(len(changes)), 12)
    chosen = windows.choose(nodes, bits[which])
    start = 0
    for node, change, length in zip(nodes.tolist(), which.tolist(), chosen.length.tolist(), strict=True):
        rows = windows.events[windows.event.ravel()[chosen.place[start : start + length]]]
        start += length
        happened = [row for row in graph.history(node, 190).tolist() if row not in changes[change]]
        happened += [row for row in changes[change] if row >= 200 and node in (graph.src[row], graph.dst[row])]
        in_order = graph.in_time_order(np.array(happened, dtype=np.int64)).tolist()
        assert rows.tolist() == in_order[::-1][:count]


@needs_library
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("widths", [(3,), (16, 5), (64, 100)])
def test_both_forms_attend_to_the_same(heads, widths, monkeypatch):
    rng = np.random.default_rng(heads)
    d, width, n, places = 7, sum(widths), 150, 6
    maps = Maps(np.zeros((0, 0)), np.zeros(0), rng.normal(size=(heads * width, d)), rng.normal(size=d), heads, width)
    length = rng.integers(0, places + 1, n)
    asked, which = rng.normal(size=(9, heads * width + d)) * rng.choice([0.1, 30.0], (9, 1)), rng.integers(9, size=n)
    beyond = np.arange(places) >= length[:, None]
    sources = [
        (rng.normal(size=(40, wide)), np.where(beyond, -1, rng.integers(40, size=(n, places)))) for wide in widths
    ]
    pure, quick = both_forms(monkeypatch, lambda: Attention(maps, places)((asked, which), sources, length))
    np.testing.assert_allclose(quick, pure, rtol=1e-12, atol=1e-12)
    alone = Attention(maps, places)((asked, which[3:4]), [(table, ids[3:4]) for table, ids in sources], length[3:4])
    np.testing.assert_allclose(quick[3:4], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("form")
def test_what_is_not_finite_stays_so():
    maps = Maps(np.zeros((0, 0)), np.zeros(0), np.ones((2, 1)), np.zeros(1), 1, 2)
    with np.errstate(all="ignore"):
        asked, events = (np.full((1, 3), 1e200), np.zeros(1, int)), (np.full((1, 2), 1e200), np.zeros((1, 2), int))
        hidden = Attention(maps, 2)(asked, [events], np.array([2]))
    assert not np.isfinite(hidden).any()


@pytest.mark.parametrize("editable", [[], [3, 8, 9], list(range(20, 170))])
def test_the_bits_of_a_change_are_those_of_its_editable_events(editable):
    graph = random_graph(np.random.default_rng(0), nodes=6, events=200)
    events = EditableEvents(graph, graph.query(180), editable)
    changes = [frozenset(), frozenset({2, 9, 199}), frozenset({8, 20, 83, 84, 169}), frozenset(range(200))]
    flags = np.unpackbits(events.masks(changes).view(np.uint8), axis=1, bitorder="little")
    for change, bits in zip(changes, flags, strict=True):
        assert events.events[np.flatnonzero(bits)].tolist() == sorted(change.intersection(editable))
