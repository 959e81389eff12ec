import re
import subprocess
import sys
import time

import numpy as np
import pytest

from cody.engine import fast_model
from cody.engine.replay import Replay
from cody.errors import BudgetError, CallError, ModelError
from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add, Alter, Move
from cody.models.checks import CHECKS, ToyModel, check_model
from cody.models.contract import check_changes
from cody.utils.deadline import check_deadline
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
    # Event 0 reaches node 0 through event 1 at a factor of 1/2; event 3 comes after event 2 and reaches nothing.
    hop = ToyModel(graph, weights=[16, 8, -2, 100, 100], half_life=10, bias=0.5, indirect=0.5)
    assert hop.logits(query, removals).tolist() == [2.5, 1.5, -0.5, 3.5, 0.5]
    pair = ToyModel(graph, weights=[16, 8, -2, 100, 100], half_life=10, bias=0.5, pairs={(1, 2): -3.0, (0, 1): 9.0})
    assert pair.logits(query, removals).tolist() == [-1.5, -1.5, -0.5, 2.5, 0.5]


def test_an_event_between_the_two_nodes_or_from_a_node_to_itself_counts_once():
    graph = TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 0, 1], time=[0.0, 0.0, 0.0])
    assert ToyModel(graph, weights=[1, 10, 0]).logits(graph.query(2), [frozenset()]).tolist() == [11.0]


def test_imagined_events_of_the_toy_model_are_computable_by_hand():
    graph = TemporalGraph.from_arrays(
        src=[2, 0, 1, 0], dst=[3, 2, 4, 1], time=[0.0, 10.0, 20.0, 30.0], features=[[1.0], [2.0], [3.0], [0.0]]
    )
    edits = [Add(0, 4, 20.0), Add(0, 4, 20.0, [1.0]), Move(1, 0.0), Alter(2, [7.0]), Add(0, 1, 31.0), Move(2, 99.0)]
    longer, query = graph.imagine(edits), graph.query(3)
    model = ToyModel(graph, weights=[16, 8, -2, 100], half_life=10).on(longer)  # 8/4 for event 1, -2/2 for event 2
    named = [[], [4], [5], [4, 5], [6], [1, 6], [7], [8], [9], [2], [6, 7]]
    answers = model.logits(query, [frozenset(rows) for rows in named]).tolist()
    assert answers == [1.0, 1.5, 2.0, 2.5, 0.0, 0.0, 3.0, 1.0, 2.0, 2.0, 2.0]
    assert model.logits(query, [frozenset({2, 7})]) == model.logits(query, [frozenset({7})])
    given = ToyModel(longer, weights=[16, 8, -2, 100, 6, 0, 0, 0, 0, 0], half_life=10)
    assert given.logits(query, [frozenset(), frozenset({4})]).tolist() == [1.0, 4.0]


def test_an_imagined_event_can_be_a_bridge_and_stand_beyond_one():
    graph = TemporalGraph.from_arrays(src=[2, 0], dst=[3, 1], time=[0.0, 40.0], num_nodes=5)
    longer = graph.imagine([Add(0, 2, 10.0), Add(3, 2, 5.0), Add(3, 2, 20.0)])
    model = ToyModel(graph, half_life=np.inf, indirect=0.5).on(longer)
    # The bridge 2 counts, and event 0 and the imagined one at 5 beyond it; the one at 20 comes after the bridge.
    named = [[], [2], [2, 3], [2, 4], [0, 2], [3]]
    assert model.logits(graph.query(1), [frozenset(rows) for rows in named]).tolist() == [0, 1.5, 2.0, 1.5, 1.0, 0]


def test_the_identity_of_a_toy_model_is_what_its_answers_depend_on(graph):
    names = {ToyModel(graph, **options).identity for options in [{}, {"bias": 1}, {"indirect": 1}, {"half_life": 3}]}
    names |= {ToyModel(graph, pairs={(1, 2): extra}).identity for extra in (1.0, 2.0)}
    names |= {ToyModel(graph, np.zeros(80)).identity}
    assert len(names) == 7
    longer = graph.imagine([Add(0, 1, 5.0)])
    assert ToyModel(graph).identity == ToyModel(graph).identity == ToyModel(graph).on(longer).identity
    assert (ToyModel(graph).hops, ToyModel(graph, indirect=0.5).hops) == (1, 2)


