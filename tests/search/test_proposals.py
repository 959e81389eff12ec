"""Events that could have happened: what is proposed, what is answered, and what is said about it."""

import json
import math
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody import Add, Alter, Move, Protected, Query, TemporalGraph, as_model, explain
from cody.cli import app
from cody.engine import fast_model
from cody.errors import CallError, CodyError, DataError
from cody.explaining.explanation import Explanation
from cody.models import ToyModel
from cody.models.margins import flips
from cody.paper.tables import tables
from cody.search import greedy, intrusion, proposals, scout, top_share
from cody.search.intrusion import _with_gaps
from cody.search.options import SearchOptions
from cody.search.policies import event_impact, spatio_temporal
from cody.search.proposals import (
    VALUES,
    AnyTime,
    additions,
    alterations,
    moves,
    plausible_pairs,
    plausible_times,
    removals,
    tidy_time,
)
from cody.search.run import run_search
from cody.search.space import build_space
from cody.study import metrics
from cody.study.explainers import Explainer, explainer
from cody.study.record import Record
from cody.study.record_file import read_line
from cody.study.run import EvaluationPlan, Link, Sample, evaluate, run
from random_events import random_graph, random_network
from some_records import as_0_2_wrote_it, record

ALL = (removals, additions, moves)


def line(count=20, **others):
    """Node 0 meets 1, 2, 3, … in turn; the link 0 → 9 never happened."""
    src, dst = np.zeros(count, dtype=int), 1 + np.arange(count) % 5
    return TemporalGraph.from_arrays(src=src, dst=dst, time=10.0 * np.arange(count), num_nodes=10, **others)


def bipartite(rng, users=8, pages=6, events=120, **others):
    src, dst = rng.integers(0, users, events), users + rng.integers(0, pages, events)
    return TemporalGraph.from_arrays(src=src, dst=dst, time=np.sort(rng.random(events) * 1e5), **others)


def added_at(edit_time, decides):
    """A model of which only the time of what was added matters."""

    def function(graph, query, changes):
        def logit(change):
            present = graph.difference(change, query).present
            return 1.0 if any(decides(float(graph.time[row])) for row in present) else -1.0

        return [logit(change) for change in changes]

    return partial(as_model, function, identity=f"times {edit_time}")


# What is proposed


@pytest.mark.parametrize("seed", range(5))
def test_proposed_events_have_the_roles_that_their_nodes_had_and_lie_before_the_question(seed):
    graph = bipartite(np.random.default_rng(seed))
    for row in (0, 1, 5, 60, 119):
        query = graph.query(row)
        near = cody.candidates(graph, query)
        for edit, *_ in additions(graph, query, near, 64):
            assert int(edit.src) < 8 <= int(edit.dst)  # users edit pages; no page edits anything
            assert graph.time[0] - 100 <= edit.time < query.time
            assert edit.features is None
        for (move,) in moves(graph, query, near, 64):
            event = graph.query(move.row)
            assert {event.src, event.dst} & {query.src, query.dst}
            assert event.before < query.before
            assert move.time < query.time
            assert move.time != event.time


def test_pairs_are_the_ends_and_nodes_near_them_in_either_direction():
    graph = TemporalGraph.from_arrays(src=[0, 1, 1, 2, 0, 3], dst=[2, 0, 3, 1, 1, 2], time=np.arange(6.0), num_nodes=5)
    pairs = plausible_pairs(graph, Query(0, 1, 9.0, 6))
    assert pairs[:2] == [(0, 1), (1, 0)]
    assert {(0, 3), (2, 1), (1, 2), (0, 2)} <= set(pairs)  # with partners of the other end, and with its own
    assert all(4 not in pair for pair in pairs)  # a stranger to both
    assert len(set(pairs)) == len(pairs)
    assert all(src != dst for src, dst in pairs)


def test_in_bipartite_data_partners_of_partners_take_the_place_of_the_other_end():
    graph = TemporalGraph.from_arrays(src=[0, 1, 1, 2], dst=[5, 5, 6, 6], time=np.arange(4.0))
    pairs = plausible_pairs(graph, Query(0, 6, 9.0, 4))  # user 1 has edited 5, as user 0 has, and 6
    assert set(pairs) == {(0, 6), (0, 5), (1, 6), (2, 6)}


