"""Candidates, policy, search and confirmation, joined: from a model and a question to an explanation."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cody.errors import BudgetError, CallError, ModelError, ProbabilityWarning
from cody.explain.explanation import (
    ADDED,
    ALL_EVENTS,
    ALTERED,
    MOVED,
    SEEN_EVENTS,
    SOME_EVENTS,
    Counterfactual,
    Event,
    Explanation,
    Neighbour,
    Surroundings,
    Verification,
    Wider,
)
from cody.graph import IntArray, Query, TemporalGraph, check_query, whole_number
from cody.graph.edits import Add, Alter
from cody.graph.neighbourhood import SIZE, Near, candidates, ends_first, events_on_paths, groups, surroundings
from cody.graph.protected import Protected
from cody.models.contract import (
    DECIMALS,
    Change,
    GivesLogits,
    Model,
    OffersEstimates,
    OffersReference,
    as_floats,
    as_seen,
    attended_by,
    check_is_model,
    checked_logits,
    graph_of,
    identity_of,
    looks_like_probabilities,
    model_on,
    open_session,
    reach,
    verifier_for,
    weight_of,
)
from cody.models.decision import flips
from cody.search import Search, SearchResult, diverse_counterfactuals, scout, search_alternatives
from cody.search import prove as prove_size
from cody.search.estimates import TwoStages
from cody.search.exhaustive import number_of_sets
from cody.search.intrusion import MOST_TIMES, Window, each_alone_first, least_intrusive, narrow
from cody.search.oracle import Oracle
from cody.search.policies import Policy, spatio_temporal
from cody.search.proposals import Proposer, SearchSpace, build_space, check_proposers, removals
from cody.search.result import best_evaluated, flipping_sets, lower_bound, result
from cody.search.scout import usual_evaluations
from cody.utils.deadline import check_deadline, check_seconds, until
from cody.utils.signatures import readable_help

CONTRADICTION = 1e-3  # rounding moves a logit by far less
MANY_ANSWERS, OTHER_LINKS = 20, 5  # all between 0 and 1, of so many links: hardly by chance
PROBABILITIES = (
    "all answers of the model lie between 0 and 1. Taken for logits, each of them predicts the link, and a "
    "counterfactual that is found all the same is none. If they are probabilities, let the model return logits: "
    "log(p / (1 - p)); "
    "cody.adapters.from_probabilities(model) does"
)
SEARCHING = 0.75  # share of a budget of time; the rest is for the confirmation
WIDTHS = (SIZE, 128, 256)  # candidates: more of them where nothing was found
NUMBERS = 1_000_000_000  # that a wider search may compute: a few seconds
FEWEST_EVALUATIONS = 400  # of a wider search: with fewer, hardly anything is found
USUAL_COUNT = 3  # counterfactuals that are reported, as far as one search has found them


@readable_help
def explain(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    *,
    policy: Policy = spatio_temporal,
    search: Search = scout,
    size: int | None = None,
    hops: int | None = None,
    near: Near = ends_first,
    protect: Protected | None = None,
    edits: Proposer | Sequence[Proposer] = (removals,),
    count: int | None = None,
    prove: int = 1,
    seed: int = 0,
    evaluations: int | None = None,
    seconds: float | None = None,
    full_replay: bool = False,
    watch: Callable[[Oracle], None] | None = None,
    answers: dict[Change, float] | None = None,
) -> Explanation:
    """The smallest change to the history that flips the model's prediction of a link, verified.

    Args:
        model: anything with `logits(query, changes)`: `cody.load_model`, `cody.adapters`, `cody.as_model`.
        graph: the log that the model was made for.
        query: the link: `graph.query(row)` or `graph.query_at(src, dst, time)`.
        policy: the order in which candidates are tried.
        search: looks for the smallest set; `functools.partial(cody.search.cody, iterations=1000)` is one with options.
        size: number of candidate events. By default 64, and where nothing is found among them, 128 and then 256.
        hops: neighbourhood radius. By default, as far as the model looks.
        near: which events are candidates: the latest of each end first, or those of the paper
            (`cody.graph.neighbourhood.events_on_paths`).
        protect: events that may not be removed.
        edits: functions that propose changes (`cody.search.proposals`): `removals`, `additions`, `moves`, or your own.
            Of equally many edits, those of the first function are preferred. What `graph.imagine` added is always a
            candidate.
        count: number of counterfactuals to report. It searches until it has so many. By default, up to three of those
            that one search has found.
        prove: exhaustively test all sets of fewer than so many candidates.
        seed: for the random policy.
        evaluations: how many changed histories the model may be asked to score; then the best set so far is the answer.
        seconds: time limit, verification included.
        full_replay: verify by a replay of all events, not only of those since the oldest removed one.
        watch: called with the oracle after each call of the model.
        answers: what is known about this query, and takes what is found out; for several explanations of one query.

    Returns:
        The explanation. Every counterfactual in it was verified by the reference implementation.

    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> why = explain(ToyModel(graph, weights=[1, 2, -1, 0]), graph, graph.query(3))
    >>> why.removed, why.is_counterfactual, why.is_minimal
    ((1,), True, True)
    """
    query = _check_arguments(model, graph, query, policy, search, near, protect)
    proposing = check_proposers(edits)
    if graph.imagined is not None and graph_of(model) is not graph:
        model = model_on(model, graph)
    wanted = _options(policy, search, count, prove, seed, evaluations, seconds, full_replay, watch)
    hops = reach(model) if hops is None else whole_number("hops", hops)
    started = time.monotonic()
    space = Space(graph, as_seen(model, graph, query), hops, near, protect and protect.at(query), proposing)
    widths = _widths(size, wanted, proposing)
    searched = _search_widening(model, query, space, widths, wanted, answers)
    spent = time.monotonic() - started
    with until(math.inf if seconds is None else started + seconds):
        said = _confirm_all(query, searched, wanted)
        if _are_probabilities(searched.model, searched.graph, list(searched.oracle.evaluated.values())):
            warnings.warn(PROBABILITIES, ProbabilityWarning, stacklevel=2)
    found, rows = searched.found, searched.events.tolist()
    return Explanation(
        query=query,
        src=graph.name(query.src),
        dst=graph.name(query.dst),
        event=query.before if query.before < graph.num_events and graph.query(query.before) == query else None,
        candidates=tuple(_with_features(searched.graph, row) for row in rows),
        rows=found.rows,
        logits=said.logits,
        ended=found.ended,
        factual=found.factual,
        iterations=found.iterations,
        evaluations=searched.evaluations,
        seconds=spent,
        verification=said.verification,
        without_all=said.without_all,
        parameters=parameters(policy, search, widths[0], hops, near, proposing) | _limits(wanted, protect, searched),
        seed=wanted.seed,
        model=identity_of(searched.model),
        data=graph.identity,
        evaluated=tuple((tuple(sorted(change)), logit) for change, logit in found.evaluated),
        alternatives=said.others,
        window=searched.window,
        surroundings=_surroundings(searched.graph, query, searched.events, hops),
        wider=searched.wider,
        scope=_scope(model, space, searched),
    )


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search, and for what."""

    policy: Policy
    search: Search
    count: int | None  # None: what one search has found
    prove: int
    seed: int
    evaluations: int | None
    seconds: float | None
    full_replay: bool
    watch: Callable[[Oracle], None] | None

    @property
    def reported(self) -> int:
        """How many counterfactuals are reported at most."""
        return USUAL_COUNT if self.count is None else self.count


