"""One thread for numpy's matrix products while a model is asked: at the sizes of a question, more only get in the way.

The setting of the user is there again afterwards.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside: list[Any] = []  # the limits in force; threads that ask at the same time share one


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the block compute with one thread."""
    with _lock:
        _inside.append(None if _inside else _libraries().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            limit = _inside.pop() if len(_inside) > 1 else _inside.pop(0)
            if limit is not None:
                limit.restore_original_limits()


def _after_fork() -> None:
    """No other thread survives a fork: the child must not wait for one, neither here nor in torch."""
    global _lock
    _lock = threading.Lock()
    _inside.clear()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
