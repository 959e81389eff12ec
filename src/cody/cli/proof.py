"""What a proof would cost, before it is begun: the number of sets grows fast with their size."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import numpy as np

from cody.cli.terminal import say
from cody.errors import CallError
from cody.explaining.advice import LONGEST
from cody.explaining.pipeline import spaces
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.contract import Model, open_session
from cody.search.further import number_of_sets
from cody.search.options import SearchOptions
from cody.search.space import SearchSpace
from cody.study.explainers import Explainer
from cody.utils.words import count, duration

FEW = 3_000  # sets that nobody needs to be warned of
MOST_SETS = 1_000_000  # that the memory of a small machine has room for
TRIED = 128  # sets that are timed


def check_proof(model: Model, graph: TemporalGraph, explainer: Explainer, queries: Sequence[Query], size: int) -> None:
    """Say what it takes to ask about every set of fewer than `size` events, and refuse what nobody would wait for."""
    considered = [_considered(model, graph, explainer, query) for query in queries]
    sets = _sets(considered, size)
    if sets <= FEW:
        return
    each = _seconds_each(model, graph, queries[0], considered[0], size)
    if _fits(sets, each):
        say(f"--prove {size} evaluates {_cost(sets, each)}")
        return
    smaller = next(k for k in range(size, 0, -1) if k == 1 or _fits(_sets(considered, k), each))
    instead = f"try --prove {smaller} ({_cost(_sets(considered, smaller), each)}), or " if smaller > 1 else "try "
    raise CallError(
        f"--prove {size} would evaluate {_cost(sets, each)}; {instead}"
        "fewer --candidates, or a budget: --seconds, --evaluations"
    )


def _considered(model: Model, graph: TemporalGraph, explainer: Explainer, query: Query) -> SearchSpace:
    """What could change, as an explanation has it."""
    same = ("hops", "near", "protect", "edits", "by", "dependants")
    options = SearchOptions(**{name: getattr(explainer, name) for name in same})
    return spaces(model, graph, query, options)(explainer.size or SIZE, options.edits)


def _sets(considered: Sequence[SearchSpace], size: int) -> int:
    return sum(number_of_sets(len(each.rows), size) for each in considered)


def _fits(sets: int, each: float) -> bool:
    return sets <= MOST_SETS and sets * each <= LONGEST


def _cost(sets: int, each: float) -> str:
    return f"{count(sets, 'set')} of events, about {duration(sets * each)}"


def _seconds_each(model: Model, graph: TemporalGraph, query: Query, space: SearchSpace, size: int) -> float:
    """The time for one set, from some that are evaluated together. Imagined events cost as much as real ones."""
    real = space.rows[space.rows < graph.num_events]
    rng = np.random.default_rng(0)
    length = min(size - 1, len(real))
    sets = [frozenset(rng.choice(real, length, replace=False).tolist()) for _ in range(TRIED)]
    session = space.in_units(open_session(model, query, [row for row in space.events if row < graph.num_events]))
    session.logits([frozenset()])  # what comes first takes longer
    begun = monotonic()
    session.logits(sets)
    return (monotonic() - begun) / TRIED
