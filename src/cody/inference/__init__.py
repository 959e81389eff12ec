"""Networks as models: what `logits(query, removals)` answers. `replay` is the definition."""

from __future__ import annotations

from pathlib import Path

from cody.errors import ModelError
from cody.graph import TemporalGraph
from cody.inference.replay import Replay
from cody.models.checkpoint import load_checkpoint

__all__ = ["Replay", "load_model"]


def load_model(name: str | Path, graph: TemporalGraph, *, other_data: bool = False) -> Replay:
    """The model in folder `name`, or the shipped one of that name, ready to be asked about `graph`.

    A model belongs to the events it was trained on. To ask it about others, for example about the same log some weeks
    later, say `other_data=True`.
    """
    checkpoint = load_checkpoint(name)
    if checkpoint.data != graph.identity and not other_data:
        raise ModelError(
            f"model {str(name)!r} belongs to other data: it was made for {checkpoint.data}, "
            f"the graph is {graph.identity} "
            "(other_data=True, or --other-data on the command line, asks it all the same)"
        )
    return Replay(checkpoint.network, graph)
