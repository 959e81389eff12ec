"""What a command imports: only what it needs, because importing the rest takes longer than most answers."""

import json
import os
import subprocess
import sys

import click
import pytest

from cody.cli import app
from cody.data import load
from cody.engine import load_model

HEAVY = (
    *("torch", "pandas", "matplotlib", "networkx", "pyarrow", "scipy", "pydantic", "http.client", "rich", "numpy"),
    *("numpy.ma", "filelock", "importlib.metadata", "msgspec"),  # numpy.unique imports numpy.ma
)
NEEDED_FOR_TABLES = ["numpy"]
PROGRAM = f"""
import json, sys
from cody.cli import main
sys.argv = ["cody", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(json.dumps(sorted({set(HEAVY)!r} & sys.modules.keys())), file=sys.stderr)
"""


def imported_by(*words):
    """Which heavy packages a command has imported when it ends."""
    command = [sys.executable, "-c", PROGRAM, json.dumps([str(word) for word in words])]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ended.stderr.splitlines()[-1])


@pytest.fixture(scope="module", autouse=True)
def _table_of_memory_states():
    """The first answer on a machine builds the table, under a lock; the ones after it read it."""
    load_model("tgn-collegemsg", load("collegemsg")).state(0)


@pytest.mark.parametrize(
    "words",
    [
        ("demo",),
        ("explain", "--event", 53854),
        ("explain", "--event", 53852, "--why-not"),
        ("what-if", "--event", 53854, "--without", 53852),
        ("what-if", "--event", 53852, "--add", "1395 1772 2004-07-28 03:54"),
        ("data", "show", "collegemsg"),
        ("data", "list"),
        ("predict", "--events", "53854,53855"),
        ("predict", "--node", 1118, "--next", 3),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_answers_in_tables_need_numpy_alone(words):
    assert imported_by(*words) == NEEDED_FOR_TABLES


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--event", 53854, "--json"),
        ("explain", "--event", 53854, "--explainer", "pbone", "--json"),
        ("explain", "--events", "53854,53852"),
        ("what-if", "--event", 53854, "--without", 53852, "--json"),
        ("data", "show", "collegemsg", "--json"),
        ("explain", "--help"),
        ("predict", "--events", "53854,53855", "--json"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_json_needs_numpy_and_for_documents_msgspec(words):
    assert {"numpy"} <= {*imported_by(*words)} <= {"numpy", "msgspec"}


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_saying_what_there_is_needs_nothing(word):
    assert imported_by(word) == []


def test_the_help_of_all_commands_says_of_each_what_its_own_help_begins_with():
    for name, summary in app.summaries.items():
        help_ = app.get_command(click.Context(app), name).help
        assert help_.startswith(summary.rstrip(".")), name


def test_loading_what_comes_with_the_installation_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load("collegemsg").num_events == 59_835
    assert list(tmp_path.iterdir()) == []


def test_evaluations_with_searches_and_their_tables_need_no_torch(tmp_path):
    run = (
        "evaluate",
        "--explainers",
        "greedy-spatio-temporal,pbone",
        "--instances",
        1,
        "--out",
        tmp_path / "run.jsonl",
    )
    assert imported_by(*run) == ["filelock", "msgspec", "numpy", "numpy.ma"]
    assert imported_by("tables", tmp_path / "run.jsonl") == ["msgspec", "numpy"]


def test_a_trained_explainer_needs_torch():
    imported = imported_by("explain", "--event", 53854, "--explainer", "pgexplainer", "--json")
    assert {"torch", "pandas", "matplotlib", "networkx", "rich"} & {*imported} == {"torch"}


def test_training_without_torch_says_how_to_get_it(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    for words in (
        ["train", "--data", "collegemsg", "--model", "tgn", "--out", tmp_path / "model"],
        ["explain", "--event", 5, "--explainer", "pgexplainer"],
    ):
        command = [sys.executable, "-m", "cody", *map(str, words)]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert ended.returncode == 1
        assert " needs torch, which is not installed: pip install " in ended.stderr
        assert "[train]" in ended.stderr
        assert "Traceback" not in ended.stderr
