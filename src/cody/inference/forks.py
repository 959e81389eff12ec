"""Processes that are forked after a model was asked something: the child can ask too.

Importing this module is enough for torch. A model with a lock has to be registered besides.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol
from weakref import WeakSet


class Resettable(Protocol):
    """What a copy in another process begins with: `__setstate__` of nothing is a new lock and nothing remembered."""

    def __setstate__(self, state: dict[str, Any]) -> None: ...


_registered: WeakSet[Resettable] = WeakSet()


def reset_in_children(model: Resettable) -> None:
    """A fork copies a lock as it is: held for ever, if another thread was asking. The child gets a new one."""
    _registered.add(model)


def _after_fork() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # no other thread survives a fork, and the child would wait for them for ever
    for model in list(_registered):
        model.__setstate__({})


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
