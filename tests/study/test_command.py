"""`cody evaluate` as a user meets it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
from click.testing import CliRunner

from cody import cli
from cody.cli.evaluate import print_evaluation
from cody.data import save_graph
from cody.errors import CallError, CodyError
from cody.study import metrics
from cody.study.explainers import EXPLAINERS
from cody.study.instances import kind_in_words
from cody.study.record_file import read_records
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network
from some_records import record


@pytest.fixture
def where(tmp_path):
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    save_graph(graph, tmp_path / "events")
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return ["--data", tmp_path / "events", "--model", tmp_path / "model", "--out", tmp_path / "run.jsonl"]


def command(*words):
    return CliRunner().invoke(cli.app, ["evaluate", *map(str, words)])


def test_the_summary_has_a_row_for_each_explainer_and_kind(where):
    words = [*where, "--instances", 2, "--explainers", "greedy-temporal,cody-event-impact", "--iterations", 20]
    result = command(*words, "--period", "0.2..1")
    assert result.exit_code == 0, result.exception or result.output
    table, meanings = result.stdout.rstrip().rsplit("\n\n", 1)
    assert "AUFSC+" in meanings
    assert [line.split()[:2] for line in table.splitlines()] == [
        ["2", "correct"],
        ["explainer", "fid+"],
        ["greedy-temporal", ANY],
        ["cody-event-impact", ANY],
        [],
        ["2", "incorrect"],
        ["explainer", "fid+"],
        ["greedy-temporal", ANY],
        ["cody-event-impact", ANY],
    ]
    again = command(*words, "--period", "0.2..1", "--json")
    assert "8 of 8 records already done" in again.stderr
    assert [row["links"] for row in json.loads(again.stdout)] == [2, 2, 2, 2]


def test_the_summary_is_about_what_was_asked_not_about_the_whole_file(where):
    words = [*where, "--period", "0.2..1", "--json"]
    both = command(*words, "--instances", 3, "--explainers", "greedy-temporal,greedy-random")
    assert [row["links"] for row in json.loads(both.stdout)] == [3, 3, 3, 3]
    one = command(*words, "--instances", 2, "--explainers", "greedy-random", "--kinds", "correct")
    assert [(row["explainer"], row["kind"], row["links"]) for row in json.loads(one.stdout)] == [
        ("greedy-random", "correct", 2)
    ]


def test_the_longest_name_fits_eighty_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "greedy-then-cody-spatio-temporal"
    one = record(explainer=name, rows=range(10), necessary=True, evaluations=5688, seconds=12.345)
    print_evaluation(metrics.summaries([one]), {"correct": kind_in_words("correct")})
    assert f"{name}  1.000  1.000     1.000   0.000  5,688   12.345" in capsys.readouterr().out


def test_all_explainers_and_the_papers_settings(where, tmp_path):
    every = [*where, "--instances", 1, "--explainers", "all", "--paper", "--iterations", 10, "--candidates", 8]
    untrained = command(*every)
    assert "cody train-explainer --data D --model M --out FOLDER trains one, and --scorer FOLDER uses it" in str(
        untrained.exception
    )
    assert not (tmp_path / "run.jsonl").exists()  # refused before anything was run
    train = ["train-explainer", *where[:4], "--out", tmp_path / "scorer", "--links", 20, "--epochs", 1]
    for name in ("pgexplainer", "tempme"):
        assert CliRunner().invoke(cli.app, [str(word) for word in (*train, "--explainer", name)]).exit_code == 0
    result = command(*every, "--scorer", tmp_path / "scorer")
    assert result.exit_code == 0, result.exception or result.output
    found = read_records(tmp_path / "run.jsonl")
    assert {record.explainer for record in found} == set(EXPLAINERS)
    assert all(60 <= record.event < 180 and abs(record.original) >= 0.2 for record in found)
    given = {json.dumps(record.options["candidates"]) for record in found}
    assert given == {'{"size": 8, "hops": 2, "near": "events_among_nodes"}'}


def test_a_scorer_that_was_trained_again_is_another_one_whatever_its_name(where, tmp_path):
    def train(seed):
        words = ["train-explainer", *where[:4], "--out", tmp_path / "scorer", "--links", 20, "--epochs", 1]
        assert CliRunner().invoke(cli.app, [str(word) for word in (*words, "--seed", seed)]).exit_code == 0

    ask = [*where, "--explainers", "pgexplainer", "--period", "0.2..1", "--scorer"]
    train(0)
    assert command(*ask, tmp_path / "scorer", "--instances", 1).exit_code == 0
    again = command(*ask, f"{tmp_path}/../{tmp_path.name}/scorer", "--instances", 2)
    assert again.exit_code == 0, again.exception
    assert len(read_records(tmp_path / "run.jsonl")) == 4
    shutil.rmtree(tmp_path / "scorer")
    train(7)
    other = command(*ask, tmp_path / "scorer", "--instances", 3)
    assert "there policy.identity of pgexplainer is" in str(other.exception)


def test_the_same_model_under_another_name_is_summed_up_with_it(where, tmp_path):
    words = ["--instances", 1, "--kinds", "correct", "--explainers", "greedy-temporal", "--period", "0.2..1", "--json"]
    assert command(*where, *words).exit_code == 0
    renamed = [f"{tmp_path}/../{tmp_path.name}/{Path(str(word)).name}" if word == where[3] else word for word in where]
    assert renamed != where
    (row,) = json.loads(command(*renamed, *words[2:], "--instances", 2).stdout)
    assert row["links"] == 2


def test_numbers_are_whole_on_a_narrow_terminal(where):
    words = ["evaluate", *where, "--instances", 2, "--explainers", "greedy-temporal", "--period", "0.2..1"]
    environment = os.environ | {"COLUMNS": "30"}
    call = [sys.executable, "-m", "cody", *map(str, words)]
    shown = subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout
    (row, *_) = re.findall(r"greedy-temporal +(.+)", shown)
    assert re.fullmatch(r"(\d\.\d{3} +){4}\d+\.\d +\d+\.\d{3}", row.strip())


def test_fewer_links_than_asked_for_are_remarked_upon(where):
    result = command(*where, "--instances", 1000, "--kinds", "correct", "--explainers", "greedy-temporal")
    assert result.exit_code == 0, result.exception or result.output
    assert re.search(r"only \d+ of the 1,000 correct links requested exist", result.stderr)


def test_a_kind_is_explained_once_however_often_it_is_named(where, tmp_path):
    words = ["--instances", 2, "--kinds", "correct,correct", "--explainers", "greedy-temporal", "--period", "0.2..1"]
    result = command(*where, *words)
    assert result.exit_code == 0, result.exception or result.output
    assert len(read_records(tmp_path / "run.jsonl")) == 2


def test_an_evaluation_of_no_links_is_refused_and_leaves_no_file(where, tmp_path):
    result = command(*where, "--margin", 1000)
    assert isinstance(result.exception, CallError)
    assert "there is no correct or incorrect prediction" in str(result.exception)
    assert not (tmp_path / "run.jsonl").exists()


def test_shared_answers_have_no_timings(where):
    result = command(*where, "--instances", 1, "--kinds", "correct", "--share-answers", "--json")
    assert {row["seconds"] for row in json.loads(result.stdout)} == {None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--explainers", "cody-temporl"], "there is no explainer 'cody-temporl'; did you mean 'cody-temporal'?"),
        (["--explainers", ","], "there is no explainer to run"),
        (["--explainers", "cody-random,cody-random"], "two explainers are called 'cody-random'"),
        (["--period", "last"], "--period 'last' is not understood"),
        (["--period", "0.9..0.1"], "two increasing shares"),
        (["--kinds", "correct,wrong"], "'wrong' is not a kind of prediction"),
        (["--kinds", ""], "kinds must be correct or incorrect or both"),
        (["--scorer", "x"], "has no option --scorer"),
        (["--out", ""], "not an ordinary file"),
        (["--margin", "-1"], "margin must be a finite number, at least 0"),
        (["--workers", "2", "--ray", "local"], "give --workers or --ray, not both"),
    ],
)
def test_impossible_evaluations_are_refused(where, words, message, tmp_path):
    result = command(*where, *words)
    assert isinstance(result.exception, CallError), result.exception
    assert message in str(result.exception)
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_noticed_before_links_are_drawn(where, address, monkeypatch, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("cody.study.run.sample_kinds", lambda *words, **options: pytest.fail("links are drawn"))
    result = command(*where, "--ray", address)
    assert isinstance(result.exception, CallError), result.exception
    assert f"there is no Ray cluster at {address!r}" in str(result.exception)
    assert not (tmp_path / "run.jsonl").exists()


def test_a_file_of_another_run_is_refused(where):
    assert command(*where, "--instances", 1, "--kinds", "correct").exit_code == 0
    result = command(*where, "--instances", 1, "--kinds", "correct", "--seed", 1)
    assert isinstance(result.exception, CodyError)
    assert "seed is 0, here it is 1" in str(result.exception)


@pytest.mark.parametrize("option", [["--size", "inf"], ["--entropy", "nan"], ["--size", "1e39"]])
def test_a_training_that_fails_leaves_no_folder(where, tmp_path, option):
    words = ["train-explainer", *where[:4], "--out", tmp_path / "scorer", "--links", 20, "--epochs", 1, *option]
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert result.exit_code != 0
    assert isinstance(result.exception, CodyError | SystemExit)
    assert not (tmp_path / "scorer").exists()


def test_an_explainer_can_be_trained_on_other_data(where, tmp_path):
    save_graph(random_graph(np.random.default_rng(1), nodes=30, events=300), tmp_path / "other")
    words = ["train-explainer", "--data", tmp_path / "other", *where[2:4], "--out", tmp_path / "scorer"]
    words = [str(word) for word in [*words, "--links", 20, "--epochs", 1]]
    assert "--allow-data-mismatch" in str(CliRunner().invoke(cli.app, words).exception)
    assert CliRunner().invoke(cli.app, [*words, "--allow-data-mismatch"]).exit_code == 0
