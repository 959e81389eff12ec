"""Records of earlier versions: they are read, continued, and give the same tables."""

import gzip
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cody import search
from cody.errors import DataError
from cody.models import ToyModel
from cody.paper.tables import tables
from cody.paper.typeset import as_csv, as_latex, as_markdown, as_text
from cody.search import policies
from cody.study.record import Record
from cody.study.record_file import read_records
from cody.study.run import EvaluationPlan, Explainer, Sample, run
from cody.utils.files import with_checksum
from random_events import random_graph
from some_records import record
from texts import assert_same

RESULTS = Path(__file__).parents[2] / "results" / "reproduction"
FORMER_NAMES = {"spatio-temporal": "spatio_temporal", "top-share": "top_share", "greedy-then-cody": "greedy_then_cody"}


def former_parameters(given):
    """Search, policy and options as schema 1 kept them."""
    named = {part: {"name": FORMER_NAMES.get(given[part], given[part])} for part in ("policy", "search")}
    options = given["options"]
    return {part: named[part] | options.get(part, {}) for part in named} | {
        name: value for name, value in options.items() if name not in named
    }


def former(line):
    """A line of today as version 0.1 would have written it."""
    document = json.loads(line)
    del document["checksum"]
    if document["schema"] == "cody/record/2":
        document["parameters"] = former_parameters(document)
        document["removed"] = document.pop("rows")
        for name in ("search", "policy", "options"):
            del document[name]
    else:
        document["explainers"] = {name: former_parameters(given) for name, given in document["explainers"].items()}
    document["schema"] = document["schema"].replace("/2", "/1")
    return json.dumps(document)


@pytest.mark.parametrize("file", ["sensitivity-alpha-0.5", "test-tgn-uci-messages"])
def test_former_records_and_the_same_ones_of_today_give_the_same_tables(file, tmp_path):
    found = read_records(RESULTS / f"{file}.jsonl.gz")
    (tmp_path / "today.jsonl").write_text("".join(one.to_json() + "\n" for one in found))
    today = read_records(tmp_path / "today.jsonl")
    assert today == found
    before, now = tables(found, paper=True), tables(today, paper=True)
    for write in (as_text, as_markdown, as_latex, as_csv):
        assert write(before) == write(now)


def test_former_records_give_the_tables_that_were_made_when_they_were_written():
    header, *was = (RESULTS / "tables-test.csv").read_text(encoding="utf-8").splitlines()
    made = tables(read_records(RESULTS / "test-tgn-uci-messages.jsonl.gz"))
    was = [header, *(line for line in was if line.startswith("tgn,uci-messages,"))]
    assert_same(as_csv(made), "\n".join([*was, ""]))
    names = re.findall(r"^(\S.*?) & .*\\\\$", (RESULTS / "tables-test.tex").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"^(\S.*?) & .*\\\\$", as_latex(made), re.MULTILINE)) == set(names)


def test_every_explainer_of_the_former_records_is_known():
    found = {}
    for file in ("test-tgn-uci-messages", "iterations-1200"):
        for line in gzip.decompress((RESULTS / f"{file}.jsonl.gz").read_bytes()).decode().splitlines():
            if '"cody/record/1"' in line:
                one = Record.from_json(line)
                found[one.explainer] = (one.search, one.policy, one.rows == tuple(json.loads(line)["removed"]))
    assert found["greedy-then-cody-event-impact"] == ("greedy-then-cody", "event-impact", True)
    assert found["cody-spatio-temporal"] == ("cody", "spatio-temporal", True)
    assert found["tgnnexplainer"] == ("tgnnexplainer", "pgexplainer", True)
    assert found["pbone"] == ("top-share", "event-impact", True)
    assert len(found) == 14


def test_a_record_survives_being_written_as_before():
    one = record(options={"policy": {}, "search": {"alpha": 0.5}, "candidates": {"size": 9}, "evaluations": None})
    assert Record.from_json(former(one.to_json())) == one


@pytest.mark.parametrize(
    ("explainer", "expected"),
    [("cody-temporal", ("cody", "temporal")), ("pgexplainer", ("top-share", "pgexplainer")), ("zebra", ("zebra",))],
)
def test_a_former_record_without_the_names_of_functions_is_known_by_its_explainer(explainer, expected):
    document = json.loads(former(record(explainer=explainer).to_json())) | {"parameters": {}}
    one = Record.from_json(json.dumps(document))
    assert (one.search, one.policy)[: len(expected)] == expected
    assert one.options == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"removed": 5}, "removed must be a list of rows, not 5"),
        ({"removed": [1, 100]}, "event 100 is not before event 100"),
        ({"parameters": None}, "parameters must be an object"),
        ({"rows": [1]}, "there is no field 'rows'"),
        ({"search": "cody"}, "there is no field 'search'"),
        ({"checksum": "0"}, "its checksum differs"),
    ],
)
def test_a_damaged_record_of_an_earlier_version_is_refused_in_its_own_words(values, message):
    with pytest.raises(DataError, match=message):
        Record.from_json(json.dumps(json.loads(former(record().to_json())) | values))


def test_the_checksum_of_a_former_record_is_that_of_what_was_written():
    line = json.dumps(with_checksum(json.loads(former(record().to_json()))))
    assert Record.from_json(line).rows == record().rows
    with pytest.raises(DataError, match="its checksum differs"):
        Record.from_json(line.replace('"original": 1.0', '"original": 1.5'))


def test_a_run_of_an_earlier_version_can_be_continued(tmp_path):
    rng = np.random.default_rng(5)
    graph = random_graph(rng, nodes=14, events=200)
    model = ToyModel(graph, rng.normal(size=200))
    one = Explainer("cody-spatio-temporal", policies.spatio_temporal, partial(search.cody, iterations=20), size=9)
    plan, sample, path = EvaluationPlan("made", "toy", (one,)), Sample(3, period=(0.3, 1.0)), tmp_path / "run.jsonl"
    whole = [step.record for step in run(path, model, graph, plan, sample)][1:]
    lines = path.read_text().splitlines()
    path.write_text("".join(former(line) + "\n" for line in lines[:4]))
    assert [step.finished for step in run(path, model, graph, plan, sample)] == [3, 4, 5, 6]
    assert [replace(record, seconds=None) for record in read_records(path)] == [
        replace(record, seconds=None) for record in whole
    ]
    other = replace(plan, explainers=(replace(one, size=8),))
    with pytest.raises(DataError, match=r"candidates\.size of cody-spatio-temporal is 9, here it is 8"):
        next(run(path, model, graph, other, sample))
    swapped = replace(plan, explainers=(replace(one, policy=policies.temporal),))
    with pytest.raises(DataError, match="policy of cody-spatio-temporal is spatio-temporal, here it is temporal"):
        next(run(path, model, graph, swapped, sample))
