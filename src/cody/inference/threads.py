"""One thread for numpy's matrix products while a model is asked: at the sizes of a question, more only get in the way.

The setting of the user is there again afterwards.
"""

from __future__ import annotations

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