def test_an_added_event_has_the_features_of_its_pair_else_of_its_source():
    features = np.arange(12.0).reshape(4, 3)
    graph = TemporalGraph.from_arrays(src=[0, 1, 0, 2], dst=[1, 0, 1, 1], time=np.arange(4.0), features=features)
    query = graph.query(3)
    proposed = {(edit.src, edit.dst): edit.features for edit, *_ in additions(graph, query, np.arange(3), 64)}
    assert proposed["0", "1"] == tuple(features[2])  # its last event
    assert proposed["2", "1"] == tuple(features[2])  # node 2 has none before: that of the destination
    assert proposed["1", "0"] == tuple(features[1])


def test_there_is_room_for_as_many_proposals_as_removals():
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    query = graph.query(250)
    for size in (1, 2, 5, 64):
        near = cody.candidates(graph, query, 2, size)
        considered = build_space(graph, query, near, size, ALL)
        assert 1 <= len(considered.edits) <= size
        assert sorted(considered.rows.tolist()) == [*near.tolist(), *range(300, 300 + len(considered.edits))]


def test_times_are_as_old_as_events_near_the_link_and_easily_written():
    graph = line()
    query = graph.query(19)
    times = plausible_times(graph, query, np.arange(10, 19))
    assert times == sorted(times, reverse=True)
    assert all(0 <= time < 190 for time in times)
    assert plausible_times(graph, graph.query(0), np.empty(0, dtype=int)) == []
    rng = np.random.default_rng(0)
    for _ in range(200):
        now, age = float(rng.choice([1.09e9, 1e3, 0.5, -70.0]) * rng.random()), 10.0 ** rng.uniform(-3, 6)
        time = tidy_time(now - age, Query(0, 1, now, 1))
        assert now - 1.1 * age - 60 <= time < now
        assert float(f"{time:.15g}") == time  # what is printed can be typed in


def test_times_are_found_where_everything_near_happened_at_the_moment_of_the_question():
    graph = TemporalGraph.from_arrays(src=[2, 0, 0, 0], dst=[3, 1, 2, 1], time=[1.0, 5.0, 5.0, 5.0])
    assert all(time < 5 for time in plausible_times(graph, graph.query(3), np.array([1, 2])))
    assert plausible_times(graph, graph.query(3), np.array([1, 2]))


# What is answered


def test_altered_events_have_features_of_other_recent_events_the_smallest_change_first(monkeypatch):
    monkeypatch.setattr(proposals, "HORIZON", 20)
    ratings = np.concatenate([np.full(20, 99.0), np.arange(20) % 7 - 3.0])
    graph = line(40, features=ratings[:, None])
    query = graph.query(39)._replace(dst=9)  # a node without events
    proposed = alterations(graph, query, np.array([]), 64)
    assert {edit.row for edit in proposed} == set(range(31, 39))
    shifts = [abs(edit.features[0] - ratings[edit.row]) for edit in proposed]
    assert shifts == sorted(shifts)
    for row in range(31, 39):
        values = {edit.features[0] for edit in proposed if edit.row == row}
        assert len(values) == VALUES
        assert values < set(ratings[19:39]) - {ratings[row]}
        assert 99.0 in values  # the furthest one; the event before the last twenty has it
    assert {edit.row for edit in alterations(graph, query, np.array([]), 3)} == {36, 37, 38}


def test_an_event_with_other_features_may_be_the_answer():
    graph = line(features=(np.arange(20) % 2)[:, None] / 2, feature_names=("rating",))
    model = ToyModel(graph, weights=np.zeros(20), half_life=1e9, bias=-0.4)
    why = explain(model, graph, graph.query(19), edits=(alterations,))
    (step,) = why.steps
    assert (step.event.edit, step.event.carries) == ("altered", "rating 0 → 0.5")
    assert "With 1 event altered the score rises" in why.sentence
    protected = explain(model, graph, graph.query(19), edits=(alterations,), protect=Protected(events=range(9, 20)))
    assert {event.replaces for event in protected.candidates} <= set(range(9))
    alike = line(features=np.ones((20, 1)))
    assert explain(ToyModel(alike), alike, alike.query(19), edits=(alterations,)).candidates == ()


