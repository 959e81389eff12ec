"""A prediction that could not be explained: it is recorded with its reason, and a run goes on with the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from cody.errors import BudgetError, CallError, CodyError, DataError, first_line
from cody.explaining.document import Kind
from cody.utils.forms import Count, Form
from cody.utils.words import count

SCHEMA = "cody/failure/2"
NOT_OF_A_LINK = (CallError, DataError, BudgetError, MemoryError, OSError)  # errors that the next link would get too
NOTHING_WORKS = 5  # links that fail before any is explained: then the model does not work at all


class Failure(Form, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """An explainer that ended with an error about a prediction."""

    data: str
    model: str
    explainer: str
    kind: Kind
    event: Count
    reason: str  # the error, in one line
    seed: Count
    model_identity: str
    data_identity: str
    version: str  # of this package; another one tries again


def reason_of(error: Exception) -> str:
    """Why a link could not be explained, in one line."""
    return str(error) if isinstance(error, CodyError) else f"{type(error).__name__}: {first_line(error)}"


def in_words(failures: Iterable[Failure]) -> Iterator[str]:
    """What failed, a sentence for each explainer and reason."""
    failures = list(failures)
    for (explainer, reason), number in Counter((each.explainer, each.reason) for each in failures).most_common():
        events = [each.event for each in failures if (each.explainer, each.reason) == (explainer, reason)]
        listed = ", ".join(map(str, events[:5])) + (", …" if number > 5 else "")
        yield f"{explainer} failed on {count(number, 'prediction')}, which no figure includes: event {listed}: {reason}"
