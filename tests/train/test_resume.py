"""What is kept of an interrupted training."""

import json
import random

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from cody.errors import CallError, CodyError, ModelError
from cody.train.checkpoint import ResumeFile

CONFIGURATION = {"settings": {"epochs": 3, "seed": 0}}


def interrupted_training(folder, configuration=CONFIGURATION):
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    return ResumeFile(folder, module, torch.optim.Adam(module.parameters()), configuration)


@pytest.fixture
def kept(tmp_path):
    training = interrupted_training(tmp_path)
    training.module(torch.ones(3)).sum().backward()
    training.optimizer.step()
    training.save({"history": [1, 2]}, {"best": torch.arange(4.0)})
    return training


def test_flipped_bits_are_refused_or_harmless(kept, tmp_path):
    whole, rng, messages = kept.file.read_bytes(), random.Random(0), []
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        kept.file.write_bytes(damaged)
        again = interrupted_training(tmp_path)
        try:
            notes, others = again.resume()
        except CodyError as error:
            messages.append(str(error))
            continue
        assert notes["history"] == [1, 2]
        assert torch.equal(others["best"], torch.arange(4.0))
        assert torch.equal(again.module.weight, kept.module.weight)
        for one, other in zip(again.module.parameters(), kept.module.parameters(), strict=True):
            found, expected = again.optimizer.state[one], kept.optimizer.state[other]
            assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert all(message.isprintable() and "damaged" in message for message in messages)
    assert not any("interrupted training in which" in message for message in messages)  # this is not another one


def test_a_damaged_file_says_what_is_lost_without_it(kept, tmp_path):
    kept.file.write_bytes(kept.file.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"training\.safetensors is damaged.*without it, training starts from scratch"):
        interrupted_training(tmp_path).resume()


def rewrite(file, change, tensors=None):
    """The same file with other notes, and the tensors that it had if none are given."""
    with safe_open(file, framework="pt") as opened:
        notes = json.loads(opened.metadata()["notes"])
    save_file(tensors or load_file(file), file, metadata={"notes": change(notes)})


def without(*keys):
    return lambda notes: json.dumps({key: value for key, value in notes.items() if key not in keys})


@pytest.mark.parametrize(
    "change",
    [
        without("checksum"),
        without("tensors"),
        without("checksum", "tensors"),
        lambda notes: json.dumps(notes | {"history": [1]}),
        lambda notes: json.dumps(notes)[:-1],
        lambda notes: "[]",
    ],
)
def test_notes_that_are_not_as_they_were_written_are_refused(kept, tmp_path, change):
    rewrite(kept.file, change)
    with pytest.raises(CodyError, match=r"training\.safetensors .*damaged.*training starts from scratch"):
        interrupted_training(tmp_path).resume()


def test_a_tensor_under_another_name_is_refused(kept, tmp_path):
    tensors = load_file(kept.file)
    tensors["optimizer.weight.stex"] = tensors.pop("optimizer.weight.step")
    for change in (json.dumps, without("checksum", "tensors")):
        rewrite(kept.file, change, dict(tensors))
        with pytest.raises(ModelError, match="damaged"):
            interrupted_training(tmp_path).resume()


def test_settings_are_repeated_in_one_readable_line(kept, tmp_path):
    interrupted_training(tmp_path, {"settings": {"epochs": 3, "seed": "\u202e\n" + "9" * 5_000}}).save({})
    with pytest.raises(CallError, match=r"interrupted training in which seed was .*….* \(now 0\)\. Choose") as caught:
        interrupted_training(tmp_path).resume()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
