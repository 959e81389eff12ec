import re
import subprocess
import sys
import time

import numpy as np
import pytest

from cody.errors import CallError, ModelError
from cody.graph import Query, TemporalGraph
from cody.inference.replay import Replay
from cody.model import check_changes
from cody.testing import CHECKS, ToyModel, check_model
from random_events import random_graph, random_network


@pytest.fixture
def graph():
    return random_graph(np.random.default_rng(0))


def found(report, name):
    return next(outcome for outcome in report.outcomes if outcome.name == name)


# The toy model


def test_the_toy_model_is_computable_by_hand():
    graph = TemporalGraph.from_arrays(src=[2, 0, 1, 3, 0], dst=[3, 2, 4, 4, 1], time=[0.0, 10.0, 20.0, 20.0, 30.0])
    query = graph.query(4)
    removals = [frozenset(), frozenset({0}), frozenset({1}), frozenset({2}), frozenset({0, 1, 2, 3})]
    plain = ToyModel(graph, weights=[16, 8, -2, 100, 100], half_life=10, bias=0.5)
    assert plain.logits(query, removals).tolist() == [1.5, 1.5, -0.5, 2.5, 0.5]
    # Event 0 reaches node 0 through event 1 at a factor of 1/2; event 3 comes after event 2 and reaches nobody.
    hop = ToyModel(graph, weights=[16, 8, -2, 100, 100], half_life=10, bias=0.5, indirect=0.5)
    assert hop.logits(query, removals).tolist() == [2.5, 1.5, -0.5, 3.5, 0.5]
    pair = ToyModel(graph, weights=[16, 8, -2, 100, 100], half_life=10, bias=0.5, pairs={(1, 2): -3.0, (0, 1): 9.0})
    assert pair.logits(query, removals).tolist() == [-1.5, -1.5, -0.5, 2.5, 0.5]


def test_an_event_between_the_two_nodes_or_from_a_node_to_itself_counts_once():
    graph = TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 0, 1], time=[0.0, 0.0, 0.0])
    assert ToyModel(graph, weights=[1, 10, 0]).logits(graph.query(2), [frozenset()]).tolist() == [11.0]


def test_a_toy_model_that_cannot_be_meant_is_refused(graph):
    with pytest.raises(CallError, match="one finite number for each of the 80 events"):
        ToyModel(graph, weights=[1, 2])
    with pytest.raises(CallError, match="half_life must be above 0, not -1"):
        ToyModel(graph, half_life=-1)
    with pytest.raises(CallError, match="event 80 cannot be removed"):
        ToyModel(graph, pairs={(1, 80): 1.0})


# Models that keep the rules


def statuses(report):
    return {outcome.name: outcome.status for outcome in report.outcomes}


@pytest.mark.parametrize("options", [{}, {"indirect": 0.5, "bias": -1.0, "pairs": {(60, 70): 3.0}}])
def test_the_toy_model_passes(graph, options):
    report = check_model(ToyModel(graph, **options), graph)
    assert statuses(report) == {check.name: "passed" for check in CHECKS} | {"reference": "skipped"}


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_plain_replay_passes(kind):
    graph = random_graph(np.random.default_rng(1), nodes=8, events=25, edge_features=2)
    model = Replay(random_network(graph, kind), graph)
    report = check_model(model, graph, reference=model)
    assert statuses(report) == {check.name: "passed" for check in CHECKS}, str(report)


def test_the_smallest_graphs_can_be_checked():
    for events in (1, 2):
        graph = TemporalGraph.from_arrays(src=[0] * events, dst=[1] * events, time=[0.0] * events)
        report = check_model(ToyModel(graph), graph)
        assert report.passed
        assert found(report, "unreachable").status == "skipped"


# Models that do not, one or more for each check


class Broken(ToyModel):
    def logits(self, query, removals):
        check_changes(self.graph, removals)
        return np.array([self._logit(query, removed) for removed in removals], dtype=np.float64)


class ReturnsAList(Broken):
    def logits(self, query, removals):
        return super().logits(query, removals).tolist()


class ReturnsAColumn(Broken):
    def logits(self, query, removals):
        return super().logits(query, removals)[:, None]


