"""Torch networks from and to the folders of models, which `folder.py` reads and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cody.errors import CallError, ModelError
from cody.models.folder import (
    SavedModel,
    is_ours,
    opened,
    own_sizes,
    read_arrays,
    read_json,
    read_model,
    read_notes,
    write_arrays,
    write_model,
)
from cody.train.architectures import ARCHITECTURES, Network
from cody.utils.files import is_as_written
from cody.utils.words import sanitize

WHOLE_MODELS = ("model_state_dict", "state_dict", "model", "network", "net", "weights")  # in checkpoints of a training
WRAPPERS = {"module", "_orig_mod"}  # parts of names


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
    saved = SavedModel(network.kind, network.sizes, arrays, checkpoint.data, checkpoint.origin, network.task)
    write_model(folder, saved)


def load_checkpoint(name: str | Path) -> Checkpoint:
    """Read a model folder, or a model that ships with the package, by name."""
    saved = read_model(name)
    sizes = own_sizes(saved)
    network: Network = ARCHITECTURES[saved.kind](sizes, saved.task)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in saved.arrays.items()})
    return Checkpoint(network.eval(), saved.data, saved.origin)


def as_arrays(tensors: dict[str, Tensor]) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any] | None = None) -> str:
    """Write tensors atomically: the file gets its name only when it is complete. Returns their checksum."""
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


def read_foreign_weights(path: Path) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Weights from another program, and the names of entries that are none: optimizer, epoch and the like.

    They are read from safetensors, or from what torch can read without unpickling objects.

    Where a file holds the state dicts of several modules, their names become the first part of those of the weights. Of
    a checkpoint of a training only the weights are read. What `torch.compile`, `DataParallel` and
    `DistributedDataParallel` put before names is taken off.
    """
    if not path.is_file():
        raise ModelError(f"there is no file {str(path)!r}")
    if path.suffix == ".safetensors":
        with opened(path, "pt") as file:  # torch has more number types than numpy
            return _unwrapped(path, {name: file.get_tensor(name) for name in file.keys()}), ()  # noqa: SIM118
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch passes on whatever its unpickler raises
        raise ModelError(
            f"{path} cannot be read as plain weights, and objects are not unpickled because that can run any code; "
            f"save its state_dict with safetensors ({type(error).__name__})"
        ) from None
    tensors, left_out = _weights_in(path, content)
    return _unwrapped(path, tensors), left_out


