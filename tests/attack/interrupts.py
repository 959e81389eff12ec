"""Ctrl-C at any moment leaves nothing behind: the same objects go on to give the right answers.

Python looks for Ctrl-C after calls and at the ends of loops. A case runs something small, and has Ctrl-C pressed at one
such instruction of our own code, all of which are equally likely, however often each is executed.
"""

from __future__ import annotations

import dis
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

import cody
from attack.finding import Finding, expect
from attack.things import double_engine
from attack.world import EVENTS, finish_training, world, world_to_break
from cody import search
from cody.data import save_graph
from cody.engine import load_model
from cody.errors import CodyError
from cody.explaining.pipeline import explain
from cody.explaining.what_if import effects
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Move
from cody.models.contract import Session, model_on
from cody.models.toy import ToyModel
from cody.search import policies
from cody.study import run as evaluation
from cody.study.record_file import read_records
from cody.train.checkpoint import clear_up

SOURCE = str(Path(cody.__file__).parent)
LINK = 150  # the event that is asked about: an early one, so that little has to be computed
SETS = [frozenset[int](), frozenset({LINK - 1}), frozenset({LINK - 1, 40, 3}), frozenset({LINK - 2, 28, EVENTS + 1})]
PATIENCE = 20.0  # seconds for an answer that takes a fraction of one
AN_HOUR = 3600.0  # leftovers of that age are no longer work in progress


class Scenario(NamedTuple):
    """What is interrupted, and the questions that must be answered afterwards as if nothing had been."""

    prepare: Callable[[Path], Any]
    act: Callable[[Any], Any]
    ask: Callable[[Any], Any]
    files: str = ""  # a pattern in the world's folder: what must be there afterwards, and nothing else


def attack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    name = list(SCENARIOS)[rng.integers(len(SCENARIOS))]
    scenario = SCENARIOS[name]
    moments = _moments(name)
    place = list(moments)[rng.integers(len(moments))]
    moment = int(rng.choice(moments[place]))
    fault, details = f"interrupts: {name}", f"Ctrl-C in {_shown(place)} (moment {moment}, seed {seed})"
    with world_to_break() as folder:
        state = scenario.prepare(folder)
        _interrupted(scenario, state, moment, fault, details)
        expect(torch.is_grad_enabled(), f"{fault}: gradients stay off", details)
        answer = _in_a_thread(partial(scenario.ask, state), fault, details)
        answer_is_right = _equal(answer, _right_answer(name))
        expect(answer_is_right, f"{fault}: another answer afterwards", f"{details}: {str(answer)[:200]}")
        if scenario.files:
            _check_leftovers(scenario, folder, state, name, f"{fault}: files are left behind", details)


class CtrlC:
    """Counts the moments at which Ctrl-C could be noticed, and presses it in one of them."""

    def __init__(self, moment: int | None = None) -> None:
        self.moment = moment
        self.places: list[tuple[CodeType, int]] = []  # one for each moment so far

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and frame.f_lasti in _checkpoints(frame.f_code):
            self.places.append((frame.f_code, frame.f_lasti))
            if len(self.places) - 1 == self.moment:
                raise KeyboardInterrupt
        return self._step

    def run(self, act: Callable[[], Any]) -> None:
        sys.settrace(self)
        try:
            act()
        finally:
            sys.settrace(None)


@cache
def _checkpoints(code: CodeType) -> frozenset[int]:
    """The instructions before which Python looks for Ctrl-C."""
    found: set[int] = set()
    instructions = list(dis.get_instructions(code))
    for instruction, after in pairwise(instructions):
        if instruction.opname in ("RESUME", "CALL", "CALL_FUNCTION_EX"):
            found.add(after.offset)
        elif "JUMP_BACKWARD" in instruction.opname and "NO_INTERRUPT" not in instruction.opname:
            found.add(instruction.argval)
    return frozenset(found)


