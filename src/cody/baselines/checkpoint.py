"""Trained scorers on disk: a folder with two files for each explainer, weights and a description that names the model.

PGExplainer's are `explainer.safetensors` and `explainer.json`, TempME's are `motifs.safetensors` and `motifs.json`. A
folder can hold both. A description is written last: without it there is no explainer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from cody._version import __version__
from cody.baselines.differentiable import SoftModel
from cody.baselines.pgexplainer import Scorer, learned_order
from cody.baselines.tempme import MotifScorer, motif_order
from cody.errors import ModelError, did_you_mean
from cody.graph import IntArray, Query, TemporalGraph
from cody.models.contract import Model
from cody.models.folder import check_replaceable, read_description, read_weights, write_json
from cody.search.oracle import Oracle
from cody.search.policies import Policy
from cody.train.checkpoint import write_tensors
from cody.utils.words import sanitize

AnyScorer = TypeVar("AnyScorer", Scorer, MotifScorer)


def save_scorer(folder: Path, scorer: AnyScorer, model: SoftModel, origin: dict[str, Any]) -> None:
    """Write the two files of a trained scorer.

    Args:
        folder: Where to write them; an existing scorer is replaced.
        scorer: The trained scorer.
        model: The model it was trained for.
        origin: How it was trained, for the description.
    """
    check_replaceable(folder, scorer.FILES)
    document = {
        "schema": f"cody/{scorer.FILES}/1",
        "model": model.fast.identity,
        "data": model.graph.identity,
        "hidden": scorer.size,
        "origin": origin,
        "cody": __version__,
        "weights": write_tensors(folder / f"{scorer.FILES}.safetensors", dict(scorer.state_dict())),
    }
    write_json(folder / f"{scorer.FILES}.json", document)


def load_scorer(
    name: str | Path, model: SoftModel, kind: type[Any] = Scorer, *, allow_data_mismatch: bool = False
) -> Any:
    """The trained scorer in a folder, or the shipped one of that name. It must belong to this very model.

    Args:
        name: A folder, or the name of a shipped model.
        model: The model that the scorer was trained for.
        kind: Its class; by default, PGExplainer's.
        allow_data_mismatch: Accept data other than those the weights were trained on.
    """
    notes = find_explainer(name, kind.FILES) / f"{kind.FILES}.json"
    document = read_description(notes, f"cody/{kind.FILES}/1")
    identity = model.fast.identity
    if document.get("model") != identity:
        raise ModelError(
            f"explainer {str(name)!r} belongs to another model: it was trained for {sanitize(document.get('model'))}, "
            f"the model is {identity}"
        )
    if document.get("data") != model.graph.identity and not allow_data_mismatch:
        raise ModelError(
            f"explainer {str(name)!r} belongs to other data: it was trained on {sanitize(document.get('data'))}, "
            f"the graph is {model.graph.identity} (allow_data_mismatch=True ranks its events anyway)"
        )
    hidden = document.get("hidden")
    if type(hidden) is not int or not 1 <= hidden <= 1_000_000:
        found = sanitize(repr(hidden))
        raise ModelError(f"{notes} is damaged: hidden must be a number from 1 to 1,000,000, not {found}")
    with torch.device("meta"):  # the shapes of its weights take no memory
        weights = kind(model.network.sizes, hidden).state_dict()
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    arrays = read_weights(notes.with_suffix(".safetensors"), shapes, document)
    scorer = kind(model.network.sizes, hidden)
    scorer.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return scorer.requires_grad_(False)


def load_trained(policy: str, name: str | Path, model: Model, *, allow_data_mismatch: bool = False) -> Policy:
    """A trained policy, by its name, for the model it was trained for.

    Args:
        policy: "pgexplainer" or "tempme".
        name: A folder, or the name of a shipped model.
        model: The model that the policy was trained for.
        allow_data_mismatch: Accept data other than those the weights were trained on.
    """
    learned, soft = LEARNED[policy], SoftModel(model)
    scorer = load_scorer(name, soft, learned.scorer, allow_data_mismatch=allow_data_mismatch)
    return learned.order(soft, scorer)


def load_pgexplainer(name: str | Path, model: Model, *, allow_data_mismatch: bool = False) -> Policy:
    """The policy of a trained PGExplainer; see `load_trained`.

    Args:
        name: A folder, or the name of a shipped model.
        model: The model that the scorer was trained for.
        allow_data_mismatch: Accept data other than those the weights were trained on.
    """
    return load_trained(pgexplainer.__name__, name, model, allow_data_mismatch=allow_data_mismatch)


def load_tempme(name: str | Path, model: Model, *, allow_data_mismatch: bool = False) -> Policy:
    """The policy of a trained TempME; see `load_trained`.

    Args:
        name: A folder, or the name of a shipped model.
        model: The model that the network was trained for.
        allow_data_mismatch: Accept data other than those the weights were trained on.
    """
    return load_trained(tempme.__name__, name, model, allow_data_mismatch=allow_data_mismatch)


def trained_policy(policy: str, name: str | Path, *, allow_data_mismatch: bool = False) -> Policy:
    """A trained policy by name, together with the identity of its weights, for evaluations.

    Args:
        policy: "pgexplainer" or "tempme".
        name: A folder, or the name of a shipped model.
        allow_data_mismatch: Accept data other than those the weights were trained on.
    """
    learned = LEARNED[policy]
    identity = scorer_identity(name, learned.scorer)
    return partial(learned.policy, scorer=str(name), identity=identity, allow_data_mismatch=allow_data_mismatch)


def pgexplainer(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator, **scorer: Any
) -> IntArray:
    """The candidates in the order of a trained PGExplainer.

    The scorer is loaded on first use, for the oracle's model. `partial(pgexplainer, scorer="folder")` can be sent to
    other processes.

    Args:
        graph: The log of events.
        query: The link that is scored.
        events: Candidate rows to order.
        oracle: Evaluates changes of the query, and counts the evaluations.
        rng: Source of randomness.
        scorer: Options of `trained_policy`: `scorer`, the folder of the trained scorer or the name of the shipped model
            it belongs to; `identity`, that of the weights, others are rejected; `allow_data_mismatch`.
    """
    return _policy(pgexplainer.__name__, oracle.model, **scorer)(graph, query, events, oracle, rng)  # type: ignore[arg-type]


def tempme(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, rng: np.random.Generator, **scorer: Any
) -> IntArray:
    """The candidates in the order of a trained TempME.

    The network is loaded on first use, for the oracle's model. `partial(tempme, scorer="folder")` can be sent to other
    processes.

    Args:
        graph: The log of events.
        query: The link that is scored.
        events: Candidate rows to order.
        oracle: Evaluates changes of the query, and counts the evaluations.
        rng: Source of randomness.
        scorer: As those of `pgexplainer`.
    """
    return _policy(tempme.__name__, oracle.model, **scorer)(graph, query, events, oracle, rng)  # type: ignore[arg-type]


class Learned(NamedTuple):
    """An explainer that is trained: the policy that loads it by name, its network, and the policy of a network."""

    policy: Callable[..., IntArray]
    scorer: type[Scorer] | type[MotifScorer]
    order: Callable[[SoftModel, Any], Policy]


LEARNED = {
    learned.policy.__name__: learned
    for learned in (Learned(pgexplainer, Scorer, learned_order), Learned(tempme, MotifScorer, motif_order))
}


@lru_cache(maxsize=4)
def _policy(
    policy: str, model: Model, *, scorer: str, identity: str | None = None, allow_data_mismatch: bool = False
) -> Policy:
    if identity not in (None, scorer_identity(scorer, LEARNED[policy].scorer)):
        raise ModelError(f"explainer {scorer!r} was retrained after this run started: its weights have changed")
    return load_trained(policy, scorer, model, allow_data_mismatch=allow_data_mismatch)


def scorer_identity(name: str | Path, kind: type[Scorer] | type[MotifScorer] = Scorer) -> str:
    """A hash of a trained scorer's weights."""
    weights = find_explainer(name, kind.FILES) / f"{kind.FILES}.safetensors"
    try:
        return hashlib.blake2b(weights.read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise ModelError(f"{weights} cannot be read: {error.strerror}") from None


def shipped_explainers(files: str = Scorer.FILES) -> dict[str, Path]:
    """The folders inside the package that hold such files of a trained explainer, by the name of their model."""
    root = Path(str(resources.files("cody.baselines"))) / "shipped"
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{files}.json"))}


def find_explainer(name: str | Path, files: str = Scorer.FILES) -> Path:
    """The folder of an explainer given by path, or by the name of the shipped model it belongs to."""
    path, shipped = Path(name), shipped_explainers(files)
    if (path / f"{files}.json").is_file():
        return path
    if str(name) in shipped:
        return shipped[str(name)]
    which = next(policy for policy, learned in LEARNED.items() if files == learned.scorer.FILES)
    raise ModelError(
        f"there is no trained explainer {str(name)!r}: neither a folder with {files}.json nor a shipped one"
        f"{did_you_mean(str(name), shipped)}; cody train-explainer --data D --model M --out FOLDER trains one, "
        f"and --scorer FOLDER uses it (to train it: --explainer {which})"
    )
