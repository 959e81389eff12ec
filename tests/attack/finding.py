"""What an attack reports."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cody.errors import CodyError, ProbabilityWarning


class Finding(Exception):  # noqa: N818  (not an error of the attack)
    """A broken promise. `fault` is the same for all cases of one fault; `details` belong to this case."""

    def __init__(self, fault: str, details: object = "") -> None:
        super().__init__(fault if details == "" else f"{fault}: {details}")
        self.fault = fault


class Hanging(BaseException):
    """Not an Exception, so that nothing takes it for an error it could handle."""


def expect(kept: Any, fault: str, details: object = "") -> None:
    """The promise was kept, or this is a finding."""
    if not kept:
        raise Finding(fault, details)


def check_message(error: CodyError, subject: str) -> None:
    """An error of ours is one line that a person can read."""
    text = str(error)
    expect(text.strip() and text.isprintable(), f"{subject}: an error of more than one readable line", repr(text[:300]))
    expect(len(text) <= 500, f"{subject}: an error of more than 500 characters", text[:300])


@contextmanager
def case_limits(seconds: int) -> Iterator[None]:
    """Warnings are errors, and what takes longer than this hangs."""

    def ring(*_: object) -> None:
        raise Hanging

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ProbabilityWarning)  # a made-up model may well have such logits
            yield
    except Hanging:
        raise Finding("it hangs", f"no answer within {seconds} s") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
