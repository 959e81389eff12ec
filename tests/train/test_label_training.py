"""Training on labels: what is learned, what is never seen, calibration, baselines, and resuming."""

import json
from itertools import islice

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from cody.engine import load_model, reference_model
from cody.engine.weights import Weights
from cody.errors import CallError, DataError
from cody.graph import Query, TemporalGraph
from cody.models.contract import LabelTask, label_task
from cody.models.separation import best_f1, separation_of_classes
from cody.models.sizes import Sizes
from cody.train.architectures import TGAT, TGN
from cody.train.checkpoint import Checkpoint, load_checkpoint
from cody.train.labels import baselines, calibrate, cross_entropy, label_logits, logits_of_rows, new_task, with_encoder
from cody.train.training import TrainingSettings, new_network, train
from random_events import random_graph

SMALL = Sizes(dimension=8, layers=1, neighbours=6, batch=32)
ARCHITECTURES = pytest.mark.parametrize("architecture", [TGN, TGAT])
NAMES = ("trust", "distrust")


def ratings(events=800, seed=0, classes=2):
    """Raters and rated nodes: 0 … 9 rate, 10 … 29 are rated, and what a node gets is nearly always the same."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 10, events), rng.integers(10, 30, events)
    usual = dst % 3 if classes == 3 else dst % 4 == 0
    labels = np.where(rng.random(events) < 0.05, rng.integers(0, classes, events), usual)
    features = np.eye(classes)[labels][:, 1:]
    return TemporalGraph.from_arrays(
        src, dst, np.arange(events) * 60.0, features=features, labels=labels, label_names=[*NAMES, "?"][:classes]
    )


def trained(folder, graph, architecture=TGAT, task=None, epochs=6, **settings):
    network = new_network(architecture, graph, SMALL, 0, task or new_task(graph))
    steps = list(train(graph, network, TrainingSettings(epochs=epochs, learning_rate=0.02, **settings), folder))
    return network, steps, json.loads((folder / "model.json").read_text())


@ARCHITECTURES
@pytest.mark.parametrize("about", ["event", "node"])
def test_what_training_computes_is_what_replay_answers(architecture, about):
    graph = random_graph(np.random.default_rng(0), events=120, edge_features=2).with_labels(np.arange(120) % 3)
    network = new_network(architecture, graph, SMALL, 0, new_task(graph, about)).eval()
    rows = np.arange(64, 80)
    stream = network.stream(graph)
    stream.advance(int(rows[0]))
    with torch.no_grad():
        logits = label_logits(network, stream, graph, rows).numpy()
    model = reference_model(network, graph)
    for row, scores in zip(rows.tolist(), logits, strict=True):
        query = graph.query(row)
        query = query if about == "event" else Query(query.src, query.src, query.time, row)
        np.testing.assert_allclose(scores, model.logits(query, [frozenset()])[0], atol=1e-4)


@ARCHITECTURES
def test_neither_the_label_nor_the_features_of_an_event_reach_its_own_score(architecture):
    graph = random_graph(np.random.default_rng(0), events=120, edge_features=2).with_labels(np.arange(120) % 2)
    network = new_network(architecture, graph, SMALL, 0, new_task(graph))
    row = np.array([100])
    features = graph.features.copy()
    features[100:] = 9.0
    other = TemporalGraph.from_arrays(
        graph.src, graph.dst, graph.time, features=features, num_nodes=graph.num_nodes, labels=1 - graph.labels
    )
    np.testing.assert_array_equal(logits_of_rows(network, graph, row), logits_of_rows(network, other, row))


@ARCHITECTURES
def test_a_label_model_beats_the_class_rate_and_says_so(architecture, tmp_path):
    _, steps, document = trained(tmp_path / "m", ratings(), architecture, epochs=10)
    origin = document["origin"]
    assert origin["test"]["auc"] > 0.85
    assert origin["baselines"]["past mean of the target"]["auc"] > 0.9
    assert origin["baselines"]["class rate"]["auc"] == 0.5
    assert max(step.validation.average_precision for step in steps if step.validation) == pytest.approx(
        origin["validation"]["average_precision"]
    )
    assert (document["task"], document["classes"], document["about"]) == ("label", list(NAMES), "event")
    assert 0 < document["threshold"] < 1


def test_scores_are_calibrated_to_the_rate_of_the_data(tmp_path):
    network, _, document = trained(tmp_path / "m", ratings(1500))
    graph = ratings(1500)
    rows = np.arange(1050, 1275)  # the validation period
    mean = (1 / (1 + np.exp(-logits_of_rows(network, graph, rows)))).mean()
    assert mean == pytest.approx(graph.labels[rows].mean(), abs=0.01)
    labels = document["origin"]["test_labels"]
    assert document["origin"]["mean_score"]["distrust"] == pytest.approx(labels["distrust"] / 225, abs=0.08)


@pytest.mark.parametrize("outputs", [1, 3])
def test_calibration_undoes_a_scale_and_a_shift(outputs):
    rng = np.random.default_rng(0)
    true = rng.normal(size=(20_000, outputs)) * 2
    both = true if outputs > 1 else np.concatenate([np.zeros_like(true), true], axis=1)
    shares = np.exp(both) / np.exp(both).sum(axis=1, keepdims=True)
    labels = (rng.random((20_000, 1)) > shares.cumsum(axis=1)).sum(axis=1)
    network = TGAT(SMALL, LabelTask(("a", "b", "c")[: max(2, outputs)]))
    weight, bias = network.score.out.weight.clone(), network.score.out.bias.clone()
    moved = 3 * true + np.arange(outputs) + 1
    calibrate(network, moved[:, 0] if outputs == 1 else moved, labels)
    torch.testing.assert_close(network.score.out.weight, weight / 3, rtol=0.05, atol=1e-6)
    shift = network.score.out.bias - bias / 3
    wanted = -(torch.arange(outputs) + 1) / 3
    if outputs > 1:  # only differences between classes count
        shift, wanted = shift - shift[0], wanted - wanted[0]
    torch.testing.assert_close(shift.detach(), wanted, rtol=0, atol=0.08)


def test_three_classes_are_trained_saved_and_answered(tmp_path):
    graph = ratings(classes=3)
    _, _, document = trained(tmp_path / "m", graph, epochs=8)
    assert document["threshold"] is None
    assert document["origin"]["test"]["auc"] > 0.8
    model = load_model(tmp_path / "m", graph)
    assert model.reference(graph.query(700), frozenset()).logits(graph.query(700), [frozenset()]).shape == (1, 3)
    assert label_task(model).classes == (*NAMES, "?")


@ARCHITECTURES
def test_a_model_of_nodes_never_reads_the_target(architecture, tmp_path):
    graph = ratings()
    network, _, document = trained(tmp_path / "m", graph, architecture, new_task(graph, "node"), epochs=2)
    assert document["about"] == "node"
    assert (network.score.hidden.weight[:, SMALL.dimension :] == 0).all()
    assert (network.score.hidden.weight[:, : SMALL.dimension] != 0).any()


def test_unknown_labels_are_neither_learned_nor_measured(tmp_path):
    graph = ratings()
    labels = graph.labels.copy()
    labels[np.arange(0, 800, 3)] = -1
    graph = graph.with_labels(labels, NAMES)
    _, _, document = trained(tmp_path / "m", graph, epochs=2, hidden=0.0)
    assert document["origin"]["events"] == {
        name: int((labels[rows] >= 0).sum())
        for name, rows in {"train": slice(560), "validation": slice(560, 680), "test": slice(680, 800)}.items()
    }


@ARCHITECTURES
def test_an_interrupted_training_on_labels_ends_like_one_that_was_not(architecture, tmp_path):
    graph, task = ratings(), new_task(ratings())
    settings = TrainingSettings(epochs=4, learning_rate=0.02)
    list(train(graph, new_network(architecture, graph, SMALL, 0, task), settings, tmp_path / "whole"))
    interrupted = train(graph, new_network(architecture, graph, SMALL, 0, task), settings, tmp_path / "parts")
    batches = next(interrupted).batches
    list(islice(interrupted, 2 * batches + 5))  # somewhere in the third epoch
    interrupted.close()
    list(train(graph, new_network(architecture, graph, SMALL, 0, task), settings, tmp_path / "parts"))
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_a_link_training_is_not_resumed_as_one_on_labels(tmp_path):
    graph, settings = ratings(), TrainingSettings(epochs=3)
    steps = train(graph, new_network(TGAT, graph, SMALL, 0), settings, tmp_path / "m")
    list(islice(steps, next(steps).batches + 2))
    steps.close()
    with pytest.raises(CallError, match="classes was None"):
        train(graph, new_network(TGAT, graph, SMALL, 0, new_task(graph)), settings, tmp_path / "m")


@ARCHITECTURES
def test_an_encoder_is_that_of_the_link_model_and_stays_so_when_frozen(architecture, tmp_path):
    graph = ratings()
    encoder = new_network(architecture, graph, SMALL, 5)
    network, identity = with_encoder(Checkpoint(encoder, graph.identity), new_task(graph), graph, encoder.kind, 0)
    assert identity == Weights.of(encoder).identity
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    settings = TrainingSettings(epochs=1, encoder=identity, fixed_encoder=True)
    list(train(graph, network, settings, tmp_path / "m"))
    after = load_checkpoint(tmp_path / "m").network.state_dict()
    for name, weight in encoder.state_dict().items():
        if not name.startswith("score."):
            assert torch.equal(before[name], weight)
            assert torch.equal(after[name], weight)
    assert not torch.equal(after["score.hidden.weight"], before["score.hidden.weight"])


def test_an_encoder_that_does_not_fit_is_refused():
    graph = ratings()
    other = Checkpoint(new_network(TGAT, random_graph(np.random.default_rng(0)), SMALL, 0), "")
    with pytest.raises(CallError, match="reads 0 event features, but the data have 1"):
        with_encoder(other, new_task(graph), graph, "tgat", 0)
    with pytest.raises(CallError, match="the encoder of a TGAT"):
        with_encoder(other, new_task(graph), graph, "tgn", 0)


def test_data_without_labels_or_with_one_class_only_are_refused(tmp_path):
    graph = ratings()
    with pytest.raises(CallError, match="--label COLUMN"):
        new_task(graph.with_labels(None))
    labels = graph.labels.copy()
    labels[560:680] = 0
    with pytest.raises(DataError, match="the validation period has 120 known labels, but there must be"):
        trained(tmp_path / "m", graph.with_labels(labels, NAMES))


def test_rare_classes_weigh_as_much_as_they_are_told():
    logits, labels = torch.tensor([[2.0], [-1.0]]), torch.tensor([1, 0])
    first, second = np.log1p(np.exp(-2.0)), np.log1p(np.exp(-1.0))
    assert cross_entropy(logits, labels, torch.tensor([1.0, 3.0])).item() == pytest.approx((3 * first + second) / 2)
    more = torch.tensor([[0.0, 1.0, 2.0]])
    assert cross_entropy(more, torch.tensor([2]), torch.ones(3)).item() == pytest.approx(
        -np.log(np.exp(2) / np.exp([0, 1, 2]).sum())
    )


def test_baselines_know_the_past_only():
    graph = TemporalGraph.from_arrays(
        [0, 0, 1, 0, 1], [2, 2, 2, 3, 3], range(5), labels=[1, 0, 1, -1, 0], label_names=["a", "b"]
    )
    found = baselines(graph, np.arange(5))
    np.testing.assert_allclose(found["past mean of the target"], [0.5, 1, 0.5, 2 / 3, 2 / 3])
    np.testing.assert_allclose(found["past mean of the source"], [0.5, 1, 0.5, 0.5, 1])
    assert len(set(found["class rate"].tolist())) == 1


@pytest.mark.parametrize("classes", [2, 3])
def test_the_quality_of_labels_is_what_sklearn_says(classes):
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, 300)
    scores = np.round(rng.normal(size=(300, classes)) + np.eye(classes)[labels], 1)  # with ties
    if classes == 2:
        wanted = average_precision_score(labels, scores[:, 1]), roc_auc_score(labels, scores[:, 1])
        found = separation_of_classes(scores[:, 1], labels)
    else:
        each = [
            (average_precision_score(labels == c, scores[:, c]), roc_auc_score(labels == c, scores[:, c]))
            for c in range(3)
        ]
        wanted, found = np.mean(each, axis=0), separation_of_classes(scores, labels)
    np.testing.assert_allclose(found, wanted)


def test_no_threshold_has_a_larger_f1_than_the_proposed_one():
    rng = np.random.default_rng(0)
    labels = rng.random(200) < 0.2
    scores = np.round(rng.normal(size=200) + labels, 1)
    others = [f1_score(labels, scores > limit) for limit in np.unique(scores)[:-1]]
    assert f1_score(labels, scores > best_f1(scores, labels)) == pytest.approx(max(others))
