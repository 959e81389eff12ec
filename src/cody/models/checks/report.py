"""The results of the checks, as data and as a table."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from cody.errors import ModelError

Status = Literal["passed", "failed", "noted", "skipped"]

COLUMNS = 80


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check.

    "failed": an explanation of this model would be wrong or impossible. "noted": explanations are right, but the model
    cannot be used in every way, or is probably not as its author intended. "skipped": it was not run.
    """

    name: str
    meaning: str  # the rule, in one line
    status: Status
    message: str = ""  # what was observed
    cause: str = ""  # the usual cause, and what to do


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks; prints as a table."""

    outcomes: tuple[CheckResult, ...]

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    @property
    def passed(self) -> bool:
        """Whether no check failed; notes and skipped checks do not count."""
        return not self.failures

    def raise_if_failed(self) -> None:
        """Raise a `ModelError` that shows the table, if a check failed."""
        if self.failures:
            raise ModelError("the model breaks rules of explanations", *str(self).splitlines())

    def __str__(self) -> str:
        counts = Counter(outcome.status for outcome in self.outcomes)
        lines = [", ".join(f"{count} {status}" for status, count in counts.items())]
        if len(self.failures) > 1:
            lines.append("Fix the first failure first: others often follow from it.")
        for outcome in self.outcomes:
            lines.append(f"{outcome.status:<8} {outcome.name:<14} {outcome.meaning}")
            lines += _indented(outcome.message)
            lines += _indented(f"Likely cause: {outcome.cause}" if outcome.cause else "")
        return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, initial_indent=" " * 9, subsequent_indent=" " * 9)
