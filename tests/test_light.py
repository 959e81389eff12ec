"""What a command imports: torch, pandas and matplotlib only where they are needed, because they take seconds."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "pandas", "matplotlib", "networkx")
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


@pytest.mark.parametrize(
    "words",
    [
        ("demo",),
        ("explain", "--event", 53854),
        ("explain", "--event", 53854, "--explainer", "pbone", "--json"),
        ("what-if", "--event", 53854, "--without", 53852),
        ("what-if", "--event", 53852, "--add", "1395 1772 2004-07-28 03:54"),
        ("data", "show", "collegemsg"),
        ("data", "list"),
        ("--help",),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_answers_need_neither_torch_nor_pandas(words):
    assert imported_by(*words) == []


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
    assert imported_by(*run) == []
    assert imported_by("tables", tmp_path / "run.jsonl") == []


def test_a_trained_explainer_needs_torch():
    assert imported_by("explain", "--event", 53854, "--explainer", "pgexplainer", "--json") == ["torch"]


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
        assert "this needs torch, which is not installed: pip install 'cody-explain[train]'" in ended.stderr
        assert "Traceback" not in ended.stderr
