"""From a question to an explanation: what is reported, how it is confirmed, and what it survives."""

import itertools
import json
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import cody
from cody.baselines import tgnnexplainer
from cody.cli import show
from cody.cli.terminal import print_parts
from cody.engine import Replay, fast_model
from cody.errors import BudgetError, CallError, DataError, ModelError, ProbabilityWarning
from cody.explaining.explanation import Explanation
from cody.explaining.pipeline import explain
from cody.explaining.wording import answer_table
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Move
from cody.graph.neighbourhood import candidates, events_among_nodes, events_on_paths
from cody.graph.protected import Protected
from cody.models import ToyModel
from cody.models.contract import as_model
from cody.search import cody as cody_search
from cody.search import greedy, greedy_then_cody, result, top_share
from cody.search.policies import event_impact, random, temporal
from cody.search.proposals import AnyTime
from cody.utils.deadline import check_deadline
from cody.utils.files import with_checksum
from random_events import random_graph, random_network

GRAPH = TemporalGraph.from_arrays(
    src=[0, 0, 2, 0, 3, 0, 1, 0], dst=[1, 2, 1, 3, 1, 1, 2, 1], time=[0, 10, 20, 25, 30, 33, 36, 40], num_nodes=6
)
QUERY = GRAPH.query(7)
FAR = GRAPH.link(3, 4, 50)  # no event touches node 4


def toy(weights=(1, 0, 1, 0, 2, 4, 0, 0), **options):
    return ToyModel(GRAPH, weights=list(weights), half_life=1e6, **options)


@pytest.fixture(scope="module", params=["tgn", "tgat"])
def network_case(request):
    """A random network and a link of it whose decision can be changed."""
    rng = np.random.default_rng(4)
    graph = random_graph(rng, nodes=20, events=300)
    network = random_network(graph, request.param, batch=32, neighbours=6)
    model = fast_model(network, graph)
    row = next(row for row in range(250, 300) if explain(model, graph, graph.query(row)).is_counterfactual)
    return graph, network, row


def test_an_explanation_says_what_was_removed_and_what_the_model_says_after_each():
    why = explain(toy(bias=-5.5), GRAPH, QUERY)
    assert why.logits[0] == pytest.approx(2.5, abs=1e-3)
    assert (why.removed, why.is_counterfactual, why.is_minimal) == ((5,), True, True)
    assert [step.event.row for step in why.steps] == [5]
    assert why.steps[0].logit == why.logits[-1] == pytest.approx(-1.5, abs=1e-3)
    assert [event.row for event in why.candidates] == candidates(GRAPH, QUERY).tolist()
    assert (why.src, why.dst, why.event, why.seed) == ("0", "1", 7, 0)
    assert why.data == GRAPH.identity
    assert why.evaluations == len(why.evaluated) == len({rows for rows, _ in why.evaluated})
    assert "Without 1 of 7 past events the score falls from 0.92 to 0.18: no link." in str(why)


def test_the_logits_are_those_of_the_model_whatever_the_search(network_case):
    graph, network, row = network_case
    model, query = fast_model(network, graph), graph.query(row)
    for search in (cody_search, greedy, greedy_then_cody):
        why = explain(model, graph, query, search=search)
        prefixes = [frozenset(why.removed[:size]) for size in range(len(why.removed) + 1)]
        np.testing.assert_allclose(why.logits, Replay(network, graph).logits(query, prefixes), atol=1e-4)


def test_a_counterfactual_is_confirmed_by_replay(network_case):
    graph, network, row = network_case
    query = graph.query(row)
    why = explain(fast_model(network, graph), graph, query)
    original, without = Replay(network, graph).logits(query, [frozenset(), why.change])
    assert (original > 0) != (without > 0)
    assert why.verification[1:] == pytest.approx((original, without), abs=1e-4)
    start = min(why.removed) // 32 * 32 if "TGN" in repr(fast_model(network, graph)) else 0
    stored = "the memory at " if start else ""
    assert why.verification.by == f"by replay from {stored}event {start}"
    full = explain(fast_model(network, graph), graph, query, full_replay=True)
    assert full.verification.by == "by replay from event 0"
    assert full.removed == why.removed


def test_a_link_that_did_not_happen_has_no_event():
    assert explain(toy(), GRAPH, GRAPH.link(2, 3, 26)).event is None
    assert explain(toy(), GRAPH, GRAPH.query(4)).event == 4


def test_the_candidates_reach_as_far_as_the_model_looks():
    model = toy()
    model.hops = 1
    near, all_of_them = candidates(GRAPH, FAR, hops=1).tolist(), candidates(GRAPH, FAR).tolist()
    assert near != all_of_them
    assert [event.row for event in explain(model, GRAPH, FAR).candidates] == near
    assert [event.row for event in explain(model, GRAPH, FAR, hops=2).candidates] == all_of_them


class Unfaithful:
    """Answers otherwise when asked about a single set: the plain form of itself contradicts it."""

    def __init__(self, change):
        self.toy, self.change = toy(bias=-5.5), change

    def logits(self, query, removals):
        return self.toy.logits(query, removals) + (self.change if len(removals) == 1 and removals[0] else 0.0)


def test_a_model_that_contradicts_itself_is_refused_with_the_set():
    with pytest.raises(ModelError, match=r"contradicts itself .* the change \[5\]"):
        explain(Unfaithful(3.0), GRAPH, QUERY, search=partial(greedy, children=5))


class FastAndWrong(Unfaithful):
    """Its sessions are off by something that the definition of its answers does not have."""

    def reference(self, query, change, *, full=False):
        judge = toy(bias=-5.5)
        judge.since = 0
        return judge


def test_where_a_fast_answer_is_wrong_the_replayed_one_is_reported_with_a_remark():
    right = explain(toy(bias=-5.5), GRAPH, QUERY, search=partial(greedy, children=5))
    wrong = FastAndWrong(0.0)
    wrong.logits = lambda query, changes: wrong.toy.logits(query, changes) + [0.1 * bool(each) for each in changes]
    why = explain(wrong, GRAPH, QUERY, search=partial(greedy, children=5))
    assert why.is_counterfactual
    assert (why.original, why.without) == (right.original, right.without)
    assert f"({right.without:.5f}, which counts; the search had {right.without + 0.1:.5f})" in why.certainty
    assert type(why).from_json(why.to_json()) == why


def test_where_replay_does_not_agree_at_all_there_is_no_counterfactual_and_no_error():
    wrong = FastAndWrong(0.0)
    wrong.logits = lambda query, changes: wrong.toy.logits(query, changes) * [-1 if each else 1 for each in changes]
    why = explain(wrong, GRAPH, QUERY, search=partial(greedy, children=5))
    assert why.verdict in ("not verified", "counterfactual")
    assert (why.verdict == "counterfactual") == ((why.verification.without > 0) != (why.original > 0))


