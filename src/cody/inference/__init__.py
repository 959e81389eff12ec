"""Networks as models: what `logits(query, changes)` answers, plainly (`Replay`, the definition) or fast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cody._help import readable_help
from cody.errors import ModelError
from cody.files import cache_directory
from cody.graph import TemporalGraph
from cody.inference.replay import Replay
from cody.inference.tgat import FastTGAT
from cody.inference.tgn import FastTGN
from cody.inference.versions import Watch
from cody.inference.weights import Weights
from cody.model import Model
from cody.models.folder import SavedModel, own_sizes, read_model

Engine = Callable[[Any, TemporalGraph, Path | None], Model]  # what makes a model of a network

__all__ = ["FastTGAT", "FastTGN", "Replay", "fast_model", "load_model", "plain_model"]


def fast_model(
    network: Any, graph: TemporalGraph, folder: Path | None = None, *, watch: Watch | None = None
) -> FastTGN | FastTGAT:
    """The network in its fast form. A TGN's table of memory versions is kept in `folder`, if there is one.

    `watch` is called while a table is built, with the number of events it has.
    """
    weights = Weights.of(network)
    return FastTGN(weights, graph, folder=folder, watch=watch) if weights.has_memory else FastTGAT(weights, graph)


def plain_model(network: Any, graph: TemporalGraph, folder: Path | None = None) -> Replay:
    """The network in its plain form, which keeps nothing."""
    return Replay(network, graph)


@readable_help
def load_model(
    name: str | Path, graph: TemporalGraph, *, engine: Engine = fast_model, other_data: bool = False
) -> Model:
    """What `cody.load_model` does, for our own networks alone."""
    saved = read_model(name)
    check_belongs(saved, name, graph, other_data=other_data)
    return open_network(saved, graph, engine)


def check_belongs(saved: SavedModel, name: str | Path, graph: TemporalGraph, *, other_data: bool) -> None:
    """Reject a model that was made for other events, unless they are asked for."""
    if saved.data != graph.identity and not other_data:
        raise ModelError(
            f"model {str(name)!r} belongs to other data: it was made for {saved.data}, "
            f"the graph is {graph.identity} "
            "(other_data=True, or --other-data on the command line, asks it all the same)"
        )


@readable_help
def open_network(saved: SavedModel, graph: TemporalGraph, engine: Engine = fast_model) -> Model:
    """A saved network of our own, ready to be asked about `graph`."""
    # In the user's own cache: a model folder that is passed on must not carry a table that changes answers.
    weights = Weights(saved.kind, own_sizes(saved), saved.arrays, np.dtype(np.float32))
    return engine(weights, graph, cache_directory() / "versions")
