"""What an explanation costs on this machine: every figure that docs/engine.md has a row for, side by side in one run.

    python bench/engine.py
    python bench/engine.py --only tail --links 1000 --tail-model runs/tgn-wikipedia --json > tail.json
    python bench/engine.py --only growth --preset compact --sizes 100000,10000000 --folder DISK

Each figure is a ratio of two things measured in the same run. Times are processor seconds of one thread, so that other
load on the machine counts little; still, read the ratios, not the times. The default takes about a minute; tail and
growth take as long as their links and events need. Where weights are random it is said; they do not change the work of
one set.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cody.data import datasets, is_here, load, save_graph
from cody.engine import FastTGAT, FastTGN, Replay, fast_model, load_model, memory
from cody.engine.attention import Attention, Decoder
from cody.engine.compiled import CompiledFollow
from cody.engine.fast import FastModel
from cody.engine.layer import CompiledLayer, CompiledLinkDecoder, EventInputs
from cody.engine.library import form
from cody.engine.vectors import Products
from cody.engine.weights import Weights
from cody.errors import CallError, CodyError, did_you_mean
from cody.explaining.pipeline import explain
from cody.explaining.what_if import parse_rows
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE, candidates
from cody.models.contract import Change, Model
from cody.models.sizes import PRESETS
from cody.search.oracle import Oracle
from cody.study.explainers import DEFAULT_SEARCH, NEAR, explainer
from cody.train.architectures import ARCHITECTURES
from cody.train.checkpoint import Checkpoint, save_model
from cody.train.training import new_network
from cody.utils.words import count, to_json

EVALUATIONS = 300  # of one explanation
BATCH = 32  # of them in one batch: the mean of the default search
OUT_OF_REACH = 5.0  # added to logits where no search shall end early
REPLAYED = 3  # explanations of which every set is also computed by the reference implementation
STARTS = 15  # of each process
LOOK_EVERY = 0.01  # seconds between two looks at the memory of a process
TAIL_DATA = "wikipedia"
GROWTH_NEAR = "events"  # where nodes are active all the time, events of the ends can be as old as the log
USUAL_EVENT = 53854  # of the default data set, explained by the shipped model


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What is measured, and on what."""

    data: str = "collegemsg"
    preset: str = "paper"
    queries: int = 10  # links to average over
    links: int = 100  # of the test period, for the slow ones among them
    tail_data: str | None = None  # None: Wikipedia, if it is here
    tail_model: str | None = None  # None: random weights
    sizes: tuple[int, ...] = (100_000, 1_000_000)  # events of made-up graphs
    folder: Path | None = None  # where tables of memories are built; None: where temporary files are


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, in words and in numbers."""

    row: str  # which measurement it belongs to
    what: str
    figure: str
    values: dict[str, Any]


Progress = Callable[[str], None]  # called with what is being measured


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    return {"cpu": cpu, "cores": os.cpu_count(), **versions, "changes_followed_by": form()}


def search_sets(rng: np.random.Generator, events: list[int]) -> list[Change]:
    """Sets as a tree search evaluates them: single events first, then earlier sets with one more event."""
    sets = dict.fromkeys([frozenset(), *(frozenset({event}) for event in events)])
    for _ in range(20 * EVALUATIONS):
        if len(sets) > EVALUATIONS:
            break
        parent = list(sets)[int(rng.integers(1, len(sets)))]
        sets[parent | {int(rng.choice(events))}] = None
    return list(sets)[:EVALUATIONS]


def measure_sets(settings: BenchSettings, progress: Progress) -> Iterator[Row]:
    """One set, in the course of an explanation, against one plain forward of one set."""
    graph = load(settings.data)
    for kind in ARCHITECTURES:
        progress(f"one set, {kind}")
        yield _sets(kind, graph, settings)


def _sets(kind: str, graph: TemporalGraph, settings: BenchSettings) -> Row:
    """Evaluate the sets of explanations in the test period; five of each also by the reference, in turn."""
    model, rng = random_model(kind, graph, settings.preset), np.random.default_rng(0)
    first, *others = late_links(rng, graph, settings.queries + 1)
    warm_up = search_sets(rng, candidates(graph, first).tolist())
    peak = _peak_mib(lambda: _evaluate(model, first, warm_up))
    plain, quick, differences = [], [], []
    for query in others:
        sets = search_sets(rng, candidates(graph, query).tolist())
        start = time.process_time()
        answers = _evaluate(model, query, sets)
        quick.append((time.process_time() - start) / len(sets))
        some = [int(place) for place in rng.choice(len(sets), min(5, len(sets)), replace=False)]
        reference = _plain(model, query, sets)
        start = time.process_time()
        expected = reference.logits(query, [sets[place] for place in some])
        plain.append((time.process_time() - start) / len(some))
        differences.append(float(np.abs(expected - answers[some]).max()))
    plain_ms, fast_ms = 1000 * float(np.mean(plain)), 1000 * float(np.mean(quick))
    return Row(
        "sets",
        f"{kind.upper()}, one set: plain against fast",
        f"{plain_ms / fast_ms:.0f}× ({plain_ms:.1f} ms, {fast_ms:.3f} ms)",
        {
            "model": kind,
            "queries": len(others),
            "plain_ms": plain_ms,
            "fast_ms": fast_ms,
            "ratio": plain_ms / fast_ms,
            "largest_difference": max(differences),
            "peak_mib": peak,
        },
    )


def measure_explanation(settings: BenchSettings, progress: Progress) -> Iterator[Row]:
    """Whole explanations that use all their evaluations, verification included, against replay of their sets."""
    graph = load(settings.data)
    for kind in ARCHITECTURES:
        progress(f"one explanation, {kind}")
        yield from _explanation(kind, graph, settings)


def _explanation(kind: str, graph: TemporalGraph, settings: BenchSettings) -> Iterator[Row]:
    model, rng = random_model(kind, graph, settings.preset, bias=OUT_OF_REACH), np.random.default_rng(0)
    first, *others = late_links(rng, graph, settings.queries + 1)
    explain(model, graph, first, size=SIZE, evaluations=EVALUATIONS)  # warms up
    ours, inside = [], []
    plain: list[float] = []
    oracles: list[Oracle] = []
    for query in others:
        with _timed_inside() as kernels:
            start = time.process_time()
            why = explain(model, graph, query, size=SIZE, evaluations=EVALUATIONS, watch=oracles.append)
            ours.append(time.process_time() - start)
        inside.append(kernels[0])
        if len(plain) < REPLAYED:
            plain.append(_seconds_of_replay(model, query, [frozenset(rows) for rows, _ in why.evaluated]))
    replayed, outside = float(np.mean(ours[: len(plain)])), 1 - float(np.sum(inside) / np.sum(ours))
    ratio = float(np.mean(plain)) / replayed
    values = {
        "model": kind,
        "queries": len(others),
        "replayed": len(plain),  # links of which every set was replayed too; the ratio is about these
        "plain_s": float(np.mean(plain)),
        "ours_s": replayed,
        "ratio": ratio,
        "mean_s": float(np.mean(ours)),  # over all links
        "batches": float(np.mean([oracle.counts.batches for oracle in _last_of_each(oracles)])),
        "share_outside": outside,
    }
    name = kind.upper()
    figure = f"{ratio:.0f}× ({values['plain_s']:.2f} s, {replayed:.3f} s)"
    yield Row("explanation", f"{name}, one explanation: plain against ours", figure, values)
    share = {"model": kind, "queries": len(others), "share_outside": outside}
    yield Row("explanation", f"{name}, its share outside products and attention", f"{100 * outside:.0f} %", share)


def _last_of_each(watched: Sequence[Oracle]) -> list[Oracle]:
    return list({id(oracle): oracle for oracle in watched}.values())


def _seconds_of_replay(model: FastModel, query: Query, sets: list[Change]) -> float:
    """One plain forward of each of these sets, one after the other."""
    reference = _plain(model, query, sets)
    start = time.process_time()
    reference.logits(query, sets)
    return time.process_time() - start


def _plain(model: FastModel, query: Query, sets: list[Change]) -> Replay:
    """Plain forward passes in single precision, as a model is usually run, since the oldest event of the sets."""
    start = None
    if isinstance(model, FastTGN):
        state = model.state(model.reference(query, frozenset().union(*sets)).since)
        start = state._replace(memory=state.memory.astype(np.float32))
    return Replay(model.weights, model.graph, start=start)


def measure_scoring(settings: BenchSettings, progress: Progress) -> Iterator[Row]:
    """Scores alone: one link, nothing changed."""
    progress("scoring one link")
    graph = load(settings.data)
    model, rng = random_model("tgn", graph, settings.preset), np.random.default_rng(0)
    first, *others = late_links(rng, graph, 5 * settings.queries + 1)
    model.logits(first, [frozenset()])
    plain, quick, differences = [], [], []
    for query in others:
        reference = _plain(model, query, [frozenset()])
        start = time.process_time()
        (expected,) = reference.logits(query, [frozenset()])
        between = time.process_time()
        (answer,) = model.logits(query, [frozenset()])
        quick.append(time.process_time() - between)
        plain.append(between - start)
        differences.append(abs(expected - answer))
    plain_ms, fast_ms = 1000 * float(np.mean(plain)), 1000 * float(np.mean(quick))
    values = {"model": "tgn", "queries": len(others), "plain_ms": plain_ms, "fast_ms": fast_ms}
    values |= {"ratio": plain_ms / fast_ms, "largest_difference": float(max(differences))}
    figure = f"{plain_ms / fast_ms:.1f}× ({plain_ms:.2f} ms, {fast_ms:.2f} ms)"
    yield Row("scoring", "TGN, one link, nothing changed: plain against fast", figure, values)


def measure_startup(settings: BenchSettings, progress: Progress) -> Iterator[Row]:
    """Whole processes, in turn: user and system time, the median."""
    command = ["-m", "cody", "explain", "--event", str(USUAL_EVENT)]
    commands = {
        "import numpy": ["-c", "import numpy"],
        "cody --help": ["-m", "cody", "--help"],
        f"cody predict --events {USUAL_EVENT}": ["-m", "cody", "predict", "--events", str(USUAL_EVENT)],
        f"cody explain --event {USUAL_EVENT} --count 1": [*command, "--count", "1"],  # no alternatives
        f"cody explain --event {USUAL_EVENT}": command,
    }
    spent: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        environment = _compiled_in(folder)
        for number in range(STARTS + 1):
            progress(f"processes, {number} of {STARTS}")
            for name, words in commands.items():
                seconds = _process_seconds(words, environment)
                spent[name] += [seconds] if number else []  # the first one compiles and fills caches
    base, *others = ((name, float(np.median(times))) for name, times in spent.items())
    for name, seconds in others:
        values = {"command": name, "runs": STARTS, "seconds": seconds, "numpy_s": base[1], "ratio": seconds / base[1]}
        figure = f"{seconds / base[1]:.1f}× ({seconds:.3f} s, {base[1]:.3f} s)"
        yield Row("startup", f"{name}, against import numpy", figure, values)


def _compiled_in(folder: str) -> dict[str, str]:
    """An environment in which modules are compiled once, as in any installation, whatever the user has set."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": folder}


