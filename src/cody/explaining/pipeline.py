"""From a model and a link to a verified explanation, in five steps.

build the search space → run policy and search on an oracle → prefer the least intrusive answer → verify it by the
reference → make the document. The first three are repeated among more candidates as long as nothing is found
(`cody.search.widening`).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError, CallError, ProbabilityWarning
from cody.explaining import explanation
from cody.explaining.explanation import ChangedUnit, Event, Explanation, Neighbour, Surroundings
from cody.explaining.verification import VerifiedAnswer, check_models, gives_probabilities, verify, with_stability
from cody.graph import IntArray, Query, TemporalGraph, check_query, is_in
from cody.graph.dependants import Rule, as_rule
from cody.graph.edits import Add, Alter
from cody.graph.neighbourhood import Near, candidates, ends_first, events_on_paths, near_all, surroundings
from cody.graph.protected import Protected
from cody.graph.units import EVENT, Label, Unit, UnitKind, as_kind
from cody.models import contract, decided
from cody.models.contract import Change, Model
from cody.models.deciding import ByLabel
from cody.models.decision import Decision
from cody.models.margins import flips
from cody.search import Search, scout
from cody.search.daily import limit_in_space
from cody.search.options import SearchOptions
from cody.search.oracle import Oracle
from cody.search.policies import Policy, spatio_temporal
from cody.search.proposals import Proposer, check_proposers, removals
from cody.search.run import SearchRun
from cody.search.space import NearUnits, SearchSpace, build_space
from cody.search.widening import SpaceOf, left_of_budgets, search_widening
from cody.utils.deadline import check_seconds, until
from cody.utils.signatures import readable_help
from cody.utils.words import zone_name

SHOWN_EVENTS = 100  # of a unit that is reported
SEARCHED_AGAIN = 2  # times, where rivals that a search left out overtake

Labels = Callable[[TemporalGraph, IntArray], Sequence[Label]]
Dependants = Callable[[TemporalGraph, int], Iterable[int]]

PROBABILITIES = (
    "all answers of the model lie between 0 and 1. Taken for logits, each of them predicts the link, and any "
    "counterfactual found would be wrong. If they are probabilities, let the model return logits: "
    "log(p / (1 - p)); cody.adapters.from_probabilities(model) does"
)


@readable_help
def explain(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    *,
    decision: Decision | ByLabel | None = None,
    policy: Policy = spatio_temporal,
    search: Search = scout,
    size: int | None = None,
    hops: int | None = None,
    near: Near = ends_first,
    protect: Protected | None = None,
    edits: Proposer | Sequence[Proposer] = (removals,),
    by: UnitKind | Labels | None = None,
    dependants: Rule | Dependants | None = None,
    count: int | None = None,
    prove: int = 1,
    seed: int = 0,
    evaluations: int | None = None,
    seconds: float | None = None,
    per_day: int | None = None,
    full_replay: bool = False,
    also: Mapping[str, Model] | None = None,
    robust: bool = False,
    noise: bool = False,
    watch: Callable[[Oracle], None] | None = None,
    answers: dict[Change, float] | None = None,
) -> Explanation:
    """Find the smallest change to the history that flips a prediction, and verify it.

    `print(why)` shows the answer; `why.sentence` has it in a sentence, `why.to_frame()` as a table, `why.to_html()`
    as a page, and `why.to_json()` as a document.

    Args:
        model: Anything with `logits(query, changes)`: see `cody.load_model`, `cody.adapters`, `cody.as_model`.
        graph: The log of events that the model was made for.
        query: The link: `graph.query(row)` for an event, `graph.query_at(src, dst, time)` for any other link.
        decision: What is to flip: `cody.above(0.8)`, `cody.rather_than("942")`, `cody.in_top(10)`,
            `cody.labelled("fraud")`, `cody.between(2, 5)` or `cody.decided_by(function)`. By default, whether the link
            is predicted (probability above 0.5); of a model of labels, whether this is the predicted label.
        policy: Ranks the candidates: see `cody.search.policies`.
        search: Finds the smallest set of changes: see `cody.search`. Options go in with `functools.partial`, for
            example `partial(cody.search.cody, iterations=1000)`.
        size: Number of candidate events. By default 64; if nothing is found among them, 128, then 256.
        hops: Neighbourhood radius of the candidates. By default, as far as the model looks.
        near: Chooses the candidates: by default the latest events of each end of the link, and around them;
            `cody.graph.neighbourhood.events_on_paths` for those of the paper.
        protect: Events that may not be changed: `cody.Protected(events=[3], nodes=["a"])`.
        edits: Functions that propose changes: `removals`, `additions`, `moves` and `alterations` of
            `cody.search.proposals`, or your own. Of equally small answers, one by the first function is preferred.
            Events that `graph.imagine` added are always candidates.
        by: What changes together: `pair`, `node`, `day`, `hour` or `session()` of `cody.graph.units`, or a function
            `(graph, rows) → labels`; events with the same label are a unit. By default, single events.
        dependants: What goes along with removed events: `reply()` or `forward()` of `cody.graph.dependants`, or a
            function `(graph, row) → rows` of later events that would not have happened without that one. By default,
            nothing.
        count: Number of counterfactuals to report. Given, the search continues until it has found as many. By default,
            up to three of those that one search finds.
        prove: Exhaustively test all sets of fewer than this number of candidates.
        seed: Of the random policy.
        evaluations: Budget: number of changed histories that the model may score.
        seconds: Budget of time, verification included.
        per_day: Change at most this number of events of one calendar day.
        full_replay: Verify by a replay of all events, instead of those since the oldest changed one.
        also: Other models of the same log by name, such as other seeds: which of them the counterfactuals hold in is
            in `why.stability` and `why.elsewhere`.
        robust: Prefer what flips the decision of all of these models.
        noise: Test also a minute later, and with an unrelated event added.
        watch: Called with the oracle after each batch, for progress bars: see `cody.search.oracle.counting`.
        answers: Scores of this query that are known, for several explanations of it. New scores are added.

    Returns:
        The explanation. Every counterfactual in it was verified by the reference implementation; if a budget ended the
        search, it has the best set so far, and says so.

    Raises:
        CallError: An argument is not valid.
        ModelError: The model contradicts itself, or returns something other than logits.

    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> why = explain(ToyModel(graph, weights=[1, 2, -1, 0]), graph, graph.query(3))
    >>> why.removed, why.is_counterfactual, why.is_minimal
    ((1,), True, True)
    >>> why.sentence
    'Without 1 of 3 past events the score falls from 0.72 to 0.43: no link.'
    """
    query = check_explainable(model, graph, query)
    if robust and not also:
        raise CallError("robust prefers what flips the decision of other models, too: give them as also")
    check_models(also or {}, graph)
    options = SearchOptions(
        policy=policy,
        search=search,
        size=size,
        hops=hops,
        near=near,
        protect=protect,
        edits=check_proposers(edits),
        by=as_kind(by),
        dependants=as_rule(dependants),
        count=count,
        prove=prove,
        seed=seed,
        evaluations=evaluations,
        seconds=seconds,
        per_day=per_day,
        full_replay=full_replay,
        watch=watch,
    ).checked(model)
    if graph.imagined is not None and contract.graph_of(model) is not graph:
        model = contract.model_on(model, graph)
    deadline = math.inf if seconds is None else time.monotonic() + check_seconds(seconds)
    chosen = decided.decision_of(model, query, decision)
    subject = decided.subject_of_decision(model, chosen)
    # Scores of units are about other sets, and those of sets that could not be are none.
    known = {} if answers is None or options.has_units or options.per_day else answers
    others = tuple(also.values()) if robust and also else ()
    found = _search_until_verified(model, graph, query, chosen, options, others, known, deadline)
    run = found.run
    with until(deadline):
        if gives_probabilities(run.model, run.space.graph, [logit for _, logit in run.result.evaluated]):
            warnings.warn(PROBABILITIES, ProbabilityWarning, stacklevel=2)
    event = contract.event_of_query(graph, query)
    label = None if event is None or contract.label_task(model) is None else graph.label_of(event)
    why = _with_standings(_document(graph, query, found, subject, label), run.model)
    return with_stability(why, model, graph, also or {}, noise=noise) if also or noise else why


class _VerifiedSearch(NamedTuple):
    """What was found and verified."""

    model: Model  # that answers margins, on the log without anything proposed
    decision: Decision
    options: SearchOptions
    run: SearchRun
    verified: VerifiedAnswer
    seconds: float  # until the search ended


def _search_until_verified(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    chosen: Decision,
    options: SearchOptions,
    others: Sequence[Model],
    answers: dict[Change, float],
    deadline: float,
) -> _VerifiedSearch:
    """Search and verify; again with the rivals that overtake, where an answer fails among all of them."""
    started, evaluations, left = time.monotonic(), 0, options
    for again in range(1 + SEARCHED_AGAIN):
        answering = decided.decide(model, graph, query, chosen)
        if others:
            across = tuple(decided.decide(other, graph, query, chosen) for other in others)
            options = replace(options, across=across).checked(answering)
            left = replace(left, across=across)
        # Margins among more rivals are other ones, so answers are not shared.
        known = {} if again else answers
        run = search_widening(answering, graph, query, spaces(answering, graph, query, options), left, known)
        spent, evaluations = time.monotonic() - started, evaluations + run.evaluations
        run = replace(run, evaluations=evaluations)
        wider = budgets = None
        with until(deadline):
            if again < SEARCHED_AGAIN:
                wider = _with_rivals_that_overtake(run, query)
                budgets = left_of_budgets(options, evaluations, time.monotonic() - started)
            if wider is None or budgets is None:
                break
        chosen, left = wider, budgets
    with until(deadline):
        verified = verify(run, query, count=options.reported, full=options.full_replay)
    return _VerifiedSearch(answering, decided.decision_in(answering) or chosen, options, run, verified, spent)


def _with_rivals_that_overtake(run: SearchRun, query: Query) -> Decision | None:
    """The decision to search again for, where an answer flips it among the best rivals but not among all; else None."""
    found = frozenset(run.result.rows)
    with suppress(BudgetError):
        run.oracle.look_up([frozenset(), found])
        original, without = run.oracle.remembered(frozenset()), run.oracle.remembered(found)
        if original is not None and without is not None and flips(original, without):
            return decided.with_overtaking(run.model, query, run.space.change(found), original)
    return None


def check_explainable(model: Model, graph: TemporalGraph, query: Query) -> Query:
    """The query in plain numbers; of a model that labels nodes, about the source alone.

    A model, graph and query that do not belong together are rejected.

    Args:
        model: The model.
        graph: The log of events.
        query: The link.
    """
    if not isinstance(graph, TemporalGraph):
        raise CallError(f"the second argument is the graph, as cody.load gives it, not {str(graph)[:60]!r}")
    contract.check_belongs(model, graph)
    check_query(graph, query)
    query = Query(int(query.src), int(query.dst), float(query.time), int(query.before))
    return contract.about_node(query) if contract.subject_of(model) == "node" else query


def spaces(model: Model, graph: TemporalGraph, query: Query, options: SearchOptions) -> SpaceOf:
    """A function that gives the search space with a number of candidates and some edits.

    Args:
        model: What it does not see of the past is no candidate.
        graph: The log.
        query: The link.
        options: Which events are candidates, and which are protected.
    """
    seen, protect = contract.as_seen(model, graph, query), options.protect and options.protect.at(query)
    hops = contract.reach(model) if options.hops is None else options.hops
    near = near_all(options.near, decided.focus_of(model))

    together = NearUnits(graph, seen, hops, near, protect, options.by, options.dependants)

    def space_of(size: int, edits: tuple[Proposer, ...]) -> SearchSpace:
        if not options.has_units:
            rows = candidates(graph, seen, hops, size, near=near, protect=protect)
            space = build_space(graph, seen, rows, size, edits, protect)
            if options.per_day is None:
                return space
            return replace(space, limit=limit_in_space(options.per_day, zone_name(), space.graph, space.rows.tolist()))
        units = together.of_size(size)
        rows = np.concatenate([np.sort(np.array(list(units), dtype=np.int64)), graph.imagined_before(seen)])
        space = build_space(graph, seen, graph.in_time_order(rows), size, edits, protect, units)
        return replace(space, left_out=together.left_out)

    return space_of


def _document(
    graph: TemporalGraph, query: Query, searched: _VerifiedSearch, subject: str, label: str | None
) -> Explanation:
    """Everything that is needed to show, count and check the answer without model and graph."""
    options, run, verified = searched.options, searched.run, searched.verified
    found, space = run.result, run.space
    parameters = options.as_parameters()
    if space.left_out:
        parameters["by"] = {**parameters.get("by", {"name": EVENT}), "left_out": space.left_out}
    return Explanation(
        query=query,
        src=graph.name(query.src),
        dst=graph.name(query.dst),
        event=contract.event_of_query(graph, query),
        candidates=tuple(event_with_features(space.graph, row) for row in space.rows.tolist()),
        rows=found.rows,
        ended=found.ended,
        factual=found.factual,
        iterations=found.iterations,
        evaluations=run.evaluations,
        seconds=searched.seconds,
        parameters=parameters if found.estimated is None else parameters | {"estimates": True},
        seed=options.seed,
        model=contract.identity_of(run.model),
        data=graph.identity,
        evaluated=tuple((tuple(sorted(change)), logit) for change, logit in found.evaluated),
        window=run.window,
        surroundings=surroundings_of(space.graph, query, space.rows, parameters["candidates"]["hops"]),
        wider=run.wider,
        scope=scope_of(searched.model, graph, query, np.array(space.events, dtype=np.int64)),
        event_name=graph.name_of_event(),
        unit_name="" if options.by is None else options.by.noun(graph),
        units=tuple(_unit(space.graph, row, space.units[row]) for row in space.rows.tolist() if row in space.units),
        unit_events=_events_of_units(space, {*found.rows}.union(*(other.rows for other in verified.alternatives))),
        decision=searched.decision,
        subject=subject,
        label=label,
        **verified._asdict(),
        rescore=partial(_rescore, run.model, query, space),
    )


def _unit(graph: TemporalGraph, row: int, unit: Unit) -> ChangedUnit:
    times = graph.time[unit.rows]
    rows = tuple(unit.rows.tolist()), tuple(unit.dependants.tolist())
    return ChangedUnit(row, unit.name, *rows, float(times.min()), float(times.max()))


def _events_of_units(space: SearchSpace, reported: Set[int]) -> tuple[Event, ...]:
    """The latest events of each unit that is reported, and of what depends on it."""
    units = [space.units[row] for row in reported if row in space.units]
    rows = {row for unit in units for some in (unit.rows, unit.dependants) for row in some[-SHOWN_EVENTS:].tolist()}
    return tuple(event_with_features(space.graph, row) for row in sorted(rows))


def _rescore(
    model: Model, query: Query, space: SearchSpace, changes: Sequence[Change], seconds: float
) -> dict[Change, float]:
    """The margins of further sets of candidates, as many as can be computed in time."""
    oracle = Oracle(model, query, seconds=seconds, session=space.session(model, query))
    with suppress(BudgetError):
        oracle.ask(changes)
    return dict(oracle.evaluated)


def _with_standings(why: Explanation, model: Model) -> Explanation:
    """The explanation with what lies behind the margins that it reports."""
    changes = [why.change_of(why.rows[:length]) for length in range(len(why.rows) + 1)]
    steps, others = decided.standings_of(
        model, why.query, changes, [why.change_of(other.rows) for other in why.alternatives]
    )
    alternatives = zip(why.alternatives, others, strict=True)
    return replace(
        why,
        standings=steps if any(steps) else (),
        alternatives=tuple(other._replace(standing=standing) for other, standing in alternatives),
    )


def scope_of(model: Model, graph: TemporalGraph, query: Query, rows: IntArray) -> str:
    """Whether other events than the candidates could matter: alone, or only together with candidates, or not at all.

    Args:
        model: The model.
        graph: The log, without the events that were proposed.
        query: The link.
        rows: The candidates.
    """
    query = contract.as_seen(model, graph, query)
    attended = contract.attended_by(model, query)
    if attended is None or graph.imagined is not None or not is_in(attended, rows).all():
        return explanation.SOME_EVENTS
    every = events_on_paths(graph, query, contract.reach(model), len(rows) + 1)
    return explanation.ALL_EVENTS if is_in(every, rows).all() else explanation.SEEN_EVENTS


def surroundings_of(graph: TemporalGraph, query: Query, events: IntArray, hops: int) -> Surroundings:
    """The nodes of the candidates, and other events between them.

    Args:
        graph: The log.
        query: The link.
        events: The candidates.
        hops: Neighbourhood radius.
    """
    nodes, distances, others = surroundings(graph, query, events, hops)
    named = (Neighbour(graph.name(node), hop) for node, hop in zip(nodes.tolist(), distances.tolist(), strict=True))
    return Surroundings(tuple(named), tuple(event_with_features(graph, row) for row in others.tolist()))


def event_of(graph: TemporalGraph, row: int) -> Event:
    """A row of a log, with the names of its nodes, as explanations have it."""
    ends = graph.name(int(graph.src[row])), graph.name(int(graph.dst[row]))
    if row < graph.num_events or graph.imagined is None:
        return Event(row, *ends, float(graph.time[row]))
    place = row - graph.num_events
    edit, replaced = graph.imagined.edits[place], int(graph.imagined.replaces[place])
    if isinstance(edit, Add):
        return Event(row, *ends, float(graph.time[row]), explanation.ADDED)
    kind = explanation.ALTERED if isinstance(edit, Alter) else explanation.MOVED
    return Event(row, *ends, float(graph.time[row]), kind, replaced, float(graph.time[replaced]))


def event_with_features(graph: TemporalGraph, row: int) -> Event:
    """A row of a log, with its features in words where they are few, and as numbers if it is added or altered."""
    event = event_of(graph, row)._replace(carries=graph.carried(row))
    features = graph.features_of(np.array([row])) if event.edit in (explanation.ADDED, explanation.ALTERED) else None
    return event if features is None else event._replace(features=tuple(features[0].tolist()))