def test_a_prediction_that_replay_denies_is_an_error_that_does_not_blame_the_users_model():
    wrong = FastAndWrong(0.0)
    wrong.logits = lambda query, changes: -wrong.toy.logits(query, changes)
    with pytest.raises(ModelError, match="a fault of the fast computation, not of your modules"):
        explain(wrong, GRAPH, QUERY, search=partial(greedy, children=5))


def test_large_logits_may_differ_by_more_before_a_model_contradicts_itself():
    class Large:
        def logits(self, query, removals):
            answers = np.array([-5000.0 if removal else 5000.0 for removal in removals])
            return answers + (0.1 if len(removals) == 1 else 0.0)

    assert explain(Large(), GRAPH, QUERY, search=partial(greedy, children=5)).is_counterfactual


def test_what_replay_does_not_confirm_is_no_counterfactual():
    class OnTheEdge(Unfaithful):
        def logits(self, query, removals):
            answers = np.array([-1e-5 if removal else 1.0 for removal in removals])
            return answers + (2e-5 if len(removals) == 1 else 0.0)

    why = explain(OnTheEdge(0), GRAPH, QUERY, search=partial(greedy, children=5))
    assert why.logits[-1] < 0
    assert not why.is_counterfactual
    assert why.verdict == "not verified"


def test_the_prediction_itself_is_confirmed_too():
    class OtherPrediction(Unfaithful):
        """On the edge: its plain form does not predict the link in the first place."""

        def logits(self, query, removals):
            return np.array([-1.0 if removal else 2e-4 for removal in removals])

        def reference(self, query, removal, full):
            judge = PlainPatient(self)
            judge.logits = lambda query, removals: np.array([-1.0 if removals[0] else -2e-4])
            return judge

    why = explain(OtherPrediction(0), GRAPH, QUERY, search=partial(greedy, children=5))
    assert (why.original, why.verdict) == (2e-4, "not verified")
    assert why.verification[1:] == (-2e-4, -1.0)
    assert not why.is_counterfactual


def test_none_among_the_candidates_and_none_within_the_budget_are_different_answers():
    stubborn = toy(bias=5.0)
    proved = explain(stubborn, GRAPH, QUERY)
    assert (proved.verdict, proved.was_cut_short) == ("none among the candidates", False)
    assert "No set of the 7 past events near this link flips the prediction" in proved.sentence
    for budget in ({"search": partial(cody_search, iterations=20)}, {"evaluations": 20}):
        cut = explain(stubborn, GRAPH, QUERY, **budget)
        assert (cut.verdict, cut.was_cut_short) == ("none within the budget", True)
        assert cut.evaluations == 20
        assert "there may be one" in cut.sentence
    assert explain(toy(bias=5.0), GRAPH, QUERY, search=greedy).verdict == "none found"


def test_a_budget_of_seconds_returns_the_best_so_far():
    class Slow:
        def logits(self, query, removals):
            clock[0] += 0.1 * len(removals)
            return toy(bias=5.0).logits(query, removals)

    clock = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cody.search.oracle.time.monotonic", lambda: clock[0])
        why = explain(Slow(), GRAPH, QUERY, seconds=2.05)
        assert why.ended == "seconds"
        assert why.verdict == "none within the budget"
        assert 10 <= why.evaluations <= 21
        assert clock[0] < 2.5  # asking ahead does not overrun the budget
        assert why.removed  # something that moved the score
        impatient = explain(Slow(), GRAPH, QUERY, seconds=0.05, policy=event_impact)
        assert impatient.ended == "seconds"


def test_time_that_is_over_before_the_search_begins_leaves_the_best_that_the_policy_asked(monkeypatch):
    class Slow:
        def logits(self, query, removals):
            clock[0] += 0.1 * len(removals)
            return toy(bias=-5.5).logits(query, removals)

    clock = [0.0]
    monkeypatch.setattr("cody.search.oracle.time.monotonic", lambda: clock[0])
    why = explain(Slow(), GRAPH, QUERY, policy=event_impact, seconds=0.35)
    assert (why.ended, why.iterations) == ("seconds", 0)
    assert (why.removed, why.is_counterfactual) == ((5,), True)


class Patient:
    """A model that takes a minute for each set, and looks at the clock while it does."""

    def __init__(self, *, bias=5.0, plainly=0.0, fast=0.0):
        self.toy, self.slow, self.plainly = toy(bias=bias), 60.0 * (1 - fast), plainly

    def logits(self, query, removals):
        if any(removals):
            wait(self.slow)
        return self.toy.logits(query, removals)

    def reference(self, query, removal, full):
        return PlainPatient(self)


class PlainPatient:
    since = 0

    def __init__(self, model):
        self.model = model

    def logits(self, query, removals):
        wait(self.model.plainly)
        return self.model.toy.logits(query, removals)


def wait(seconds):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        check_deadline()
        time.sleep(0.001)


@pytest.mark.parametrize("policy", [temporal, event_impact, random])
@pytest.mark.parametrize("search", [cody_search, greedy, greedy_then_cody, top_share, tgnnexplainer])
@pytest.mark.parametrize("seconds", [1e-9, 0.1])
def test_a_budget_of_seconds_holds_for_every_explainer_also_within_one_answer(policy, search, seconds):
    began = time.monotonic()
    why = explain(Patient(), GRAPH, QUERY, policy=policy, search=search, seconds=seconds)
    assert time.monotonic() - began < seconds + 30  # generous, for a busy machine: a single answer takes a minute
    assert why.original == pytest.approx(13.0, abs=1e-3)
    assert not why.is_counterfactual
    for text in (str(why), repr(why), why._repr_html_(), why.to_json(), why.to_frame().to_string()):
        assert text
    assert Explanation.from_json(why.to_json()) == why


def test_what_there_was_no_time_to_confirm_is_not_called_a_counterfactual():
    why = explain(Patient(bias=-5.5, plainly=60.0, fast=1.0), GRAPH, QUERY, seconds=0.3)
    assert (why.removed, why.verdict, why.verification) == ((5,), "not verified", None)
    assert (why.is_counterfactual, why.is_minimal) == (False, False)
    assert why.sentence.startswith("Not verified: without 1 of 7 past events the score falls from 0.92 to 0.18")
    assert "no time was left" in str(why)
    assert explain(Patient(bias=-5.5, fast=1.0), GRAPH, QUERY, seconds=30).verdict == "counterfactual"


