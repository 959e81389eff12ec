"""A model from its folder: our own networks, and those that an adapter saved."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cody.engine.fast import FastTGAT
from cody.engine.replay import Replay
from cody.engine.tgn import FastTGN
from cody.engine.versions import Watch
from cody.engine.weights import Weights
from cody.errors import ModelError
from cody.graph import TemporalGraph
from cody.models.contract import Model, add_labels
from cody.models.folder import SavedModel, own_sizes, read_model
from cody.utils.files import cache_directory
from cody.utils.signatures import readable_help

logger = logging.getLogger(__name__)

Engine = Callable[[Any, TemporalGraph, Path | None], Model]  # what makes a model of a network
Opener = Callable[[SavedModel, TemporalGraph, Engine], Model]

ADAPTERS = {  # kind of a folder → the module whose `open_saved` reads it
    "pyg-tgn": "cody.adapters.pyg_folder",
    "graphmixer": "cody.adapters.sequences",
    "dygformer": "cody.adapters.sequences",
}


def fast_model(
    network: Any, graph: TemporalGraph, folder: Path | None = None, *, watch: Watch | None = None
) -> FastTGN | FastTGAT:
    """The network in its fast form.

    Args:
        network: A trained TGN or TGAT.
        graph: The log of events.
        folder: Where the table of memory versions is stored, if anywhere.
        watch: Called while a table is built, with the number of events it has.
    """
    weights = Weights.of(network)
    model = FastTGN(weights, graph, folder=folder, watch=watch) if weights.has_memory else FastTGAT(weights, graph)
    add_labels(model, weights.task)
    return model


def reference_model(network: Any, graph: TemporalGraph, folder: Path | None = None) -> Replay:
    """The network in its reference form, which caches nothing.

    Args:
        network: A trained TGN or TGAT.
        graph: The log of events.
        folder: Unused; the same signature as `fast_model`.
    """
    model = Replay(network, graph)
    add_labels(model, model.weights.task)
    return model


@readable_help
def load_model(
    name: str | Path, graph: TemporalGraph, *, engine: Engine = fast_model, allow_data_mismatch: bool = False
) -> Model:
    """A trained model, ready to score links of `graph`.

    Args:
        name: a folder, the name of a shipped model, or hf://owner/name on a Hugging Face hub (extra `hub`).
        graph: the log that the model was trained on.
        engine: how a network is computed: fast, or by the reference implementation.
        allow_data_mismatch: accept another log than it was trained on, for example the same one some weeks later.
    """
    started = time.monotonic()
    saved = read_model(name)
    if saved.data != graph.identity and not allow_data_mismatch:
        raise ModelError(
            f"model {str(name)!r} belongs to other data: it was made for {saved.data}, "
            f"the graph is {graph.identity} "
            "(allow_data_mismatch=True, or --allow-data-mismatch on the command line, overrides this check)"
        )
    model = opener(saved.kind)(saved, graph, engine)
    logger.info("model %s (%s) opened in %.1f s", name, saved.kind, time.monotonic() - started)
    return model


def opener(kind: str) -> Opener:
    """The function that opens folders of a kind. An adapter is imported when its first folder is opened."""
    if kind not in ADAPTERS:
        return open_network
    return importlib.import_module(ADAPTERS[kind]).open_saved


@readable_help
def open_network(saved: SavedModel, graph: TemporalGraph, engine: Engine = fast_model) -> Model:
    """A saved network of our own, ready to score links of a graph.

    Args:
        saved: The content of a model folder.
        graph: The log of events.
        engine: `fast_model` or `reference_model`.
    """
    # In the user's own cache: a model folder that is passed on must not carry a table that changes answers.
    weights = Weights(saved.kind, own_sizes(saved), saved.arrays, np.dtype(np.float32), saved.task)
    return engine(weights, graph, cache_directory() / "versions")
