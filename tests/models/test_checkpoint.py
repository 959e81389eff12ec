import json

import numpy as np
import pytest
import torch

from cody.errors import ModelError
from cody.inference import load_model
from cody.models.checkpoint import Checkpoint, load_checkpoint, network_identity, save_model, shipped_models
from random_events import random_graph, random_network


@pytest.fixture
def saved(tmp_path):
    graph = random_graph(np.random.default_rng(0))
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity, {"note": "a test"}))
    return graph, tmp_path / "model"


def test_a_saved_model_comes_back_as_it_was(saved):
    graph, folder = saved
    checkpoint = load_checkpoint(folder)
    original = random_network(graph, "tgn")
    assert checkpoint.network.sizes == original.sizes
    assert checkpoint.origin == {"note": "a test"}
    for name, weight in original.state_dict().items():
        assert torch.equal(checkpoint.network.state_dict()[name], weight)
    assert not checkpoint.network.training
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors"]


def test_the_identity_of_a_network_is_that_of_its_architecture_sizes_and_weights(saved):
    graph, folder = saved
    network = random_network(graph, "tgn")
    identity = network_identity(network)
    assert identity == network_identity(load_checkpoint(folder).network) == network_identity(network.double())
    others = [random_network(graph, "tgat"), random_network(graph, "tgn", batch=9), random_network(graph, "tgn", 1)]
    assert len({identity, *map(network_identity, others)}) == 4


def test_a_model_made_for_other_data_is_refused_unless_asked_for(saved):
    graph, folder = saved
    other = random_graph(np.random.default_rng(1))
    with pytest.raises(ModelError, match=f"{graph.identity}.*{other.identity}"):
        load_model(folder, other)
    load_model(folder, other, other_data=True)


def change(file, **entries):
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | entries))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.json").unlink(), "holds no finished model"),
        (lambda folder: (folder / "model.json").write_text("{"), "model.json is damaged"),
        (lambda folder: (folder / "model.json").write_text("[]"), "model.json is damaged"),
        (lambda folder: (folder / "model.json").write_text('{"schema": "cody/model/1"}'), "model.json is damaged"),
        (lambda folder: change(folder / "model.json", schema="cody/model/9"), "cody/model/9.*this version reads"),
        (lambda folder: change(folder / "model.json", architecture="lstm"), "model.json is damaged: .*lstm"),
        (lambda folder: change(folder / "model.json", sizes={"dimension": 4}), "has shape"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"123"), "model.safetensors is damaged"),
    ],
)
def test_a_damaged_model_is_named(saved, damage, message):
    _, folder = saved
    damage(folder)
    with pytest.raises(ModelError, match=message):
        load_checkpoint(folder)


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    graph = random_graph(np.random.default_rng(0))
    network = random_network(graph, "tgn")
    with torch.no_grad():
        network.score.out.bias[0] = float("nan")
    save_model(tmp_path, Checkpoint(network, graph.identity))
    with pytest.raises(ModelError, match=r"'score\.out\.bias' holds a NaN"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "sizes",
    [{"dimension": 2.5}, {"dimension": 10**9}, {"batch": True}, {"heads": 3}, {"layers": "2"}, {"dropout": None}],
)
def test_impossible_sizes_are_refused(saved, sizes):
    _, folder = saved
    document = json.loads((folder / "model.json").read_text())
    change(folder / "model.json", sizes=document["sizes"] | sizes)
    with pytest.raises(ModelError, match=next(iter(sizes))):
        load_checkpoint(folder)


def test_an_unknown_model_gets_a_suggestion():
    with pytest.raises(ModelError, match="did you mean 'tgn-collegemsg'"):
        load_checkpoint("tgn-colegemsg")


def test_the_shipped_models_load_and_are_small():
    assert set(shipped_models()) == {"tgn-collegemsg", "tgat-collegemsg"}
    for folder in shipped_models().values():
        assert load_checkpoint(folder).origin["test"]["average_precision"] > 0.8
        assert sum(file.stat().st_size for file in folder.iterdir()) < 1_500_000
