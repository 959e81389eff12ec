"""What a TGN on up to 5 * 10^7 made-up events takes: reading them, its table of memories, explanations, memory.

python bench/scale.py FOLDER --sizes 100000,1000000,10000000 [--preset compact] [--json]

Each size goes through five steps: its events are written as Parquet, imported (`cody data import`), the table is built
(`cody predict` of one event), a network is trained on a few batches in the middle of an epoch, with the memory of the
million events before them, and late links are explained. A step that is done is not repeated: what it measured
stands in FOLDER, so a run that is stopped resumes there, also within a table. The links of all sizes are explained in
turn at the end, twice each; the second time counts, in processor time, of which the ratios matter. By default their
candidates are the latest events around (`--near events`, the paper's); with `--near ends`, those that `cody explain`
takes, which here are up to a third of the log old: all memories since then may depend on them, whatever the table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cody.data import open_graph
from cody.engine import load_model
from cody.explaining.pipeline import explain
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import Near, ends_first, events_on_paths
from cody.models.contract import Model
from cody.models.sizes import PRESETS
from cody.train.architectures import TGN
from cody.train.checkpoint import Checkpoint, save_model
from cody.train.training import new_network, new_optimizer, run_epoch
from engine import EVALUATIONS, OUT_OF_REACH, late_links, random_network

DEGREE = 60  # events of a node, in the mean: tgbl-coin has 72, tgbl-comment 88
WRITTEN_AT_ONCE = 5_000_000  # events
LOOK_EVERY = 0.05  # seconds
SIZE = 64  # candidates
TRAINED = 100  # batches
FED = 10**6  # events before them


def write_events(file: Path, events: int) -> None:
    """Random events between nodes of uneven activity, as `generated` in engine.py makes them, a part at a time."""
    rng = np.random.default_rng(0)
    nodes = max(10, 2 * events // DEGREE)
    activity = rng.permutation((1 + np.arange(nodes)) ** -0.5)
    threshold, now, writer = np.cumsum(activity / activity.sum()), 0.0, None
    for first in range(0, events, WRITTEN_AT_ONCE):
        count = min(WRITTEN_AT_ONCE, events - first)
        src, dst = (np.minimum(np.searchsorted(threshold, rng.random(count)), nodes - 1) for _ in range(2))
        times = now + np.cumsum(rng.exponential(60.0, count))
        now = float(times[-1])
        table = pa.table({"src": src, "dst": dst, "time": times})
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def measured(words: list[str]) -> dict[str, float]:
    """What a Python program takes: seconds, processor seconds, and its own memory and mapped pages at most, in MiB."""
    started, most = time.perf_counter(), {"RssAnon": 0, "RssFile": 0}
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL) as process:
        seconds = 0.0
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
                for name in most:
                    most[name] = max(most[name], *(int(line.split()[1]) for line in status if line.startswith(name)))
                ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
                seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
            except (OSError, ValueError, TypeError):
                pass  # it ends right now
            time.sleep(LOOK_EVERY)
    if process.returncode:
        raise SystemExit(f"python {' '.join(words)} ended with exit code {process.returncode}")
    return {
        "s": time.perf_counter() - started,
        "cpu_s": seconds,
        "own_mib": most["RssAnon"] / 1024,
        "mapped_mib": most["RssFile"] / 1024,
    }


class Subject:
    """One size, with what was measured about it so far."""

    def __init__(self, folder: Path, events: int, preset: str) -> None:
        self.events, self.preset = events, preset
        self.folder = folder / str(events)
        self.cache = self.folder / "cache"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.notes = self.folder / f"{preset}.json"
        self.found: dict[str, Any] = json.loads(self.notes.read_text()) if self.notes.exists() else {}

    def note(self, what: str, value: Any) -> None:
        self.found[what] = value
        self.notes.write_text(json.dumps(self.found))

    @property
    def graph(self) -> TemporalGraph:
        return open_graph(self.folder / "graph")

    @property
    def model_folder(self) -> Path:
        return self.folder / f"model-{self.preset}"

    @property
    def table(self) -> Path:
        (file,) = (path for kind in ("versions", "checkpoints") for path in (self.cache / "cody").rglob(f"*.{kind}"))
        return file

    def prepare(self) -> None:
        """Events, graph, model and table, each made unless it is there."""
        parquet = self.folder / "events.parquet"
        if "import" not in self.found:
            say(f"{self.events:,} events are written and imported")
            write_events(parquet, self.events)
            command = ["-m", "cody", "data", "import", str(parquet), "--out", str(self.folder / "graph")]
            self.note("import", measured(command))
            parquet.unlink()
        os.environ["XDG_CACHE_HOME"] = str(self.cache)
        graph = self.graph
        if not self.model_folder.exists():
            network = random_network("tgn", graph, self.preset, OUT_OF_REACH)
            save_model(self.model_folder, Checkpoint(network, graph.identity))
        if "build" not in self.found:
            say(f"{self.events:,} events: the table")
            self.note("build", measured(self.command("predict", [graph.num_events - 1])))
            self.note("table_gb", self.table.stat().st_size / 1e9)
            self.note("kind", self.table.suffix[1:])
        if "train" not in self.found:
            say(f"{self.events:,} events: {TRAINED} batches of an epoch")
            rates = self.folder / "rates.json"
            measurements = measured([__file__, str(self.folder), "--train", self.preset])
            self.note("train", measurements | json.loads(rates.read_text()))

    def command(self, name: str, rows: list[int]) -> list[str]:
        return [
            *("-m", "cody", name, "--data", str(self.folder / "graph"), "--model", str(self.model_folder)),
            *("--events", ",".join(map(str, rows))),
        ]

    def open(self) -> tuple[Model, TemporalGraph]:
        os.environ["XDG_CACHE_HOME"] = str(self.cache)
        graph = self.graph
        return load_model(self.model_folder, graph), graph


def train_a_little(folder: Path, preset: str) -> None:
    """Train on some batches in the middle of the first epoch; write how many events a processor second takes."""
    graph = open_graph(folder / "graph")
    network = new_network(TGN, graph, PRESETS[preset], seed=0)
    size = network.sizes.batch
    middle = graph.num_events // 2 // size
    fed = min(middle, FED // size)
    stream = network.stream(graph)
    stream.line = (middle - fed) * size  # the memory begins there, which changes no rate
    network.stream = lambda graph: stream
    steps = run_epoch(network, new_optimizer(network, 3e-4), graph, seed=0, epoch=1, begin=middle)
    marks = [time.process_time()]
    for _ in islice(steps, TRAINED):
        marks.append(time.process_time())
    rates = np.array([fed, len(marks) - 2]) * size / [marks[1] - marks[0], marks[-1] - marks[1]]
    (folder / "rates.json").write_text(json.dumps(dict(zip(("fed_per_s", "trained_per_s"), rates, strict=True))))


NEAR = {"events": events_on_paths, "ends": ends_first}  # as `cody explain --near` calls them


def explained(subjects: list[Subject], links: int, near: str) -> None:
    """The links of all sizes in turn."""
    opened = [subject.open() for subject in subjects]
    queries = [late_links(np.random.default_rng(0), graph, links + 1) for _, graph in opened]
    seconds: list[list[float]] = [[] for _ in subjects]
    cold: list[list[float]] = [[] for _ in subjects]
    for place in range(links + 1):
        for number, (model, graph) in enumerate(opened):
            first, again = (timed(model, graph, queries[number][place], NEAR[near]) for _ in range(2))
            if place:  # the first one loads what all others use
                cold[number].append(first[0])
                seconds[number].append(again[1])
    for number, subject in enumerate(subjects):
        subject.note("explained_s", seconds[number])
        subject.note("first_wall_s", cold[number])
        rows = [query.before for query in queries[number]]
        os.environ["XDG_CACHE_HOME"] = str(subject.cache)
        subject.note("process", measured([*subject.command("explain", rows), "--near", near]))


def timed(model: Model, graph: TemporalGraph, query: Query, near: Near = events_on_paths) -> tuple[float, float]:
    start, start_cpu = time.perf_counter(), time.process_time()
    explain(model, graph, query, size=SIZE, evaluations=EVALUATIONS, near=near)
    return time.perf_counter() - start, time.process_time() - start_cpu


def as_text(subjects: list[Subject]) -> str:
    base = float(np.mean(subjects[0].found["explained_s"]))
    lines = [
        "| events | import | its memory | table | built | its memory | train | its memory "
        "| an explanation | median | its memory |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for subject in subjects:
        found = subject.found
        read, build, train, process = (found[step] for step in ("import", "build", "train", "process"))
        seconds = found["explained_s"]
        lines.append(
            f"| {subject.events:,} | {read['s']:.0f} s ({read['cpu_s']:.0f} s) | {read['own_mib']:,.0f} MiB "
            f"| {found['table_gb']:.2f} GB ({found['kind']}) | {build['cpu_s']:,.0f} s | {build['own_mib']:,.0f} MiB "
            f"| {train['trained_per_s']:,.0f} events/s | {train['own_mib']:,.0f} MiB "
            f"| {np.mean(seconds):.3f} s, {np.mean(seconds) / base:.2f}× "
            f"| {np.median(seconds):.3f} s, {np.median(seconds) / np.median(subjects[0].found['explained_s']):.2f}× "
            f"| {process['own_mib']:,.0f} MiB |"
        )
    return "\n".join(lines)


def say(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with room for graphs and tables")
    parser.add_argument("--sizes", default="100000,1000000", help="numbers of events, separated by commas")
    parser.add_argument("--preset", default="compact", help="sizes of the model")
    parser.add_argument("--links", type=int, default=20, help="links to explain of each size")
    parser.add_argument("--near", choices=list(NEAR), default="events", help="which events are candidates")
    parser.add_argument("--json", action="store_true", help="print one JSON document, and nothing else")
    parser.add_argument("--train", metavar="PRESET", help=argparse.SUPPRESS)  # what its own process does
    given = parser.parse_args()
    if given.train:
        train_a_little(given.folder, given.train)
        return
    subjects = [Subject(given.folder, int(size), given.preset) for size in given.sizes.split(",")]
    for subject in subjects:
        subject.prepare()
    explained(subjects, given.links, given.near)
    print(json.dumps([{"events": each.events} | each.found for each in subjects]) if given.json else as_text(subjects))


if __name__ == "__main__":
    main()