def _weights_in(path: Path, content: Any) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The weights in a file, as one state dict or several, and the names of its other entries."""
    parts: dict[Any, Any] = content if isinstance(content, dict) else {"the whole": content}
    states = {name: part for name, part in parts.items() if _has_weights(name, part)}
    for whole in WHOLE_MODELS:
        if isinstance(states.get(whole), dict):
            return _flat(states[whole]), tuple(sanitize(name) for name in parts if name != whole)
    if not states:
        name, value = next(iter(parts.items()), ("the whole", content))
        raise ModelError(
            f"{path} does not hold a state dict (names with tensors): '{sanitize(name)}' is of type "
            f"{type(value).__name__}; save the state_dict() of the model alone, or a dict with those of its modules"
        )
    return _flat(states), tuple(sanitize(name) for name in parts if name not in states)


def _has_weights(name: Any, part: Any) -> bool:
    """Whether an entry is a tensor, a state dict, or a dict of such dicts."""
    if not isinstance(part, dict):
        return isinstance(name, str) and isinstance(part, Tensor)
    return isinstance(name, str) and bool(part) and all(_has_weights(*entry) for entry in part.items())


def _flat(part: dict[str, Any]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, some in part.items():
        tensors |= (
            {name: some} if isinstance(some, Tensor) else {f"{name}.{inner}": t for inner, t in _flat(some).items()}
        )
    return tensors


def _unwrapped(path: Path, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights without what wrappers put before their names."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        own = ".".join(part for part in name.split(".") if part not in WRAPPERS)
        if own in found:
            raise ModelError(f"{path} holds {own!r} twice, once as {name!r}")
        found[own] = tensor
    return found


def renamed(weights: dict[str, Tensor], known: dict[str, str], unused: str, otherwise: str) -> dict[str, Tensor]:
    """The weights of another program under our names.

    Args:
        weights: Under its names.
        known: Patterns of its names, and what they are called here.
        unused: The pattern of names that are left out.
        otherwise: The end of the message about a name that is in neither.
    """
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if re.fullmatch(unused, name):
            continue
        own = next((re.sub(pattern, to, name) for pattern, to in known.items() if re.fullmatch(pattern, name)), None)
        if own is None:
            raise ModelError(f"unknown parameter {name!r}: {otherwise}")
        if own in found:
            raise ModelError(f"parameter {name!r} is a second {own!r}: {otherwise}")
        found[own] = weight
    return found


# Resuming interrupted trainings, from a file next to their result.

FILE = "training.safetensors"
FROM_SCRATCH = "(without it, training starts from scratch)"
LENGTH = ("epochs", "patience")  # settings that may differ when a training is resumed


class ResumeFile:
    """The file with weights, the optimizer's state and notes of the last finished epoch."""

    def __init__(
        self, folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer, configuration: dict[str, Any]
    ) -> None:
        self.file = folder / FILE
        self.module, self.optimizer = module, optimizer
        self.configuration: dict[str, Any] = json.loads(json.dumps(configuration))  # as it will be read back: no tuples

    def save(self, notes: dict[str, Any], others: dict[str, Tensor] | None = None) -> None:
        """Save the current state of training after an epoch; `others` are saved with it."""
        tensors = {f"other.{name}": tensor for name, tensor in (others or {}).items()}
        tensors |= {f"weights.{name}": weight for name, weight in self.module.state_dict().items()}
        for name, parameter in self.module.named_parameters():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{key}"] = value
        write_tensors(self.file, tensors, self.configuration | notes)

    def resume(self, may_change: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Put the module and the optimizer back to the saved state. Returns the notes and the other tensors of `save`.

        None if there is nothing to resume. All settings must be the same now, except those in `may_change`.
        """
        if not self.file.exists():
            return None
        tensors, notes = self._read()
        differences = list(_differences(notes, self.configuration, may_change))
        if differences:
            raise CallError(
                f"{self.file.parent} holds an interrupted training in which {'; '.join(differences)}. "
                "Choose another folder, or remove it first"
            )
        try:
            self.module.load_state_dict(_group(tensors, "weights"))
        except RuntimeError:
            raise ModelError(f"{self.file} holds the weights of another network; choose another folder") from None
        moments = _group(tensors, "optimizer")
        for name, parameter in self.module.named_parameters():
            state = {key.rpartition(".")[2]: moments[key] for key in moments if key.rpartition(".")[0] == name}
            if any(moment.ndim and moment.shape != parameter.shape for moment in state.values()):
                raise ModelError(f"{self.file} is damaged: the optimizer's state does not fit parameter {name!r}")
            if state:
                self.optimizer.state[parameter] = state
        return notes, _group(tensors, "other")

    def _read(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        try:
            arrays, notes = read_arrays(self.file)
        except ModelError as error:
            raise ModelError(f"{error} {FROM_SCRATCH}") from None
        if not is_ours(self.file):
            raise CallError(
                f"{self.file} was not written by cody and would be overwritten; choose another folder, or remove it if "
                f"it is a damaged file of cody {FROM_SCRATCH}"
            )
        if not is_as_written(notes):
            raise ModelError(
                f"{self.file} has no checksum: it is damaged, or an earlier version of cody wrote it {FROM_SCRATCH}"
            )
        return {name: torch.from_numpy(array) for name, array in arrays.items()}, notes

    def discard(self) -> None:
        self.file.unlink(missing_ok=True)


def clear_up(folder: Path, kind: str) -> None:
    """Remove the resume file of a model or explainer that is finished.

    Training does so itself, unless it is killed after its last step. The file of another training stays.
    """
    with suppress(OSError, ModelError, KeyError, TypeError):  # there is no result, or it was not trained here
        result = read_json(folder / f"{kind}.json")
        trained = {"settings": result["origin"]["settings"], "data": result["data"]}
        if not list(_differences(read_notes(folder / FILE), trained, LENGTH)):
            (folder / FILE).unlink()


def _group(tensors: dict[str, Tensor], group: str) -> dict[str, Tensor]:
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.partition(".")[0] == group}


def _differences(then: Any, now: dict[str, Any], may_change: tuple[str, ...]) -> Iterator[str]:
    """The settings in which an interrupted training differs."""
    for name, value in now.items():
        before = then.get(name) if isinstance(then, dict) else None
        if isinstance(value, dict):
            yield from _differences(before, value, may_change)
        elif before != value and name not in may_change:
            yield f"{name} was {sanitize(before)} (now {sanitize(value)})"
