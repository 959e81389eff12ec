import re

import numpy as np
import pytest

from adapters.stepwise_tgn import StepwiseTGN, wrapped
from cody import Add, Alter, CodyError, Move, TemporalGraph, explain, labelled
from cody.adapters import Past, from_steps
from cody.adapters.history import Snapshots
from cody.engine import Replay
from cody.errors import BudgetError, CallError, ModelError
from cody.models import check_model
from cody.models.contract import first_score, logit_of_only, logits_of_links
from cody.utils.deadline import until
from random_events import random_graph, random_network


def tgn_and_definition(seed, **kinds):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, **kinds)
    network = random_network(graph, "tgn", seed, layers=1)
    return rng, graph, StepwiseTGN(network, graph), Replay(network, graph, dtype=np.float64)


def some_changes(rng, rows, count=4):
    sizes = rng.integers(0, 8, count).tolist()
    return [frozenset(rng.choice(rows, min(size, len(rows)), replace=False).tolist()) for size in sizes]


@pytest.mark.parametrize("kept", [True, False], ids=["with snapshots", "from the first row each time"])
@pytest.mark.parametrize("reads", [True, False], ids=["restricted", "everything"])
@pytest.mark.parametrize("seed", range(6))
def test_the_frame_answers_as_the_definition_does(seed, kept, reads):
    rng, graph, tgn, definition = tgn_and_definition(seed, edge_features=3 * (seed % 2), ties=seed < 4)
    model = wrapped(tgn, graph, save=kept, reads=reads)
    for row in rng.integers(0, graph.num_events, 6).tolist():
        changes = some_changes(rng, range(graph.num_events))
        expected = definition.logits(graph.query(row), changes)
        np.testing.assert_allclose(model.logits(graph.query(row), changes), expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_imagined_events_join_the_batch_in_which_they_stand(seed):
    rng, graph, tgn, definition = tgn_and_definition(seed, edge_features=2)
    edits = [Add(1, 2, 95.0), Add(3, 1, 200.0), Move(20, 310.0), Move(60, 15.0), Alter(33, [1.0, -1.0]), Add(4, 4, 0.0)]
    longer = graph.imagine(edits)
    model, definition = wrapped(tgn, graph).on(longer), definition.on(longer)
    for row in [0, 14, *rng.integers(0, graph.num_events, 6).tolist()]:
        changes = some_changes(rng, [*range(row), *range(graph.num_events, longer.num_rows)], 6)
        query = longer.query(row)._replace(src=1)
        np.testing.assert_allclose(model.logits(query, changes), definition.logits(query, changes), atol=1e-9)


def test_it_keeps_all_rules_of_a_model():
    _, graph, tgn, definition = tgn_and_definition(1, edge_features=2, events=40)
    report = check_model(wrapped(tgn, graph), graph, reference=definition)
    report.raise_if_failed()
    assert not [outcome for outcome in report.outcomes if outcome.status == "noted"]


def test_replay_starts_at_the_last_snapshot_before_the_oldest_changed_row():
    _, graph, tgn, _ = tgn_and_definition(0)
    model = wrapped(tgn, graph, reads=False)
    session = model.session(graph.query(79))
    session.logits([frozenset({3}), frozenset({75}), frozenset({65, 75})])
    tgn.fed = 0
    session.logits([frozenset({71, 78})])
    assert tgn.fed == 7  # rows 70 … 78 without two; batches begin at multiples of 7
    tgn.fed = 0
    model.reference(graph.query(79), frozenset({71}), full=True).logits(graph.query(79), [frozenset({71})])
    assert tgn.fed == 78


def test_only_events_that_can_reach_the_query_are_replayed():
    graph = TemporalGraph.from_arrays([0, 2, 4, 0], [1, 3, 5, 1], [1.0, 2.0, 3.0, 4.0])
    tgn = StepwiseTGN(random_network(graph, "tgn", layers=1), graph)
    wrapped(tgn, graph).logits(graph.query(3), [frozenset()])
    assert tgn.fed == 1


def test_a_small_budget_makes_it_slower_but_not_wrong():
    rng, graph, tgn, definition = tgn_and_definition(3)
    one = sum(array.nbytes for array in tgn.save()) + 100
    model = wrapped(tgn, graph, snapshot_bytes=5 * one)
    for row in (79, 40, 60):
        changes = some_changes(rng, range(row))
        expected = definition.logits(graph.query(row), changes)
        np.testing.assert_allclose(model.logits(graph.query(row), changes), expected, atol=1e-9)
        assert 0 < model.snapshots.size <= 2.5 * one


def test_snapshots_never_exceed_their_budget():
    snapshots = Snapshots(most=1000)
    for line in range(7, 700, 7):
        if snapshots.wants(line // 7, line):
            snapshots.keep(line, np.zeros(20))  # 160 bytes
        assert snapshots.size <= 1000
    line, saved = snapshots.last(650)
    assert 400 < line <= 650
    assert saved is not None
    assert snapshots.last(3) == (0, None)


class Stop(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("error", [RuntimeError("broken"), Stop()], ids=["an error", "Ctrl-C"])
@pytest.mark.parametrize("where", ["observe", "score"])
def test_the_users_model_is_left_as_it_was_also_after_a_failure(where, error):
    _, graph, tgn, _ = tgn_and_definition(2)
    tgn.memory[:] = 7.0
    fed, usual = [], getattr(tgn, where)

    def failing(*arguments):
        fed.append(arguments)
        if len(fed) > 5:
            raise error
        return usual(*arguments)

    setattr(tgn, where, failing)
    model = wrapped(tgn, graph)
    with pytest.raises(type(error)):
        model.logits(graph.query(70), [frozenset({row}) for row in range(20)])
    assert (tgn.memory == 7.0).all()
    assert (tgn.updated == 0.0).all()


def test_answers_after_a_failure_are_the_usual_ones():
    _, graph, tgn, definition = tgn_and_definition(2)
    model = wrapped(tgn, graph)
    session, changes = model.session(graph.query(70)), [frozenset({30}), frozenset({2, 60})]
    with pytest.raises(BudgetError), until(0.0):
        session.logits(changes)
    np.testing.assert_allclose(session.logits(changes), definition.logits(graph.query(70), changes), atol=1e-9)


def test_an_explanation_is_confirmed_by_replaying_everything():
    _, graph, tgn, definition = tgn_and_definition(5)
    for row in range(60, 80):
        why = explain(wrapped(tgn, graph), graph, graph.query(row))
        if why.verification:
            assert "by replay from the memory at event" in why.verification.by
            expected = definition.logits(graph.query(row), [frozenset(why.removed)])
            np.testing.assert_allclose(why.logits[-1], expected[0], atol=1e-5)
            break
    else:
        pytest.fail("none of the links has a counterfactual")


def test_a_past_of_few_events_feeds_only_these():
    _, graph, tgn, definition = tgn_and_definition(4)
    kept = frozenset({5, 30, 31, 62})
    model = wrapped(tgn, graph, reads=False)
    assert logit_of_only(model, graph.query(70), kept) == pytest.approx(
        logit_of_only(definition, graph.query(70), kept), abs=1e-9
    )
    assert tgn.fed == 4


def memoryless(graph, **more):
    def score(query, past):
        rows = past.recent([query.src, query.dst], 3)
        return float(np.sum(1.0 / (1.0 + query.time - past.graph.time[rows[rows >= 0]]))) - 0.3

    return from_steps(graph, score=score, identity="recent", hops=1, **more)


def test_a_memoryless_model_needs_only_a_score():
    graph = random_graph(np.random.default_rng(0))
    report = check_model(memoryless(graph), graph, quick=True)
    report.raise_if_failed()


def test_a_memoryless_model_may_answer_many_at_once():
    graph = random_graph(np.random.default_rng(0))
    one, calls = memoryless(graph), []

    def score_many(query, pasts):
        calls.append(len(pasts))
        return np.array([one.steps.score(query, past) for past in pasts])

    many = memoryless(graph, score_many=score_many)
    changes = [frozenset(), frozenset({3}), frozenset({50, 60})]
    np.testing.assert_array_equal(many.logits(graph.query(70), changes), one.logits(graph.query(70), changes))
    assert calls == [3]
    check_model(many, graph, reference=one, quick=True).raise_if_failed()


@pytest.mark.parametrize("reads", [True, False], ids=["restricted", "everything"])
def test_events_are_fed_once_for_all_links_of_a_moment(reads):
    rng, graph, tgn, definition = tgn_and_definition(3, edge_features=2)
    query, changes = graph.query(79), some_changes(rng, range(79))
    links = [query._replace(dst=node) for node in range(graph.num_nodes)]
    expected = np.stack([definition.logits(link, changes) for link in links], axis=1)
    calls = []

    def score_links(links, past):
        calls.append(len(links))
        return [tgn.score(link, past) for link in links]

    for more in ({}, {"score_links": score_links}):
        model = wrapped(tgn, graph, reads=reads, **more)
        session = model.session_of_links(links, first_score)
        np.testing.assert_allclose(session.scores(changes), expected, atol=1e-9)
        tgn.fed = 0
        model.session(query).logits(changes)
        alone, tgn.fed = tgn.fed, 0
        model.session_of_links(links, first_score).scores(changes)
        assert tgn.fed <= (alone if not reads else 3 * alone)  # more events can reach more links
        reference = model.reference_of_links(links, changes[1], full=True)
        np.testing.assert_allclose(reference.scores(links, changes[1:2])[0], expected[1], atol=1e-9)
        np.testing.assert_allclose(logits_of_links(model, links), definition.scores(links, [frozenset()])[0], atol=1e-9)
    assert set(calls) == {len(links)}


def test_a_classifier_of_three_classes_is_explained_by_their_names():
    graph = random_graph(np.random.default_rng(0))

    def score(query, past):
        recent = len(past.of_node(query.src))
        return [10.0, recent, 0.5 * recent]

    model = from_steps(graph, score=score, identity="by activity", hops=1, classes=["calm", "busy", "odd"])
    why = explain(model, graph, graph.query(79), decision=labelled("busy"))
    assert why.decision.classes == ("calm", "busy", "odd")
    assert why.outcome == ("busy" if len(graph.history(graph.query(79).src, 79)) > 10 else "not busy")
    with pytest.raises(
        ModelError, match=r"score\(query, past\) must return one number for each of 3 classes, not '1.5'"
    ):
        from_steps(graph, score=lambda query, past: 1.5, identity="one", classes="abc").logits(
            graph.query(79), [frozenset()]
        )
    with pytest.raises(ModelError, match="classes must be at least two different names"):
        from_steps(graph, score=score, identity="one", classes=["a"])


def test_the_past_is_what_the_definition_says():
    graph = random_graph(np.random.default_rng(1), edge_features=2)
    longer = graph.imagine([Add(1, 2, 100.0), Move(50, 20.0)])
    query = longer.query(70)
    past = Past(longer, query, longer.difference(frozenset({3, 80, 81}), query))
    assert set(past.events.rows.tolist()) == (set(range(70)) - {3, 50}) | {80, 81}
    assert (np.diff(past.events.time) >= 0).all()
    assert past.events.features.shape == (70, 2)
    for node in range(graph.num_nodes):
        touching = (past.events.src == node) | (past.events.dst == node)
        latest = past.events.rows[touching][::-1][:5].tolist()
        assert past.recent([node], 5)[0].tolist() == latest + [-1] * (5 - len(latest))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": print}, "a model with start.. needs observe.. too"),
        ({"start": print, "observe": print, "restore": print}, "a model with restore.. needs save.. too"),
        ({"save": print, "restore": print}, "has start.. and observe.. too"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"hops": 0}, "hops must be at least 1, not 0"),
    ],
)
def test_steps_that_do_not_fit_together_are_refused(given, message):
    graph = random_graph(np.random.default_rng(0))
    with pytest.raises(CallError, match=message):
        from_steps(graph, score=lambda query, past: 0.0, identity="none", **given)