def _process_seconds(words: list[str], environment: dict[str, str]) -> float:
    import resource  # where there is none, the other measurements can be made

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_tail(settings: BenchSettings, progress: Progress) -> Iterator[Row]:
    """Links of the test period with the default search: the slow ones among them, and the memory they take."""
    data, graph, model, weights = _tail_subject(settings, progress)
    chosen, rng = explainer(DEFAULT_SEARCH), np.random.default_rng(0)
    first, *queries = late_links(rng, graph, settings.links + 1)
    chosen.explain(model, graph, first)  # warms up
    spent, peaks = np.zeros(len(queries)), np.zeros(len(queries))
    for number, query in enumerate(queries):
        progress(f"slow links, {number} of {len(queries)}")
        start = time.process_time()
        peaks[number] = _peak_mib(lambda query=query: chosen.explain(model, graph, query)) or np.nan  # type: ignore[misc]
        spent[number] = time.process_time() - start
    median, late, slowest = (float(value) for value in np.quantile(spent, [0.5, 0.99, 1.0]))
    values = {"data": data, "weights": weights, "links": len(queries), "median_s": median, "late_s": late}
    values |= {"slowest_s": slowest, "late_ratio": late / median, "slowest_ratio": slowest / median}
    name = f"TGN, {len(queries):,} links of {data}"
    figure = f"{late / median:.1f}× ({late:.2f} s, {median:.3f} s)"
    yield Row("tail", f"{name}: slowest 1 % to median", figure, values)
    yield Row("tail", f"{name}: slowest to median", f"{slowest / median:.1f}× ({slowest:.2f} s)", values)
    memory = {"data": data, "weights": weights, "links": len(queries), "peak_mib": float(np.max(peaks))}
    yield Row("tail", "their peak memory beyond graph and table", f"{memory['peak_mib']:,.0f} MiB", memory)


