"""A user's modules: their forms (compiled, parallel, in half precision, quantised), copies of them and of their state,
and link predictors, whatever their last layer, as functions that return logits.
"""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache, partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from cody.adapters.probabilities import to_logits
from cody.errors import ModelError, PrecisionWarning, ProbabilityWarning
from cody.graph import FloatArray

PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)
HALF = (torch.float16, torch.bfloat16)
CONTAINERS = (list, set, dict, deque)  # and their subclasses
FUNCTIONS = (type, ModuleType, FunctionType, partial, type(cache(len)))
SHARED = (*FUNCTIONS, torch.jit.ScriptModule, torch.Generator, np.random.Generator)
PROBABILITIES = (
    "all outputs of link_predictor lie between 0 and 1, even for large inputs, so they are treated as probabilities; "
    "pass probabilities=True if they are, and False if they are logits"
)
SIGMOIDS = {torch.sigmoid, torch.special.expit, Tensor.sigmoid}
LARGE, TRIED = 1e3, 64  # numbers and rows that a predictor is tried with


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


def copied_state(objects: Iterable[Any], shared: Iterable[Any] = ()) -> list[Any]:
    """Copies of objects that share nothing that can be written to, except what is in `shared`.

    Tensors, arrays, lists, dicts, sets and objects are copied, however deep they refer to one another (a linked list of
    a million events has no recursion). Tuples, and tensors in them, are shared: whoever changes a state makes new ones.

    Args:
        objects: What to copy; what they have in common stays in common.
        shared: Parts that are never written to, such as weights.

    >>> memory = {"last": torch.zeros(2), "seen": [1]}
    >>> (copy,) = copied_state([memory])
    >>> memory["seen"].append(2), memory["last"].add_(1)
    (None, tensor([1., 1.]))
    >>> copy
    {'last': tensor([0., 0.]), 'seen': [1]}
    """
    copies: dict[int, Any] = {id(each): each for each in shared}
    originals = list(shared)  # they stay alive, so that no other object gets their number
    waiting: list[tuple[Any, Any]] = []

    def copy_of(value: Any) -> Any:
        if isinstance(value, MethodType):
            return MethodType(value.__func__, copy_of(value.__self__))
        make = _maker(value)
        if make is None:
            return value
        if id(value) not in copies:
            copies[id(value)] = same = make(value)
            originals.append(value)
            waiting.append((value, same))
        return copies[id(value)]

    found = [copy_of(each) for each in objects]
    while waiting:
        _fill(*waiting.pop(), copy_of)
    return found


def _maker(value: Any) -> Callable[[Any], Any] | None:
    """What makes an empty copy of a value, or a whole one if it has no parts; None if the value is shared."""
    if isinstance(value, Tensor):
        return _copied_tensor
    if isinstance(value, np.ndarray):
        return np.copy
    if isinstance(value, CONTAINERS):
        return lambda given: given.__class__.__new__(given.__class__)
    if hasattr(value, "__dict__") and not isinstance(value, SHARED):
        return lambda given: object.__new__(type(given))
    return None


def _copied_tensor(tensor: Tensor) -> Tensor:
    same = tensor.detach().clone()
    return nn.Parameter(same, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else same


def _fill(value: Any, same: Any, copy_of: Callable[[Any], Any]) -> None:
    """Put copies of the parts of a value into its copy."""
    if isinstance(value, Tensor | np.ndarray):
        return
    if isinstance(value, dict):
        if hasattr(value, "default_factory"):
            same.default_factory = value.default_factory
        dict.update(same, {key: copy_of(part) for key, part in value.items()})
    elif isinstance(value, set):
        set.update(same, value)
    elif isinstance(value, list):
        list.extend(same, [copy_of(part) for part in value])
    elif isinstance(value, deque):
        deque.__init__(same, [copy_of(part) for part in value], value.maxlen)
    if hasattr(value, "__dict__"):
        vars(same).update({name: copy_of(part) for name, part in vars(value).items()})


class LogitPredictor:
    """Calls a link predictor and returns one logit per link, or one score per link and class.

    If it ends with a sigmoid (`probabilities`), the logits are the inputs of the sigmoid: nothing is lost where
    probabilities round to 0 or 1. If they cannot be observed (TorchScript, another function than a sigmoid) they are
    computed from the probabilities.
    """

    def __init__(self, module: Any, call: str, *, probabilities: bool = False, outputs: int = 1) -> None:
        self.module, self.call, self.probabilities, self.outputs = module, call, probabilities, outputs
        self.noticed = False  # probabilities were detected, not declared by the user

    def __call__(self, links: int, *given: Tensor, **named: Tensor) -> FloatArray:
        """One logit per link, [links], or one score per link and class. [links, C]"""
        sigmoids = SigmoidInputs()
        with sigmoids if self.probabilities else nullcontext():
            answers = self.module(*given, **named)
        if answers.numel() != links * self.outputs:
            wanted = "one number per link (for class scores, pass classes=…)"
            if self.outputs > 1:
                wanted = f"{self.outputs} numbers per link, one per class"
            raise ModelError(f"{self.call} returned {tuple(answers.shape)} for {links} links; it must return {wanted}")
        if self.outputs > 1:
            return np.asarray(_as_array(answers), dtype=np.float64).reshape(links, self.outputs)
        fed = sigmoids.behind(answers) if self.probabilities else answers
        if fed is None:
            return to_logits(_as_array(answers))
        return _as_array(fed).astype(np.float64)

    def warn(self) -> None:
        """Warn that the outputs were detected to be probabilities. For functions that the user calls."""
        if self.noticed:
            warnings.warn(PROBABILITIES, ProbabilityWarning, stacklevel=3)

    @torch.no_grad()
    def settle(self, probabilities: bool | None, like: Tensor, names: Sequence[str] = ()) -> bool:
        """Whether outputs are certainly logits from now on. Probabilities are detected unless declared.

        Args:
            probabilities: what the user declares.
            like: embeddings of nodes, which the predictor takes. [n, d]
            names: the names of its two arguments, if it needs them.
        """
        if self.outputs > 1:  # classes are compared with one another: their scores decide the same on any scale
            return True
        large = np.random.default_rng(0).normal(0, LARGE, (2, TRIED, like.shape[-1]))
        ends = torch.as_tensor(large).to(like)
        answers = self.module(**dict(zip(names, ends, strict=True))) if names else self.module(*ends)
        never_leaves = bool(((answers >= 0) & (answers <= 1)).all())
        self.noticed = probabilities is None and never_leaves
        self.probabilities = never_leaves if probabilities is None else probabilities
        return self.probabilities or not never_leaves


class SigmoidInputs(TorchFunctionMode):
    """Records the inputs of sigmoids (modules, functions or methods) while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in SIGMOIDS and args:
            self.calls.append((args[0], result))
        return result

    def behind(self, answers: Tensor) -> Tensor | None:
        """The input of the sigmoid that returned these answers, in any shape; None if there is none."""
        for fed, result in reversed(self.calls):
            if answers.data_ptr() == result.data_ptr() and answers.numel() == result.numel():
                return fed
        return None


def _as_array(numbers: Tensor) -> Any:
    numbers = numbers.detach().cpu().reshape(-1)
    return (numbers.float() if numbers.dtype is torch.bfloat16 else numbers).numpy()
