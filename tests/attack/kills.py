"""A command that is killed at any moment can be run again, gives what it always gives, and cleans up after itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file

import cody
from attack import child
from attack.finding import Finding, expect
from attack.world import LINK, scratch, world
from cody.data import verify_graph
from cody.study.record_file import read_records

LONGEST = 100.0  # seconds
PATIENCE = 20.0  # seconds until a worker must have noticed that its parent is gone
AN_HOUR = 3600.0  # leftovers of that age are no longer work in progress
INPUTS = ("graph", "tgn", "scorer", "events.csv")  # of the world
OWN = {"stdout.txt", "stderr.txt", "steps.txt", "tmp", "cache", "home"}

Result = Callable[[Path], Any]


class Command(NamedTuple):
    words: str
    result: Result  # what must be the same however often it was killed
    done_already: str = ""  # what it says, with exit code 2, when there is nothing left to do
    replaces: bool = False  # a damaged graph is there already


class Usual(NamedTuple):
    """How a command goes if it is not killed."""

    result: Any
    files: list[str]
    steps: int
    seconds: float


class Kill(NamedTuple):
    """When a command is killed: before a step on the disk, or after a time, as a share of what it usually takes."""

    command: str
    by_step: bool
    share: float


def draw(seed: int) -> Kill:
    """What a case does."""
    rng = np.random.default_rng(seed)
    names = list(COMMANDS)
    weights = np.array([WEIGHTS.get(name, 10) for name in names])
    return Kill(names[rng.choice(len(names), p=weights / weights.sum())], rng.random() < 0.7, float(rng.random()))


def attack(seed: int) -> None:
    name, by_step, share = draw(seed)
    usual = _usual(name)
    step = int(share * (usual.steps + 1)) if by_step else None
    seconds = LONGEST if by_step else 1.1 * share * usual.seconds
    details = f"killed {f'before step {step} of {usual.steps}' if by_step else f'after {seconds:.3f} s'} (seed {seed})"
    with scratch() as folder:
        _prepare(folder, COMMANDS[name])
        _run(name, folder, step, seconds)
        _wait_for_workers(name, folder, details)
        _grow_old(folder)
        code = _run(name, folder, None, LONGEST)
        _check(name, folder, code, details)


def _prepare(folder: Path, command: Command) -> None:
    for name in INPUTS:
        source = world(0) / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)
    if command.replaces:
        shutil.copytree(world(1) / "graph", folder / "out")
        next((folder / "out").glob("time-*.npy")).write_bytes(b"damaged")


def _run(name: str, folder: Path, step: int | None, seconds: float) -> int | None:
    """The exit code; below 0 if it was killed."""
    process = child.start(COMMANDS[name].words.split(), folder, step)
    process.join(seconds)
    if process.is_alive() and seconds == LONGEST:
        process.kill()
        raise Finding(f"kills: {name}: it hangs", f"no end after {seconds} s")
    process.kill()
    process.join()
    return process.exitcode


def _wait_for_workers(name: str, folder: Path, details: str) -> None:
    """Workers of a killed process notice that it is gone, and end."""
    stop = time.monotonic() + PATIENCE
    while workers := _processes(folder):
        if time.monotonic() > stop:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            raise Finding(f"kills: {name}: its workers go on without it", details)
        time.sleep(0.05)


def _processes(folder: Path) -> list[int]:
    """Those that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.append(int(process.name))
    return found


def _grow_old(folder: Path) -> None:
    """What a killed process left behind is cleared up once it is certain that no process still works on it."""
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (time.time() - AN_HOUR, time.time() - AN_HOUR))


def _check(name: str, folder: Path, code: int | None, details: str) -> None:
    usual, command = _usual(name), COMMANDS[name]
    said = (folder / "stderr.txt").read_text().strip()
    done = code == 2 and command.done_already and command.done_already in said
    expect(code == 0 or done, f"kills: {name}: the second run fails", f"{details}: exit code {code}, {said[-300:]}")
    result = command.result(folder) if not done else usual.result
    expect(result == usual.result, f"kills: {name}: the second run has another result", details)
    files = _files(folder)
    expect(files == usual.files, f"kills: {name}: orphan files", f"{details}: {_difference(files, usual.files)}")


@cache
def _usual(name: str) -> Usual:
    with scratch() as folder:
        _prepare(folder, COMMANDS[name])
        child.warm_up()
        begun = time.monotonic()
        code = _run(name, folder, None, LONGEST)
        seconds = time.monotonic() - begun
        expect(code == 0, f"kills: {name} fails", (folder / "stderr.txt").read_text()[-500:])
        steps = int((folder / "steps.txt").read_text())
        return Usual(COMMANDS[name].result(folder), _files(folder), steps, seconds)


def _files(folder: Path) -> list[str]:
    """All files; eight random hexadecimal digits are as good as any others."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = [re.sub(r"[0-9a-f]{8}|[0-9a-f]{32}", "########", str(path)) for path in paths if path.name not in OWN]
    empty = [f"{path.relative_to(folder)}/" for path in folder.rglob("*") if path.is_dir() and not any(path.iterdir())]
    return sorted(names + [path for path in empty if path.rstrip("/") not in OWN])


def _difference(found: list[str], usual: list[str]) -> str:
    more = [file for file in found if found.count(file) > usual.count(file)]
    missing = [file for file in usual if usual.count(file) > found.count(file)]
    return f"there are {more} too many, and {missing} are missing"


def _imported(folder: Path) -> str:
    graph = cody.load(str(folder / "out"))
    verify_graph(graph)
    return graph.identity


def _explained(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "stdout.txt").read_text())
    return document | {"seconds": 0, "checksum": ""}


def _records(folder: Path) -> list[Any]:
    records = read_records(folder / "out.jsonl")
    return sorted((one.explainer, one.kind, one.event, one.rows, one.without, one.only) for one in records)


def _weights(file: str) -> Result:
    return lambda folder: {name: weight.tolist() for name, weight in load_file(folder / file).items()}


ASKED = "--data graph --model tgn"
LINKS = "--explainers greedy-temporal,cody-temporal --instances 3 --iterations 20"
TINY = "--dimension 4 --layers 1 --heads 1 --neighbours 2 --batch 100 --epochs 2"

COMMANDS = {
    "data import": Command("data import events.csv --out out", _imported),
    "data import in place of a damaged graph": Command("data import events.csv --out out", _imported, replaces=True),
    "explain": Command(f"explain {ASKED} --event {LINK} --candidates 6 --json", _explained),
    "explain a shipped model": Command("explain --event 53854 --json", _explained),
    "evaluate": Command(f"evaluate {ASKED} {LINKS} --out out.jsonl", _records),
    "evaluate with workers": Command(f"evaluate {ASKED} {LINKS} --workers 2 --out out.jsonl", _records),
    "train": Command(f"train --data graph --model tgn {TINY} --out out", _weights("out/model.safetensors"), "already"),
    "train-explainer": Command(
        f"train-explainer {ASKED} --links 8 --epochs 2 --out out", _weights("out/explainer.safetensors"), "already"
    ),
}
WEIGHTS = {"explain a shipped model": 2, "evaluate with workers": 2}  # they take seconds
