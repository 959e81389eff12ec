"""The fast path of PyG models: event-sourced memory around the user's own modules."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import TGNMemory
from torch_geometric.nn.models.tgn import IdentityMessage, MeanAggregator

from adapters.pyg_models import random_tgn
from adapters.stand_ins import FirstOfTheLatest, InSinglePrecision, Memory
from adapters.test_pyg import wrapped
from cody import Add, Alter, Move, TemporalGraph, above, explain
from cody.adapters import HistoryModel, sourced, workspace
from cody.adapters.sourced import SlotWorkspace, SourcedModel
from cody.adapters.versioned import VersionWorkspace
from cody.engine.selfcheck import PROMISE, SelfCheck
from cody.errors import SlowModelWarning
from cody.models import check_model
from cody.models.contract import first_score, logit_of_only, logits_of_links, open_session, weight_of
from cody.models.decided import decide
from cody.models.decision import Above
from random_events import random_graph


def both(seed, **kinds):
    """A model asked in the fast way and in the slow one, with random sizes."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, edge_features=2 * (seed % 2), **kinds)
    tgn, data = random_tgn(graph, seed)
    options = {"neighbours": int(rng.integers(2, 6)), "batch": int(rng.integers(3, 12))}
    return rng, wrapped(tgn, data, **options), wrapped(tgn, data, **options, fast=False)


def as_in_tgb(memory, aggregator=FirstOfTheLatest):
    """The same weights in a memory of TGB or TGM."""
    sizes = memory.num_nodes, memory.raw_msg_dim, memory.memory_dim, memory.time_dim
    other = Memory(*sizes, IdentityMessage(*sizes[1:]), aggregator())
    weights = {name.replace("gru.", "memory_updater."): weight for name, weight in memory.state_dict().items()}
    other.load_state_dict(weights)
    other.eval()
    return other


def some_changes(rng, rows):
    return [frozenset(rng.choice(rows, min(size, len(rows))).tolist()) for size in (0, 1, 2, 4, 9)]


def by_reference(model, query, changes):
    """What verifies each answer: the user's own modules, fed what can matter."""
    return [model.reference(query, change).logits(query, [change])[0] for change in changes]


@pytest.mark.parametrize("seed", range(8))
def test_the_fast_path_answers_as_the_users_own_modules_do(seed):
    rng, fast, slow = both(seed, ties=seed % 3 > 0)
    assert isinstance(fast, SourcedModel)
    for row in rng.integers(1, fast.graph.num_events, 5).tolist():
        changes = some_changes(rng, range(fast.graph.num_events))
        expected = slow.logits(fast.graph.query(row), changes)
        np.testing.assert_allclose(fast.logits(fast.graph.query(row), changes), expected, atol=1e-5)


