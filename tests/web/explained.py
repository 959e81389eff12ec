"""Explanations to show: small ones of a model that can be computed by hand, and one as large as a page must hold."""

from functools import cache, partial

import numpy as np

from cody import Add, Explanation, Move, TemporalGraph, explain
from cody.models import ToyModel
from cody.search import cody as cody_search
from cody.search import greedy

SRC = [0, 0, 3, 1, 0, 2, 1, 0]
DST = [1, 2, 4, 2, 2, 1, 3, 1]
EVIL = "</script><img src=x onerror=alert(1)><!--"
BIDI = "\u202egnp.exe\u2066\x1b[31m"


def toy(*, names=None, times=None, count=4, bias=-3.0, **options) -> Explanation:
    """Two events that decide together, others that matter a little or against it."""
    times = times or [10.0 * row for row in range(len(SRC))]
    graph = TemporalGraph.from_arrays(SRC, DST, times, names=names)
    model = ToyModel(graph, weights=[1, 2, 0, 0, 4, 4, -2, 0], bias=bias, half_life=1e9)
    return explain(model, graph, graph.query(7), count=count, **options)


def imagined() -> Explanation:
    graph = TemporalGraph.from_arrays(SRC, DST, [10.0 * row for row in range(len(SRC))])
    longer = graph.imagine([Add(0, 1, 65.0), Move(4, 5.0)])
    return explain(ToyModel(longer, bias=-6.5, half_life=1e9), longer, longer.query(7), count=3)


def nothing() -> Explanation:
    """A link without a past."""
    graph = TemporalGraph.from_arrays(SRC, DST, [10.0 * row for row in range(len(SRC))])
    return explain(ToyModel(graph, bias=1.0), graph, graph.query(0))


@cache
def large() -> Explanation:
    """64 candidates with long names and real dates, and 300 sets."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 45, (2, 400))
    time = 1_082_040_960 + np.sort(rng.exponential(3e5, 400).cumsum())
    names = [f"somebody.{node}@department.example" for node in range(45)]
    graph = TemporalGraph.from_arrays(src, dst, time, names=names)
    model = ToyModel(graph, weights=rng.normal(size=400), bias=9.0, indirect=0.3, half_life=1e9)
    why = explain(model, graph, graph.query(399), search=partial(cody_search, iterations=300))
    assert len(why.candidates) == 64
    assert len(why.evaluated) >= 290
    return why


def cut_short() -> Explanation:
    return toy(bias=40.0, search=partial(greedy, children=2))
