"""`cody explain --events` as a user meets it: lines, tables, workers, and a file that is resumed."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cody import Explanation, cli
from cody.data import open_graph, save_graph
from cody.errors import CallError, DataError, ModelError
from cody.study.explanations import COLUMNS, in_order, read_explanations
from cody.train.checkpoint import Checkpoint, save_model
from interruptible import interruptible
from random_events import random_graph, random_network

ROWS = [250, 120, 251, 180]


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explanations")
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return ["--data", str(folder / "events"), "--model", str(folder / "model"), "--candidates", "12"]


def explain(where, *words, rows=ROWS):
    asked = ["explain", *where, "--events", ",".join(map(str, rows)), *map(str, words)]
    result = CliRunner().invoke(cli.app, asked)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def answers(explanations):
    return [(why.event, why.rows, why.verdict) for why in explanations]


def events_of(lines):
    return [json.loads(line)["event"] for line in lines.splitlines()]


def test_a_file_gets_what_would_have_been_printed(where, tmp_path):
    printed = explain(where).stdout
    written = explain(where, "--out", tmp_path / "why.jsonl")
    assert written.stdout == ""
    assert written.stderr.splitlines() == [f"4 explanations in {tmp_path / 'why.jsonl'}"]
    (tmp_path / "printed.jsonl").write_text(printed)
    assert answers(read_explanations(tmp_path / "why.jsonl")) == answers(read_explanations(tmp_path / "printed.jsonl"))
    assert events_of(printed) == ROWS


def test_a_run_is_resumed_and_extended_and_loses_only_the_line_that_was_being_written(where, tmp_path):
    file = tmp_path / "why.jsonl"
    explain(where, "--out", file, rows=ROWS[:3])
    first, second, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second + third[: len(third) // 2])
    resumed = explain(where, "--out", file)
    assert "2 of 4 explanations already done" in resumed.stderr
    assert file.read_bytes().startswith(first + second)
    assert [why.event for why in read_explanations(file)] == ROWS
    explain(where, "--out", file)
    assert len(file.read_bytes().splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--count", 5], "there count is not given, here it is 5"),
        (["--seed", 1], "there seed is 0, here it is 1"),
        (["--explainer", "greedy"], "there search is scout, here it is greedy"),
        (["--protect", "events=3"], r"there events of protect is not given, here it is \[3\]"),
        (["--seconds", 9], "there seconds is not given, here it is 9.0"),
        (["--allow", "add"], r"there edits is \['removals'\], here it is \['additions'\]"),
    ],
)
def test_a_file_of_another_run_is_refused_and_kept(where, tmp_path, words, says):
    file = tmp_path / "why.jsonl"
    explain(where, "--out", file, rows=ROWS[:1])
    before = file.read_bytes()
    with pytest.raises(DataError, match=f"line 1 belongs to another run: {says}"):
        explain(where, "--out", file, *words)
    assert file.read_bytes() == before


def test_a_file_of_other_data_or_of_something_else_is_refused(where, tmp_path):
    file = tmp_path / "why.jsonl"
    explain(where, "--out", file, rows=ROWS[:1])
    with pytest.raises(DataError, match="there the model is"):
        explain([], "--out", file, rows=[53854])
    file.write_text("years of work")
    with pytest.raises(DataError, match=r"never writes: .*years of work"):
        explain(where, "--out", file)
    assert file.read_text() == "years of work"


def test_the_number_of_workers_changes_nothing_and_lines_are_in_order(where, tmp_path):
    alone, together = explain(where).stdout, explain(where, "--workers", 2).stdout
    assert events_of(together) == ROWS
    for name, lines in (("alone", alone), ("together", together)):
        (tmp_path / name).write_text(lines)
    assert answers(read_explanations(tmp_path / "alone")) == answers(read_explanations(tmp_path / "together"))


def test_a_table_has_a_row_for_each_link_also_of_those_done_before(where, tmp_path):
    explain(where, "--out", tmp_path / "why.jsonl", rows=ROWS[2:])
    table = list(csv.DictReader(explain(where, "--csv", "--out", tmp_path / "why.jsonl").stdout.splitlines()))
    assert [int(row["event"]) for row in table] == ROWS
    assert tuple(table[0]) == COLUMNS
    for row, why in zip(table, map(json.loads, explain(where).stdout.splitlines()), strict=True):
        assert row["verdict"] == why["verdict"]
        assert float(row["logit"]) == pytest.approx(why["logits"][0], abs=1e-5)
        named = [int(part) for part in row["what"].split("; ")] if row["what"] else []
        assert named == (why["rows"] if why["is_counterfactual"] else [])
    printed = list(csv.DictReader(explain(where, "--csv").stdout.splitlines()))
    assert [row["what"] for row in printed] == [row["what"] for row in table]


def test_a_single_explanation_can_be_a_row_too(where):
    shown = CliRunner().invoke(cli.app, ["explain", *where, "--event", "250", "--csv"]).stdout
    assert [row["event"] for row in csv.DictReader(shown.splitlines())] == ["250"]


def test_edits_that_are_not_removals_are_in_words(where):
    table = csv.DictReader(explain(where, "--csv", "--allow", "add,move", rows=range(200, 216)).stdout.splitlines())
    said = [row["what"] for row in table if row["verdict"] == "counterfactual"]
    assert said
    assert all("added" in what or "moved to" in what for what in said)


def test_a_row_that_is_named_twice_is_explained_once_and_that_is_said(where):
    result = explain(where, rows=[250, 120, 250])
    assert events_of(result.stdout) == [250, 120]
    assert "3 rows named, 2 of them different: each is used once" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--event", "250", "--out", "why.jsonl"], "--out is for several links"),
        (["--event", "250", "--workers", "2"], "--workers is for several links"),
        (["--event", "250", "--csv", "--json"], "--csv or --json, not both"),
    ],
)
def test_options_that_make_no_sense_are_refused(where, words, says):
    result = CliRunner().invoke(cli.app, ["explain", *where, *words])
    assert isinstance(result.exception, CallError)
    assert says in str(result.exception)


def test_in_order_holds_back_only_what_comes_too_early():
    class Why:
        def __init__(self, query):
            self.query = query

    came = [2, 0, 1, 3]
    taken = []

    def arriving():
        for query in came:
            taken.append(query)
            yield Why(query)

    shown = in_order(range(4), arriving())
    assert next(shown).query == 0
    assert taken == [2, 0]
    assert [why.query for why in shown] == [1, 2, 3]


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_run_that_is_stopped_goes_on_where_it_was(where, tmp_path, how, code):
    file = tmp_path / "why.jsonl"
    rows, quickly = range(100, 180), ["--count", "1", "--evaluations", "20", "--out", str(file)]
    named = ",".join(map(str, rows))
    command = [sys.executable, "-m", "cody", "explain", *where, "--events", named, *quickly]
    with subprocess.Popen(interruptible(command), stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 240
        while (not file.exists() or file.read_bytes().count(b"\n") < 3) and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(process.pid, how)
        message = process.communicate(timeout=240)[1]
    assert process.returncode == code
    assert "Traceback" not in message
    if how == signal.SIGINT:
        assert f"what is done is in {file}; rerun to resume" in message
    done = file.read_bytes().rpartition(b"\n")[0].splitlines()
    assert 3 <= len(done) < len(rows)
    explain(where, *quickly, rows=rows)
    assert [why.event for why in read_explanations(file)] == list(rows)
    assert file.read_bytes().splitlines()[: len(done)] == done


FAILING = """
import numpy as np
from cody import TemporalGraph
from cody.models.toy import ToyModel

