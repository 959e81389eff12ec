"""`cody evaluate` as a user meets it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from cody import cli
from cody.data import save_graph
from cody.errors import CallError, CodyError
from cody.evaluate.records import read_records
from cody.models.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network


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
    assert [line.split()[:3] for line in result.stdout.splitlines()[1:]] == [
        ["greedy-temporal", "correct", "2"],
        ["cody-event-impact", "correct", "2"],
        ["greedy-temporal", "incorrect", "2"],
        ["cody-event-impact", "incorrect", "2"],
    ]
    again = command(*words, "--period", "0.2..1", "--json")
    assert "8 of 8 records are there already" in again.stderr
    assert [row["links"] for row in json.loads(again.stdout)] == [2, 2, 2, 2]


def test_all_explainers_and_the_papers_settings(where, tmp_path):
    every = [*where, "--instances", 1, "--explainers", "all", "--paper", "--iterations", 10, "--candidates", 8]
    untrained = command(*every)
    assert "cody train-explainer trains one" in str(untrained.exception)
    assert not (tmp_path / "run.jsonl").exists()  # refused before anything was run
    train = ["train-explainer", *where[:4], "--out", tmp_path / "scorer", "--links", 20, "--epochs", 1]
    assert CliRunner().invoke(cli.app, [str(word) for word in train]).exit_code == 0
    result = command(*every, "--scorer", tmp_path / "scorer")
    assert result.exit_code == 0, result.exception or result.output
    found = read_records(tmp_path / "run.jsonl")
    assert len({record.explainer for record in found}) == 12
    assert all(60 <= record.event < 180 and abs(record.original) >= 0.2 for record in found)
    told = {json.dumps(record.parameters["candidates"]) for record in found}
    assert told == {'{"size": 8, "hops": 2, "near": "events_among_nodes"}'}


def test_fewer_links_than_asked_for_are_remarked_upon(where):
    result = command(*where, "--instances", 1000, "--kinds", "correct", "--explainers", "greedy-temporal")
    assert result.exit_code == 0, result.exception or result.output
    assert "such links, not 1,000" in result.stderr


def test_shared_answers_have_no_timings(where):
    result = command(*where, "--instances", 1, "--kinds", "correct", "--share", "--json")
    assert {row["seconds"] for row in json.loads(result.stdout)} == {None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--explainers", "cody-temporl"], "there is no explainer 'cody-temporl'; did you mean 'cody-temporal'?"),
        (["--explainers", ","], "there is no explainer to run"),
        (["--explainers", "cody-random,cody-random"], "two explainers are called 'cody-random'"),
        (["--period", "last"], "--period 'last' is not understood"),
        (["--period", "0.9..0.1"], "two growing shares"),
        (["--kinds", "correct,wrong"], "'wrong' is no kind of prediction"),
        (["--margin", "-1"], "margin at least 0"),
        (["--workers", "2", "--ray", "local"], "give --workers or --ray, not both"),
    ],
)
def test_impossible_evaluations_are_refused(where, words, message, tmp_path):
    result = command(*where, *words)
    assert isinstance(result.exception, CallError), result.exception
    assert message in str(result.exception)
    assert not (tmp_path / "run.jsonl").exists()


def test_a_file_of_another_run_is_refused(where):
    assert command(*where, "--instances", 1, "--kinds", "correct").exit_code == 0
    result = command(*where, "--instances", 1, "--kinds", "correct", "--seed", 1)
    assert isinstance(result.exception, CodyError)
    assert "seed is 0, here it is 1" in str(result.exception)