def test_a_toy_model_stays_with_its_log(graph):
    with pytest.raises(CallError, match="is another log than"):
        ToyModel(graph).on(random_graph(np.random.default_rng(1)))


def test_a_toy_model_that_makes_no_sense_is_refused(graph):
    with pytest.raises(CallError, match="one finite number for each of the 80 events"):
        ToyModel(graph, weights=[1, 2])
    with pytest.raises(CallError, match="half_life must be above 0, not -1"):
        ToyModel(graph, half_life=-1)
    with pytest.raises(CallError, match="event 80 does not exist"):
        ToyModel(graph, pairs={(1, 80): 1.0})


# Models that keep the rules


def statuses(report):
    return {outcome.name: outcome.status for outcome in report.outcomes}


NOT_OFFERED = dict.fromkeys(
    ["session", "session_error", "two_sessions", "plain", "only", "links", "many_links"], "skipped"
)


@pytest.mark.parametrize("options", [{}, {"indirect": 0.5, "bias": -1.0, "pairs": {(60, 70): 3.0}}])
def test_the_toy_model_passes(graph, options):
    report = check_model(ToyModel(graph, **options), graph)
    passed = {check.name: "passed" for check in CHECKS}
    assert statuses(report) == passed | {"reference": "skipped"} | NOT_OFFERED, str(report)


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_plain_replay_passes(kind):
    graph = random_graph(np.random.default_rng(1), nodes=6, events=15, edge_features=2)
    model = Replay(random_network(graph, kind), graph)
    report = check_model(model, graph, reference=model)
    assert statuses(report) == {check.name: "passed" for check in CHECKS} | NOT_OFFERED | {"plain": "passed"}


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_a_model_that_offers_everything_is_checked_for_everything(kind):
    graph = random_graph(np.random.default_rng(1), nodes=6, events=15, edge_features=2)
    network = random_network(graph, kind)
    report = check_model(fast_model(network, graph), graph, reference=Replay(network, graph))
    assert statuses(report) == {check.name: "passed" for check in CHECKS}, str(report)


@pytest.mark.parametrize("quick", [False, True])
def test_the_smallest_graphs_can_be_checked(quick):
    for events in (1, 2):
        graph = TemporalGraph.from_arrays(src=[0] * events, dst=[1] * events, time=[0.0] * events)
        report = check_model(ToyModel(graph), graph, quick=quick)
        assert report.passed, str(report)
        assert found(report, "unreachable").status == "skipped"


# Models that do not, one or more for each check


class Broken(ToyModel):
    def logits(self, query, changes):
        check_changes(self.graph, changes)
        return np.array([self._logit(query, change) for change in changes], dtype=np.float64)


class ReturnsWords(Broken):
    def logits(self, query, changes):
        return ["likely" for _ in changes]


class ReturnsAList(Broken):
    def logits(self, query, changes):
        return super().logits(query, changes).tolist()


class ReturnsAColumn(Broken):
    def logits(self, query, changes):
        return super().logits(query, changes)[:, None]


class AnswersTheFirstOnly(Broken):
    def logits(self, query, changes):
        return super().logits(query, changes[:1])


class ReturnsDecisions(Broken):
    def logits(self, query, changes):
        return super().logits(query, changes) > 0


class ReturnsProbabilities(Broken):
    def logits(self, query, changes):
        return 1 / (1 + np.exp(-super().logits(query, changes)))


class KnowsNoLogits:
    def __init__(self, graph):
        pass


class DividesByTheKeptPast(Broken):
    def _logit(self, query, change):
        with np.errstate(all="ignore"):
            return float(super()._logit(query, change) / np.float64(max(1, query.before) - len(change)))


class CannotRemoveEverything(Broken):
    def _logit(self, query, change):
        if query.before and len(change) == query.before:
            raise IndexError("no events left")
        return super()._logit(query, change)


class WantsSetsOfOneSize(Broken):
    def logits(self, query, changes):
        return super().logits(query, np.array([sorted(change) for change in changes]))


class StacksNothing(Broken):
    def logits(self, query, changes):
        return np.concatenate([super(StacksNothing, self).logits(query, [change]) for change in changes])


