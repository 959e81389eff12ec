"""Many links of a log without some events get the answers that sessions and the replay give, link by link."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cody.engine import Replay, fast_model
from cody.engine.links import MemoryWithout
from cody.errors import CallError
from cody.graph import Query
from cody.graph.edits import Add
from cody.models import ToyModel
from cody.models.contract import links_without
from random_events import random_graph, random_network, random_queries

KINDS = pytest.mark.parametrize("kind", ["tgn", "tgat"])


def one_by_one(model, queries, removed):
    return np.array([float(model.logits(query, [removed])[0]) for query in queries])


def some_rows(rng, graph, count):
    return frozenset(rng.choice(graph.num_events, count, replace=False).tolist())


@pytest.mark.parametrize("seed", range(12))
@KINDS
def test_links_scored_at_once_equal_links_scored_one_by_one(kind, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(
        rng, edge_features=2 * (seed % 2), node_features=3 * (seed // 2 % 2), bipartite=seed % 3 == 0, nodes=5 + seed
    )
    network = random_network(graph, kind, layers=1 + seed // 4 % 2, neighbours=[1, 4, 20][seed % 3])
    model, queries = fast_model(network, graph), random_queries(rng, graph, 10)
    for count in (1, 2, 15):
        removed = some_rows(rng, graph, count)
        scored = links_without(model, removed).logits(queries)
        np.testing.assert_allclose(scored, one_by_one(model, queries, removed), atol=1e-6, rtol=0)
        replay = Replay(network, graph, dtype=np.float64)
        np.testing.assert_allclose(scored[::5], one_by_one(replay, queries[::5], removed), atol=1e-5, rtol=0)


@KINDS
def test_links_that_cannot_differ_do_not_and_most_others_do(kind):
    reached = moving = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, nodes=40, events=120)
        network = random_network(graph, kind, neighbours=[1, 2, 4, 20][seed % 4], layers=1 + seed // 4)
        model = fast_model(network, graph)
        queries = [graph.query(row) for row in range(graph.num_events)]
        removed = some_rows(rng, graph, 1 + seed % 3)
        can_differ = links_without(model, removed).can_differ(queries)
        moved = np.abs(one_by_one(model, queries, removed) - model.logits_of_links(queries))
        assert (moved[~can_differ] < 1e-12).all()
        assert 0 < can_differ.sum() < len(queries)
        reached, moving = reached + can_differ.sum(), moving + (moved[can_differ] > 1e-9).sum()
    assert moving > 0.8 * reached  # some removed events have a twin that takes their place


@KINDS
def test_the_order_of_questions_does_not_matter_and_the_model_stays_as_it_is(kind):
    graph = random_graph(np.random.default_rng(1))
    model = fast_model(random_network(graph, kind), graph)
    queries, removed = [graph.query(row) for row in range(graph.num_events)], frozenset({3, 20})
    before = model.logits_of_links(queries)
    at_once, in_parts = links_without(model, removed), links_without(model, removed)
    late = in_parts.logits(queries[60:])
    np.testing.assert_array_equal(in_parts.can_differ(queries), at_once.can_differ(queries))
    np.testing.assert_allclose(in_parts.logits(queries[:60]), at_once.logits(queries)[:60], atol=1e-12)
    np.testing.assert_allclose(late, at_once.logits(queries)[60:], atol=1e-12)
    np.testing.assert_array_equal(model.logits_of_links(queries), before)


@KINDS
def test_a_log_with_imagined_events_is_answered_as_the_log_itself(kind):
    graph = random_graph(np.random.default_rng(0), edge_features=2)
    model = fast_model(random_network(graph, kind), graph)
    queries, removed = [graph.query(row) for row in range(graph.num_events)], frozenset({7})
    longer = model.on(graph.imagine([Add(0, 1, 5.0, [1.0, 2.0])]))
    np.testing.assert_array_equal(
        links_without(longer, removed).logits(queries), links_without(model, removed).logits(queries)
    )


def test_a_model_without_a_way_of_its_own_is_asked_link_by_link():
    graph = random_graph(np.random.default_rng(0))
    model, removed = ToyModel(graph), frozenset({10, 30})
    queries = [graph.query(row) for row in range(graph.num_events)]
    links = links_without(model, removed)
    assert links.can_differ(queries).tolist() == [row > 10 for row in range(graph.num_events)]
    np.testing.assert_array_equal(links.logits(queries), one_by_one(model, queries, removed))


def test_no_links_have_no_logits_and_foreign_ones_are_refused():
    graph = random_graph(np.random.default_rng(0))
    links = links_without(fast_model(random_network(graph, "tgn"), graph), frozenset({3}))
    assert links.logits([]).tolist() == []
    assert links.can_differ([]).tolist() == []
    with pytest.raises(CallError, match="src=99 is not a node"):
        links.logits([Query(99, 0, 1e6, 3)])


def test_everything_is_computed_with_one_thread(monkeypatch):
    """At these sizes, more threads of the matrix products only wait for each other."""
    graph = random_graph(np.random.default_rng(0))
    model = fast_model(random_network(graph, "tgn"), graph)
    asked, follow = [], MemoryWithout.follow

    def watched(memory, before):
        asked.append({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})
        follow(memory, before)

    monkeypatch.setattr(MemoryWithout, "follow", watched)
    queries = [graph.query(row) for row in range(40, 50)]
    with threadpool_limits(2, "blas"):
        links = links_without(model, frozenset({3}))
        links.can_differ(queries)
        links.logits(queries)
    assert asked == [{1}, {1}]
