"""Answers as the published code gave them: which events the memory saw, and on which grid."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from cody.engine import Replay, fast_model
from cody.engine.replay import MemoryState
from cody.graph import TemporalGraph
from cody.models.margins import flips
from cody.search import greedy
from cody.search.oracle import Oracle
from random_events import random_graph, random_network

sys.path.insert(0, str(Path(__file__).parents[2] / "reproduce"))
from published import PublishedAnswers

BATCH = 7
ROW = 70


@pytest.fixture(scope="module")
def asked():
    """A graph, and a network that is hardly decided about the link, so that small changes change its decision."""
    graph = random_graph(np.random.default_rng(5), events=80)
    network = random_network(graph, "tgn", seed=2, batch=BATCH)
    with torch.no_grad():
        network.score.out.bias += 0.02 - exact(network, graph, frozenset())[0]
    return graph, network, fast_model(network, graph)


def session(model, rows, *, by_step=False):
    return PublishedAnswers(model, by_step=by_step).session(model.graph.query(ROW), rows)


def exact(network, graph, *changes):
    return Replay(network, graph).logits(graph.query(ROW), list(changes))


def memory_of(network, graph, batches):
    """The memory of all nodes after these batches of rows, one after the other, and when it was last updated."""
    weights = Replay(network, graph).weights
    memory = np.zeros((graph.num_nodes, weights.sizes.dimension), dtype=np.float32)
    updated = np.zeros(graph.num_nodes)
    for batch in batches:
        last = {int(node): row for row in batch for node in (graph.src[row], graph.dst[row])}
        nodes, rows = np.array(list(last)), np.array(list(last.values()))
        elapsed = (graph.time[rows] - updated[nodes]).astype(np.float32)
        memory[nodes] = weights.remember(memory[nodes], memory[graph.other_end(rows, nodes)], None, elapsed)
        updated[nodes] = graph.time[rows]
    return memory, updated


def scored(network, graph, memory, removed=frozenset()):
    """The logit with this memory, where the attention sees all events but the removed ones."""
    shorter = graph.select(np.array([row for row in range(graph.num_events) if row not in removed]))
    query = graph.query(ROW)._replace(before=ROW - len(removed))
    (logit,) = Replay(network, shorter, start=MemoryState(query.before, *memory)).logits(query, [frozenset()])
    return float(logit)


def test_with_all_events_as_candidates_from_a_grid_line_on_answers_are_exact(asked):
    graph, network, model = asked
    changes = [frozenset({row}) for row in range(50, 70)]
    published = session(model, list(range(49, ROW)))
    assert published.original == pytest.approx(exact(network, graph, frozenset())[0], abs=1e-5)
    estimates = [published.ask(change, published.begin, published.rows) for change in changes]
    np.testing.assert_allclose(estimates, exact(network, graph, *changes), atol=1e-5)


def test_the_grid_begins_at_the_oldest_candidate(asked):
    graph, network, model = asked
    starts = [*range(0, 52, BATCH), *range(52, ROW, BATCH), ROW]  # the batch from 49 on is cut at 52
    batches = [range(first, stop) for first, stop in pairwise(starts)]
    expected = scored(network, graph, memory_of(network, graph, batches))
    assert session(model, list(range(52, ROW))).original == pytest.approx(expected, abs=1e-5)
    assert exact(network, graph, frozenset())[0] != pytest.approx(expected, abs=1e-4)


def test_events_that_are_not_considered_are_not_replayed_but_still_attended_to(asked):
    """The memory of a log without them, the attention of the log with them."""
    graph, network, model = asked
    candidates = [49, 53, 58, 61, 66]
    change = frozenset({58})
    published = session(model, candidates)
    before = [range(first, first + BATCH) for first in range(0, 49, BATCH)]
    memory = memory_of(network, graph, [*before, [49, 53], [61], [66]])  # batches begin at 49, 56 and 63
    expected = scored(network, graph, memory, change)
    assert published.ask(change, published.begin, candidates) == pytest.approx(expected, abs=1e-5)
    assert expected != pytest.approx(exact(network, graph, change)[0], abs=1e-4)


def test_an_apparent_change_of_the_decision_is_asked_again_with_all_events_but_the_oldest_candidate(asked):
    graph, network, model = asked
    rng = np.random.default_rng(0)
    candidates = list(range(49, ROW, 2))
    published = session(model, candidates)
    wrong = 0
    for _ in range(60):
        change = frozenset(rng.choice(candidates[1:], 3, replace=False).tolist())
        estimate = published.ask(change, published.begin, candidates)
        (answer,) = published.logits([change])
        if flips(published.original, estimate):
            assert answer == published.ask(change, published.begin, range(50, ROW))
            wrong += answer != pytest.approx(exact(network, graph, change)[0], abs=1e-4)
        else:
            assert answer == estimate
    assert wrong > 3


def test_a_step_of_greedy_considers_only_the_events_it_tries(asked):
    _, _, model = asked
    candidates = list(range(49, ROW))
    tried = [frozenset({60, 55, row}) for row in (62, 64, 66)]
    by_step, of_all = (session(model, candidates, by_step=by_step) for by_step in (True, False))
    assert by_step.considered(tried) == [62, 64, 66]
    assert of_all.considered(tried) == candidates
    assert not np.allclose(by_step.logits(tried), of_all.logits(tried), atol=1e-4)


def test_what_greedy_removed_before_the_oldest_event_of_a_step_stays_in_the_memory():
    """Two events of one pair of nodes; the first is removed earlier, the step is about later ones."""
    graph = TemporalGraph.from_arrays(
        src=[0, 0, 2, 2, 0], dst=[1, 1, 3, 3, 1], time=[1.0, 2.0, 3.0, 4.0, 5.0], num_nodes=4
    )
    network = random_network(graph, "tgn", seed=1, batch=1)
    model = fast_model(network, graph)
    session = PublishedAnswers(model, by_step=True).session(graph.query(4), [0, 1, 2, 3])
    earlier = session.replay.later(session.begin, range(0, 2), 2)
    answers = session.logits([frozenset({0, 2}), frozenset({0, 3})])
    kept = [session.ask(change, earlier, []) for change in (frozenset({0, 2}), frozenset({0, 3}))]
    assert answers == pytest.approx(kept, abs=1e-6)  # nodes 2 and 3 do not reach the link


def test_a_search_asks_it_like_any_other_model(asked):
    graph, _, model = asked
    candidates = np.arange(49, ROW)
    oracle = Oracle(PublishedAnswers(model, by_step=True), graph.query(ROW), rows=candidates.tolist())
    found = greedy(oracle, candidates[::-1])
    assert len(found.evaluated) > 10
    assert PublishedAnswers(model, by_step=True).identity != PublishedAnswers(model, by_step=False).identity
