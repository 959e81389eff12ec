"""Even if: what could be missing without any effect on the decision, and the few events on which it rests.

Counterfactuals say "if only": what would have had to be different. Here the decision stands: the largest set of
candidates that could be gone together, the time from which on everything could be missing, the largest conversation or
day, and how many candidates nobody can remove to change it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, field

from cody._version import __version__
from cody.errors import BudgetError, CallError
from cody.explaining import even_if_words
from cody.explaining.pipeline import Labels, check_explainable, spaces
from cody.explaining.verification import verify_change
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE, Near, ends_first, groups
from cody.graph.protected import Protected
from cody.graph.units import UnitKind, as_kind, day, node, pair
from cody.models.contract import DECIMALS, Change, Model, event_of_query, identity_of, logit_of_only
from cody.models.decided import decide, decision_in, decision_of, states_of, subject_of_decision
from cody.models.deciding import ByLabel, described
from cody.models.decision import Decision, State, Subject
from cody.models.margins import flips
from cody.search import Search, scout
from cody.search.further import prove as prove_none_smaller
from cody.search.options import SearchOptions
from cody.search.oracle import Oracle
from cody.search.policies import Policy, spatio_temporal
from cody.search.result import EXHAUSTED, flipping_sets, result
from cody.search.run import ranked
from cody.search.space import SearchSpace
from cody.search.sufficient import KeptCandidates, OnlyKept, Sufficient, smallest_sufficient
from cody.utils.deadline import check_seconds
from cody.utils.forms import Count, Document, Form
from cody.utils.signatures import readable_help
from cody.utils.words import is_date, link, sanitize

SCHEMA = "cody/even-if/1"
KINDS = (pair, node, day)  # units of which the largest one is looked for
NOTHING: Change = frozenset()


class KeptEvent(Form, frozen=True):
    """A candidate that is kept: an event, or a unit of several that change together."""

    row: Count
    src: str
    dst: str
    time: float
    name: Annotated[str, Meta(description="of the unit; empty: it is a single event")] = ""
    events: Count = 1


class Missing(Form, frozen=True):
    """Candidates that could be missing together, with the decision still standing."""

    name: Annotated[str, Meta(description="what they are, in words")]
    rows: tuple[Count, ...]
    margin: Annotated[float, Meta(description="without them; above 0, the decision is positive")]
    verified: Annotated[str, Meta(description="how the reference confirmed it; empty: it was not used")] = ""


class EvenIf(Document, frozen=True, tag_field="schema", tag=SCHEMA):
    """What could be missing without any effect on one decision."""

    kind = "an even-if"
    version: str
    model: Annotated[str, Meta(description="identity")]
    data: Annotated[str, Meta(description="identity")]
    src: str
    dst: str
    time: float
    event: Annotated[Count | None, Meta(description="row of the event, if the link is one that happened")]
    decision: dict[str, Any]
    stated: Annotated[str, Meta(description="what is decided, in words")]
    original: Annotated[float, Meta(description="margin with nothing changed; above 0, the decision is positive")]
    candidates: tuple[Count, ...]
    thing: Annotated[str, Meta(description="what a candidate is called")]
    units: Annotated[bool, Meta(description="whether candidates are units of several events, each known by one row")]
    alone: Annotated[bool, Meta(description="whether all other events are missing too, not only the other candidates")]
    kept: Annotated[tuple[KeptEvent, ...] | None, Meta(description="the fewest that are enough; null: none were found")]
    smallest: Annotated[bool, Meta(description="whether it is proven that no smaller set suffices")]
    missing: Annotated[Missing | None, Meta(description="all other candidates: the largest set that was found")]
    effect: Annotated[str, Meta(description="what becomes of the decision without them, in words")]
    only: Annotated[float | None, Meta(description="margin with nothing in the history but the kept events")]
    robust: Annotated[Count, Meta(description="no removal of at most this many candidates changes the decision")]
    decisive: Annotated[tuple[Count, ...] | None, Meta(description="a smallest removal that was found to change it")]
    decisive_names: Annotated[tuple[str, ...], Meta(description="the names of these, if they are units")]
    latest: Annotated[Missing | None, Meta(description="all candidates since a time; null: none was found")]
    since: Annotated[float | None, Meta(description="that time")]
    unit: Annotated[Missing | None, Meta(description="the largest pair, node or day; null: none")]
    evaluations: Count
    ended: Annotated[str, Meta(description="why the search ended")]
    parameters: Annotated[dict[str, Any], Meta(description="what was given: candidates, units, policy, budget")] = (
        field(default_factory=dict)
    )
    subject: Annotated[str, Meta(description="what is decided on: a link, or an event or node that is labelled")] = (
        "link"
    )
    latest_is_largest: Annotated[bool, Meta(description="whether everything since any earlier time was evaluated")] = (
        True
    )
    unit_is_largest: Annotated[bool, Meta(description="whether every larger pair, node and day was evaluated")] = True

    @property
    def kept_rows(self) -> tuple[int, ...]:
        """The rows of the smallest sufficient set; empty where none is needed, or none was found."""
        return () if self.kept is None else tuple(each.row for each in self.kept)

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        return even_if_words.sentence(self)

    def to_html(self) -> str:
        """A page that shows all of it, one self-contained file."""
        from cody.web.even_if_page import even_if_page  # whoever wants no page need not wait for it

        return even_if_page(self)

    def __str__(self) -> str:
        return even_if_words.text(self)


@readable_help
def even_if(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    *,
    decision: Decision | ByLabel | None = None,
    alone: bool = False,
    policy: Policy = spatio_temporal,
    search: Search = scout,
    size: int = SIZE,
    hops: int | None = None,
    near: Near = ends_first,
    protect: Protected | None = None,
    by: UnitKind | Labels | None = None,
    prove: int = 2,
    seed: int = 0,
    evaluations: int | None = None,
    seconds: float | None = None,
    full_replay: bool = False,
    watch: Callable[[Oracle], None] | None = None,
) -> EvenIf:
    """What could be missing from the history with the decision still standing, and the fewest events it rests on.

    Args:
        model: As in `cody.explain`.
        graph: The log of events that the model was made for.
        query: The link.
        decision: As in `cody.explain`.
        alone: Keep nothing else: all events that are not kept are missing, candidates or not. By default, events that
            are no candidates stay.
        policy: Ranks the candidates.
        search: A counterfactual search. It looks for the fewest candidates to restore when all are removed.
        size: Number of candidate events.
        hops: Neighbourhood radius of the candidates. By default, as far as the model looks.
        near: Chooses the candidates.
        protect: Events that may not be removed.
        by: What changes together, as in `cody.explain`. By default, single events.
        prove: Exhaustively test all removals, and all kept sets, of fewer than this number of candidates.
        seed: Of the random policy.
        evaluations: Budget: number of changed histories that the model may score.
        seconds: Budget of time, without the verification.
        full_replay: Verify by a replay of all events, instead of those since the oldest changed one.
        watch: Called with the oracle after each batch, for progress bars.

    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> found = even_if(ToyModel(graph, weights=[1, 2, -1, 0], bias=-0.3), graph, graph.query(3))
    >>> found.kept_rows, found.missing.rows, found.smallest, found.robust, found.decisive
    ((1,), (0, 2), True, 0, (1,))
    """
    query = check_explainable(model, graph, query)
    options = SearchOptions(
        policy=policy,
        search=search,
        size=size,
        hops=hops,
        near=near,
        protect=protect,
        by=as_kind(by),
        prove=prove,
        seed=seed,
        evaluations=evaluations,
        seconds=None if seconds is None else check_seconds(seconds),
        full_replay=full_replay,
        watch=watch,
    ).checked(model)
    chosen = decision_of(model, query, decision)
    about = subject_of_decision(model, chosen)
    model = decide(model, graph, query, chosen)
    space = spaces(model, graph, query, options)(size, options.edits)
    if not len(space.rows):
        raise CallError("there are no candidates: no past events that could be missing")
    question = Question(model, query, space, decision_in(model) or chosen, about, alone)
    return _document(question, options, _look(question, options))


class Question(NamedTuple):
    """What an even-if answer is about: a decision, and candidates of which some are kept."""

    model: Model  # gives margins
    query: Query
    space: SearchSpace
    decision: Decision
    about: str  # what the model predicts: a link, or the state of a node
    alone: bool  # all other events are missing, too, not only the other candidates

    @property
    def candidates(self) -> Change:
        """The rows of all candidates."""
        return frozenset(self.space.rows.tolist())

    def gone(self, kept: Collection[int]) -> Change:
        """The events that are missing where only some candidates are kept."""
        if self.alone:
            return frozenset(range(self.query.before)) - self.space.change(kept)
        return self.space.change(self.candidates.difference(kept))

    def margin_of_only(self, kept: Collection[int]) -> float:
        """The margin with nothing in the history but some candidates."""
        return round(float(logit_of_only(self.model, self.query, self.space.change(kept))), DECIMALS)

    def what_follows(self, kept: Collection[int] | None, decisive: Collection[int] | None) -> dict[str, Any]:
        """The fields of an answer that follow from the log and from what was found.

        Args:
            kept: The candidates that are kept.
            decisive: Those without which the decision changes.
        """
        query, space, graph = self.query, self.space, self.space.graph
        event, src = event_of_query(graph, query), graph.name(query.src)
        subject = Subject(sanitize(src, 24) if self.about == "node" else link(src, graph.name(query.dst)), src)
        return {
            "event": event,
            "units": bool(space.units),
            "stated": self.decision.stated(states_of(self.model, query, [NOTHING])[0], subject),
            "kept": None if kept is None else tuple(_kept(space, row) for row in space.rows.tolist() if row in kept),
            "decisive_names": tuple(space.units[row].name for row in sorted(decisive or ()) if row in space.units),
            "effect": "" if kept is None else self._effect(kept, event),
        }

    def _effect(self, kept: Collection[int], event: int | None) -> str:
        """What becomes of the decision, in words; with nothing else in the history, without the scores behind it."""
        thing = f"this {self.about if event is None else self.space.graph.name_of_event()}"
        changes = [NOTHING] if self.alone else [NOTHING, self.gone(kept)]
        states = states_of(self.model, self.query, changes)
        first, last = states[0], State(self.margin_of_only(kept)) if self.alone else states[1]
        assert last.margin is not None
        who, does = self.decision.would(last.margin, thing)
        shows_numbers = last.standing is not None or not self.decision.has_standing
        return f"{who} would still {does}" + (f": {self.decision.effect(first, last)}" if shows_numbers else "")


class LookedFor(NamedTuple):
    """What the searches found, and the reference that verifies it."""

    question: Question
    full: bool  # whether the reference replays all events
    oracle: Oracle
    original: float
    sufficient: Sufficient
    robust: int
    decisive: Change | None
    latest: Largest
    unit: Largest

    def verified(
        self, name: str, rows: Change, events: Change | None = None, margin: float | None = None
    ) -> Missing | None:
        """Candidates that could be missing, as the reference has it. None if the reference contradicts it.

        Args:
            name: What they are, in words.
            rows: The candidates.
            events: The events that are missing with them. Default: those that the candidates stand for.
            margin: As a search has it. Default: as the oracle remembers it.
        """
        gone = self.question.space.change(rows) if events is None else events
        claimed = self.oracle.look_up([rows])[0] if margin is None else margin
        if not gone:
            return Missing(name, (), round(claimed, DECIMALS))
        model, query, *_ = self.question
        found = verify_change(model, query, gone, (self.original, claimed), self.full)
        if found is None or flips(found.original, found.without):
            return None
        return Missing(name, tuple(sorted(rows)), found.without, found.by)


class Largest(NamedTuple):
    """The largest of some removals that is known to leave the decision as it is."""

    rows: Change  # candidates; empty: none
    is_proven: bool  # all larger ones were evaluated
    name: str = ""


def _look(question: Question, options: SearchOptions) -> LookedFor:
    """Small removals first, then the smallest sufficient set, then removals since a time and by unit."""
    model, query, space, *_ = question
    oracle = Oracle(
        model,
        query,
        evaluations=options.evaluations,
        seconds=options.seconds,
        watch=options.watch,
        groups=groups(space.graph, space.rows),
        session=space.session(model, query),
    )
    (original,) = oracle.look_up([NOTHING])
    ranking = ranked(oracle, space, options)
    nothing = result(oracle, ranking, (), 0, EXHAUSTED)
    tested = prove_none_smaller(oracle, ranking, nothing, options.prove)
    only = OnlyKept(model, query, space.change)
    session = only if question.alone else KeptCandidates(oracle, question.candidates)
    found = smallest_sufficient(oracle, session, ranking, search=options.search, smaller=options.prove)
    besides = found.evaluations if question.alone else 0
    latest = _largest(oracle, original, [("everything since then", rows) for rows in suffixes(space)], besides)
    unit = _largest(oracle, original, list(units_among(space, query)), besides)
    changing = [change for change, _ in flipping_sets(oracle.evaluated | {NOTHING: original})]
    decisive = changing[0] if changing else None
    robust = min(tested.proven, len(space.rows) + 1 if decisive is None else len(decisive)) - 1
    parts = (found, max(0, robust), decisive, latest, unit)
    return LookedFor(question, options.full_replay, oracle, original, *parts)


def _largest(oracle: Oracle, original: float, named: Sequence[tuple[str, Change]], besides: int) -> Largest:
    """The largest of some removals that leaves the decision as it is, as far as the budget goes: largest ones first.

    Args:
        oracle: Scores them.
        original: The margin with nothing changed.
        named: The removals, each with a name.
        besides: What was taken from the budget of evaluations without the oracle.
    """
    ordered = sorted(named, key=lambda each: -len(each[1]))
    left = None if oracle.evaluations is None else max(0, oracle.evaluations - oracle.spent - besides)
    with suppress(BudgetError):
        oracle.ask([change for _, change in ordered][:left])
    for place, (name, change) in enumerate(ordered):
        margin = oracle.remembered(change)
        if margin is not None and not flips(original, margin):
            return Largest(change, all(oracle.knows(larger) for _, larger in ordered[:place]), name)
    return Largest(NOTHING, all(oracle.knows(change) for _, change in ordered))


def suffixes(space: SearchSpace) -> list[Change]:
    """The latest candidate, the two latest, …; those of the same time come together. Units have no one time."""
    if space.units:
        return []
    rows, times = space.rows.tolist(), space.graph.time[space.rows].tolist()
    starts = [place for place in range(len(rows)) if place == 0 or times[place] > times[place - 1]]
    return [frozenset(rows[first:]) for first in reversed(starts)]


def units_among(space: SearchSpace, query: Query) -> Iterator[tuple[str, Change]]:
    """The candidates of each pair, node and day; none where candidates are units themselves."""
    if space.units:
        return
    for kind in KINDS:
        if kind is day and not is_date(query.time):
            continue
        members: dict[Any, list[int]] = defaultdict(list)
        for row, labels in zip(space.rows.tolist(), kind.labels(space.graph, query, space.rows), strict=True):
            for label in labels:
                members[label].append(row)
        noun = kind.noun(space.graph)
        yield from ((f"{noun} {kind.words(space.graph, label)}", frozenset(rows)) for label, rows in members.items())


def _document(question: Question, options: SearchOptions, looked: LookedFor) -> EvenIf:
    """The verified answer."""
    model, query, space, decision, about, alone = question
    graph, found, kept, missing = space.graph, looked.sufficient, looked.sufficient.kept, None
    if kept is not None and found.logit is not None:
        missing = looked.verified("", question.candidates.difference(kept), question.gone(kept), found.logit)
    parts = (looked.latest, looked.unit)
    latest, unit = (looked.verified(part.name, part.rows) if part.rows else None for part in parts)
    return EvenIf(
        version=__version__,
        model=identity_of(model),
        data=graph.identity,
        src=graph.name(query.src),
        dst=graph.name(query.dst),
        time=query.time,
        decision=described(decision),
        original=round(looked.original, DECIMALS),
        candidates=tuple(space.rows.tolist()),
        thing=graph.name_of_event() if options.by is None else options.by.noun(graph),
        subject=about,
        alone=alone,
        smallest=found.is_smallest,
        missing=missing,
        only=None if kept is None else question.margin_of_only(kept),
        robust=looked.robust,
        decisive=None if looked.decisive is None else tuple(sorted(looked.decisive)),
        latest=latest,
        since=min((float(graph.time[row]) for row in looked.latest.rows), default=None),
        unit=unit,
        evaluations=len(looked.oracle.evaluated) + (found.evaluations if alone else 0),
        ended=found.ended,
        parameters=options.as_parameters(),
        latest_is_largest=looked.latest.is_proven and (latest is None) == (not looked.latest.rows),
        unit_is_largest=looked.unit.is_proven and (unit is None) == (not looked.unit.rows),
        **question.what_follows(kept, looked.decisive),
    )


def _kept(space: SearchSpace, row: int) -> KeptEvent:
    graph, unit = space.graph, space.units.get(row)
    ends = graph.name(int(graph.src[row])), graph.name(int(graph.dst[row]))
    named = ("", 1) if unit is None else (unit.name, len(unit.rows))
    return KeptEvent(row, *ends, float(graph.time[row]), *named)
