"""A link that could not be explained: it is recorded with its reason, and a run goes on with the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields

from cody.errors import BudgetError, CallError, CodyError, DataError, first_line
from cody.study.lines import check_line, parse_line, shown, write_line
from cody.study.record import KINDS, is_count
from cody.utils.words import count

SCHEMA = "cody/failure/1"
NOT_OF_A_LINK = (CallError, DataError, BudgetError, MemoryError, OSError)  # errors that the next link would get too
NOTHING_WORKS = 5  # links that fail before any is explained: then the model does not work at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An explainer that ended with an error about a link."""

    data: str
    model: str
    explainer: str
    kind: str
    event: int
    reason: str  # the error, in one line
    seed: int
    model_identity: str
    data_identity: str
    version: str  # of this package; another one tries again

    def to_json(self) -> str:
        """One line."""
        return write_line({"schema": SCHEMA, **asdict(self)})

    @classmethod
    def from_json(cls, line: str) -> Failure:
        """What `to_json` wrote; anything else is an error that says which field is wrong."""
        document = parse_line(line, "failure", (SCHEMA,))
        names = [field.name for field in fields(cls)]
        for name in names:
            value = document.get(name)
            if not (is_count(value) if name in ("event", "seed") else isinstance(value, str)):
                raise DataError(f"this failure is damaged: {name} is {shown(value)}")
        check_line(document, "failure", set(names))
        if document["kind"] not in KINDS:
            raise DataError(f"this failure is damaged: kind is {shown(document['kind'])}")
        return cls(**{name: document[name] for name in names})


def reason_of(error: Exception) -> str:
    """Why a link could not be explained, in one line."""
    return str(error) if isinstance(error, CodyError) else f"{type(error).__name__}: {first_line(error)}"


def in_words(failures: Iterable[Failure]) -> Iterator[str]:
    """What failed, a sentence for each explainer and reason."""
    failures = list(failures)
    for (explainer, reason), number in Counter((each.explainer, each.reason) for each in failures).most_common():
        events = [each.event for each in failures if (each.explainer, each.reason) == (explainer, reason)]
        listed = ", ".join(map(str, events[:5])) + (", …" if number > 5 else "")
        yield f"{explainer} failed on {count(number, 'link')}, which no figure includes: event {listed}: {reason}"
