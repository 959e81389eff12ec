"""CoDy and GreeDy against the paper's words, against a plain twin, and against trying everything."""

import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.models import ToyModel
from cody.search import cody, greedy, greedy_then_cody
from cody.search.oracle import Oracle
from cody.search.policies import event_impact, spatio_temporal
from cody.search.result import best_evaluated
from search.plain_tree import changed, plain_search

GRAPH = TemporalGraph.from_arrays(src=[0] * 41, dst=[1] * 41, time=np.arange(41.0))
QUERY = GRAPH.query(40)


class Lookup:
    """A model that is a function of the set."""

    def __init__(self, function):
        self.function = function

    def logits(self, query, removals):
        return np.array([self.function(removal) for removal in removals])


def random_model(rng, events, *, bias=2.0):
    """Effects of single events and of pairs; some events have none, some equal ones."""
    alone = np.round(rng.normal(size=events) * (rng.random(events) < 0.6), int(rng.integers(1, 4)))
    together = np.round(rng.normal(size=(events, events)) * (rng.random((events, events)) < 0.2), 2)

    def logit(removal):
        rows = sorted(removal)
        pairs = sum(together[a, b] for a, b in itertools.combinations(rows, 2))
        return round(float(bias - sum(alone[row] for row in rows) - pairs), 5)

    return Lookup(logit)


def visited_by(search, model, ranking, **options):
    """The sets in the order in which a search visits them."""
    oracle = Oracle(model, QUERY)
    found = search(oracle, ranking, **options)
    return list(oracle.evaluated), found, oracle


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    events=st.integers(0, 9),
    iterations=st.integers(1, 120),
    alpha=st.sampled_from([0.0, 0.3, 2 / 3, 1.0]),
    ahead=st.sampled_from([1, 2, 16, 64]),
)
def test_the_search_visits_the_sets_of_its_plain_twin(seed, events, iterations, alpha, ahead):
    rng = np.random.default_rng(seed)
    model = random_model(rng, events, bias=rng.choice([2.0, -2.0, 0.5, 0.0, -1e-5]))
    ranking = rng.permutation(events)
    expected, best, complete = plain_search(model.function, ranking.tolist(), iterations, alpha)
    visited, found, _ = visited_by(cody, model, ranking, iterations=iterations, alpha=alpha, ahead=ahead)
    assert visited == [frozenset(node.events) for node in expected]
    assert found.rows == best
    assert found.iterations == len(expected)
    assert (found.ended == "exhausted") == complete


@pytest.mark.parametrize("seed", range(3))
def test_a_long_search_visits_the_sets_of_its_plain_twin(seed):
    """More sets than the columns of the tree have room for at first."""
    rng = np.random.default_rng(seed)
    model, ranking = random_model(rng, 10, bias=9.0), rng.permutation(10)
    expected = plain_search(model.function, ranking.tolist(), 200, 2 / 3)[0]
    assert visited_by(cody, model, ranking, iterations=200)[0] == [frozenset(node.events) for node in expected]


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_sums_of_the_same_scores_in_another_order_are_equal_claims(seed):
    """Of which the first in the ranking wins. The effects are such that the last bits of their sums differ."""
    effects = np.random.default_rng(seed).choice([0.1, 0.2, 0.3, 0.7], size=10)
    model = Lookup(lambda removal: round(9.0 - sum(effects[row] for row in sorted(removal)), 5))
    expected = plain_search(model.function, range(10), 200, 2 / 3)[0]
    assert visited_by(cody, model, np.arange(10), iterations=200)[0] == [frozenset(node.events) for node in expected]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), events=st.integers(1, 8))
def test_with_enough_budget_a_counterfactual_is_found_if_there_is_one_and_it_is_of_minimal_size(seed, events):
    rng = np.random.default_rng(seed)
    model = random_model(rng, events, bias=rng.choice([3.0, -3.0, 0.0]))
    subsets = [frozenset(rows) for size in range(events + 1) for rows in itertools.combinations(range(events), size)]
    original = model.function(frozenset())
    smallest = [subset for subset in subsets if changed(original, model.function(subset))]
    for search in (cody, greedy_then_cody):
        _, found, _ = visited_by(search, model, rng.permutation(events), iterations=10**6)
        logit = model.function(frozenset(found.rows))
        assert changed(original, logit) == bool(smallest)
        if found.ended == "exhausted" and smallest:
            size = min(map(len, smallest))
            assert len(found.rows) == size
            rivals = [abs(model.function(subset) - original) for subset in smallest if len(subset) == size]
            assert abs(logit - original) == pytest.approx(max(rivals))
        assert found.ended == "exhausted"


