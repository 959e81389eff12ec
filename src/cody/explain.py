"""Candidates, policy, search and confirmation, joined: from a model and a question to an explanation."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from cody.deadline import until
from cody.errors import BudgetError, CallError, ModelError
from cody.explanation import Confirmation, Event, Explanation
from cody.graph import IntArray, Query, TemporalGraph, check_query, whole_number
from cody.model import Change, Model, check_logits
from cody.nearby import Near, Protected, candidates, events_on_paths
from cody.oracle import Oracle, check_seconds
from cody.policies import Policy, spatio_temporal
from cody.search import Found, Search, greedy_then_cody
from cody.search.found import best_asked, flips

HOPS = 2  # of models that do not say how far they look
CONTRADICTION = 1e-3  # rounding moves a logit by far less
SEARCHING = 0.75  # share of a budget of time; the rest is for the confirmation


def explain(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    *,
    policy: Policy = spatio_temporal,
    search: Search = greedy_then_cody,
    size: int = 64,
    hops: int | None = None,
    near: Near = events_on_paths,
    protect: Protected | None = None,
    seed: int = 0,
    evaluations: int | None = None,
    seconds: float | None = None,
    full_replay: bool = False,
    watch: Callable[[Oracle], None] | None = None,
    answers: dict[Change, float] | None = None,
) -> Explanation:
    """Which past events, had they not happened, would have changed what the model says about a link?

    Considered are the `size` most recent events within `hops` of the link (default: as far as the model looks, else 2),
    without those in `protect`. `policy` orders them. `search` looks for a smallest set of them (default: GreeDy, then
    CoDy from what it saw); `functools.partial(cody.search.greedy_then_cody, iterations=1000)` gives it options.

    `evaluations` and `seconds` are budgets: when one is used up, the best set so far is the answer. A quarter of the
    seconds is kept for the confirmation: a counterfactual is confirmed by plain replay before it is reported, from the
    last stored state before the oldest removed event, or with `full_replay` from the first event. `watch` is called
    after each call of the model. Explanations of the same query that are given the same `answers` ask the model only
    once what both want to know.

    >>> from cody.testing import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> why = explain(ToyModel(graph, weights=[1, 2, -1, 0]), graph, graph.query(3))
    >>> why.removed, why.is_counterfactual, why.is_minimal
    ((1,), True, True)
    """
    query = _check_arguments(model, graph, query, policy, search, near, protect)
    seed, size = whole_number("seed", seed), whole_number("size", size)
    if seed < 0:
        raise CallError(f"seed must not be negative, not {seed}")
    hops = reach(model) if hops is None else whole_number("hops", hops)
    evaluations = None if evaluations is None else whole_number("evaluations", evaluations)
    started = time.monotonic()
    events = candidates(graph, query, hops, size, near=near, protect=protect)
    limit = None if seconds is None else SEARCHING * check_seconds(seconds)
    oracle = Oracle(
        model, query, evaluations=evaluations, seconds=limit, watch=watch, answers=answers, rows=events.tolist()
    )
    if seconds is not None:
        oracle.tell([frozenset()])  # what the model predicts is said in any case
    rng = np.random.default_rng([seed, query.src, query.dst, query.before])  # the same for a link whatever came before
    found = _search(graph, query, events, oracle, policy, search, rng)
    spent, asked = time.monotonic() - started, dict(oracle.asked)
    with until(math.inf if seconds is None else started + seconds):
        logits = _along(oracle, found.removed)
        confirmed = _confirm(model, query, found.removed, logits, full_replay)
        without_all = None if confirmed else _tell(oracle, [frozenset(events.tolist())])[0]
    return Explanation(
        query=query,
        src=graph.name(query.src),
        dst=graph.name(query.dst),
        event=query.before if query.before < graph.num_events and graph.query(query.before) == query else None,
        candidates=tuple(_event(graph, row) for row in events.tolist()),
        removed=found.removed,
        logits=logits,
        ended=found.ended,
        factual=found.factual,
        iterations=found.iterations,
        evaluations=len(asked),
        seconds=spent,
        confirmed=confirmed,
        without_all=without_all,
        parameters=told(policy, search, size, hops, near)
        | {
            "protect": None if protect is None else protect.told(),
            "evaluations": evaluations,
            "seconds": None if seconds is None else float(seconds),
        },
        seed=seed,
        model=identity(model),
        data=graph.identity,
        explored=tuple((tuple(sorted(removal)), logit) for removal, logit in asked.items()),
    )


def _check_arguments(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    policy: Policy,
    search: Search,
    near: Near,
    protect: Protected | None,
) -> Query:
    """Refuse what cannot be meant. Returns the query in plain numbers."""
    if not isinstance(graph, TemporalGraph):
        raise CallError(f"the second argument is the graph, as cody.load gives it, not {str(graph)[:60]!r}")
    if not hasattr(model, "logits"):
        raise CallError(
            f"a model has a method logits(query, removals); {str(model)[:60]!r} has none (cody.load_model?)"
        )
    known = getattr(getattr(model, "graph", None), "identity", graph.identity)
    if known != graph.identity:
        raise CallError(f"the model was made for the graph {known}, and this is {graph.identity}")
    for name, function in (("policy", policy), ("search", search), ("near", near)):
        if not callable(function):
            raise CallError(
                f"{name} must be a function, for example from cody.policies or cody.search, not {function!r}"
            )
    if protect is not None and not isinstance(protect, Protected):
        raise CallError(f"protect must be cody.Protected(events=…, nodes=…, times=…), not {protect!r}")
    check_query(graph, query)
    return Query(int(query.src), int(query.dst), float(query.time), int(query.before))


def reach(model: Model) -> int:
    """How many hops away from a link the model looks."""
    return int(getattr(model, "hops", HOPS))


def identity(model: Model) -> str:
    """What tells a model from others: a hash of its weights, or at least what it is."""
    return str(getattr(model, "identity", type(model).__qualname__))


def told(policy: Policy, search: Search, size: int, hops: int, near: Near) -> dict[str, Any]:
    """What an explainer was told, as plain data."""
    return {
        "policy": _told(policy),
        "search": _told(search),
        "candidates": {"size": size, "hops": hops, "near": _told(near)["name"]},
    }


def _search(
    graph: TemporalGraph,
    query: Query,
    events: IntArray,
    oracle: Oracle,
    policy: Policy,
    search: Search,
    rng: np.random.Generator,
) -> Found:
    try:
        ranking = np.asarray(policy(graph, query, events, oracle, rng))
    except BudgetError as spent:  # before the search began
        return Found(best_asked(oracle), 0, str(spent))
    if sorted(ranking.tolist()) != sorted(events.tolist()):
        raise CallError(f"the policy {_told(policy)['name']!r} must give back the events it was given, in its order")
    found = search(oracle, ranking)
    if len(set(found.removed)) < len(found.removed) or not set(found.removed) <= set(events.tolist()):
        raise CallError(f"the search {_told(search)['name']!r} found {found.removed}, which are no distinct candidates")
    return found


def _along(oracle: Oracle, removed: tuple[int, ...]) -> tuple[float | None, ...]:
    """The logit after each removal; None where the time is over and nobody has asked yet."""
    return _tell(oracle, [frozenset(removed[:length]) for length in range(len(removed) + 1)])


def _tell(oracle: Oracle, removals: list[Change]) -> tuple[float | None, ...]:
    """The answers that are known or can be had in time."""
    with suppress(BudgetError):
        oracle.tell(removals)
    return tuple(oracle.remembered(removal) for removal in removals)


def _confirm(
    model: Model, query: Query, removed: tuple[int, ...], logits: tuple[float | None, ...], full: bool
) -> Confirmation | None:
    """Answer the decisive question once more: by the model's plain form if it has one, else by the model itself.

    None if there is nothing to confirm, or no time left for it.
    """
    original, without = logits[0], logits[-1]
    if original is None or without is None or not flips(original, without):
        return None
    removal: Change = frozenset(removed)
    judge, by = model, "the model was asked once more, about this set alone"
    if hasattr(model, "plain"):
        judge = model.plain(query, removal, full=full)
        by = f"replayed plainly from {'the memory at ' if judge.since else ''}event {judge.since}"
    answers = []
    try:
        for asked in (frozenset[int](), removal):
            (answer,) = judge.logits(query, [asked])
            check_logits(query, [asked], [float(answer)])
            answers.append(float(answer))
    except BudgetError:
        return None
    for told, said in zip((original, without), answers, strict=True):
        if abs(told - said) > CONTRADICTION * max(1.0, abs(said)):
            raise ModelError(
                f"the model contradicts itself about {query} without events {sorted(removal)}: {told} and, {by}, "
                f"{said:.5f}; cody.testing.check_model tells which rule it breaks"
            )
    return Confirmation(by, round(answers[0], 5), round(answers[1], 5))


def _event(graph: TemporalGraph, row: int) -> Event:
    return Event(row, graph.name(int(graph.src[row])), graph.name(int(graph.dst[row])), float(graph.time[row]))


def _told(function: Callable[..., Any]) -> dict[str, Any]:
    """The name of a function and its options, those that were given and those that were not."""
    given = function.keywords if isinstance(function, partial) else {}
    inner = function.func if isinstance(function, partial) else function
    name = getattr(inner, "__name__", type(inner).__name__)
    if not inspect.isfunction(inner):
        return {"name": name}
    options = inspect.signature(inner).parameters.values()
    defaults = {option.name: option.default for option in options if option.kind is option.KEYWORD_ONLY}
    return {"name": name} | {option: _plain(value) for option, value in {**defaults, **given}.items()}


def _plain(value: Any) -> Any:
    """Numpy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value
