import json
import os
import random
import resource
import shutil
import stat
from contextlib import suppress

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cody.engine import load_model
from cody.engine.weights import Weights
from cody.errors import CallError, ModelError
from cody.models.folder import shipped_models
from cody.train.checkpoint import Checkpoint, load_checkpoint, save_model, write_tensors
from cody.train.training import TrainingSettings, train
from cody.utils.files import with_checksum
from random_events import random_graph, random_network


@pytest.fixture
def saved(tmp_path):
    graph = random_graph(np.random.default_rng(0))
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity, {"note": "a test"}))
    return graph, tmp_path / "model"


def identity_of(network):
    return Weights.of(network).identity


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
    identity = identity_of(network)
    assert identity == identity_of(load_checkpoint(folder).network) == identity_of(network.double())
    others = [random_network(graph, "tgat"), random_network(graph, "tgn", batch=9), random_network(graph, "tgn", 1)]
    assert len({identity, *map(identity_of, others)}) == 4


def test_a_model_made_for_other_data_is_refused_unless_asked_for(saved):
    graph, folder = saved
    other = random_graph(np.random.default_rng(1))
    with pytest.raises(ModelError, match=f"{graph.identity}.*{other.identity}"):
        load_model(folder, other)
    load_model(folder, other, allow_data_mismatch=True)


def change(file, **entries):
    """Say something else, with the right checksum."""
    document = json.loads(file.read_text())
    file.write_text(json.dumps(with_checksum(document | entries)))


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
        (
            lambda folder: change(folder / "model.json", schema="é\u202e\n" + "1" * 400),
            "has schema 'é.*….*this version",
        ),
        (lambda folder: change(folder / "model.json", architecture="\u202e\n" + "1" * 400), "json is damaged: .*111…"),
        (lambda folder: change(folder / "model.json", sizes={"batch": 10**400}), "batch must be .*, not 1000.*…"),
        (lambda folder: change(folder / "model.json", sizes={"dropout": "\n" + "1" * 400}), "dropout must be .*…"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"123"), "model.safetensors is damaged"),
    ],
)
def test_a_damaged_model_is_named(saved, damage, message):
    _, folder = saved
    damage(folder)
    with pytest.raises(ModelError, match=message) as caught:
        load_checkpoint(folder)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("file", ["model.json", "model.safetensors"])
def test_flipped_bits_are_refused_or_harmless(saved, file):
    graph, folder = saved
    whole, rng = (folder / file).read_bytes(), random.Random(0)
    identity = identity_of(random_network(graph, "tgn"))
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.randrange(min(len(whole), 3_000))] ^= 1 << rng.randrange(8)
        (folder / file).write_bytes(damaged)
        with suppress(ModelError):
            checkpoint = load_checkpoint(folder)
            assert identity_of(checkpoint.network) == identity
            assert (checkpoint.data, checkpoint.origin) == (graph.identity, {"note": "a test"})


def test_a_description_that_was_edited_is_refused_and_says_how_to_insist(saved):
    _, folder = saved
    document = json.loads((folder / "model.json").read_text())
    document["sizes"]["batch"] = 9
    (folder / "model.json").write_text(json.dumps(document))
    with pytest.raises(ModelError, match=r"checksum.*if you changed it yourself, remove its entry 'checksum'"):
        load_checkpoint(folder)
    del document["checksum"]
    (folder / "model.json").write_text(json.dumps(document))
    assert load_checkpoint(folder).network.sizes.batch == 9


def test_weights_of_another_model_are_refused(saved):
    graph, folder = saved
    write_tensors(folder / "model.safetensors", dict(random_network(graph, "tgn", 1).state_dict()))
    with pytest.raises(ModelError, match=r"model\.safetensors is not the file that model\.json was written for"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "sizes",
    [
        {"dimension": 10_000, "layers": 10},
        {"dimension": 10_000, "edge_features": 1_000_000},
        {"layers": 10},
        {"edge_features": 1_000_000},
    ],
)
def test_no_memory_is_taken_for_sizes_that_the_weights_do_not_have(saved, sizes):
    _, folder = saved
    document = json.loads((folder / "model.json").read_text())
    change(folder / "model.json", sizes=document["sizes"] | sizes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match=r"has shape|is missing"):
        load_checkpoint(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000  # kB


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_foreign_files_are_not_replaced_by_a_model(saved, name, tmp_path):
    graph, _ = saved
    (tmp_path / "theirs").mkdir()
    if name == "model.json":
        (tmp_path / "theirs" / name).write_text('{"weights": "theirs"}')
    else:
        save_file({"weights": torch.zeros(3)}, tmp_path / "theirs" / name, metadata={"format": "pt"})
    content = (tmp_path / "theirs" / name).read_bytes()
    network = random_network(graph, "tgn")
    with pytest.raises(CallError, match=f"{name} was not written by cody and would be overwritten"):
        save_model(tmp_path / "theirs", Checkpoint(network, graph.identity))
    with pytest.raises(CallError, match="choose another folder"):
        train(graph, network, TrainingSettings(epochs=1), tmp_path / "theirs")
    assert [(file.name, file.read_bytes()) for file in (tmp_path / "theirs").iterdir()] == [(name, content)]


def test_weights_with_notes_of_others_are_not_replaced_by_a_model(saved, tmp_path):
    graph, _ = saved
    (tmp_path / "theirs").mkdir()
    for notes in ("trained by Ann", '"two"', "[]"):
        save_file({"weights": torch.zeros(3)}, tmp_path / "theirs" / "model.safetensors", metadata={"notes": notes})
        with pytest.raises(CallError, match=r"model\.safetensors was not written by cody and would be overwritten"):
            save_model(tmp_path / "theirs", Checkpoint(random_network(graph, "tgn"), graph.identity))


def test_files_have_the_usual_mode(saved):
    _, folder = saved
    mask = os.umask(0)
    os.umask(mask)
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o666 & ~mask}


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


@pytest.mark.parametrize("name", ["tgn-collegemsg", "tgat-collegemsg"])
@pytest.mark.parametrize("file", ["model.json", "model.safetensors"])
def test_damage_to_a_shipped_model_is_noticed(tmp_path, name, file):
    folder = shutil.copytree(shipped_models()[name], tmp_path / name)
    whole = (folder / file).read_bytes()
    numbers = [position for position, byte in enumerate(whole[:1_000]) if byte in b"0123456789"]
    for position in random.Random(0).sample(numbers if file == "model.json" else range(len(whole)), 20):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        (folder / file).write_bytes(damaged)
        with pytest.raises(ModelError, match=r"damaged|is not the file that"):
            load_checkpoint(folder)


def test_the_shipped_models_load_and_are_small():
    least = {"tgn-collegemsg": 0.8, "tgat-collegemsg": 0.8, "tgn-bitcoin-otc": 0.6}  # distrust has a rate of 0.14
    assert set(shipped_models()) == set(least)
    for name, folder in shipped_models().items():
        assert load_checkpoint(folder).origin["test"]["average_precision"] > least[name]
        assert sum(file.stat().st_size for file in folder.iterdir()) < 1_500_000
