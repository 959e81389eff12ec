"""What `cody evaluate` costs with several workers: memory of all processes together, and processor time.

python bench/evaluation.py [--data DATA --model FOLDER] [--events 1_000_000] [--workers 1,2,4] [--instances 20]

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

import torch

from cody.bench import generated
from cody.data import save_graph
from cody.models import TGN
from cody.models.checkpoint import Checkpoint, save_model
from cody.models.sizes import PRESETS


def make(folder: Path, events: int) -> tuple[str, str]:
    graph = generated(events)
    torch.manual_seed(1)  # one that says yes to some links and no to others
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--model")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--explainers", default="cody-spatio-temporal,greedy-spatio-temporal")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, model = (given.data, given.model) if given.data else make(folder, given.events)
        measure(data, model, 1, 1, given.explainers, folder / "warm.jsonl")  # the version table is built now
        for workers in map(int, given.workers.split(",")):
            out = folder / f"{workers}.jsonl"
            cost = measure(data, model, workers, given.instances, given.explainers, out)
            records = out.read_bytes().count(b'"cody/record/1"')
            rounded = {key: round(value, 1) for key, value in cost.items()}
            print(json.dumps({"workers": workers, "records": records, **rounded}), flush=True)


if __name__ == "__main__":
    main()