@pytest.mark.parametrize(("plainly", "verdict"), [(0.11, "counterfactual"), (0.13, "not verified")])
def test_a_search_that_uses_all_of_its_time_leaves_a_quarter_for_the_confirmation(monkeypatch, plainly, verdict):
    clock = [0.0]

    class Ticking(Patient):
        def logits(self, query, removals):
            clock[0] += 0.01 * len(removals)
            return self.toy.logits(query, removals)

        def reference(self, query, removal, full):
            return TickingPlain(self)

    class TickingPlain(PlainPatient):
        def logits(self, query, removals):
            clock[0] += plainly  # for the prediction, and once more for the flip
            check_deadline()
            return self.model.toy.logits(query, removals)

    def ask_on_and_on(oracle, ranking):
        with suppress(BudgetError):
            for size in range(len(ranking) + 1):
                for rows in itertools.combinations(ranking.tolist(), size):
                    oracle.ask([frozenset(rows)])
        return result(oracle, ranking, (5,), 0, "seconds")

    monkeypatch.setattr("cody.search.oracle.time.monotonic", lambda: clock[0])
    why = explain(Ticking(bias=-5.5), GRAPH, QUERY, search=ask_on_and_on, seconds=1.0)
    assert 0.75 <= 0.01 * why.evaluations < 0.78
    assert (why.rows, why.verdict) == ((5,), verdict)


def test_a_plain_form_that_disagrees_at_the_decision_line_proves_nothing():
    class Edge(Patient):
        def logits(self, query, removals):
            return np.array([-1e-4 if removal else 1.0 for removal in removals])

        def reference(self, query, removal, full):
            judge = PlainPatient(self)
            judge.logits = lambda query, removals: np.array([1e-4 if removals[0] else 1.0])
            return judge

    why = explain(Edge(), GRAPH, QUERY, search=partial(cody_search, iterations=3000))
    assert (why.ended, why.verdict) == ("exhausted", "not verified")
    assert "the logit is 0.00010, which does not flip the prediction" in str(why)


def test_where_nothing_was_found_the_answer_without_all_candidates_is_told():
    why = explain(toy(bias=5.0), GRAPH, QUERY, search=partial(greedy, children=1))
    assert why.change != {event.row for event in why.candidates}
    assert why.without_all == 5.0
    assert "Without all 7 it is 0.99." in why.sentence
    assert "Without all" not in explain(toy(bias=5.0), GRAPH, QUERY).sentence  # every set was tried


def test_a_link_without_a_past_is_a_result():
    why = explain(toy(bias=1.0), GRAPH, GRAPH.query(0))
    assert (why.candidates, why.removed, why.verdict) == ((), (), "none among the candidates")
    assert "no past events" in why.sentence
    assert "no past events" in why._repr_html_()
    lonely = explain(toy(bias=1.0), GRAPH, cody.Query(4, 5, 50.0, 8))
    assert lonely.verdict == "none among the candidates"


def test_the_same_seed_gives_the_same_explanation_whatever_came_before(network_case):
    graph, network, row = network_case
    query, other = graph.query(row), graph.query(row - 1)
    first, second = (
        [explain(fast_model(network, graph), graph, link, policy=random, seed=3) for link in links]
        for links in ([query, other], [other, query])
    )
    assert replace(first[0], seconds=0) == replace(second[1], seconds=0)
    assert (
        explain(toy(), GRAPH, QUERY, policy=random, seed=1).evaluated
        != explain(toy(), GRAPH, QUERY, policy=random, seed=2).evaluated
    )


def test_links_are_shuffled_independently():
    """Of two links with equally many candidates."""
    rankings = []

    def nothing(oracle, ranking):
        rankings.append((ranking - ranking.min()).tolist())
        return result(oracle, ranking, (), 0, "found")

    graph = TemporalGraph.from_arrays(src=[0] * 101, dst=[1] * 101, time=np.arange(101.0))
    for row in (99, 100):
        explain(ToyModel(graph), graph, graph.query(row), policy=random, search=nothing, size=50)
    assert sorted(rankings[0]) == sorted(rankings[1])
    assert rankings[0] != rankings[1]


def test_asking_ahead_does_not_change_an_explanation(network_case):
    graph, network, _ = network_case
    for row in range(200, 300, 9):
        one, many = (
            explain(fast_model(network, graph), graph, graph.query(row), search=partial(cody_search, ahead=ahead))
            for ahead in (1, 32)
        )
        assert (one.evaluated, one.removed, one.logits) == (many.evaluated, many.removed, many.logits)


def test_model_and_graph_are_as_they_were_also_after_an_exception(network_case):
    graph, network, row = network_case
    model, query = fast_model(network, graph), graph.query(row)
    before = {name: array.copy() for name, array in model.weights.arrays.items()}
    reference = model.logits(query, [frozenset(), frozenset({row - 1})])

    def interrupt(oracle):
        if oracle.counts.computed > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explain(model, graph, query, watch=interrupt)
    explain(model, graph, query)
    assert all(np.array_equal(array, before[name]) for name, array in model.weights.arrays.items())
    np.testing.assert_allclose(model.logits(query, [frozenset(), frozenset({row - 1})]), reference, atol=1e-9)
    cody.graph.verify_graph(graph)


def test_protected_events_are_never_removed():
    free = explain(toy(bias=-5.5), GRAPH, QUERY)
    assert free.removed == (5,)
    kept = explain(toy(bias=-5.5), GRAPH, QUERY, protect=Protected(events=[5]))
    assert 5 not in [event.row for event in kept.candidates]
    assert kept.is_counterfactual
    assert kept.parameters["protect"] == {"events": [5], "nodes": [], "times": [], "simultaneous": False}
    nodes = explain(toy(bias=-5.5), GRAPH, QUERY, protect=Protected(nodes=["2", 3]))
    assert [event.row for event in nodes.candidates] == [0, 5]
    times = explain(toy(bias=-5.5), GRAPH, QUERY, protect=Protected(times=[(20, 33)]))
    assert [event.row for event in times.candidates] == [0, 1, 6]
    everything = explain(toy(bias=-5.5), GRAPH, QUERY, protect=Protected(times=[(0, 100)]))
    assert everything.verdict == "none among the candidates"


def test_protecting_recent_events_lets_older_ones_in():
    graph = TemporalGraph.from_arrays(src=[0] * 101, dst=[1] * 101, time=np.arange(101.0))
    recent = candidates(graph, graph.query(100), size=8)
    assert recent.tolist() == list(range(92, 100))
    older = candidates(graph, graph.query(100), size=8, protect=Protected(events=range(50, 100)))
    assert older.tolist() == list(range(42, 50))