def test_the_worked_greedy_example_of_the_paper():
    """Appendix A: 2.854 → 1.996 → 0.816 → -0.052, three children each time."""
    answers = {(): 2.854, (1,): 2.3, (2,): 1.996, (3,): 2.5}
    answers |= {(1, 2): 0.816, (2, 3): 1.5, (2, 4): 1.7}
    answers |= {(1, 2, 3): 0.4, (1, 2, 4): 0.5, (1, 2, 5): -0.052}
    model = Lookup(lambda removal: answers[tuple(sorted(removal))])
    visited, found, oracle = visited_by(greedy, model, np.array([1, 2, 3, 4, 5, 6]), children=3)
    assert (found.rows, found.iterations, found.ended) == ((2, 1, 5), 3, "found")
    assert [answers[tuple(sorted(found.rows[:size]))] for size in range(4)] == [2.854, 1.996, 0.816, -0.052]
    assert len(visited) == 10
    assert oracle.counts.batches == 4  # the children of a step are asked together


def test_greedy_stops_where_no_child_improves():
    answers = {(): 2.0, (0,): 1.0, (1,): 3.0, (0, 1): 1.0}
    found = visited_by(greedy, Lookup(lambda removal: answers[tuple(sorted(removal))]), np.array([1, 0]))[1]
    assert (found.rows, found.iterations, found.ended) == ((0,), 2, "stuck")


def test_greedy_looks_only_at_the_first_children_of_the_ranking():
    model = Lookup(lambda removal: 1.0 - 2 * (5 in removal) - 0.1 * len(removal))
    assert visited_by(greedy, model, np.arange(6), children=6)[1].rows == (5,)
    assert visited_by(greedy, model, np.arange(6), children=2)[1].rows == (0, 1, 2, 3, 5)


def test_greedy_proves_nothing_when_it_has_removed_everything():
    found = visited_by(greedy, Lookup(lambda removal: 9.0 - len(removal)), np.arange(3))[1]
    assert (found.rows, found.iterations, found.ended) == ((0, 1, 2), 3, "stuck")


def test_greedy_may_try_one_child_at_a_time():
    found = visited_by(greedy, Lookup(lambda removal: 1.5 - len(removal)), np.array([2, 0, 1]), children=1)[1]
    assert (found.rows, found.iterations, found.ended) == ((2, 0), 2, "found")


def test_greedy_tries_ten_children_by_default():
    visited = visited_by(greedy, Lookup(lambda removal: 1.0), np.arange(20))[0]
    assert len(visited) == 1 + 10


def test_when_the_budget_ends_greedy_answers_with_its_path_in_order():
    model = Lookup(lambda removal: 9.0 - sum(removal))
    found = greedy(Oracle(model, QUERY, evaluations=6), np.array([1, 3, 2]), children=3)
    assert (found.rows, found.iterations, found.ended) == ((3, 2), 2, "evaluations")


def golden_cases():
    """Complete searches on the toy model, as they were when they were checked by hand and by the plain twin."""
    return json.loads((Path(__file__).parent / "golden_trees.json").read_text(encoding="utf-8"))


def golden_run(case):
    graph = TemporalGraph.from_arrays(**case["graph"])
    query = graph.query(graph.num_events - 1)
    pairs = {tuple(map(int, pair.split("-"))): extra for pair, extra in case["pairs"].items()}
    model = ToyModel(graph, case["weights"], half_life=10.0, pairs=pairs, bias=case["bias"])
    events = np.arange(graph.num_events - 1)
    policy = {"spatio_temporal": spatio_temporal, "event_impact": event_impact}[case["policy"]]
    ranking = policy(graph, query, events, Oracle(model, query), np.random.default_rng(0))
    found = cody(Oracle(model, query), ranking, iterations=case["iterations"], ahead=1)
    visited = [[sorted(change), round(logit, 5)] for change, logit in found.evaluated]
    return {"ranking": ranking.tolist(), "visited": visited, "removed": list(found.rows), "ended": found.ended}


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case["name"])
def test_complete_stored_searches(case):
    """The sets in the order in which they are visited, each with its logit: every choice of the search shows in it."""
    assert golden_run(case) == case["expected"]