def test_an_addition_answers_where_no_removal_can():
    graph = line()
    model = ToyModel(graph, weights=np.zeros(20), half_life=50, bias=-0.4)
    query = Query(0, 9, 200.0, 20)
    assert explain(model, graph, query).verdict != "counterfactual"
    why = explain(model, graph, query, edits=ALL)
    assert why.is_counterfactual
    assert why.removed == ()
    assert len(why.imagined) == 1
    assert why.data == graph.identity
    assert why.parameters["edits"] == ["removals", "additions", "moves"]


def test_the_same_addition_at_other_times_is_no_other_set_but_is_said():
    graph = TemporalGraph.from_arrays(src=[0] * 21, dst=[1] * 21, time=np.arange(21.0))

    def margins(longer, query, changes):
        return [-2.0 if any(row > 20 and longer.src[row] == 0 for row in change) else 2.0 for change in changes]

    found = partial(explain, as_model(margins, graph, identity="it"), graph, graph.query(20))
    for options, says in (
        ({"edits": (removals, additions)}, "No other single edit flips it, except the same at other times."),
        ({"edits": additions}, "It is the only such set of at most 4 edits, except the same at other times."),
    ):
        assert found(**options).certainty.endswith(says)


def test_the_oldest_time_that_still_does_is_found_and_the_claim_about_it_is_true():
    graph = line()
    model = ToyModel(graph, weights=np.zeros(20), half_life=50, bias=-0.4)
    query = Query(0, 9, 200.0, 20)
    why = explain(model, graph, query, edits=(additions,))
    oldest = 200 - 50 * math.log2(1 / 0.4)  # an event of that age weighs 0.4
    assert oldest <= why.window.first < oldest + 2
    assert why.window.fails < oldest
    assert why.candidates[[event.row for event in why.candidates].index(why.rows[0])].time == why.window.first
    event = why.steps[0].event
    times = [*np.linspace(why.window.first, 199.9, 100), why.window.fails]
    longer = graph.imagine([Add(event.src, event.dst, time) for time in times])
    logits = model.on(longer).logits(query, [frozenset({row}) for row in range(20, longer.num_rows)])
    assert (logits[:-1] > 0).all()
    assert logits[-1] <= 0
    assert f"also flips it at all {why.window.tried} tested times since {why.window.first:g}" in why.leeway
    assert f"at {why.window.fails:g} it does not" in why.leeway
    assert "flips it at both tested times since" in replace(why, window=why.window._replace(tried=2)).leeway


def test_where_there_are_gaps_nothing_is_claimed_across_them():
    graph = line()

    def in_two_parts(time):
        return 120 < time < 150 or time > 180

    why = explain(added_at(0, in_two_parts)(graph), graph, Query(0, 9, 200.0, 20), edits=(additions,))
    assert 180 < why.window.first < 183
    assert 150 <= why.window.fails <= 180
    assert "tested times since" in why.leeway

    def long_ago_only(time):
        return 100 < time < 150

    why = explain(added_at(1, long_ago_only)(graph), graph, Query(0, 9, 200.0, 20), edits=(additions,))
    assert 100 < why.window.first < why.window.last < 150
    assert f"from {why.window.first:g} to {why.window.last:g}" in why.leeway
    assert "since" not in why.leeway


def test_a_moved_event_stays_as_near_to_its_own_time_as_it_can():
    graph = line()
    weights = np.zeros(20)
    weights[18] = 4.0
    model = ToyModel(graph, weights=weights, half_life=10, bias=-0.5)  # 4 / 2 - 0.5 at its own time, 180
    query = graph.query(19)
    why = explain(model, graph, query, edits=(moves,))
    (step,) = why.steps
    assert step.event.replaces == 18
    assert step.event.was == 180
    changes_at = 190 - 10 * math.log2(4 / 0.5)  # that old, it weighs 0.5
    assert changes_at - 2 < step.event.time < changes_at <= why.window.fails
    assert why.window.last == step.event.time
    assert why.leeway.startswith("Event 18 also flips it at all")


