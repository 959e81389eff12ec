"""The default search, proofs, and several ways out: what they find and claim, against trying everything."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.models.margins import flips
from cody.search import diverse_counterfactuals, greedy, prove, scout, search_alternatives
from cody.search.oracle import Oracle
from cody.search.result import EXHAUSTED, FOUND, SearchResult, best_evaluated, flipping_sets, lower_bound, result
from cody.search.scout import PATIENCE, usual_evaluations
from search.test_search import QUERY, Lookup, random_model


def sets_of(rows, sizes):
    return [frozenset(some) for size in sizes for some in itertools.combinations(rows, size)]


def minimal_counterfactuals(model, events):
    """By trying everything: the counterfactuals that contain no other."""
    original = model.function(frozenset())
    found = []
    for change in sets_of(range(events), range(1, events + 1)):
        if flips(original, model.function(change)) and not any(other <= change for other in found):
            found.append(change)
    return found


def searched(model, ranking, search=scout, **options):
    oracle = Oracle(model, QUERY, **options)
    return search(oracle, ranking), oracle


def flipping(condition):
    """A model that says link, and no link where the condition holds; nothing else moves it."""
    return Lookup(lambda change: -1.0 if condition(change) else 1.0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), events=st.integers(0, 9), budget=st.integers(1, 700))
def test_what_the_search_claims_holds_when_everything_is_tried(seed, events, budget):
    rng = np.random.default_rng(seed)
    model = random_model(rng, events, bias=rng.choice([3.0, -3.0, 0.5, 0.0]))
    found, oracle = searched(model, rng.permutation(events), evaluations=budget)
    smallest = min(map(len, minimal_counterfactuals(model, events)), default=None)
    assert len(oracle.evaluated) <= budget
    assert set(found.rows) == set(best_evaluated(oracle, range(events))) or not found.counterfactuals
    for size in range(1, min(found.proven, events + 1)):
        assert smallest != size or found.counterfactuals
    if found.ended == "exhausted":
        assert (len(found.rows) if found.counterfactuals else None) == smallest


@pytest.mark.parametrize("seed", range(6))
def test_with_time_enough_the_answer_is_a_smallest_one_and_proven(seed):
    rng = np.random.default_rng(seed)
    events = 13
    model = random_model(rng, events, bias=4.0)
    found, _ = searched(model, rng.permutation(events), evaluations=2**13 - 1)
    known = minimal_counterfactuals(model, events)
    assert (len(found.rows) if found.counterfactuals else None) == min(map(len, known), default=None)
    assert not known or found.proven >= len(found.rows)


def test_it_finds_what_only_large_sets_do():
    """Every first step leads away from the other decision, so a walk from nothing never begins."""
    needed = frozenset(range(4, 10))
    model = Lookup(lambda change: -1.0 if needed <= change else 1.0 + 0.01 * len(change & needed))
    assert not searched(model, np.arange(40), greedy)[0].counterfactuals
    found, _ = searched(model, np.arange(40))
    assert set(found.rows) == needed


def test_it_finds_what_some_of_the_candidates_do_though_all_of_them_do_not():
    model = flipping(lambda change: {3, 7, 20} <= change and not change & set(range(30, 40)))
    assert set(searched(model, np.arange(40))[0].rows) == {3, 7, 20}


def test_groups_are_among_the_first_questions():
    group = frozenset({5, 17, 29, 33})
    model = flipping(lambda change: change == group)
    oracle = Oracle(model, QUERY, groups=[group, frozenset({1, 39, 77})])  # 77 is not a candidate
    assert set(scout(oracle, np.arange(40)).rows) == group
    assert list(oracle.evaluated).index(group) < 20
    assert not any(77 in change for change in oracle.evaluated)


def test_a_group_of_which_one_event_is_a_candidate_costs_no_question():
    oracle = Oracle(flipping(lambda change: False), QUERY, groups=[frozenset({150, 777})], evaluations=60)
    scout(oracle, np.arange(200))
    assert frozenset({150}) not in oracle.evaluated


@pytest.mark.parametrize("seed", range(8))
def test_no_event_of_the_answer_can_be_left_out(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, 30, bias=6.0)
    found, _ = searched(model, rng.permutation(30))
    assert found.counterfactuals
    for row in found.rows:
        smaller = frozenset(found.rows) - {row}
        assert not flips(6.0, model.function(smaller))


@pytest.mark.parametrize("bias", [3.0, 500.0])  # with and without an answer
def test_the_default_budget_is_300_of_which_every_single_event_is_asked_in_a_few_dozen_calls(bias):
    for seed in range(5):
        found, oracle = searched(random_model(np.random.default_rng(seed), 64, bias=bias), np.arange(64))
        assert len(oracle.evaluated) <= 300
        assert found.proven >= 2
        assert oracle.counts.batches <= 50
        assert found.ended == "exhausted" or len(oracle.evaluated) == 300


@pytest.mark.parametrize("events", [27, 31, 51, 64, 65, 100])
def test_the_default_budget_is_never_exceeded_by_a_single_question(events):
    for seed in range(2):
        _, oracle = searched(random_model(np.random.default_rng(seed), events, bias=500.0), np.arange(events))
        assert len(oracle.evaluated) == usual_evaluations(events)


def test_with_few_questions_too_nothing_is_in_the_answer_that_could_be_left_out():
    """Too few to ask about each of 120 events alone; one of the later ones is enough."""
    model = flipping(lambda change: 80 in change)
    for budget in (180, 190, 200):
        assert searched(model, np.arange(120), evaluations=budget)[0].rows == (80,)


def test_the_events_of_the_answer_come_in_the_order_of_what_they_do_alone():
    effects = {5: 1.0, 9: 3.0, 2: 2.0}
    model = Lookup(lambda change: 5.5 - sum(effects.get(row, 0.0) for row in change))
    assert searched(model, np.arange(30))[0].rows == (9, 2, 5)


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5])
def test_where_nothing_is_found_the_small_sets_that_come_closest_were_asked_about(seed):
    """Where effects add up, it is known which they are: ten pairs, and ten sets of three, of thousands."""
    effects, order = np.random.default_rng(seed).normal(size=40), np.random.default_rng(100 + seed).permutation(40)
    model = Lookup(lambda change: 60.0 - float(sum(effects[row] for row in change)))
    found, oracle = searched(model, order)
    assert not found.counterfactuals
    for size in (2, 3):
        closest = sorted(sets_of(range(40), [size]), key=lambda change: model.function(change))[:10]
        assert [change for change in closest if change not in oracle.evaluated] == []


def test_of_many_candidates_each_is_asked_alone_too():
    found, oracle = searched(flipping(lambda change: False), np.arange(400))
    assert found.proven == 2
    assert len(oracle.evaluated) == 1024


def test_without_a_budget_it_ends_when_a_smaller_set_is_no_longer_found():
    model = flipping(lambda change: {3, 8, 15} <= change)
    impatient, oracle = searched(model, np.arange(64))
    assert impatient.ended == "found"
    assert set(impatient.rows) == {3, 8, 15}
    sizes = [len(change) for change, logit in oracle.evaluated.items() if logit < 0]
    last_gain = next(place for place, change in enumerate(oracle.evaluated) if change == {3, 8, 15})
    assert min(sizes) == 3
    assert last_gain + PATIENCE < len(oracle.evaluated) < 300
    patient, oracle = searched(model, np.arange(64), evaluations=300)
    assert (patient.ended, len(oracle.evaluated)) == ("evaluations", 300)


def test_to_exchange_events_of_a_large_answer_takes_little_memory():
    ranking, needed = np.arange(256), frozenset(range(140))
    model = flipping(lambda change: len(change & needed) > 120)  # of thousands of exchanges a few are evaluated
    tracemalloc.start()
    try:
        found, _ = searched(model, ranking)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.rows) == 121
    assert most < 60_000_000


def test_the_same_search_asks_the_same_questions():
    model = random_model(np.random.default_rng(1), 40, bias=5.0)
    asked = [list(searched(model, np.arange(40), evaluations=700)[1].evaluated) for _ in range(2)]
    assert asked[0] == asked[1]


def test_a_budget_of_time_ends_it_with_the_best_so_far():
    found, _ = searched(random_model(np.random.default_rng(1), 40, bias=5.0), np.arange(40), seconds=1e-9)
    assert (found.ended, found.rows) == ("seconds", ())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    events=st.integers(1, 7),
    size=st.integers(1, 9),
    every=st.booleans(),
    budget=st.one_of(st.none(), st.integers(1, 60)),
)
def test_what_is_proven_holds_when_everything_is_tried(seed, events, size, every, budget):
    rng = np.random.default_rng(seed)
    model = random_model(rng, events, bias=rng.choice([2.0, -2.0, 0.5]))
    oracle = Oracle(model, QUERY, evaluations=budget)
    ranking = rng.permutation(events)
    found = prove(oracle, ranking, greedy(oracle, ranking), size, every=every)
    known = minimal_counterfactuals(model, events)
    smaller = [change for change in known if len(change) < found.proven]
    flipping_sets = {change for change, _ in found.counterfactuals}
    assert flipping_sets.issuperset(smaller)
    if flipping_sets:
        assert len(found.rows) == min(map(len, flipping_sets))
    if budget is None and (every or not smaller):
        assert found.proven >= min(size, events + 1)
        assert flipping_sets.issuperset(change for change in known if len(change) < size)


def test_a_proof_asks_nothing_twice_and_does_not_combine_what_is_enough_alone():
    model = flipping(lambda change: 0 in change or {2, 3} <= change)
    oracle = Oracle(model, QUERY)
    first = greedy(oracle, np.arange(6))
    found = prove(oracle, np.arange(6), first, 3, every=True)
    assert oracle.counts.computed == len(oracle.evaluated) == 1 + 6 + 10  # of five events, all pairs
    assert found.proven == 3
    assert lower_bound(oracle.evaluated, range(6)) == 2  # without that rule, the pairs with event 0 are missing
    assert diverse_counterfactuals(found, 9) == [{0}, {2, 3}]


def test_a_proof_goes_no_further_than_the_answer():
    oracle = Oracle(flipping(lambda change: 4 in change), QUERY)
    prove(oracle, np.arange(20), greedy(oracle, np.arange(20)), 4)
    assert len(oracle.evaluated) == 21


def test_several_ways_out_are_disjoint_where_possible_and_ordered_by_size():
    ways = [frozenset({1, 2}), frozenset({5, 6, 7}), frozenset({10, 11, 12, 13})]
    model = flipping(lambda change: any(way <= change for way in ways))
    oracle = Oracle(model, QUERY)
    found = search_alternatives(oracle, np.arange(24), scout, scout(oracle, np.arange(24)), 3)
    assert diverse_counterfactuals(found, 3) == ways
    assert diverse_counterfactuals(found, 2) == ways[:2]


@pytest.mark.parametrize("ways", [[{1}, {4}, {6}], [{0, 1}, {2, 3}, {4, 5}]])
def test_once_enough_ways_out_are_known_nothing_more_is_searched(ways):
    oracle = Oracle(Lookup(lambda removal: -1.0 if any(way <= removal for way in ways) else 1.0), QUERY)
    found = search_alternatives(oracle, np.arange(9), scout, scout(oracle, np.arange(9)), 3)
    assert diverse_counterfactuals(found, 3) == ways
    search_alternatives(oracle, np.arange(9), lambda *_: pytest.fail("it searches"), found, 3)


def test_where_each_way_out_is_one_event_the_others_are_searched_once():
    def counted(oracle, ranking):
        searched.append(ranking.tolist())
        return scout(oracle, ranking)

    oracle, searched = Oracle(Lookup(lambda removal: 1.0 - 2.0 * bool(removal & {1, 4})), QUERY), []
    search_alternatives(oracle, np.arange(6), counted, scout(oracle, np.arange(6)), 3)
    assert searched == [[0, 2, 3, 5]]


def test_where_all_ways_out_share_an_event_they_are_found_too():
    model = flipping(lambda change: 3 in change and change & {8, 15})
    oracle = Oracle(model, QUERY)
    found = search_alternatives(oracle, np.arange(24), scout, scout(oracle, np.arange(24)), 3)
    assert sorted(map(sorted, diverse_counterfactuals(found, 3))) == [[3, 8], [3, 15]]


def first_pair(oracle, ranking):
    """A search that ends with the first single event or pair that flips the prediction."""
    for change in sets_of(ranking.tolist(), range(3)):
        if oracle.ask([frozenset(), change])[1] < 0:
            return result(oracle, ranking, sorted(change), 1, FOUND)
    return result(oracle, ranking, (), 1, EXHAUSTED)


def test_ways_out_that_share_an_event_are_found_beside_one_that_is_a_single_event():
    ways = [{3}, {8, 9}, {8, 10}]
    oracle = Oracle(flipping(lambda change: any(way <= change for way in ways)), QUERY)
    found = search_alternatives(oracle, np.arange(12), first_pair, first_pair(oracle, np.arange(12)), 3)
    assert diverse_counterfactuals(found, 3) == ways


def test_a_smaller_way_out_that_is_met_later_becomes_the_answer():
    model = flipping(lambda change: {1, 2, 3} <= change or 15 in change)
    oracle = Oracle(model, QUERY)
    found = greedy(oracle, np.arange(15))  # it does not know of 15
    oracle.ask([frozenset({1, 2, 3})])
    assert not found.counterfactuals
    assert prove(oracle, np.arange(16), found, 2).rows == (15,)


@pytest.mark.parametrize("seed", range(5))
def test_ways_out_contain_no_other_and_nothing_that_can_be_left_out(seed):
    model = random_model(np.random.default_rng(seed), 20, bias=3.0)
    oracle = Oracle(model, QUERY)
    found = search_alternatives(oracle, np.arange(20), scout, scout(oracle, np.arange(20)), 5)
    ways = diverse_counterfactuals(found, 5)
    assert len(ways) == 5
    assert [len(way) for way in ways] == sorted(len(way) for way in ways)
    for way, other in itertools.permutations(ways, 2):
        assert not way <= other
    for way in ways:
        assert not any(flips(3.0, model.function(way - {row})) for row in way)


@pytest.mark.parametrize("seed", range(20))
def test_the_lower_bound_is_the_first_size_with_a_set_that_nobody_asked_about(seed):
    rng = np.random.default_rng(seed)
    every = sets_of(range(5), range(6))
    left_out = [every[int(place)] for place in rng.choice(len(every), 2, replace=False)]
    asked = [change for change in every if change not in left_out]
    sizes = [len(change) for change in left_out if change]  # what is predicted with nothing changed is always known
    assert lower_bound(asked, range(5)) == min(sizes)


def test_a_part_of_the_answer_is_no_alternative():
    scored = {frozenset(): 1.0, frozenset({1}): -1.0, frozenset({2}): 1.0, frozenset({1, 2}): -1.0}
    found = SearchResult((1, 2), 0, FOUND, flipping_sets(scored), 1, tuple(scored.items()))
    assert diverse_counterfactuals(found, 3) == [{1, 2}]