@pytest.mark.parametrize("first", [False, True], ids=["the last counts", "the first counts"])
@pytest.mark.parametrize("seed", range(6))
def test_it_does_so_where_most_events_have_the_same_time(seed, first):
    """Then messages of earlier batches count once more, and the side of an event decides."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 5, (2, 60))
    graph = TemporalGraph.from_arrays(src, dst, np.sort(rng.integers(0, 6, 60)) * 100.0)
    tgn, data = random_tgn(graph, seed)
    if first:
        tgn = tgn._replace(memory=as_in_tgb(tgn.memory))
    fast, slow = wrapped(tgn, data, batch=4), wrapped(tgn, data, batch=4, fast=False)
    assert isinstance(fast, SourcedModel)
    for row in (59, 40, 17):
        changes = some_changes(rng, range(row))
        expected = slow.logits(graph.query(row), changes)
        np.testing.assert_allclose(fast.logits(graph.query(row), changes), expected, atol=1e-5)
        np.testing.assert_allclose(by_reference(fast, graph.query(row), changes), expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_it_does_so_with_imagined_events(seed):
    rng, fast, slow = both(seed, events=50)
    edits = [Add(1, 2, 95.0), Add(3, 1, 130.0), Move(20, 190.0), Move(40, 15.0), Add(4, 4, 0.0), Add(1, 5, 190.0)]
    if fast.graph.features is not None:
        edits.append(Alter(33, rng.normal(size=fast.graph.features.shape[1]).tolist()))
    longer = fast.graph.imagine(edits)
    fast, slow = fast.on(longer), slow.on(longer)
    for row in (49, 33, 14):
        changes = some_changes(rng, [*range(row), *range(50, longer.num_rows)])
        query = longer.query(row)._replace(src=1)
        expected = slow.logits(query, changes)
        np.testing.assert_allclose(fast.logits(query, changes), expected, atol=1e-5)
        np.testing.assert_allclose(by_reference(fast, query, changes), expected, atol=1e-5)


def test_verification_feeds_the_events_that_can_matter_and_in_full_all_of_them(monkeypatch):
    _, fast, _ = both(1)
    fed, observe = [], HistoryModel.observe

    def observed(model, rows, past=None):
        fed.extend(rows.tolist())
        observe(model, rows, past)

    monkeypatch.setattr(HistoryModel, "observe", observed)
    query, change = fast.graph.query(79), frozenset({3})
    answers, rows = [], []
    for full in (False, True):
        fed.clear()
        answers += fast.reference(query, change, full=full).logits(query, [change]).tolist()
        rows.append(sorted(fed))
    assert rows[1] == [row for row in range(fast.sees_before(query)) if row != 3]
    assert set(rows[0]) < set(rows[1])
    assert answers[0] == pytest.approx(answers[1], abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_a_history_of_few_events_is_fed_these_alone_and_equals_removing_all_others(seed, monkeypatch):
    rng, fast, slow = both(seed)
    fed, observe = [], HistoryModel.observe

    def observed(model, rows, past=None):
        fed.extend(rows.tolist())
        observe(model, rows, past)

    query = fast.graph.query(79)
    for kept in [*some_changes(rng, range(79)), frozenset(fast.graph.history(query.src, 79).tolist())]:
        with monkeypatch.context() as watched:
            watched.setattr(HistoryModel, "observe", observed)
            fed.clear()
            answer = logit_of_only(fast, query, kept)
        assert set(fed) <= kept
        removed = [frozenset(range(79)) - kept]
        assert answer == pytest.approx(fast.logits(query, removed)[0], abs=1e-5)
        assert answer == pytest.approx(slow.logits(query, removed)[0], abs=1e-5)
    assert fed


def test_a_session_asked_about_other_rows_than_it_was_opened_with_answers_too():
    rng, fast, slow = both(1)
    query = fast.graph.query(70)
    session = fast.session(query, rows=[60, 65])
    for changes in ([frozenset({60})], some_changes(rng, range(70)), [frozenset({60, 65})]):
        np.testing.assert_allclose(session.logits(changes), slow.logits(query, changes), atol=1e-5)


def test_it_keeps_all_rules_of_a_model():
    _, fast, slow = both(3, events=60)
    check_model(fast, fast.graph, reference=slow, tolerance=1e-5, quick=True).raise_if_failed()


def test_a_counterfactual_is_confirmed_by_the_users_own_modules():
    _, fast, slow = both(1)
    for row in range(79, 20, -1):
        why = explain(fast, fast.graph, fast.graph.query(row))
        if why.verification and min(why.removed) >= fast.grid.size:
            assert "by replay from the memory at event" in why.verification.by
            without = slow.reference(why.query, frozenset(), full=True).logits(why.query, [frozenset(why.removed)])
            assert why.verification.without == pytest.approx(float(without[0]), abs=1e-4)
            break
    else:
        pytest.fail("none of the links has a counterfactual")


def test_an_aggregator_that_rounds_times_is_asked_in_the_slow_way_where_that_matters():
    src, dst = np.random.default_rng(0).integers(0, 6, (2, 40))
    graph = TemporalGraph.from_arrays(src, dst, 1.7e9 + np.arange(40.0))
    tgn, _ = random_tgn(graph)
    tgn = tgn._replace(memory=as_in_tgb(tgn.memory, InSinglePrecision))
    with pytest.warns(SlowModelWarning, match="InSinglePrecision rounds times, so that some different times are equal"):
        wrapped(tgn, graph, message=1.0)
    fast, slow = (wrapped(tgn, graph, message=1.0, start=1.7e9, fast=way) for way in (True, False))
    changes = [frozenset(), frozenset({20, 33}), frozenset(range(30))]
    np.testing.assert_allclose(fast.logits(graph.query(39), changes), slow.logits(graph.query(39), changes), atol=1e-5)
    assert isinstance(fast, SourcedModel)


def test_a_memory_that_does_not_keep_the_last_message_is_asked_in_the_slow_way():
    graph = random_graph(np.random.default_rng(0), edge_features=2)
    tgn, data = random_tgn(graph)
    memory = TGNMemory(graph.num_nodes, 2, 8, 8, IdentityMessage(2, 8, 8), MeanAggregator())
    with pytest.warns(SlowModelWarning, match="TGNMemory with MeanAggregator does not keep the last message"):
        model = wrapped(tgn._replace(memory=memory), data)
    assert isinstance(model, HistoryModel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped(tgn._replace(memory=memory), data, fast=False)
    check_model(model, model.graph, quick=True, seconds=5.0).raise_if_failed()


class Centred(nn.Module):
    """A GNN that subtracts the mean of all nodes that it is given."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, z, last_update, edge_index, t, msg):
        z = self.inner(z, last_update, edge_index, t, msg)
        return z - z.mean(dim=0)


