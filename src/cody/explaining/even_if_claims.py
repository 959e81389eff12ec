"""The claims of an even-if document, checked by whoever has the data and the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

import msgspec
import numpy as np

from cody.errors import CallError, CodyError
from cody.explaining.claims import CONTRADICTED, NOT_CHECKED, Claim, Replays, checked, evenly, unlike
from cody.explaining.document import DecisionPart, decision_in_part
from cody.explaining.even_if import EvenIf, Missing, Question, suffixes, units_among
from cody.explaining.pipeline import check_explainable
from cody.explaining.verification import reference_logit
from cody.graph import Query, TemporalGraph
from cody.models.contract import Change, Model, as_seen, subject_of
from cody.models.decided import check_named, decide, decision_in, subject_of_decision
from cody.models.decision import DecidedBy, Decision
from cody.models.margins import flips
from cody.search.proposals import removals
from cody.search.space import NearUnits, build_space, written_units
from cody.utils.words import count, sanitize

NOTHING: Change = frozenset()
MOST_SETS = 100_000  # that are listed, of which some are drawn


class _NotInDocumentError(CallError):
    """A document cannot hold a function, so what depends on it cannot be checked."""


def verify_even_if(
    found: EvenIf, model: Model, graph: TemporalGraph, belongs: Sequence[Claim], replays: Replays
) -> Iterator[Claim]:
    """Check every claim of an even-if answer.

    Args:
        found: The answer.
        model: The model that it is about.
        graph: The log of events.
        belongs: Whether these are the events and the model that it is about.
        replays: How many sets to replay for each proof.
    """
    yield from belongs
    if any(claim.status == CONTRADICTED for claim in belongs):
        yield Claim("scores", NOT_CHECKED, "the document is about other data or another model")
        return
    try:
        replay = _Kept.of(found, model, graph, replays.decision)
    except _NotInDocumentError as error:
        yield Claim("scores", NOT_CHECKED, str(error))
        return
    except (CodyError, ValueError, TypeError) as error:
        yield Claim("the question", CONTRADICTED, sanitize(str(error), 200))
        return
    yield checked("the question and its words", list(_other_words(found, replay)), found.stated)
    faults = unlike(found.original, replay.margin(NOTHING))
    yield checked("score with nothing changed", faults, f"{found.original:.5f}")
    yield from _missing(found, replay)
    yield from _proofs(found, replay, replays)
    yield Claim("budget and how the search ended", NOT_CHECKED, "rerun cody explain --even-if to repeat it")


@dataclass(frozen=True, slots=True)
class _Kept:
    """The reference implementation of the decision, and the events that the candidates of a document stand for."""

    question: Question
    thing: str  # what a candidate is called
    known: dict[Change, float] = field(default_factory=dict)

    @classmethod
    def of(cls, found: EvenIf, model: Model, graph: TemporalGraph, decision: Decision | None) -> _Kept:
        query = graph.query_at(found.src, found.dst, found.time) if found.event is None else graph.query(found.event)
        query = check_explainable(model, graph, query)
        if (graph.name(query.src), graph.name(query.dst), query.time) != (found.src, found.dst, found.time):
            raise CallError(f"event {found.event} is another {subject_of(model)}")
        if twice := _twice(found.candidates):
            raise CallError(f"event {twice[0]} stands twice among the candidates")
        later = [row for row in found.candidates if row >= query.before]
        if later or not found.candidates:
            raise CallError(f"event {later[0]} is not a past event" if later else "it has no candidates")
        chosen = decision_in_part(msgspec.convert(found.decision, DecisionPart), found.dst)
        if isinstance(chosen, DecidedBy) and decision is None:
            raise _NotInDocumentError("the document does not hold the function that decides; pass it as decision=")
        chosen = chosen if decision is None else decision
        check_named(model, query, chosen)
        decided = decide(model, graph, query, chosen)
        rows, near = np.array(found.candidates), _near(found, model, graph, query)
        units = {} if near is None else near.known_by(found.candidates)
        thing = graph.name_of_event() if near is None or near.kind is None else near.kind.noun(graph)
        space = build_space(graph, as_seen(model, graph, query), rows, len(rows), (removals,), None, units)
        about = subject_of_decision(model, chosen)
        return cls(Question(decided, query, space, decision_in(decided) or chosen, about, found.alone), thing)

    def margin(self, rows: Change) -> float:
        """Without these candidates."""
        if rows not in self.known:
            model, query, space, *_ = self.question
            self.known[rows] = reference_logit(model, query, space.change(rows), full=True)[0]
        return self.known[rows]

    def margin_of_kept(self, rows: Change) -> float:
        """Without the other candidates; where the document says so, with nothing else in the history."""
        question = self.question
        return question.margin_of_only(rows) if question.alone else self.margin(question.candidates - rows)

    def changes(self, margin: float) -> bool:
        return flips(self.margin(NOTHING), margin)


def _near(found: EvenIf, model: Model, graph: TemporalGraph, query: Query) -> NearUnits | None:
    """The units that the candidates stand for; None: they are single events."""
    if not found.units:
        return None
    near = written_units(found.parameters, model, graph, query)
    if near is None:
        raise _NotInDocumentError("its units were made by a function, which a document cannot hold")
    return near


def _twice(rows: Sequence[int]) -> list[int]:
    """The rows that stand there more than once."""
    return [row for row, number in Counter(rows).items() if number > 1]


def _other_words(found: EvenIf, replay: _Kept) -> Iterator[str]:
    """What the document says of the link and of its candidates that does not follow from the log and the numbers."""
    question = replay.question
    parts = [part.rows for part in (found.missing, found.latest, found.unit) if part]
    parts += [found.kept_rows, found.decisive or ()]
    yield from (f"event {row} stands twice" for rows in parts for row in _twice(rows))
    named = frozenset().union(*parts)
    yield from (f"event {row} is not a candidate" for row in sorted(named - question.candidates))
    if named - question.candidates:
        return
    follows = question.what_follows(None if found.kept is None else found.kept_rows, found.decisive)
    follows |= {"thing": replay.thing, "subject": question.about}
    for name, again in follows.items():
        if getattr(found, name) != again:
            yield f"{name} is {getattr(found, name)!r}, but {again!r} follows"


def _missing(found: EvenIf, replay: _Kept) -> Iterator[Claim]:
    """Whether the decision stands without what could be missing, and changes without what is decisive."""
    question, space = replay.question, replay.question.space
    if found.kept is not None:
        kept = frozenset(found.kept_rows)
        faults = unlike(found.only or 0.0, question.margin_of_only(kept))
        yield checked("score with nothing but the kept ones", faults, f"{found.only or 0.0:.5f}")
        if found.missing is not None:
            same = frozenset(found.missing.rows) == (question.candidates - kept if question.gone(kept) else NOTHING)
            faults = [] if same else ["it is not all other candidates"]
            yield _stands("all others could be missing", found.missing, replay.margin_of_kept(kept), replay, faults)
    if found.latest is not None and found.since is None:
        yield Claim("everything since then could be missing", CONTRADICTED, "it does not say since when")
    if found.latest is not None and found.since is not None:
        since = space.rows[space.graph.time[space.rows] >= found.since]
        faults = [] if frozenset(since.tolist()) == frozenset(found.latest.rows) else ["these are not all since then"]
        margin = replay.margin(frozenset(found.latest.rows))
        yield _stands("everything since then could be missing", found.latest, margin, replay, faults)
    if found.unit is not None:
        rows = frozenset(found.unit.rows)
        known = (name for name, change in units_among(space, question.query) if change == rows)
        faults = [] if found.unit.name in known else [f"these are not the candidates of {found.unit.name}"]
        yield _stands(f"{found.unit.name} could be missing", found.unit, replay.margin(rows), replay, faults)
    if found.decisive is not None:
        margin = replay.margin(frozenset(found.decisive))
        faults = [] if replay.changes(margin) else [f"{margin:.5f} is the same decision"]
        yield checked(f"removing {count(len(found.decisive), found.thing)} changes it", faults, f"{margin:.5f}")


def _stands(about: str, part: Missing, margin: float, replay: _Kept, faults: list[str]) -> Claim:
    faults = [*faults, *unlike(part.margin, margin)]
    faults += [f"{margin:.5f} is another decision"] if replay.changes(margin) else []
    return checked(about, faults, f"{margin:.5f}")


def _proofs(found: EvenIf, replay: _Kept, replays: Replays) -> Iterator[Claim]:
    """What is proven: that no small removal changes the decision, and that no smaller kept set suffices."""

    def of_all(about: str, every: list[Change], contradicts: Callable[[Change], bool]) -> Claim:
        chosen = every if replays.sets is None else evenly(every, min(replays.sets, len(every)))
        faults_of = lambda rows: [f"{sorted(rows)} contradicts it"] if contradicts(rows) else []  # noqa: E731
        return replays.claim(about, chosen, len(every), faults_of)

    if found.robust:
        about = f"no removal of at most {count(found.robust, found.thing)} changes it"
        yield of_all(about, _sets_up_to(found.robust, replay), lambda rows: replay.changes(replay.margin(rows)))
    if found.smallest and found.kept:
        about, smaller = f"no smaller set than {count(len(found.kept), found.thing)} suffices", len(found.kept) - 1
        enough = lambda rows: not replay.changes(replay.margin_of_kept(rows))  # noqa: E731
        yield of_all(about, _sets_up_to(smaller, replay), enough)
    units = [rows for _, rows in units_among(replay.question.space, replay.question.query)]
    since, unit = (
        "not everything since an earlier time could be missing",
        "no larger pair, node or day could be missing",
    )
    for about, part, proven, every in (
        (since, found.latest, found.latest_is_largest, suffixes(replay.question.space)),
        (unit, found.unit, found.unit_is_largest, units),
    ):
        larger = [rows for rows in every if len(rows) > (0 if part is None else len(part.rows))]
        if proven and larger:
            yield of_all(about, larger, lambda rows: not replay.changes(replay.margin(rows)))


def _sets_up_to(largest: int, replay: _Kept) -> list[Change]:
    """All sets of at most some number of candidates; of each size, no more than can be listed."""
    rows = replay.question.space.rows.tolist()
    return [frozenset(some) for size in range(largest + 1) for some in islice(combinations(rows, size), MOST_SETS)]
