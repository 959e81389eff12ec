"""Models that a user's function makes, named on the command line as module:function."""

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.study.record_file import read_records
from some_records import timeless

MODELS = """
from cody import TemporalGraph
from cody.models import ToyModel

GRAPH = TemporalGraph.from_arrays([0, 0, 2, 0, 1, 0] * 5, [1, 2, 1, 1, 2, 1] * 5, range(30))

def toy(graph):
    return ToyModel(graph, weights=[(-1) ** row for row in range(graph.num_events)])

def with_graph():
    return toy(GRAPH), GRAPH

def knows_its_graph():
    return toy(GRAPH)

def same_graph(graph):
    return toy(graph), graph

def shipped_data():
    import cody
    graph = cody.load("collegemsg")
    return ToyModel(graph, bias=1.0), graph

def broken():
    return [][1]

def nothing():
    pass

def number():
    return 5

def too_many(graph, weights):
    pass
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A folder with a module of models, and the events of its graph."""
    name = f"models_{abs(hash(tmp_path))}"  # modules stay imported
    (tmp_path / f"{name}.py").write_text(MODELS)
    (tmp_path / f"{name}_unfit.py").write_text("import not_installed_anywhere\n")
    lines = "".join(f"{a},{b},{t}\n" for a, b, t in zip([0, 0, 2] * 10, [1, 2, 1] * 10, range(30), strict=True))
    (tmp_path / "events.csv").write_text("src,dst,time\n" + lines)
    monkeypatch.chdir(tmp_path)
    yield name
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def cody(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_function_that_takes_the_graph_is_given_the_data(models):
    answer = cody("explain", "--data", "events.csv", "--model", f"{models}:toy", "--event", 29, "--json")
    assert answer.exit_code == 0, answer.exception
    document = json.loads(answer.stdout)
    assert document["parameters"]["model"] == f"{models}:toy"
    assert document["parameters"]["data"] == "events.csv"


@pytest.mark.parametrize("function", ["with_graph", "knows_its_graph"])
def test_a_function_that_brings_its_graph_needs_no_data(models, function):
    answer = cody("explain", "--model", f"{models}:{function}", "--event", 29, "--json")
    assert answer.exit_code == 0, answer.exception
    assert json.loads(answer.stdout)["parameters"]["data"] == f"{models}:{function}"
    asked = cody("what-if", "--model", f"{models}:{function}", "--event", 29, "--without", 3, "--json")
    assert [case["removed"] for case in json.loads(asked.stdout)] == [[], [3]]


def test_an_audit_names_the_data_that_it_was_made_on(models):
    """Neither the default data, which a function that brings its own does not use, nor the function twice."""
    words = ["audit", "--links", 2, "--period", "0.2..1", "--html", "page.html"]
    answer = cody(*words, "--model", f"{models}:with_graph")
    assert answer.exit_code == 0, answer.exception
    assert answer.stdout.startswith(f"{models}:with_graph on data of its own: 4 predictions")
    assert f"{models}:with_graph on data of its own" in Path("page.html").read_text("utf-8")
    assert "not used" not in answer.stderr
    given = cody(*words, "--data", "events.csv", "--model", f"{models}:toy")
    assert given.stdout.startswith(f"{models}:toy on events.csv: 4 predictions")
    known = cody("audit", "--links", 1, "--model", f"{models}:shipped_data")
    assert known.stdout.startswith(f"{models}:shipped_data on collegemsg: 2 predictions")


def test_a_survey_names_a_function_once(models):
    words = ["survey", "--model", f"{models}:with_graph", "--period", "0.2..1", "--instances", 2, "--html", "page.html"]
    answer = cody(*words)
    assert answer.exit_code == 0, answer.exception
    assert f"{models}:with_graph on data of its own: " in answer.stdout
    assert re.findall("Survey · [^<]*", Path("page.html").read_text("utf-8")) == [f"Survey · {models}:with_graph"]


def test_an_assistant_is_served_the_data_of_the_function(models, monkeypatch):
    class Nobody:
        def run(self, how):
            assert how == "stdio"

    served = []
    monkeypatch.setattr("cody.web.assistant.create_assistant", lambda live: served.append(live) or Nobody())
    said = " ".join(cody("mcp", "--model", f"{models}:with_graph").stderr.split())
    assert f"Serving {models}:with_graph on data of its own to the program" in said
    assert [live.data_name for live in served] == [f"{models}:with_graph"]


@pytest.mark.parametrize("command", [("explain", "--event"), ("predict", "--events")])
def test_data_that_the_function_does_not_use_are_said(models, command):
    words = [*command, 29, "--data", "events.csv", "--model"]
    assert f"--data events.csv is not used: {models}:with_graph returns a graph of" in " ".join(
        cody(*words, f"{models}:with_graph").stderr.split()
    )
    for function in ("toy", "same_graph"):
        answer = cody(*words, f"{models}:{function}")
        assert answer.exit_code == 0, answer.exception
        assert "not used" not in answer.stderr


def test_an_evaluation_makes_the_model_in_each_worker(models, tmp_path):
    words = ["evaluate", "--model", f"{models}:with_graph", "--explainers", "greedy-temporal", "--instances", 2]
    words += ["--period", "0.2..1"]
    alone = cody(*words, "--out", "alone.jsonl", "--json")
    assert alone.exit_code == 0, alone.exception
    together = cody(*words, "--out", "together.jsonl", "--json", "--workers", 2)
    assert together.exit_code == 0, together.exception
    one, other = (timeless(read_records(tmp_path / name)) for name in ("alone.jsonl", "together.jsonl"))
    assert one == other
    assert one


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", "failed (models_"),
        ("broken", "IndexError: list index out of range"),
        ("nothing", "returned nothing; it must return a model, or a model and its graph"),
        ("number", "a model has a method logits(query, changes); '5' has none"),
        ("too_many", "must take the graph, or nothing; it takes 2 arguments"),
        ("tooy", "has no function 'tooy'; did you mean 'toy'?"),
    ],
)
def test_functions_that_make_no_model_are_named(models, function, message):
    answer = cody("explain", "--model", f"{models}:{function}", "--event", 3)
    assert message in str(answer.exception)


def test_modules_that_cannot_be_imported_are_named(models):
    answer = cody("explain", "--model", "no_such_module_here:toy", "--event", 3)
    assert "there is no module 'no_such_module_here', which --model no_such_module_here:toy names" in str(
        answer.exception
    )
    answer = cody("explain", "--model", f"{models}_unfit:toy", "--event", 3)
    assert f"{models}_unfit cannot be imported: No module named 'not_installed_anywhere'" in str(answer.exception)
