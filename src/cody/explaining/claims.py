"""The claims of an explanation document, checked by whoever has the data and the model.

Everything that a document states about the model is computed once more by the reference implementation, from the first
event on, and everything that follows from its other parts is derived once more. Each claim is confirmed, contradicted,
or not checked, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError, CodyError
from cody.explaining.document import DERIVED, ExplanationDocument, document_of, explanation_of, read_document
from cody.explaining.even_if import SCHEMA as EVEN_IF
from cody.explaining.even_if import EvenIf
from cody.explaining.explanation import Event, Explanation, Recourse, Verification
from cody.explaining.pipeline import event_with_features, scope_of, surroundings_of
from cody.explaining.verification import differ, edit_of, is_a_verification, reference_logit, with_imagined
from cody.explaining.wording import subject
from cody.graph import Query, TemporalGraph, check_query
from cody.graph.edits import ADDED, REMOVED, Add, Move
from cody.models.contract import NOTHING, Change, Model, event_of_query, identity_of, logit_of_only, model_on
from cody.models.decided import check_named, decide, standings_of, subject_of_decision
from cody.models.decision import DecidedBy, Decision, InTop, Standing
from cody.models.margins import flips
from cody.search.space import NearUnits, written_units
from cody.utils.forms import parse
from cody.utils.signatures import readable_help
from cody.utils.words import count, from_to, sanitize

CONFIRMED, CONTRADICTED, NOT_CHECKED = STATUSES = ("confirmed", "contradicted", "not checked")
SETS = 20  # evaluated sets that are replayed by default

Watch = Callable[[int, int], None]  # how many sets were replayed, of how many


class Claim(NamedTuple):
    """One statement of a document, and what became of it."""

    about: str
    status: str  # CONFIRMED, CONTRADICTED or NOT_CHECKED
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """What checking a document showed, claim by claim."""

    claims: tuple[Claim, ...]

    @property
    def is_confirmed(self) -> bool:
        """Whether something was checked, and nothing was contradicted."""
        statuses = {claim.status for claim in self.claims}
        return CONFIRMED in statuses and CONTRADICTED not in statuses

    @property
    def sentence(self) -> str:
        """How many claims were confirmed, contradicted and not checked."""
        numbers = {status: sum(claim.status == status for claim in self.claims) for status in STATUSES}
        return ", ".join(f"{number} {status}" for status, number in numbers.items() if number) + "."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"confirmed": self.is_confirmed, "claims": [claim._asdict() for claim in self.claims]}

    def __str__(self) -> str:
        details = [f" ({claim.detail})" if claim.detail else "" for claim in self.claims]
        lines = (f"{claim.status}: {claim.about}{detail}" for claim, detail in zip(self.claims, details, strict=True))
        return "\n".join([*lines, self.sentence])


@readable_help
def verify_explanation(
    document: Explanation | EvenIf | dict[str, Any] | str,
    model: Model,
    graph: TemporalGraph,
    *,
    sets: int | None = SETS,
    decision: Decision | None = None,
    watch: Watch | None = None,
    beginning_of: str | None = None,
) -> ClaimReport:
    """Check every claim of an explanation against the data and the model that it names.

    Args:
        document: What `to_json()` of an explanation or of an even-if answer wrote, as text or as plain data; or one
            of these.
        model: The model that was explained.
        graph: The log of events.
        sets: How many of the evaluated sets to replay; the smallest ones, on which proofs rest, come first. None: all.
        decision: What `cody.decided_by` was given, which a document cannot hold.
        watch: Called with the number of sets replayed so far, and in total.
        beginning_of: The identity of the whole log, where `graph` is only its beginning, up to the link.

    Returns:
        The claims, each confirmed, contradicted or not checked.

    Raises:
        DataError: The document is damaged: it cannot be read, or its checksum does not match.

    >>> from cody.explaining.pipeline import explain
    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> model = ToyModel(graph, weights=[1, 2, -1, 0])
    >>> report = verify_explanation(explain(model, graph, graph.query(3)), model, graph)
    >>> report.is_confirmed
    True
    """
    plain = parse(document, "an explanation") if isinstance(document, str) else document
    plain = plain if isinstance(plain, dict) else plain.to_dict()
    if plain.get("schema") == EVEN_IF:
        from cody.explaining.even_if_claims import verify_even_if  # which builds on this module

        found = EvenIf.from_dict(plain)
        belongs = _belongs(found, model, graph, beginning_of)
        return ClaimReport(tuple(verify_even_if(found, model, graph, belongs, Replays(sets, decision, watch))))
    form = read_document(plain)
    belongs = _belongs(form, model, graph, beginning_of)
    return ClaimReport(tuple(_claims(form, model, graph, belongs, Replays(sets, decision, watch))))


def _claims(
    form: ExplanationDocument, model: Model, graph: TemporalGraph, belongs: Sequence[Claim], replays: Replays
) -> Iterator[Claim]:
    why = explanation_of(form)
    yield from _derived(form, why)
    why = why if belongs[0].status == CONFIRMED else numbered_after(why, graph.num_events)
    yield from belongs
    about_log = [_link(why, graph), _candidates(why, graph), *(_units(why, model, graph) if why.units else ())]
    about_log += [*_impossible_decision(why, model, graph), *_whose(why)]
    yield from about_log
    if any(claim.status == CONTRADICTED for claim in [*belongs, *about_log]):
        other = f"the document is about other data, another model or another {why.subject}"
        yield Claim("scores and flips", NOT_CHECKED, other)
        return
    try:
        replay = _Checker.of(why, model, graph, replays.decision)
    except CodyError as error:
        yield Claim("scores and flips", NOT_CHECKED, str(error))
        return
    yield _surroundings(why, replay)
    if why.recourse is not None:
        yield _now(why, why.recourse, replay)
    yield from _answer(form, why, replay)
    yield _evaluated(why, replay, replays)
    yield from _also(why, replay)


@dataclass(frozen=True, slots=True)
class _Checker:
    """The reference implementation of the decision that a document is about, on the log with its imagined events."""

    model: Model
    graph: TemporalGraph
    base: TemporalGraph  # the log without anything imagined
    query: Query
    plain: Model  # the model itself, on the log without anything imagined
    decision: Decision
    known: dict[Change, tuple[float, str]] = field(default_factory=dict)  # the margin, and how it was computed

    @classmethod
    def of(cls, why: Explanation, model: Model, graph: TemporalGraph, decision: Decision | None) -> _Checker:
        chosen = why.decision if decision is None else decision
        if isinstance(chosen, DecidedBy) and chosen.function is None:
            raise CallError("the document does not hold the function that decides; pass it as decision=")
        longer = with_imagined(graph, why)
        moved = model if longer is graph else model_on(model, longer)
        return cls(decide(moved, longer, why.query, chosen), longer, graph, why.query, model, chosen)

    def margin(self, change: Change) -> float:
        if change not in self.known:
            self.known[change] = reference_logit(self.model, self.query, change, full=True)
        return self.known[change][0]

    def words(self, change: Change, by: str) -> list[str]:
        """What is wrong with the words for how a change was verified; empty if nothing is."""
        self.margin(change)
        known = by == self.known[change][1] or is_a_verification(by, self.query.before)
        return [] if known else [f"nothing is verified {by!r}"]

    def fault(self, change: Change, claimed: float) -> list[str]:
        """How the margin of a change contradicts a document; empty if it does not."""
        return other_margin(claimed, self.margin(change))


class Replays(NamedTuple):
    """How claims are replayed."""

    sets: int | None  # of a claim about many of them; None: all
    decision: Decision | None  # what `cody.decided_by` was given, which a document cannot hold
    watch: Watch | None  # called with the number of sets replayed so far, and in total

    def claim(self, about: str, chosen: Sequence[Any], of: int, faults_of: Callable[[Any], list[str]]) -> Claim:
        """A claim about many sets, by those that are chosen of them.

        Args:
            about: The claim.
            chosen: The sets to replay.
            of: How many sets the claim is about.
            faults_of: What speaks against it in one of them.
        """
        if not chosen:
            return Claim(about, NOT_CHECKED, f"none of {of:,} sets was replayed")
        faults: list[str] = []
        for number, some in enumerate(chosen, start=1):
            faults += faults_of(some)
            if self.watch is not None:
                self.watch(number, len(chosen))
        return checked(about, faults, f"{len(chosen):,} of {of:,} sets replayed")


def _belongs(
    found: ExplanationDocument | EvenIf, model: Model, graph: TemporalGraph, beginning_of: str | None
) -> list[Claim]:
    """Whether data and model are those that a document names; of the beginning of a log, that cannot be known."""
    data = _same("the data", found.data, graph.identity if beginning_of is None else beginning_of)
    if beginning_of == found.data:
        begins = f"the first {count(graph.num_events, graph.name_of_event())} of {found.data}"
        data = Claim("the data", NOT_CHECKED, f"supposedly {begins}; --data compares them with the log")
    return [data, _same("the model", found.model, identity_of(model))]


def _same(what: str, claimed: str, found: str) -> Claim:
    return Claim(what, *((CONFIRMED, found) if claimed == found else (CONTRADICTED, f"it is {found}, not {claimed}")))


def unlike(claimed: float, found: float) -> list[str]:
    """What is wrong with a number of a document; empty if nothing is but rounding."""
    return [f"{found:.5f}, not {claimed:.5f}"] if differ(claimed, found) else []


def other_margin(claimed: float, found: float) -> list[str]:
    """What is wrong with a margin of a document: it differs by more than rounding, or decides otherwise."""
    return [f"{found:.5f}, not {claimed:.5f}"] if differ(claimed, found) or flips(claimed, found) else []


def checked(about: str, faults: Sequence[str], confirmed: str = "") -> Claim:
    """A claim that is contradicted by the first of its faults, if there are any.

    Args:
        about: The claim.
        faults: What speaks against it.
        confirmed: What is said if nothing does.
    """
    return Claim(about, CONTRADICTED, sanitize(faults[0], 200)) if faults else Claim(about, CONFIRMED, confirmed)


def numbered_after(why: Explanation, events: int) -> Explanation:
    """The explanation with its imagined events numbered as in a log of so many events, such as that of a bundle.

    Args:
        why: The explanation.
        events: How many events the log has.
    """
    imagined = [event.row for event in why.candidates if event.edit != REMOVED]
    by = min(imagined, default=events) - events
    if by <= 0:
        return why
    number = {row: row - by for row in imagined}

    def moved(rows: Sequence[int]) -> tuple[int, ...]:
        return tuple(number.get(row, row) for row in rows)

    return replace(
        why,
        candidates=tuple(event._replace(row=number.get(event.row, event.row)) for event in why.candidates),
        rows=moved(why.rows),
        evaluated=tuple((moved(rows), logit) for rows, logit in why.evaluated),
        alternatives=tuple(other._replace(rows=moved(other.rows)) for other in why.alternatives),
    )


# What follows from the document itself, and from the log


def _derived(form: ExplanationDocument, why: Explanation) -> Iterator[Claim]:
    """Statements that are written for whoever only reads: they must follow from the rest."""
    again = document_of(why)
    wrong = [name for name in (*DERIVED, "remarks") if getattr(form, name) != getattr(again, name)]
    faults = [f"{name} is {getattr(form, name)!r}, but {getattr(again, name)!r} follows" for name in wrong]
    yield checked("conclusions fit the numbers", faults, why.verdict)


def _link(why: Explanation, graph: TemporalGraph) -> Claim:
    query, faults = why.query, []
    try:
        check_query(graph, query)
        names = graph.name(query.src), graph.name(query.dst)
        faults += [] if names == (why.src, why.dst) else [f"its nodes are {names[0]!r} and {names[1]!r}"]
        row = event_of_query(graph, query)
        faults += [] if why.event == row else [f"the log has it as event {row}, not {why.event}"]
        label = None if row is None or why.label is None else graph.label_of(row)
        faults += [] if label in (None, why.label) else [f"its label in the log is {label!r}, not {why.label!r}"]
    except CodyError as error:
        faults.append(str(error))
    return checked(f"the {why.subject}", faults, subject(why))


def _candidates(why: Explanation, graph: TemporalGraph) -> Claim:
    """Whether the events that may change are those of the log, and imagined ones are numbered after them."""
    try:
        longer = with_imagined(graph, why)
        faults = [fault for event in why.candidates for fault in _differences(event, longer, why.query)]
    except CodyError as error:
        faults = [str(error)]
    return checked("candidates are events of the log", faults, count(len(why.candidates), "candidate"))


def _differences(event: Event, graph: TemporalGraph, query: Query) -> Iterator[str]:
    if event.row >= graph.num_rows or (event.edit == REMOVED and event.row >= query.before):
        yield f"event {event.row} is not a past event"
    elif event != (found := event_with_features(graph, event.row)):
        wrong = next(name for name in event._fields if getattr(event, name) != getattr(found, name))
        yield f"{wrong} of event {event.row} is {getattr(found, wrong)!r}, not {getattr(event, wrong)!r}"


def _units(why: Explanation, model: Model, graph: TemporalGraph) -> Iterator[Claim]:
    """Whether units have their names, times and all their events, as the log has them."""
    about, faults = f"each {why.unit_name or 'event'} with its events", []
    for unit in why.units:
        if not unit.rows or max(unit.change) >= why.query.before:
            faults.append(f"{unit.name or unit.row} has events that are not past ones")
        elif (unit.first, unit.last) != (graph.time[min(unit.rows)], graph.time[max(unit.rows)]):
            faults.append(f"{unit.name or unit.row} has other times")
    faults += [fault for event in why.unit_events for fault in _differences(event, graph, why.query)]
    try:
        near = written_units(why.parameters, model, graph, why.query)
        noun = "unit" if near is None else "" if near.kind is None else near.kind.noun(graph)
        faults += [] if why.unit_name == noun else [f"its candidates are called {noun!r}, not {why.unit_name!r}"]
        faults += [] if near is None else _other_units(why, near)
    except (CodyError, TypeError, ValueError) as error:  # settings that somebody has changed
        faults.append(str(error))
    yield checked(about, faults, count(len(why.units), "unit"))
    if not faults and near is None:
        yield Claim("units are complete", NOT_CHECKED, "they were made by a function, which a document cannot hold")


def _other_units(why: Explanation, near: NearUnits) -> Iterator[str]:
    """How the units of a document differ from those of the log that the same rows stand for."""
    known = near.known_by([event.row for event in why.candidates if event.edit == REMOVED])
    claimed = {unit.row: unit for unit in why.units}
    for row in sorted(known.keys() | claimed.keys()):
        found, written = known.get(row), claimed.get(row)
        if found is None or written is None:
            yield f"event {row} {'stands' if written is None else 'does not stand'} for a unit"
        elif written.name != found.name:
            yield f"{written.name!r} is {found.name!r}"
        elif (written.rows, written.dependants) != (tuple(found.rows.tolist()), tuple(found.dependants.tolist())):
            yield f"{written.name or f'event {row}'} has other events in the log"


def _whose(why: Explanation) -> Iterator[Claim]:
    """Whether the candidates are what one node could do, where that is claimed, and as many on a day as it could."""
    actor, recourse, limit = why.parameters.get("actor"), why.recourse, why.daily_limit
    if actor is not None or recourse is not None:
        faults = [f"event {event.row} starts at {event.src!r}" for event in why.candidates if event.src != actor]
        if recourse is not None:
            faults += [] if recourse.actor == actor else [f"the actor is {actor!r}, not {recourse.actor!r}"]
            in_time = (event.edit == ADDED and recourse.since < event.time for event in why.candidates)
            faults += [] if all(in_time) else ["a candidate is no event that could still be added"]
        yield checked("candidates are what one node could do", faults, str(actor))
    if limit is not None:
        sets = [why.rows, *(other.rows for other in why.alternatives), *(rows for rows, _ in why.evaluated)]
        faults = [f"the set {list(rows)[:8]} has more" for rows in sets if not limit.allows(frozenset(rows))]
        yield checked(f"at most {limit.most} a day", faults)


def _now(why: Explanation, recourse: Recourse, replay: _Checker) -> Claim:
    """What is decided at the moment from which on a node could do something."""
    about = "score at the moment of the question"
    query = why.query._replace(time=recourse.since)
    try:
        if not recourse.since < why.query.time:
            raise CallError("that moment does not lie before the time of the link")
        check_query(replay.base, query)
        found = reference_logit(decide(replay.plain, replay.base, query, replay.decision), query, NOTHING, full=True)[0]
    except CodyError as error:
        return Claim(about, CONTRADICTED, str(error))
    row = event_of_query(replay.base, query)
    faults = other_margin(recourse.now, found)
    faults += [] if recourse.event == row else [f"the log has it as event {row}, not {recourse.event}"]
    return checked(about, faults, f"{found:.5f}")


def _impossible_decision(why: Explanation, model: Model, graph: TemporalGraph) -> list[Claim]:
    """What is wrong with a decision that nobody can make about this link, such as a rival that is not in the log."""
    faults = []
    try:
        if identity_of(model) == why.model:
            check_named(model, why.query, why.decision)
            about = subject_of_decision(model, why.decision)
            faults += [] if why.subject == about else [f"it is about the {about}, not about the {why.subject}"]
        ranked = 1 + len(why.decision.rivals(graph, why.query))
        if isinstance(why.decision, InTop) and why.decision.of != ranked:
            faults.append(f"{ranked:,} destinations are ranked, not {why.decision.of:,}")
    except CodyError as error:
        faults.append(str(error))
    return [checked("the decision", faults)] if faults else []


# What the reference implementation says


def _flip(about: str, change: Change, claimed_flip: Verification, replay: _Checker) -> Claim:
    """Whether a change flips the decision, from one margin to another."""
    before, after = replay.margin(NOTHING), replay.margin(change)
    faults = unlike(claimed_flip.original, before) + unlike(claimed_flip.without, after)
    faults += [] if flips(before, after) else [f"{before:.5f} and {after:.5f} are the same decision"]
    faults += replay.words(change, claimed_flip.by)
    return checked(about, faults, f"{before:.5f} → {after:.5f}")


def _answer(form: ExplanationDocument, why: Explanation, replay: _Checker) -> Iterator[Claim]:
    yield checked("score with nothing changed", replay.fault(NOTHING, why.original), f"{why.original:.5f}")
    if why.rows:
        yield _steps(why, replay)
    if why.is_counterfactual and why.verification is not None:
        yield _flip("the answer flips the decision", why.change, why.verification, replay)
    for number, other in enumerate(why.alternatives, start=1):
        yield _flip(f"alternative {number} flips it too", why.change_of(other.rows), other.verification, replay)
    if any(why.standings) or any(other.standing for other in why.alternatives):
        yield _standings(why, replay)
    if why.literal is not None:
        faults = replay.fault(why.change - why.along, why.literal)
        yield checked("score without dependants", faults, f"{why.literal:.5f}")
    if why.whole is not None:
        change = frozenset(why.whole.rows)
        faults = replay.fault(change, why.whole.logit) + replay.words(change, why.whole.by)
        yield checked(f"score without {why.whole.name}", faults, f"{why.whole.logit:.5f}")
    if why.without_all is not None:
        every = why.change_of(event.row for event in why.candidates)
        faults = replay.fault(every, why.without_all)
        yield checked("score with all candidates changed", faults, f"{why.without_all:.5f}")
    if form.evaluation:
        claimed, found = form.evaluation.only, logit_of_only(replay.model, replay.query, why.change)
        yield checked("score under these events alone", unlike(claimed, found), f"{found:.5f}")


def _steps(why: Explanation, replay: _Checker) -> Claim:
    """The scores along the answer, edit by edit; where there was no time, there is none."""
    claimed = [(why.rows[:length], logit) for length, logit in enumerate(why.logits) if length and logit is not None]
    wrong = ((len(rows), fault) for rows, logit in claimed for fault in replay.fault(why.change_of(rows), logit))
    faults = [f"after {count(length, 'edit')} it is {fault}" for length, fault in wrong]
    return checked("scores along the answer", faults, f"{count(len(claimed), 'score')} replayed")


def _standings(why: Explanation, replay: _Checker) -> Claim:
    """Ranks and class scores, by the model itself."""
    steps = [why.change_of(why.rows[:length]) for length in range(len(why.rows) + 1)]
    found = standings_of(replay.model, replay.query, steps, [why.change_of(other.rows) for other in why.alternatives])
    claimed = [*(why.standings or [None] * len(steps)), *(other.standing for other in why.alternatives)]
    pairs = zip(claimed, [*found.steps, *found.others], strict=True)
    faults = [f"{again}, not {written}" for written, again in pairs if not _alike(written, again)]
    return checked("ranks and scores behind it", faults, "computed by the model once more")


def _alike(claimed: Standing | None, found: Standing | None) -> bool:
    """Whether two standings agree, but for the last digits of scores."""
    if claimed is None or found is None:
        return claimed is found
    numbers = [(claimed.value or 0.0, found.value or 0.0)]
    numbers += [(one.score, other.score) for one, other in zip(claimed.leaders, found.leaders, strict=False)]
    names = [[leader.name for leader in each.leaders] for each in (claimed, found)]
    return claimed.rank == found.rank and names[0] == names[1] and not any(differ(*pair) for pair in numbers)


def _evaluated(why: Explanation, replay: _Checker, replays: Replays) -> Claim:
    """The scores of the sets that were evaluated: the smallest ones first, because proofs rest on them."""

    def faults_of(pair: tuple[tuple[int, ...], float]) -> list[str]:
        rows, claimed = pair
        return [f"the set {list(rows)[:8]} scores {fault}" for fault in replay.fault(why.change_of(rows), claimed)]

    known = sorted(why.evaluated, key=lambda pair: len(pair[0]))
    chosen = known if replays.sets is None else _spread(known, replays.sets, why.proven)
    about = f"sets of fewer than {why.proven}, and others" if why.proven > 1 else "evaluated sets"
    return replays.claim(about, chosen, len(known), faults_of)


def _spread(known: Sequence[Any], sets: int, proven: int) -> list[Any]:
    """Some of the sets, evenly: half of them among those on which a proof rests."""
    basis = [pair for pair in known if len(pair[0]) < proven]
    others = [pair for pair in known if len(pair[0]) >= proven]
    first = min(len(basis), max(sets - len(others), -(-sets // 2)))
    return [*evenly(basis, first), *evenly(others, min(len(others), sets - first))]


def evenly(items: Sequence[Any], number: int) -> list[Any]:
    """Some of the items, evenly spread."""
    return [items[place] for place in np.linspace(0, len(items) - 1, number).round().astype(int)] if number else []


def _surroundings(why: Explanation, replay: _Checker) -> Claim:
    about = "neighbourhood as shown"
    settings = why.parameters.get("candidates")
    hops = settings.get("hops") if isinstance(settings, dict) else None
    if why.surroundings is None or not isinstance(hops, int) or hops < 1:
        return Claim(about, NOT_CHECKED, "the document has none")
    rows = np.array([event.row for event in why.candidates], dtype=np.int64)
    same = surroundings_of(replay.graph, replay.query, rows, hops) == why.surroundings
    return checked(about, [] if same else ["its nodes and events are not those of the log"])


def _also(why: Explanation, replay: _Checker) -> Iterator[Claim]:
    rows = np.array(sorted(why.change_of(event.row for event in why.candidates)), dtype=np.int64)
    scope = scope_of(replay.model, replay.base, replay.query, rows)
    faults = [] if scope == why.scope else [f"it is {scope!r}, not {why.scope!r}"]
    yield checked("which other events can matter", faults, scope)
    if why.window is not None:
        yield _window(why, replay)
    if why.wider is not None:
        yield Claim(f"nothing found among {why.wider.events:,} events", NOT_CHECKED, "a search, not a proof")
    if why.elsewhere:
        yield Claim("other models and noise", NOT_CHECKED, "rerun cody explain with --also and --noise to repeat it")
    yield Claim("budget, time and settings", NOT_CHECKED, "rerun cody explain to repeat it")


def _window(why: Explanation, replay: _Checker) -> Claim:
    """The times at which the imagined event of the answer flips the decision, and the one at which it does not."""
    window = why.window
    assert window is not None
    about = f"the imagined event also flips it from {from_to(window.first, window.last)}"
    if len(why.rows) != 1 or replay.graph.imagined is None:
        return Claim(about, CONTRADICTED, "the answer is not one imagined event")
    edit = edit_of(why.candidate(why.rows[0]))
    assert isinstance(edit, Add | Move)

    def flips_at(time: float) -> bool:
        longer = replay.base.imagine([edit._replace(time=time)], query=replay.query)
        change = frozenset({longer.num_events})
        margin = reference_logit(model_on(replay.model, longer), replay.query, change, full=True)[0]
        return flips(replay.margin(NOTHING), margin)

    faults = [f"at {time} it does not" for time in (window.first, window.last) if not flips_at(time)]
    if window.fails is not None and flips_at(window.fails):
        faults.append(f"at {window.fails} it does, too")
    return checked(about, faults, "the ends were replayed")