class ForgetsToSwitchOffDropout(Broken):
    def _logit(self, query, change):
        self.rng = getattr(self, "rng", np.random.default_rng(0))
        return super()._logit(query, change) + self.rng.normal()


class LearnsWhileAsked(Broken):
    def _logit(self, query, change):
        self.bias += 0.01
        return super()._logit(query, change)


class NormalisesTheBatch(Broken):
    def logits(self, query, changes):
        answers = super().logits(query, changes)
        return answers - answers.mean() if len(answers) else answers


class PutsNothingBackWithinABatch(Broken):
    def logits(self, query, changes):
        check_changes(self.graph, changes)
        gone = [frozenset().union(*changes[: place + 1]) for place in range(len(changes))]
        return np.array([self._logit(query, change) for change in gone])


class AnswersDistinctSetsOnly(Broken):
    def logits(self, query, changes):
        answers = np.zeros(len(changes))
        answers[[changes.index(change) for change in changes]] = super().logits(query, changes)
        return answers


class StoresAnswersBeforeItKnowsThem(Broken):
    def logits(self, query, changes):
        self.known = getattr(self, "known", {})
        new = [(query, change) for change in changes if (query, change) not in self.known]
        self.known.update(dict.fromkeys(new, 0.0))
        self.known.update(zip(new, super().logits(query, [change for _, change in new]), strict=True))
        return np.array([self.known[query, change] for change in changes])


class RemembersTheLastQuery(Broken):
    def logits(self, query, changes):
        before, self.last = getattr(self, "last", query), query
        return super().logits(query, changes) + 0.1 * (before != query)


class CachesWithoutTheQuery(Broken):
    def logits(self, query, changes):
        self.cache = getattr(self, "cache", {})
        check_changes(self.graph, changes)
        return np.array([self.cache.setdefault(change, self._logit(query, change)) for change in changes])


class ReusesItsBuffer(Broken):
    def logits(self, query, changes):
        self.buffer = getattr(self, "buffer", np.zeros(1000))
        self.buffer[: len(changes)] = super().logits(query, changes)
        return self.buffer[: len(changes)]


class HandsOutItsCache(Broken):
    def logits(self, query, changes):
        self.cache = getattr(self, "cache", {})
        return self.cache.setdefault((query, tuple(changes)), super().logits(query, changes))


class SeesTheFuture(Broken):
    def _logit(self, query, change):
        return super()._logit(query._replace(before=self.graph.num_events), change)


class RemovesFiveAtMost(Broken):
    def _logit(self, query, change):
        return super()._logit(query, frozenset(sorted(change)[:5]))


class IgnoresRemovals(Broken):
    def _logit(self, query, change):
        return super()._logit(query, frozenset())


class CountsEverybodysEvents(Broken):
    def _logit(self, query, change):
        return super()._logit(query, change) + 0.1 * len(set(range(query.before)) - change)


class LooksUpTheEventItPredicts(Broken):
    def _logit(self, query, change):
        assert self.graph.dst[query.before] == query.dst
        return super()._logit(query, change)


class RemovesWhateverItIsTold(Broken):
    def logits(self, query, changes):
        return np.array([self._logit(query, change) for change in changes])


class RestoresOnlyWhenAllWentWell(Broken):
    gone = frozenset()

    def logits(self, query, changes):
        answers = []
        for change in changes:
            usual, self.gone = self.gone, self.gone | change
            check_changes(self.graph, [change])
            answers.append(self._logit(query, change))
            self.gone = usual
        return np.array(answers, dtype=float)

    def _happened(self, nodes, before, imagined, absent):
        return [row for row in super()._happened(nodes, before, imagined, absent) if row not in self.gone]


class RestoresUnlessInterrupted(RestoresOnlyWhenAllWentWell):
    def logits(self, query, changes):
        try:
            return super().logits(query, changes)
        except Exception:
            self.gone = frozenset()
            raise


class RestoresUnlessTimeIsOver(RestoresOnlyWhenAllWentWell):
    def _logit(self, query, change):
        check_deadline()
        return super()._logit(query, frozenset(change))

    def logits(self, query, changes):
        changes = check_changes(self.graph, changes)
        return super().logits(query, changes)


