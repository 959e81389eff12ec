"""The answer: which past events, had they not happened, would have changed this prediction?

An `Explanation` knows the names and times of all events it speaks of, so it can be read, stored and shown without the
graph and the model it came from.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_type_hints

from cody.errors import DataError
from cody.graph import Query
from cody.model import Change
from cody.search.found import EVALUATIONS, EXHAUSTED, ITERATIONS, SECONDS, flips
from cody.words import count, decision, earlier, moment, plain, probability, to_json

if TYPE_CHECKING:
    import pandas

SCHEMA = "cody/explanation/1"


class Event(NamedTuple):
    """A past event, with its nodes as the user calls them."""

    row: int
    src: str
    dst: str
    time: float


class Confirmation(NamedTuple):
    """The decisive answers, computed once more, on their own, with nothing remembered."""

    by: str  # how, in words
    original: float  # logit with nothing removed
    without: float  # logit without the removed events


class Step(NamedTuple):
    """One more event taken away, and what the model says then."""

    event: Event
    logit: float | None  # None: there was no time to ask


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """What an explainer found about one prediction. `print` shows it, `to_json` keeps it."""

    query: Query
    src: str  # the query's nodes as the user calls them
    dst: str
    event: int | None  # the row of the event, if the link is one that happened
    candidates: tuple[Event, ...]  # what could be removed, oldest first
    removed: tuple[int, ...]  # rows, in the order in which the search took them away
    logits: tuple[float | None, ...]  # after 0, 1, … all of them are removed; None: there was no time to ask
    ended: str  # why the search ended: a word of cody.search.found
    factual: bool  # the explainer names what speaks for the decision; it did not look for what would change it
    iterations: int
    evaluations: int  # distinct sets that the explainer asked the model about
    seconds: float  # for all of it but the confirmation
    confirmed: Confirmation | None  # None: nothing claims to change the decision, or there was no time
    without_all: float | None  # the logit without any of the candidates; None: confirmed, or no time
    parameters: dict[str, Any]  # what the explainer was told
    seed: int
    model: str  # identities of what it is about
    data: str
    explored: tuple[tuple[tuple[int, ...], float], ...] = ()  # every set asked about, and the answer

    @property
    def original(self) -> float:
        """The logit with nothing removed."""
        assert self.logits[0] is not None  # it is always asked for, and documents are checked
        return self.logits[0]

    @property
    def without(self) -> float | None:
        """The logit once all of them are removed."""
        return self.logits[-1]

    @property
    def is_counterfactual(self) -> bool:
        """Whether the decision changes without the removed events; confirmed."""
        return self.confirmed is not None and flips(self.confirmed.original, self.confirmed.without)

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the search found a counterfactual that plain replay had no time for, or does not agree with."""
        changed = self.without is not None and flips(self.original, self.without)
        return changed and not self.is_counterfactual

    @property
    def is_minimal(self) -> bool:
        """Whether it is certain that no smaller set of the candidates changes the decision."""
        return self.is_counterfactual and (self.ended == EXHAUSTED or len(self.removed) == 1)

    @property
    def verdict(self) -> str:
        """What is known: a counterfactual, or that there is none, or only that none was found, or not looked for."""
        if self.is_counterfactual:
            return "counterfactual"
        if self.is_unconfirmed and not self.factual:
            return "not confirmed"
        if self.ended == EXHAUSTED:
            return "none among the candidates"
        if self.factual:
            return "factual"
        return "none within the budget" if self.was_cut_short else "none found"

    @property
    def was_cut_short(self) -> bool:
        """Whether a budget ended the search: with a larger one it might have found a better answer."""
        return self.ended in (ITERATIONS, EVALUATIONS, SECONDS)

    @property
    def removal(self) -> Change:
        return frozenset(self.removed)

    @property
    def steps(self) -> list[Step]:
        """The removed events in order, each with the logit once it is gone too."""
        known = {event.row: event for event in self.candidates}
        return [Step(known[row], logit) for row, logit in zip(self.removed, self.logits[1:], strict=True)]

    @property
    def question(self) -> str:
        """The link, when, and what the model says about it."""
        logit = self.original
        name = "" if self.event is None else f"Event {self.event}, "
        said = f"{decision(logit)} (score {probability(logit):.2f})"
        return f"{name}{_link(self.src, self.dst)}, {moment(self.query.time)}: the model says {said}."

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        share = f"{len(self.removed)} of {count(len(self.candidates), 'past event')}"
        moved = self._moved
        if self.is_counterfactual and not self.factual:
            return f"Without {share} {moved}."
        if self.is_unconfirmed and not self.factual:
            return f"Not confirmed: without {share} {moved}."
        if not self.candidates:
            return "There are no past events near this link that could be taken away."
        if self.factual:
            without = f"Without them {moved}." if self.removed and moved else ""
            return f"Named as important: {share}. {without}".rstrip()
        closest = "No set that was tried leads closer to one." if self.evaluations > 1 else "No set was tried."
        if self.removed:
            closest = f"Closest: without {share} {moved.partition(':')[0]}."
        if self.without_all is not None and self.ended != EXHAUSTED:
            closest += f" Without all {len(self.candidates)} it is {probability(self.without_all):.2f}."
        if self.ended == EXHAUSTED:
            number = count(len(self.candidates), "past event")
            return f"No set of the {number} near this link changes the decision. {closest}"
        limit = {ITERATIONS: count(self.iterations, "iteration"), EVALUATIONS: count(self.evaluations, "evaluation")}
        within = f" within {limit.get(self.ended, f'{self.seconds:.2f} seconds')}" if self.was_cut_short else ""
        return f"No counterfactual was found{within}; there may be one. {closest}"

    @property
    def _moved(self) -> str:
        """What the removal does to the score and the decision; empty if nobody knows."""
        first, last = self.original, self.without
        if last is None:
            return ""
        moved = f"{'falls' if last < first else 'rises'} from {probability(first):.2f} to {probability(last):.2f}"
        return f"the score {moved}: {'' if flips(first, last) else 'still '}{decision(last)}"

    @property
    def certainty(self) -> str:
        """How far a counterfactual can be trusted; empty if there is none."""
        if self.is_unconfirmed:
            return f"Not confirmed: {self._doubt}."
        if self.confirmed is None or not self.is_counterfactual:
            return ""
        smaller = "Smaller sets may exist." if not self.factual else "It did not look for the smallest such set."
        if self.is_minimal:
            smaller = "No smaller set of these candidates does it." if len(self.removed) > 1 else "No set is smaller."
        return f"Confirmed: {plain(self.confirmed.by, 200)}. {smaller}"

    @property
    def _doubt(self) -> str:
        """Why a counterfactual that was found is not confirmed."""
        if self.confirmed is None:
            return "there was no time left for it; allow more seconds"
        return f"{plain(self.confirmed.by, 200)}, the logit is {self.confirmed.without:.5f}, which changes nothing"

    @property
    def effort(self) -> str:
        """What was tried, and whether there was more to try."""
        cut = " when the budget ran out" if self.was_cut_short else ""
        return f"{count(self.evaluations, 'set')} of events tried in {self.seconds:.2f} s{cut}."

    @property
    def protection(self) -> str:
        """What was not allowed to be removed; empty if everything was."""
        told = self.parameters.get("protect") or {}
        parts = []
        for name, thing in (("events", "event"), ("nodes", "node"), ("times", "time")):
            entries = told.get(name, [])
            shown = [" to ".join(map(moment, entry)) if name == "times" else plain(entry, 24) for entry in entries[:4]]
            if shown:
                parts.append(f"{thing if len(entries) == 1 else name} {', '.join(shown)}{', …' * (len(entries) > 4)}")
        return f"Protected: {'; '.join(parts)}." if parts else ""

    def to_frame(self) -> pandas.DataFrame:
        """The removed events as a table: one row each, in order, with what the model says once it is gone too."""
        import pandas

        rows = [
            {
                "event": step.event.row,
                "src": step.event.src,
                "dst": step.event.dst,
                "time": step.event.time,
                "before": self.query.time - step.event.time,
                "logit": step.logit,
                "score": None if step.logit is None else probability(step.logit),
                "predicted": None if step.logit is None else step.logit > 0,
            }
            for step in self.steps
        ]
        columns = ["event", "src", "dst", "time", "before", "logit", "score", "predicted"]
        return pandas.DataFrame(rows, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        document = {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "is_counterfactual": self.is_counterfactual,
            "is_minimal": self.is_minimal,
            "sentence": self.sentence,
        }
        document |= {field.name: getattr(self, field.name) for field in fields(self)}
        document["query"] = self.query._asdict()
        document["candidates"] = [event._asdict() for event in self.candidates]
        document["confirmed"] = None if self.confirmed is None else self.confirmed._asdict()
        return document

    def to_json(self) -> str:
        """One line of JSON, with the version of its form. Unprintable characters are escapes."""
        return to_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """What `to_json` wrote."""
        try:
            document = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"this is no explanation: not JSON ({error})") from None
        return cls.from_dict(document)

    @classmethod
    def from_dict(cls, document: Any) -> Explanation:
        """What `to_dict` made."""
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            raise DataError(_schema_error(schema))
        try:
            made = cls(**{field.name: _read_field(field.name, document[field.name]) for field in fields(cls)})
            _check(made)
        except KeyError as error:
            raise DataError(f"this explanation is damaged: {error} is missing") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"this explanation is damaged: {error}") from None
        return made

    def __repr__(self) -> str:
        scores = " → ".join(shown(logit)[1] for logit in (self.original, self.without))
        return (
            f"Explanation({_link(self.src, self.dst)}: {self.verdict}, "
            f"{len(self.removed)} of {len(self.candidates)} events removed, score {scores})"
        )

    def __str__(self) -> str:
        lines = [self.question, self.sentence]
        for number, (event, logit) in enumerate(self.steps):
            happened = f"{_link(event.src, event.dst)}, {earlier(event.time, self.query.time)} before"
            start = "and without" if number else "without"
            lines.append(f"  {start} event {event.row}, {happened}: score {shown(logit)[1]}")
        return "\n".join(line for line in [*lines, self.certainty, self.effort, self.protection] if line)

    def _repr_html_(self) -> str:
        """The sentence, and the difference it makes, in a notebook."""
        return "".join(self._html())

    def _html(self) -> Iterator[str]:
        yield f"<p>{html.escape(self.question)}</p><p><b>{html.escape(self.sentence)}</b></p>"
        if self.removed:
            head = ("without", "link", "when", "before", "logit", "score", "predicted")
            yield "<table><thead>" + _row(*head, tag="th") + "</thead><tbody>"
            yield _row("(none)", "", "", "", *shown(self.original))
            for number, (event, logit) in enumerate(self.steps):
                times = (moment(event.time), earlier(event.time, self.query.time))
                yield _row(f"{'+ ' if number else ''}{event.row}", _link(event.src, event.dst), *times, *shown(logit))
            yield "</tbody></table>"
        yield f"<p><small>{html.escape(f'{self.certainty} {self.effort} {self.protection}')}</small></p>"


