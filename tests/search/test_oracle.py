import numpy as np
import pytest

from cody.errors import BudgetError, CallError, ModelError
from cody.graph import TemporalGraph
from cody.search.oracle import Counts, Oracle

GRAPH = TemporalGraph.from_arrays(src=[0] * 10, dst=[1] * 10, time=np.arange(10.0))
QUERY = GRAPH.query(9)


class Sum:
    """Logit = minus the sum of the removed rows; notes the batches it was asked."""

    def __init__(self):
        self.batches = []

    def logits(self, query, removals):
        self.batches.append(list(removals))
        return np.array([-float(sum(removal)) for removal in removals])


def sets(*rows):
    return [frozenset(row) for row in rows]


def test_equal_sets_are_evaluated_once():
    model = Sum()
    oracle = Oracle(model, QUERY)
    assert oracle.ask(sets({1, 2}, {2, 1}, {3})) == [-3.0, -3.0, -3.0]
    assert oracle.ask(sets({3})) == [-3.0]
    assert model.batches == [sets({1, 2}, {3})]
    assert oracle.counts == Counts(requested=4, remembered=2, computed=2, ahead=0, batches=1)


def test_what_was_asked_ahead_is_charged_when_it_is_used():
    oracle = Oracle(Sum(), QUERY)
    oracle.prefetch(sets({1}, {2}, {3}, {1}))
    assert oracle.counts == Counts(requested=0, remembered=0, computed=3, ahead=3, batches=1)
    assert oracle.counts.share_unused == 1.0
    assert oracle.knows(frozenset({2}))
    oracle.ask(sets({1}, {2}))
    oracle.ask(sets({1}))
    assert oracle.counts == Counts(requested=3, remembered=1, computed=3, ahead=3, batches=1)
    assert oracle.counts.share_unused == pytest.approx(1 / 3)


def test_asking_ahead_does_not_change_what_a_search_is_charged():
    plain, ahead = Oracle(Sum(), QUERY), Oracle(Sum(), QUERY)
    ahead.prefetch(sets({1}, {2}, {5}))
    for oracle in (plain, ahead):
        oracle.ask(sets({1}, {2}))
        oracle.ask(sets({2}, {4}))
    assert plain.counts.requested - plain.counts.remembered == ahead.counts.requested - ahead.counts.remembered == 3


def test_what_an_earlier_search_has_paid_for_takes_nothing_of_the_budget():
    oracle = Oracle(Sum(), QUERY, evaluations=2, answers={frozenset({1}): -1.0}, paid=sets({1}, {2}))
    oracle.ask(sets({1}, {3}))
    oracle.ask(sets({2}, {3}))
    assert (oracle.spent, len(oracle.evaluated)) == (1, 3)
    with pytest.raises(BudgetError):
        oracle.ask(sets({4}, {5}))
    assert oracle.ask(sets({4})) == [-4.0]
    assert oracle.spent == 2
    with pytest.raises(BudgetError):
        oracle.ask(sets({5}))
    assert oracle.ask(sets({1}, {2}, {4})) == [-1.0, -2.0, -4.0]


def test_large_batches_are_split():
    model = Sum()
    oracle = Oracle(model, QUERY, sets_at_once=2)
    assert oracle.ask(sets({1}, {2}, {3}, {4}, {5})) == [-1.0, -2.0, -3.0, -4.0, -5.0]
    assert [len(batch) for batch in model.batches] == [2, 2, 1]
    with pytest.raises(CallError, match="sets_at_once"):
        Oracle(model, QUERY, sets_at_once=0)


def test_answers_are_rounded_so_that_batching_cannot_decide():
    model = Sum()
    model.logits = lambda query, removals: np.array([0.123456789 + 1e-7 * len(removals)] * len(removals))
    assert Oracle(model, QUERY).ask(sets({1})) == Oracle(model, QUERY).ask(sets({1}, {2}))[:1] == [0.12346]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.4e36])
def test_a_model_that_answers_nonsense_is_named_with_the_set(bad):
    model = Sum()
    model.logits = lambda query, removals: np.array([bad if 7 in removal else 1.0 for removal in removals])
    oracle = Oracle(model, QUERY)
    with pytest.raises(ModelError, match=r"the change \[3, 7\]"):
        oracle.ask(sets({1}, {7, 3}))
    assert not oracle.knows(frozenset({7, 3}))


def test_a_model_with_too_few_answers_is_refused():
    model = Sum()
    model.logits = lambda query, removals: np.zeros(1)
    with pytest.raises(ModelError, match="returned 1 logits for 2 changes"):
        Oracle(model, QUERY).ask(sets({1}, {2}))


def test_asking_ahead_computes_no_more_than_the_budget_has_room_for():
    oracle = Oracle(Sum(), QUERY, evaluations=3)
    oracle.ask(sets({1}))
    oracle.prefetch(sets({2}, {3}, {4}, {5}))
    assert oracle.counts.computed == 3
    assert oracle.ask(sets({2}, {3})) == [-2.0, -3.0]


def test_a_model_with_too_few_answers_is_refused_also_when_asked_ahead():
    model = Sum()
    model.logits = lambda query, removals: np.zeros(1)
    with pytest.raises(ModelError, match="returned 1 logits for 2 changes"):
        Oracle(model, QUERY).prefetch(sets({1}, {2}))


def test_with_a_budget_of_time_the_model_is_first_asked_about_a_single_set():
    """Nobody knows yet how slow it is."""
    model = Sum()
    Oracle(model, QUERY, seconds=1e6).ask(sets({1}, {2}, {3}))
    assert [len(batch) for batch in model.batches] == [1, 2]


def test_with_a_budget_of_time_no_batch_is_more_than_twice_as_large_as_all_before_it():
    model = Sum()
    Oracle(model, QUERY, seconds=1e6).ask([frozenset({row, other}) for row in range(9) for other in range(row)])
    assert [len(batch) for batch in model.batches] == [1, 2, 6, 18, 9]  # a slow batch that is stopped is lost


def test_a_batch_takes_at_most_half_of_the_time_that_is_left(monkeypatch):
    class Slow(Sum):
        def logits(self, query, removals):
            clock[0] += 0.02 * len(removals)
            return super().logits(query, removals)

    model, clock = Slow(), [0.0]
    monkeypatch.setattr("cody.search.oracle.time.monotonic", lambda: clock[0])
    with pytest.raises(BudgetError):
        Oracle(model, QUERY, seconds=0.3).ask([frozenset({row, other}) for row in range(9) for other in range(row)])
    assert 2 <= max(len(batch) for batch in model.batches) <= 7
