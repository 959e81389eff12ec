"""Trained scorers on disk: a folder with `explainer.safetensors` and `explainer.json`, which names their model."""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cody._version import __version__
from cody.baselines.differentiable import SoftModel
from cody.baselines.pgexplainer import Scorer, learned_order, scorer_shapes
from cody.errors import ModelError, did_you_mean
from cody.graph import IntArray, Query, TemporalGraph
from cody.model import Model
from cody.models.checkpoint import write_tensors
from cody.models.folder import check_replaceable, read_description, read_weights, write_json
from cody.oracle import Oracle
from cody.policies import Policy
from cody.words import plain

SCHEMA = "cody/explainer/1"
NOTES, WEIGHTS = "explainer.json", "explainer.safetensors"


def save_scorer(folder: Path, scorer: Scorer, model: SoftModel, origin: dict[str, Any]) -> None:
    """Write the two files; `explainer.json` comes last: a folder without it is not an explainer."""
    check_replaceable(folder, "explainer")
    document = {
        "schema": SCHEMA,
        "model": model.fast.identity,
        "data": model.graph.identity,
        "hidden": scorer.hidden.out_features,
        "origin": origin,
        "cody": __version__,
        "weights": write_tensors(folder / WEIGHTS, dict(scorer.state_dict())),
    }
    write_json(folder / NOTES, document)


def load_scorer(name: str | Path, model: SoftModel, *, other_data: bool = False) -> Scorer:
    """The scorer in folder `name`, or the shipped one of that name. It must have been trained for this very model.

    To rank events of other data than it was trained on, pass `other_data=True`.
    """
    folder = find_explainer(name)
    document = read_description(folder / NOTES, SCHEMA)
    identity = model.fast.identity
    if document.get("model") != identity:
        raise ModelError(
            f"explainer {str(name)!r} belongs to another model: it was trained for {plain(document.get('model'))}, "
            f"the model is {identity}"
        )
    if document.get("data") != model.graph.identity and not other_data:
        raise ModelError(
            f"explainer {str(name)!r} belongs to other data: it was trained on {plain(document.get('data'))}, "
            f"the graph is {model.graph.identity} (other_data=True ranks its events anyway)"
        )
    hidden = document.get("hidden")
    if type(hidden) is not int or not 1 <= hidden <= 1_000_000:
        found = plain(repr(hidden))
        raise ModelError(f"{folder / NOTES} is damaged: hidden must be a number from 1 to 1,000,000, not {found}")
    arrays = read_weights(folder / WEIGHTS, scorer_shapes(model.network.sizes, hidden), document)
    scorer = Scorer(model.network.sizes, hidden)
    scorer.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return scorer.requires_grad_(False)


def load_pgexplainer(name: str | Path, model: Model, *, other_data: bool = False) -> Policy:
    """The policy of a trained scorer, for the model it was trained for."""
    soft = SoftModel(model)
    return learned_order(soft, load_scorer(name, soft, other_data=other_data))


def trained_policy(name: str | Path, *, other_data: bool = False) -> Policy:
    """The policy of the scorer of that name, with the identity of its weights, for evaluations."""
    return partial(pgexplainer, scorer=str(name), identity=scorer_identity(name), other_data=other_data)


def pgexplainer(
    graph: TemporalGraph,
    query: Query,
    events: IntArray,
    oracle: Oracle,
    rng: np.random.Generator,
    *,
    scorer: str,
    identity: str | None = None,
    other_data: bool = False,
) -> IntArray:
    """The policy of the scorer of that name. It is loaded when it is first needed, for the oracle's model.

    `partial(pgexplainer, scorer="folder")` can be sent to other processes. With `identity`, other weights are rejected.
    """
    policy = _policy(scorer, identity, other_data, oracle.model)  # type: ignore[arg-type]  # it is hashable
    return policy(graph, query, events, oracle, rng)


@lru_cache(maxsize=2)
def _policy(scorer: str, identity: str | None, other_data: bool, model: Model) -> Policy:
    if identity not in (None, scorer_identity(scorer)):
        raise ModelError(
            f"explainer {scorer!r} has other weights than at the start of this run: it was trained again meanwhile"
        )
    return load_pgexplainer(scorer, model, other_data=other_data)


def scorer_identity(name: str | Path) -> str:
    """A hash of a trained scorer's weights."""
    weights = find_explainer(name) / WEIGHTS
    try:
        return hashlib.blake2b(weights.read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise ModelError(f"{weights} cannot be read: {error.strerror}") from None


def shipped_explainers() -> dict[str, Path]:
    """The trained scorers inside the package, by the name of their model."""
    root = Path(str(resources.files("cody.baselines"))) / "shipped"
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{NOTES}"))}


def find_explainer(name: str | Path) -> Path:
    """The folder of an explainer given by path, or by the name of the shipped model it belongs to."""
    path, shipped = Path(name), shipped_explainers()
    if (path / NOTES).is_file():
        return path
    if str(name) in shipped:
        return shipped[str(name)]
    raise ModelError(
        f"there is no trained explainer {str(name)!r}: neither a folder with {NOTES} nor a shipped one"
        f"{did_you_mean(str(name), shipped)}; cody train-explainer --data D --model M --out FOLDER trains one, "
        "and --scorer FOLDER uses it"
    )