def test_a_gnn_that_mixes_unrelated_nodes_is_asked_in_the_slow_way():
    graph = random_graph(np.random.default_rng(0))
    tgn, data = random_tgn(graph)
    with pytest.warns(SlowModelWarning, match="Centred mixes parts of a graph that no edge joins"):
        model = wrapped(tgn._replace(gnn=Centred(tgn.gnn)), data)
    assert isinstance(model, HistoryModel)


@pytest.fixture(scope="module")
def forgetful():
    """A model in which changes of the memory fade, asked in the fast way and in the slow one, with long histories."""
    drawn = random_graph(np.random.default_rng(5), nodes=12, events=600, ties=False)
    graph = TemporalGraph.from_arrays(drawn.src, drawn.dst, np.arange(600.0), num_nodes=drawn.num_nodes)
    tgn, data = random_tgn(graph, 5)
    with torch.no_grad():
        tgn.memory.gru.weight_hh.mul_(0.5)
        tgn.memory.gru.weight_ih.mul_(0.5)
    return wrapped(tgn, data, batch=5), wrapped(tgn, data, batch=5, fast=False)


def old_and_new(rng, rows):
    return [frozenset(), *(frozenset({row}) for row in range(0, rows, 30)), *some_changes(rng, range(rows))]


@pytest.mark.parametrize("many", [0, 10**9], ids=["estimated", "exact"])
def test_long_histories_are_answered_as_promised(forgetful, many, monkeypatch):
    monkeypatch.setattr(workspace, "MANY_STATES", many)
    fast, slow = forgetful
    query, changes = fast.graph.query(590), old_and_new(np.random.default_rng(0), 590)
    session = fast.session(query, range(590))
    right = slow.logits(query, changes)
    allowed = PROMISE if many == 0 else 2e-6
    np.testing.assert_allclose(session.logits(changes), right, atol=allowed, rtol=allowed)
    assert np.abs(right - right[0]).max() > 0.01  # some of it matters
    assert not session.corrections


@torch.no_grad()
def states_computed(model, changes):
    workspace = sourced.SlotWorkspace(model.table, model.log, [model.graph.query(590)], frozenset().union(*changes))
    workspace.answer(changes)
    return workspace.states.count


def test_changes_are_not_followed_where_they_have_faded(forgetful, monkeypatch):
    fast, _ = forgetful
    changes = [frozenset({row}) for row in range(0, 60, 3)]
    monkeypatch.setattr(workspace, "MANY_STATES", 10**9)
    exactly = states_computed(fast, changes)
    monkeypatch.setattr(workspace, "MANY_STATES", 0)
    assert states_computed(fast, changes) < exactly / 5


def test_sets_that_change_nearly_the_same_share_what_is_computed_from_it(forgetful, monkeypatch):
    fast, _ = forgetful
    changes = [frozenset({300, row}) for row in range(270, 290)]
    monkeypatch.setattr(workspace, "MANY_STATES", 0)
    shared = states_computed(fast, changes)
    monkeypatch.setattr(sourced.States, "_share_among", lambda *_: None)
    assert shared < 0.9 * states_computed(fast, changes)


def test_an_estimate_that_is_off_ends_the_estimating(forgetful, monkeypatch):
    monkeypatch.setattr(workspace, "MANY_STATES", 0)
    monkeypatch.setattr(workspace, "SMALL_CHANGE", 0.1)
    fast, slow = forgetful
    query = fast.graph.query(590)
    session = fast.session(query, range(590))
    later = old_and_new(np.random.default_rng(0), 590)
    for row in range(540, 570):  # the 16th is among those that are checked
        session.logits([frozenset({row})])
    np.testing.assert_allclose(session.logits(later), slow.logits(query, later), atol=2e-6)
    assert session.corrections


