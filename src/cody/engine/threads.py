"""One thread for matrix products while a model answers: at the sizes of a query, more only get in the way.

They are numpy's and, where it is loaded, torch's. The setting of the user is there again afterwards.
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
_inside: list[Any] = []  # what was set before, of the first; threads that ask at the same time share it


@cache
def _libraries() -> list[Any]:
    return ThreadpoolController().select(user_api="blas").lib_controllers


def _set_threads(numbers: list[int]) -> list[int]:
    """Set the number of threads of each library; the numbers that were set before."""
    before = [library.num_threads for library in _libraries()]
    for library, old, new in zip(_libraries(), before, numbers, strict=True):
        if new != old:
            library.set_num_threads(new)
    return before


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the block, or the function that this decorates, compute with one thread."""
    torch = sys.modules.get("torch")
    threads = 1 if torch is None else torch.get_num_threads()  # of this thread of Python: each has its own number
    with _lock:
        _inside.append(None if _inside else _set_threads([1] * len(_libraries())))
    try:
        if torch is not None and threads > 1:
            torch.set_num_threads(1)
        yield
    finally:
        if torch is not None and threads > 1:
            torch.set_num_threads(threads)
        with _lock:
            before = _inside.pop() if len(_inside) > 1 else _inside.pop(0)
            if before is not None:
                _set_threads(before)


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
