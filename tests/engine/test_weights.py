"""Inference in numpy computes what the networks of torch define, to the last digits."""

import copy

import numpy as np
import pytest
import torch

from cody.engine.weights import HopInputs, Weights
from cody.train import layers
from random_events import random_graph, random_network

TOLERANCE = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(params=["tgn", "tgat"])
def networks(request):
    """A network of torch and its weights, both in double precision; times are encoded in single, as trained."""
    graph = random_graph(np.random.default_rng(0), edge_features=3)
    network = random_network(graph, request.param, layers=2, heads=2)
    double = copy.deepcopy(network).double().eval()
    double.encode.float()
    return double, Weights.of(network).astype(np.float64)


def test_attention_is_that_of_torch(networks):
    network, weights = networks
    rng = np.random.default_rng(1)
    n, places, below = 40, 6, 25
    hop = HopInputs(
        own=rng.integers(0, below, n),
        neighbour=rng.integers(0, below, (n, places)),
        edge=rng.normal(size=(n, places, 3)),
        elapsed=10.0 ** rng.uniform(-1, 7, (n, places)),
        exists=np.arange(places) < rng.integers(0, places + 1, n)[:, None],
    )
    embeddings = rng.normal(size=(below, weights.sizes.dimension))
    for layer in range(2):
        expected = network.attention[layer].reference(
            torch.from_numpy(embeddings), layers.Hop(*map(torch.from_numpy, hop)), network.encode
        )
        np.testing.assert_allclose(weights.attend(layer, embeddings, hop), expected.detach().numpy(), **TOLERANCE)


def test_memory_and_score_are_those_of_torch(networks):
    network, weights = networks
    rng = np.random.default_rng(2)
    own, other = rng.normal(size=(2, 30, weights.sizes.dimension))
    edge, elapsed = rng.normal(size=(30, 3)), 10.0 ** rng.uniform(-1, 7, 30)
    tensors = [torch.from_numpy(values) for values in (own, other, edge, elapsed)]
    expected = network.score(tensors[0], tensors[1])[:, 0].detach().numpy()
    np.testing.assert_allclose(weights.score(own, other), expected, **TOLERANCE)
    if weights.has_memory:
        expected = network.remember(*tensors).detach().numpy()
        np.testing.assert_allclose(weights.remember(own, other, edge, elapsed), expected, **TOLERANCE)


def test_the_encoding_of_times_is_that_of_the_training(networks):
    network, weights = networks
    elapsed = np.array([0.0, 1.0, 1e3, 1e7 + 1 / 3])
    expected = network.encode(torch.from_numpy(elapsed)).numpy(force=True)
    np.testing.assert_allclose(weights.encode(elapsed), expected, **TOLERANCE)
    phases = elapsed.astype(np.float32)[:, None] * weights["encode.frequency"] + weights["encode.phase"]
    np.testing.assert_allclose(weights.encode(elapsed), np.cos(phases.astype(np.float64)), **TOLERANCE)