class SortsTheCallersList(Broken):
    def logits(self, query, changes):
        order = sorted(range(len(changes)), key=lambda place: len(changes[place]), reverse=True)
        changes.sort(key=len, reverse=True)
        answers = np.zeros(len(changes))
        answers[order] = super().logits(query, changes)
        return answers


class KeepsTheQueryInTheModel(Broken):
    def logits(self, query, changes):
        self.query = query
        time.sleep(0.005)
        return super().logits(self.query, changes)


class IgnoresThePast(Broken):
    def _logit(self, query, change):
        return query.src - query.dst + 1e-3 * query.time


class IgnoresTime(Broken):
    def __init__(self, graph):
        super().__init__(graph, half_life=np.inf)


class RoundsToHalf(Broken):
    def _logit(self, query, change):
        return round(2 * super()._logit(query, change)) / 2


class WritesIntoTheGraph(Broken):
    def logits(self, query, changes):
        self.graph.features.setflags(write=True)
        self.graph.features[query.before - 1] = 0.0
        return super().logits(query, changes)


class WantsPlainNumbers(Broken):
    def logits(self, query, changes):
        assert all(type(row) is int for change in changes for row in change)
        return super().logits(query, changes)


class HasNoIdentity(Broken):
    identity = None


class IsCalledByItsAddress(Broken):
    identity = property(object.__repr__)


class ChangesItsName(Broken):
    identity = property(lambda self: str(time.perf_counter_ns()))


class LooksNowhere(Broken):
    def __init__(self, graph):
        super().__init__(graph)
        self.hops = 0


class DoesNotSayHowFarItLooks(Broken):
    def __init__(self, graph):
        super().__init__(graph)
        del self.hops


# What they offer besides


class Sessions(Broken):
    """Right answers; each kind of session breaks them in its way."""

    kind = None

    def session(self, query, rows=()):
        return self.kind(self, query, rows)


class CountsOnItsRows:
    def __init__(self, model, query, rows):
        self.model, self.query, self.rows = model, query, frozenset(rows)

    def logits(self, changes):
        return self.model.logits(self.query, [change & self.rows for change in changes])


class StoresBeforeItKnows:
    def __init__(self, model, query, rows):
        self.model, self.query, self.known = model, query, {}

    def logits(self, changes):
        new = [change for change in changes if change not in self.known]
        self.known.update(dict.fromkeys(new, 0.0))
        self.known.update(zip(new, self.model.logits(self.query, new), strict=True))
        return np.array([self.known[change] for change in changes])


class KeepsItsQueryInTheModel:
    def __init__(self, model, query, rows):
        self.model, self.query = model, query

    def logits(self, changes):
        self.model.query = self.query
        time.sleep(0.005)
        return self.model.logits(self.model.query, changes)


class ForgetsOtherRows(Sessions):
    kind = CountsOnItsRows


class HasHalfFilledSessions(Sessions):
    kind = StoresBeforeItKnows


class SharesItsSessions(Sessions):
    kind = KeepsItsQueryInTheModel


class HasNoSessionForEarlyLinks(Sessions):
    kind = StoresBeforeItKnows

    def session(self, query, rows=()):
        return super().session(query, [rows[0]])


class OffersNone(Broken):
    def session(self, query, rows=()):
        return None

    def reference(self, query, change, *, full=False):
        return None

    def only(self, query, kept):
        return None

    def logits_of_links(self, queries):
        return None

    def on(self, graph):
        return None


class MixesUpLinks(Broken):
    """A session of several links that has their scores in another order."""

    def session_of_links(self, links, margin, rows=()):
        return Together(self, links[::-1])


class Together:
    def __init__(self, model, links):
        self.model, self.links = model, links

    def scores(self, changes):
        return np.stack([self.model.logits(link, changes) for link in self.links], axis=1)


class ScoresLinksBackwards(Broken):
    def logits_of_links(self, queries):
        return [self._logit(query, frozenset()) for query in reversed(queries)]


class HasAnotherPlainForm(Broken):
    def reference(self, query, change, *, full=False):
        return ToyModel(self.graph, bias=1.0)


class KeepsEverything(Broken):
    def only(self, query, kept):
        return self._logit(query, frozenset())


class CannotImagine(Broken):
    def _logit(self, query, change):
        return super()._logit(query, change) + 0 * sum(np.zeros(self.graph.num_events)[list(change)])