NUMBERS = {0, 4, 5}  # columns of the table


def shown(logit: float | None) -> tuple[str, str, str]:
    """A logit, its score and the decision, as a table shows them."""
    return ("–", "–", "–") if logit is None else (f"{logit:.3f}", f"{probability(logit):.2f}", decision(logit))


def _row(*cells: str, tag: str = "td") -> str:
    sides = ["right" if column in NUMBERS else "left" for column in range(len(cells))]
    style = "padding: 0.1em 0.8em; text-align: {}"
    made = (
        f'<{tag} style="{style.format(side)}">{html.escape(cell)}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(made)}</tr>"


Item = TypeVar("Item")
First = TypeVar("First")
Second = TypeVar("Second")
Part = TypeVar("Part", Query, Event, Confirmation)


def _read_field(name: str, value: Any) -> Any:
    try:
        return READERS[name](value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not text")
    value.encode()  # refuses half a character, which nothing can print
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


def _finite(value: Any) -> float:
    try:
        number = float("nan") if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, OverflowError):
        number = float("nan")
    if not math.isfinite(number):
        raise ValueError(f"{_shown(value)} is not a finite number")
    return number


def _row_number(value: Any) -> int:
    return _whole(value, bits=63)


def _seed(value: Any) -> int:
    return _whole(value, bits=10_000)  # as many as can be printed


def _whole(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value.bit_length() > bits:
        raise ValueError(f"{_shown(value)} is not a whole number from 0 to 2^{bits} - 1")
    return value


def _tuple_of(read: Callable[[Any], Item]) -> Callable[[Any], tuple[Item, ...]]:
    def read_all(value: Any) -> tuple[Item, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{_shown(value)} is not a list")
        return tuple(map(read, value))

    return read_all


def _or_none(read: Callable[[Any], Item]) -> Callable[[Any], Item | None]:
    return lambda value: None if value is None else read(value)


def _named_tuple(part: type[Part]) -> Callable[[Any], Part]:
    readers = {name: READERS_OF_TYPES[kind] for name, kind in get_type_hints(part).items()}

    def read(value: Any) -> Part:
        if not isinstance(value, dict) or set(value) != set(readers):
            raise ValueError(f"{_shown(value)} is not an object of {', '.join(readers)}")
        return part(**{name: read_value(value[name]) for name, read_value in readers.items()})

    return read


def _pair(first: Callable[[Any], First], second: Callable[[Any], Second]) -> Callable[[Any], tuple[First, Second]]:
    def read(value: Any) -> tuple[First, Second]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"{_shown(value)} is not a pair")
        return first(value[0]), second(value[1])

    return read


def _parameters(value: Any) -> dict[str, Any]:
    """Anything that JSON can hold, but what was protected must be what we print."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not an object")
    to_json(value)  # refuses infinities, wherever they stand
    protect = value.get("protect")
    if protect is not None:
        if not isinstance(protect, dict):
            raise ValueError(f"protect is {_shown(protect)}, not an object")
        _tuple_of(_row_number)(protect.get("events", []))
        _tuple_of(_text)(protect.get("nodes", []))
        _tuple_of(_pair(_finite, _finite))(protect.get("times", []))
    return value


def _shown(value: Any) -> str:
    return plain(repr(value))


READERS_OF_TYPES: dict[Any, Callable[[Any], Any]] = {int: _row_number, float: _finite, str: _text}
READERS: dict[str, Callable[[Any], Any]] = {
    "query": _named_tuple(Query),
    "src": _text,
    "dst": _text,
    "event": _or_none(_row_number),
    "candidates": _tuple_of(_named_tuple(Event)),
    "removed": _tuple_of(_row_number),
    "logits": _tuple_of(_or_none(_finite)),
    "ended": _text,
    "factual": _flag,
    "iterations": _row_number,
    "evaluations": _row_number,
    "seconds": _finite,
    "confirmed": _or_none(_named_tuple(Confirmation)),
    "without_all": _or_none(_finite),
    "parameters": _parameters,
    "seed": _seed,
    "model": _text,
    "data": _text,
    "explored": _tuple_of(_pair(_tuple_of(_row_number), _finite)),
}


def _check(made: Explanation) -> None:
    """Refuse a document whose parts do not belong together."""
    if len(set(made.removed)) < len(made.removed) or len(made.logits) != len(made.removed) + 1:
        raise ValueError("the removed events and their logits do not belong together")
    if made.logits[0] is None:
        raise ValueError("the logit with nothing removed is missing")
    made.steps  # noqa: B018  (every removed event is a candidate)


def _link(src: str, dst: str) -> str:
    return f"{plain(src, 24)} → {plain(dst, 24)}"


def _schema_error(schema: object) -> str:
    family, _, version = str(schema).rpartition("/")
    if family == SCHEMA.rpartition("/")[0] and version.isdecimal():
        return f"this explanation has the form {schema!r}; this version of CoDy reads {SCHEMA!r}: upgrade it"
    return f"this is no explanation: its schema is {plain(schema)!r}, not {SCHEMA!r}"
