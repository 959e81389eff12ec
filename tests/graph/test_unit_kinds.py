"""Units of events against the plainest way to put events together: looking at all of them."""

from __future__ import annotations

import pickle
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.graph import units as kinds
from cody.graph.units import find_unit, labelled_by, named_kind

NOON = 1_090_900_800.0  # 2004-07-27 04:00 UTC


def random_graph(seed, events=120, nodes=7, dates=True):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 4 * 86_400, events)).astype(float) + (NOON if dates else 0)
    return TemporalGraph.from_arrays(rng.integers(0, nodes, events), rng.integers(0, nodes, events), times)


def plain_units(graph, before, labels_of):
    """Label → rows, by looking at every row."""
    found = {}
    for row in range(before):
        for label in labels_of(row):
            found.setdefault(label, []).append(row)
    return found


def plain_labels(graph, kind, query):
    def day(row):
        return (datetime.fromtimestamp(graph.time[row], ZoneInfo("UTC")).strftime("day %Y-%m-%d"),)

    def hour(row):
        return (datetime.fromtimestamp(graph.time[row], ZoneInfo("UTC")).strftime("hour %Y-%m-%d %H:00"),)

    def pair(row):
        return ("pair {} ↔ {}".format(*sorted((graph.src[row], graph.dst[row]))),)

    def node(row):
        return {f"node {end}" for end in (graph.src[row], graph.dst[row]) if end not in (query.src, query.dst)}

    return {"day": day, "hour": hour, "pair": pair, "node": node}[kind]


@pytest.mark.parametrize("kind", ["pair", "node", "day", "hour"])
@pytest.mark.parametrize("seed", range(4))
def test_a_unit_has_all_its_events_before_the_link(kind, seed):
    graph = random_graph(seed)
    query = graph.query(90)
    chosen = named_kind(kind)
    labels = list(dict.fromkeys(label for each in chosen.labels(graph, query, np.arange(90)) for label in each))
    found = {unit.name: unit.rows.tolist() for unit in chosen.units(graph, query.before, labels)}
    assert found == plain_units(graph, 90, plain_labels(graph, kind, query))


@pytest.mark.parametrize("seed", range(4))
def test_a_session_ends_with_a_pause_of_its_source(seed):
    graph = random_graph(seed)
    chosen = kinds.session(7_200)
    query = graph.query(100)
    plain, last = {}, {}
    for row in range(100):
        node = int(graph.src[row])
        begins = node not in last or graph.time[row] - graph.time[last[node]] > 7_200
        plain.setdefault(node, []).extend([[row]] if begins else [])
        if not begins:
            plain[node][-1].append(row)
        last[node] = row
    labels = list(dict.fromkeys(label for (label,) in chosen.labels(graph, query, np.arange(100))))
    found = [unit.rows.tolist() for unit in chosen.units(graph, 100, labels)]
    assert sorted(found) == sorted(session for sessions in plain.values() for session in sessions)


def test_the_ends_of_a_link_are_units_by_node_only_if_asked():
    graph = TemporalGraph.from_arrays([0, 0, 2, 0], [1, 2, 1, 1], [1.0, 2.0, 3.0, 4.0])
    query, rows = graph.query(3), np.arange(3)
    assert kinds.node.labels(graph, query, rows) == [(), (2,), (2,)]
    assert kinds.nodes(ends=True).labels(graph, query, rows) == [(0, 1), (0, 2), (2, 1)]


def test_days_are_those_of_the_zone_in_which_dates_are_shown(monkeypatch):
    monkeypatch.setenv("CODY_TIMEZONE", "Europe/Berlin")
    zone = ZoneInfo("Europe/Berlin")
    moments = [datetime(2004, 10, day, hour, 30, tzinfo=zone) for day, hour in ((30, 23), (31, 0), (31, 23))]
    moments.append(datetime(2004, 11, 1, 0, 30, tzinfo=zone))  # the day before had 25 hours
    graph = TemporalGraph.from_arrays([0] * 4, [1] * 4, [moment.timestamp() for moment in moments])
    assert find_unit(graph, kinds.day, "2004-10-31").rows.tolist() == [1, 2]
    assert len(set(kinds.day.labels(graph, graph.query(3), np.arange(4)))) == 3


def test_a_function_of_the_user_makes_units():
    graph = random_graph(0)
    kind = labelled_by(lambda graph, rows: [None if row % 3 == 2 else f"rest {row % 3}" for row in rows.tolist()])
    assert kind.labels(graph, graph.query(5), np.array([0, 1, 2])) == [("rest 0",), ("rest 1",), ()]
    (unit,) = kind.units(graph, 10, ["rest 1"])
    assert unit.name == "unit rest 1"
    assert unit.rows.tolist() == [1, 4, 7]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda graph, rows: [1], "one label for each of 3 rows"),
        (lambda graph, rows: None, "one label for each of 3 rows"),
        (lambda graph, rows: [[1], [2], [3]], "labels such as numbers or texts"),
    ],
)
def test_a_function_that_gives_no_labels_is_rejected(function, message):
    graph = random_graph(0)
    with pytest.raises(CallError, match=message):
        labelled_by(function).labels(graph, graph.query(5), np.array([0, 1, 2]))


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("pair", "1 2 3", "'1 2 3' is not a pair of nodes"),
        ("pair", "1 99", "99"),
        ("node", "99", "99"),
        ("day", "yesterday", "'yesterday' is not a day; write 2004-07-27"),
        ("day", "2004-07-01", "no events of day 2004-07-01; the log goes from 2004-07-27"),
        ("hour", "soon", "'soon' is not an hour"),
        ("session", "1", "a unit by session has no name of its own"),
    ],
)
def test_a_unit_that_does_not_exist_is_one_clear_error(kind, text, message):
    with pytest.raises(CallError, match=message):
        find_unit(random_graph(0), named_kind(kind), text)


def test_a_node_without_events_is_named_in_the_error():
    graph = TemporalGraph.from_arrays([0], [1], [1.0], num_nodes=3)
    with pytest.raises(CallError, match="there are no events of node 2; the log goes from 1 to 1"):
        find_unit(graph, kinds.node, "2")


def test_times_that_are_no_dates_have_no_days():
    graph = random_graph(0, dates=False)
    with pytest.raises(CallError, match="events have no day: their times are numbers such as"):
        kinds.day.labels(graph, graph.query(5), np.arange(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "week"}, "there is no unit 'week'; there are event, pair"),
        ({"name": "pair", "gap": 3.0}, "a gap ends a session"),
        ({"name": "pair", "ends": True}, "give --by node"),
        ({"name": "session", "gap": "long"}, "'long' is not a duration"),
        ({"name": "session", "gap": -1.0}, "must be a time above 0"),
    ],
)
def test_options_that_do_not_fit_a_kind_are_rejected(options, message):
    with pytest.raises(CallError, match=message):
        named_kind(**options)


def test_kinds_can_be_sent_to_workers():
    graph = random_graph(1)
    for name in kinds.KINDS[1:]:
        kind = pickle.loads(pickle.dumps(named_kind(name)))
        assert kind.labels(graph, graph.query(9), np.arange(9)) == named_kind(name).labels(
            graph, graph.query(9), np.arange(9)
        )


def test_conversations_are_called_so_where_events_are_messages():
    graph = TemporalGraph.from_arrays([0, 1], [1, 0], [1.0, 2.0], event_name="message", names=["Ann", "Bob"])
    assert find_unit(graph, kinds.pair, "Bob Ann").name == "conversation Ann ↔ Bob"