@pytest.mark.parametrize(
    ("protect", "says"),
    [
        (Protected(events=[99]), "event 99 is out of range"),
        (Protected(nodes=["nobody"]), "nobody"),
        (Protected(times=[(5, 1)]), "5.0 to 1.0"),
        (Protected(times=[(0, float("inf"))]), "are given as lists"),
        (Protected(events=3), "are given as lists"),
        (Protected(nodes="12"), "must be a list of names"),
        ([3], "cody.Protected"),
    ],
)
def test_what_cannot_be_protected_is_refused(protect, says):
    with pytest.raises(CallError, match=says):
        explain(toy(), GRAPH, QUERY, protect=protect)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": 0}, "size"),
        ({"hops": 0}, "hops"),
        ({"seed": -1}, "seed"),
        ({"evaluations": 0}, "evaluations"),
        ({"seconds": 0.0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"search": partial(cody_search, alpha=2.0)}, "alpha"),
        ({"search": partial(cody_search, iterations=-3)}, "iterations"),
        ({"search": partial(greedy, children=0)}, "children"),
        ({"policy": "temporal"}, "policy must be a function"),
        ({"search": "greedy"}, "search must be a function"),
        ({"near": "nodes"}, "near must be a function"),
        ({"seconds": "3"}, "'3'"),
        ({"size": 2.5}, "size must be a whole number"),
        ({"policy": event_impact, "evaluations": 5}, "must be at least 8"),
        ({"policy": lambda graph, query, events, oracle, rng: events[:2]}, "must return the events"),
        ({"search": lambda oracle, ranking: result(oracle, ranking, (99,), 0, "exhausted")}, "not distinct"),
        (
            {"search": lambda oracle, ranking: result(oracle, ranking, (5, 5), 0, "exhausted")},
            "not distinct candidates",
        ),
    ],
)
def test_impossible_options_are_refused(options, says):
    with pytest.raises(CallError, match=says):
        explain(toy(), GRAPH, QUERY, **options)


def test_a_budget_of_seconds_that_ends_anywhere_leaves_the_best_of_what_was_asked():
    class Slow:
        def __init__(self):
            self.toy = toy(weights=(1, 2, 1, 2, 2, 3, 1, 0), bias=-6.0)

        def logits(self, query, removals):
            clock[0] += 0.1 * len(removals)
            return self.toy.logits(query, removals)

    for policy in (temporal, event_impact):
        for search in (cody_search, greedy, greedy_then_cody):
            for budget in np.arange(0.01, 4.0, 0.13):
                clock = [0.0]
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("cody.search.oracle.time.monotonic", lambda: clock[0])  # noqa: B023
                    why = explain(Slow(), GRAPH, QUERY, policy=policy, search=search, seconds=float(budget))
                flipping = [rows for rows, logit in why.evaluated if (logit > 0) != (why.logits[0] > 0)]
                assert why.is_counterfactual == bool(flipping)
                if flipping and why.ended == "seconds":
                    assert len(why.removed) == min(map(len, flipping))


@pytest.mark.parametrize("answer", [None, 3.0, "words", [[1.0, 2.0]], ["a"]])
def test_answers_that_are_not_numbers_are_refused(answer):
    class Broken:
        def logits(self, query, removals):
            return answer

    with pytest.raises(ModelError, match=r"one number per change|logits for"):
        explain(Broken(), GRAPH, QUERY)


def test_a_model_of_another_graph_is_refused():
    other = TemporalGraph.from_arrays(src=[0, 0], dst=[1, 1], time=[1.0, 2.0])
    with pytest.raises(CallError, match=other.identity):
        explain(toy(), other, other.query(1))
    for wrong in ("tgn-collegemsg", None):
        with pytest.raises(CallError, match="logits"):
            explain(wrong, GRAPH, QUERY)
    with pytest.raises(CallError, match="graph"):
        explain(toy(), None, QUERY)


def test_numpy_numbers_are_numbers():
    query = cody.Query(np.int64(0), np.int32(1), np.float32(40.0), np.int64(7))
    options = {"size": np.int64(6), "hops": np.int8(2), "seed": np.uint8(3), "evaluations": np.int64(50)}
    search = partial(cody_search, iterations=np.int64(10), alpha=np.float32(0.5))
    why = explain(toy(), GRAPH, query, **options, search=search, protect=Protected(events=np.array([3])))
    assert Explanation.from_json(why.to_json()) == why


def test_nonsense_from_a_model_is_named_with_the_set():
    class Broken:
        def logits(self, query, removals):
            return np.array([float("nan") if 5 in removal else 1.0 for removal in removals])

    for ahead in (1, 16):  # the first set that the search wants, whatever was asked ahead
        with pytest.raises(ModelError, match=r"nan .* the change \[5, 6\]"):
            explain(Broken(), GRAPH, QUERY, search=partial(cody_search, ahead=ahead), policy=temporal)


def test_nonsense_about_a_set_that_the_search_never_wants_is_overlooked():
    class Broken:
        """Nonsense about every set that one question at a time does not lead to."""

        def logits(self, query, removals):
            answers = toy(bias=5.0).logits(query, removals)
            return np.array([a if r in wanted else float("nan") for a, r in zip(answers, removals, strict=True)])

    search = partial(cody_search, iterations=40, ahead=1)
    alone = explain(toy(bias=5.0), GRAPH, QUERY, search=search)
    wanted = {frozenset(rows) for rows, _ in alone.evaluated}
    assert explain(Broken(), GRAPH, QUERY, search=partial(search, ahead=64)).evaluated == alone.evaluated


def test_a_single_event_is_minimal_whoever_found_it():
    why = explain(toy(bias=-5.5), GRAPH, QUERY, search=greedy)
    assert (why.ended, why.removed, why.is_minimal) == ("found", (5,), True)
    pair = explain(toy(weights=(1, 0, 1, 0, 1, 1, 0, 0), bias=-2.5), GRAPH, QUERY, search=greedy)
    assert (pair.is_counterfactual, len(pair.removed), pair.is_minimal) == (True, 2, True)  # all singles were tried


def test_what_the_explainer_was_told_is_recorded():
    search = partial(cody_search, iterations=7)
    why = explain(toy(), GRAPH, QUERY, policy=temporal, search=search, size=5, near=events_among_nodes, hops=1)
    assert why.parameters["search"] == {
        "name": "cody",
        "iterations": 7,
        "alpha": pytest.approx(2 / 3),
        "ahead": cody_search.__kwdefaults__["ahead"],
        "stop_at_first": False,
    }
    assert why.parameters["policy"] == {"name": "temporal"}
    assert why.parameters["candidates"] == {"size": 5, "hops": 1, "near": "events_among_nodes"}
    assert why.model == toy().identity