GRAPH = TemporalGraph.from_arrays([0, 0, 2, 0, 1, 0] * 5, [1, 2, 1, 1, 2, 1] * 5, range(30))

class Failing(ToyModel):
    identity = "Failing"

    def logits(self, query, changes):
        if query.before in FAILS:
            raise RuntimeError("a headache")
        return super().logits(query, changes)

def make():
    return Failing(GRAPH, weights=[(-1) ** row for row in range(30)]), GRAPH
"""


@pytest.mark.parametrize("words", [[], ["--workers", "2"], ["--out", "why.jsonl"], ["--csv", "--out", "why.jsonl"]])
def test_a_link_that_fails_does_not_keep_the_others_from_being_explained(words, tmp_path, monkeypatch):
    name = f"failing_{len(words)}{words[-1][-3:] if words else ''}".replace(".", "")
    (tmp_path / f"{name}.py").write_text(FAILING.replace("FAILS", "(11,)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(cli.app, ["explain", "--model", f"{name}:make", "--events", "10,11,12", *words])
    assert isinstance(result.exception, ModelError)
    assert str(result.exception) == "1 of 3 predictions could not be explained; see above"
    assert "before row 11, is not explained: RuntimeError: a headache" in result.stderr
    if "--csv" in words:
        assert [row["event"] for row in csv.DictReader(result.stdout.splitlines())] == ["10", "12"]
    elif "--out" in words:
        assert "2 explanations in why.jsonl" in result.stderr
    else:
        assert events_of(result.stdout) == [10, 12]


def test_a_model_that_fails_on_every_link_ends_the_run(tmp_path, monkeypatch):
    (tmp_path / "always_failing.py").write_text(FAILING.replace("FAILS", "range(30)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    rows = ",".join(map(str, range(10, 25)))
    result = CliRunner().invoke(cli.app, ["explain", "--model", "always_failing:make", "--events", rows])
    assert str(result.exception) == (
        "the first 5 predictions could not be explained, the last one: RuntimeError: a headache"
    )
    assert result.stdout == ""


@pytest.fixture(scope="module")
def other(where):
    """Another model of the same log."""
    folder = Path(where[1]).parent
    graph = open_graph(folder / "events")
    save_model(folder / "other", Checkpoint(random_network(graph, "tgn", seed=5), graph.identity))
    return str(folder / "other")


def test_many_links_say_what_survives_also_with_several_workers_and_when_resumed(where, other, tmp_path):
    alone = explain(where, "--also", other, "--noise")
    found = [Explanation.from_json(line) for line in alone.stdout.splitlines()]
    names = [other, next(why for why in found if why.elsewhere).elsewhere[1].name]
    assert any(why.is_counterfactual for why in found)
    for why in found:
        assert [each.name for each in why.elsewhere[:2]] == (names if why.is_counterfactual else [])
    file = tmp_path / "why.jsonl"
    explain(where, "--also", other, "--noise", "--out", file, rows=ROWS[:2])
    explain(where, "--also", other, "--noise", "--out", file, "--workers", 2)
    shared = {why.event: why.elsewhere for why in read_explanations(file)}
    assert shared == {why.event: why.elsewhere for why in found}
    with pytest.raises(DataError, match=r"there also is .*, here it is not given"):
        explain(where, "--out", file)