@cache
def _moments(name: str) -> dict[tuple[CodeType, int], list[int]]:
    """For each instruction that a scenario executes, some of the moments at which it does."""
    scenario = SCENARIOS[name]
    with world_to_break() as folder:
        scenario.act(scenario.prepare(folder))  # what happens only once in a process, such as imports, has happened now
    with world_to_break() as folder:
        watch = CtrlC()
        watch.run(partial(scenario.act, scenario.prepare(folder)))
    moments: dict[tuple[CodeType, int], list[int]] = {}
    for moment, place in enumerate(watch.places):
        moments.setdefault(place, []).append(moment)
    return moments


@cache
def _right_answer(name: str) -> Any:
    with world_to_break() as folder:
        return SCENARIOS[name].ask(SCENARIOS[name].prepare(folder))


def _interrupted(scenario: Scenario, state: Any, moment: int, fault: str, details: str) -> None:
    try:
        CtrlC(moment).run(partial(scenario.act, state))
    except KeyboardInterrupt:
        return
    except BaseException as error:
        raise Finding(f"{fault}: {type(error).__name__} instead of KeyboardInterrupt", f"{details}: {error}") from error


def _in_a_thread(ask: Callable[[], Any], fault: str, details: str) -> Any:
    """An answer, unless somebody still holds a lock."""
    answers: list[Any] = []
    failures: list[Exception] = []

    def work() -> None:
        try:
            answers.append(ask())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    expect(not thread.is_alive(), f"{fault}: no answer afterwards, is a lock still held?", details)
    if failures:
        raise Finding(f"{fault}: {type(failures[0]).__name__} afterwards", f"{details}: {failures[0]}") from failures[0]
    return answers[0]


def _equal(one: Any, other: Any) -> bool:
    """Equal but for the rounding of logits."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other or (isinstance(one, float) and isinstance(other, float) and abs(one - other) <= 1e-9)


def _check_leftovers(scenario: Scenario, folder: Path, state: Any, name: str, fault: str, details: str) -> None:
    """Once what was left behind is old, and the same is done again, only what belongs there is there."""
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (time.time() - AN_HOUR, time.time() - AN_HOUR))
    scenario.act(scenario.prepare(folder))
    found = sorted(str(path.relative_to(folder)) for path in folder.glob(scenario.files))
    expect(len(found) == len(_files_afterwards(name)), fault, f"{details}: {found}, not {_files_afterwards(name)}")


@cache
def _files_afterwards(name: str) -> list[str]:
    with world_to_break() as folder:
        SCENARIOS[name].act(SCENARIOS[name].prepare(folder))
        return sorted(str(path.relative_to(folder)) for path in folder.glob(SCENARIOS[name].files))


def _shown(place: tuple[CodeType, int]) -> str:
    code, offset = place
    line = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
    return f"{Path(code.co_filename).relative_to(SOURCE)}:{line}, {code.co_qualname}"


class Asked(NamedTuple):
    graph: TemporalGraph
    model: Any
    session: Session


def _model(kind: str, folder: Path) -> Asked:
    """In double precision throughout, so that what was asked before does not show in the last digits."""
    happened = cody.load(str(folder / "graph"))
    graph = happened.imagine([Add("node 1", "node 2", LINK / 2), Move(LINK - 9, LINK / 2)])
    model: Any = model_on(load_model(folder / kind, happened, engine=double_engine), graph)
    return Asked(graph, model, model.session(graph.query(LINK)))


def _warm_model(kind: str, folder: Path) -> Asked:
    asked = _model(kind, folder)
    asked.session.logits(SETS[:2])
    return asked


def _logits(asked: Asked) -> list[float]:
    return asked.session.logits(SETS).tolist()


def _explain(asked: Asked) -> str:
    why = explain(asked.model, asked.graph, asked.graph.query(LINK), size=6, count=2)
    return replace(why, seconds=0.0).to_json()


def _effects(asked: Asked) -> list[float]:
    return effects(asked.model, asked.graph, asked.graph.query(LINK)).without.tolist()


def _only(asked: Asked) -> float:
    return asked.model.only(asked.graph.query(LINK), frozenset({LINK - 1, 20}))


def _everything(asked: Asked) -> list[Any]:
    """First what was asked when it was interrupted, then other things, also about another query."""
    same = _logits(asked)
    other = asked.model.logits(asked.graph.query(100), [frozenset(), frozenset({99})]).tolist()
    new = asked.session.logits([frozenset({20, 30}), frozenset({3}), frozenset({EVENTS, EVENTS + 1})]).tolist()
    return [same, other, new, _explain(asked), _only(asked)]


def _asking(kind: str, act: Callable[[Asked], Any], *, warm: bool = False) -> Scenario:
    return Scenario(partial(_warm_model if warm else _model, kind), act, _everything)


def _opened_model(folder: Path) -> list[float]:
    graph = cody.load(str(folder / "graph"))
    return load_model(folder / "tgn", graph).logits(graph.query(LINK), SETS[:3]).tolist()


def _without_table(folder: Path) -> Path:
    shutil.rmtree(folder / "cache")
    return folder


def _save_other_graph(folder: Path) -> None:
    """Put the graph of another world in the place of this one's."""
    save_graph(cody.load(str(world(1) / "graph")), folder / "graph")


