"""A model from its folder, whichever library it is from: our own networks, and those that were imported."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from cody._help import readable_help
from cody.graph import TemporalGraph
from cody.inference import Engine, check_belongs, fast_model, open_network
from cody.model import Model
from cody.models.folder import SavedModel, read_model

logger = logging.getLogger(__name__)


@readable_help
def load_model(
    name: str | Path, graph: TemporalGraph, *, engine: Engine = fast_model, other_data: bool = False
) -> Model:
    """The model in folder `name`, or the shipped one of that name, ready to be asked about `graph`.

    A model belongs to the events it was trained on. To ask it about others, for example about the same log some weeks
    later, say `other_data=True`.
    """
    started = time.monotonic()
    saved = read_model(name)
    check_belongs(saved, name, graph, other_data=other_data)
    model = OPENERS[saved.kind](saved, graph, engine)
    logger.info("model %s (%s) opened in %.1f s", name, saved.kind, time.monotonic() - started)
    return model


def _open_pyg(saved: SavedModel, graph: TemporalGraph, engine: Engine) -> Model:
    from cody.adapters.pyg_folder import open_pyg  # torch takes longer to import than our own models to answer

    return open_pyg(saved, graph, engine)


OPENERS: dict[str, Callable[[SavedModel, TemporalGraph, Engine], Model]] = {
    "tgn": open_network,
    "tgat": open_network,
    "pyg-tgn": _open_pyg,
}
