"""Explainers as their authors published them, run from a clone of their repository. Nothing of them is part of CoDy.

`official_cody` is a function as `cody evaluate --explainers MODULE:FUNCTION` takes it:

    git clone https://github.com/daniel-gomm/CoDy /somewhere/CoDy
    CODY_CLONE=/somewhere/CoDy cody benchmark run --explainers cody.baselines.clones:official_cody,cody --out b

The authors' code searches; our model answers. Both searches get the same candidates and the same exact answers, so what
differs is the search. Their code runs in a process of its own, since their package is called `cody` as well.

`official_tgnnexplainer` is the search of T-GNNExplainer (https://github.com/cisaic/tgnnexplainer, GPL: it is run from
the clone, and needs torch-geometric, networkx, scikit-learn and numba). Its navigator is a network on its own TGAT or
TGN, so it cannot be asked about other models; the order in which events are tried first is here that of their effect
alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cody.errors import CallError, ModelError
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.neighbourhood import distances
from cody.models.contract import Model

CLONE = "CODY_CLONE"  # environment variable: the folder of the clone
ITERATIONS = 300
TGNN_CLONE = "TGNNEXPLAINER_CLONE"
TGNN_ROLLOUTS, TGNN_EXPLORATION = 500, 5.0  # as in its configuration
TGNN_CANDIDATES, TGNN_MOST = 20, 6  # it looks at so many of the latest events, and names so many at most


def official_cody(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    candidates: IntArray,
    *,
    clone: str | Path | None = None,
    kind: str = "cody",
    policy: str = "spatio-temporal",
) -> list[int]:
    """What the published CoDy names, with 300 iterations.

    Args:
        model: Answers what it asks.
        graph: The log of events.
        query: The link of an event.
        candidates: The events that it may name.
        clone: Folder of a clone of https://github.com/daniel-gomm/CoDy; by default, $CODY_CLONE.
        kind: "cody", or "stepwise" for GreeDy.
        policy: As its authors call it.
    """
    folder = _folder_of(clone, CLONE, "daniel-gomm/CoDy", "cody/explainer/cody.py")
    if not len(candidates):
        return []
    away = distances(graph, query, candidates)
    question = {
        "kind": kind,
        "policy": policy,
        "iterations": ITERATIONS,
        "event": int(query.before),
        "candidates": candidates.tolist(),
        "time": graph.time[candidates].tolist(),
        "distance": away.tolist(),
    }
    return _their_process(folder, "cody").explain(question, model, query)


def _folder_of(clone: str | Path | None, variable: str, repository: str, file: str) -> str:
    """The folder of a clone, by default that which an environment variable names."""
    folder = clone or os.environ.get(variable)
    if not folder:
        raise CallError(f"the folder of a clone of https://github.com/{repository} is missing: set {variable}")
    if not (Path(folder) / file).is_file():
        raise CallError(f"{str(folder)!r} has no {file}: it is not a clone of {repository}")
    return str(folder)


def official_greedy(model: Model, graph: TemporalGraph, query: Query, candidates: IntArray) -> list[int]:
    """What the published GreeDy names.

    Args:
        model: Answers what it asks.
        graph: The log of events.
        query: The link of an event.
        candidates: The events that it may name.
    """
    return official_cody(model, graph, query, candidates, kind="stepwise")


def official_tgnnexplainer(
    model: Model, graph: TemporalGraph, query: Query, candidates: IntArray, *, clone: str | Path | None = None
) -> list[int]:
    """What the published search of T-GNNExplainer names, with 500 rollouts: at most 6 of the latest 20 candidates.

    Args:
        model: Answers what it asks.
        graph: The log of events.
        query: The link of an event.
        candidates: The events that it may name.
        clone: Folder of a clone of https://github.com/cisaic/tgnnexplainer; by default, $TGNNEXPLAINER_CLONE.
    """
    file = "TGNNEXPLAINER-PUBLIC/tgnnexplainer/xgraph/method/subgraphx_tg.py"
    folder = _folder_of(clone, TGNN_CLONE, "cisaic/tgnnexplainer", file)
    rows = np.sort(candidates)[-TGNN_CANDIDATES:]
    if not len(rows):
        return []
    columns = {"src": graph.src[rows], "dst": graph.dst[rows], "time": graph.time[rows], "candidates": rows}
    question = {
        **{name: column.tolist() for name, column in columns.items()},
        "event": int(query.before),
        "seed": int(query.before),
        "rollouts": TGNN_ROLLOUTS,
        "exploration": TGNN_EXPLORATION,
        "most": TGNN_MOST,
    }
    return _their_process(folder, "tgnnexplainer").explain(question, model, query)


official_tgnnexplainer.factual = True  # type: ignore[attr-defined]


class TheirProcess:
    """A process in which the published code runs; it asks for logits, a line of JSON each."""

    def __init__(self, clone: str, search: str) -> None:
        self.clone, self.search = clone, search
        self.process: subprocess.Popen[str] | None = None

    def explain(self, question: dict[str, Any], model: Model, query: Query) -> list[int]:
        """The rows that it names.

        Args:
            question: What its side needs to know.
            model: Answers what it asks.
            query: The link.
        """
        try:
            message = self._reply(question)
            while "rows" not in message:
                logits = model.logits(query, [frozenset(message["without"])])
                message = self._reply({"logit": float(np.asarray(logits)[0])})
        except BaseException:  # for example after a budget is spent: its search would go on
            self.stop()
            raise
        return message["rows"]

    def _reply(self, document: dict[str, Any]) -> dict[str, Any]:
        """What it writes once it has read a document: what it asks, or the rows."""
        if self.process is None:
            script = str(Path(__file__).with_name("their_code.py"))
            command = [sys.executable, "-I", "-B", script, self.clone, self.search]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        to, back = self.process.stdin, self.process.stdout
        assert to is not None
        assert back is not None
        try:
            to.write(json.dumps(document) + "\n")
            to.flush()
            line = back.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ModelError(f"the code in {self.clone} ended with an error, which is printed above")
        return json.loads(line)

    def stop(self) -> None:
        """End the process; the next question starts another one."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@cache
def _their_process(clone: str, search: str) -> TheirProcess:
    return TheirProcess(clone, search)