@pytest.mark.parametrize("ahead", [2, 5, 16, 100])
@pytest.mark.parametrize("sets_at_once", [1, 3, 256])
def test_asking_ahead_changes_the_number_of_calls_and_nothing_else(ahead, sets_at_once):
    model = random_model(np.random.default_rng(1), 30, bias=9.0)
    ranking = np.random.default_rng(2).permutation(30)
    slow_visits, slow, one_by_one = visited_by(cody, model, ranking, ahead=1)
    oracle = Oracle(model, QUERY, sets_at_once=sets_at_once)
    assert cody(oracle, ranking, ahead=ahead) == slow
    assert list(oracle.evaluated) == slow_visits
    assert one_by_one.counts.batches == len(slow_visits)
    if sets_at_once == 256:
        assert oracle.counts.batches < one_by_one.counts.batches
    assert oracle.counts.share_unused < 0.3


def test_300_iterations_need_about_twenty_calls_of_the_model():
    model = random_model(np.random.default_rng(1), 40, bias=30.0)
    _, found, oracle = visited_by(cody, model, np.arange(40))
    assert (found.iterations, found.ended) == (300, "iterations")
    assert oracle.counts.batches <= 25


def test_where_effects_add_up_nothing_is_asked_ahead_in_vain():
    effects = np.random.default_rng(1).random(12).round(2)
    model = Lookup(lambda removal: 9.0 - sum(effects[row] for row in sorted(removal)))
    _, found, oracle = visited_by(cody, model, np.arange(12), iterations=200)
    assert oracle.counts.computed == found.iterations == 200


def test_no_more_sets_are_asked_ahead_than_iterations_are_left():
    model = random_model(np.random.default_rng(1), 30, bias=9.0)
    assert visited_by(cody, model, np.arange(30), iterations=2)[2].counts.computed == 2


def test_the_search_stops_at_the_first_counterfactual_if_asked_to():
    model = Lookup(lambda removal: 1.0 - 0.4 * len(removal) - 5.0 * (9 in removal))
    everything = visited_by(cody, model, np.arange(10))[1]
    first = visited_by(cody, model, np.arange(10), stop_at_first=True)[1]
    assert everything.rows == (9,)
    assert first.ended == "found"
    assert first.iterations < everything.iterations
    assert len(first.rows) == 3


def test_a_first_counterfactual_of_all_candidates_is_one_to_stop_at():
    model = Lookup(lambda removal: 2.5 - len(removal))
    found = visited_by(cody, model, np.arange(3), alpha=1.0, stop_at_first=True)[1]
    assert (found.rows, found.iterations, found.ended) == ((0, 1, 2), 4, "found")


def test_cody_continues_from_what_greedy_has_asked():
    # Greedy takes event 0, after which nothing improves; the way out is {1, 2}.
    def logit(removal):
        if removal >= {1, 2}:
            return -1.0
        return 1.0 - 0.5 * (0 in removal) + 0.2 * len(removal)

    model, ranking = Lookup(logit), np.arange(6)
    stuck = visited_by(greedy, model, ranking, children=3)
    assert stuck[1].ended == "stuck"
    visited, found, _ = visited_by(greedy_then_cody, model, ranking, children=3)
    assert visited[: len(stuck[0])] == stuck[0]
    assert set(found.rows) == {1, 2}
    assert found.ended == "exhausted"


def test_where_greedy_was_stuck_cody_stops_at_the_first_counterfactual_if_told_to():
    model = Lookup(lambda removal: -1.0 if len(removal) > 2 else 1.0 - 0.1 * (0 in removal))
    first = visited_by(greedy_then_cody, model, np.arange(6), children=3, stop_at_first=True)[1]
    assert (len(first.rows), first.ended) == (3, "found")


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), events=st.integers(2, 20))
def test_no_event_of_what_the_combined_search_finds_can_be_left_out(seed, events):
    rng = np.random.default_rng(seed)
    model = random_model(rng, events, bias=rng.choice([3.0, -3.0]))
    ranking, iterations = rng.permutation(events), int(rng.integers(5, 60))
    _, found, oracle = visited_by(greedy_then_cody, model, ranking, iterations=iterations)
    original = model.function(frozenset())
    if changed(original, model.function(frozenset(found.rows))):
        for event in found.rows:
            assert not changed(original, model.function(frozenset(found.rows) - {event}))
    if events > 3:  # a budget that ends in the middle leaves a counterfactual a counterfactual
        tight = Oracle(model, QUERY, evaluations=len(oracle.evaluated) - 1)
        cut = greedy_then_cody(tight, ranking, iterations=iterations)
        assert changed(original, model.function(frozenset(cut.rows))) == bool(cut.counterfactuals)


