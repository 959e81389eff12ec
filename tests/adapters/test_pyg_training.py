"""Training a TGN of PyTorch Geometric: it learns, is repeatable, and its folder opens as one that was imported."""

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import cody
from cody.adapters.pyg_folder import train_pyg_tgn
from cody.graph import TemporalGraph
from cody.models.folder import read_model
from cody.train.training import TrainingSettings


@pytest.mark.parametrize("features", [0, 2])
def test_it_learns_and_the_same_seed_gives_the_same_weights(features, tmp_path):
    rng = np.random.default_rng(0)
    src = rng.integers(0, 5, 600)  # each source has its own destination
    values = rng.normal(size=(600, features)).astype(np.float32) if features else None
    graph = TemporalGraph.from_arrays(src, src + 5, np.arange(600.0) * 60 + 1e9, features=values)
    for name, epochs in (("one", 6), ("other", 6), ("none", 0)):
        train_pyg_tgn(graph, TrainingSettings(epochs=epochs, learning_rate=1e-2), tmp_path / name)
    one, other, none = (read_model(tmp_path / name) for name in ("one", "other", "none"))
    assert all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
    assert one.origin["test"]["average_precision"] > none.origin["test"]["average_precision"] + 0.1
    model = cody.load_model(tmp_path / "one", graph)
    query = graph.query(599)
    rival = query._replace(dst=(query.dst - 4) % 5 + 5)
    happened, did_not = (float(model.logits(link, [frozenset()])[0]) for link in (query, rival))
    assert happened > did_not