def _options(
    policy: Policy,
    search: Search,
    count: int | None,
    prove: int,
    seed: int,
    evaluations: int | None,
    seconds: float | None,
    full_replay: bool,
    watch: Callable[[Oracle], None] | None,
) -> SearchOptions:
    """The options of a search; numbers that make no sense are rejected."""
    count = None if count is None else _at_least(1, "count", count)
    prove, seed = _at_least(1, "prove", prove), _at_least(0, "seed", seed)
    evaluations = None if evaluations is None else whole_number("evaluations", evaluations)
    return SearchOptions(policy, search, count, prove, seed, evaluations, seconds, full_replay, watch)


def _at_least(least: int, name: str, value: int) -> int:
    number = whole_number(name, value)
    if number < least:
        raise CallError(f"{name} must be at least {least}, not {number}")
    return number


class Space(NamedTuple):
    """Where candidates are looked for, and what may be done to the past."""

    graph: TemporalGraph
    query: Query  # as of the moment until which the model looks
    hops: int
    near: Near
    protect: Protected | None
    edits: tuple[Proposer, ...]

    def of(self, size: int) -> SearchSpace:
        """What is considered, with that many candidate events."""
        near = candidates(self.graph, self.query, self.hops, size, near=self.near, protect=self.protect)
        return build_space(self.graph, self.query, near, size, self.edits, self.protect)


