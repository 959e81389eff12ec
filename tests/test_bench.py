"""The measurements run; what they say is for the machine they run on."""

import importlib
import json
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from cody.data import load, save_graph
from cody.engine import tgn
from cody.engine.library import form
from cody.errors import CallError
from cody.models.folder import shipped_models
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network

SHIPPED = shipped_models()["tgn-collegemsg"].parent
CAMPUS = "--students 30 --epochs 1 --scorer-links 5 --links 1 --out out.json"
ROOT = Path(__file__).parent.parent
compiled_only = pytest.mark.skipif(form() != "compiled", reason="the compiled library is not built")


@pytest.fixture
def small(tmp_path):
    """A saved graph on which all is quick."""
    return save_graph(random_graph(np.random.default_rng(0), nodes=30, events=400), tmp_path / "events")


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("engine")


@pytest.fixture
def measured(bench, capsys):
    """Run bench/engine.py with these words; the document it prints."""

    def run(*words):
        bench.main(["--preset", "compact", "--queries", "1", *map(str, words), "--json"])
        return json.loads(capsys.readouterr().out)

    return run


def test_the_usual_measurements_have_a_row_each_and_agree_with_replay(bench, measured, small, monkeypatch):
    monkeypatch.setattr(bench, "STARTS", 1)
    monkeypatch.setattr(bench, "EVALUATIONS", 30)
    document = measured("--data", small)
    assert {"cpu", "cores", "torch"} <= document["machine"].keys()
    assert document["machine"]["changes_followed_by"] == form()
    assert document["left_out"] == ["tail", "growth"]
    rows = document["rows"]
    assert [(row["row"], row.get("model")) for row in rows] == [
        ("sets", "tgn"),
        ("sets", "tgat"),
        ("explanation", "tgn"),
        ("explanation", "tgn"),
        ("explanation", "tgat"),
        ("explanation", "tgat"),
        ("scoring", "tgn"),
        *[("startup", None)] * 4,  # --help, predict, explain --count 1, explain
    ]
    assert all(row["largest_difference"] < 1e-4 for row in rows if "largest_difference" in row)
    assert all(row["ratio"] > 0 for row in rows if "ratio" in row)  # on a graph this small, nothing about speed
    assert all(row["replayed"] == 1 for row in rows if "replayed" in row)
    assert all(0 < row["share_outside"] < 1 for row in rows if "share_outside" in row)


def test_the_cost_of_explanations_on_larger_graphs(bench, measured, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "EVALUATIONS", 30)
    rows = measured("--only", "growth", "--sizes", "1000,2000", "--folder", tmp_path)["rows"]
    compared = [(row["model"], row["events"], row["against"]) for row in rows if "against" in row]
    assert compared == [("tgn", 2000, 1000), ("tgat", 2000, 1000)]
    sizes = {(row["model"], row["events"]): row for row in rows if "against" not in row}
    assert list(sizes) == [("tgn", 1000), ("tgn", 2000), ("tgat", 1000), ("tgat", 2000)]
    assert [row["table_gib"] > 0 for row in sizes.values()] == [True, True, False, False]
    assert all(row["process_mib"] is None or 10 < row["process_mib"] < 1000 for row in sizes.values())
    assert all(row["largest_difference"] < 1e-4 for row in sizes.values())
    assert not list(tmp_path.iterdir())


def test_slow_links_are_those_of_the_data_and_model_that_are_given(measured, small, tmp_path):
    graph = load(small)
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    words = ("--tail-data", small, "--tail-model", tmp_path / "model")
    late, slowest, memory = measured("--only", "tail", "--links", "3", *words)["rows"]
    assert (late["data"], late["weights"], late["links"]) == (str(small), "trained", 3)
    assert 1 <= late["late_ratio"] <= slowest["slowest_ratio"]
    assert memory["peak_mib"] >= 0


def test_slow_links_fall_back_on_what_is_here(measured, small, monkeypatch, tmp_path):
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    late, *_ = measured("--only", "tail", "--links", "1", "--data", small)["rows"]
    assert (late["data"], late["weights"]) == (str(small), "untrained")


def test_a_measurement_that_does_not_exist_gets_a_suggestion(bench):
    with pytest.raises(CallError, match="there is no measurement 'start-up'; did you mean 'startup'\\?"):
        bench.main(["--only", "sets,start-up"])


@pytest.mark.parametrize(
    ("option", "value"), [("--sizes", "10"), ("--sizes", ""), ("--queries", "0"), ("--links", "-1")]
)
def test_sizes_and_numbers_are_checked_before_anything_is_measured(bench, option, value):
    with pytest.raises(CallError, match=f"{option} .*{value}.*give .*or more"):
        bench.main([option, value, "--only", "growth"])


def test_figures_fit_eighty_columns(bench):
    rows = [
        bench.Row(
            "sets", "TGAT, one set: plain against fast", "100× (10.4 ms, 0.123 ms)", {"largest_difference": 1e-7}
        ),
        bench.Row("tail", "TGN, 1,000 links of wikipedia: slowest 1 % to median", "100.5× (100.51 s, 0.235 s)", {}),
        bench.Row("growth", "TGN, 10,000,000 events: table on disk", "12.97 GiB in 12,345 s", {}),
    ]
    machine = {"cpu": "A processor", "cores": 2, "torch": "2", "changes_followed_by": "numpy"}
    lines = bench.as_text(rows, machine, ["startup"]).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(row.what in line and row.figure in line for line in lines) for row in rows)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("bench/code_lines.py", []),
        ("bench/training.py", ["--preset", "compact", "--batches", "1"]),
        ("bench/graph_scale.py", ["--events", "20000", "--queries", "3"]),
        ("bench/scale.py", [".", "--sizes", "2000", "--links", "1"]),
        ("bench/rankings.py", ["--links", "1", "--models", "tgat-collegemsg"]),
        ("bench/fading.py", ["--data", "collegemsg", "--model", "tgn-collegemsg", "--events", "53854"]),
        ("bench/estimates.py", ["--links", "1", "--size", "300", "--rows", "2", "--out", "out.json"]),
        pytest.param("bench/follow.py", ["--links", "2", "--evaluations", "20"], marks=compiled_only),
        ("reproduce/campus.py", CAMPUS.split()),
        (
            "reproduce/searches.py",
            ["--links", "1", "--data", "collegemsg", "--models", str(SHIPPED), "--out", "out.json"],
        ),
        (
            "reproduce/neighbourhoods.py",
            ["--links", "1", "--data", "collegemsg", "--models", str(SHIPPED), "--out", "out.json"],
        ),
    ],
)
def test_the_scripts_run(script, words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, *words])
    monkeypatch.syspath_prepend(ROOT / Path(script).parent)  # as Python does with a script's folder
    monkeypatch.setenv("CODY_PURE", os.environ.get("CODY_PURE", "0"))
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", ""))  # empty: the usual one
    for limit in ("MANY_VERSIONS", "SMALL_CHANGE"):
        monkeypatch.setattr(tgn, limit, getattr(tgn, limit))  # a script that sets it does so for itself
    runpy.run_path(str(ROOT / script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_the_cost_of_units_is_that_of_the_busiest_nodes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    units = importlib.import_module("units")
    graph = load("collegemsg")
    node, row = units.busiest(graph, graph.src)
    assert node in (graph.src[row], graph.dst[row])
    found = units.explained("collegemsg", "tgat-collegemsg", row, "pair")
    assert found["candidates"] == 64
    assert found["events"] >= found["largest"] > 1