def test_json_brings_back_the_same_explanation(network_case):
    graph, network, row = network_case
    model = fast_model(network, graph)
    for why in (
        explain(model, graph, graph.query(row)),
        explain(model, graph, graph.query(0)),
        explain(model, graph, graph.link(3, 4, "now"), evaluations=9, protect=Protected(events=[3], times=[(0, 5)])),
    ):
        text = why.to_json()
        again = Explanation.from_json(text)
        assert again == why
        assert again.to_json() == text
        assert str(again) == str(why)
        assert json.loads(text)["schema"] == "cody/explanation/3"
        assert "\n" not in text


def without_checksum(why):
    """A document as another program writes it."""
    document = json.loads(why.to_json())
    del document["checksum"]
    return document


def test_a_document_that_is_not_as_it_was_written_is_refused():
    document = json.loads(explain(toy(bias=-5.5), GRAPH, QUERY).to_json())
    for path, value in ((("logits", 1), 3), (("candidates", "time", 0), 3), (("ended",), "stuck"), (("seed",), 3)):
        with pytest.raises(DataError, match="checksum mismatch"):
            Explanation.from_dict(put(document, path, value))


def as_0_2_wrote_it(why):
    """The document of an explanation in the form of CoDy 0.2."""
    document = without_checksum(why)
    del document["candidates"], document["surroundings"], document["evaluated"], document["verification"]

    def events(some):
        return [{name: value for name, value in event._asdict().items() if name != "carries"} for event in some]

    def verification(found):
        formerly = "the model was asked once more, about this set alone"
        return found and found._asdict() | {"by": found.by.replace("by scoring this set once more, alone", formerly)}

    nodes, around = why.surroundings
    return with_checksum(
        document
        | {
            "schema": "cody/explanation/2",
            "candidates": events(why.candidates),
            "surroundings": {"nodes": [node._asdict() for node in nodes], "events": events(around)},
            "explored": why.evaluated,
            "confirmed": verification(why.verification),
            "alternatives": [{"rows": rows, "confirmed": verification(found)} for rows, found, _ in why.alternatives],
        }
    )


def test_documents_of_the_version_before_are_read():
    for why in (explain(toy(bias=-5.5), GRAPH, QUERY), explain(toy(bias=50.0), GRAPH, QUERY)):
        old = json.loads(json.dumps(as_0_2_wrote_it(why)))
        assert Explanation.from_dict(old) == why
        with pytest.raises(DataError, match="checksum mismatch"):
            Explanation.from_dict(old | {"seed": 1})
        with pytest.raises(DataError, match="'confirmed' is missing"):
            Explanation.from_dict({name: old[name] for name in old if name not in ("confirmed", "checksum")})
        with pytest.raises(DataError, match=r"CoDy 0\.2 can read it"):
            Explanation.from_dict(old | {"schema": "cody/explanation/1"})


def test_sets_may_be_written_as_rows():
    why = explain(toy(bias=-5.5), GRAPH, QUERY)
    document = without_checksum(why)
    assert isinstance(document["evaluated"]["sets"], str)
    document["evaluated"]["sets"] = [list(rows) for rows, _ in why.evaluated]
    assert Explanation.from_dict(document) == why


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(schema="cody/explanation/4"), "'cody/explanation/4'.*upgrade"),
        (lambda d: d.update(schema="other"), "not an explanation"),
        (lambda d: d.pop("logits"), "missing required field `logits`"),
        (lambda d: d["query"].pop("src"), "damaged"),
        (lambda d: d.update(rows=[99999]), "damaged"),
        (lambda d: d.update(rows=d["rows"] * 2), "damaged"),
        (lambda d: d.update(candidates=3), "damaged"),
        (lambda d: d.update(rows=[5, 5], logits=[1.0, 1.0, 1.0]), "damaged"),
        (lambda d: d.update(rows=[], logits=[]), "damaged"),
        (lambda d: d.update(logits=["a", "b"]), "damaged"),
        (lambda d: d.update(logits=[float("nan"), 1.0]), "not JSON"),
        (lambda d: d.update(seconds=None), "damaged"),
        (lambda d: d.update(evaluations="x"), "damaged"),
        (lambda d: d.update(ended=3), "damaged"),
        (lambda d: d.update(parameters=[]), "damaged"),
        (lambda d: d["query"].update(time="x"), "damaged"),
        (lambda d: d["query"].update(before=None), "damaged"),
        (lambda d: d["verification"].update(original=None), "damaged"),
        (lambda d: d["candidates"]["time"].__setitem__(0, None), r"damaged: candidates\.time\[0\]: expected `float`"),
        (lambda d: d["candidates"]["row"].__setitem__(0, "0"), "damaged"),
        (lambda d: d["candidates"]["row"].pop(), "damaged"),
        (lambda d: d["candidates"]["src"].pop(), "columns of events differ in length"),
        (lambda d: d["evaluated"]["logits"].__setitem__(0, 10**400), "damaged"),
        (lambda d: d["evaluated"]["logits"].pop(), "do not fit"),
        (lambda d: d["evaluated"].update(sets="AAAA"), "damaged"),
        (lambda d: d["evaluated"].update(sets="…"), "damaged"),
        (lambda d: d["evaluated"].update(sets=[[0]]), "1 sets were evaluated"),
        (lambda d: d["evaluated"].update(sets=[[99]] * len(d["evaluated"]["logits"])), "not candidates"),
        (lambda d: d.update(kandidates=[]), "unknown field `kandidates`"),
    ],
)
def test_a_foreign_newer_or_damaged_document_is_refused(change, says):
    document = without_checksum(explain(toy(bias=-5.5), GRAPH, QUERY))
    change(document)
    with pytest.raises(DataError, match=says):
        Explanation.from_json(json.dumps(document))
    for text in ("", "[1]", "null", "{", None, 5, {}):
        with pytest.raises(DataError, match="not an explanation"):
            Explanation.from_json(text)


ODD = [
    None, True, False, 0, -1, 7, 1.5, -0.0, float("inf"), float("nan"), 10**400, 2**63, "", "x", "\x1b[31m\u202e\ud800",
    [], [1], [[1, 2]], {}, {"a": 1},
]  # fmt: skip


def paths(document, start=()):
    """Where the values of a document stand: each with the keys that lead to it."""
    yield start
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield from paths(document[key], (*start, key))