def _widths(size: int | None, wanted: SearchOptions, edits: tuple[Proposer, ...]) -> tuple[int, ...]:
    """How many candidates to search among, one after the other. A proof is about a given number of candidates."""
    if size is not None:
        return (whole_number("size", size),)
    return WIDTHS if wanted.prove == 1 and edits == (removals,) else WIDTHS[:1]


class Searched(NamedTuple):
    """What a search has come to. Events may have been imagined on the way, so graph and model are part of it."""

    graph: TemporalGraph
    model: Model
    events: IntArray  # the candidates
    oracle: Oracle
    found: SearchResult
    evaluations: int
    window: Window | None  # when an added or moved event could have happened
    by_estimates: bool
    wider: Wider | None = None  # where else it looked in vain


class Said(NamedTuple):
    """What the model says of the answer, one edit after the other, and the ways out that are confirmed."""

    logits: tuple[float | None, ...]
    verification: Verification | None
    without_all: float | None
    others: tuple[Counterfactual, ...]


def _search_widening(
    model: Model,
    query: Query,
    space: Space,
    widths: tuple[int, ...],
    wanted: SearchOptions,
    answers: dict[Change, float] | None,
) -> Searched:
    """Search among a few candidates, and among more as long as nothing is found and a budget has room for it."""
    answers, started = {} if answers is None else answers, time.monotonic()
    first: Searched | None = None
    asked: set[Change] = set()
    evaluations = looked_at = 0
    for width in widths:
        left = _left(wanted, evaluations, time.monotonic() - started)
        considered = space.of(width)
        if first is not None:
            left = _bearable(model, query, considered, left)
            if left is None or len(considered.rows) <= looked_at or not _is_enough(left, considered):
                break  # there is too little of the budget left, it would take too long, or there are no other events
        searched = _search_within(model, space.graph, query, considered, left or wanted, answers, width < widths[-1])
        new = {change for change, _ in searched.found.evaluated} - asked
        evaluations += searched.evaluations - (len(searched.found.evaluated) - len(new))  # what is known costs nothing
        if new or first is None:  # whoever asks nothing new has not looked any further
            looked_at = len(considered.rows)
        first, asked = first or searched, asked | new
        if searched.found.counterfactuals or searched.found.factual:
            return searched._replace(evaluations=evaluations)
    assert first is not None
    wider = None if looked_at == len(first.events) else Wider(looked_at, evaluations - first.evaluations)
    return first._replace(evaluations=evaluations, wider=wider)


def _search_within(
    model: Model,
    base: TemporalGraph,
    query: Query,
    considered: SearchSpace,
    wanted: SearchOptions,
    answers: dict[Change, float],
    more: bool,
) -> Searched:
    """Search with a given budget; if `more` candidates could be searched, an answer must be found with a part of it."""
    usual = replace(wanted, evaluations=usual_evaluations(len(considered.rows)))
    if not more or wanted.evaluations is None or wanted.evaluations <= (usual.evaluations or 0):
        return _search_all(model, base, query, considered, wanted, answers)
    searched = _search_all(model, base, query, considered, usual, answers)
    if not searched.found.counterfactuals:
        return searched
    return _search_all(model, base, query, considered, wanted, answers)  # the rest is for a smaller one


def _bearable(
    model: Model, query: Query, considered: SearchSpace, wanted: SearchOptions | None
) -> SearchOptions | None:
    """What is wanted of a wider search, with as many evaluations as nobody waits long for; None: too few of them.

    The memories of a TGN may have to be followed through tens of thousands of events. What that takes is counted, not
    measured, so that the answer does not depend on the machine. Whoever gives a budget waits for it.
    """
    if wanted is None or wanted.evaluations is not None or wanted.seconds is not None:
        return wanted
    usual = usual_evaluations(len(considered.rows))
    most = NUMBERS // max(1, weight_of(open_session(model, query, considered.rows.tolist())))
    if most >= usual:
        return wanted
    return replace(wanted, evaluations=most) if most >= FEWEST_EVALUATIONS else None


