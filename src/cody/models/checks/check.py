"""What a check is, and how one is run."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from cody.errors import ModelError, first_line
from cody.models.checks.trial import Failed, Skipped, Trial, TwoAnswers

# Of (trial, query, changes), or with `once` of (trial) only; None: it compares nothing.
Compare = Callable[..., Iterable[TwoAnswers] | None]


@dataclass(frozen=True, slots=True)
class Check:
    """Pairs of answers that should agree (or, with `note_if_equal`, should not all agree); it may also raise `Failed`.

    A failure ends with the `rule` that was broken, and names the usual `cause`.
    """

    name: str
    meaning: str
    compare: Compare
    rule: str = ""
    cause: str = ""
    needs: type | None = None  # what a model must offer; others are not compared
    skipped: str = ""  # the message if there is nothing to compare
    note_if_equal: str = ""
    only_noted: bool = False  # a failure limits the use of a model, but makes no explanation wrong
    vital: bool = False  # if it fails, the other checks mean nothing
    quick: bool = True  # whether it is part of the quick form
    once: bool = False  # it runs once, not for each query
    at_the_end: bool = False  # it is about all calls of the other checks


def add_to(checks: list[Check], *, only_noted: bool = False) -> Callable[..., Callable[[Compare], Compare]]:
    """A decorator that adds functions to a list of checks, in their order."""

    def check(meaning: str, rule: str = "", **options: Any) -> Callable[[Compare], Compare]:
        def add(compare: Compare) -> Compare:
            checks.append(Check(compare.__name__.strip("_"), meaning, compare, rule, only_noted=only_noted, **options))
            return compare

        return add

    return check


def run(check: Check, trial: Trial) -> CheckResult:
    """Run one check."""
    done = partial(CheckResult, check.name, check.meaning)
    wrong: Status = "noted" if check.only_noted else "failed"
    compared = False
    try:
        for pair in _pairs(check, trial):
            compared = True
            differing = pair.differing(trial.tolerance)
            if differing and check.note_if_equal:
                return done("passed")
            if differing:
                raise Failed(f"{pair.described(differing[0])}: {check.rule}")
    except Skipped as reason:
        return done("skipped", str(reason))
    except Failed as failure:
        return done(wrong, str(failure), failure.cause or check.cause)
    except Exception as error:  # something no check expects, such as a session that is None
        return done(wrong, f"{type(error).__name__}: {first_line(error)}", check.cause)
    if check.skipped and not compared:
        return done("skipped", check.skipped)
    return done("noted", check.note_if_equal) if check.note_if_equal else done("passed")


def _pairs(check: Check, trial: Trial) -> Iterator[TwoAnswers]:
    """The pairs to compare; in the quick form, only of the first query that has any."""
    if check.needs is not None and not isinstance(trial.model, check.needs):
        return
    if check.once:
        yield from check.compare(trial) or ()
        return
    for query, changes in trial.questions:
        compared = False
        for pair in check.compare(trial, query, changes) or ():
            compared = True
            yield pair
        if compared and trial.quick and not check.note_if_equal:
            return


# The results of the checks, as data and as a table.

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
    about: str = "model"

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
            raise ModelError(f"the {self.about} breaks rules of explanations", *str(self).splitlines())

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
