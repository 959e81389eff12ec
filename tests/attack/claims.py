"""Whatever an explanation claims is true: checked by plain replay, and by trying all sets of few candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch

from attack.finding import Finding, expect
from attack.things import Generator, odd_edits, odd_graph, odd_network, odd_query
from cody import search
from cody.engine import Replay, fast_model
from cody.errors import BudgetError, CallError
from cody.explaining.explanation import Explanation
from cody.explaining.pipeline import explain
from cody.graph import FloatArray, Query, TemporalGraph
from cody.graph.neighbourhood import candidates, events_among_nodes, events_on_paths
from cody.graph.protected import Protected
from cody.models.contract import Change, Model
from cody.models.margins import flips
from cody.models.toy import ToyModel
from cody.search import policies

FEW = 9  # candidates whose sets are all tried
UNSURE = 1e-3  # a logit this close to 0 is decided by rounding


class Asked(NamedTuple):
    """A question to `explain`, and who knows the right answers."""

    make: Callable[[], Model]
    truth: Model
    graph: TemporalGraph
    query: Query
    options: dict[str, Any]


def attack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = _case(rng)
    try:
        why = explain(asked.make(), asked.graph, asked.query, **asked.options)
    except CallError as error:
        few = asked.options["policy"] is policies.event_impact and asked.options["evaluations"] is not None
        expect(few and "event-impact" in str(error), "claims: a sensible question is refused", error)
        return
    _check_parts(asked, why)
    _check_answers(asked, why)
    if len(why.candidates) <= FEW:
        _check_by_trying_all(asked, why)
    _check_again(asked, why)
    if rng.random() < 0.1:
        _check_seconds(asked, float(rng.choice([1e-6, 0.02, 0.2])))


def _case(rng: Generator) -> Asked:
    graph = odd_graph(rng, most=80)
    while rng.random() < 0.9 and graph.num_events < 12:
        graph = odd_graph(rng, most=80)
    query = odd_query(rng, graph) if rng.random() < 0.2 else _late_query(rng, graph)
    options = {
        "policy": rng.choice([policies.random, policies.temporal, policies.spatio_temporal, policies.event_impact]),
        "search": _search(rng),
        "size": int(rng.choice([1, 3, 6, FEW, FEW, FEW, FEW, 64])),
        "hops": None if rng.random() < 0.5 else int(rng.integers(1, 5)),
        "near": rng.choice([events_on_paths, events_among_nodes]),
        "protect": _protect(rng, graph) if rng.random() < 0.2 else None,
        "count": int(rng.choice([1, 1, 2, 5])),
        "seed": int(rng.integers(1000)),
        "evaluations": None if rng.random() < 0.6 else int(rng.choice([1, 2, 3, 10, 40, 300])),
        "full_replay": bool(rng.integers(2)),
    }
    edge = float(rng.choice([-1.0, 1.0]) * rng.choice([0.3, 1.0, 2.0, 3.0]))  # how sure the model is
    if rng.random() < 0.7:
        toy = _toy(rng, graph, query, edge)
        return Asked(lambda: toy, toy, graph, query, options)
    network = odd_network(rng, graph)
    with torch.no_grad():
        network.score.out.bias += edge - Replay(network, graph).logits(query, [frozenset()])[0]
    if rng.random() < 0.5:
        graph = graph.imagine(odd_edits(rng, graph))
    plain = Replay(network, graph, dtype=np.float64)
    return Asked(lambda: fast_model(network, graph), plain, graph, query, options)


def _late_query(rng: Generator, graph: TemporalGraph) -> Query:
    """One of several events, the one with the longest past."""
    queries = [graph.query(row) for row in rng.integers(graph.num_events // 2, graph.num_events, 4).tolist()]
    return max(queries, key=lambda query: len(graph.history(query.src, query.before)))


def _toy(rng: Generator, graph: TemporalGraph, query: Query, edge: float) -> ToyModel:
    """Weights that cancel out, ties, pairs of events that matter only together, decisions that need several events."""
    count = graph.num_events
    drawn = [rng.normal(0, 0.7, count), rng.integers(-2, 3, count), np.sign(edge) * rng.uniform(0.2, 1.0, count)]
    weights = drawn[rng.choice(3, p=[0.3, 0.2, 0.5])]
    rows = rng.integers(0, count, (int(rng.integers(0, 30)), 2)).tolist()
    pairs = {(one, other): float(rng.integers(-2, 3)) for one, other in rows}
    made = partial(ToyModel, graph, weights, half_life=1e30, pairs=pairs, indirect=float(rng.choice([0.0, 0.5])))
    return made(bias=edge - float(made().logits(query, [frozenset()])[0]))


def _search(rng: Generator) -> search.Search:
    iterations, alpha = int(rng.choice([1, 4, 10, 25, 100, 600])), float(rng.choice([0.0, 1 / 3, 2 / 3, 1.0]))
    first, ahead, children = bool(rng.random() < 0.2), int(rng.choice([1, 3, 16])), int(rng.choice([1, 2, 10]))
    tree: dict[str, Any] = {"iterations": iterations, "alpha": alpha, "ahead": ahead, "stop_at_first": first}
    made = [
        partial(search.greedy_then_cody, children=children, **tree),
        partial(search.greedy_then_cody, **tree),
        partial(search.cody, **tree),
        partial(search.greedy, children=children),
        partial(search.top_share, sparsity=float(rng.choice([0.0, 0.2, 0.5, 1.0]))),
    ]
    return made[rng.integers(len(made))]


def _protect(rng: Generator, graph: TemporalGraph) -> Protected:
    rows = rng.integers(0, graph.num_events, 3).tolist()
    begin = float(graph.time[rng.integers(graph.num_events)])
    return Protected(events=rows, nodes=[int(rng.integers(graph.num_nodes))], times=[(begin, begin)])


def _check_parts(asked: Asked, why: Explanation) -> None:
    """Claims that can be checked without asking the model."""
    rows = [event.row for event in why.candidates]
    options, hops = asked.options, why.parameters["candidates"]["hops"]
    near = candidates(asked.graph, asked.query, hops, options["size"], near=options["near"], protect=options["protect"])
    expect(rows == near.tolist(), "claims: the candidates are not those that were asked for", rows)
    past = {*range(asked.query.before), *asked.graph.imagined_before(asked.query).tolist()}
    expect(set(rows) <= past, "claims: a candidate is not of the past", rows)
    expect(set(why.rows) <= set(rows), "claims: an answer is not made of candidates", why.rows)
    if options["protect"] is not None:
        real = np.array([row for row in rows if row < asked.graph.num_events], dtype=np.int64)
        expect(not options["protect"].mask(asked.graph, real).any(), "claims: a protected event is a candidate", rows)
    budget = options["evaluations"]
    expect(budget is None or why.evaluations <= budget, "claims: more evaluations than allowed", why.evaluations)
    expect(len(why.evaluated) == why.evaluations, "claims: evaluations are not the sets that were explored")
    expect(len(why.alternatives) < options["count"], "claims: more counterfactuals than were asked for")
    same = Explanation.from_json(why.to_json())
    expect(same.to_json() == why.to_json(), "claims: an explanation is not what was read back")
    str(why), why.to_frame(), why._repr_html_()


def _check_answers(asked: Asked, why: Explanation) -> None:
    """Every logit that is shown is the right one, and what is called a counterfactual is one."""
    explored = why.evaluated[:: max(1, len(why.evaluated) // 20)]
    sets = [frozenset(why.rows[:length]) for length in range(len(why.rows) + 1)]
    sets += [frozenset(rows) for rows, _ in explored]
    said = [*why.logits, *(logit for _, logit in explored)]
    if why.without_all is not None:
        sets.append(frozenset(event.row for event in why.candidates))
        said.append(why.without_all)
    for change, logit, right in zip(sets, said, _truth(asked, sets), strict=True):
        same = logit is not None and abs(logit - right) <= UNSURE * max(1.0, abs(right))
        expect(same, "claims: a logit is wrong", f"with {sorted(change)}: {logit}, not {right}")
    _check_flips(asked, why.change, why.is_counterfactual, "is_counterfactual is wrong", why)
    known = [why.change, *(frozenset(other.rows) for other in why.alternatives)]
    for other in known[1:]:
        _check_flips(asked, other, True, "an alternative is not a counterfactual", why)
    contained = [sorted(one) for one in known for other in known if one < other or (one == other and one is not other)]
    expect(not contained or why.factual, "claims: a counterfactual contains another", f"{contained} of {known}")


def _check_flips(asked: Asked, change: Change, claimed: bool, fault: str, why: Explanation) -> None:
    original, without = _truth(asked, [frozenset(), change])
    if min(abs(original), abs(without)) > UNSURE:
        right = claimed == flips(original, without)
        expect(right, f"claims: {fault}", f"{why!r}, {sorted(change)}: {original} and {without}")


def _truth(asked: Asked, sets: Sequence[Change]) -> FloatArray:
    return asked.truth.logits(asked.query, list(sets))


def _check_by_trying_all(asked: Asked, why: Explanation) -> None:
    rows = [event.row for event in why.candidates]
    sets = [frozenset(chosen) for size in range(len(rows) + 1) for chosen in combinations(rows, size)]
    logits = dict(zip(sets, asked.make().logits(asked.query, sets).tolist(), strict=True))
    if any(abs(logit) <= UNSURE for logit in logits.values()) and not isinstance(asked.truth, ToyModel):
        return
    flipping = [change for change in sets if flips(why.original, round(logits[change], 5))]
    smallest = min(map(len, flipping), default=len(rows) + 1)
    shown = f"{why!r} {why.rows}, the smallest sets are {[sorted(one) for one in flipping if len(one) == smallest]}"
    if why.verdict == "none among the candidates":
        expect(not flipping, "claims: there is a counterfactual among the candidates", shown)
    if why.is_minimal:
        expect(len(why.rows) == smallest, "claims: a smaller set does it", shown)
    flipping_sets = min((len(change) for change, _ in why.counterfactuals), default=len(rows) + 1)
    expect(min(flipping_sets, why.proven) <= smallest, "claims: what is proven is wrong", f"{why.proven}: {shown}")
    if why.is_counterfactual and why.ended == "exhausted":
        moved = {change: abs(logits[change] - why.original) for change in flipping if len(change) == smallest}
        furthest = max(moved.values()) - moved.get(why.change, 0.0) < 2e-5
        expect(furthest, "claims: an equally small set moves the logit further", shown)
    if _is_lean(asked) and why.is_counterfactual:
        spare = [row for row in why.rows if why.change - {row} in flipping]
        expect(not spare, "claims: an event of a counterfactual can be left out", f"{spare} of {shown}")


def _is_lean(asked: Asked) -> bool:
    """Whether the default search had a budget that lasts."""
    chosen: Any = asked.options["search"]
    default = chosen.func is search.greedy_then_cody and not chosen.keywords["stop_at_first"]
    return default and asked.options["evaluations"] is None


def _check_again(asked: Asked, why: Explanation) -> None:
    """The same question has the same answer, from a new model and from one that was asked other things before."""
    model = asked.make()
    for query in (asked.query, asked.graph.query(0), asked.query):
        again = explain(model, asked.graph, query, **asked.options)
        if query == asked.query:
            same = replace(again, seconds=0.0) == replace(why, seconds=0.0)
            expect(same, "claims: the same question has another answer", f"{why.to_json()} and {again.to_json()}")


class Slow:
    """A model that takes its time over each set."""

    identity, hops = "slow", 2

    def __init__(self, model: Model, seconds: float) -> None:
        self.model, self.seconds = model, seconds

    def on(self, graph: TemporalGraph) -> Slow:
        return self

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        time.sleep(self.seconds * len(changes))
        return self.model.logits(query, changes)


def _check_seconds(asked: Asked, seconds: float) -> None:
    begun = time.monotonic()
    options = asked.options | {"seconds": seconds, "evaluations": None}
    try:
        why = explain(Slow(asked.make(), 0.005), asked.graph, asked.query, **options)
    except BudgetError as error:
        raise Finding("claims: a budget of seconds that runs out is an error", error) from None
    spent = time.monotonic() - begun
    report = 0.005 * (len(why.rows) + 4)  # answers that are shown, and the confirmation
    expect(spent < seconds + report + 10.0, "claims: a budget of seconds is not kept", f"{spent:.2f} s of {seconds} s")
    str(why), why.to_json(), why._repr_html_()