def _is_enough(wanted: SearchOptions, considered: SearchSpace) -> bool:
    """Whether each event can be asked about alone: with less, one cannot say to have looked among them."""
    return wanted.evaluations is None or wanted.evaluations > len(considered.rows)


def _left(wanted: SearchOptions, evaluations: int, seconds: float) -> SearchOptions | None:
    """What is wanted, with what is left of its budgets; None: nothing."""
    left = wanted
    if wanted.evaluations is not None:
        left = replace(left, evaluations=wanted.evaluations - evaluations)
    if wanted.seconds is not None and seconds > 0:
        left = replace(left, seconds=check_seconds(wanted.seconds) - seconds / SEARCHING)
    spent = (left.evaluations is not None and left.evaluations < 1) or (left.seconds is not None and left.seconds <= 0)
    return None if spent else left


def _search_all(
    model: Model,
    base: TemporalGraph,
    query: Query,
    considered: SearchSpace,
    wanted: SearchOptions,
    answers: dict[Change, float] | None,
) -> Searched:
    """Search among all that is considered. `base` is the log without what was proposed."""
    if considered.edits:  # rows that others do not have, so their answers are not shared
        model, answers = model_on(model, considered.graph), dict(answers or {})
        wanted = replace(wanted, search=each_alone_first(wanted.search, considered, wanted.reported))
    stages = _two_stages(model, query, considered.rows)
    oracle = Oracle(
        model,
        query,
        evaluations=wanted.evaluations,
        seconds=None if wanted.seconds is None else SEARCHING * check_seconds(wanted.seconds),
        watch=wanted.watch,
        answers=answers if stages is None else None,  # estimates are not shared
        rows=considered.rows.tolist(),
        groups=groups(considered.graph, considered.rows),
        session=stages,
    )
    if wanted.seconds is not None:
        oracle.look_up([frozenset()])  # what the model predicts is said in any case
    found = _search(considered.graph, query, considered.rows, oracle, wanted)
    if stages is not None and not found.factual:
        with until(oracle.deadline):
            found = _settle(found, stages, wanted.reported)
    searched = Searched(considered.graph, model, considered.rows, oracle, found, len(found.evaluated), None, False)
    if considered.edits:
        searched = _least_intrusive(searched, base, query, considered, wanted)
    if stages is None:
        return searched
    found = _exactly(searched.found, stages, searched.events)
    oracle = Oracle(searched.model, query, answers=dict(found.evaluated))
    return searched._replace(found=found, oracle=oracle, by_estimates=True)


def _least_intrusive(
    searched: Searched, base: TemporalGraph, query: Query, considered: SearchSpace, wanted: SearchOptions
) -> Searched:
    """Of equally small answers that with the mildest edits; a single imagined event at the mildest time."""
    found = least_intrusive(searched.found, considered)
    searched = searched._replace(found=found)
    if wanted.evaluations is not None and len(found.evaluated) + MOST_TIMES > wanted.evaluations:
        return searched
    with until(searched.oracle.deadline):
        narrowed = narrow(searched.model, base, query, considered, found)
    if narrowed is None:
        return searched
    oracle = Oracle(narrowed.model, query, answers=dict(narrowed.found.evaluated))
    tried = len(narrowed.found.evaluated) + narrowed.questions
    graph, events = narrowed.considered.graph, narrowed.considered.rows
    return Searched(graph, narrowed.model, events, oracle, narrowed.found, tried, narrowed.window, False)


def _confirm_all(query: Query, searched: Searched, wanted: SearchOptions) -> Said:
    """Confirm the answer and its alternatives."""
    model, found, oracle = searched.model, searched.found, searched.oracle
    logits = _along(oracle, found.rows)
    confirmed = _confirm(model, query, found.rows, logits[0], logits[-1], wanted.full_replay)
    logits = _as_confirmed(logits, confirmed)
    without_all = None if confirmed else _in_time(oracle, [frozenset(searched.events.tolist())])[0]
    others = _alternatives(model, query, found, confirmed, wanted.full_replay, wanted.reported) if confirmed else ()
    return Said(logits, confirmed, without_all, others)


