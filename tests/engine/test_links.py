"""Many links scored at once, with nothing changed, get the answers that sessions and the plain replay give."""

import numpy as np
import pytest

from cody.engine import Replay, fast_model, links
from cody.errors import CallError
from cody.graph import Query
from cody.graph.edits import Add
from random_events import random_graph, random_network, random_queries

UNCHANGED = [frozenset()]


def one_by_one(model, queries):
    return [float(model.logits(query, UNCHANGED)[0]) for query in queries]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_links_scored_at_once_equal_links_scored_one_by_one(kind, seed, monkeypatch):
    monkeypatch.setattr(links, "LINKS_AT_ONCE", 7)
    rng = np.random.default_rng(seed)
    graph = random_graph(
        rng, edge_features=2 * (seed % 2), node_features=3 * (seed // 2 % 2), bipartite=seed % 3 == 0, nodes=5 + seed
    )
    network = random_network(graph, kind, layers=1 + seed // 4 % 2, neighbours=[1, 4, 20][seed % 3])
    model, queries = fast_model(network, graph), random_queries(rng, graph, 10)
    scored = model.logits_of_links(queries)
    np.testing.assert_allclose(scored, one_by_one(model, queries), atol=1e-9, rtol=0)
    replay = Replay(network, graph, dtype=np.float64)
    np.testing.assert_allclose(scored[::5], one_by_one(replay, queries[::5]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_imagined_events_do_not_count(kind):
    rng = np.random.default_rng(0)
    graph = random_graph(rng, edge_features=2)
    model, queries = fast_model(random_network(graph, kind), graph), random_queries(rng, graph, 5)
    longer = graph.imagine([Add(0, 1, 5.0, [1.0, 2.0])])
    np.testing.assert_array_equal(model.on(longer).logits_of_links(queries), model.logits_of_links(queries))


def test_no_links_have_no_logits_and_foreign_ones_are_refused():
    graph = random_graph(np.random.default_rng(0))
    model = fast_model(random_network(graph, "tgn"), graph)
    assert model.logits_of_links([]).tolist() == []
    with pytest.raises(CallError, match="src=99 is not a node"):
        model.logits_of_links([Query(99, 0, 1e6, 3)])
