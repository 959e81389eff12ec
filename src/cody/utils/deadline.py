"""A deadline that long computations can check.

A time limit must also hold inside one long computation, which its caller cannot stop. The caller sets the limit for a
block; loops inside call `check_deadline` once in a while.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from cody.errors import BudgetError, CallError

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Stop what runs inside at `moment` (of `time.monotonic`) with a `BudgetError`; an outer limit still holds."""
    token = _deadline.set(min(moment, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


def check_deadline() -> None:
    """Raise `BudgetError` if the deadline has passed."""
    if time.monotonic() > _deadline.get():
        raise BudgetError("seconds")


def check_seconds(seconds: float) -> float:
    """A budget of time as a number."""
    try:
        number = math.nan if isinstance(seconds, str) else float(seconds)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < math.inf:
        raise CallError(f"a budget of seconds must be a finite number above 0, not {seconds!r:.60}")
    return number
