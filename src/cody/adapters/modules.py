"""The forms of a user's modules: compiled, parallel, in half precision, quantised, on several devices."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from cody.errors import ModelError, PrecisionWarning

PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)
HALF = (torch.float16, torch.bfloat16)


def unwrapped(module: Any) -> Any:
    """The module itself, without the wrapper of `torch.compile`, `DataParallel` or `DistributedDataParallel`.

    Recompiling for each number of rows would take longer than the module itself.
    """
    while isinstance(module, PARALLEL) or hasattr(module, "_orig_mod"):
        module = module.module if isinstance(module, PARALLEL) else module._orig_mod
    return module


def check_modules(**modules: nn.Module | None) -> None:
    """Reject modules without a unique answer: without weights, quantised, on several devices, or not finite."""
    place: dict[torch.device, str] = {}
    for name, module in modules.items():
        if module is not None and _is_quantised(module):
            raise ModelError(
                f"{name} is quantised: how it rounds depends on what else is in a batch, and so would every answer; "
                "give the module that it was made from"
            )
        for tensor in () if module is None else _tensors(module):
            place.setdefault(tensor.device, name)
    if place.keys() == {torch.device("meta")}:
        raise ModelError(f"{next(iter(place.values()))} is on the device 'meta', which has no weights; load them first")
    if len(place) > 1:
        (one, here), (other, there) = list(place.items())[:2]
        raise ModelError(
            f"{here} is on the device '{one}' and {there} on '{other}'; move all modules to one, for example with "
            ".to('cpu')"
        )
    for name, module in modules.items():
        for parameter, tensor in () if module is None else module.named_parameters():
            if not tensor.isfinite().all():
                raise ModelError(f"parameter '{name}.{parameter}' holds a NaN or an infinity: did training diverge?")


def copied(module: Any, shared: Iterable[Any] = ()) -> Any:
    """A copy of a module, in single precision if it has numbers of half precision; `shared` is not copied."""
    # Tensors in the middle of a gradient computation cannot be copied, so they are detached first.
    busy = {id(tensor): tensor.detach().clone() for tensor in module.buffers() if tensor.grad_fn is not None}
    same = copy.deepcopy(unwrapped(module), busy | {id(each): each for each in shared})
    return same.float() if half_precision(same) else same


def evaluating(module: Any) -> Any:
    """The module in evaluation mode, without gradients."""
    module.eval()  # that of a TGNMemory returns nothing
    for parameter in module.parameters():
        parameter.detach_()  # TorchScript's modules have no requires_grad_, and their copies remember the original
    return module


def warn_of_half_precision(*modules: nn.Module | None) -> None:
    """Warn that the computation uses another precision than the user's. For functions that the user calls."""
    found = [kind for module in modules if module is not None and (kind := half_precision(module))]
    if found:
        warnings.warn(
            f"the model is in {found[0]}, whose rounding would hide small changes: it is computed in single "
            "precision here, and scores differ from yours by that rounding",
            PrecisionWarning,
            stacklevel=3,
        )


def half_precision(module: nn.Module) -> str:
    """The type of half precision that a module has numbers of, or an empty string."""
    found = (tensor.dtype for tensor in _tensors(module) if tensor.dtype in HALF)
    return str(next(found, "")).removeprefix("torch.")


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _is_quantised(module: nn.Module) -> bool:
    """Modules of `torch.ao.quantization` keep their weights packed, or as quantised tensors."""
    for part in module.modules():
        kind = type(part).__module__
        if "quantized" in kind and kind.startswith(("torch.ao.nn.", "torch.nn.")):
            return True
    return any(isinstance(value, Tensor) and value.is_quantized for value in module.state_dict().values())
