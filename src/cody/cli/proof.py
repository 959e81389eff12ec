"""What a proof would cost, before it is begun: the number of sets grows fast with their size."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import numpy as np

from cody.cli.messages import say
from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.neighbourhood import SIZE, candidates
from cody.models.contract import Model, as_seen, open_session, reach
from cody.search.exhaustive import number_of_sets
from cody.search.space import build_space
from cody.study.explainers import Explainer
from cody.utils.words import count, duration

FEW = 3_000  # sets that nobody needs to be warned of
MOST_SETS = 1_000_000  # that the memory of a small machine has room for
LONGEST = 600.0  # seconds; nobody is sent to wait for longer
TRIED = 128  # sets that are timed


def check_proof(
    model: Model,
    graph: TemporalGraph,
    explainer: Explainer,
    queries: Sequence[Query],
    size: int,
) -> None:
    """Say what it takes to ask about every set of fewer than `size` events, and refuse what nobody would wait for."""
    rows = [_considered(model, graph, explainer, query) for query in queries]
    sets = _sets(rows, size)
    if sets <= FEW:
        return
    each = _seconds_each(model, graph, queries[0], rows[0], size)
    if _fits(sets, each):
        say(f"--prove {size} evaluates {_cost(sets, each)}")
        return
    smaller = next(k for k in range(size, 0, -1) if k == 1 or _fits(_sets(rows, k), each))
    instead = f"try --prove {smaller} ({_cost(_sets(rows, smaller), each)}), or " if smaller > 1 else "try "
    raise CallError(
        f"--prove {size} would evaluate {_cost(sets, each)}; {instead}"
        "fewer --candidates, or a budget: --seconds, --evaluations"
    )


def _considered(model: Model, graph: TemporalGraph, explainer: Explainer, query: Query) -> IntArray:
    """What could change, as an explanation has it."""
    protect = explainer.protect and explainer.protect.at(query)
    hops = reach(model) if explainer.hops is None else explainer.hops
    query, size = as_seen(model, graph, query), explainer.size or SIZE
    near = candidates(graph, query, hops, size, near=explainer.near, protect=protect)
    return build_space(graph, query, near, size, explainer.edits, protect).rows


def _sets(rows: Sequence[IntArray], size: int) -> int:
    return sum(number_of_sets(len(each), size) for each in rows)


def _fits(sets: int, each: float) -> bool:
    return sets <= MOST_SETS and sets * each <= LONGEST


def _cost(sets: int, each: float) -> str:
    return f"{count(sets, 'set')} of events, about {duration(sets * each)}"


def _seconds_each(model: Model, graph: TemporalGraph, query: Query, rows: IntArray, size: int) -> float:
    """The time for one set, from some that are asked about together. Imagined events cost as much as real ones."""
    real = rows[rows < graph.num_events]
    rng = np.random.default_rng(0)
    length = min(size - 1, len(real))
    sets = [frozenset(rng.choice(real, length, replace=False).tolist()) for _ in range(TRIED)]
    session = open_session(model, query, real.tolist())
    session.logits([frozenset()])  # what comes first takes longer
    begun = monotonic()
    session.logits(sets)
    return (monotonic() - begun) / TRIED