def _tail_subject(settings: BenchSettings, progress: Progress) -> tuple[str, TemporalGraph, Model, str]:
    """Data, model, and what its weights are. The table is in memory, so that its pages do not count as used later."""
    data = settings.tail_data or TAIL_DATA
    if settings.tail_data is None and not any(is_here(known) for known in datasets() if known.name == data):
        data = settings.data
    graph = load(data)
    progress(f"the memory table of {data}")
    if settings.tail_model is None:
        return data, graph, random_model("tgn", graph, settings.preset), "untrained"
    model = load_model(settings.tail_model, graph, engine=lambda network, graph, folder: fast_model(network, graph))
    return data, graph, model, "trained"


def measure_growth(settings: BenchSettings, progress: Progress) -> Iterator[Row]:
    """One explanation on made-up graphs of several sizes, with the same degrees, the memory table on disk."""
    for kind in ARCHITECTURES:
        measured = []
        for events in settings.sizes:
            measured.append(_grown(kind, events, settings, progress))
            yield from _growth_rows(kind, measured[-1])
        small, large = measured[0], measured[-1]
        if large["events"] > small["events"]:
            ratio = large["warm_s"] / small["warm_s"]
            what = f"{kind.upper()}, {large['events']:,} to {small['events']:,} events"
            figure = f"{ratio:.2f}× ({large['warm_s']:.3f} s, {small['warm_s']:.3f} s)"
            sizes = {"model": kind, "events": large["events"], "against": small["events"], "ratio": ratio}
            yield Row("growth", what, figure, sizes)


