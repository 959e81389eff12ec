"""What `cody evaluate` costs with several workers: memory of all processes together, and processor time.

python bench/evaluation.py [--data DATA --model FOLDER] [--events 1_000_000] [--workers 1,2,4] [--instances 20]
python bench/evaluation.py --data DATA --model FOLDER --cost     processor time of one link instead

Without --data, events are generated and a TGN of compact sizes with random weights is asked about them. Memory is the
sum of the proportional shares (Pss in /proc) at its peak: a page that four processes map counts once.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cody.data import load, save_graph
from cody.engine import load_model
from cody.explaining.document import SCHEMA
from cody.graph.neighbourhood import SIZE, events_on_paths
from cody.models.sizes import PRESETS
from cody.study.explainers import COMPARED, explainer
from cody.study.instances import sample_kinds
from cody.study.record import KINDS
from cody.study.run import EvaluationPlan, Link, evaluate
from cody.train.architectures import TGN
from cody.train.checkpoint import Checkpoint, save_model
from engine import generated


def make(folder: Path, events: int) -> tuple[str, str]:
    graph = generated(events)
    torch.manual_seed(1)  # with this seed, the model predicts some links and not others
    save_model(folder / "model", Checkpoint(TGN(replace(PRESETS["compact"])), graph.identity))
    return str(save_graph(graph, folder / "graph")), str(folder / "model")


def family(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [process, *(each for child in children for each in family(int(child)))]


def memory(process: int) -> dict[str, float]:
    """Pss and private memory of a process, MiB."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {"pss": 0.0, "private": 0.0}
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    private = kib["Private_Clean"] + kib["Private_Dirty"]
    return {"pss": kib["Pss"] / 1024, "private": private / 1024}


def measure(data: str, model: str, workers: int, instances: int, explainers: str, out: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "cody", "evaluate", "--data", data, "--model", model, "--workers", str(workers)]
    command += ["--explainers", explainers, "--instances", str(instances), "--out", str(out), "--json"]
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    peak: dict[str, float] = {"pss": 0.0, "largest_private": 0.0}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            each = [memory(member) for member in family(process.pid)]
            peak["pss"] = max(peak["pss"], sum(one["pss"] for one in each))
            peak["largest_private"] = max([peak["largest_private"], *(one["private"] for one in each)])
            time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"the evaluation failed: {' '.join(command)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return peak | {"wall_seconds": time.monotonic() - begun, "processor_seconds": spent}


def print_cost(data: str, model: str, instances: int) -> None:
    """Processor time of drawing a link, and of everything about one link: explanation, confirmation, `only`."""
    torch.set_num_threads(1)
    graph = load(data)
    loaded = load_model(model, graph)
    rows = np.random.default_rng(0).integers(round(0.85 * graph.num_events), graph.num_events, 200).tolist()
    begun = time.process_time()
    for row in rows:
        loaded.logits(graph.query(row), [frozenset()])
    spent = {"score": (time.process_time() - begun) / len(rows)}
    drawn = sample_kinds(loaded, graph, instances, KINDS)
    links = [Link(row, kind) for kind in KINDS for row in drawn[kind]]
    for name in COMPARED:
        plan = EvaluationPlan(data, model, (explainer(name, size=SIZE, near=events_on_paths),))
        begun = time.process_time()
        records = list(evaluate(loaded, graph, links, plan))
        spent[name] = (time.process_time() - begun) / len(records)
    print(json.dumps({"data": data, "model": model, **{key: round(value, 4) for key, value in spent.items()}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--model")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--explainers", default=",".join(COMPARED))
    parser.add_argument("--cost", action="store_true")
    given = parser.parse_args()
    if given.cost:
        print_cost(given.data, given.model, given.instances)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, model = (given.data, given.model) if given.data else make(folder, given.events)
        measure(data, model, 1, 1, given.explainers, folder / "warm.jsonl")  # builds the version table
        for workers in map(int, given.workers.split(",")):
            out = folder / f"{workers}.jsonl"
            cost = measure(data, model, workers, given.instances, given.explainers, out)
            records = out.read_bytes().count(f'"{SCHEMA}"'.encode())
            rounded = {key: round(value, 1) for key, value in cost.items()}
            print(json.dumps({"workers": workers, "records": records, **rounded}), flush=True)


if __name__ == "__main__":
    main()
