"""A link that cannot be explained is recorded with its reason, and the run goes on; also when it is continued."""

import json
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.data import save_graph
from cody.errors import CallError, DataError, FailedLinksWarning, ModelError
from cody.models import ToyModel
from cody.paper.tables import tables
from cody.paper.typeset import as_text
from cody.study import metrics, run, survey
from cody.study.explainers import explainer
from cody.study.pool import evaluate_in_processes
from cody.study.record import Record, in_words
from cody.study.record_file import read_failures, read_line, read_records
from cody.utils.files import with_checksum
from cody.utils.forms import as_line
from random_events import random_graph

GRAPH = random_graph(np.random.default_rng(0), events=60)
FAILING = 50
SAMPLE = run.Sample(20, ("correct",), (0.5, 1.0))


class Breaking(ToyModel):
    """A model that breaks at one link once something is removed."""

    broken = frozenset({FAILING})

    def logits(self, query, changes):
        if query.before in self.broken and any(changes):
            raise RuntimeError("a kernel has failed\nwith details")
        return super().logits(query, changes)


def broken_model():
    model = Breaking(GRAPH, weights=np.linspace(0.1, 1.0, GRAPH.num_events), bias=0.5)
    model.graph = GRAPH
    return model


def opened():
    return broken_model(), GRAPH


def plan():
    return run.EvaluationPlan("mine", "breaking", (explainer("greedy-temporal"), explainer("scout", size=8)))


def evaluated(path, evaluate=run.evaluate, **options):
    return list(run.run(path, broken_model(), GRAPH, plan(), SAMPLE, evaluate=evaluate, **options))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_goes_on_after_a_link_that_fails(tmp_path, workers):
    file = tmp_path / "run.jsonl"
    way = run.evaluate if workers == 1 else partial(evaluate_in_processes, opened, workers)
    steps = evaluated(file, way)
    assert steps[-1].finished == steps[-1].total == len(read_records(file)) + 2
    failures = read_failures(file)
    assert {failure.explainer for failure in failures} == {"greedy-temporal", "scout-spatio-temporal"}
    assert {(failure.event, failure.reason) for failure in failures} == {(50, "RuntimeError: a kernel has failed")}
    again = evaluated(file)  # it is not tried again by the same version, and nothing dies
    assert [step.record for step in again] == [None]
    assert again[0].finished == again[0].total


def test_another_version_tries_again(tmp_path, monkeypatch):
    file = tmp_path / "run.jsonl"
    evaluated(file)
    monkeypatch.setattr(run, "__version__", "99.0")
    monkeypatch.setattr(Breaking, "broken", frozenset())
    assert len(evaluated(file)) == 3
    assert read_failures(file) == []
    assert len(read_records(file)) == 2 * len(evaluated(file)[0].links)


def test_a_model_that_never_works_ends_the_run_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(Breaking, "broken", frozenset(range(100)))
    with pytest.raises(
        ModelError, match="the first 5 predictions could not be explained, the last one: RuntimeError: a ker"
    ):
        evaluated(tmp_path / "run.jsonl")


def test_errors_of_the_call_are_errors():
    bad = run.EvaluationPlan("mine", "breaking", (explainer("scout", size=8, near=lambda *_: 1 / 0),))
    (entry,) = run.evaluate(broken_model(), GRAPH, [run.Link(55, "correct")], bad)
    assert entry.reason == "ZeroDivisionError: division by zero"
    unknown = run.Link(GRAPH.num_events + 5, "correct")
    with pytest.raises(CallError, match="out of range"):
        list(run.evaluate(broken_model(), GRAPH, [unknown], plan()))


def test_tables_and_summaries_count_and_mention_failures(tmp_path):
    file = tmp_path / "run.jsonl"
    evaluated(file)
    records, failures = read_records(file), read_failures(file)
    summaries = metrics.summaries(records, failures)
    assert [summary.failed for summary in summaries.values()] == [1, 1]
    assert sum(summary.failed for summary in metrics.summaries(records).values()) == 0
    text = " ".join(as_text(tables(records, failures=failures)).split())
    failed = "scout-spatio-temporal failed on 1 prediction, which no figure includes"
    sentence = f"{failed}: event 50: RuntimeError: a kernel has failed"
    assert sentence in text
    assert sentence in list(in_words(failures))


def test_a_failure_is_read_as_it_was_written(tmp_path):
    file = tmp_path / "run.jsonl"
    evaluated(file)
    failure = read_failures(file)[0]
    line = as_line(failure)
    assert read_line(line.encode()) == failure
    for wrong in (line.replace("kernel", "colonel"), line.replace('"event":50', '"event":"50"'), line[:-20] + "}"):
        with pytest.raises(DataError):
            read_line(wrong.encode())
    other = {name: value for name, value in json.loads(line).items() if name != "checksum"}
    with pytest.raises(DataError, match="this failure is damaged: kind: "):
        read_line(json.dumps(other | {"kind": "other"}).encode())
    assert read_line(json.dumps(with_checksum(other | {"schema": "cody/failure/1"})).encode()) == failure
    with pytest.raises(DataError, match="this failure is damaged: checksum mismatch"):
        read_line(json.dumps(with_checksum(other | {"schema": "cody/failure/1"}) | {"event": 51}).encode())
    with pytest.raises(DataError):
        Record.from_json(line)


MODULE = """
from study.test_failures import broken_model


def made(graph):
    return broken_model()
"""


def test_the_commands_say_what_failed(tmp_path, monkeypatch):
    save_graph(GRAPH, tmp_path / "events")
    (tmp_path / "breaking.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    common = ["--data", "events", "--model", "breaking:made", "--kinds", "correct", "--period", "0.5..1"]
    evaluated = CliRunner().invoke(
        app, ["evaluate", *common, "--explainers", "scout", "--instances", "20", "--out", "run.jsonl", "--json"]
    )
    assert evaluated.exit_code == 0, evaluated.output
    assert json.loads(evaluated.stdout)[0]["failed"] == 1
    failed = "scout-spatio-temporal failed on 1 prediction, which no figure includes"
    sentence = f"{failed}: event 50: RuntimeError: a kernel has failed"
    assert sentence in evaluated.stderr
    assert sentence in " ".join(CliRunner().invoke(app, ["tables", "run.jsonl"]).stdout.split())
    for _ in range(2):  # and it goes on
        surveyed = CliRunner().invoke(app, ["survey", *common, "--instances", "20", "--out", "survey.jsonl"])
        assert surveyed.exit_code == 0, surveyed.output
        assert sentence in surveyed.stderr
    alone = CliRunner().invoke(app, ["survey", "--data", "events", "--model", "breaking:made", "--events", "50"])
    assert "no prediction could be explained" in str(alone.exception)


def test_a_survey_in_python_warns_of_what_failed():
    with pytest.warns(FailedLinksWarning, match="scout-spatio-temporal failed on 1 prediction") as warned:
        (part,) = survey(broken_model(), GRAPH, [48, FAILING, 52], kinds=("correct",)).parts
    assert part.links == 2
    assert warned[0].filename == __file__  # it points to the call
    with pytest.raises(ModelError, match="no prediction could be explained, the first one: RuntimeError"):
        survey(broken_model(), GRAPH, [FAILING])
