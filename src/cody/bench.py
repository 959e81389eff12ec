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
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cody.data import load
from cody.graph import Query, TemporalGraph
from cody.inference import FastTGN, fast, fast_model, tgn
from cody.inference.fast import FastModel
from cody.models import ARCHITECTURES
from cody.models.layers import Perceptron
from cody.models.sizes import PRESETS
from cody.models.train import new_network
from cody.nearby import candidates
from cody.oracle import Removal

QUESTIONS = 300  # of one explanation
BATCH = 20  # of them asked together


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
class GrowthCost:
    """One explanation on a generated graph of some size, the version table on disk."""

    model: str
    events: int
    table_gib: float
    build_s: float
    explanation_s: float
    largest_difference: float


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}


def questions(rng: np.random.Generator, events: list[int], count: int = QUESTIONS) -> list[Removal]:
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
        reference = model.plain(query, frozenset().union(*sets))
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
                model.scopes.clear()
                start = time.process_time()
                answers = _ask(model, query, sets)
                spent.append(time.process_time() - start)
                if number < 3:
                    reference = model.plain(query, frozenset().union(*sets)).logits(query, sets[:3])
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


def _ask(model: FastModel, query: Query, sets: list[Removal]) -> Any:
    return np.concatenate([model.logits(query, sets[start : start + BATCH]) for start in range(0, len(sets), BATCH)])


@contextlib.contextmanager
def _timed_inside() -> Iterator[list[float]]:
    """Processor seconds within matrix products and attention, while the block runs."""
    seconds = [0.0]
    places: list[tuple[Any, str]] = [
        (fast.Layer, "compute"),
        (fast.Events, "compute"),
        (tgn.MemoryInputs, "_remember"),
        (Perceptron, "forward"),
    ]
    originals = [getattr(owner, name) for owner, name in places]

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            start = time.process_time()
            try:
                return original(*arguments)
            finally:
                seconds[0] += time.process_time() - start

        return run

    try:
        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, timed(original))
        yield seconds
    finally:
        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


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


def run(data: str, preset: str, queries: int, sizes: list[int]) -> Iterator[EngineCost | GrowthCost]:
    """All measurements, one after the other, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        graph = load(data)
        for kind in ARCHITECTURES:
            yield measure_engine(kind, graph, preset=preset, queries=queries)
        for kind in ARCHITECTURES:
            yield from measure_growth(kind, sizes, preset=preset, queries=queries)
    finally:
        torch.set_num_threads(threads)


def as_json(cost: EngineCost | GrowthCost) -> dict[str, Any]:
    ratio = {"ratio": cost.ratio} if isinstance(cost, EngineCost) else {}
    return asdict(cost) | ratio