@pytest.mark.parametrize("seed", range(4))
def test_estimates_are_right_with_ties_and_imagined_events(seed, monkeypatch):
    """Whether a message still counts depends on more than the numbers of a state."""
    monkeypatch.setattr(workspace, "MANY_STATES", 0)
    monkeypatch.setattr(workspace, "SMALL_CHANGE", 1e-6)
    monkeypatch.setattr(SelfCheck, "_sample", lambda self, changes: np.zeros(len(changes), dtype=bool))
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 5, (2, 60))
    graph = TemporalGraph.from_arrays(src, dst, np.sort(rng.integers(0, 12, 60)) * 100.0)
    tgn, data = random_tgn(graph, seed)
    longer = wrapped(tgn, data, batch=4).graph.imagine([Add(1, 2, 300.0), Move(20, 700.0), Add(4, 4, 0.0)])
    fast, slow = (wrapped(tgn, data, batch=4, fast=way).on(longer) for way in (True, False))
    for row in (59, 40):
        changes = some_changes(rng, [*range(row), *range(60, longer.num_rows)])
        query = longer.query(row)
        np.testing.assert_allclose(fast.logits(query, changes), slow.logits(query, changes), atol=1e-5)


@pytest.mark.parametrize("many", [0, 10**9], ids=["estimated", "exact"])
def test_a_session_that_must_forget_answers_the_same(forgetful, many, monkeypatch):
    monkeypatch.setattr(workspace, "MANY_STATES", many)
    fast, _ = forgetful
    query, changes = fast.graph.query(590), old_and_new(np.random.default_rng(0), 590)
    whole = fast.session(query, range(590)).logits(changes)
    monkeypatch.setattr(workspace, "NUMBERS_KEPT", 0)
    session = fast.session(query, range(590))
    np.testing.assert_allclose([session.logits([change])[0] for change in changes], whole, atol=PROMISE)


def test_a_session_knows_what_an_answer_costs(forgetful):
    fast, _ = forgetful
    query = fast.graph.query(590)
    late, early = (weight_of(fast.session(query, rows)) for rows in ([588, 589], [0, 1]))
    assert 0 < late < early / 10


# Many links of one moment, and other decisions


@pytest.mark.parametrize("seed", range(4))
def test_many_links_of_one_moment_get_the_answers_that_each_gets_alone(seed):
    rng, fast, slow = both(seed, ties=seed % 2 > 0)
    for row in rng.integers(20, fast.graph.num_events, 3).tolist():
        query, changes = fast.graph.query(row), some_changes(rng, range(row))
        links = [query._replace(dst=node) for node in range(fast.graph.num_nodes)]
        alone = np.stack([slow.logits(link, changes) for link in links], axis=1)
        for model in (fast, slow):
            together = model.session_of_links(links, first_score, range(row)).scores(changes)
            np.testing.assert_allclose(together, alone, atol=1e-5)
            reference = model.reference_of_links(links, changes[-1])
            np.testing.assert_allclose(reference.scores(links, changes[-1:])[0], alone[-1], atol=1e-5)
            np.testing.assert_allclose(logits_of_links(model, links), alone[0], atol=1e-5)


def test_a_state_is_computed_once_for_all_links(forgetful):
    fast, _ = forgetful
    query, changes = fast.graph.query(590), [frozenset({row}) for row in range(500, 560, 3)]
    links = [query._replace(dst=node) for node in range(12)]

    def computed(links):
        workspace = sourced.SlotWorkspace(fast.table, fast.log, links, frozenset().union(*changes))
        with torch.no_grad():
            workspace.answer(changes)
        return workspace.states.count

    assert computed(links) < 0.3 * sum(computed([link]) for link in links)


def decisions_on_the_line(model, graph, query, change):
    """Decisions for which a change leads exactly to the line: a threshold, and a rival that is as high."""
    (logit,) = model.logits(query, [change])
    other = next(node for node in range(12) if node not in (query.src, query.dst))
    rival = query._replace(dst=other)
    gap = model.logits(query, [change])[0] - model.logits(rival, [change])[0]
    yield lambda scores: scores[:, 0] - logit, [query]
    yield lambda scores: scores[:, 0] - scores[:, 1] - gap, [query, rival]