class AnswersTheFirstOnly(Broken):
    def logits(self, query, removals):
        return super().logits(query, removals[:1])


class ReturnsDecisions(Broken):
    def logits(self, query, removals):
        return super().logits(query, removals) > 0


class KnowsNoLogits:
    def __init__(self, graph):
        pass


class DividesByTheKeptPast(Broken):
    def _logit(self, query, removed):
        with np.errstate(all="ignore"):
            return float(super()._logit(query, removed) / np.float64(max(1, query.before) - len(removed)))


class CannotRemoveEverything(Broken):
    def _logit(self, query, removed):
        if query.before and len(removed) == query.before:
            raise IndexError("no events left")
        return super()._logit(query, removed)


class StacksNothing(Broken):
    def logits(self, query, removals):
        return np.concatenate([super(StacksNothing, self).logits(query, [removed]) for removed in removals])


class ForgetsToSwitchOffDropout(Broken):
    def _logit(self, query, removed):
        self.rng = getattr(self, "rng", np.random.default_rng(0))
        return super()._logit(query, removed) + self.rng.normal()


class LearnsWhileAsked(Broken):
    def _logit(self, query, removed):
        self.bias += 0.01
        return super()._logit(query, removed)


class NormalisesTheBatch(Broken):
    def logits(self, query, removals):
        answers = super().logits(query, removals)
        return answers - answers.mean() if len(answers) else answers


class PutsNothingBackWithinABatch(Broken):
    def logits(self, query, removals):
        check_changes(self.graph, removals)
        gone = [frozenset().union(*removals[: place + 1]) for place in range(len(removals))]
        return np.array([self._logit(query, removed) for removed in gone])


class AnswersDistinctSetsOnly(Broken):
    def logits(self, query, removals):
        answers = np.zeros(len(removals))
        answers[[removals.index(removed) for removed in removals]] = super().logits(query, removals)
        return answers


class RemembersTheLastQuery(Broken):
    def logits(self, query, removals):
        before, self.last = getattr(self, "last", query), query
        return super().logits(query, removals) + 0.1 * (before != query)


class CachesWithoutTheQuery(Broken):
    def logits(self, query, removals):
        self.cache = getattr(self, "cache", {})
        check_changes(self.graph, removals)
        return np.array([self.cache.setdefault(removed, self._logit(query, removed)) for removed in removals])


class ReusesItsBuffer(Broken):
    def logits(self, query, removals):
        self.buffer = getattr(self, "buffer", np.zeros(1000))
        self.buffer[: len(removals)] = super().logits(query, removals)
        return self.buffer[: len(removals)]


class HandsOutItsCache(Broken):
    def logits(self, query, removals):
        self.cache = getattr(self, "cache", {})
        return self.cache.setdefault((query, tuple(removals)), super().logits(query, removals))


class SeesTheFuture(Broken):
    def _logit(self, query, removed):
        return super()._logit(query._replace(before=self.graph.num_events), removed)


class RemovesFiveAtMost(Broken):
    def _logit(self, query, removed):
        return super()._logit(query, frozenset(sorted(removed)[:5]))


class IgnoresRemovals(Broken):
    def _logit(self, query, removed):
        return super()._logit(query, frozenset())


class CountsEverybodysEvents(Broken):
    def _logit(self, query, removed):
        return super()._logit(query, removed) + 0.1 * len(set(range(query.before)) - removed)


class LooksUpTheEventItPredicts(Broken):
    def _logit(self, query, removed):
        assert self.graph.dst[query.before] == query.dst
        return super()._logit(query, removed)


class RemovesWhateverItIsTold(Broken):
    def logits(self, query, removals):
        return np.array([self._logit(query, removed) for removed in removals])


class RestoresOnlyWhenAllWentWell(Broken):
    removed = frozenset()

    def logits(self, query, removals):
        answers = []
        for removed in removals:
            usual, self.removed = self.removed, self.removed | removed
            check_changes(self.graph, [removed])
            answers.append(self._logit(query, removed))
            self.removed = usual
        return np.array(answers, dtype=float)

    def _kept(self, nodes, before, removed):
        return [row for row in super()._kept(nodes, before, removed) if row not in self.removed]