def put(document, path, value):
    """A copy of the document with another value at that place."""
    if not path:
        return value
    copied = document.copy()
    copied[path[0]] = put(document[path[0]], path[1:], value)
    return copied


def check_it_can_be_shown(why):
    texts = [str(why), repr(why), why.question, why.sentence, why.certainty, why.effort, why.protection]
    texts += [why.verdict, why._repr_html_()]
    assert all(line.isprintable() for text in texts for line in text.splitlines())
    assert len(why.to_frame()) == len(why.rows)
    print_parts(show.explanation(why))


def test_a_document_with_any_value_replaced_is_refused_or_can_be_shown():
    protected = Protected(events=[1], nodes=[4], times=[(0, 1)])
    found = explain(toy(bias=-5.5), GRAPH, QUERY, protect=protected, size=3)
    nothing = explain(toy(bias=50.0), GRAPH, QUERY, evaluations=3, size=3)
    shown = set()
    for why in (found, nothing):
        document = without_checksum(why)
        for path, value in itertools.product(paths(document), ODD):
            try:
                again = Explanation.from_json(json.dumps(put(document, path, value)))
            except DataError as error:
                assert len(str(error)) < 300, path  # noqa: PT017
                continue
            assert Explanation.from_json(again.to_json()) == again
            if str(again) not in shown:
                shown.add(str(again))
                check_it_can_be_shown(again)
    assert len(shown) > 20


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"parameters": {"protect": "x"}}, r"protect: expected `object \| null`, got `str`"),
        ({"parameters": {"protect": {"times": [[1]]}}}, r"protect\.times\[0\]: expected `array` of length 2, got 1"),
        ({"parameters": {"search": {"alpha": float("inf")}}}, "Out of range float values"),
        ({"seconds": 10**400}, "seconds: number out of range"),
        ({"event": "x"}, r"event: expected `int \| null`, got `str`"),
        ({"candidates": {}}, "candidates: object missing required field `row`"),
        ({"query": {"src": 1}}, r"query: object missing required field `dst`"),
        ({"src": 5}, "src: expected `str`, got `int`"),
        ({"factual": 1}, "factual: expected `bool`, got `int`"),
        ({"seed": -1}, "seed: expected `int` >= 0"),
        ({"scope": "few"}, "scope: invalid enum value 'few'"),
    ],
)
def test_a_damaged_document_is_refused_with_the_name_of_the_part(change, says):
    document = without_checksum(explain(toy(bias=-5.5), GRAPH, QUERY))
    with pytest.raises(DataError, match=f"this explanation is damaged: {says}"):
        Explanation.from_dict(document | change)


def test_numbers_that_json_does_not_know_are_refused():
    text = explain(toy(bias=-5.5), GRAPH, QUERY).to_json()
    assert '"seed":0' in text
    for number in ("NaN", "Infinity", "-Infinity", "1e400", "1" + "0" * 400):
        with pytest.raises(DataError, match=r"this explanation is damaged|it is not JSON"):
            Explanation.from_json(text.replace('"seed":0', f'"seed":{number},"seconds":{number}'))


def test_deep_documents_are_refused():
    document = explain(toy(bias=-5.5), GRAPH, QUERY).to_dict()
    deep = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(DataError, match="damaged"):
        Explanation.from_dict(document | {"parameters": deep})


def test_a_search_cut_short_whose_counterfactual_was_not_confirmed_can_be_shown():
    why = replace(explain(toy(bias=50.0), GRAPH, QUERY, evaluations=3), without_all=None)
    assert why.was_cut_short
    check_it_can_be_shown(why)


def test_a_table_says_what_is_predicted_after_each_event():
    why = explain(toy(weights=(1, 0, 1, 0, 1, 1, 0, 0), bias=-2.5), GRAPH, QUERY, search=greedy)
    assert why.to_frame()["predicted"].tolist() == [True, False]


def test_a_notebook_and_a_table_show_the_same_events():
    graph = TemporalGraph.from_arrays([0, 0], [1, 1], [1.0, 2.0], names=["<b>Ann</b>", "Bob"])
    why = explain(ToyModel(graph), graph, graph.query(1))
    page = why._repr_html_()
    assert "&lt;b&gt;Ann&lt;/b&gt; → Bob" in page
    assert "<b>Ann" not in page
    frame = why.to_frame()
    assert frame["event"].tolist() == list(why.removed)
    assert frame["logit"].tolist() == list(why.logits[1:])
    assert frame["before"].tolist() == [1.0]
    assert explain(ToyModel(graph), graph, graph.query(0)).to_frame().columns.tolist() == frame.columns.tolist()


def test_a_factual_explainer_says_what_it_names_and_not_that_it_found_no_counterfactual():
    why = explain(toy(bias=50.0), GRAPH, QUERY, search=partial(top_share, sparsity=0.4))
    assert (why.factual, why.verdict, why.is_counterfactual) == (True, "factual", False)
    assert why.sentence.startswith(f"Named as important: {len(why.rows)} of {len(why.candidates)} past events. With")
    assert why.removed == ()
    assert why.sentence.endswith("still link.")
    searched = explain(toy(bias=50.0), GRAPH, QUERY, search=tgnnexplainer)
    assert searched.sentence.startswith("Named as important: ")
    assert Explanation.from_json(why.to_json()) == why
    assert not explain(toy(bias=50.0), GRAPH, QUERY).factual


def test_what_was_protected_is_said():
    protected = Protected(events=[0, 1, 2, 3, 4], nodes=[5], times=[(0.0, 1.0)])
    why = explain(toy(), GRAPH, QUERY, protect=protected)
    assert why.protection == ("Protected: events 0, 1, 2, 3 and 1 more; node 5; time 0 to 1.")
    for text in (str(why), why._repr_html_()):
        assert why.protection in text
    assert explain(toy(), GRAPH, QUERY).protection == ""


def test_a_factual_set_is_not_called_minimal_where_a_smaller_one_was_met():
    search = partial(top_share, sparsity=0.3)
    why = explain(toy(bias=-5.5), GRAPH, QUERY, policy=event_impact, search=search, count=5)
    assert (len(why.rows), why.is_counterfactual) == (2, True)
    assert why.counterfactuals[0][0] == {5}
    assert not why.is_minimal
    assert why.alternatives == ()