def _limits(wanted: SearchOptions, protect: Protected | None, searched: Searched) -> dict[str, Any]:
    """What the search was limited to, as plain data."""
    limits: dict[str, Any] = {
        "protect": None if protect is None else protect.as_parameters(),
        "count": wanted.count,
        "prove": wanted.prove,
        "evaluations": wanted.evaluations,
        "seconds": None if wanted.seconds is None else float(wanted.seconds),
    }
    return limits | {"estimates": True} if searched.by_estimates else limits


def _two_stages(model: Model, query: Query, events: IntArray) -> TwoStages | None:
    """How a model is searched that offers estimates; None: it is asked exactly from the start."""
    if not isinstance(model, OffersEstimates):
        return None
    rows: list[int] = events.tolist()
    return TwoStages(open_session(model, query, rows), model.approximate(query, rows))


def _settle(found: SearchResult, stages: TwoStages, count: int) -> SearchResult:
    """Ask exactly whether any event of the ways out can be left out, so that they are ways out and not estimates."""
    settled: set[Change] = set()
    with suppress(BudgetError):
        while True:
            smaller = {way - {row} for way in diverse_counterfactuals(found, count) for row in way}
            if smaller <= settled:
                break
            settled |= smaller
            stages.ask(sorted(smaller - stages.known.keys(), key=sorted))
            asked = dict(found.evaluated) | {change: round(stages.known[change], DECIMALS) for change in smaller}
            best = flipping_sets(asked)[0][0]
            rows = found.rows if len(found.rows) <= len(best) else tuple(sorted(best))
            found = replace(found, rows=rows, counterfactuals=flipping_sets(asked), evaluated=tuple(asked.items()))
    return found


def _exactly(found: SearchResult, stages: TwoStages, events: IntArray) -> SearchResult:
    """What a search by estimates found, without the estimates: nothing is shown or proven by them."""
    asked = {change: round(stages.known[change], DECIMALS) for change, _ in found.evaluated if change in stages.known}
    asked |= dict(found.counterfactuals)  # none is an estimate; the time of an added event was looked for exactly
    proven = lower_bound(asked, events.tolist(), dict(flipping_sets(asked)))
    return replace(found, evaluated=tuple(asked.items()), proven=proven)


def _check_arguments(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    policy: Policy,
    search: Search,
    near: Near,
    protect: Protected | None,
) -> Query:
    """Reject arguments that make no sense. Returns the query in plain numbers."""
    if not isinstance(graph, TemporalGraph):
        raise CallError(f"the second argument is the graph, as cody.load gives it, not {str(graph)[:60]!r}")
    check_is_model(model)
    known = graph_of(model)
    if known is not None and known.base_identity != graph.base_identity:
        raise CallError(f"the model was made for the graph {known.identity}, and this is {graph.identity}")
    for name, function in (("policy", policy), ("search", search), ("near", near)):
        if not callable(function):
            raise CallError(
                f"{name} must be a function, for example from cody.search.policies or cody.search, not {function!r}"
            )
    if protect is not None and not isinstance(protect, Protected):
        raise CallError(f"protect must be cody.Protected(events=…, nodes=…, times=…, simultaneous=…), not {protect!r}")
    check_query(graph, query)
    return Query(int(query.src), int(query.dst), float(query.time), int(query.before))


def parameters(
    policy: Policy, search: Search, size: int, hops: int, near: Near, edits: Sequence[Proposer]
) -> dict[str, Any]:
    """What an explainer was given, as plain data."""
    return {
        "policy": describe(policy),
        "search": describe(search),
        "candidates": {"size": size, "hops": hops, "near": describe(near)["name"]},
        "edits": [describe(propose)["name"] for propose in edits],
    }


