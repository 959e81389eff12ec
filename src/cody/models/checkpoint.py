"""Models on disk: a folder with `model.safetensors` and `model.json`. No pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cody._version import __version__
from cody.errors import CallError, ModelError, did_you_mean, first_line
from cody.files import is_as_written, replacing, with_checksum, write_atomically
from cody.models import ARCHITECTURES, TGN, Network
from cody.models.shapes import Shapes, check_shapes, network_shapes
from cody.models.sizes import Sizes
from cody.words import plain

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
    refuse_foreign(folder, "model")
    network = checkpoint.network
    document = {
        "schema": SCHEMA,
        "architecture": network.kind,
        "sizes": asdict(network.sizes),
        "data": checkpoint.data,
        "origin": checkpoint.origin,
        "cody": __version__,
        "weights": write_tensors(folder / "model.safetensors", dict(network.state_dict())),
    }
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


def refuse_taken(folder: Path, kind: str, called: str) -> None:
    """Refuse a folder for a model or explainer where there is one, or a file that would be replaced is not ours."""
    if (folder / f"{kind}.json").exists():
        raise CallError(f"{folder} already holds a {called}; choose another folder, or remove it first")
    refuse_foreign(folder, kind)


def refuse_foreign(folder: Path, kind: str) -> None:
    """Refuse to save a model or explainer in place of files that we did not write."""
    description, weights = folder / f"{kind}.json", folder / f"{kind}.safetensors"
    if description.exists() and not str(read_json(description).get("schema")).startswith(f"cody/{kind}/"):
        raise CallError(f"{description} was not written by cody, and would be replaced; choose another folder")
    if weights.exists() and not is_ours(weights):
        raise CallError(f"{weights} was not written by cody, and would be replaced; choose another folder")


def load_checkpoint(name: str | Path) -> Checkpoint:
    """Read a model folder, or a model that ships with the package, by name."""
    folder = find_model(name)
    document = read_description(folder / "model.json", SCHEMA)
    try:
        known = {entry.name for entry in fields(Sizes)}
        sizes = Sizes(**{key: value for key, value in document["sizes"].items() if key in known})
        architecture = ARCHITECTURES[document["architecture"]]
        data, origin = document["data"], document["origin"]
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{folder / 'model.json'} is damaged: {plain(repr(error))}") from None
    weights = load_weights(
        folder / "model.safetensors", network_shapes(sizes, memory=architecture is TGN), document.get("weights")
    )
    network: Network = architecture(sizes)
    network.load_state_dict(weights)
    return Checkpoint(network.eval(), data, origin)


def load_weights(file: Path, shapes: Shapes, checksum: str | None) -> dict[str, Tensor]:
    """The weights in `file`, if they have these shapes and this checksum. Weights of other shapes are not even read."""
    tensors, _ = read_tensors(file, shapes)
    if checksum is not None and _tensors_checksum(tensors) != checksum:
        raise ModelError(f"{file} is not the file that {file.with_suffix('.json').name} was written for")
    return as_numbers(tensors, str(file))


def as_numbers(weights: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    """The weights as float32. Refuses what is not numbers, or not there: sparse, quantized, without values."""
    numbers = {}
    for name, weight in weights.items():
        if not weight.is_floating_point() or weight.layout is not torch.strided or weight.is_meta:
            kind = "without values" if weight.is_meta else f"{weight.layout} {weight.dtype}".replace("torch.", "")
            raise ModelError(f"{source}: parameter {name!r} is {kind}, not plain floating-point numbers")
        numbers[name] = weight.detach().float()
        if not torch.isfinite(numbers[name]).all():
            raise ModelError(f"{source}: parameter {name!r} holds a NaN or an infinity")
    return numbers


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


def is_ours(path: Path) -> bool:
    """Whether `write_tensors` wrote this file."""
    return read_notes(path) is not None


def read_notes(path: Path) -> dict[str, Any] | None:
    """The notes in a file that `write_tensors` wrote, whole or not; None if it is somebody else's, or damaged."""
    try:
        with _opened(path) as file:
            return _notes(file)
    except ModelError:
        return None


def read_tensors(path: Path, wanted: Shapes | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Named tensors, and the notes that `write_tensors` put beside them. Other shapes are refused before reading."""
    with _opened(path) as file:
        if wanted is not None:
            check_shapes({name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}, wanted, str(path))  # noqa: SIM118
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        notes = _notes(file) or {}
    has_checksums = bool({"tensors", "checksum"} & notes.keys())  # earlier versions wrote none
    if has_checksums and not (is_as_written(notes) and notes.get("tensors") == _tensors_checksum(tensors)):
        raise ModelError(f"{path} is damaged: it does not have the checksum it was written with; copy or make it again")
    return tensors, notes


def _notes(file: Any) -> dict[str, Any] | None:
    """What `write_tensors` noted in a file; None if it is somebody else's, who may have notes of their own."""
    try:
        notes = json.loads((file.metadata() or {}).get("notes", ""))
    except (ValueError, RecursionError):
        return None
    return notes if isinstance(notes, dict) else None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open safetensors file; whatever is wrong with it is one clear error."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise ModelError(f"{path} is missing") from None
    except ModelError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise ModelError(f"{path} is damaged: {first_line(error)}") from None


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any] | None = None) -> str:
    """Write all or nothing: the file appears under its name only when it is complete. The checksum of the tensors."""
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    checksum = _tensors_checksum(whole)
    noted = with_checksum((notes or {}) | {"tensors": checksum})
    try:
        with replacing(path) as partial:
            save_file(whole, partial, metadata={"notes": json.dumps(noted)})
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} cannot be written: {first_line(error)}") from None
    return checksum


def _tensors_checksum(tensors: dict[str, Tensor]) -> str:
    checksum = 0
    for name, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"


def read_description(path: Path, schema: str) -> dict[str, Any]:
    """What a model's or explainer's file says about it, if it has the schema and is as it was written."""
    document = read_json(path)
    if document.get("schema") != schema:
        raise ModelError(f"{path} has schema {plain(repr(document.get('schema')))}; this version reads {schema!r}")
    if "checksum" in document and not is_as_written(document):
        raise ModelError(
            f"{path} is damaged: it does not have the checksum it was written with; copy or make it again "
            "(if you changed it yourself, remove its entry 'checksum')"
        )
    return document


def read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {first_line(error)}") from None
    if not isinstance(document, dict):
        raise ModelError(f"{path} is damaged: it holds no object")
    return document


def write_json(path: Path, document: dict[str, Any]) -> None:
    try:
        write_atomically(path, json.dumps(with_checksum(document), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror}") from None
