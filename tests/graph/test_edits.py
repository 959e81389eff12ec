"""A log with what might have been: where imagined rows stand, what they keep, and what is refused."""

import time

import numpy as np
import pytest

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Alter, Move

GRAPH = TemporalGraph.from_arrays(
    src=[0, 1, 0, 2], dst=[1, 2, 2, 2], time=[10.0, 20.0, 20.0, 30.0], features=np.eye(4, 2), names=["a", "b", "c"]
)


def test_real_rows_keep_their_numbers_and_imagined_ones_follow_in_the_given_order():
    longer = GRAPH.imagine([Add("c", "a", 25.0), Move(0, 20.0), Alter(3, [5.0, 6.0])])
    assert (longer.num_events, longer.num_rows) == (4, 7)
    assert longer.src.tolist() == [0, 1, 0, 2, 2, 0, 2]
    assert longer.dst.tolist() == [1, 2, 2, 2, 0, 1, 2]
    assert longer.time.tolist() == [10, 20, 20, 30, 25, 20, 30]
    assert longer.imagined.replaces.tolist() == [-1, 0, 3]
    assert longer.features_of(np.array([0, 4, 5, 6])).tolist() == [[1, 0], [0, 0], [1, 0], [5, 6]]
    assert longer.query(2) == GRAPH.query(2)
    assert longer.link("a", "b", 22) == GRAPH.link("a", "b", 22)


def test_imagined_rows_stand_after_the_real_ones_of_their_time():
    edits = [Add("a", "b", when) for when in (20.0, 5.0, 20.0, 30.0, 99.0, 19.0)]
    longer = GRAPH.imagine(edits)
    rows = np.arange(10)
    assert longer.in_time_order(rows).tolist() == [5, 0, 9, 1, 2, 4, 6, 3, 7, 8]
    assert longer.next_real(rows).tolist() == [0, 1, 2, 3, 3, 0, 3, 4, 4, 1]


def test_an_altered_event_takes_the_very_place_of_the_original():
    longer = GRAPH.imagine([Alter(1, [0.0, 9.0]), Move(1, 20.0)])
    assert longer.time_rank(np.array([0, 4, 1, 2, 5, 3])).tolist() == sorted(longer.time_rank(np.arange(6)).tolist())


def test_a_query_sees_the_imagined_rows_before_it():
    longer = GRAPH.imagine([Add("a", "b", when) for when in (25.0, 5.0, 30.0, 31.0)])
    assert longer.imagined_before(longer.query(3)).tolist() == [5, 4]
    assert longer.imagined_before(longer.link("a", "b", 30.5)).tolist() == [5, 4, 6]
    assert GRAPH.imagined_before(GRAPH.query(3)).tolist() == []


def test_a_change_is_real_rows_that_did_not_happen_and_imagined_ones_that_did():
    longer = GRAPH.imagine([Add("a", "b", 15.0), Move(0, 12.0), Move(0, 13.0), Move(1, 99.0)])
    outcome = longer.difference({2, 3, 4, 5, 6, 7}, longer.query(3))
    assert outcome.absent == {0, 1, 2}
    assert outcome.present == (4, 5)


def test_a_longer_log_has_an_identity_of_its_own_and_knows_the_original():
    one, same, other = (GRAPH.imagine([Add("a", "b", when)]) for when in (1.0, 1.0, 2.0))
    assert one.identity == same.identity
    assert len({GRAPH.identity, one.identity, other.identity}) == 3
    assert GRAPH.base_identity == one.base_identity == other.base_identity == GRAPH.identity
    assert GRAPH.imagine([]) is GRAPH


def test_new_nodes_are_made_only_when_asked_for():
    with pytest.raises(CallError, match="there is no node 'd'"):
        GRAPH.imagine([Add("a", "d", 5.0)])
    longer = GRAPH.imagine([Add("a", "d", 5.0)], new_nodes=["d"])
    assert (longer.num_nodes, longer.name(3), GRAPH.num_nodes) == (4, "d", 3)
    with pytest.raises(CallError, match="already exists"):
        GRAPH.imagine([Add("a", "b", 5.0)], new_nodes=["b"])


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([Add("a", "x", 1.0)], "there is no node 'x'"),
        ([Add("a", "b", "soon")], "soon"),
        ([Add("a", "b", float("nan"))], "finite"),
        ([Move(4, 1.0)], "event 4 is out of range"),
        ([Move(-1, 1.0)], "event -1 is out of range"),
        ([Alter(0, [1.0])], "features must be 2 finite numbers"),
        ([Alter(0, [1.0, float("inf")])], "features must be 2 finite numbers"),
        ([Alter(0, ["x", 1])], "features must be 2 numbers"),
        ([(0, 1.0)], "an edit is Add"),
    ],
)
def test_edits_that_make_no_sense_are_refused_in_the_users_words(edits, message):
    with pytest.raises(CallError, match=message):
        GRAPH.imagine(edits)


def test_features_are_refused_where_events_have_none():
    plain = TemporalGraph.from_arrays(src=[0, 1], dst=[1, 2], time=[1.0, 2.0])
    for edit in (Alter(0, [1.0]), Add(0, 1, 1.0, [2.0])):
        with pytest.raises(CallError, match="have no features"):
            plain.imagine([edit])
    with pytest.raises(CallError, match="imagined rows already"):
        plain.imagine([Add(0, 1, 1.0)]).imagine([Add(0, 1, 1.0)])


def test_imagining_is_cheap_and_copies_no_features():
    count = 10**6
    rng = np.random.default_rng(0)
    graph = TemporalGraph.from_arrays(
        rng.integers(0, 1000, count), rng.integers(0, 1000, count), np.arange(count), features=np.zeros((count, 4))
    )
    spent = []
    for _ in range(5):
        begun = time.process_time()
        longer = graph.imagine([Add(1, 2, 5e5), Move(7, 6e5)])
        spent.append(time.process_time() - begun)
    assert longer.features is graph.features
    assert longer.incidence is graph.incidence
    assert min(spent) < 0.1  # milliseconds; generous for a busy machine
    print(f"{1000 * min(spent):.1f} ms")
