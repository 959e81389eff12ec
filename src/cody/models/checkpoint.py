"""Models on disk: a folder with `model.safetensors` and `model.json`. No pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cody._version import __version__
from cody.errors import CallError, ModelError, did_you_mean
from cody.models import ARCHITECTURES, Network
from cody.models.sizes import Sizes

SCHEMA = "cody/model/1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A network with where it comes from."""

    network: Network
    data: str  # identity of the graph it was trained on, or imported for
    origin: dict[str, Any] = field(default_factory=dict)  # settings and metrics of its training, or its source


def save_model(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the two files; `model.json` comes last, and a folder without it is no model."""
    make_folder(folder)
    network = checkpoint.network
    document = {
        "schema": SCHEMA,
        "architecture": network.kind,
        "sizes": asdict(network.sizes),
        "data": checkpoint.data,
        "origin": checkpoint.origin,
        "cody": __version__,
    }
    write_tensors(folder / "model.safetensors", dict(network.state_dict()))
    write_json(folder / "model.json", document)


def network_identity(network: Network) -> str:
    """A hash of all that a network's answers depend on: its architecture, sizes and weights.

    A network keeps its identity when its weights are widened to float64.
    """
    told = {"architecture": network.kind, "sizes": asdict(network.sizes)}
    digest = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16)
    for name, weight in sorted(network.state_dict().items()):
        digest.update(name.encode() + weight.detach().double().numpy().tobytes())
    return digest.hexdigest()


def make_folder(folder: Path) -> None:
    """Make the folder of a model, or say why it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CallError(f"{str(folder)!r} cannot be the folder of a model: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise CallError(f"{str(folder)!r} cannot be the folder of a model: it cannot be written")


def load_checkpoint(name: str | Path) -> Checkpoint:
    """Read a model folder, or a model that ships with the package, by name."""
    folder = find_model(name)
    document = read_json(folder / "model.json")
    if document.get("schema") != SCHEMA:
        raise ModelError(
            f"{folder / 'model.json'} has schema {document.get('schema')!r}; this version reads {SCHEMA!r}"
        )
    try:
        known = {entry.name for entry in fields(Sizes)}
        sizes = Sizes(**{key: value for key, value in document["sizes"].items() if key in known})
        network = ARCHITECTURES[document["architecture"]](sizes)
        checkpoint = Checkpoint(network.eval(), document["data"], document["origin"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{folder / 'model.json'} is damaged: {error!r}") from None
    weights = {name: weight.float() for name, weight in read_tensors(folder / "model.safetensors")[0].items()}
    check_weights(weights, network, str(folder / "model.safetensors"))
    network.load_state_dict(weights)
    return checkpoint


def check_weights(weights: dict[str, Tensor], network: Network, source: str) -> None:
    """Refuse weights that are not exactly those of the network, or no numbers."""
    wanted = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    for name, weight in weights.items():
        if name not in wanted:
            layers = f" (the network has {network.sizes.layers} layers)" if name.startswith("attention.") else ""
            raise ModelError(f"{source}: parameter {name!r} has no place in this architecture{layers}")
        if tuple(weight.shape) != wanted[name]:
            raise ModelError(f"{source}: parameter {name!r} has shape {tuple(weight.shape)}, expected {wanted[name]}")
        if not torch.isfinite(weight).all():
            raise ModelError(f"{source}: parameter {name!r} holds a NaN or an infinity")
    missing = sorted(wanted.keys() - weights.keys())
    if missing:
        raise ModelError(f"{source}: parameter {missing[0]!r} is missing")


def shipped_models() -> dict[str, Path]:
    """The trained models inside the package, by name."""
    root = Path(str(resources.files("cody.models"))) / "shipped"
    return {path.parent.name: path.parent for path in sorted(root.glob("*/model.json"))}


def find_model(name: str | Path) -> Path:
    """The folder of a model given by path, or by the name of a shipped one."""
    path, shipped = Path(name), shipped_models()
    if str(name) in shipped and not path.exists():
        return shipped[str(name)]
    if len(str(name)) > 4000:
        raise CallError(f"{str(name)[:40]!r}… is too long for a path")
    if (path / "model.json").is_file():
        return path
    if path.is_dir():
        raise ModelError(f"the folder {str(name)!r} holds no finished model (model.json is missing)")
    raise ModelError(
        f"there is no model {str(name)!r}: neither a folder nor a shipped one{did_you_mean(str(name), shipped)}"
    )


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights in a foreign file: safetensors, or what torch can read without unpickling objects."""
    if not path.is_file():
        raise ModelError(f"there is no file {str(path)!r}")
    if path.suffix == ".safetensors":
        return read_tensors(path)[0]
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its unpickler meets
        raise ModelError(
            f"{path} cannot be read as plain weights, and unpickling objects is refused because it can run any code; "
            f"save its state_dict with safetensors ({type(error).__name__})"
        ) from None
    if not isinstance(weights, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in weights.items()
    ):
        raise ModelError(f"{path} holds no state dict (names with tensors)")
    return weights


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Named tensors, and the notes that `write_tensors` put beside them."""
    try:
        with safe_open(path, framework="pt") as file:
            notes = json.loads((file.metadata() or {}).get("notes", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, notes  # noqa: SIM118
    except FileNotFoundError:
        raise ModelError(f"{path} is missing") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path} is damaged: {error}") from None


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any] | None = None) -> None:
    """Write all or nothing: the file appears under its name only when it is complete."""
    partial = path.with_name(path.name + ".partial")
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, partial, metadata={"notes": json.dumps(notes or {})})
        partial.replace(path)
    except (SafetensorError, OSError) as error:
        partial.unlink(missing_ok=True)
        raise ModelError(f"{path} cannot be written: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {error}") from None
    if not isinstance(document, dict):
        raise ModelError(f"{path} is damaged: it holds no object")
    return document


def write_json(path: Path, document: dict[str, Any]) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)
