"""What might have been: the fast engines equal the plain replay, and the replay means what it says."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.engine import FastTGAT, FastTGN, Replay, fast_model, tgn
from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add, Alter, Move
from cody.models.contract import model_on
from random_events import random_graph, random_network

EXAMPLES = int(os.environ.get("CODY_EXAMPLES", "200"))
pytestmark = pytest.mark.usefixtures("form")  # each test in the compiled form, and in numpy
KINDS = ["tgn", "tgat"]


def engine(network, graph):
    """In double precision throughout, the table included."""
    weights = {"table_dtype": np.float64} if network.kind == "tgn" else {}
    return (FastTGN if network.kind == "tgn" else FastTGAT)(network, graph, **weights)


def random_edits(rng, graph, count):
    """Edits of all kinds, many of them at times and between nodes where something happens."""
    edits = []
    for _ in range(count):
        time = float(rng.choice(graph.time) + rng.choice([-5.0, 0.0, 0.0, 0.5, 100.0]))
        kind = rng.integers(3 if graph.features is not None else 2)
        if kind == 0:
            src, dst = rng.integers(0, graph.num_nodes, 2).tolist()
            features = None if graph.features is None else rng.normal(size=graph.features.shape[1]).tolist()
            edits.append(Add(src, dst, time, features))
        elif kind == 1:
            edits.append(Move(int(rng.integers(graph.num_events)), time))
        else:
            edits.append(Alter(int(rng.integers(graph.num_events)), rng.normal(size=graph.features.shape[1]).tolist()))
    return edits


@st.composite
def cases(draw, kind):
    """A random graph with edits, a network, a query, and changes that mix edits with removals."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    graph = random_graph(
        rng,
        nodes=draw(st.sampled_from([2, 5, 12, 30])),
        events=draw(st.sampled_from([1, 2, 10, 60, 150])),
        edge_features=draw(st.sampled_from([0, 2])),
        node_features=draw(st.sampled_from([0, 3])),
        bipartite=draw(st.booleans()),
        ties=draw(st.booleans()),
    )
    network = random_network(
        graph,
        kind,
        seed=int(rng.integers(1000)),
        layers=draw(st.sampled_from([1, 2])),
        neighbours=draw(st.sampled_from([1, 3, 20])),
        batch=draw(st.sampled_from([1, 7, 32, 200])),
    )
    longer = graph.imagine(random_edits(rng, graph, draw(st.integers(1, 9))))
    before = int(rng.integers(0, graph.num_events + 1))
    src, dst = rng.integers(0, graph.num_nodes, 2).tolist()
    latest = graph.time[before - 1] if before else graph.time[0] - 1.0
    query = Query(src, dst, float(latest + rng.choice([0.0, 0.25, 1000.0])), before)
    sizes = np.minimum([0, 1, 1, 2, 3, 8, longer.num_rows // 2], longer.num_rows)
    changes = [frozenset(rng.choice(longer.num_rows, size, replace=False).tolist()) for size in sizes]
    imagined = frozenset(range(graph.num_events, longer.num_rows))
    return graph, longer, network, query, [*changes, imagined, frozenset(range(longer.num_rows))]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_about_edits_equal_replay(kind):
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES == 200, database=None)
    @given(cases(kind))
    def check(case):
        graph, longer, network, query, changes = case
        plain = Replay(network, longer, dtype=np.float64)
        expected = plain.logits(query, changes)
        model = engine(network, graph).on(longer)
        session = model.session(query, range(longer.num_rows))
        np.testing.assert_allclose(model.logits(query, changes), expected, rtol=0, atol=1e-9)
        one_by_one = [session.logits([change])[0] for change in changes]
        np.testing.assert_allclose(one_by_one, expected, rtol=0, atol=1e-9)
        windows = [model.reference(query, change).logits(query, [change])[0] for change in changes]
        np.testing.assert_allclose(windows, expected, rtol=0, atol=1e-9)

    check()


def test_answers_about_edits_hardly_move_where_memories_that_are_nearly_the_same_are_shared(monkeypatch):
    monkeypatch.setattr(tgn, "MANY_VERSIONS", 0)
    monkeypatch.setattr(tgn, "SMALL_CHANGE", 1e-6)

    @settings(max_examples=EXAMPLES // 8, deadline=None, derandomize=EXAMPLES == 200, database=None)
    @given(cases("tgn"))
    def check(case):
        graph, longer, network, query, changes = case
        expected = Replay(network, longer, dtype=np.float64).logits(query, changes)
        session = engine(network, graph).on(longer).session(query, range(longer.num_rows))
        answers = np.concatenate([session.logits(changes[:4]), session.logits(changes[4:])])
        np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-3)
        np.testing.assert_array_equal(session.logits(changes), answers)

    check()


GRAPH = random_graph(np.random.default_rng(5), nodes=12, events=120, edge_features=2)
END = GRAPH.num_events


@pytest.fixture(params=KINDS)
def network(request):
    return random_network(GRAPH, request.param, batch=16, neighbours=5)


def logits(network, graph, query, *changes):
    """By the plain replay, which the fast engine must agree with."""
    changes = [frozenset(change) for change in changes]
    expected = Replay(network, graph, dtype=np.float64).logits(query, changes)
    model = model_on(engine(network, GRAPH), graph) if graph is not GRAPH else engine(network, GRAPH)
    np.testing.assert_allclose(model.logits(query, changes), expected, rtol=0, atol=1e-9)
    return expected


def with_events(rows):
    """A log in which the rows of another one stand in a given order: what an edit should be equal to."""
    src, dst, time, features = zip(*rows, strict=True)
    return TemporalGraph.from_arrays(src, dst, time, features=features, num_nodes=GRAPH.num_nodes)


def events(graph):
    return [
        (int(graph.src[row]), int(graph.dst[row]), float(graph.time[row]), graph.features[row]) for row in range(END)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_an_added_event_equals_a_log_that_has_it_where_the_grid_cannot_tell(kind):
    """With one row in each batch, a row more is a batch more, shared only with the row before which it stands."""
    network = random_network(GRAPH, kind, batch=1, neighbours=5)
    query, compared = GRAPH.query(115), 0
    for row in range(60, 120, 4):
        src, dst, time, features = 3, 4, float(GRAPH.time[row]) + 0.25, [0.5, -1.0]
        longer = GRAPH.imagine([Add(src, dst, time, features)])
        place = int(longer.imagined.next_real[0])
        if place < END and {src, dst} & {int(GRAPH.src[place]), int(GRAPH.dst[place])}:
            continue
        rows = events(GRAPH)
        rows.insert(place, (src, dst, time, np.array(features)))
        asked = query._replace(before=115 + (place <= 115))
        expected = Replay(network, with_events(rows), dtype=np.float64).logits(asked, [frozenset()])
        np.testing.assert_allclose(logits(network, longer, query, [END]), expected, rtol=0, atol=1e-9)
        compared += 1
    assert compared > 5


def test_edits_that_do_nearly_the_same_are_all_followed(monkeypatch):
    monkeypatch.setattr(tgn, "MANY_VERSIONS", 0)
    network, query = random_network(GRAPH, "tgn", batch=4, neighbours=5), GRAPH.query(110)
    time = float(GRAPH.time[90]) + 0.5
    longer = GRAPH.imagine([Add(query.src, 4, time, [2.0, -3.0 + 1e-6 * number]) for number in range(3)])
    changes = [frozenset({END + number}) for number in range(3)]
    expected = Replay(network, longer, dtype=np.float64).logits(query, changes)
    answers = engine(network, GRAPH).on(longer).logits(query, changes)
    np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-4)


def test_an_imagined_event_is_absent_unless_a_change_names_it(network):
    query = GRAPH.query(110)
    edits = [
        Add(query.src, query.dst, float(GRAPH.time[105]) + 0.5),
        Move(int(GRAPH.history(query.src, 110)[-1]), float(GRAPH.time[60])),
    ]
    longer = GRAPH.imagine(edits)
    (whole,) = logits(network, GRAPH, query, [])
    nothing, added, moved = logits(network, longer, query, [], [END], [END + 1])
    assert nothing == whole
    assert added != whole
    assert moved != whole


def test_moving_beyond_the_query_equals_removing(network):
    query = GRAPH.query(110)
    row = int(GRAPH.history(query.src, 110)[-1])
    longer = GRAPH.imagine([Move(row, float(GRAPH.time[110])), Move(row, float(GRAPH.time[-1]) + 50)])
    removed, moved, further = logits(network, longer, query, [row], [END], [END + 1])
    assert removed == moved == further


def test_an_event_added_after_the_query_or_at_its_time_changes_nothing(network):
    query = GRAPH.query(110)
    edits = [Add(query.src, query.dst, query.time), Add(query.src, query.dst, query.time + 1)]
    whole, same_time, later = logits(network, GRAPH.imagine(edits), query, [], [END], [END + 1])
    assert whole == same_time == later


def test_a_link_that_need_not_have_happened_sees_what_is_imagined_up_to_its_time(network):
    link = GRAPH.link(3, 4, float(GRAPH.time[-1]) + 10)
    edits = [Add(3, 4, link.time), Add(3, 4, link.time + 1e-3)]
    whole, same_time, later = logits(network, GRAPH.imagine(edits), link, [], [END], [END + 1])
    assert whole == later
    assert whole != same_time


def test_moving_to_where_it_is_and_altering_to_what_it_is_changes_nothing_but_the_order(network):
    query = GRAPH.query(110)
    row = int(GRAPH.history(query.src, 110)[-1])
    longer = GRAPH.imagine([Alter(row, GRAPH.features[row].tolist()), Alter(row, [9.0, -9.0])])
    whole, same, other = logits(network, longer, query, [], [END], [END + 1])
    assert whole == pytest.approx(same, abs=1e-12)
    assert whole != other


def test_of_several_rows_that_stand_for_the_same_event_the_first_counts(network):
    query = GRAPH.query(110)
    row = int(GRAPH.history(query.src, 110)[-1])
    longer = GRAPH.imagine([Move(row, float(GRAPH.time[50])), Move(row, float(GRAPH.time[90])), Alter(row, [1, 2])])
    first, both, removed_too = logits(network, longer, query, [END], [END, END + 1, END + 2], [END, row])
    assert first == both == removed_too


def test_nodes_without_history_and_new_nodes_can_take_part(network):
    query = GRAPH.query(110)
    fresh = GRAPH.num_nodes - 1
    assert len(GRAPH.history(fresh, END)) == 0
    time = float(GRAPH.time[105]) + 0.5
    longer = GRAPH.imagine([Add(fresh, query.src, time), Add("new", query.src, time)], new_nodes=["new"])
    whole, known, new = logits(network, longer, query, [], [END], [END + 1])
    assert known == pytest.approx(new, abs=1e-9)  # neither has a past
    assert whole != known
    asked = logits(network, longer, longer.link("new", "4", float(GRAPH.time[-1])), [], [END + 1])
    assert asked[0] != asked[1]


def test_a_self_loop_can_be_imagined(network):
    query = GRAPH.query(110)
    longer = GRAPH.imagine([Add(query.src, query.src, float(GRAPH.time[105]) + 0.5)])
    whole, looped = logits(network, longer, query, [], [END])
    assert whole != looped


def test_the_table_of_the_original_log_is_used_as_it_is(monkeypatch):
    network = random_network(GRAPH, "tgn")
    model = fast_model(network, GRAPH)
    monkeypatch.setattr("cody.engine.versions.build_versions", lambda *_: pytest.fail("it was built again"))
    longer = model.on(GRAPH.imagine([Add(1, 2, 3.0)]))
    assert longer.table is model.table
    with pytest.raises(CallError, match="another log"):
        model.on(GRAPH.select(np.arange(50)))


def test_a_past_of_a_few_events_may_hold_imagined_ones(network):
    query = GRAPH.query(110)
    longer = GRAPH.imagine([Add(query.src, query.dst, float(GRAPH.time[105]) + 0.5), Add(1, 2, query.time + 9)])
    model = engine(network, GRAPH).on(longer)
    kept = {3, 100, END, END + 1}
    change = frozenset(range(110)) - kept | {END}
    expected = Replay(network, longer, dtype=np.float64).logits(query, [change])[0]
    assert model.only(query, frozenset(kept)) == pytest.approx(expected, abs=1e-9)


def test_altering_the_event_that_is_asked_about_changes_nothing(network):
    longer = GRAPH.imagine([Alter(110, [9.0, 9.0]), Alter(109, [9.0, 9.0])])
    whole, itself = logits(network, longer, longer.query(110), [], [END])
    assert whole == itself
    assert longer.imagined_before(longer.query(110)).tolist() == [END + 1]