def _search(
    graph: TemporalGraph, query: Query, events: IntArray, oracle: Oracle, wanted: SearchOptions
) -> SearchResult:
    """Order the candidates and search; then ask what is to be proven, and look for the other ways out."""
    rng = np.random.default_rng([wanted.seed, query.src, query.dst, query.before])  # whatever was asked before
    try:
        ranking = np.asarray(wanted.policy(graph, query, events, oracle, rng))
    except BudgetError as spent:  # before the search began
        return result(oracle, events, best_evaluated(oracle, events.tolist()), 0, str(spent))
    if sorted(ranking.tolist()) != sorted(events.tolist()):
        name = describe(wanted.policy)["name"]
        raise CallError(f"the policy {name!r} must give back the events it was given, in its order")
    with oracle.reserve(number_of_sets(len(ranking), wanted.prove) - 1):  # a search may use all it is given
        found = wanted.search(oracle, ranking)
    if len(set(found.rows)) < len(found.rows) or not set(found.rows) <= set(events.tolist()):
        name = describe(wanted.search)["name"]
        raise CallError(f"the search {name!r} found {found.rows}, which are not distinct candidates")
    if wanted.prove > found.proven:
        found = prove_size(oracle, ranking, found, wanted.prove, every=wanted.reported > 1)
    if wanted.count is not None and wanted.count > 1 and not found.factual:
        found = search_alternatives(oracle, ranking, wanted.search, found, wanted.count)
    return found


def _are_probabilities(model: Model, graph: TemporalGraph, answers: list[float]) -> bool:
    """Whether a model seems to answer with probabilities: then each of them means "link", and none flips another.

    Logits may lie there by chance, so if those of a search do, the model is asked about other links: a few, or as many
    as there must be answers. Only 0 and 1 are labels, and decide rightly. Our own networks are known to give logits.
    """
    surely = isinstance(model, GivesLogits) and model.gives_logits
    if surely:
        return False
    others = max(OTHER_LINKS, min(MANY_ANSWERS - len(answers), graph.num_events))
    try:
        for row in np.linspace(graph.num_events - 1, 0, others, dtype=int).tolist():
            if not looks_like_probabilities(answers):
                return False
            check_deadline()
            answers += as_floats(model.logits(graph.query(row), [frozenset()]))
    except Exception:  # no time left, or a model that answers about this link only
        return False
    within = any(0 < answer < 1 for answer in answers)
    return within and len(answers) >= MANY_ANSWERS and looks_like_probabilities(answers)


def _along(oracle: Oracle, rows: tuple[int, ...]) -> tuple[float | None, ...]:
    """The logit after each edit; None where the time is over and nobody has asked yet."""
    return _in_time(oracle, [frozenset(rows[:length]) for length in range(len(rows) + 1)])


def _in_time(oracle: Oracle, changes: list[Change]) -> tuple[float | None, ...]:
    """The answers that are known or can be had in time."""
    with suppress(BudgetError):
        oracle.look_up(changes)
    return tuple(oracle.remembered(change) for change in changes)


def _confirm(
    model: Model,
    query: Query,
    rows: tuple[int, ...],
    original: float | None,
    without: float | None,
    full: bool,
    *,
    nothing: float | None = None,
) -> Verification | None:
    """Answer the decisive question once more. None if there is nothing to confirm, or no time left for it.

    `nothing` is the confirmed logit with nothing changed, where it is known already.
    """
    if original is None or without is None or not flips(original, without):
        return None
    change: Change = frozenset(rows)
    try:
        before = _ask_plainly(model, query, frozenset(), full)[0] if nothing is None else nothing
        after, by = _ask_plainly(model, query, change, full)
    except BudgetError:
        return None
    for answered, confirmed in ((original, before), (without, after)):
        if _differ(answered, confirmed):
            _check_difference(model, query, change, original, before, f"{answered} and, {by}, {confirmed:.5f}")
            by += f" ({confirmed:.5f}, which counts; the search had {answered:.5f})"
    return Verification(by, round(before, 5), round(after, 5))


def _differ(answered: float, confirmed: float) -> bool:
    """Whether two computations of a logit differ by more than rounding."""
    return abs(answered - confirmed) > CONTRADICTION * max(1.0, abs(confirmed))


