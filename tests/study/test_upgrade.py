"""Lines of CoDy 0.2: they are read, continued, and give the same tables; nothing older is read."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cody import search
from cody.errors import CallError, DataError
from cody.models import ToyModel
from cody.paper.tables import tables
from cody.paper.typeset import as_csv, as_latex
from cody.search import policies
from cody.study import cases
from cody.study.record_file import iterate_records, read_line, read_records
from cody.study.run import EvaluationPlan, Explainer, Sample, run
from random_events import random_graph
from some_records import as_0_2_wrote_it, record, timeless
from texts import assert_same

RESULTS = Path(__file__).parents[2] / "results" / "reproduction"


def test_records_of_the_version_before_give_the_tables_that_were_made_when_they_were_written():
    header, *was = (RESULTS / "tables-test.csv").read_text(encoding="utf-8").splitlines()
    made = tables(read_records(RESULTS / "test-tgn-uci-messages.jsonl.gz"))
    was = [header, *(line for line in was if line.startswith("tgn,uci-messages,"))]
    assert_same(as_csv(made), "\n".join([*was, ""]))
    names = re.findall(r"^(\S.*?) & .*\\\\$", (RESULTS / "tables-test.tex").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"^(\S.*?) & .*\\\\$", as_latex(made), re.MULTILINE)) == set(names)


def test_every_explainer_of_the_results_is_known():
    found = {}
    for file in ("test-tgn-uci-messages", "iterations-1200"):
        for one in iterate_records(RESULTS / f"{file}.jsonl.gz"):
            found[one.explainer] = (one.search, one.policy)
    assert found["greedy-then-cody-event-impact"] == ("greedy-then-cody", "event-impact")
    assert found["cody-spatio-temporal"] == ("cody", "spatio-temporal")
    assert found["tgnnexplainer"] == ("tgnnexplainer", "pgexplainer")
    assert found["pbone"] == ("top-share", "event-impact")
    assert len(found) == 17


def test_a_record_survives_being_written_as_before():
    one = record(options={"policy": {}, "search": {"alpha": 0.5}, "candidates": {"size": 9}, "evaluations": None})
    again = read_line(as_0_2_wrote_it(one.to_json()).encode())
    assert again == one
    with pytest.raises(CallError, match=r"CoDy 0\.2 wrote it"):
        _ = again.explanation


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": 5}, "rows: expected `array`, got `int`"),
        ({"rows": [1, 100]}, "event 100 is not before event 100"),
        ({"rows": [1, 1]}, "2 events, 1 different ones, cannot be among 10 candidates"),
        ({"candidates": 1}, "cannot be among 1 candidates"),
        ({"options": None}, "options: expected `object`"),
        ({"first": 281}, "first is 281 of 280 evaluations"),
        ({"seconds": -0.1}, "seconds: expected `float` >= 0"),
        ({"original": "1"}, "original: expected `float`"),
        ({"kind": "right"}, "kind: invalid enum value"),
        ({"removed": [1]}, "unknown field `removed`"),
    ],
)
def test_a_damaged_record_is_refused(values, message):
    document = json.loads(as_0_2_wrote_it(record().to_json()))
    with pytest.raises(DataError, match="this record is damaged: checksum mismatch"):
        read_line(json.dumps(document | values).encode())
    del document["checksum"]
    with pytest.raises(DataError, match=message):
        read_line(json.dumps(document | values).encode())


@pytest.mark.parametrize("schema", ["cody/record/1", "cody/evaluation/1", "cody/record/9"])
def test_other_forms_are_not_read(schema):
    with pytest.raises(DataError, match=schema):
        read_line(json.dumps({"schema": schema}).encode())


@pytest.fixture
def toy():
    rng = np.random.default_rng(5)
    graph = random_graph(rng, nodes=14, events=200)
    return ToyModel(graph, rng.normal(size=200)), graph


ONE = Explainer("cody-spatio-temporal", policies.spatio_temporal, partial(search.cody, iterations=20), size=9)
PLAN, SAMPLE = EvaluationPlan("made", "toy", (ONE,)), Sample(3, period=(0.3, 1.0))


def test_a_run_of_the_version_before_can_be_continued(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    whole = [step.record for step in run(path, *toy, PLAN, SAMPLE)][1:]
    lines = path.read_text().splitlines()
    path.write_text("".join(as_0_2_wrote_it(line) + "\n" for line in lines[:4]))
    assert [step.finished for step in run(path, *toy, PLAN, SAMPLE)] == [3, 4, 5, 6]
    assert timeless(read_records(path)) == timeless(whole)
    other = replace(PLAN, explainers=(replace(ONE, size=8),))
    with pytest.raises(DataError, match=r"candidates\.size of cody-spatio-temporal is 9, here it is 8"):
        next(run(path, *toy, other, SAMPLE))
    swapped = replace(PLAN, explainers=(replace(ONE, policy=policies.temporal),))
    with pytest.raises(DataError, match="policy of cody-spatio-temporal is spatio-temporal, here it is temporal"):
        next(run(path, *toy, swapped, SAMPLE))


def test_a_survey_of_the_version_before_has_the_candidates_that_it_had(tmp_path, toy):
    path, (_, graph) = tmp_path / "run.jsonl", toy
    list(run(path, *toy, PLAN, SAMPLE))
    now = cases(iterate_records(path, documents=True), graph)
    path.write_text("".join(as_0_2_wrote_it(line) + "\n" for line in path.read_text().splitlines()))
    before = cases(iterate_records(path, documents=True), graph)
    for one, other in zip(now, before, strict=True):
        assert one.candidates.tolist() == other.candidates.tolist()
        assert one.decisive.tolist() == other.decisive.tolist()
    with pytest.raises(CallError, match="only its numbers were read"):
        cases(read_records(path), graph)