@pytest.mark.parametrize("seed", range(6))
def test_no_smaller_set_of_edits_exists_where_that_is_said(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes=6, events=12)
    model = ToyModel(graph, weights=rng.normal(size=12), half_life=1e9, bias=rng.normal())
    query, size = graph.query(11), 6
    considered = build_space(graph, query, cody.candidates(graph, query, 1, size), size, ALL)
    longer = model.on(considered.graph)
    why = explain(model, graph, query, edits=ALL, size=size, hops=1)
    rows = considered.rows.tolist()
    sizes = [
        count
        for count in range(1, 4)
        for some in combinations(rows, count)
        if flips(why.original, round(float(longer.logits(query, [frozenset(some)])[0]), 5))
    ]
    if sizes and sizes[0] == 1:
        assert why.is_counterfactual
        assert len(why.rows) == 1
    if why.is_counterfactual:
        assert len(why.rows) >= min(sizes, default=4)
        assert not why.is_minimal or len(why.rows) == min(sizes, default=len(why.rows))
    assert why.verdict != "none among the candidates" or not sizes


def test_of_equally_many_edits_those_of_the_first_function_are_preferred():
    graph = line()
    weights = np.zeros(20)
    weights[18] = -1.0
    model = ToyModel(graph, weights=weights, half_life=1000, bias=0.2)
    query = Query(0, 9, 200.0, 20)  # removing event 18 flips it, and so does adding an event
    assert explain(model, graph, query, edits=(removals, additions)).removed == (18,)
    why = explain(model, graph, query, edits=(additions, removals))
    assert why.removed == ()
    assert why.is_counterfactual


def test_alternatives_are_other_events_not_the_same_at_other_times():
    graph = line()
    model = ToyModel(graph, weights=np.zeros(20), half_life=500, bias=-0.2)
    why = explain(model, graph, Query(0, 9, 200.0, 20), edits=(additions,), count=3)
    events = {event.row: (event.src, event.dst) for event in why.candidates}
    answers = [why.rows, *(other.rows for other in why.alternatives)]
    assert len(answers) == 3
    assert len({frozenset(events[row] for row in rows) for rows in answers}) == 3


def test_a_network_answers_about_events_that_could_have_happened():
    graph = random_graph(np.random.default_rng(1), nodes=20, events=200)
    for kind in ("tgn", "tgat"):
        model = fast_model(random_network(graph, kind), graph)
        answers = (explain(model, graph, graph.query(row), edits=ALL, size=12) for row in range(190, 150, -1))
        why = next(answer for answer in answers if answer.counterfactuals)
        again = explain(model, graph, why.query, edits=ALL, size=12)
        assert replace(why, seconds=0.0) == replace(again, seconds=0.0)
        assert Explanation.from_json(why.to_json()) == why
        assert why.is_counterfactual
        assert why.verification is not None


def test_answers_that_others_share_stay_free_of_imagined_rows():
    graph = line()
    model = ToyModel(graph, weights=np.zeros(20), half_life=50, bias=-0.4)
    answers = {}
    explain(model, graph, Query(0, 9, 200.0, 20), edits=ALL, answers=answers)
    assert all(row < 20 for change in answers for row in change)


def test_budgets_hold_with_proposals_too():
    graph = line()
    model = ToyModel(graph, weights=np.zeros(20), half_life=50, bias=-0.4)
    query = Query(0, 9, 200.0, 20)
    for evaluations in (1, 5, 30, 80, 200):
        assert explain(model, graph, query, edits=ALL, evaluations=evaluations).evaluations <= evaluations
    for seconds in (1e-6, 0.01, 5.0):
        assert explain(model, graph, query, edits=ALL, seconds=seconds).original == -0.4
    why = explain(model, graph, query, policy=event_impact, search=greedy, edits=ALL)
    assert why.is_counterfactual


# A function of one's own


def test_only_the_events_that_a_user_names_could_have_happened():
    graph = line()
    model = ToyModel(graph, weights=np.zeros(20), half_life=50, bias=-0.4)

    def mine(graph, query, rows, room):
        return [Add("3", "9", 195), Add("4", "9", 40)]

    why = explain(model, graph, Query(0, 9, 200.0, 20), edits=mine)
    assert [(event.src, event.dst, event.time) for event in why.candidates] == [("4", "9", 40), ("3", "9", 195)]
    assert why.rows == (20,)
    assert why.window is None
    assert why.parameters["edits"] == ["mine"]
    at_any = explain(model, graph, Query(0, 9, 200.0, 20), edits=lambda *_: [AnyTime(Add("3", "9", 195))])
    assert at_any.window.first < 140