def _check_difference(model: Model, query: Query, change: Change, original: float, before: float, answers: str) -> None:
    """Reject answers that differ, unless there is a definition that says which of them is right."""
    about = f"about {query} and the change {sorted(change)}: {answers}"
    if not isinstance(model, OffersReference):
        raise ModelError(f"the model contradicts itself {about}; cody.models.check_model tells which rule it breaks")
    if flips(original, before):
        raise ModelError(
            f"the fast computation and the replay that defines an answer disagree {about}; so it is not certain what "
            "the prediction is. This is a fault of the fast computation, not of your modules: please report it"
        )


def _as_confirmed(logits: tuple[float | None, ...], confirmed: Verification | None) -> tuple[float | None, ...]:
    """The logits along the answer; where its confirmation gave others, these."""
    if confirmed is None or not flips(confirmed.original, confirmed.without):
        return logits
    ends = (logits[0], confirmed.original), (logits[-1], confirmed.without)
    first, last = (sure if said is None or _differ(said, sure) else said for said, sure in ends)
    return first, *logits[1:-1], last


def _ask_plainly(model: Model, query: Query, change: Change, full: bool) -> tuple[float, str]:
    """The logit of a change as the plain form of the model has it, and where that began."""
    judge, by = verifier_for(model, query, change, full=full)
    return checked_logits(query, [change], judge.logits(query, [change]))[0], by


def _alternatives(
    model: Model, query: Query, found: SearchResult, answer: Verification, full: bool, count: int
) -> tuple[Counterfactual, ...]:
    """Other ways out than the answer: as many as there is time to confirm."""
    logits = dict(found.counterfactuals)
    others: list[Counterfactual] = []
    for change in [] if found.factual else diverse_counterfactuals(found, count)[1:]:
        rows = tuple(sorted(change))
        confirmed = _confirm(model, query, rows, answer.original, logits[change], full, nothing=answer.original)
        if confirmed is not None and flips(confirmed.original, confirmed.without):
            others.append(Counterfactual(rows, confirmed))
    return tuple(others)


def _scope(model: Model, space: Space, searched: Searched) -> str:
    """Whether other events than the candidates could matter: alone, or only together with candidates, or not at all."""
    graph, query = space.graph, space.query
    attended = attended_by(model, query)
    if attended is None or graph.imagined is not None or not np.isin(attended, searched.events).all():
        return SOME_EVENTS
    every = events_on_paths(graph, query, reach(model), len(searched.events) + 1)
    return ALL_EVENTS if np.isin(every, searched.events).all() else SEEN_EVENTS


def _surroundings(graph: TemporalGraph, query: Query, events: IntArray, hops: int) -> Surroundings:
    nodes, distances, others = surroundings(graph, query, events, hops)
    named = (Neighbour(graph.name(node), hop) for node, hop in zip(nodes.tolist(), distances.tolist(), strict=True))
    return Surroundings(tuple(named), tuple(_with_features(graph, row) for row in others.tolist()))


def event_of(graph: TemporalGraph, row: int) -> Event:
    """A row of a log, with the names of its nodes, as explanations have it."""
    ends = graph.name(int(graph.src[row])), graph.name(int(graph.dst[row]))
    if row < graph.num_events or graph.imagined is None:
        return Event(row, *ends, float(graph.time[row]))
    place = row - graph.num_events
    edit, replaced = graph.imagined.edits[place], int(graph.imagined.replaces[place])
    if isinstance(edit, Add):
        return Event(row, *ends, float(graph.time[row]), ADDED)
    kind = ALTERED if isinstance(edit, Alter) else MOVED
    return Event(row, *ends, float(graph.time[row]), kind, replaced, float(graph.time[replaced]))


def _with_features(graph: TemporalGraph, row: int) -> Event:
    return event_of(graph, row)._replace(carries=graph.carried(row))


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """The name of a function and its options."""
    inner = function.func if isinstance(function, partial) else function
    return {"name": getattr(inner, "__name__", type(inner).__name__)} | options_of(function)


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The options of a function as plain data, those that were given and those that were not."""
    given = function.keywords if isinstance(function, partial) else {}
    inner = function.func if isinstance(function, partial) else function
    if not inspect.isfunction(inner):
        return {}
    options = inspect.signature(inner).parameters.values()
    defaults = {option.name: option.default for option in options if option.kind is option.KEYWORD_ONLY}
    return {option: _plain(value) for option, value in {**defaults, **given}.items()}


def _plain(value: Any) -> Any:
    """Numpy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value