class TakesImaginedEventsForReal(Broken):
    def _logit(self, query, change):
        imagined = frozenset(range(self.graph.num_events, self.graph.num_rows))
        return super()._logit(query, change ^ imagined)


class SeesTheImaginedFuture(Broken):
    def _logit(self, query, change):
        return super()._logit(query, change) + sum(row >= self.graph.num_events for row in change)


class KeepsWhatIsMoved(Broken):
    def _logit(self, query, change):
        outcome = self.graph.difference(change, query)
        shares = self._shares(query, outcome._replace(absent=change & outcome.absent))
        return float(sum(share * self.weights[row] for row, share in shares.items()))


class IgnoresImaginedEvents(Broken):
    def _shares(self, query, outcome):
        return super()._shares(query, outcome._replace(present=()))


BROKEN = [
    (ReturnsWords, "shape", "must be one number per set, not a list of length 1"),
    (ReturnsAColumn, "shape", r"not a numpy.ndarray of shape \(1, 1\) and type float64"),
    (AnswersTheFirstOnly, "shape", r"with 2 sets must be one number per set, .* of shape \(1,\)"),
    (KnowsNoLogits, "shape", "raised AttributeError: .* no attribute 'logits'"),
    (DividesByTheKeptPast, "sizes", r"logit is (nan|inf) for Query.* and the change \[0, "),
    (CannotRemoveEverything, "sizes", "raised IndexError: no events left"),
    (WantsSetsOfOneSize, "sizes", "raised ValueError: .*inhomogeneous shape"),
    (ForgetsToSwitchOffDropout, "repeated", "at first but .* in a second call: nothing may be random"),
    (LearnsWhileAsked, "repeated", "and a call may not change the model"),
    (ReturnsProbabilities, "probabilities", 'all .* answers lie between 0.5 and .* means "link"'),
    (ReturnsDecisions, "probabilities", "all .* answers lie between 0 and 1"),
    (NormalisesTheBatch, "alone", r"alone but .* in a batch of \d: answers must not depend on the other sets"),
    (PutsNothingBackWithinABatch, "order", "with the batch in reverse order"),
    (AnswersDistinctSetsOnly, "duplicates", "but 0 with each set twice in the batch"),
    (RemembersTheLastQuery, "interleaved", r"after a call with Query\("),
    (CachesWithoutTheQuery, "own_answers", "the answer for one query must not be returned for another"),
    (RemovesFiveAtMost, "unseen", r"with before=\d+ and nothing removed"),
    (IgnoresRemovals, "unseen", "must count as little as one that the query does not see"),
    (SeesTheFuture, "later", r"when later events \{.*\} are removed too: a query sees rows below `before` only"),
    (CountsEverybodysEvents, "unreachable", r"when events \{.*\} are removed too: no chain of visible events"),
    (RoundsToHalf, "reference", "by the reference"),
    (RestoresOnlyWhenAllWentWell, "after_error", "after calls that were wrong or interrupted"),
    (RestoresUnlessInterrupted, "after_error", "after calls that were wrong or interrupted"),
    (RestoresUnlessTimeIsOver, "after_error", "after calls that were wrong or interrupted"),
    (StoresAnswersBeforeItKnowsThem, "after_error", "with later events removed too but 0 after calls that were"),
    (RemovesFiveAtMost, "everything", "with before=0 and nothing removed"),
    (ForgetsOtherRows, "session", "by the model but .* by a session, one by one"),
    (HasNoSessionForEarlyLinks, "session", r"session\(Query.*, \d+ rows\) raised IndexError"),
    (HasHalfFilledSessions, "session_error", "by the model but 0 by a session, after calls that were wrong"),
    (SharesItsSessions, "two_sessions", "by the model but .* by a session while another one ran"),
    (HasAnotherPlainForm, "plain", "by the model but .* by its reference with full="),
    (ScoresLinksBackwards, "links", "among other links"),
    (MixesUpLinks, "many_links", "alone but .* among other links"),
    (KeepsEverything, "only", r"but .* by only\(query, kept\)"),
    (CannotImagine, "imagined", "on a log with imagined rows, .* raised IndexError"),
    (TakesImaginedEventsForReal, "unnamed", "on a log with imagined rows: imagined rows are absent unless"),
    (SeesTheImaginedFuture, "imagined_later", "with the later events {81.*} imagined too"),
    (KeepsWhatIsMoved, "replaced", r"with event \d+ moved beyond the query instead"),
    (IgnoresImaginedEvents, "replaced", r"with event \d+ replaced by itself"),
    (SortsTheCallersList, "arguments", "modified the list of changes"),
    (WritesIntoTheGraph, "graph", "features of the graph changed"),
]
DOUBTFUL = [
    (IgnoresThePast, "past_matters", "ignores its history"),
    (IgnoresTime, "time_matters", "ignores time"),
    (IgnoresImaginedEvents, "added_matters", "imagined rows are ignored"),
    (LooksUpTheEventItPredicts, "hypothetical", "raised AssertionError"),
    (WantsPlainNumbers, "argument_types", "with numpy integers in sets, .* raised AssertionError"),
    (ReturnsAList, "form", "returned a list of length 1"),
    (StacksNothing, "empty_batch", "with 0 sets raised ValueError: need at least one array"),
    (RemovesWhateverItIsTold, "unknown_rows", r"with the change \{-1\} raised no error, though rows go from 0 to 79"),
    (ReusesItsBuffer, "own_array", "in the same array after the next call"),
    (HandsOutItsCache, "own_array", "after the caller wrote into the array"),
    (KeepsTheQueryInTheModel, "threads", "in one thread but .* while another thread used the model too"),
    (HasNoIdentity, "identity", "identity must be text, not None"),
    (IsCalledByItsAddress, "identity", "contains a memory address"),
    (ChangesItsName, "identity", "identity was '[0-9]+' at first, and is"),
    (LooksNowhere, "hops", "hops must be at least 1, not 0"),
    (DoesNotSayHowFarItLooks, "hops", "raised AttributeError"),
]
QUICK = {check.name for check in CHECKS if check.quick}


