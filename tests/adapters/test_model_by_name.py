"""Models that a user's function makes, named on the command line as module:function."""

import json
import sys

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
