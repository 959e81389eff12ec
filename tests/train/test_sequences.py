"""Networks that read the recent events of a link's two nodes: what they read, and that they learn."""

import numpy as np
import pytest
import torch

import cody
from cody.adapters.sequences import model_of_sequences
from cody.errors import CallError, ModelError
from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add
from cody.models import check_model
from cody.models.sizes import SequenceSizes
from cody.train.sequences import SEQUENCE_NETWORKS, link_sequences, new_sequence_network
from cody.train.training import TrainingSettings, train
from random_events import random_graph

KINDS = list(SEQUENCE_NETWORKS)
SMALL = SequenceSizes(dimension=8, neighbours=4)


def made(kind, seed=0, **features):
    graph = random_graph(np.random.default_rng(seed), **features)
    return graph, model_of_sequences(new_sequence_network(kind, graph, seed, SMALL), graph)


def test_sequences_hold_the_recent_events_and_count_the_partners_by_hand():
    graph = TemporalGraph.from_arrays(
        src=[0, 0, 1, 0], dst=[2, 2, 2, 1], time=[1.0, 2.0, 4.0, 9.0], features=np.arange(8.0).reshape(4, 2)
    )
    rows = graph.recent(np.array([0, 1]), 3, 4)[None]
    found = link_sequences(
        graph, np.array([[0, 1]]), np.array([9.0]), rows, SequenceSizes(neighbours=4, edge_features=2)
    )
    assert found.elapsed[0].tolist() == [[0, 7, 8, 0, 0], [0, 5, 0, 0, 0]]
    assert found.exists[0].tolist() == [[True] * 3 + [False] * 2, [True] * 2 + [False] * 3]
    assert found.edge[0, 0].tolist() == [[0, 0], [2, 3], [0, 1], [0, 0], [0, 0]]
    # Node 0 read 0, 2, 2 and node 1 read 1, 2.
    assert found.seen[0, 0].tolist() == [[1, 0], [2, 1], [2, 1], [0, 0], [0, 0]]
    assert found.seen[0, 1].tolist() == [[0, 1], [2, 1], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("kind", KINDS)
def test_they_pass_the_checks_of_models(kind):
    graph, model = made(kind, edge_features=2, node_features=3)
    report = check_model(model, graph)
    assert report.passed, str(report)


@pytest.mark.parametrize("kind", KINDS)
def test_removing_events_equals_a_log_without_them(kind):
    graph, model = made(kind, edge_features=2)
    removed = frozenset(np.random.default_rng(1).choice(70, 12, replace=False).tolist())
    kept = np.array([row for row in range(graph.num_events) if row not in removed])
    query = graph.query(70)
    without = Query(query.src, query.dst, query.time, int(np.searchsorted(kept, 70)))
    shorter = model.on(graph.select(kept)).logits(without, [frozenset()])
    np.testing.assert_allclose(model.logits(query, [frozenset(), removed])[1:], shorter, atol=1e-9)
    longer = graph.imagine([Add(query.src, query.dst, query.time - 0.5, graph.features[0])])
    added = model.on(longer).logits(query, [frozenset(), frozenset({graph.num_events})])
    assert abs(added[0] - added[1]) > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_training_separates_links_is_repeatable_and_is_saved(kind, tmp_path):
    rng = np.random.default_rng(0)
    src = rng.integers(0, 5, 300)  # each source has its own destination
    graph = TemporalGraph.from_arrays(src, src + 5, np.arange(300.0) * 60)
    settings = TrainingSettings(epochs=6, learning_rate=1e-2, hidden=0.0)
    networks = []
    for name in ("one", "other"):
        network = new_sequence_network(kind, graph, 0, SMALL)
        list(train(graph, network, settings, tmp_path / name))
        networks.append(network)
    for one, other in zip(*(network.state_dict().values() for network in networks), strict=True):
        assert torch.equal(one, other)
    model = cody.load_model(tmp_path / "one", graph)
    query = graph.query(299)
    rival = query._replace(dst=(query.dst - 4) % 5 + 5)
    happened, did_not = (float(model.logits(link, [frozenset()])[0]) for link in (query, rival))
    if kind == "dygformer":  # it sees who met whom; a GraphMixer sees times only
        assert happened > 1 > did_not
    assert cody.load_model(tmp_path / "other", graph).identity == model.identity


def test_a_network_for_other_features_and_a_damaged_file_are_rejected(tmp_path):
    graph = random_graph(np.random.default_rng(0), edge_features=2)
    network = new_sequence_network("dygformer", graph, 0, SMALL)
    with pytest.raises(CallError, match="made for 2 features of events and 0 of nodes; the data have 0 and 0"):
        model_of_sequences(network, random_graph(np.random.default_rng(0)))
    settings = TrainingSettings(epochs=1)
    list(train(graph, new_sequence_network("graphmixer", graph, 0, SMALL), settings, tmp_path))
    text = (tmp_path / "model.json").read_text()
    (tmp_path / "model.json").write_text(text.replace('"dimension": 8', '"dimension": 4'))
    with pytest.raises(ModelError, match="damaged"):
        cody.load_model(tmp_path, graph)
