"""What is kept of an interrupted training."""

import random
from contextlib import suppress

import pytest
import torch
from torch import nn

from cody.errors import CallError, ModelError
from cody.models.interrupted import Interrupted

TOLD = {"settings": {"epochs": 3, "seed": 0}}


def begun(folder):
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    return Interrupted(folder, module, torch.optim.Adam(module.parameters()), TOLD)


@pytest.fixture
def kept(tmp_path):
    training = begun(tmp_path)
    training.module(torch.ones(3)).sum().backward()
    training.optimizer.step()
    training.save({"history": [1, 2]}, {"best": torch.arange(4.0)})
    return training


def test_flipped_bits_are_refused_or_harmless(kept, tmp_path):
    whole, rng = kept.file.read_bytes(), random.Random(0)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        kept.file.write_bytes(damaged)
        again = begun(tmp_path)
        with suppress(ModelError, CallError):
            notes, others = again.resume()
            assert notes["history"] == [1, 2]
            assert torch.equal(others["best"], torch.arange(4.0))
            assert torch.equal(again.module.weight, kept.module.weight)
            for one, other in zip(again.module.parameters(), kept.module.parameters(), strict=True):
                found, expected = again.optimizer.state[one], kept.optimizer.state[other]
                assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_a_damaged_file_says_what_is_lost_without_it(kept, tmp_path):
    kept.file.write_bytes(kept.file.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"training\.safetensors is damaged.*without it, training begins anew"):
        begun(tmp_path).resume()
