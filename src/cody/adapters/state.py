"""Copies of models with a state, whatever it is made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

CONTAINERS = (list, set, dict, deque)  # and their subclasses
SHARED = (type, ModuleType, FunctionType, partial, torch.jit.ScriptModule, torch.Generator, np.random.Generator)


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