class RestoresUnlessInterrupted(RestoresOnlyWhenAllWentWell):
    def logits(self, query, removals):
        try:
            return super().logits(query, removals)
        except Exception:
            self.removed = frozenset()
            raise


class SortsTheCallersList(Broken):
    def logits(self, query, removals):
        order = sorted(range(len(removals)), key=lambda place: len(removals[place]), reverse=True)
        removals.sort(key=len, reverse=True)
        answers = np.zeros(len(removals))
        answers[order] = super().logits(query, removals)
        return answers


class KeepsTheQueryInTheModel(Broken):
    def logits(self, query, removals):
        self.query = query
        time.sleep(0.005)
        return super().logits(self.query, removals)


class IgnoresThePast(Broken):
    def _logit(self, query, removed):
        return query.src - query.dst + 1e-3 * query.time


class IgnoresTime(Broken):
    def __init__(self, graph):
        super().__init__(graph, half_life=np.inf)


class RoundsToHalf(Broken):
    def _logit(self, query, removed):
        return round(2 * super()._logit(query, removed)) / 2


class WritesIntoTheGraph(Broken):
    def logits(self, query, removals):
        self.graph.features.setflags(write=True)
        self.graph.features[query.before - 1] = 0.0
        return super().logits(query, removals)


BROKEN = [
    (ReturnsAList, "shape", r"must be a numpy array of floats of shape \(1,\), not a list"),
    (ReturnsAColumn, "shape", r"not shape \(1, 1\) of float64"),
    (AnswersTheFirstOnly, "shape", r"with 2 sets must be .* of shape \(2,\), not shape \(1,\)"),
    (ReturnsDecisions, "shape", "of bool"),
    (KnowsNoLogits, "shape", "raised AttributeError: .* no attribute 'logits'"),
    (DividesByTheKeptPast, "sizes", r"without \{0.*\} is (nan|inf), not finite"),
    (CannotRemoveEverything, "sizes", "raised IndexError: no events left"),
    (StacksNothing, "empty_batch", "with 0 sets raised ValueError: need at least one array"),
    (ForgetsToSwitchOffDropout, "repeated", "at first but .* when asked again: nothing may be random"),
    (LearnsWhileAsked, "repeated", "or left behind by a call"),
    (NormalisesTheBatch, "alone", r"alone but .* in a batch of \d: answers must not depend on the other sets"),
    (PutsNothingBackWithinABatch, "order", "with the batch in reverse order"),
    (AnswersDistinctSetsOnly, "duplicates", "but 0 with each set twice in the batch"),
    (RemembersTheLastQuery, "interleaved", r"when asked after Query\("),
    (CachesWithoutTheQuery, "own_answers", "is something remembered without its query"),
    (ReusesItsBuffer, "own_array", "in the same array after the next call"),
    (HandsOutItsCache, "own_array", "after the caller wrote into the array"),
    (SeesTheFuture, "later", r"when later events \{.*\} are removed too: a query sees rows below `before` only"),
    (RemovesFiveAtMost, "unseen", "with before=0 and nothing removed"),
    (IgnoresRemovals, "unseen", "must count as little as one that the query does not see"),
    (CountsEverybodysEvents, "unreachable", r"when events \{.*\} are removed too: no chain of visible events"),
    (LooksUpTheEventItPredicts, "hypothetical", "raised AssertionError"),
    (RemovesWhateverItIsTold, "refused", r"without \{-1\} raised nothing, though rows go from 0 to 79"),
    (RestoresOnlyWhenAllWentWell, "after_error", "after calls that were wrong or interrupted"),
    (RestoresUnlessInterrupted, "after_error", "after calls that were wrong or interrupted"),
    (SortsTheCallersList, "arguments", "changed the list of removal sets"),
    (KeepsTheQueryInTheModel, "threads", "in one thread but .* while another thread was asking too"),
    (RoundsToHalf, "reference", "by the reference"),
    (WritesIntoTheGraph, "graph", "features of the graph changed"),
]
DOUBTFUL = [(IgnoresThePast, "past_matters", "ignores its history"), (IgnoresTime, "time_matters", "ignores time")]