def _one_of_the_graphs(folder: Path) -> bool:
    identities = [json.loads((world(seed) / "graph" / "graph.json").read_text())["identity"] for seed in (0, 1)]
    graph = cody.load(str(folder / "graph"))
    cody.data.verify_graph(graph)
    return graph.identity in identities


def _save_new_graph(folder: Path) -> None:
    save_graph(cody.load(str(folder / "graph")), folder / "new")


def _whole_or_absent(folder: Path) -> bool:
    """Whether the new graph is there as a whole, or is not there."""
    try:
        cody.data.verify_graph(cody.load(str(folder / "new")))
    except CodyError:
        return not (folder / "new").exists()
    return True


def _evaluate(folder: Path) -> list[str]:
    """Returns what the file of records holds in the end, but for the seconds."""
    graph = cody.load(str(folder / "graph"))
    model = ToyModel(graph, np.random.default_rng(0).normal(size=graph.num_events))
    explainer = evaluation.Explainer("greedy-temporal", policies.temporal, partial(search.greedy, children=2), size=4)
    plan = evaluation.EvaluationPlan("graph", "toy", (explainer,))
    list(evaluation.run(folder / "toy.jsonl", model, graph, plan, evaluation.Sample(2)))
    records = [replace(record, seconds=0.0) for record in read_records(folder / "toy.jsonl")]
    return sorted(map(repr, records))


def _train(folder: Path) -> str:
    if not (folder / "training" / "model.json").exists():
        finish_training(cody.load(str(folder / "graph")), folder / "training")
    clear_up(folder / "training", "model")  # as the next training does, if it was stopped after its last step
    return (folder / "training" / "model.safetensors").read_bytes().hex()


def _same(folder: Path) -> Path:
    return folder


SCENARIOS = {
    **{f"logits of a {kind}": _asking(kind, _logits) for kind in ("tgn", "tgat")},
    **{f"more logits of a {kind}": _asking(kind, _logits, warm=True) for kind in ("tgn", "tgat")},
    **{f"explaining a {kind}": _asking(kind, _explain) for kind in ("tgn", "tgat")},
    "what-if": _asking("tgn", _effects),
    "a past of few events": _asking("tgn", _only),
    "opening a model": Scenario(_same, _opened_model, _opened_model),
    "building a table": Scenario(_without_table, _opened_model, _opened_model, "cache/cody/versions/*"),
    "saving a graph": Scenario(_same, _save_new_graph, _whole_or_absent, "new/*"),
    "replacing a graph": Scenario(_same, _save_other_graph, _one_of_the_graphs, "graph/*"),
    "evaluating": Scenario(_same, _evaluate, _evaluate, "toy*"),
    "training": Scenario(_same, _train, _train, "training/*"),
}
