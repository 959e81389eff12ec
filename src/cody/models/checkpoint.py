"""Torch networks from and to the folders of models, which `folder.py` reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cody.errors import ModelError
from cody.models.architectures import ARCHITECTURES, Network
from cody.models.folder import SavedModel, opened, own_sizes, read_arrays, read_model, write_arrays, write_model
from cody.models.shapes import Shapes
from cody.words import plain


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A network and its origin."""

    network: Network
    data: str  # identity of the graph it was trained on, or imported for
    origin: dict[str, Any] = field(default_factory=dict)  # settings and metrics of its training, or its source


def save_model(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the folder of a model."""
    network = checkpoint.network
    arrays = as_arrays(dict(network.state_dict()))
    write_model(folder, SavedModel(network.kind, network.sizes, arrays, checkpoint.data, checkpoint.origin))


def load_checkpoint(name: str | Path) -> Checkpoint:
    """Read a model folder, or a model that ships with the package, by name."""
    saved = read_model(name)
    sizes = own_sizes(saved)
    network: Network = ARCHITECTURES[saved.kind](sizes)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in saved.arrays.items()})
    return Checkpoint(network.eval(), saved.data, saved.origin)


def as_arrays(tensors: dict[str, Tensor]) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}


def read_tensors(path: Path, wanted: Shapes | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Named tensors, and the notes that `write_tensors` wrote with them. Other shapes are rejected before reading."""
    arrays, notes = read_arrays(path, wanted)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, notes


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any] | None = None) -> str:
    """Write all or nothing: the file gets its name only when it is complete. Returns the checksum of the tensors."""
    return write_arrays(path, as_arrays(tensors), notes)


def as_numbers(weights: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    """The weights as float32. Rejects those that are not plain numbers: sparse, quantized or without values."""
    numbers = {}
    for name, weight in weights.items():
        if not weight.is_floating_point() or weight.layout is not torch.strided or weight.is_meta:
            kind = "without values" if weight.is_meta else f"{weight.layout} {weight.dtype}".replace("torch.", "")
            raise ModelError(f"{source}: parameter {name!r} is {kind}, not plain floating-point numbers")
        numbers[name] = weight.detach().float()
        if not torch.isfinite(numbers[name]).all():
            raise ModelError(f"{source}: parameter {name!r} holds a NaN or an infinity")
    return numbers


def read_foreign_weights(path: Path) -> dict[str, Tensor]:
    """Weights from another program: safetensors, or what torch can read without unpickling objects.

    Where a file holds the state dicts of several modules, their names become the first part of those of the weights.
    """
    if not path.is_file():
        raise ModelError(f"there is no file {str(path)!r}")
    if path.suffix == ".safetensors":
        with opened(path, "pt") as file:  # torch has more number types than numpy
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch passes on whatever its unpickler raises
        raise ModelError(
            f"{path} cannot be read as plain weights, and objects are not unpickled because that can run any code; "
            f"save its state_dict with safetensors ({type(error).__name__})"
        ) from None
    if isinstance(weights, dict) and weights and all(isinstance(part, dict) for part in weights.values()):
        weights = {f"{part}.{name}": weight for part, some in weights.items() for name, weight in some.items()}
    return _state_dict(path, weights)


def _state_dict(path: Path, content: Any) -> dict[str, Tensor]:
    """What a file holds, if it is names with tensors and nothing else."""
    parts: list[tuple[Any, Any]] = list(content.items()) if isinstance(content, dict) else [("the whole", content)]
    for name, value in parts:
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ModelError(
                f"{path} does not hold a state dict (names with tensors): '{plain(name)}' is of type "
                f"{type(value).__name__}; save the state_dict() of the model alone, or a dict with those of its modules"
            )
    return dict(parts)