def test_a_function_may_name_removals_moves_and_alterations():
    graph = line(features=np.ones((20, 2)))
    model = ToyModel(graph, half_life=50, bias=-3.9)

    def mine(graph, query, rows, room):
        return [17, Move(18, 3.0), Alter(16, [0.0, 9.0])]

    why = explain(model, graph, graph.query(19), edits=mine)
    assert {event.edit for event in why.candidates} == {"removed", "moved", "altered"}


def test_a_function_may_name_events_that_are_no_candidates():
    graph = line()
    why = explain(ToyModel(graph), graph, graph.query(19), size=3, edits=lambda *_: [4, 18])
    assert [event.row for event in why.candidates] == [4, 18]


def test_two_imagined_events_are_the_same_but_for_time_from_the_first_one_on():
    graph = line()
    proposed = [Add("0", "9", 5.0), Add("0", "9", 6.0), Add("9", "0", 7.0), Move(3, 8.0), Move(3, 9.0), Move(4, 9.5)]
    space = build_space(graph, graph.query(19), np.array([18]), 9, [lambda *_: [18, *proposed]])
    assert [space.ignoring_time(row) for row in (18, *range(20, 26))] == [
        *(18, (0, 9), (0, 9), (9, 0)),
        *(("other", 3), ("other", 3), ("other", 4)),
    ]


def test_an_added_event_that_flips_only_earlier_is_doubtful_and_a_moved_one_is_not():
    graph = line()
    proposed = [Add("0", "9", 5.0), Add("0", "9", 6.0), Add("9", "0", 7.0), Move(3, 8.0), Move(3, 9.0)]
    space = build_space(graph, graph.query(19), np.array([18]), 9, [lambda *_: proposed])
    logits = {frozenset(): -1.0, **{frozenset({row}): 1.0 for row in (20, 22, 23)}}
    assert _with_gaps(logits, space) == {20}
    assert _with_gaps({**logits, frozenset({21}): 1.0}, space) == frozenset()


def test_times_that_flip_are_followed_without_a_gap_from_the_link_or_from_the_start():
    def run_of(own_time=None, **margins):
        times = intrusion.TestedTimes(line().query(19), 3.0, 0.0, own_time, lambda _: [])
        times.margin = {float(time.strip("t")): margin for time, margin in margins.items()} | {3.0: np.inf}
        return times.flipping_run()

    assert run_of(t1=1.0, t2=-1.0, t5=-1.0, t9=1.0) == [9.0]  # up to the link, whatever is before
    assert run_of(t1=1.0, t2=-1.0, t5=1.0, t9=1.0) == [3.0, 5.0, 9.0]
    assert run_of(t2=1.0, t5=1.0, t9=-1.0) == [2.0, 3.0, 5.0]  # not up to the link: around the start
    assert run_of(own_time=8.0, t2=-1.0, t5=-1.0, t9=1.0) == [3.0]  # a moved event: always around the start


def test_an_added_event_is_tried_first_at_the_link_and_then_ever_further_back_to_where_it_was_proposed():
    tried = []
    times = intrusion.TestedTimes(
        Query(0, 9, 200.0, 20), 150.0, 0.0, None, lambda new: [tried.append(list(new)), [1.0] * len(new)][1]
    )
    intrusion._oldest(times)
    first = tried[0]
    assert 199.99 < first[0] < 200
    assert first == sorted(first, reverse=True)
    assert first[1] > 199.9
    assert 150 < first[-1] < 190


def test_an_event_that_flips_at_all_tested_times_reaches_the_link():
    graph = line()
    query = Query(0, 9, 200.0, 20)
    for earliest in (0.0, 60.0):
        model = added_at(earliest, lambda time, earliest=earliest: time >= earliest)(graph)
        found = intrusion.shift_event(model, graph, query, 20, Add("3", "1", 150.0), 150.0)
        assert found.window.tried > 2
        assert (found.reaches_query, found.is_reliable) == (True, True)
    until_170 = added_at("170", lambda time: time <= 170.0)(graph)
    found = intrusion.shift_event(until_170, graph, query, 20, Add("3", "1", 150.0), 150.0)
    assert (found.reaches_query, found.is_reliable) == (False, False)


