"""A past that consists of a few events only, against the definition: everything else removed, replayed."""

import numpy as np
import pytest

from cody.engine import Replay, fast_model
from cody.errors import CallError
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
