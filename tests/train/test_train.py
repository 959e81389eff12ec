import json
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from whole_stream import WholeStream

from cody.baselines import ScorerSettings as ExplainerSettings
from cody.baselines import train_explainer
from cody.baselines.differentiable import SoftModel
from cody.data import campus
from cody.engine import fast_model, load_model
from cody.engine.replay import Replay
from cody.errors import CallError, DataError
from cody.explaining.what_if import effects
from cody.graph import TemporalGraph
from cody.models.sizes import Sizes
from cody.train.architectures import TGAT, TGN
from cody.train.checkpoint import ResumeFile, load_checkpoint
from cody.train.training import (
    TrainingSettings,
    measure,
    new_network,
    new_optimizer,
    run_epoch,
    split,
    train,
)
from random_events import random_graph, random_network

SMALL = Sizes(dimension=8, layers=2, neighbours=4, batch=16)


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("edge_features", "node_features"), [(0, 0), (3, 2)])
def test_what_training_computes_is_what_replay_answers(kind, layers, edge_features, node_features):
    rng = np.random.default_rng(layers)
    graph = random_graph(rng, events=120, edge_features=edge_features, node_features=node_features)
    network = random_network(graph, kind, layers=layers)
    stream = network.stream(graph)
    rows = np.arange(63, 77)  # two whole batches of the grid
    stream.advance(int(rows[0]))
    others = rng.integers(0, graph.num_nodes, len(rows))
    with torch.no_grad():
        logits = network.link_logits(stream, graph, rows[:7], np.stack([graph.dst[rows], others], 1)[:7]).numpy()
    model = Replay(network, graph)
    for place, row in enumerate(rows[:7]):
        query = graph.query(int(row))
        expected = [model.logits(query, [frozenset()])[0]]
        expected.append(model.logits(query._replace(dst=int(others[place])), [frozenset()])[0])
        np.testing.assert_allclose(logits[place], expected, atol=1e-4)


@pytest.mark.parametrize(("edge_features", "node_features"), [(0, 0), (3, 2)])
def test_a_stream_that_keeps_only_the_latest_versions_trains_like_one_that_has_all(edge_features, node_features):
    rng = np.random.default_rng(edge_features)
    graph = random_graph(rng, nodes=30, events=300, edge_features=edge_features, node_features=node_features)
    weights, losses = [], []
    for whole in (False, True):
        network = new_network(TGN, graph, SMALL, seed=0)
        if whole:
            network.stream = partial(WholeStream, network)
        network.encode.frequency.requires_grad_(False)  # a step of it moves phases at random
        optimizer = torch.optim.SGD([each for each in network.parameters() if each.requires_grad], lr=0.3)
        losses.append([step.loss for epoch in (1, 2) for step in run_epoch(network, optimizer, graph, 0, epoch)])
        weights.append({name: weight.detach() for name, weight in network.named_parameters()})
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    fresh = new_network(TGN, graph, SMALL, seed=0).memory.weight_ih
    assert (weights[0]["memory.weight_ih"] - fresh).abs().max() > 1e-3
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], atol=1e-5, rtol=0)


def test_a_stream_refuses_rows_of_another_batch():
    graph = random_graph(np.random.default_rng(0), events=100)
    stream = new_network(TGN, graph, SMALL, seed=0).stream(graph)
    stream.advance(40)
    for row in (20, 60):
        with pytest.raises(AssertionError, match=f"rows {row} to {row} are not of the batch at row 32"):
            stream.inputs(np.array([0]), np.array([row]))


def test_the_memory_learns():
    graph = random_graph(np.random.default_rng(0), events=100)
    network = new_network(TGN, graph, SMALL, seed=0)
    stream = network.stream(graph)
    rows = np.arange(64, 80)
    stream.advance(64)
    network.link_logits(stream, graph, rows, graph.dst[rows][:, None]).sum().backward()
    for name, parameter in network.memory.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_fixed_memory_stays_as_it_was_drawn_and_all_else_learns(tmp_path):
    graph = random_graph(np.random.default_rng(2), nodes=30, events=400)
    before = new_network(TGN, graph, SMALL, seed=0).state_dict()
    list(train(graph, new_network(TGN, graph, SMALL, seed=0), TrainingSettings(epochs=1, fixed_memory=True), tmp_path))
    after = load_checkpoint(tmp_path).network.state_dict()
    same = {name for name in before if torch.equal(before[name], after[name])}
    same = {name for name in same if not name.endswith("key.bias")}  # the softmax cancels it, so it never learns
    assert same == {name for name in before if name.startswith("memory.")} | {"encode.frequency"}
    assert json.loads((tmp_path / "model.json").read_text())["origin"]["settings"]["fixed_memory"] is True


def test_no_gradient_passes_through_a_fixed_memory():
    graph = random_graph(np.random.default_rng(0), events=100)
    network = new_network(TGN, graph, SMALL, seed=0)
    network.memory.requires_grad_(False)
    stream = network.stream(graph)
    stream.advance(64)
    assert not stream.inputs(np.array([0, 1]), np.array([80, 80])).requires_grad


