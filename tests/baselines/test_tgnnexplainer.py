import math
from itertools import combinations

import numpy as np
import pytest

from cody.baselines import explore, tgnnexplainer
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.models.toy import ToyModel
from cody.search.oracle import Oracle


def make(events=8, seed=0, pairs=True, bias=0.5, **budget):
    rng = np.random.default_rng(seed)
    graph = TemporalGraph.from_arrays([0] * (events + 1), [1] * (events + 1), np.arange(events + 1.0))
    joint = {(0, 2): 1.5, (1, 3): -1.0, (2, 5): 0.7} if pairs else None
    model = ToyModel(graph, rng.normal(size=events + 1), pairs=joint, bias=bias)
    return Oracle(model, graph.query(events), **budget), rng.permutation(events)


def reward(oracle, ranking, kept):
    original, logit = oracle.model.logits(oracle.query, [frozenset(), frozenset(ranking.tolist()) - set(kept)])
    return round(logit - original if original > 0 else original - logit, 4)


def plain_rollouts(oracle, ranking, rollouts, exploration):
    """The method once more, as literally as possible: the visited sets."""
    visits, total, children = {}, {}, {}
    rank = {event: number for number, event in enumerate(ranking.tolist())}
    for _ in range(rollouts):
        kept = frozenset(rank)
        path = [kept]
        while len(kept) > 1:
            made = children.setdefault(kept, [])
            left = sorted((event for event in kept if kept - {event} not in made), key=rank.get)
            if left:
                made.append(kept - {left[-1]})
            everyone = sum(visits.get(child, 0) for child in made)
            claims = []
            for child in made:
                count = visits.get(child, 0)
                claims.append(total.get(child, 0.0) / max(count, 1) + exploration * math.sqrt(everyone) / (1 + count))
            kept = made[int(np.argmax(claims))]
            path.append(kept)
        for node in path:
            visits[node] = visits.get(node, 0) + 1
            total[node] = total.get(node, 0.0) + reward(oracle, ranking, kept)
    return {node for nodes in [*children.values(), [frozenset(rank)]] for node in nodes}


@pytest.mark.parametrize("bias", [0.5, -4.0])
@pytest.mark.parametrize("exploration", [0.1, 10.0])
def test_it_visits_the_sets_that_the_method_says(bias, exploration):
    oracle, ranking = make(9, bias=bias)
    explore(oracle, ranking, rollouts=25, exploration=exploration)
    asked = {frozenset(ranking.tolist()) - removal for removal in oracle.evaluated}
    expected = plain_rollouts(oracle, ranking, 25, exploration)
    single = {frozenset({event}) for event in ranking.tolist()}  # asked first, for their rewards
    assert asked == expected | single
    assert len(asked) > 50


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bias", [2.0, -2.0])
def test_when_all_sets_were_visited_it_has_the_best_one_of_each_size(seed, bias):
    oracle, ranking = make(5, seed, bias=bias)
    explored = explore(oracle, ranking, rollouts=10_000)
    assert explored.found.ended == "found"  # "exhausted" would say that no counterfactual exists
    assert oracle.counts.computed == 2**5 - 1
    sets = [kept for size in range(1, 6) for kept in combinations(ranking.tolist(), size)]
    for level in explored.levels:
        within = [kept for kept in sets if len(kept) <= level.size]
        best = max(within, key=lambda kept: (reward(oracle, ranking, kept), -len(kept)))
        assert level.kept == best  # both in the navigator's order
        assert level.reward == pytest.approx(reward(oracle, ranking, best), abs=1e-4)
    assert explored.found.rows == explored.levels[-1].kept


def test_of_equally_good_sets_the_smallest_wins():
    oracle, ranking = make(6, pairs=False)
    oracle.model.weights[:] = [0, 0, 3, 0, 0, 0, 0]
    assert tgnnexplainer(oracle, ranking, rollouts=10_000).rows == (2,)


def test_only_the_first_of_the_ranking_are_dropped():
    oracle, ranking = make(8)
    found = tgnnexplainer(oracle, ranking, size=4)
    assert set().union(*oracle.evaluated) == set(ranking[:4].tolist())
    assert set(found.rows) <= set(ranking[:4].tolist())


@pytest.mark.parametrize("evaluations", [1, 3, 9, 10, 50, 77])
def test_a_budget_of_evaluations_is_used_up_and_not_exceeded(evaluations):
    oracle, ranking = make(9, evaluations=evaluations)
    explored = explore(oracle, ranking)
    assert explored.found.ended == "evaluations"
    assert oracle.counts.computed == evaluations
    best = max(reward(oracle, ranking, set(ranking.tolist()) - removal) for removal in oracle.evaluated)
    assert reward(oracle, ranking, explored.found.rows) == pytest.approx(best, abs=1e-4)


def test_a_budget_of_seconds_ends_it():
    oracle, ranking = make(20, seconds=1e-9)
    assert tgnnexplainer(oracle, ranking).ended == "seconds"


def test_the_result_does_not_depend_on_the_batches_of_the_oracle():
    results = []
    for sets_at_once in (1, 256):
        oracle, ranking = make(14, 3, sets_at_once=sets_at_once)
        results.append(explore(oracle, ranking, rollouts=60))
    assert results[0] == results[1]
    assert results[0].found.ended == "iterations"
    assert results[0].found.iterations == 60


def test_without_candidates_there_is_nothing_to_find():
    oracle, _ = make()
    assert explore(oracle, np.arange(0)).levels == ()


@pytest.mark.parametrize("wrong", [{"rollouts": 0}, {"size": 0}, {"exploration": -1.0}, {"exploration": math.nan}])
def test_arguments_that_make_no_sense_are_refused(wrong):
    oracle, ranking = make()
    with pytest.raises(CallError, match=next(iter(wrong))):
        tgnnexplainer(oracle, ranking, **wrong)