@pytest.mark.parametrize(("model", "name", "message"), BROKEN)
@pytest.mark.parametrize("quick", [False, True])
def test_a_broken_model_is_caught(model, name, message, quick):
    if quick and name not in QUICK:
        pytest.skip("not part of the quick form")
    graph = random_graph(np.random.default_rng(0), edge_features=1)
    report = check_model(model(graph), graph, reference=ToyModel(graph), quick=quick)
    assert not report.passed
    outcome = found(report, name)
    assert outcome.status == "failed", str(report)
    assert outcome in report.failures
    assert re.search(message, outcome.message), outcome.message
    assert outcome.cause


@pytest.mark.parametrize(("model", "name", "message"), DOUBTFUL)
def test_what_is_allowed_but_doubtful_is_noted(graph, model, name, message):
    report = check_model(model(graph), graph)
    assert report.passed, str(report)
    assert found(report, name).status == "noted"
    assert re.search(message, found(report, name).message), found(report, name).message


def test_offers_of_nothing_are_failures_like_others(graph):
    report = check_model(OffersNone(graph), graph)
    broken = {"session", "session_error", "two_sessions", "plain", "only", "imagined", "unnamed", "imagined_later"}
    assert {failure.name for failure in report.failures} == broken | {"links", "replaced", "added_matters"}


def test_every_check_has_a_model_that_it_catches():
    assert {name for _, name, _ in BROKEN + DOUBTFUL} == {check.name for check in CHECKS}


# The report


@pytest.mark.parametrize("quick", [False, True])
def test_the_table_fits_a_terminal_and_tells_everything(graph, quick):
    for model in (ToyModel(graph), SeesTheFuture(graph), ReturnsAList(graph), IgnoresThePast(graph)):
        report = check_model(model, graph, quick=quick)
        text = str(report)
        assert max(map(len, text.splitlines())) <= 80
        squeezed = " ".join(text.split())
        for outcome in report.outcomes:
            assert f"{outcome.status} {outcome.name} {outcome.meaning} {outcome.message}".strip() in squeezed
            assert outcome.cause in squeezed
    assert str(check_model(ToyModel(graph), graph)).startswith(f"{len(CHECKS) - 8} passed, 8 skipped\n")


def test_a_model_without_usable_answers_is_not_asked_further(graph):
    report = check_model(ReturnsWords(graph), graph)
    assert report.outcomes[-1].status == "skipped"
    assert report.outcomes[-1].message == "not run, since shape failed: fix that first"
    assert len(report.outcomes) == 2