def test_learned_frequencies_are_saved_and_are_those_that_answers_use(tmp_path):
    graph = random_graph(np.random.default_rng(3), nodes=30, events=400)
    networks = {}
    for learn in (True, False):
        folder = tmp_path / str(learn)
        network = new_network(TGN, graph, SMALL, seed=0)
        list(train(graph, network, TrainingSettings(epochs=1, learn_frequencies=learn), folder))
        networks[learn] = load_checkpoint(folder).network
        assert json.loads((folder / "model.json").read_text())["origin"]["settings"]["learn_frequencies"] is learn
    first = new_network(TGN, graph, SMALL, seed=0).encode.frequency
    assert torch.equal(networks[False].encode.frequency, first)
    assert not torch.equal(networks[True].encode.frequency, first)
    answering = load_model(tmp_path / "True", graph)
    np.testing.assert_array_equal(
        answering.weights["encode.frequency"], networks[True].encode.frequency.detach().numpy()
    )
    query = graph.query(300)
    exact = Replay(networks[True], graph).logits(query, [frozenset(), frozenset({290})])
    np.testing.assert_allclose(answering.logits(query, [frozenset(), frozenset({290})]), exact, atol=1e-4)
    with torch.no_grad():
        networks[True].encode.frequency.copy_(first)
    assert abs(Replay(networks[True], graph).logits(query, [frozenset()])[0] - exact[0]) > 1e-4
    assert Replay(networks[True], graph).identity != answering.identity


def test_a_model_without_memory_cannot_have_a_fixed_one(tmp_path):
    graph = random_graph(np.random.default_rng(0), nodes=30, events=400)
    with pytest.raises(CallError, match="TGAT has no memory"):
        train(
            graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=1, fixed_memory=True), tmp_path / "new"
        )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("architecture", [TGN, TGAT])
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(architecture, tmp_path):
    graph = random_graph(np.random.default_rng(1), nodes=30, events=400)

    def weights(seed, folder):
        network = new_network(architecture, graph, SMALL, seed)
        list(train(graph, network, TrainingSettings(epochs=2, seed=seed), folder))
        return torch.cat([weight.flatten() for weight in load_checkpoint(folder).network.state_dict().values()])

    first = weights(5, tmp_path / "first")
    torch.manual_seed(123)  # the user's generator must not matter
    assert torch.equal(first, weights(5, tmp_path / "again"))
    assert not torch.equal(first, weights(6, tmp_path / "other"))


def test_training_leaves_the_users_random_numbers_alone(tmp_path):
    graph = random_graph(np.random.default_rng(1), nodes=30, events=400)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    list(train(graph, new_network(TGN, graph, SMALL, 0), TrainingSettings(epochs=1), tmp_path))
    assert torch.equal(torch.rand(3), expected)


def test_an_interrupted_training_ends_like_one_that_was_not(tmp_path):
    graph = random_graph(np.random.default_rng(2), nodes=30, events=400)
    settings = TrainingSettings(epochs=4, patience=4)
    list(train(graph, new_network(TGN, graph, SMALL, 0), settings, tmp_path / "whole"))
    for progress in train(graph, new_network(TGN, graph, SMALL, 0), settings, tmp_path / "cut"):
        if progress.epoch == 3 and progress.batch == 5:
            break  # killed in the middle of an epoch
    assert (tmp_path / "cut" / "training.safetensors").exists()
    assert not (tmp_path / "cut" / "model.json").exists()
    epochs = {step.epoch for step in train(graph, new_network(TGN, graph, SMALL, 0), settings, tmp_path / "cut")}
    assert epochs == {3, 4}
    assert not (tmp_path / "cut" / "training.safetensors").exists()
    for name in ("model.json", "model.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_training_can_go_on_for_longer(tmp_path):
    graph = random_graph(np.random.default_rng(2), nodes=30, events=400)
    for progress in train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=2, patience=9), tmp_path):
        if progress.validation is not None and progress.epoch == 2:
            break  # before the model is written
    steps = train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=3, patience=8), tmp_path)
    assert {step.epoch for step in steps} == {3}


def test_an_interrupted_training_with_other_settings_is_refused(tmp_path):
    graph = random_graph(np.random.default_rng(2), nodes=30, events=400)
    for progress in train(graph, new_network(TGN, graph, SMALL, 0), TrainingSettings(epochs=3), tmp_path):
        if progress.validation is not None:
            break
    with pytest.raises(CallError, match=r"interrupted training in which seed was 0 \(now 9\)\. Choose"):
        list(train(graph, new_network(TGN, graph, SMALL, 0), TrainingSettings(epochs=3, seed=9), tmp_path))


def test_a_finished_model_is_not_overwritten(tmp_path):
    graph = random_graph(np.random.default_rng(2), nodes=30, events=400)
    list(train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=1), tmp_path))
    with pytest.raises(CallError, match="already holds a trained model"):
        list(train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=1), tmp_path))