def _growth_rows(kind: str, values: dict[str, Any]) -> Iterator[Row]:
    name = f"{kind.upper()}, {values['events']:,} events"
    if values["table_gib"]:
        figure = f"{values['table_gib']:.2f} GiB in {values['build_s']:,.0f} s"
        yield Row("growth", f"{name}: table on disk", figure, values)
    yield Row("growth", f"{name}: explained cold", f"{values['cold_s']:.2f} s", values)
    if values["process_mib"] is not None:
        yield Row("growth", f"{name}: memory of that process", f"{values['process_mib']:,.0f} MiB", values)


def _grown(kind: str, events: int, settings: BenchSettings, progress: Progress) -> dict[str, Any]:
    progress(f"{events:,} made-up events, {kind}")
    graph = generated(events)
    network = random_network(kind, graph, settings.preset, bias=OUT_OF_REACH)
    with tempfile.TemporaryDirectory(dir=settings.folder) as place:
        start, start_cpu = time.perf_counter(), time.process_time()
        fast_model(network, graph, Path(place) / "cody" / "versions")
        built, built_cpu = time.perf_counter() - start, time.process_time() - start_cpu
        _forget_pages(Path(place))
        progress(f"{events:,} made-up events, {kind}: explanations")
        start = time.perf_counter()
        model = fast_model(network, graph, Path(place) / "cody" / "versions")
        opened = time.perf_counter() - start
        queries = late_links(np.random.default_rng(0), graph, settings.queries + 1)
        cold, warm = [], []
        for query in queries:
            start = time.perf_counter()
            why = explain(model, graph, query, size=SIZE, evaluations=EVALUATIONS, near=NEAR[GROWTH_NEAR])
            cold.append(time.perf_counter() - start)
            start_cpu = time.process_time()
            again = explain(model, graph, query, size=SIZE, evaluations=EVALUATIONS, near=NEAR[GROWTH_NEAR])
            warm.append(time.process_time() - start_cpu)
            if again.evaluated != why.evaluated:
                raise AssertionError(f"the explanation of {query} changed")
        difference = _largest_difference(model, query, [frozenset(rows) for rows, _ in why.evaluated[:3]])
        memory = _memory_of_explaining(Path(place), graph, network, queries)
        table = model.table.nbytes if isinstance(model, FastTGN) else 0
    return {
        "model": kind,
        "events": events,
        "nodes": graph.num_nodes,
        "table_gib": table / 2**30,
        "build_s": built,  # wall time
        "build_cpu_s": built_cpu,
        "open_s": opened,
        "cold_s": float(np.median(cold)),  # wall time; nothing of the table in memory when the first one begins
        "warm_s": float(np.mean(warm[1:])),
        "largest_difference": difference,
        **memory,
    }


