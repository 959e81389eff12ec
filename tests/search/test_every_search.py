"""What every search of the catalogue keeps to. A new one is asked the same by its entry there."""

import numpy as np
import pytest

from cody.search.oracle import Oracle
from cody.search.result import ENDINGS
from cody.study.explainers import SEARCHES
from search.plain_tree import changed
from search.test_search import QUERY, random_model

EVERY = pytest.mark.parametrize("search", [search for _, search, _ in SEARCHES.values()], ids=list(SEARCHES))


def problems():
    """Models of a function of the set, with candidates in some order: a few events and many, easy and hopeless."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        events = int(rng.integers(1, 25))
        yield random_model(rng, events, bias=rng.choice([2.0, -2.0, 0.5, 30.0])), rng.permutation(events)


@EVERY
def test_the_answer_is_a_set_of_candidates_that_was_asked_about(search):
    for model, ranking in problems():
        oracle = Oracle(model, QUERY)
        found = search(oracle, ranking)
        assert len(set(found.rows)) == len(found.rows)
        assert frozenset(found.rows) in oracle.evaluated
        assert all(change <= set(ranking.tolist()) for change in oracle.evaluated)
        assert found.ended in ENDINGS
        assert dict(found.evaluated) == oracle.evaluated


@EVERY
def test_what_it_met_it_answers_with(search):
    answered = 0
    for model, ranking in problems():
        found = search(Oracle(model, QUERY), ranking)
        original = model.function(frozenset())
        flipping_sets = [change for change, logit in found.evaluated if changed(original, logit)]
        assert {change for change, _ in found.counterfactuals} == set(flipping_sets)
        assert changed(original, model.function(frozenset(found.rows))) == bool(flipping_sets)
        assert len(found.rows) == min(map(len, flipping_sets), default=len(found.rows))
        answered += bool(flipping_sets)
    assert 0 < answered < 12


@EVERY
def test_a_budget_is_kept_and_never_an_error(search):
    for model, ranking in problems():
        for evaluations in (1, 2, 5, 40):
            oracle = Oracle(model, QUERY, evaluations=evaluations)
            found = search(oracle, ranking)
            assert len(oracle.evaluated) <= evaluations
            assert frozenset(found.rows) in oracle.evaluated


@EVERY
def test_the_same_question_has_the_same_answer_however_it_is_batched(search):
    for model, ranking in problems():
        once, again, one_by_one = (
            search(Oracle(model, QUERY, sets_at_once=at_once), ranking) for at_once in (256, 256, 1)
        )
        assert once == again
        assert (once.rows, once.ended, once.proven) == (one_by_one.rows, one_by_one.ended, one_by_one.proven)


@EVERY
def test_without_candidates_there_is_nothing_to_find(search):
    found = search(Oracle(random_model(np.random.default_rng(0), 3), QUERY), np.array([], dtype=np.int64))
    assert (found.rows, found.counterfactuals, found.ended) == ((), (), "exhausted")