def searched_for_an_addition(asked):
    """A finished search, whose answer is an added event that may be shifted; what is asked from then on is noted."""
    graph, query = line(), Query(0, 9, 200.0, 20)

    def function(graph, query, changes):
        asked.extend(change for change in changes if change)
        times = [[graph.time[row] for row in graph.difference(change, query).present] for change in changes]
        return [1.0 if any(time >= 100 for time in some) else -1.0 for some in times]

    space = build_space(graph, query, cody.candidates(graph, query), 64, [additions])
    model = as_model(function, space.graph, identity="since 100")
    options = SearchOptions(search=intrusion.each_alone_first(scout, space, 1), edits=(additions,))
    finished = run_search(model, query, space, options)
    asked.clear()
    return graph, query, options, finished


def test_every_time_that_is_tested_counts_as_an_evaluation():
    asked = []
    graph, query, options, before = searched_for_an_addition(asked)
    after = intrusion.prefer_least_intrusive(before, graph, query, options)
    assert after.window is not None
    assert after.evaluations - before.evaluations == len(asked) > 1
    assert len(after.result.evaluated) == len(before.result.evaluated) + 1  # the event at another time


def test_an_event_is_shifted_if_all_its_times_fit_into_the_budget_and_not_with_one_evaluation_less():
    graph, query, options, before = searched_for_an_addition([])
    most = intrusion.SHIFTED * intrusion.MOST_TIMES + 1
    for left, is_shifted in ((most, True), (most - 1, False)):
        limited = replace(options, evaluations=before.evaluations + left)
        after = intrusion.prefer_least_intrusive(before, graph, query, limited)
        assert (after.window is not None) == is_shifted


def test_protected_events_are_neither_removed_nor_moved():
    graph = line()
    model = ToyModel(graph, half_life=50, bias=-3.9)
    why = explain(model, graph, graph.query(19), edits=ALL, protect=Protected(events=range(10, 19)))
    touched = {event.row if event.replaces is None else event.replaces for event in why.candidates}
    assert not touched & set(range(10, 19))


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ("add", "edits are functions"),
        ((), "at least one function"),
        ([removals, "fly"], "not 'fly'"),
        (lambda *_: ["fly"], "the row of an event to remove"),
        (lambda *_: [25], "event 25, which does not lie before the prediction"),
        (lambda *_: [Add("0", "9", 500.0)], "it does not lie before the prediction"),
        (lambda *_: [Add("0", "nobody", 5.0)], "'nobody'"),
        (lambda *_: [Add("0", "9", 5.0)] * 65, "proposes 65 edits, and there is room for 64"),
    ],
)
def test_proposals_that_make_no_sense_are_refused(edits, says):
    graph = line()
    with pytest.raises(CallError, match=says):
        explain(ToyModel(graph), graph, graph.query(19), edits=edits)


def test_an_event_that_flips_at_odd_times_only_gives_way_to_one_that_flips_at_all_times():
    graph = line()

    def flips_it(graph, row):
        return graph.src[row] == 3 or (graph.src[row] == 2 and 49 <= graph.time[row] <= 51)

    def logits(graph, query, changes):
        return [1.0 if any(flips_it(graph, row) for row in change) else -1.0 for change in changes]

    model = as_model(logits, graph, identity="odd times")
    proposed = [AnyTime(Add("2", "1", 50.0)), AnyTime(Add("3", "1", 50.0))]
    why = explain(model, graph, Query(0, 9, 200.0, 20), edits=lambda *_: proposed)
    ((event, _),) = why.steps
    assert (event.src, why.is_counterfactual) == ("3", True)


def test_factual_explainers_support_removals_only():
    graph = line()
    with pytest.raises(CallError, match="supports removals only"):
        explain(ToyModel(graph), graph, graph.query(19), search=top_share, edits=ALL)
    with pytest.raises(CallError, match="'pbone' names events that happened: it supports removals only"):
        explainer("pbone", edits=ALL)


# What is said about it


def answered():
    graph = line(names=list("abcdefghij"))
    model = ToyModel(graph, weights=np.zeros(20), half_life=50, bias=-0.4)
    return explain(model, graph, Query(0, 9, 200.0, 20), edits=ALL)


