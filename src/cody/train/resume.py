"""Resuming interrupted trainings, from a file next to their result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cody.errors import CallError, ModelError
from cody.models.folder import is_ours, read_json, read_notes
from cody.train.checkpoint import read_tensors, write_tensors
from cody.utils.files import is_as_written
from cody.utils.words import sanitize

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
            tensors, notes = read_tensors(self.file)
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
        return tensors, notes

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
