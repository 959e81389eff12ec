"""Networks as models: what `logits(query, changes)` answers, plainly (`Replay`, the definition) or fast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cody.errors import ModelError
from cody.files import cache_directory
from cody.graph import TemporalGraph
from cody.inference.replay import Replay
from cody.inference.tgat import FastTGAT
from cody.inference.tgn import FastTGN
from cody.inference.versions import Watch
from cody.inference.weights import Weights
from cody.model import Model
from cody.models.folder import read_model

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


def load_model(
    name: str | Path,
    graph: TemporalGraph,
    *,
    engine: Callable[[Any, TemporalGraph, Path | None], Model] = fast_model,
    other_data: bool = False,
) -> Model:
    """The model in folder `name`, or the shipped one of that name, ready to be asked about `graph`.

    A model belongs to the events it was trained on. To ask it about others, for example about the same log some weeks
    later, say `other_data=True`.
    """
    saved = read_model(name)
    if saved.data != graph.identity and not other_data:
        raise ModelError(
            f"model {str(name)!r} belongs to other data: it was made for {saved.data}, "
            f"the graph is {graph.identity} "
            "(other_data=True, or --other-data on the command line, asks it all the same)"
        )
    # In the user's own cache: a model folder that is passed on must not carry a table that changes answers.
    weights = Weights(saved.kind, saved.sizes, saved.arrays, np.dtype(np.float32))
    return engine(weights, graph, cache_directory() / "versions")
