"""A damaged file is noticed, with one clear error, or it does not matter: never another answer."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from click.testing import CliRunner
from safetensors.numpy import load_file

import cody
from attack.damage import damage
from attack.finding import Finding, check_message
from attack.world import LINK, finish_training, world, world_to_break
from cody.baselines import load_pgexplainer
from cody.cli import app
from cody.engine import load_model
from cody.errors import CodyError
from cody.explaining.explanation import Explanation
from cody.explaining.what_if import read_cases
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.study.record_file import read_records

MEMORY = 6 * 2**30  # bytes; who wants more for 600 events was misled by a damaged number
SETS = [frozenset[int](), frozenset({LINK - 1}), frozenset({LINK - 1, 400, 3}), frozenset(range(200, LINK))]


class Subject(NamedTuple):
    """Files, and the answer that depends on them."""

    files: str  # a pattern, in the folder of the world
    answer: Callable[[Path], Any]
    is_text: bool = False  # text that anybody may write has no checksum: only tracebacks count
    is_list: bool = False  # what is left of a list of records is still records
    is_alone: bool = False  # put in the place of another one, it is still right


def attack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    name = list(SUBJECTS)[rng.integers(len(SUBJECTS))]
    subject = SUBJECTS[name]
    with world_to_break() as folder:
        files = sorted(folder.glob(subject.files))
        file = files[rng.integers(len(files))]
        relative = file.relative_to(folder)
        how = damage(rng, file, None if subject.is_alone else world(1) / relative)
        shown = relative.parent / f"*{file.suffix}"
        fault, details = f"files: {name}, {shown}", f"{how} (seed {seed})"
        try:
            with limited_memory():
                answer = subject.answer(folder)
        except CodyError as error:
            check_message(error, fault)
            return
        except Exception as error:
            raise Finding(f"{fault}: {type(error).__name__}", f"{details}: {error}") from error
    right = _right_answer(name)
    fine = answer == right or subject.is_text or (subject.is_list and answer == right[: len(answer)])
    if not fine:
        raise Finding(f"{fault}: another answer", f"{details}: {_difference(answer, right)}")


@cache
def _right_answer(name: str) -> Any:
    with world_to_break() as folder:
        return SUBJECTS[name].answer(folder)


def _difference(answer: Any, right: Any) -> str:
    """Where two answers part."""
    if isinstance(answer, list) and isinstance(right, list) and len(answer) == len(right):
        return next(_difference(one, other) for one, other in zip(answer, right, strict=True) if one != other)
    one, other = str(answer), str(right)
    try:
        place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    except SystemError:
        return "letters beyond Unicode"
    start = max(0, place - 40)
    return f"…{one[start : place + 40]}… instead of …{other[start : place + 40]}…"


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    usual = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, usual)


def _graph(folder: Path) -> TemporalGraph:
    return cody.load(str(folder / "graph"))


def _explained(model: Model, graph: TemporalGraph, **options: Any) -> list[Any]:
    """Logits and an explanation; not how long it took, nor the name of the model, which does not change answers."""
    queries = [graph.query(LINK), graph.query(300), graph.link(graph.name(1), graph.name(2), float(graph.time[-1]))]
    logits = [model.logits(query, SETS).tolist() for query in queries]
    why = cody.explain(model, graph, queries[0], size=12, **options)
    return [logits, replace(why, seconds=0.0, model="").to_json()]


def _tgn(folder: Path) -> Any:
    graph = _graph(folder)
    return _explained(load_model(folder / "tgn", graph), graph)


def _tgat(folder: Path) -> Any:
    graph = _graph(folder)
    return _explained(load_model(folder / "tgat", graph), graph)


def _scorer(folder: Path) -> Any:
    graph = _graph(folder)
    model = load_model(folder / "tgn", graph)
    return _explained(model, graph, policy=load_pgexplainer(folder / "scorer", model))


def _training(folder: Path) -> Any:
    finish_training(_graph(folder), folder / "training")
    weights = load_file(folder / "training" / "model.safetensors")
    return [[name, weight.tolist()] for name, weight in sorted(weights.items())]


def _explanation(folder: Path) -> str:
    try:
        text = (folder / "why.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CodyError(str(error)) from None  # it is the caller who reads the file
    why = Explanation.from_json(text)
    return f"{why} {why.to_json()} {why._repr_html_()}"


def _records(file: str) -> Callable[[Path], list[str]]:
    return lambda folder: [repr(record) for record in read_records(folder / file)]


def _events(file: str) -> Callable[[Path], str]:
    return lambda folder: cody.load(str(folder / file), sort=True).identity


def _command(*words: str) -> Callable[[Path], str]:
    """What a command prints."""

    def run(folder: Path) -> str:
        result = CliRunner().invoke(app, [word.format(folder) for word in words], catch_exceptions=True)
        if isinstance(result.exception, Exception):
            raise result.exception
        if result.exit_code:
            raise CodyError(result.output.strip().splitlines()[-1])
        return result.stdout.replace(str(folder), "")

    return run


WHAT_IF = ("what-if", "--data", "{}/graph", "--model", "{}/tgn", "--event", str(LINK), "--each", "--json")

SUBJECTS = {
    "saved graph": Subject("graph/*", _tgn),
    "saved graph and a TGAT": Subject("graph/*", _tgat),
    "model": Subject("tgn/model.*", _tgn),
    "TGAT model": Subject("tgat/model.*", _tgat),
    "table of versions": Subject("cache/cody/versions/*", _tgn),
    "trained explainer": Subject("scorer/explainer.*", _scorer),
    "interrupted training": Subject("training/training.safetensors", _training),
    "explanation": Subject("why.json", _explanation, is_alone=True),
    "records": Subject("run.jsonl", _records("run.jsonl"), is_list=True, is_alone=True),
    "compressed records": Subject("run.jsonl.gz", _records("run.jsonl.gz"), is_list=True, is_alone=True),
    "csv": Subject("events.csv", _events("events.csv"), is_text=True),
    "compressed csv": Subject("events.csv.gz", _events("events.csv.gz"), is_text=True),
    "parquet": Subject("events.parquet", _events("events.parquet"), is_text=True),
    "JODIE csv": Subject("jodie.csv", _events("jodie.csv"), is_text=True),
    "ml csv": Subject("ml_x*", _events("ml_x.csv"), is_text=True),
    "cases": Subject("cases.json", lambda folder: read_cases(folder / "cases.json", _graph(folder)), is_text=True),
    "what-if": Subject("t*n/*", _command(*WHAT_IF)),
    "data show": Subject("graph/*", _command("data", "show", "{}/graph", "--verify", "--json")),
    "tables": Subject("run.jsonl", _command("tables", "{}/run.jsonl"), is_text=True),
}
