"""A small world in a folder: one of every kind of file that CoDy reads, all about the same few events."""

from __future__ import annotations

import atexit
import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch

from cody import search
from cody.baselines import ScorerSettings, train_explainer
from cody.baselines.differentiable import SoftModel
from cody.data import save_graph
from cody.engine import load_model
from cody.explaining.pipeline import explain
from cody.graph import TemporalGraph
from cody.models.sizes import Sizes
from cody.search import policies
from cody.study import run as evaluation
from cody.train.architectures import ARCHITECTURES
from cody.train.checkpoint import Checkpoint, save_model
from cody.train.training import TrainingProgress, TrainingSettings, new_network, train
from random_events import random_graph, random_network

EVENTS = 600
LINK = 560  # the event that is asked about
TRAINING = TrainingSettings(epochs=2, patience=2)


@cache
def world(seed: int) -> Path:
    """The world of that seed, built once; nobody writes into it."""
    folder = Path(tempfile.mkdtemp(prefix="attack-world-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with _cache_in(folder):
        _build(folder, seed)
    return folder


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        yield Path(folder)


@contextmanager
def world_to_break(seed: int = 0) -> Iterator[Path]:
    """A copy of a world, with its cache."""
    with scratch() as folder:
        copy = Path(shutil.copytree(world(seed), folder / "world"))
        with _cache_in(copy):
            yield copy


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    with patch.dict(os.environ, {"XDG_CACHE_HOME": str(folder / "cache")}):
        yield


def _build(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = named_graph(rng)
    save_graph(graph, folder / "graph")
    for kind in ("tgn", "tgat"):
        save_model(folder / kind, Checkpoint(random_network(graph, kind, seed, batch=50), graph.identity))
    model = load_model(folder / "tgn", graph)  # which makes its table
    few = ScorerSettings(links=8, epochs=1, batch=8, hidden=8)
    list(train_explainer(SoftModel(model), few, folder / "scorer"))
    why = explain(model, graph, graph.query(LINK), size=12)
    (folder / "why.json").write_text(why.to_json(), encoding="utf-8")
    explainer = evaluation.Explainer("greedy-temporal", policies.temporal, partial(search.greedy, children=4), size=8)
    plan = evaluation.EvaluationPlan("graph", "tgn", (explainer,))
    list(evaluation.run(folder / "run.jsonl", model, graph, plan, evaluation.Sample(3)))
    (folder / "run.jsonl.gz").write_bytes(gzip.compress((folder / "run.jsonl").read_bytes(), mtime=0))
    list(islice(_epochs(graph, folder / "training"), 1))
    cases = [{"event": LINK, "removed": [3, 500]}, {"event": 20, "removed": []}]
    (folder / "cases.json").write_text(json.dumps(cases))
    _write_tables(graph, folder)


def named_graph(rng: np.random.Generator) -> TemporalGraph:
    usual = random_graph(rng, nodes=20, events=EVENTS, edge_features=2, node_features=3)
    names = [f"node {number}" for number in range(usual.num_nodes)]
    parts = {"features": usual.features, "node_features": usual.node_features, "names": names}
    return TemporalGraph.from_arrays(usual.src, usual.dst, usual.time, **parts)


def _epochs(graph: TemporalGraph, folder: Path) -> Iterator[TrainingProgress]:
    """Train; yields after each epoch, so that a training can be left in the middle."""
    torch.set_num_threads(1)
    sizes = Sizes(dimension=4, layers=1, heads=1, neighbours=2, batch=100)
    network = new_network(ARCHITECTURES["tgn"], graph, sizes, seed=0)
    return (step for step in train(graph, network, TRAINING, folder) if step.validation is not None)


def finish_training(graph: TemporalGraph, folder: Path) -> None:
    list(_epochs(graph, folder))


def _write_tables(graph: TemporalGraph, folder: Path) -> None:
    """The same events as other people keep them."""
    assert graph.features is not None
    assert graph.node_features is not None
    columns = {"src": graph.src, "dst": graph.dst, "time": graph.time}
    columns |= {f"f{number}": graph.features[:, number] for number in range(2)}
    table = pd.DataFrame(columns)
    table.to_csv(folder / "events.csv", index=False)
    table.to_csv(folder / "events.csv.gz", index=False, compression={"method": "gzip", "mtime": 0})
    table.to_parquet(folder / "events.parquet")
    jodie = ["user_id,item_id,timestamp,state_label,comma_separated_list_of_features"]
    jodie += [f"{u},{v},{t},0,{a},{b}" for u, v, t, a, b in table.itertuples(index=False)]
    (folder / "jodie.csv").write_text("\n".join(jodie) + "\n")
    ml = pd.DataFrame({"u": graph.src + 1, "i": graph.dst + 1, "ts": graph.time, "label": 0})
    ml["idx"] = np.arange(1, EVENTS + 1)
    ml.to_csv(folder / "ml_x.csv")
    np.save(folder / "ml_x.npy", np.concatenate([np.zeros((1, 2)), graph.features]))
    np.save(folder / "ml_x_node.npy", np.concatenate([np.zeros((1, 3)), graph.node_features]))