def test_after_greedy_has_found_something_cody_looks_for_less():
    # Greedy takes 0, 1 and 2, each a step in the right direction; 3 and 4 change the decision at once.
    def logit(removal):
        return -0.5 if removal >= {3, 4} else 1.0 - 0.4 * len(removal & {0, 1, 2})

    model, ranking = Lookup(logit), np.arange(6)
    first = visited_by(greedy, model, ranking, children=3)[1]
    assert (set(first.rows), first.ended) == ({0, 1, 2}, "found")
    assert visited_by(greedy_then_cody, model, ranking, children=3, stop_at_first=True)[1].rows == first.rows
    found = visited_by(greedy_then_cody, model, ranking, children=3)[1]
    assert (set(found.rows), found.ended) == ({3, 4}, "exhausted")


def test_each_set_that_greedy_saw_is_an_iteration_of_the_combined_search():
    model = Lookup(lambda removal: 1.0 - 0.4 * len(removal))
    for stop_at_first in (True, False):
        visited, found, _ = visited_by(greedy_then_cody, model, np.arange(6), children=3, stop_at_first=stop_at_first)
        assert found.iterations == len(visited)


@pytest.mark.parametrize("search", [cody, greedy, greedy_then_cody, partial(cody, ahead=1)])
@pytest.mark.parametrize("budget", [1, 2, 7, 25])
def test_a_budget_of_evaluations_is_never_exceeded(search, budget):
    model = random_model(np.random.default_rng(3), 20, bias=50.0)
    oracle = Oracle(model, QUERY, evaluations=budget)
    found = search(oracle, np.arange(20))
    assert found.ended == "evaluations"
    assert len(oracle.evaluated) <= budget < len(oracle.evaluated) + 10
    best = min(oracle.evaluated, key=oracle.evaluated.get)
    assert frozenset(found.rows) == best


def best_of(answers):
    """The best after questions about these sets."""
    oracle = Oracle(Lookup(lambda removal: answers[tuple(sorted(removal))]), QUERY)
    oracle.ask([frozenset(rows) for rows in answers])
    return best_evaluated(oracle, range(40))


def test_the_best_that_was_asked_is_the_smallest_that_changes_the_decision_then_the_furthest():
    assert best_of({(): 1.0, (0, 1): -9.0, (2,): -0.1, (3,): -0.5, (4,): -0.2}) == (3,)
    assert best_of({(): -1.0, (0, 1): 9.0, (2,): 0.1, (3,): 0.5, (4,): 0.2}) == (3,)


def test_if_none_changes_the_decision_the_best_that_was_asked_is_the_furthest_then_the_smallest():
    assert best_of({(): 2.0, (0,): 1.5, (1, 2): 1.0, (1,): 1.0, (1, 3): 1.0, (4,): 3.0}) == (1,)


@pytest.mark.parametrize("search", [cody, greedy, greedy_then_cody])
def test_a_search_without_candidates_is_exhausted_at_once(search):
    assert visited_by(search, Lookup(lambda removal: 1.0), np.empty(0, dtype=np.int64))[1].ended == "exhausted"


@pytest.mark.parametrize("original", [0.0, 1e-5, -1e-5])
def test_an_original_logit_of_nothing_divides_nothing(original):
    model = Lookup(lambda removal: original + (0.5 if 3 in removal else 0.0) * (-1 if original > 0 else 1))
    assert visited_by(cody, model, np.arange(5))[1].rows == (3,)


@pytest.mark.parametrize(
    "bad", [{"alpha": -0.1}, {"alpha": 1.1}, {"alpha": float("nan")}, {"iterations": 0}, {"ahead": 0}]
)
def test_impossible_options_are_refused(bad):
    with pytest.raises(CallError, match=next(iter(bad))):
        cody(Oracle(Lookup(lambda removal: 1.0), QUERY), np.arange(3), **bad)
    with pytest.raises(CallError, match="children"):
        greedy(Oracle(Lookup(lambda removal: 1.0), QUERY), np.arange(3), children=0)
