"""One explanation of an evaluation, as the numbers that metrics are made of, and the document that they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from cody.errors import BudgetError, CallError, CodyError, DataError, first_line
from cody.explaining.document import (
    WHAT,
    ExplanationDocument,
    Kind,
    decision_in_part,
    events_of,
    explanation_of,
    read_document,
)
from cody.explaining.explanation import REMOVED, Event, Explanation
from cody.explaining.upgrade import RecordOf02
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import Decision, InTop
from cody.models.margins import flips
from cody.utils.forms import Count, Form, as_line, damaged, parse
from cody.utils.words import count

KINDS = ("correct", "incorrect")
REMOVALS = ("removals",)  # the only kind of edit in the paper, and in records that name none

OF_EVALUATION = ("data", "model", "explainer", "search", "policy", "options", "kind", "only", "version")
OF_EXPLANATION = ("ended", "iterations", "evaluations", "seed")

Document = ExplanationDocument | RecordOf02
Key = tuple[str, str, int]  # what a record is about: explainer, kind, event


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """X = the events of the explanation. Logits are exact answers of the model, as margins of the decision."""

    data: str  # names, as the user gave them
    model: str
    explainer: str  # its name, from the catalogue or chosen by the user
    search: str  # what it is made of, as `cody.study.explainers.name_of` calls it
    policy: str
    options: dict[str, Any]  # of search, policy and candidates
    kind: str  # of the prediction: "correct" or "incorrect"
    event: int  # row of the explained link
    candidates: int  # how many events X could have been made of
    rows: tuple[int, ...]  # X, in the order of the explainer; without what is imagined
    original: float  # logit with nothing changed
    without: float  # logit without X
    only: float  # logit when the past consists of X only
    ended: str  # why the search ended, in a word of cody.search.result; whether X is a counterfactual: `is_necessary`
    iterations: int
    evaluations: int  # distinct sets that the explainer evaluated
    first: int | None  # how many of them up to the first that flips the decision; None: no such set
    seconds: float | None  # wall time, without verification and `only`; None: it shared answers with other explainers
    seed: int
    model_identity: str
    data_identity: str
    version: str  # of this package
    imagined: tuple[Event, ...] = ()  # the rest of X: events that were added, moved or altered; their row is 0
    decision: Decision = LINK_PREDICTED  # what is decided; `original`, `without` and `only` are its margins
    subject: str = "link"  # what it is decided on: a link, or an event or node that is labelled
    rank: int | None = None  # where the decision is about a ranking: the rank with nothing changed
    rank_after: int | None = None  # and without X
    document: Document | None = field(default=None, compare=False, repr=False)  # None: it was not kept

    @property
    def sparsity(self) -> float:
        """|X| / |C|, both in edits; 0 where there is nothing that may be changed."""
        return self.size / self.candidates if self.candidates else 0.0

    @property
    def size(self) -> int:
        """|X|: how many edits."""
        return len(self.rows) + len(self.imagined)

    @property
    def changes(self) -> frozenset[Hashable]:
        """X as something that can be compared."""
        return frozenset([*self.rows, *self.imagined])

    @property
    def allowed(self) -> tuple[str, ...]:
        """Which kinds of edits the explainer could choose from. Records that do not say so knew removals only."""
        return tuple(map(str, self.options.get("edits") or REMOVALS))

    @property
    def factual(self) -> bool:
        """Whether X names what speaks for the decision, whether or not it changes without X."""
        return isinstance(self.document, ExplanationDocument) and self.document.factual

    @property
    def is_necessary(self) -> bool:
        """Fidelity+ of one link: the decision changes without X."""
        return flips(self.original, self.without)

    @property
    def is_sufficient(self) -> bool:
        """Fidelity- of one link: the decision stays when the past consists of X only."""
        return not flips(self.original, self.only)

    def score(self, margin: float) -> float | None:
        """The probability that a margin stands for; None if it stands for none."""
        return self.decision.score(margin)

    @property
    def explanation(self) -> Explanation:
        """The explanation itself, if it is known."""
        if not isinstance(self.document, ExplanationDocument):
            why = "CoDy 0.2 wrote it, or only its numbers were read"
            raise CallError(f"the explanation of event {self.event} is not in this record: {why}")
        return explanation_of(self.document)

    def to_json(self) -> str:
        """The document, in one line."""
        assert isinstance(self.document, ExplanationDocument)  # what is written was explained just now
        return as_line(self.document)

    @classmethod
    def from_json(cls, line: str) -> Record:
        """What `to_json` wrote."""
        return record_of(read_document(parse(line, WHAT)))


def key_of(entry: Record | Failure) -> Key:
    """What a line of an evaluation is about."""
    return entry.explainer, entry.kind, entry.event


def record_of(form: ExplanationDocument) -> Record:
    """What a document of an evaluation says, as numbers."""
    part, original, without = form.evaluation, form.logits[0], form.logits[-1]
    if part is UNSET:
        raise DataError("this is an explanation, not a record: cody evaluate and cody survey write records")
    if form.event is None or original is None or without is None:
        raise damaged(WHAT, "it is not of an evaluation: its event or a logit is missing")
    edits = {event.row: event for event in events_of(form.candidates) if event.edit != REMOVED}
    flipping = (number for number, logit in enumerate(form.evaluated.logits, start=1) if flips(original, logit))
    decision = LINK_PREDICTED if form.decision is UNSET else decision_in_part(form.decision, form.dst)
    standings = (form.standings or ()) if isinstance(decision, InTop) else ()
    ranks = [None if each is None else each.rank for each in standings]
    return Record(
        **{name: getattr(part, name) for name in OF_EVALUATION},
        **{name: getattr(form, name) for name in OF_EXPLANATION},
        event=form.event,
        candidates=len(form.candidates.row),
        rows=tuple(row for row in form.rows if row not in edits),
        imagined=tuple(edits[row]._replace(row=0, carries="") for row in form.rows if row in edits),
        original=original,
        without=without,
        first=next(flipping, None),
        seconds=None if part.shared else form.seconds,
        model_identity=form.model,
        data_identity=form.data,
        decision=decision,
        subject=form.subject or "link",
        rank=ranks[0] if ranks else None,
        rank_after=ranks[-1] if ranks else None,
        document=form,
    )


def record_of_0_2(old: RecordOf02) -> Record:
    """A record of CoDy 0.2, which kept numbers only."""
    names = [name for name in RecordOf02.__struct_fields__ if name not in ("imagined", "sees_before")]
    imagined = tuple(Event(0, one.src, one.dst, one.time, one.edit, one.replaces, one.was) for one in old.imagined)
    record = Record(**{name: getattr(old, name) for name in names}, imagined=imagined, document=old)
    if len(record.changes) < record.size or record.size > record.candidates:
        different = f"{record.size} events, {len(record.changes)} different ones"
        raise damaged("a record", f"{different}, cannot be among {record.candidates} candidates")
    if max(record.rows, default=-1) >= record.event:
        raise damaged("a record", f"event {max(record.rows)} is not before event {record.event}")
    if (record.first or 0) > record.evaluations:
        raise damaged("a record", f"first is {record.first} of {record.evaluations} evaluations")
    return record


# A prediction that could not be explained: it is recorded with its reason, and the run continues.

FAILURE = "cody/failure/2"
NOT_OF_A_LINK = (CallError, DataError, BudgetError, MemoryError, OSError)  # errors that the next link would get too
NOTHING_WORKS = 5  # links that fail before any is explained: then the model does not work at all


class Failure(Form, frozen=True, kw_only=True, tag_field="schema", tag=FAILURE):
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