def test_a_score_that_is_no_number_is_refused():
    graph = random_graph(np.random.default_rng(0))
    model = from_steps(graph, score=lambda query, past: [1.0, 2.0], identity="two")
    with pytest.raises(ModelError, match="must return one number"):
        model.logits(graph.query(5), [frozenset()])
    with pytest.raises(CodyError, match="event 900 does not exist"):
        model.logits(graph.query(5), [frozenset({900})])


@pytest.mark.parametrize(
    ("functions", "call", "shown"),
    [
        ({"score": lambda query: 0.0}, "score(query, past)", "<lambda>(query)"),
        ({"score": lambda query, past, limit: 0.0}, "score(query, past)", "<lambda>(query, past, limit)"),
        ({"start": lambda: None, "observe": lambda: None}, "observe(events)", "<lambda>()"),
    ],
)
def test_a_function_of_another_signature_is_refused_before_it_is_called(functions, call, shown):
    graph = random_graph(np.random.default_rng(0))
    steps = {"score": lambda query, past: 0.0} | functions
    with pytest.raises(CallError, match=re.escape(f"a function is called as {call}, but yours is {shown}")):
        from_steps(graph, identity="wrong", **steps)


def test_functions_with_options_of_their_own_and_functions_in_c_are_accepted():
    graph = random_graph(np.random.default_rng(0))
    state = np.zeros(3)
    more = {"start": lambda: state.fill(0.0), "observe": lambda events, rate=0.5: None, "save": state.copy}
    from_steps(graph, identity="right", score=lambda *given: 0.0, restore=lambda saved, **options: None, **more)