def test_estimates_are_exact_at_the_line_of_the_decision(forgetful, monkeypatch):
    monkeypatch.setattr(workspace, "MANY_STATES", 0)
    monkeypatch.setattr(workspace, "SMALL_CHANGE", 5e-2)
    monkeypatch.setattr(SelfCheck, "_sample", lambda self, changes: np.zeros(len(changes), dtype=bool))
    monkeypatch.setattr("cody.engine.selfcheck.PROMISE", 1.0)  # an estimate that is off does not end the estimating
    fast, slow = forgetful
    query, rough = fast.graph.query(590), 0.0
    for change in [frozenset({row}) for row in range(500, 590, 9)]:
        estimate = fast.session(query, range(590)).logits([change])[0]
        for margin, links in decisions_on_the_line(slow, fast.graph, query, change):
            (scores,) = fast.session_of_links(links, margin, range(590)).scores([change])
            assert margin(scores[None])[0] == pytest.approx(0.0, abs=5e-6)
        rough = max(rough, abs(estimate - slow.logits(query, [change])[0]))
    assert rough > 1e-4, "else an estimate would do"


@pytest.mark.parametrize("followed", [True, False], ids=["versions", "slots"])
def test_explanations_at_a_threshold_far_from_one_half_are_exact_near_it(forgetful, followed, monkeypatch):
    monkeypatch.setattr(workspace, "MANY_STATES", 0)
    monkeypatch.setattr(workspace, "SMALL_CHANGE", 5e-2)
    monkeypatch.setattr(SelfCheck, "_sample", lambda self, changes: np.zeros(len(changes), dtype=bool))
    monkeypatch.setattr("cody.engine.selfcheck.PROMISE", 1.0)  # an estimate that is off does not end the estimating
    fast, slow = forgetful
    if not followed:
        monkeypatch.setattr(VersionWorkspace, "of", lambda *_: None)
    query, rough = fast.graph.query(590), 0.0
    assert isinstance(fast.workspace([query], frozenset(range(590))), VersionWorkspace if followed else SlotWorkspace)
    for change in [frozenset({row}) for row in range(500, 590, 9)]:
        (logit,) = slow.logits(query, [change])
        assert abs(logit) > 3
        decided = decide(fast, fast.graph, query, above(logit=float(logit) + 1e-3))
        (margin,) = open_session(decided, query, range(590)).logits([change])
        assert margin == pytest.approx(-1e-3, abs=2e-5)
        rough = max(rough, abs(fast.session(query, range(590)).logits([change])[0] - logit))
    assert rough > 1e-3, "else an estimate would decide the same"


class ThreeClasses(nn.Module):
    def __init__(self, predictor, width=8):
        super().__init__()
        self.lin = nn.Linear(2 * width, 3)

    def forward(self, source, target):
        return self.lin(torch.cat([source, target], dim=-1))


def test_class_scores_are_explained_by_the_names_of_the_classes():
    graph = random_graph(np.random.default_rng(3))
    tgn, data = random_tgn(graph)
    tgn = tgn._replace(link_predictor=ThreeClasses(tgn.link_predictor))
    fast, slow = (wrapped(tgn, data, classes=["calm", "busy", "odd"], fast=fast, batch=5) for fast in (True, False))
    assert isinstance(fast, SourcedModel)
    query, changes = fast.graph.query(60), some_changes(np.random.default_rng(0), range(60))
    assert fast.logits(query, changes).shape == (len(changes), 3)
    np.testing.assert_allclose(fast.logits(query, changes), slow.logits(query, changes), atol=1e-5)
    check_model(fast, fast.graph, quick=True).raise_if_failed()
    why = explain(fast, fast.graph, query)
    assert why.outcome == fast.classes[int(slow.logits(query, [frozenset()])[0].argmax())]
    assert why.subject == "event"
    if why.is_counterfactual:
        assert slow.logits(query, [why.change])[0].argmax() != slow.logits(query, [frozenset()])[0].argmax()
    two = wrapped(random_tgn(graph)[0], data, classes=["calm", "odd"], threshold=0.7, about="node", batch=5)
    assert explain(two, two.graph, query._replace(dst=query.src)).decision == Above(0.7, "odd", "calm")