def test_every_form_speaks_of_added_events_in_the_names_and_times_of_the_user():
    why = answered()
    event = why.steps[0].event
    link, when = f"{event.src} → {event.dst}", f"{event.time:g}"
    assert "j" in (event.src, event.dst) or "a" in (event.src, event.dst)
    for text in (str(why), why._repr_html_()):
        assert "added" in text
        assert link in text
        assert when in text
        assert why.sentence in text
        assert why.leeway in text
        assert why.considered in text
    assert why.considered.startswith("Considered: ")
    assert " additions, " in why.considered
    frame = why.to_frame()
    assert frame.edit.tolist() == ["added"]
    assert frame.time.tolist() == [event.time]


def test_documents_bring_back_imagined_events_and_windows_and_refuse_damaged_ones():
    why = answered()
    document = json.loads(why.to_json())
    assert Explanation.from_json(why.to_json()) == why
    assert str(Explanation.from_dict(document)) == str(why)
    document.pop("checksum")
    del document["window"]  # as other programs may write it
    assert Explanation.from_dict(document).window is None
    for window in ({"first": 1.0}, {"first": 1.0, "last": "x", "tried": 1, "fails": None}, 7):
        with pytest.raises(DataError, match="window"):
            Explanation.from_dict(document | {"window": window})


def test_where_nothing_does_the_words_speak_of_edits():
    graph = line()
    model = ToyModel(graph, weights=np.zeros(20), half_life=1e-3, bias=-50.0)
    why = explain(model, graph, Query(0, 9, 200.0, 20), edits=(additions,), size=3, search=greedy)
    assert "past event" not in why.sentence
    assert "With all edits together" in why.sentence or "edits that were considered" in why.sentence


# Records


def evaluated(edits):
    graph = random_graph(np.random.default_rng(3), nodes=12, events=120)
    model = ToyModel(graph, weights=np.random.default_rng(3).normal(size=120), half_life=1e9, bias=-0.5)
    plan = EvaluationPlan("made", "toy", (Explainer("mine", spatio_temporal, greedy, size=8, edits=edits),))
    links = [Link(row, "correct") for row in range(60, 110, 5)]
    return graph, model, plan, list(evaluate(model, graph, links, plan))


def test_records_keep_imagined_events_count_them_and_say_what_was_allowed():
    _, _, _, records = evaluated(ALL)
    assert any(made.imagined for made in records)
    for made in records:
        assert Record.from_json(made.to_json()) == made
        assert made.allowed == ("removals", "additions", "moves")
        assert made.size == len(made.rows) + len(made.imagined)
        assert made.sparsity == (made.size / made.candidates if made.candidates else 0)
        assert all(row < made.event for row in made.rows)
    assert metrics.jaccard(records, records) == 1.0
    _, _, _, others = evaluated((removals,))
    assert not any(made.imagined for made in others)
    assert others[0].allowed == ("removals",)
    assert metrics.fidelity_plus(records) >= metrics.fidelity_plus(others)


def test_sufficiency_is_about_the_events_of_an_answer_that_happened():
    graph, model, _, records = evaluated(ALL)
    made = next(made for made in records if made.imagined and made.imagined[0].edit == "added" and not made.rows)
    nothing = model.logits(graph.query(made.event), [frozenset(range(made.event))])[0]
    assert made.only == round(float(nothing), 5)
    graph, weights = line(), np.zeros(20)
    weights[18] = 4.0
    model = ToyModel(graph, weights=weights, half_life=10, bias=-0.5)
    plan = EvaluationPlan("made", "toy", (Explainer("mine", spatio_temporal, greedy, edits=(moves,)),))
    (made,) = evaluate(model, graph, [Link(19, "correct")], plan)
    assert (made.rows, made.imagined[0].replaces) == ((), 18)
    alone = model.logits(graph.query(19), [frozenset(range(18))])[0]  # event 18 where it was
    assert made.only == round(float(alone), 5)