def test_alternatives_are_confirmed_and_none_contains_another():
    model = toy(weights=(3, 0, 0, 0, 3, 3, 0, 0), bias=-8.5)
    why = explain(model, GRAPH, QUERY, count=4)
    assert len(why.rows) == 1
    sets = [why.change, *(frozenset(other.rows) for other in why.alternatives)]
    assert len(sets) == 3
    assert not any(one < other for one in sets for other in sets)
    for other in why.alternatives:
        assert other.verification.without == pytest.approx(model.logits(QUERY, [frozenset(other.rows)])[0], abs=1e-4)
    assert Explanation.from_json(why.to_json()) == why
    assert explain(model, GRAPH, QUERY, count=1).alternatives == ()
    assert len(explain(model, GRAPH, QUERY).alternatives) == 2  # what one search has found, up to three in all


def test_what_is_proven_follows_from_what_was_asked():
    why = explain(toy(bias=5.0), GRAPH, QUERY, search=partial(greedy, children=7), evaluations=8)
    assert why.proven == 2  # nothing and all seven single events
    assert why.verdict == "none within the budget"
    everything = explain(toy(bias=5.0), GRAPH, QUERY)
    assert (everything.proven, everything.is_exhausted) == (8, True)


class Squashed(ToyModel):
    """A model that answers with probabilities, about every link or about one only."""

    link = None

    def logits(self, query, changes):
        logits = super().logits(query, changes)
        return 1 / (1 + np.exp(-logits)) if self.link in (None, query) else logits


def test_a_model_that_answers_with_probabilities_is_warned_of():
    graph = random_graph(np.random.default_rng(0))
    model = Squashed(graph, weights=np.random.default_rng(1).normal(size=80))
    with pytest.warns(ProbabilityWarning, match=r"let the model return logits: log\(p / \(1 - p\)\)") as caught:
        why = explain(model, graph, graph.query(79))
    assert not why.is_counterfactual
    assert caught[0].filename == __file__


def test_logits_that_happen_to_lie_between_0_and_1_are_not_warned_of():
    graph = random_graph(np.random.default_rng(0))
    model = Squashed(graph, weights=np.random.default_rng(1).normal(size=80))
    model.link = graph.query(79)  # other links have logits
    why = explain(model, graph, model.link)
    assert why.evaluations > 20
    assert all(0 < logit < 1 for _, logit in why.evaluated)


@pytest.mark.parametrize("bias", [0.0, -12.0], ids=["usual", "nearly zero"])
def test_probabilities_that_round_to_zero_or_of_few_sets_are_warned_of(bias):
    graph = random_graph(np.random.default_rng(0))
    model = Squashed(graph, weights=np.random.default_rng(1).normal(size=80) * 3, bias=bias)
    with pytest.warns(ProbabilityWarning, match="any counterfactual found would be wrong"):
        why = explain(model, graph, graph.query(79), evaluations=10)
    assert bias == 0.0 or any(logit == 0.0 for _, logit in why.evaluated)


def test_labels_and_probabilities_of_a_model_that_knows_one_link_only_say_nothing():
    graph = random_graph(np.random.default_rng(0))

    class Labels(ToyModel):
        def logits(self, query, changes):
            return (super().logits(query, changes) > 0).astype(float)

    explain(Labels(graph, weights=np.random.default_rng(1).normal(size=80)), graph, graph.query(79))

    class OneLink(Squashed):
        def logits(self, query, changes):
            assert query == graph.query(79)
            return super().logits(query, changes)

    assert explain(OneLink(graph), graph, graph.query(79)).evaluations > 20


def test_a_factual_explainer_that_meets_a_counterfactual_and_names_nothing_does_not_deny_it():
    search = partial(top_share, sparsity=0.0)
    model = toy(weights=(0, 0, 0, 0, 0, 0, 9, 0), bias=-5.5)
    why = explain(model, GRAPH, QUERY, policy=event_impact, search=search, size=1, near=events_on_paths)
    assert (why.rows, why.is_exhausted, len(why.counterfactuals)) == ((), True, 1)
    assert why.verdict == "factual"


def many_events(condition, **options):
    """An explanation by a model of 20 events that says no link where the condition holds for what is missing."""
    graph = TemporalGraph.from_arrays(src=[0] * 21, dst=[1] * 21, time=np.arange(21.0))
    model = as_model(
        lambda graph, query, changes: [-2.0 if condition(change) else 2.0 for change in changes], graph, identity="it"
    )
    return explain(model, graph, graph.query(20), **options)


@pytest.mark.parametrize(
    ("condition", "options", "says"),
    [
        (lambda change: 3 in change, {}, "No smaller set exists. No other single event flips it."),
        (lambda change: change & {3, 4, 5}, {}, "No smaller set exists. 3 single events flip it."),
        (lambda change: {3, 4} <= change, {}, "No single event flips it."),
        (lambda change: {3, 4} <= change, {"prove": 3}, "event flips it. It is the only such set of at most 2 events."),
        (
            lambda change: {3, 4} <= change or {7, 8} <= change,
            {"prove": 3},
            "No single event flips it. There are 2 such sets of at most 2 events.",
        ),
        (lambda change: {3, 4, 5} <= change, {"prove": 3}, "No single event and no pair flips it."),
        (
            lambda change: {1, 2, 3, 4, 5} <= change,
            {"evaluations": 150},
            "No single event flips it; a set of 2 to 4 may.",
        ),
        (lambda change: {1, 2, 3, 4} <= change, {"prove": 4}, "No set of fewer than 4 events flips it."),
        (lambda change: 3 in change, {"count": 2}, "flips it. No alternative found."),
        (lambda change: {3, 4} <= change, {"search": partial(cody_search, iterations=1), "prove": 1}, ""),
    ],
)
def test_the_answer_says_exactly_what_is_proven(condition, options, says):
    why = many_events(condition, **options)
    assert why.certainty.endswith(says)


def searched_badly(*answer):
    """A search that asks about every single event and some three, and answers with what it is told."""

    def search(oracle, ranking):
        oracle.ask([frozenset(), *(frozenset({row}) for row in ranking.tolist()), frozenset({3, 4, 5})])
        return result(oracle, ranking, answer, 1, "found")

    return search


def test_a_search_that_answers_with_more_than_it_needs_proves_nothing_false():
    larger = many_events(lambda change: 3 in change, search=searched_badly(3, 4, 5))
    assert larger.certainty.endswith("The search found a smaller set, of 1 event.")
    other = many_events(lambda change: 3 in change, search=searched_badly(4))
    assert other.sentence.startswith("Not a counterfactual, although the search found 2. Closest:")


