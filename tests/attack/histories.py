"""About long histories the engine approximates: no decision and no claim is wrong for it, whatever the memory does."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import numpy as np
import torch

from attack.finding import expect
from attack.things import Generator
from cody.engine import FastTGN, Replay, fast_model, tgn
from cody.engine.fast import QueryWorkspace
from cody.engine.selfcheck import answer_all
from cody.explaining.pipeline import explain
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Change
from cody.models.margins import flips
from random_events import random_graph, random_network

FEW = 4  # candidates whose sets are all tried
LONG = 100  # versions that may change: what is called a long history here
REPEATABLE = 1e-6  # where plain replay differs by more, rounding decides what the model says
OFF = 1e-2  # what an estimate may be off at most: a hundred times what is promised for those that were compared


class Case(NamedTuple):
    model: FastTGN  # as users have it
    query: Query
    rows: list[int]  # the candidates, some of them old


def attack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    with patch.object(tgn, "MANY_VERSIONS", LONG):
        case = _case(rng)
        few = sorted(rng.choice(case.rows, FEW, replace=False).tolist())
        sets = [frozenset(some) for size in range(FEW + 1) for some in combinations(few, size)]
        sets += [frozenset({row}) for row in case.rows if row not in few]
        right = _right(case, sets)
        if right is not None:
            _check_answers(sets, _in_parts(rng, case, sets), right)
            _check_claims(case, few, dict(zip(sets[: 2**FEW], right.tolist(), strict=False)))


def _check_answers(sets: Sequence[Change], answers: FloatArray, right: FloatArray) -> None:
    for change, answer, exact in zip(sets, answers.tolist(), right.tolist(), strict=True):
        shown = f"{sorted(change)}: {answer}, not {exact}"
        close = abs(answer - exact) <= OFF * max(1.0, abs(exact))
        expect(close, "histories: an answer is far off", shown)
        same = (round(answer, 5) > 0) == (round(exact, 5) > 0)
        expect(same, "histories: an answer is on the wrong side of the line", shown)


def _case(rng: Generator) -> Case:
    """Few nodes that meet often, so that nearly every version depends on an old event."""
    nodes, events = int(rng.choice([2, 2, 4, 10])), int(rng.choice([200, 400]))
    graph = random_graph(rng, nodes=nodes, events=events, ties=bool(rng.integers(2)))
    sizes = {
        "layers": int(rng.choice([1, 1, 2])),
        "heads": int(rng.choice([1, 2])),
        "dimension": int(rng.choice([8, 24])),
        "neighbours": int(rng.choice([1, 3])),
        "batch": int(rng.choice([1, 1, 4])),
    }
    network = random_network(graph, "tgn", seed=int(rng.integers(10**6)), **sizes)
    factor = float(rng.choice([0.3, 0.6, 0.8, 1.0, 1.0, 1.3]))  # from a memory that forgets to one that amplifies
    with torch.no_grad():
        network.memory.weight_ih.mul_(factor)
        network.memory.weight_hh.mul_(factor)
    query = graph.query(int(rng.integers(events - 20, events)))
    rows = sorted(rng.choice(query.before, int(rng.choice([8, 24])), replace=False).tolist())
    _shift_to_the_line(rng, network, graph, query, rows)
    return Case(cast("FastTGN", fast_model(network, graph)), query, rows)


def _shift_to_the_line(rng: Generator, network: Any, graph: TemporalGraph, query: Query, rows: list[int]) -> None:
    """Put the line where one removal nearly lands, by a hair more or less."""
    row = int(rng.choice(rows))
    (logit,) = Replay(network, graph, dtype=np.float64).logits(query, [frozenset({row})])
    hair = float(rng.choice([-1.0, 1.0]) * rng.choice([1e-5, 3e-5, 1e-4, 5e-4]))
    with torch.no_grad():
        network.score.out.bias += hair - float(logit)


def _right(case: Case, sets: Sequence[Change]) -> FloatArray | None:
    """The exact answers; None where rounding decides what the model says."""
    workspace = QueryWorkspace(case.model, [case.query], case.rows)
    exact = np.array(answer_all(workspace if workspace.exact else workspace.exactly, sets))[:, 0]
    some = [0, len(sets) // 2, len(sets) - 1]
    chosen, replay = [sets[place] for place in some], case.model.replay
    plain = replay.logits(case.query, chosen)  # from the first event on
    off = np.abs(plain - exact[some]).max() / max(1.0, np.abs(plain).max())
    if off >= OFF and np.abs(_nudged(replay).logits(case.query, chosen) - plain).max() > OFF:
        return None
    expect(off < OFF, "histories: an exact answer differs from replay", off)
    return exact if off < REPEATABLE else None


def _nudged(replay: Replay) -> Replay:
    """The same model but for the last digits of its weights: where it answers otherwise, nobody knows what is right."""
    other = copy(replay)
    moved = {name: array * (1 + 4e-16) for name, array in replay.weights.arrays.items()}
    other.weights = replace(replay.weights, arrays=moved)
    return other


def _in_parts(rng: Generator, case: Case, sets: Sequence[Change]) -> FloatArray:
    """A session that is asked again and again, about more and more."""
    session = case.model.session(case.query, case.rows)
    cuts = [0, *sorted(rng.integers(0, len(sets), 3).tolist()), len(sets)]
    answers = np.concatenate([session.logits(sets[begin:end]) for begin, end in pairwise(cuts)])
    return np.array([session.corrections.get(*given) for given in zip(sets, answers.tolist(), strict=True)])


def _check_claims(case: Case, few: list[int], truth: dict[Change, float]) -> None:
    """Whatever an explanation says about the sets of a few candidates."""

    def near(graph: TemporalGraph, query: Query, hops: int, size: int) -> IntArray:
        return np.array(few)

    why = explain(case.model, case.model.graph, case.query, near=near, prove=3)
    original = round(truth[frozenset()], 5)
    flipping = [change for change, logit in truth.items() if flips(original, round(logit, 5))]
    smallest = min(map(len, flipping), default=FEW + 1)
    shown = f"{why!r} {why.rows}, proven {why.proven}; right are {[sorted(one) for one in flipping]}"
    if why.verdict == "none among the candidates":
        expect(not flipping, "histories: there is a counterfactual among the candidates", shown)
    if why.is_counterfactual:
        expect(why.change in flipping, "histories: a counterfactual is none", shown)
    if why.is_minimal:
        expect(len(why.rows) == smallest, "histories: a smaller set flips it", shown)
    met = min((len(change) for change, _ in why.counterfactuals), default=FEW + 1)
    expect(min(met, why.proven) <= smallest, "histories: what is proven is wrong", shown)
