"""Models for logs with known causes: one that decides by the mechanism, and trained ones, which need not.

Each can be opened on a log that was changed, with random weights, or trained once more with another seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cody.data.mechanisms import PlantedCauses
from cody.engine.saved import load_model
from cody.errors import CallError, did_you_mean
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.models.folder import SavedModel, read_model, write_model
from cody.models.heuristics import reference_models
from cody.models.oracles import ORACLES, randomised
from cody.utils.extras import missing

EPOCHS, LEARNING_RATE = 30, 1e-3  # of the trained models: the logs are small
ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class RuleOfLog:
    """A model that decides by a rule."""

    name: str  # in records
    make: Callable[[TemporalGraph], Model]

    def on(self, graph: TemporalGraph) -> Model:
        """The model on a log of the same nodes."""
        return self.make(graph)

    def randomised(self, graph: TemporalGraph) -> Model:
        """The same with random weights."""
        return randomised(graph)

    def retrained(self, graph: TemporalGraph) -> Model | None:
        """The same trained with another seed; None if it is not trained."""
        return None


@dataclass(frozen=True, slots=True)
class TrainedOnLog:
    """A network that was trained on a log; its folders are made when they are first needed, and then kept."""

    name: str
    graph: TemporalGraph
    folder: Path

    def on(self, graph: TemporalGraph) -> Model:
        return load_model(self._trained(0), graph, allow_data_mismatch=True)

    def randomised(self, graph: TemporalGraph) -> Model:
        target = self.folder / f"{self.name}-random"
        if not (target / "model.json").exists():
            write_model(target, shuffled(self._trained(0)))
        return load_model(target, graph, allow_data_mismatch=True)

    def retrained(self, graph: TemporalGraph) -> Model | None:
        return load_model(self._trained(1), graph, allow_data_mismatch=True)

    def _trained(self, seed: int) -> Path:
        target = self.folder / f"{self.name}-{seed}"
        if not (target / "model.json").exists():
            TRAINERS[self.name].train(self.name, self.graph, seed, target)
        return target


BenchmarkModel = RuleOfLog | TrainedOnLog


def _train_own(name: str, graph: TemporalGraph, seed: int, folder: Path) -> None:
    from cody.models.sizes import PRESETS
    from cody.train.architectures import ARCHITECTURES
    from cody.train.training import TrainingSettings, new_network, train

    network = new_network(ARCHITECTURES[name], graph, PRESETS["compact"], seed)
    settings = TrainingSettings(epochs=EPOCHS, learning_rate=LEARNING_RATE, seed=seed)
    for _ in train(graph, network, settings, folder):
        pass


def _train_sequences(name: str, graph: TemporalGraph, seed: int, folder: Path) -> None:
    from cody.train.sequences import new_sequence_network
    from cody.train.training import TrainingSettings, train

    settings = TrainingSettings(epochs=EPOCHS, learning_rate=LEARNING_RATE, seed=seed)
    for _ in train(graph, new_sequence_network(name, graph, seed), settings, folder):
        pass


def _train_pyg(name: str, graph: TemporalGraph, seed: int, folder: Path) -> None:
    from cody.adapters.pyg_folder import train_pyg_tgn
    from cody.train.training import TrainingSettings

    train_pyg_tgn(graph, TrainingSettings(epochs=EPOCHS, learning_rate=LEARNING_RATE, seed=seed), folder)


class Trainer(NamedTuple):
    """How a network is trained on a log, and what must be installed for it."""

    train: Callable[[str, TemporalGraph, int, Path], None]  # name, log, seed, folder in which it is saved
    module: str = "torch"


TRAINERS = {
    "tgn": Trainer(_train_own),
    "tgat": Trainer(_train_own),
    "graphmixer": Trainer(_train_sequences),
    "dygformer": Trainer(_train_sequences),
    "pyg-tgn": Trainer(_train_pyg, "torch_geometric"),
}


def shuffled(folder: Path) -> SavedModel:
    """A saved model with the numbers of each array of weights in random order.

    Args:
        folder: Of the model.
    """
    saved, rng = read_model(folder), np.random.default_rng(0)
    arrays = {name: rng.permutation(array.ravel()).reshape(array.shape) for name, array in saved.arrays.items()}
    return replace(saved, arrays=arrays)


RULES = {  # names in the benchmark → those in `reference_models`
    "edgebank": "EdgeBank",
    "edgebank-recent": "EdgeBank, recent",
    "replies": "replies",
    "popularity": "popularity",
    "recency": "recency",
    "common-partners": "common partners",
}
BENCHMARK_MODELS = (ORACLE, *TRAINERS, *RULES)


def check_available(name: str) -> None:
    """Reject a model that does not exist, or that cannot be trained here for want of a package."""
    if name not in BENCHMARK_MODELS:
        raise CallError(f"there is no model {name!r} for generated logs{did_you_mean(name, BENCHMARK_MODELS)}")
    if name in TRAINERS and find_spec(TRAINERS[name].module) is None:
        raise missing(f"the model {name!r}", TRAINERS[name].module)


def benchmark_model(name: str, made: PlantedCauses, folder: Path) -> BenchmarkModel:
    """The model of that name for a log.

    Args:
        name: One of `BENCHMARK_MODELS`.
        made: The log.
        folder: Where trained models are kept.
    """
    check_available(name)
    if name == ORACLE:
        mechanism = made.name.split()[0]
        return RuleOfLog(f"{ORACLE} {mechanism}", ORACLES[mechanism])
    if name in RULES:
        rule = reference_models(made.graph, [made.graph.query(row) for row in made.ways])[RULES[name]]
        return RuleOfLog(name, rule.on)
    return TrainedOnLog(name, made.graph, folder / made.name.replace(" ", "-"))