def test_failures_can_be_raised(graph):
    check_model(ToyModel(graph), graph).raise_if_failed()
    with pytest.raises(ModelError, match=r"breaks rules of explanations\n(.|\n)*failed   unseen"):
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


def test_times_so_large_that_one_is_lost_in_rounding_are_no_problem(graph):
    late = TemporalGraph.from_arrays(graph.src, graph.dst, 1.7e18 + 1e9 * graph.time, num_nodes=graph.num_nodes)
    for queries in (None, [late.link(0, 1, late.time[-1])]):
        assert check_model(ToyModel(late), late, queries=queries).passed


def test_tolerance_decides_what_counts_as_equal(graph):
    reference = ToyModel(graph, bias=1e-3)
    assert not check_model(ToyModel(graph), graph, reference=reference).passed
    assert check_model(ToyModel(graph), graph, reference=reference, tolerance=1e-2).passed


def test_each_outcome_is_shown_as_soon_as_it_is_there(graph):
    class Listening(ToyModel):
        def logits(self, query, changes):
            asked.append(len(shown))
            return super().logits(query, changes)

    shown, asked = [], []
    report = check_model(Listening(graph), graph, watch=shown.append)
    assert tuple(shown) == report.outcomes
    assert asked == sorted(asked)
    assert len(set(asked)) > 20


class Offering(Broken):
    """Offers everything, and counts how often anything of it is asked."""

    calls, largest = 0, 0

    def logits(self, query, changes):
        Offering.calls += 1
        Offering.largest = max(Offering.largest, len(changes))
        return super().logits(query, changes)

    def session(self, query, rows=()):
        return KeepsToItsQuery(self, query)

    def reference(self, query, change, *, full=False):
        return self

    def only(self, query, kept):
        return self.logits(query, [frozenset(range(query.before)) - kept])[0]


class KeepsToItsQuery:
    def __init__(self, model, query):
        self.model, self.query = model, query

    def logits(self, changes):
        return self.model.logits(self.query, changes)


class OffersNothing:
    def __init__(self, model):
        self.logits, self.identity, self.hops = model.logits, model.identity, model.hops


def test_the_quick_form_asks_a_bounded_number_of_questions():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, nodes=int(rng.integers(2, 30)), events=int(rng.integers(1, 150)), edge_features=1)
        model = Offering(graph)
        for tried, most in ((model, 85), (OffersNothing(model), 50)):
            Offering.calls = Offering.largest = 0
            report = check_model(tried, graph, reference=ToyModel(graph), quick=True, seed=seed)
            assert report.passed, str(report)
            assert Offering.calls <= most
            assert Offering.largest <= 8


def test_the_quick_form_says_what_it_leaves_out(graph):
    report = check_model(ToyModel(graph), graph, quick=True)
    left_out = [check.name for check in CHECKS if not check.quick]
    assert report.outcomes[-1].message == f"not part of the quick form: {', '.join(left_out)}"
    assert report.outcomes[-1].meaning == f"{len(left_out)} more checks"


def test_the_quick_form_takes_two_of_the_given_queries(graph):
    class Listening(ToyModel):
        def logits(self, query, changes):
            heard.add(query.src)
            return super().logits(query, changes)

    heard = set()
    queries = [Query(src, 13, 500.0, 80) for src in (3, 4, 5)]
    check_model(Listening(graph), graph, queries=queries, quick=True)
    assert {3, 4} <= heard


def test_after_the_given_time_the_rest_is_skipped(graph):
    class Slow(ToyModel):
        def logits(self, query, changes):
            time.sleep(0.01)
            return super().logits(query, changes)

    begun = time.monotonic()
    report = check_model(Slow(graph), graph, seconds=1)
    assert time.monotonic() - begun < 60
    assert report.passed
    assert report.outcomes[0].status == "passed"
    rest = report.outcomes[-1]
    assert "not run, since time ran out: " in rest.message
    assert rest.message.endswith("graph, form, identity")


