"""The fast engine equals the plain replay, whatever is asked, in whatever order, by whomever."""

import itertools
import multiprocessing
import os
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.engine import FastTGAT, FastTGN, Replay, compiled, fast, fast_model, load_model, memory, tgn
from cody.engine.vectors import NearDuplicates
from cody.engine.weights import Weights
from cody.graph import Query, TemporalGraph
from cody.models import check_model
from cody.train.architectures import TGN
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network

EXAMPLES = int(os.environ.get("CODY_EXAMPLES", "200"))  # for each test with random cases; raise it to search longer
pytestmark = pytest.mark.usefixtures("form")  # each test in the compiled form, and in numpy
KINDS = ["tgn", "tgat"]


SIZES = {
    "nodes": [2, 5, 12, 30],
    "events": [1, 2, 10, 60, 150],
    "layers": [1, 2],
    "neighbours": [1, 3, 20],
    "batch": [1, 7, 32, 200],
}
SPARSE = {
    "nodes": [5, 30, 30, 30],
    "events": [10, 150, 150],
    "layers": [1, 1, 2],
    "neighbours": [1, 1, 3],
    "batch": [7, 16],
}


@st.composite
def cases(draw, kind, **sizes):
    """A random graph, network, query, and removal sets from empty to the whole past."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    drawn = {name: draw(st.sampled_from(choice)) for name, choice in (SIZES | sizes).items()}
    graph = random_graph(
        rng,
        nodes=drawn.pop("nodes"),
        events=drawn.pop("events"),
        edge_features=draw(st.sampled_from([0, 2])),
        node_features=draw(st.sampled_from([0, 3])),
        bipartite=draw(st.booleans()),
        ties=draw(st.booleans()),
    )
    network = random_network(graph, kind, seed=int(rng.integers(1000)), **drawn)
    before = int(rng.integers(0, graph.num_events + 1))
    src, dst = rng.integers(0, graph.num_nodes, 2).tolist()
    query = Query(src, dst, float(graph.time[-1] + rng.random()), before)
    sizes = np.minimum([0, 1, 1, 2, 3, 8, graph.num_events // 2], graph.num_events)
    removals = [frozenset(rng.choice(graph.num_events, size, replace=False).tolist()) for size in sizes]
    return graph, network, query, [*removals, frozenset(range(graph.num_events))]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_equal_replay_in_single_and_double_precision(kind):
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES == 200, database=None)
    @given(cases(kind))
    def check(case):
        graph, network, query, removals = case
        for dtype, tolerance in ((np.float32, 1e-4), (np.float64, 1e-9)):
            expected = Replay(network, graph, dtype=dtype).logits(query, removals)
            model = engine(network, graph, dtype)
            np.testing.assert_allclose(model.logits(query, removals), expected, rtol=0, atol=tolerance)
            confirmed = [model.reference(query, removal).logits(query, [removal])[0] for removal in removals]
            np.testing.assert_allclose(confirmed, expected, rtol=0, atol=tolerance)
        usual = fast_model(network, graph).logits(query, removals)  # in double precision, but for the table
        np.testing.assert_allclose(usual, expected, rtol=0, atol=1e-4)

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_about_some_rows_answers_like_replay(kind):
    """The fewer rows may change, and the less is attended to, the smaller are masks: one that is too small shows."""

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES == 200, database=None)
    @given(cases(kind, **SPARSE), st.integers(1, 8), st.integers(0, 2**32 - 1))
    def check(case, count, seed):
        graph, network, query, _ = case
        rng = np.random.default_rng(seed)
        rows = rng.choice(query.before, min(count, query.before), replace=False).tolist()
        changes = [frozenset(rows), *(frozenset({row}) for row in rows)]
        expected = Replay(network, graph, dtype=np.float64).logits(query, changes)
        answers = engine(network, graph).session(query, rows).logits(changes)
        np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-9)

    check()


def test_a_node_depends_on_what_reached_its_memory_though_no_neighbour_does():
    """2 knows of the first event through 1; 3, the only one it attends to, met 4 later in the same batch instead."""
    pairs = np.array([[0, 1], [5, 6], [1, 2], [5, 6], [2, 3], [3, 4]])
    graph = TemporalGraph.from_arrays(*pairs.T, np.arange(6.0), num_nodes=8)
    network = random_network(graph, "tgn", batch=2, neighbours=1, layers=1)
    query, changes = Query(2, 7, 10.0, 6), [frozenset(), frozenset({0})]
    expected = Replay(network, graph, dtype=np.float64).logits(query, changes)
    assert abs(expected[0] - expected[1]) > 1e-3
    np.testing.assert_allclose(engine(network, graph).session(query, [0]).logits(changes), expected, rtol=0, atol=1e-9)


def engine(network, graph, dtype=np.float64):
    """In double precision rounding cannot hide a mistake."""
    if isinstance(network, TGN):
        return FastTGN(network, graph, dtype=dtype, table_dtype=dtype)
    return FastTGAT(network, graph, dtype=dtype)


@pytest.fixture(params=KINDS)
def model_and_sets(request):
    rng = np.random.default_rng(1)
    graph = random_graph(rng, nodes=20, events=300)
    network = random_network(graph, request.param, batch=32, neighbours=6)
    query = graph.query(280)
    recent = np.arange(180, 280)
    removals = [frozenset(rng.choice(recent, size, replace=False).tolist()) for size in rng.integers(0, 6, 60)]
    return graph, network, query, removals


def test_a_batch_answers_like_one_by_one_in_any_order(model_and_sets):
    graph, network, query, removals = model_and_sets
    together = engine(network, graph).logits(query, removals)
    one = engine(network, graph)
    alone = [one.logits(query, [removal])[0] for removal in removals]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-9)
    order = np.random.default_rng(2).permutation(len(removals))
    shuffled = engine(network, graph).logits(query, [removals[place] for place in order])
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-9)
    assert len(one.logits(query, [])) == 0


def test_sets_with_events_never_seen_before_do_not_disturb_earlier_answers(model_and_sets):
    graph, network, query, removals = model_and_sets
    model, plain = engine(network, graph), Replay(network, graph, dtype=np.float64)
    first = model.logits(query, removals)
    older = [frozenset({row, row + 50}) for row in range(0, 120, 7)]
    np.testing.assert_allclose(model.logits(query, older), plain.logits(query, older), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(model.logits(query, removals), first)
    mixed = [removal | other for removal, other in zip(removals, older, strict=False)]
    np.testing.assert_allclose(model.logits(query, mixed), plain.logits(query, mixed), rtol=0, atol=1e-9)


def test_queries_do_not_disturb_each_other_however_many_there_are(model_and_sets):
    graph, network, _, removals = model_and_sets
    model, plain = engine(network, graph), Replay(network, graph, dtype=np.float64)
    queries = [graph.query(row) for row in (280, 281, 282, 283, 284, 285, 280)]  # again
    for query in queries:
        expected = plain.logits(query, removals[:4])
        np.testing.assert_allclose(model.logits(query, removals[:4]), expected, rtol=0, atol=1e-9)


def test_a_full_memory_starts_afresh(model_and_sets, monkeypatch):
    graph, network, query, removals = model_and_sets
    expected = engine(network, graph).logits(query, removals)
    monkeypatch.setattr(fast, "NUMBERS_KEPT", 1000)
    monkeypatch.setattr(fast, "CHANGES_AT_ONCE", 7)
    np.testing.assert_allclose(engine(network, graph).logits(query, removals), expected, rtol=0, atol=1e-9)


def test_where_much_may_change_fewer_sets_are_computed_at_once_and_all_of_it_counts(monkeypatch):
    graph = random_graph(np.random.default_rng(1), nodes=20, events=300)
    query, removals = graph.query(280), [frozenset({event}) for event in range(200, 240)]
    for kind, at_once in (("tgn", 1), ("tgat", fast.CHANGES_AT_ONCE)):
        model = engine(random_network(graph, kind, batch=32), graph)
        workspace = fast.QueryWorkspace(model, [query], range(200, 240))
        workspace.answer(removals)
        layers = sum(layer.size for layer in workspace.layers)
        assert (workspace.size > layers) == (kind == "tgn"), "the memories of a TGN count too"
        monkeypatch.setattr(fast, "NUMBERS_AT_ONCE", workspace.largest or fast.CHANGES_AT_ONCE)  # what one has added
        assert workspace.changes_at_once == at_once


def test_later_events_and_unreachable_ones_change_nothing(model_and_sets):
    graph, network, _, _ = model_and_sets
    apart = TemporalGraph.from_arrays(
        np.append(graph.src, [40, 41]), np.append(graph.dst, [41, 42]), np.append(graph.time, [0.0, 0.0]), sort=True
    )
    far = frozenset(np.flatnonzero(apart.src >= 40).tolist())
    model = engine(network, apart)
    whole, without_far, without_later = model.logits(apart.query(282), [frozenset(), far, frozenset(range(282, 302))])
    assert whole == without_later
    assert whole == pytest.approx(without_far, abs=1e-9)


@contextmanager
def engine_watched(on_call):
    """Call `on_call` with how many functions of the engine were called before, whenever one is called."""
    numbers, engine_files = itertools.count(), str(Path(fast.__file__).parent)

    def watch(frame, event, argument):
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "__del__":
            return  # Python drops what it raises
        if event == "call" and file.startswith(engine_files) and not file.endswith("threads.py"):
            on_call(next(numbers))

    usual = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(usual)


@pytest.mark.parametrize("rows", [[1, 2, 3, *range(180, 280)], []])  # named beforehand, a session keeps what it has
def test_nothing_is_left_behind_by_a_call_that_fails(model_and_sets, rows):
    graph, network, query, removals = model_and_sets
    model, asked, calls = engine(network, graph), [*removals[10:15], frozenset({1, 2, 3})], []
    weights = {name: weight.clone() for name, weight in network.state_dict().items()}
    expected = model.logits(query, removals)

    session = model.session(query, rows)
    session.logits(removals[:10])
    with engine_watched(calls.append):
        session.logits(asked)
    for number, failing in enumerate(calls[:: len(calls) // 24]):
        failure = (RuntimeError, KeyboardInterrupt)[number % 2]
        session = model.session(query, rows)
        np.testing.assert_allclose(session.logits(removals[:10]), expected[:10], rtol=0, atol=1e-9)
        with pytest.raises(failure), engine_watched(partial(fail_at, failing, failure)):
            session.logits(asked)
        np.testing.assert_allclose(session.logits(removals), expected, rtol=0, atol=1e-9)
    assert all(torch.equal(weight, weights[name]) for name, weight in network.state_dict().items())


def fail_at(failing, failure, call):
    if call == failing:
        raise failure


def test_threads_asking_at_once_get_the_same_answers(model_and_sets):
    graph, network, query, removals = model_and_sets
    queries = [query, graph.query(250), graph.query(290)]
    expected = [engine(network, graph).logits(query, removals) for query in queries]
    model = engine(network, graph)
    answers = {}

    def ask(number):
        answers[number] = model.logits(queries[number % 3], removals)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(6):
        np.testing.assert_allclose(answers[number], expected[number % 3], rtol=0, atol=1e-9)


def ask_in_a_process(folder, answers):
    torch.set_num_threads(1)
    graph = random_graph(np.random.default_rng(1), nodes=20, events=300)
    answers.put(load_model(folder, graph).logits(graph.query(280), [frozenset(), frozenset({279, 250})]).tolist())


def test_processes_share_a_table_and_get_the_same_answers(tmp_path):
    graph = random_graph(np.random.default_rng(1), nodes=20, events=300)
    network = random_network(graph, "tgn")
    save_model(tmp_path, Checkpoint(network, graph.identity))
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=ask_in_a_process, args=(tmp_path, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()  # both find no table, and build it
    found = [answers.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    expected = Replay(network, graph).logits(graph.query(280), [frozenset(), frozenset({279, 250})])
    for answer in found:
        np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_passes_the_conformance_suite(kind):
    graph = random_graph(np.random.default_rng(3), nodes=10, events=60)
    network = random_network(graph, kind)
    check_model(fast_model(network, graph), graph, reference=Replay(network, graph)).raise_if_failed()


def test_a_counterfactual_is_confirmed_without_replaying_what_it_cannot_depend_on(monkeypatch):
    pairs = np.array([[0, 1], [2, 3], [1, 4], [5, 6]] * 20)  # 2 and 3, 5 and 6 have nothing to do with 0
    graph = TemporalGraph.from_arrays(*pairs.T, np.arange(80.0))
    model = engine(random_network(graph, "tgn", batch=4), graph)
    updates = []
    remember = Weights.remember
    monkeypatch.setattr(Weights, "remember", lambda *given: updates.append(len(given[1])) or remember(*given))
    query, change = Query(0, 4, 100.0, 80), frozenset({8})
    full = model.reference(query, change, full=True).logits(query, [change])
    confirmed = model.reference(query, change).logits(query, [change])
    np.testing.assert_allclose(confirmed, full, rtol=0, atol=1e-12)
    assert updates[:20] == [7] * 2 + [6] + [7] * 17, "from row 0: every node of every batch"
    assert updates[20:] == [2] + [3] * 17, "0, 1 and 4, since the batch of row 8, in which 0 and 1 did not meet"


def test_memories_that_are_nearly_the_same_are_shared_within_a_version_only():
    alike = NearDuplicates(3, 1e-4)
    memory = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.6], [-0.2, 0.0, 0.2]])
    alike.add(np.array([7, 7, 8]), memory, np.array([0, 1, 2]))
    alike.sort()
    close, far = np.array([[0.50005, 0.49995, 0.5]]), np.array([[0.5, 0.50015, 0.5]])
    cases = [(7, close, 0), (7, far, -1), (7, memory[1:2], 1), (8, close, -1), (8, memory[2:], 2)]
    for version, value, expected in cases:
        assert alike.find(np.array([version]), value, memory) == [expected]
    several = np.array([9, 9, 9, 10]), np.concatenate([far, close, far, far])
    assert alike.find(*several, memory).tolist() == [-1] * 4
    assert alike.first_of_each(*several).tolist() == [0, 1, 0, 3]


def test_a_memory_never_stands_for_one_that_is_further_away_however_many_lie_between():
    steps = 0.7e-4 * np.arange(4)[:, None] * np.ones(3)  # each is close to the next, the first not to the third
    assert NearDuplicates(3, 1e-4).first_of_each(np.full(4, 5), steps).tolist() == [0, 0, 2, 3]


def test_of_long_histories_small_changes_are_left_out_and_answers_hardly_move(monkeypatch):
    graph = random_graph(np.random.default_rng(3), nodes=60, events=1500)
    network = random_network(graph, "tgn", batch=8)
    with torch.no_grad():
        network.memory.weight_ih.mul_(0.3)  # a memory that forgets
        network.memory.weight_hh.mul_(0.3)
    model = engine(network, graph)
    query, changes = graph.query(1490), [frozenset({row, row + 1}) for row in range(700, 1400, 30)]
    sizes, answers = [], []
    for many, smallest in ((10**9, 0.0), (0, 1e-4)):
        monkeypatch.setattr(tgn, "MANY_VERSIONS", many)
        monkeypatch.setattr(tgn, "SMALL_CHANGE", smallest)
        workspace = fast.QueryWorkspace(model, [query], sorted(frozenset().union(*changes)))
        answers.append(np.array(workspace.answer(changes)))
        sizes.append(workspace.inputs.size)  # of the memories that were computed
    assert sizes[1] < 0.8 * sizes[0]
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=1e-3)
    assert (answers[1] != answers[0]).any(), "if nothing moves, nothing was left out"


@pytest.mark.parametrize("edge_features", [0, 2])
def test_of_long_histories_the_gates_compute_in_single_precision(monkeypatch, edge_features):
    graph = random_graph(np.random.default_rng(3), nodes=20, events=300, edge_features=edge_features)
    model = engine(random_network(graph, "tgn", batch=8), graph)
    used, gated, events = set(), memory.gated, memory.Gates.events

    def events_watched(*given):
        used.add(events(*given).dtype)  # in either form; what is added to it has to be the same
        return events(*given)

    monkeypatch.setattr(memory, "gated", lambda *given: used.update(part.dtype for part in given) or gated(*given))
    monkeypatch.setattr(memory.Gates, "events", events_watched)
    for many, expected in ((0, np.float32), (10**9, np.float64)):
        monkeypatch.setattr(tgn, "MANY_VERSIONS", many)
        used.clear()
        workspace = fast.QueryWorkspace(model, [graph.query(290)], {200, 210})
        workspace.answer([frozenset({200, 210})])
        if workspace.inputs.events is not None:  # the compiled form
            following = workspace.inputs.following
            used.update(part.dtype for part in (following.events.parts, *following.parts))
        assert used == {np.dtype(expected)}


def test_memories_of_nodes_that_a_set_does_not_lead_to_are_not_followed():
    src, dst = [0, 2, 3, 4, 2, 0], [1, 5, 5, 5, 3, 2]  # 0 met 1, and later 2, which had met others
    graph = TemporalGraph.from_arrays(src=src, dst=dst, time=np.arange(6.0))
    model = engine(random_network(graph, "tgn", batch=1, layers=1, neighbours=1), graph)
    workspace = fast.QueryWorkspace(model, [Query(0, 1, 7.0, 6)], range(6))
    workspace.answer([frozenset({1, 5})])  # unless 0 meets 2, what 2 did is of no concern
    assert workspace.inputs.store.vectors.length == 1 + 2  # zero, and what 0 and 1 remember of each other
    workspace.answer([frozenset({1})])
    assert workspace.inputs.store.vectors.length > 5


def test_where_there_are_many_versions_a_few_changes_are_followed_at_a_time(model_and_sets, monkeypatch):
    graph, network, query, removals = model_and_sets
    expected = engine(network, graph).logits(query, removals)
    followed = []
    for form in (memory.PureFollow, compiled.CompiledFollow):
        follow = form.follow
        monkeypatch.setattr(
            form,
            "follow",
            lambda self, masks, *pairs, follow=follow: followed.append(len(masks)) or follow(self, masks, *pairs),
        )
    monkeypatch.setattr(tgn, "FOLLOWED_AT_ONCE", 5_000)
    np.testing.assert_allclose(engine(network, graph).logits(query, removals), expected, rtol=0, atol=1e-9)
    assert sum(followed) == (len(removals) if isinstance(network, TGN) else 0)
    assert all(count < len(removals) / 2 for count in followed)