def test_what_a_training_that_was_killed_at_its_end_left_is_cleared_up(tmp_path, monkeypatch):
    graph = random_graph(np.random.default_rng(2), nodes=30, events=400)
    with monkeypatch.context() as killed:
        killed.setattr(ResumeFile, "discard", lambda kept: None)
        list(train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=1), tmp_path))
    assert (tmp_path / "training.safetensors").exists()
    with pytest.raises(CallError, match="already holds a trained model"):
        train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=9, seed=3), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
    assert load_checkpoint(tmp_path).data == graph.identity


@pytest.mark.parametrize("theirs", ["of an explainer", "of others", "with another seed"])
def test_clearing_up_after_a_training_leaves_other_trainings_alone(tmp_path, theirs):
    graph = random_graph(np.random.default_rng(2), nodes=30, events=400)
    list(train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=1), tmp_path))
    if theirs == "of an explainer":
        next(train_explainer(SoftModel(load_model(tmp_path, graph)), ExplainerSettings(links=8, epochs=2), tmp_path))
    elif theirs == "of others":
        save_file({"weights": torch.zeros(3)}, tmp_path / "training.safetensors")
    else:
        for step in train(
            graph, new_network(TGAT, graph, SMALL, 5), TrainingSettings(epochs=1, seed=5), tmp_path / "other"
        ):
            if step.validation is not None:
                break
        (tmp_path / "other" / "training.safetensors").rename(tmp_path / "training.safetensors")
    content = (tmp_path / "training.safetensors").read_bytes()
    with pytest.raises(CallError, match="already holds a trained model"):
        train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=1), tmp_path)
    assert (tmp_path / "training.safetensors").read_bytes() == content


def test_model_json_tells_how_good_the_model_is(tmp_path):
    graph = random_graph(np.random.default_rng(3), nodes=60, events=400)
    list(train(graph, new_network(TGAT, graph, SMALL, 0), TrainingSettings(epochs=1), tmp_path))
    document = json.loads((tmp_path / "model.json").read_text())
    test = document["origin"]["test"]
    assert set(test) == {"average_precision", "auc", "inductive_average_precision", "inductive_auc"}
    assert 0 < test["average_precision"] < 1
    assert document["data"] == graph.identity
    assert document["sizes"]["batch"] == 16


def test_the_split_is_70_15_15_by_time_and_hides_nodes_from_training():
    graph = random_graph(np.random.default_rng(4), nodes=100, events=1000, ties=False)
    parts = split(graph, TrainingSettings())
    assert (parts.validation[0], parts.test[0]) == (700, 850)
    assert parts.test[-1] == 999
    touched = np.union1d(graph.src[parts.train], graph.dst[parts.train])
    assert not parts.unseen[touched].any()
    hidden = np.setdiff1d(np.union1d(graph.src[:700], graph.dst[:700]), touched)
    later = np.union1d(graph.src[700:], graph.dst[700:])
    assert 0 < len(hidden) <= 0.1 * len(later)
    assert np.isin(hidden, later).all()


def test_equal_times_are_not_torn_apart_by_the_split():
    graph = random_graph(np.random.default_rng(5), nodes=100, events=1000, ties=True)
    parts = split(graph, TrainingSettings())
    for earlier, later in ((parts.train, parts.validation), (parts.validation, parts.test)):
        assert graph.time[earlier[-1]] < graph.time[later[0]]


def test_too_few_events_to_split_are_refused():
    graph = TemporalGraph.from_arrays([0, 1], [1, 0], [1.0, 1.0])
    with pytest.raises(DataError, match="2 events cannot be split"):
        split(graph, TrainingSettings())


@pytest.mark.parametrize("architecture", [TGN, TGAT])
def test_a_trained_model_goes_by_the_planted_causes_of_campus(architecture):
    made = campus(students=100, seed=0)
    graph, parts = made.graph, split(made.graph, TrainingSettings())
    network = new_network(architecture, graph, Sizes(dimension=24, neighbours=8, batch=50), seed=0)
    untrained = measure(network, graph, parts.test, parts.unseen, seed=0)
    optimizer = new_optimizer(network, 2e-3)
    for epoch in range(6):
        list(run_epoch(network, optimizer, graph.select(parts.train), 0, epoch))
    trained = measure(network, graph, parts.test, parts.unseen, seed=0)
    assert trained.average_precision > 0.8 > untrained.average_precision + 0.1

    model = fast_model(network, graph)
    answers = [row for row in parts.test.tolist() if made.causes[row] and "student" in graph.name(graph.dst[row])]
    found = [effects(model, graph, graph.query(row)) for row in answers]
    predicted = [(row, effect) for row, effect in zip(answers, found, strict=True) if effect.logit > 0]
    strongest = [{int(effect.candidates[effect.without.argmin()])} == made.causes[row] for row, effect in predicted]
    assert len(predicted) > 0.8 * len(answers)
    assert np.mean(strongest) > 0.8  # 1 in 64 by chance