def test_records_from_before_there_were_other_edits_are_read_and_continued(tmp_path):
    assert Record.from_json(record().to_json()).imagined == ()
    graph, model, plan, _ = evaluated((removals,))
    sample, path = Sample(2, period=(0.3, 1.0)), tmp_path / "run.jsonl"
    list(run(path, model, graph, plan, sample))
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for entry in lines:
        entry.pop("checksum")
        for given in (entry.get("evaluation"), *entry.get("explainers", {}).values()):
            if given is not None:
                del given["options"]["edits"]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    assert next(run(path, model, graph, plan, sample)).finished > 0
    other = replace(plan, explainers=(replace(plan.explainers[0], edits=ALL),))
    with pytest.raises(DataError, match="edits of mine"):
        list(run(path, model, graph, other, sample))


@pytest.mark.parametrize("imagined", [[7], [{"edit": "added"}], "x"])
def test_a_record_of_the_version_before_with_damaged_edits_is_refused(imagined):
    written = json.loads(as_0_2_wrote_it(record().to_json()))
    written.pop("checksum")
    with pytest.raises(DataError, match="imagined"):
        read_line(json.dumps(written | {"imagined": imagined}).encode())


def test_the_papers_figures_stand_beside_removals_only():
    def made(edits):
        options = {"edits": edits, "candidates": {"size": 64, "near": "events_among_nodes"}}
        return [record(explainer="cody-temporal", event=100 + number, options=options) for number in range(3)]

    removing, adding = made(["removals"]), made(["removals", "additions"])
    assert any(table.has_paper for table in tables(removing, paper=True))
    shown = tables(adding, paper=True)
    assert not any(table.has_paper for table in shown)
    assert any("was allowed removals, additions" in remark for remark in shown[0].remarks)


# The command line


def command(*words, code=0):
    ended = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(ended.exception, CodyError):
        assert code == 2, ended.exception
        return str(ended.exception)
    assert ended.exit_code == code, ended.output
    return ended.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--allow", "fly"), "--allow 'fly': there is no kind of edit 'fly'; there are remove, add, move, alter"),
        (("--allow", ","), "--allow ',': no kind of edit is named"),
        (("--allow", "add", "--why-not"), "--why-not is short for --allow remove,add,move"),
        (("--allow", "add", "--explainer", "pbone"), "supports removals only"),
        (("--allow", "alter"), "events of this graph have no features"),
    ],
)
def test_kinds_of_edits_that_make_no_sense_are_refused(words, says):
    assert says in command("explain", "--event", 53852, *words, code=2)


def test_another_way_out_that_moves_an_event_does_not_stand_below_without():
    said = command("explain", "--event", 53854, "--why-not")
    below = said.partition("alternative")[2]
    assert "53852 moved" in below


def test_evaluations_as_the_paper_did_them_allow_removals_only(tmp_path):
    words = ("evaluate", "--out", tmp_path / "run.jsonl", "--paper", "--allow", "remove,add")
    assert "leave out --allow remove,add" in command(*words, code=2)


def test_where_no_removal_is_found_one_line_says_what_an_addition_would_do():
    said = " ".join(command("explain", "--event", 53852, "--model", "tgat-collegemsg").split())
    assert "Adding one event would flip it: " in said
    assert "--why-not finds the least intrusive one." in said
    event = said.partition("Adding one event would flip it: ")[2].partition(". --why-not")[0]
    link, _, when = event.partition(", ")
    src, _, dst = link.partition(" → ")
    graph = cody.load("collegemsg").imagine([Add(src, dst, when)])
    model = cody.load_model("tgat-collegemsg", cody.load("collegemsg")).on(graph)
    assert model.logits(graph.query(53852), [frozenset({graph.num_events})])[0] > 0


def test_why_not_answers_and_says_so_if_the_model_does_predict_the_link():
    words = ("explain", "--model", "tgat-collegemsg", "--why-not")
    said = command(*words, "--event", 53852)
    assert "tested times since" in " ".join(said.split())
    assert "Considered: 64 removals" in said
    assert "the model does predict" not in said
    assert "the model does predict 1772 → 1395" in command(*words, "--event", 53854)


def test_other_ways_out_are_looked_for_among_all_edits_as_among_removals():
    graph = cody.load("collegemsg")
    model, query = cody.load_model("tgn-collegemsg", graph), graph.query(53535)
    by_removals = explain(model, graph, query, edits=removals, count=3)
    by_any = explain(model, graph, query, edits=(removals, additions, moves), count=3)
    assert len(by_removals.alternatives) == len(by_any.alternatives) == 2