def _largest_difference(model: FastModel, query: Query, sets: list[Change]) -> float:
    reference = _plain(model, query, sets).logits(query, sets)
    return float(np.abs(reference - model.logits(query, sets)).max())


def _forget_pages(folder: Path) -> None:
    """Drop these files from the page cache, where the system offers it."""
    if not hasattr(os, "posix_fadvise"):
        return
    for file in (path for path in folder.rglob("*") if path.is_file()):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _memory_of_explaining(
    folder: Path, graph: TemporalGraph, network: Any, queries: Sequence[Query]
) -> dict[str, float | None]:
    """The most that a process holds which opens the saved graph and the table and explains these links."""
    if not Path("/proc/self/status").exists():
        return {"process_mib": None, "mapped_mib": None}
    save_graph(graph, folder / "graph")
    save_model(folder / "model", Checkpoint(network, graph.identity))
    rows = ",".join(str(query.before) for query in queries)
    words = ["explain", "--data", str(folder / "graph"), "--model", str(folder / "model"), "--events", rows]
    words += ["--near", GROWTH_NEAR]
    environment = os.environ | {"XDG_CACHE_HOME": str(folder)}
    own, mapped = [0], [0]
    command = [sys.executable, "-m", "cody", *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:  # when it has ended, it has given everything back
            with contextlib.suppress(OSError, ValueError):  # it ends right now
                status = Path(f"/proc/{process.pid}/status").read_text()
                own.append(_kib(status, "RssAnon"))
                mapped.append(_kib(status, "RssFile"))
            time.sleep(LOOK_EVERY)
    if process.returncode:
        raise AssertionError(f"{' '.join(command)} ended with exit code {process.returncode}")
    return {"process_mib": max(own) / 1024, "mapped_mib": max(mapped) / 1024}


def generated(events: int, *, degree: int = 60, seed: int = 0) -> TemporalGraph:
    """Random events between nodes of uneven activity; the mean degree does not depend on the size."""
    rng = np.random.default_rng(seed)
    nodes = max(10, 2 * events // degree)
    activity = rng.permutation((1 + np.arange(nodes)) ** -0.5)
    threshold = np.cumsum(activity / activity.sum())
    src, dst = (np.minimum(np.searchsorted(threshold, rng.random(events)), nodes - 1) for _ in range(2))
    return TemporalGraph.from_arrays(src, dst, np.cumsum(rng.exponential(60.0, events)), num_nodes=nodes)


def late_links(rng: np.random.Generator, graph: TemporalGraph, number: int) -> list[Query]:
    """Events of the last 15 % that have a past."""
    rows = rng.permutation(np.arange(int(0.85 * graph.num_events), graph.num_events))
    queries = (graph.query(row) for row in rows.tolist())
    found = list(islice((query for query in queries if len(candidates(graph, query))), number))
    if len(found) < 2:
        raise CallError(f"{graph} has no two links with a past among its last 15 %: nothing can be measured on it")
    return found


def random_network(kind: str, graph: TemporalGraph, preset: str, bias: float = 0.0) -> Any:
    """A network with random weights; `bias` is added to every logit."""
    network = new_network(ARCHITECTURES[kind], graph, PRESETS[preset], seed=0)
    with torch.no_grad():
        network.score.out.bias.add_(bias)
    return network


def random_model(
    kind: str, graph: TemporalGraph, preset: str, bias: float = 0.0, folder: Path | None = None
) -> FastTGN | FastTGAT:
    """The fast model of a network with random weights; `bias` is added to every logit."""
    return fast_model(random_network(kind, graph, preset, bias), graph, folder)


def _evaluate(model: FastModel, query: Query, sets: list[Change]) -> Any:
    session = model.session(query, sorted(frozenset().union(*sets)))
    return np.concatenate([session.logits(sets[start : start + BATCH]) for start in range(0, len(sets), BATCH)])


KERNELS: list[tuple[Any, str]] = [
    (Attention, "__call__"),
    (Decoder, "score"),
    (Products, "of"),
    (CompiledLayer, "_make"),
    (CompiledLinkDecoder, "score"),
    (EventInputs, "add"),
    (memory.Gates, "remember"),
    (CompiledFollow, "_compute"),
    (Weights, "attend"),
    (Weights, "remember"),
    (Weights, "score"),
]


@contextlib.contextmanager
def _timed_inside() -> Iterator[list[float]]:
    """Processor seconds within matrix products and attention, while the block runs."""
    seconds, depth = [0.0], [0]
    originals = [getattr(owner, name) for owner, name in KERNELS]

    def timed(original: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            depth[0] += 1
            start = time.process_time()
            try:
                return original(*arguments, **options)
            finally:
                depth[0] -= 1
                if not depth[0]:  # one may call another
                    seconds[0] += time.process_time() - start

        return call

    for (owner, name), original in zip(KERNELS, originals, strict=True):
        setattr(owner, name, timed(original))
    try:
        yield seconds
    finally:
        for (owner, name), original in zip(KERNELS, originals, strict=True):
            setattr(owner, name, original)


def _peak_mib(run: Callable[[], Any]) -> float | None:
    """How far the resident memory rises while `run` runs; None where the system does not report it."""
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not reset.exists():
        return None
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide the rise
    reset.write_text("5")  # forget the earlier peak
    before = _kib(status.read_text(), "VmRSS")
    run()
    return (_kib(status.read_text(), "VmHWM") - before) / 1024


def _kib(status: str, entry: str) -> int:
    (line,) = [line for line in status.splitlines() if line.startswith(entry)]
    return int(line.split()[1])


MEASUREMENTS: dict[str, Callable[[BenchSettings, Progress], Iterator[Row]]] = {
    "sets": measure_sets,
    "explanation": measure_explanation,
    "scoring": measure_scoring,
    "startup": measure_startup,
    "tail": measure_tail,
    "growth": measure_growth,
}
LONG = {"tail", "growth"}  # minutes and more: only when --only names them


def chosen(names: Sequence[str]) -> list[str]:
    """The measurements of these names; all that do not take long, if there is none."""
    for name in names:
        if name not in MEASUREMENTS:
            raise CallError(f"there is no measurement {name!r}{did_you_mean(name, list(MEASUREMENTS))}")
    return [name for name in MEASUREMENTS if name in (names or MEASUREMENTS.keys() - LONG)]


def run(names: Sequence[str], settings: BenchSettings, progress: Progress) -> Iterator[Row]:
    """These measurements, one after the other, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name in names:
            yield from MEASUREMENTS[name](settings, progress)
    finally:
        torch.set_num_threads(threads)


def as_json(settings: BenchSettings) -> dict[str, Any]:
    """The settings as plain data; of folders the name alone, because where they lie is nobody's business."""
    folders = {"tail_model": settings.tail_model, "folder": settings.folder}
    return asdict(settings) | {name: None if path is None else Path(path).name for name, path in folders.items()}


RANDOM = {"sets", "explanation", "scoring", "growth"}  # measurements that need no trained model


def as_text(measured: Sequence[Row], machine: dict[str, Any], left_out: Sequence[str]) -> str:
    """The figures as a table, with what a reader must know about them."""
    width = max((len(row.what) for row in measured), default=0)
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, one used; torch {machine['torch']}",
        f"Changes of a TGN's memory are followed in the {machine['changes_followed_by']} form.",
        "",
        *(f"{row.what:<{width}}  {row.figure}" for row in measured),
        "",
        textwrap.fill(" ".join(_notes(measured, left_out)), 80),
    ]
    return "\n".join(lines)


def _notes(measured: Sequence[Row], left_out: Sequence[str]) -> Iterator[str]:
    yield "Times are processor seconds of one thread."
    if any(row.row in RANDOM for row in measured):
        yield f"Weights are random; explanations use up their {EVALUATIONS} evaluations."
    replayed = [row.values["replayed"] for row in measured if "replayed" in row.values]
    if replayed:
        yield f"Explanations: every set of {count(max(replayed), 'link')} was also replayed, one by one."
    differences = [row.values["largest_difference"] for row in measured if "largest_difference" in row.values]
    if differences:
        yield f"Plain and fast logits differ by at most {max(differences):.1e}."
    if any(row.values.get("weights") == "untrained" for row in measured):
        yield "Slow links: of a TGN with random weights; --tail-model names a trained one."
    if left_out:
        yield f"Left out: {', '.join(left_out)} (--only measures them)."


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"some of {', '.join(MEASUREMENTS)}, separated by commas")
    parser.add_argument("--data", default="collegemsg", help="a data set's name, a file of events, or a saved graph")
    parser.add_argument("--preset", choices=list(PRESETS), default="paper", help="sizes of the models")
    parser.add_argument("--queries", type=int, default=10, help="links to average over")
    parser.add_argument("--links", type=int, default=100, help="tail: number of links of the test period")
    parser.add_argument("--tail-data", help="tail: their data set. Default: wikipedia where it is downloaded")
    parser.add_argument("--tail-model", help="tail: a TGN trained on it. Default: random weights")
    parser.add_argument("--sizes", default="100000,1000000", help="growth: events of the generated graphs")
    parser.add_argument("--folder", type=Path, help="growth: a folder with room for tables. Default: a temporary one")
    parser.add_argument("--json", action="store_true", help="print one JSON document, and nothing else")
    return parser.parse_args(words)


def _settings(given: argparse.Namespace) -> BenchSettings:
    for name in ("queries", "links"):
        if getattr(given, name) < 1:
            raise CallError(f"--{name} {getattr(given, name)}: give 1 or more")
    sizes = tuple(sorted(set(parse_rows(given.sizes))))
    if not sizes or sizes[0] < 1000:
        raise CallError(f"--sizes {given.sizes!r}: give numbers of events, 1,000 or more, such as 100000,1000000")
    return BenchSettings(
        given.data, given.preset, given.queries, given.links, given.tail_data, given.tail_model, sizes, given.folder
    )


def main(words: Sequence[str] | None = None) -> None:
    given = options(words)
    names = chosen([name.strip() for name in given.only.split(",") if name.strip()])
    settings = _settings(given)
    rows = list(run(names, settings, lambda what: print(f"Measuring {what} ...", file=sys.stderr)))
    left_out = [name for name in MEASUREMENTS if name not in names]
    if given.json:
        results = [{"row": row.row, "what": row.what, "figure": row.figure, **row.values} for row in rows]
        document = {"machine": machine(), "settings": as_json(settings), "rows": results, "left_out": left_out}
        print(to_json(document))
    else:
        print(as_text(rows, machine(), left_out))


if __name__ == "__main__":
    try:
        main()
    except CodyError as error:
        sys.exit(f"error: {error}")
