"""A past that consists of a few events only, against the definition: everything else removed, replayed."""

import numpy as np
import pytest

from cody.engine import Replay, fast_model
from cody.errors import CallError
from cody.models.contract import LabelTask
from cody.train.architectures import ARCHITECTURES
from random_events import random_graph, random_network


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
@pytest.mark.parametrize("seed", range(12))
def test_only_equals_replay_without_everything_else(kind, seed):
    rng = np.random.default_rng(seed)
    features = {"edge_features": 3 * (seed % 2), "node_features": 2 * (seed % 3)}
    graph = random_graph(rng, bipartite=seed % 4 == 3, **features)
    network = random_network(graph, kind, seed, batch=int(rng.choice([1, 7, 32])), layers=int(rng.choice([1, 2])))
    fast, plain = fast_model(network, graph), Replay(network, graph)
    for _ in range(6):
        query = graph.query(int(rng.integers(1, graph.num_events)))
        visible = frozenset(range(query.before))
        kept = frozenset(rng.choice(query.before, min(query.before, int(rng.integers(0, 9))), replace=False).tolist())
        assert fast.only(query, kept) == pytest.approx(plain.logits(query, [visible - kept])[0], abs=1e-5)


@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize(("kind", "outputs"), [("tgn", 1), ("tgat", 3)])
def test_links_to_nodes_without_events_are_scored_once_and_each_gets_its_score(kind, outputs, features):
    rng = np.random.default_rng(features)
    graph = random_graph(rng, nodes=12, events=90, node_features=features)
    task = LabelTask(("red", "green", "blue")) if outputs > 1 else None
    network = ARCHITECTURES[kind](random_network(graph, kind).sizes, task).eval()
    model, plain, query = fast_model(network, graph), Replay(network, graph), graph.query(80)
    links = [query._replace(src=src, dst=dst) for src in (0, 3) for dst in range(12)]
    for size in (0, 1, 4):
        kept = frozenset(rng.choice(80, size, replace=False).tolist())
        scores = model.only_of_links(links, kept)
        np.testing.assert_allclose(scores, plain.scores(links, [frozenset(range(80)) - kept])[0], rtol=0, atol=1e-5)
    if not features:
        nothing = model.only_of_links(links, frozenset()).reshape(2, 12, outputs)
        assert (nothing[0, 1:] == nothing[0, 1]).all(), (
            "nodes of which nothing is known score the same, to the last bit"
        )


def test_only_looks_at_the_memory_that_the_kept_events_leave():
    graph = random_graph(np.random.default_rng(0))
    network = random_network(graph, "tgn")
    model, query = fast_model(network, graph), graph.query(70)
    kept = frozenset(graph.history(query.src, query.before)[-3:].tolist())
    assert len({round(model.only(query, some), 4) for some in (frozenset(), kept, frozenset(range(70)))}) == 3
    assert model.only(query, frozenset(range(70))) == pytest.approx(model.logits(query, [frozenset()])[0], abs=1e-5)


def test_only_ignores_what_the_query_does_not_see():
    graph = random_graph(np.random.default_rng(1))
    model, query = fast_model(random_network(graph, "tgn"), graph), graph.query(40)
    assert model.only(query, frozenset({3, 9, 40, 60})) == model.only(query, frozenset({3, 9}))
    with pytest.raises(CallError, match="80"):
        model.only(query, frozenset({80}))