def test_a_model_that_looks_at_the_clock_is_stopped_in_time(graph):
    class Endless(ToyModel):
        def logits(self, query, changes):
            while len(changes) > 1:
                check_deadline()
            return super().logits(query, changes)

    begun = time.monotonic()
    report = check_model(Endless(graph), graph, seconds=0.2)
    assert time.monotonic() - begun < 60
    assert report.outcomes[0].status == "skipped"


def test_a_budget_error_of_the_models_own_is_a_failure(graph):
    class Poor(ToyModel):
        def logits(self, query, changes):
            raise BudgetError("no coins left")

    assert "raised BudgetError: no coins left" in check_model(Poor(graph), graph).failures[0].message


def test_logits_that_lie_between_0_and_1_by_chance_are_not_taken_for_probabilities(graph):
    report = check_model(ToyModel(graph), graph, queries=[Query(0, 1, 1e4, 80), Query(0, 0, 1e4, 80)])
    assert found(report, "probabilities").status == "passed"
    few = TemporalGraph.from_arrays(src=[0] * 4, dst=[1] * 4, time=[0.0] * 4)
    report = check_model(ToyModel(few, weights=np.full(4, 0.1)), few, quick=True)
    assert "answers are too few to decide" in found(report, "probabilities").message


def test_wrong_calls_are_refused(graph):
    with pytest.raises(CallError, match="queries is empty"):
        check_model(ToyModel(graph), graph, queries=[])
    with pytest.raises(CallError, match="before=81 is out of range"):
        check_model(ToyModel(graph), graph, queries=[Query(0, 1, 1e4, 81)])
    with pytest.raises(CallError, match="tolerance must be 0 or more, not nan"):
        check_model(ToyModel(graph), graph, tolerance=float("nan"))
    with pytest.raises(CallError, match="a budget of seconds must be a finite number above 0, not 0"):
        check_model(ToyModel(graph), graph, seconds=0)
    with pytest.raises(CallError, match="the model was made for the graph"):
        check_model(ToyModel(random_graph(np.random.default_rng(1))), graph)
    with pytest.raises(CallError, match="the second argument is a graph"):
        check_model(ToyModel(graph), "collegemsg")


def test_a_person_can_interrupt_the_checks(graph):
    class Interrupted(ToyModel):
        def logits(self, query, removals):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_model(Interrupted(graph), graph)


def test_importing_it_is_light():
    code = (
        "import sys, cody.models.checks; print(sorted({'torch', 'pandas', 'pytest', 'pyarrow'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# Classes, and many links of one moment


class Classes:
    """Scores of three classes, by the activity of the source."""

    classes, identity, hops = ("calm", "busy", "odd"), "classes", 1

    def __init__(self, graph):
        self.graph = graph

    def logits(self, query, changes):
        rows = self.graph.history(query.src, query.before).tolist()
        kept = np.array([sum(row not in change for row in rows) for change in check_changes(self.graph, changes)])
        later = query.time - self.graph.time[0]
        return np.stack([0 * kept + 2.0 - 1e-6 * later, 0.7 * kept, 0.1 * kept - 0.5], axis=-1).astype(float)


def test_class_scores_keep_the_rules():
    graph = random_graph(np.random.default_rng(0))
    report = check_model(Classes(graph), graph)
    assert {outcome.status for outcome in report.outcomes} <= {"passed", "skipped"}, str(report)


class OneTooFew(Classes):
    def logits(self, query, changes):
        return super().logits(query, changes)[:, :2]


class Forgetful(Classes):
    """The third class depends on the rest of the batch."""

    def logits(self, query, changes):
        scores = super().logits(query, changes)
        scores[:, 2] += 0.5 * len(changes)
        return scores


@pytest.mark.parametrize(
    ("model", "name", "message"),
    [
        (OneTooFew, "shape", "one score for each of 3 classes per set, not 2"),
        (Forgetful, "alone", "alone but"),
    ],
)
def test_class_scores_that_break_a_rule_are_noticed(model, name, message):
    graph = random_graph(np.random.default_rng(0))
    failed = {outcome.name: outcome for outcome in check_model(model(graph), graph, quick=True).failures}
    assert message in failed[name].message


def test_a_session_of_many_links_that_answers_as_for_each_passes():
    graph = random_graph(np.random.default_rng(0))
    network = fast_model(random_network(graph, "tgat"), graph)
    assert statuses(check_model(network, graph, quick=True))["many_links"] == "passed"