@pytest.mark.parametrize(("model", "name", "message"), BROKEN)
def test_a_broken_model_is_caught(model, name, message):
    graph = random_graph(np.random.default_rng(0), edge_features=1)
    report = check_model(model(graph), graph, reference=ToyModel(graph))
    assert not report.passed
    outcome = found(report, name)
    assert outcome.status == "failed", str(report)
    assert outcome in report.failures
    assert re.search(message, outcome.message), outcome.message


@pytest.mark.parametrize(("model", "name", "message"), DOUBTFUL)
def test_what_is_allowed_but_doubtful_is_noted(graph, model, name, message):
    report = check_model(model(graph), graph)
    assert report.passed
    assert found(report, name).status == "noted"
    assert message in found(report, name).message


def test_every_check_has_a_model_that_it_catches():
    assert {name for _, name, _ in BROKEN + DOUBTFUL} == {check.name for check in CHECKS}


# The report


def test_the_table_fits_a_terminal_and_tells_everything(graph):
    for model in (ToyModel(graph), SeesTheFuture(graph), ReturnsAList(graph), IgnoresThePast(graph)):
        report = check_model(model, graph)
        text = str(report)
        assert max(map(len, text.splitlines())) <= 80
        squeezed = " ".join(text.split())
        for outcome in report.outcomes:
            assert f"{outcome.status} {outcome.name} {outcome.meaning} {outcome.message}".strip() in squeezed
    assert str(check_model(ToyModel(graph), graph)).startswith("21 passed, 1 skipped\n")


def test_a_model_without_usable_answers_is_not_asked_further(graph):
    report = check_model(ReturnsAList(graph), graph)
    assert report.outcomes[-1].status == "skipped"
    assert report.outcomes[-1].message == "not run, since shape failed: mend that first"
    assert len(report.outcomes) == 2


def test_failures_can_be_raised(graph):
    check_model(ToyModel(graph), graph).raise_if_failed()
    with pytest.raises(ModelError, match=r"does not keep the rules\n(.|\n)*failed   unseen"):
        check_model(IgnoresRemovals(graph), graph).raise_if_failed()


def test_the_same_seed_asks_the_same(graph):
    class Listening(ToyModel):
        def logits(self, query, removals):
            heard.append((query, [sorted(removed) for removed in removals]))
            return super().logits(query, removals)

    def listen(seed):
        heard.clear()
        assert check_model(Listening(graph), graph, seed=seed).passed
        return sorted(heard)  # two threads come in any order

    heard = []
    assert listen(0) == listen(0)
    assert listen(0) != listen(1)


def test_only_the_given_queries_are_asked_and_their_relatives(graph):
    query = graph.query(50)
    report = check_model(ToyModel(graph), graph, queries=[query])
    assert report.passed
    assert found(report, "own_answers").message == "needs two queries, and events after one of them"
    last = check_model(ToyModel(graph), graph, queries=[Query(0, 1, 1e4, 80), Query(0, 0, 1e4, 80)])
    assert last.passed
    assert found(last, "later").status == "skipped"


def test_tolerance_decides_what_counts_as_equal(graph):
    reference = ToyModel(graph, bias=1e-3)
    assert not check_model(ToyModel(graph), graph, reference=reference).passed
    assert check_model(ToyModel(graph), graph, reference=reference, tolerance=1e-2).passed


def test_wrong_calls_are_refused(graph):
    with pytest.raises(CallError, match="queries is empty"):
        check_model(ToyModel(graph), graph, queries=[])
    with pytest.raises(CallError, match="before=81 is out of range"):
        check_model(ToyModel(graph), graph, queries=[Query(0, 1, 1e4, 81)])
    with pytest.raises(CallError, match="tolerance must be 0 or more, not nan"):
        check_model(ToyModel(graph), graph, tolerance=float("nan"))


def test_a_person_can_interrupt_the_checks(graph):
    class Interrupted(ToyModel):
        def logits(self, query, removals):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_model(Interrupted(graph), graph)


def test_importing_it_is_light():
    code = "import sys, cody.testing; print(sorted({'torch', 'pandas', 'pytest', 'pyarrow'} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