def test_a_budget_with_room_for_the_proof_keeps_it():
    """The search alone would use all of it, on larger sets that lead closer."""
    graph = TemporalGraph.from_arrays(src=[0] * 41, dst=[1] * 41, time=np.arange(41.0))
    effects = np.random.default_rng(0).normal(size=40) / 100
    model = as_model(
        lambda graph, query, changes: [
            -2.0 if change == {3, 36} else 2.0 - effects[list(change)].sum() for change in changes
        ],
        graph,
        identity="it",
    )
    why = explain(model, graph, graph.query(40), prove=3, evaluations=900)
    assert (set(why.rows), why.proven) == ({3, 36}, 3)
    assert why.evaluations <= 900
    small = explain(model, graph, graph.query(40), prove=3, evaluations=500)
    assert (small.proven, small.evaluations) == (2, 500), "with too little for the proof, the search has all of it"


def test_the_same_edit_at_another_time_is_no_other_edit_that_does_it_alone():
    graph = TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 1, 1], time=[0.0, 10.0, 100.0])
    model = ToyModel(graph, bias=-0.4, half_life=20)
    why = explain(model, graph, graph.query(2), edits=lambda *_: [AnyTime(Move(1, 80.0)), AnyTime(Move(1, 90.0))])
    assert len([change for change, _ in why.counterfactuals if len(change) == 1]) > 1
    assert why.certainty.endswith(
        "No smaller set exists. It is the only such set of at most 3 edits, except the same at other times."
    )


def test_a_failure_says_what_is_proven_too():
    nothing = many_events(lambda change: False, prove=3)
    assert nothing.evaluations > 1 + 20 + 190, "all pairs of 20 events, and what the search asked besides"
    assert nothing.sentence.startswith(
        f"No counterfactual found within {nothing.evaluations} evaluations: "
        "no single event and no pair flips it, but a larger set may"
    )
    assert nothing.proven == 3


def test_alternatives_are_shown_below_the_answer_and_long_ones_are_cut_short():
    ways = [frozenset({3}), frozenset({8, 9}), frozenset(range(12, 20))]
    why = many_events(lambda change: any(way <= change for way in ways), count=3)
    assert [set(other.rows) for other in why.alternatives] == ways[1:]
    lines = str(why).splitlines()
    first = next(number for number, line in enumerate(lines) if line.lstrip().startswith("alternative"))
    assert [line.split()[:3][0] for line in lines[first + 1 : first + 3]] == ["8", "+"]
    assert any(line.lstrip().startswith("+ 3 more") for line in lines)
    assert "alternative" in why._repr_html_()
    assert Explanation.from_json(why.to_json()) == why


def test_of_a_long_set_that_does_nothing_the_table_shows_a_part():
    graph = TemporalGraph.from_arrays(src=[0] * 21, dst=[1] * 21, time=np.arange(21.0))
    model = as_model(lambda graph, query, changes: [9.0 - 0.1 * len(c) for c in changes], graph, identity="it")
    why = explain(model, graph, graph.query(20))
    assert len(why.rows) == 20
    assert len(answer_table(why).lines) == 1 + 8 + 1
    assert answer_table(why).lines[-1].edit == "+ 12 more"
    assert answer_table(why).lines[-1].logit == "7.000"


def test_a_proof_evaluates_every_small_set_only_where_more_than_one_answer_is_reported():
    one, two = (
        many_events(lambda change: 3 in change or {8, 9} <= change, count=count, prove=3, search=greedy)
        for count in (1, 2)
    )
    pairs = [sum(len(change) == 2 for change, _ in why.evaluated) for why in (one, two)]
    assert pairs == [0, 19 * 18 // 2]  # pairs of which event 3 is no part, since it does it alone
    assert (one.alternatives, [set(other.rows) for other in two.alternatives]) == ((), [{8, 9}])


def test_a_log_with_imagined_events_is_explained_by_the_model_of_the_log():
    longer = GRAPH.imagine([Add("0", "1", 38.0)])
    on_base, on_longer = (explain(model, longer, QUERY) for model in (toy(bias=-5.5), toy(bias=-5.5).on(longer)))
    assert 8 in {event.row for event in on_base.candidates}
    assert any(8 in change for change, _ in on_base.evaluated)
    assert (on_base.evaluated, on_base.rows) == (on_longer.evaluated, on_longer.rows)


def test_a_proof_that_finds_something_smaller_makes_it_the_answer():
    why = many_events(lambda change: {17, 19} <= change, search=partial(greedy, children=3), prove=3)
    assert (set(why.rows), why.is_minimal) == ({17, 19}, True)


def test_a_table_has_dates_and_durations_where_the_log_has_dates():
    graph = TemporalGraph.from_arrays([0, 0, 0], [1, 1, 1], [1_082_040_960.0, 1_082_041_020.0, 1_082_041_080.0])
    frame = explain(ToyModel(graph, weights=[1.0, 5.0, 1.0], bias=-3.0), graph, graph.query(2)).to_frame()
    assert [str(moment) for moment in frame["time"]] == ["2004-04-15 14:57:00+00:00"]
    assert frame["before"][0].total_seconds() == 60
    early = TemporalGraph.from_arrays([0, 0, 0], [1, 1, 1], [-7.4e18, 1_082_041_020.0, 1_082_041_080.0])
    frame = explain(ToyModel(early, weights=[5.0, 1.0, 1.0], bias=-3.0), early, early.query(2)).to_frame()
    assert list(frame["time"]) == [-7.4e18]


@pytest.mark.parametrize("options", [{"count": 10**30}, {"prove": 10**30}, {"count": 10**9, "prove": 10**9}])
def test_more_than_there_can_be_is_as_much_as_there_is(options):
    began = time.monotonic()
    why = explain(toy(bias=-5.5), GRAPH, QUERY, **options)
    assert why.is_counterfactual
    assert time.monotonic() - began < 30  # it would take years to count so far


@pytest.mark.parametrize("seconds", [[], object(), 10**400, float("nan"), "1", 0, -1])
def test_a_budget_of_time_that_is_no_number_of_seconds_is_refused(seconds):
    with pytest.raises(CallError, match="a budget of seconds must be a finite number above 0"):
        explain(toy(), GRAPH, QUERY, seconds=seconds)


@pytest.mark.parametrize("rows", [None, 3, [99], [-1], [7], [0.5], ["a"], [[0, 1]]])
def test_candidates_that_are_no_events_before_the_link_are_refused(rows):
    with pytest.raises(CallError, match="near must give rows of past events, here 0 to 6; <lambda> gave"):
        explain(toy(), GRAPH, QUERY, near=lambda *_: rows)


@pytest.mark.parametrize("rows", [[5, 4], (5, 4), np.array([5, 4], dtype=np.int32)])
def test_candidates_may_be_given_in_any_sequence(rows):
    assert [event.row for event in explain(toy(), GRAPH, QUERY, near=lambda *_: rows).candidates] == [4, 5]
