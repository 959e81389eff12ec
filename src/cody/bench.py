"""What the exact engine costs, side by side with one plain forward pass for each question, in one run.

Times are processor seconds of one thread (`time.process_time`), so that other load on the machine counts little; still,
read the ratios, not the times. The weights are random: they do not change the work.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cody.candidates import candidates
from cody.data import load
from cody.explain import explain
from cody.graph import Query, TemporalGraph
from cody.inference import FastTGN, Replay, fast, fast_model, tgn
from cody.inference.fast import FastModel
from cody.inference.weights import Weights
from cody.model import Change
from cody.models.architectures import ARCHITECTURES
from cody.models.sizes import PRESETS
from cody.models.train import new_network
from cody.oracle import Oracle
from cody.search import cody

QUESTIONS = 300  # of one explanation
BATCH = 20  # of them asked together
OUT_OF_REACH = 5.0  # added to logits where no search shall end early


@dataclass(frozen=True, slots=True)
class EngineCost:
    """One architecture: a question answered plainly and fast."""

    model: str
    queries: int
    plain_ms: float  # one forward of one set, the window since the oldest candidate replayed
    fast_ms: float  # one set, in the course of an explanation
    explanation_s: float  # all questions of one explanation
    share_outside: float  # of the fast time: everything but matrix products and attention
    largest_difference: float  # between the two, on logits
    peak_mib: float | None  # beyond graph and version table

    @property
    def ratio(self) -> float:
        return self.plain_ms / self.fast_ms


@dataclass(frozen=True, slots=True)
class ExplanationCost:
    """One architecture: a whole explanation, search, model and confirmation."""

    model: str
    queries: int
    seconds: float  # as it is
    one_by_one_s: float  # the same search, one question at a time
    plain_s: float  # one plain forward for each of its questions
    share_outside_model: float  # of `seconds`: candidates, search, confirmation
    share_outside_kernels: float  # everything but matrix products and attention
    batches: float  # calls of the model
    share_unused: float  # of the answers: asked ahead and never wanted

    @property
    def ratio(self) -> float:
        return self.plain_s / self.seconds


@dataclass(frozen=True, slots=True)
class GrowthCost:
    """One explanation on a generated graph of some size, the version table on disk."""

    model: str
    events: int
    table_gib: float
    build_s: float
    explanation_s: float
    largest_difference: float


Cost = EngineCost | ExplanationCost | GrowthCost


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}


def questions(rng: np.random.Generator, events: list[int], count: int = QUESTIONS) -> list[Change]:
    """Sets as a tree search asks for them: single events first, then sets that were asked before and one event more."""
    asked = dict.fromkeys([frozenset(), *(frozenset({event}) for event in events)])
    for _ in range(20 * count):
        if len(asked) > count:
            break
        parent = list(asked)[int(rng.integers(1, len(asked)))]
        asked[parent | {int(rng.choice(events))}] = None
    return list(asked)[:count]


def measure_engine(kind: str, graph: TemporalGraph, *, preset: str = "paper", queries: int = 20) -> EngineCost:
    """Ask the questions of explanations in the test period, fast; some of them plainly as well, in turn."""
    network = new_network(ARCHITECTURES[kind], graph, PRESETS[preset], seed=0)
    model, rng = fast_model(network, graph), np.random.default_rng(0)
    first, *others = _queries(rng, graph, queries + 1)
    peak = _peak_mib(lambda: _ask(model, first, questions(rng, candidates(graph, first).tolist())))  # also warms up
    plain, quick, inside, differences = [], [], [], []
    for query in others:
        sets = questions(rng, candidates(graph, query).tolist())
        with _timed_inside() as kernels:
            start = time.process_time()
            answers = _ask(model, query, sets)
            quick.append((time.process_time() - start) / len(sets))
        inside.append(kernels[0] / len(sets))
        some = [int(place) for place in rng.choice(len(sets), min(5, len(sets)), replace=False)]
        reference = _plain(model, query, sets)
        start = time.process_time()
        expected = reference.logits(query, [sets[place] for place in some])
        plain.append((time.process_time() - start) / len(some))
        differences.append(float(np.abs(expected - answers[some]).max()))
    fast_time = float(np.mean(quick))
    return EngineCost(
        model=kind,
        queries=queries,
        plain_ms=1000 * float(np.mean(plain)),
        fast_ms=1000 * fast_time,
        explanation_s=fast_time * QUESTIONS,
        share_outside=1 - float(np.mean(inside)) / fast_time,
        largest_difference=max(differences),
        peak_mib=peak,
    )


def measure_explanation(
    kind: str, graph: TemporalGraph, *, preset: str = "paper", queries: int = 20
) -> ExplanationCost:
    """Whole explanations of links of the test period: asking ahead, one question at a time, and one plain forward each.

    A bias keeps the decision from changing, so that every search uses all its iterations.
    """
    network = new_network(ARCHITECTURES[kind], graph, PRESETS[preset], seed=0)
    with torch.no_grad():
        network.score.out.bias.add_(OUT_OF_REACH)
    model, rng = fast_model(network, graph), np.random.default_rng(0)
    first, *others = _queries(rng, graph, queries + 1)
    explain(model, graph, first, search=cody)  # warms up
    ahead, single, plain, outside, in_model, batches, unused = ([] for _ in range(7))
    for query in others:
        oracles: list[Oracle] = []
        with _timed_inside() as kernels, _timed(fast.FastSession, "logits") as answering:
            start = time.process_time()
            why = explain(model, graph, query, search=cody, watch=oracles.append)
            ahead.append(time.process_time() - start)
        outside.append(ahead[-1] - kernels[0])
        in_model.append(answering[0])
        batches.append(oracles[-1].counts.batches)
        unused.append(oracles[-1].counts.share_unused)
        start = time.process_time()
        again = explain(model, graph, query, search=partial(cody, ahead=1))
        single.append(time.process_time() - start)
        if (again.rows, again.explored) != (why.rows, why.explored):
            raise AssertionError(f"asking ahead changed the explanation of {query}")
        plain.append(
            len(why.explored) * _plain_seconds(model, query, rng, [frozenset(rows) for rows, _ in why.explored])
        )
    mean = float(np.mean(ahead))
    return ExplanationCost(
        model=kind,
        queries=queries,
        seconds=mean,
        one_by_one_s=float(np.mean(single)),
        plain_s=float(np.mean(plain)),
        share_outside_model=1 - float(np.mean(in_model)) / mean,
        share_outside_kernels=float(np.mean(outside)) / mean,
        batches=float(np.mean(batches)),
        share_unused=float(np.mean(unused)),
    )


def _plain_seconds(model: FastModel, query: Query, rng: np.random.Generator, sets: list[Change]) -> float:
    """One plain forward of one of these sets."""
    some = [sets[int(place)] for place in rng.choice(len(sets), min(5, len(sets)), replace=False)]
    judge = _plain(model, query, sets)
    start = time.process_time()
    judge.logits(query, some)
    return (time.process_time() - start) / len(some)


def _plain(model: FastModel, query: Query, sets: list[Change]) -> Replay:
    """Plain forward passes in single precision, as a model is usually run, since the oldest event of the sets."""
    judge = model.plain(query, frozenset().union(*sets))
    start = None if judge.start is None else judge.start._replace(memory=judge.start.memory.astype(np.float32))
    return Replay(model.weights, model.graph, start=start)


def measure_growth(
    kind: str, sizes: list[int], *, preset: str = "paper", queries: int = 20, folder: Path | None = None
) -> Iterator[GrowthCost]:
    """The cost of an explanation on generated graphs of these numbers of events, all with the same degrees."""
    for events in sizes:
        graph = generated(events)
        network = new_network(ARCHITECTURES[kind], graph, PRESETS[preset], seed=0)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            start = time.perf_counter()
            model = fast_model(network, graph, Path(place))
            built = time.perf_counter() - start
            rng = np.random.default_rng(0)
            spent, differences = [], []
            for number, query in enumerate(_queries(rng, graph, queries + 1)):
                sets = questions(rng, candidates(graph, query).tolist())
                _ask(model, query, sets)  # brings the pages of the table that it reads into memory
                start = time.process_time()
                answers = _ask(model, query, sets)
                spent.append(time.process_time() - start)
                if number < 3:
                    reference = _plain(model, query, sets).logits(query, sets[:3])
                    differences.append(float(np.abs(reference - answers[:3]).max()))
            table = model.table.nbytes if isinstance(model, FastTGN) else 0
            yield GrowthCost(kind, events, table / 2**30, built, float(np.mean(spent[1:])), max(differences))


def generated(events: int, *, degree: int = 60, seed: int = 0) -> TemporalGraph:
    """Random events between nodes of uneven activity; the mean degree does not depend on the size."""
    rng = np.random.default_rng(seed)
    nodes = max(10, 2 * events // degree)
    activity = rng.permutation((1 + np.arange(nodes)) ** -0.5)
    threshold = np.cumsum(activity / activity.sum())
    src, dst = (np.minimum(np.searchsorted(threshold, rng.random(events)), nodes - 1) for _ in range(2))
    return TemporalGraph.from_arrays(src, dst, np.cumsum(rng.exponential(60.0, events)), num_nodes=nodes)


def _queries(rng: np.random.Generator, graph: TemporalGraph, count: int) -> list[Query]:
    """Events of the last 15 % that have a past."""
    rows = rng.permutation(np.arange(int(0.85 * graph.num_events), graph.num_events))
    queries = (graph.query(row) for row in rows.tolist())
    return [query for query, _ in zip((q for q in queries if len(candidates(graph, q))), range(count), strict=False)]


def _ask(model: FastModel, query: Query, sets: list[Change]) -> Any:
    session = model.session(query, sorted(frozenset().union(*sets)))
    return np.concatenate([session.logits(sets[start : start + BATCH]) for start in range(0, len(sets), BATCH)])


@contextlib.contextmanager
def _timed_inside() -> Iterator[list[float]]:
    """Processor seconds within matrix products and attention, while the block runs."""
    with (
        _timed(fast.Layer, "compute") as seconds,
        _timed(fast.Events, "_compute", seconds),
        _timed(tgn.Gates, "remember", seconds),
        _timed(Weights, "score", seconds),
    ):
        yield seconds


@contextlib.contextmanager
def _timed(owner: Any, name: str, seconds: list[float] | None = None) -> Iterator[list[float]]:
    """Processor seconds within a method, while the block runs."""
    seconds, original = seconds or [0.0], getattr(owner, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return original(*arguments, **options)
        finally:
            seconds[0] += time.process_time() - start

    setattr(owner, name, timed)
    try:
        yield seconds
    finally:
        if isinstance(owner, type):
            setattr(owner, name, original)
        else:
            delattr(owner, name)  # the class's own shows again


def _peak_mib(run: Callable[[], Any]) -> float | None:
    """How far the resident memory rises while `run` runs; None where the system does not tell."""
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not reset.exists():
        return None
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide the rise
    reset.write_text("5")  # forget the earlier peak
    before = _kib(status, "VmRSS")
    run()
    return (_kib(status, "VmHWM") - before) / 1024


def _kib(status: Path, entry: str) -> int:
    (line,) = [line for line in status.read_text().splitlines() if line.startswith(entry)]
    return int(line.split()[1])


def run(data: str, preset: str, queries: int, sizes: list[int]) -> Iterator[Cost]:
    """All measurements, one after the other, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        graph = load(data)
        for kind in ARCHITECTURES:
            yield measure_engine(kind, graph, preset=preset, queries=queries)
        for kind in ARCHITECTURES:
            yield measure_explanation(kind, graph, preset=preset, queries=queries)
        for kind in ARCHITECTURES:
            yield from measure_growth(kind, sizes, preset=preset, queries=queries)
    finally:
        torch.set_num_threads(threads)


def as_json(cost: Cost) -> dict[str, Any]:
    ratio = {} if isinstance(cost, GrowthCost) else {"ratio": cost.ratio}
    return asdict(cost) | ratio
