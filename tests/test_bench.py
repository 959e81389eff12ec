"""The measurements run; what they say is for the machine they run on."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.models.folder import shipped_models

SHIPPED = shipped_models()["tgn-collegemsg"].parent
CAMPUS = "--students 30 --epochs 1 --scorer-links 5 --links 1 --out out.json"
ROOT = Path(__file__).parent.parent


def test_cody_bench_measures_both_models_and_they_agree_with_replay():
    words = ["bench", "--preset", "compact", "--queries", "2", "--sizes", "1000,2000", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.exception
    document = json.loads(result.stdout)
    assert {"cpu", "cores", "torch"} <= document["machine"].keys()
    engines = [cost for cost in document["results"] if "fast_ms" in cost]
    whole = [cost for cost in document["results"] if "one_by_one_s" in cost]
    growth = [cost for cost in document["results"] if "events" in cost]
    assert [cost["model"] for cost in engines] == [cost["model"] for cost in whole] == ["tgn", "tgat"]
    assert [cost["events"] for cost in growth] == [1000, 2000, 1000, 2000]
    assert all(cost["largest_difference"] < 1e-4 for cost in [*engines, *growth])
    assert all(cost["ratio"] > 1 for cost in [*engines, *whole])
    assert all(cost["share_unused"] < 0.3 and cost["batches"] < 40 for cost in whole)


def test_cody_bench_prints_a_table():
    result = CliRunner().invoke(app, ["bench", "--preset", "compact", "--queries", "1", "--sizes", ""])
    assert "ratio" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("bench/training.py", ["--preset", "compact", "--batches", "1"]),
        ("bench/graph_scale.py", ["--events", "20000", "--queries", "3"]),
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
    runpy.run_path(str(ROOT / script), run_name="__main__")
    assert capsys.readouterr().out.strip()
