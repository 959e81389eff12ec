"""Networks with classes: what they answer, and what they depend on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cody.engine import fast_model, load_model, reference_model
from cody.engine.attention import Decoder, finish
from cody.engine.weights import Weights
from cody.errors import ModelError
from cody.graph import Query, TemporalGraph
from cody.models.contract import LabelTask, label_task
from cody.models.folder import read_model, write_json
from cody.train.architectures import ARCHITECTURES
from cody.train.checkpoint import Checkpoint, load_checkpoint, save_model
from random_events import random_graph, random_network

TWO, THREE = LabelTask(("ham", "spam"), threshold=0.25), LabelTask(("red", "green", "blue"))
NODE = LabelTask(("stays", "leaves"), "node")


def network_of(graph, kind, task):
    sizes = random_network(graph, kind).sizes
    torch.manual_seed(0)
    return ARCHITECTURES[kind](sizes, task).eval()


@pytest.fixture
def graph():
    return random_graph(np.random.default_rng(0), edge_features=2)


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
@pytest.mark.parametrize("task", [TWO, NODE, THREE])
def test_the_reference_answers_as_many_numbers_as_there_are_outputs(graph, kind, task):
    model = reference_model(network_of(graph, kind, task), graph)
    scores = model.logits(graph.query(70), [frozenset(), frozenset({3})])
    assert scores.shape == ((2,) if task.outputs == 1 else (2, 3))
    assert (model.classes, model.about) == (task.classes, task.about)
    assert hasattr(model, "threshold") == (task.threshold is not None)
    assert label_task(model) == task


@pytest.mark.parametrize("task", [TWO, THREE])
def test_many_events_at_once_are_scored_like_the_reference(graph, task):
    network = network_of(graph, "tgn", task)
    queries = [graph.query(row) for row in (20, 55, 79)]
    together = fast_model(network, graph).logits_of_links(queries)
    alone = [reference_model(network, graph).logits(query, [frozenset()])[0] for query in queries]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_decoder_scores_like_the_weights(graph):
    weights = Weights.of(network_of(graph, "tgat", THREE)).astype(np.float64)
    rng, decoder = np.random.default_rng(1), Decoder(weights)
    source, target = rng.normal(size=(2, 5, weights.sizes.dimension))
    matrix, bias = finish(weights, weights.sizes.layers - 1)
    wanted = weights.score(source @ matrix + bias, target @ matrix + bias)
    np.testing.assert_allclose(decoder.score(decoder.source.times(source), decoder.target.times(target)), wanted)
    assert wanted.shape == (5, 3)


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_a_model_of_nodes_reads_the_source_alone(graph, kind):
    model = fast_model(network_of(graph, kind, NODE), graph)
    query = graph.query(60)
    others = [model.logits(query._replace(dst=dst), [frozenset()])[0] for dst in (query.src, 1, 5)]
    np.testing.assert_allclose(others, others[0], atol=1e-12)
    assert model.logits(query._replace(src=(query.src + 1) % 12), [frozenset()])[0] != pytest.approx(others[0])


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_neither_labels_nor_the_scored_event_itself_are_seen(graph, kind):
    network, row = network_of(graph, kind, TWO), 60
    (before,) = reference_model(network, graph).logits(graph.query(row), [frozenset()])
    features = graph.features.copy()
    features[row:] = 100.0  # what happens at this moment and later
    labels = np.random.default_rng(2).integers(0, 2, graph.num_events)
    other = TemporalGraph.from_arrays(
        graph.src, graph.dst, graph.time, features=features, num_nodes=graph.num_nodes, labels=labels
    )
    assert reference_model(network, other).logits(graph.query(row), [frozenset()])[0] == before
    features[:row] = 100.0
    other = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time, features=features, num_nodes=graph.num_nodes)
    assert reference_model(network, other).logits(graph.query(row), [frozenset()])[0] != before


def test_a_link_model_has_no_classes(graph):
    for engine in (fast_model, reference_model):
        model = engine(random_network(graph, "tgn"), graph)
        assert label_task(model) is None
        assert not hasattr(model, "classes")


@pytest.mark.parametrize("task", [TWO, NODE, THREE])
def test_a_saved_label_model_says_what_it_labels(graph, tmp_path, task):
    network = network_of(graph, "tgn", task)
    save_model(tmp_path, Checkpoint(network, graph.identity))
    assert read_model(tmp_path).task == task
    assert load_checkpoint(tmp_path).network.task == task
    model = load_model(tmp_path, graph)
    assert label_task(model) == task
    query = Query(3, 3, float(graph.time[50]), 50)
    wanted = reference_model(network, graph).logits(query, [frozenset()])
    np.testing.assert_allclose(model.reference(query, frozenset()).logits(query, [frozenset()]), wanted, atol=1e-5)
    assert label_task(model.on(graph.imagine([]))) == task


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "regression"}, "'regression'"),
        ({"about": "edge"}, "'edge'"),
        ({"classes": ["spam"]}, "two different names"),
        ({"threshold": 2}, "between 0 and 1"),
        ({"classes": ["a", "b", "c"]}, r"score\.out"),
        ({"classes": None}, "damaged"),
    ],
)
def test_a_folder_with_another_task_is_refused(graph, tmp_path, change, message):
    save_model(tmp_path, Checkpoint(network_of(graph, "tgn", TWO), graph.identity))
    import json

    document = json.loads((tmp_path / "model.json").read_text()) | change
    del document["checksum"]
    write_json(tmp_path / "model.json", document)
    with pytest.raises(ModelError, match=message):
        read_model(tmp_path)


def test_class_names_and_threshold_do_not_change_the_identity(graph):
    weights = Weights.of(network_of(graph, "tgn", TWO))
    assert replace(weights, task=None).identity == weights.identity
