"""Causes that many predictions share: greedy, and every number as brute force has it."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.errors import CallError, DataError
from cody.graph.units import day, node, pair
from cody.models import ToyModel
from cody.models.margins import flips
from cody.study.causes import SharedCauses, shared_causes
from commands import data_and_model
from random_events import random_graph

KINDS = {"event": None, "pair": pair, "node": node, "day": day}


@pytest.fixture(scope="module")
def asked():
    events = random_graph(np.random.default_rng(3), nodes=12, events=60)
    graph = cody.TemporalGraph.from_arrays(events.src, events.dst, 1.1e9 + 3600 * events.time)
    model = ToyModel(graph, weights=np.random.default_rng(5).normal(0.3, 1, size=60), bias=-0.3)
    rows = range(44, 60)
    return graph, model, [cody.explain(model, graph, graph.query(row), size=6, evaluations=30) for row in rows]


def flipped(model, whys, gone):
    """By the model itself: how many decisions change without these events."""
    changes = [[frozenset(), frozenset(row for row in gone if row < why.query.before)] for why in whys]
    answers = [model.logits(why.query, both) for why, both in zip(whys, changes, strict=True)]
    return sum(flips(*margins) for margins in answers)


@pytest.mark.parametrize("by", KINDS.values(), ids=KINDS)
def test_each_set_makes_as_many_predictions_fall_as_the_model_says(asked, by):
    graph, model, whys = asked
    found = shared_causes(whys, model, graph, by=by, tried=100)
    gone = frozenset()
    assert found.causes
    for before, cause in zip([0, *(each.flips for each in found.causes)], found.causes, strict=False):
        gone |= frozenset(cause.rows)
        assert cause.flips == flipped(model, whys, gone)
        assert cause.more == cause.flips - before >= 0
    first = found.causes[0]
    if by is None:  # all possible causes were tried: the first is the best there is
        assert first.flips == max(flipped(model, whys, {row}) for row in range(60))
    assert found.predictions == len(whys)
    assert found.explained == sum(why.is_counterfactual for why in whys)
    assert f"Without {first.name}, {first.flips} of 16 predictions flip" in found.sentence


def test_a_planted_cause_of_all_predictions_is_found_first():
    src, dst = [0] * 6 + [7], [1, 2, 3, 4, 5, 6, 7]
    graph = cody.TemporalGraph.from_arrays(src=src, dst=dst, time=np.arange(7.0) + 1)
    model = ToyModel(graph, weights=[3, 0.1, 0.1, 0.1, 0.1, 0.1, 0], half_life=1e9, bias=-1)
    whys = [cody.explain(model, graph, graph.query(row)) for row in range(1, 6)]
    found = shared_causes(reversed(whys), model, graph)
    assert [(cause.name, cause.flips, cause.own) for cause in found.causes] == [("event 0 (0 → 1)", 5, 5)]
    assert found.sentence == "Without event 0 (0 → 1), 5 of 5 predictions flip."
    assert shared_causes(whys, model, graph, by=node).causes[0].name == "node 1"


def test_two_causes_that_work_only_together_are_found_one_after_the_other():
    """Removing one of two twins changes nothing, but comes closer."""
    graph = cody.TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 1, 2], time=[1.0, 2.0, 3.0])
    model = ToyModel(graph, weights=[2, 2, 0], half_life=1e9, bias=-1)
    why = cody.explain(model, graph, graph.query(2))
    assert len(why.rows) == 2
    found = shared_causes([why], model, graph)
    assert found.sentence == "Without 2 events, the 1 prediction flips."
    assert [cause.flips for cause in found.causes] == [0, 1]


def test_a_document_is_read_again_and_shown(asked):
    graph, model, whys = asked
    found = shared_causes(whys, model, graph, by=node, most=2)
    assert SharedCauses.from_json(found.to_json()) == found
    page = found.to_html()
    assert all(cause.name in page for cause in found.causes)
    assert found.sentence in page
    assert all("its own links" in text for text in (page, "\n".join(found.table().lines())))  # one name for the column
    assert [row["flips"] for row in found.rows()] == [cause.flips for cause in found.causes]
    assert found.sentence in str(found)
    with pytest.raises(DataError, match="checksum mismatch"):
        SharedCauses.from_json(re.sub(r'"flips":\s*\d+', '"flips": 99', found.to_json(), count=1))


def test_nothing_falls_where_nothing_was_found():
    graph = cody.TemporalGraph.from_arrays(src=[0, 0], dst=[1, 2], time=[1.0, 2.0])
    model = ToyModel(graph, weights=[0, 0], bias=1)
    found = shared_causes([cody.explain(model, graph, graph.query(1))], model, graph)
    assert (found.causes, found.sentence) == ((), "No event flips any of 1 prediction.")
    assert "No event" in found.to_html()


def test_bad_calls_are_refused(asked):
    graph, model, whys = asked
    with pytest.raises(CallError, match="there are no explanations"):
        shared_causes([], model, graph)
    with pytest.raises(CallError, match="tried must be at least 1"):
        shared_causes(whys, model, graph, tried=0)
    other = ToyModel(graph, weights=np.ones(60))
    with pytest.raises(CallError, match="an explanation is about the model"):
        shared_causes(whys, other, graph)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_counts_the_explanations_of_a_survey(tmp_path):
    where, file = data_and_model(tmp_path), tmp_path / "survey.jsonl"
    asked = ("survey", *where, "--candidates", 3, "--evaluations", 8, "--instances", 6, "--out", file)
    assert run(*asked).exit_code == 0
    ended = run("causes", file, *where, "--by", "node", "--most", 2, "--html", tmp_path / "causes.html")
    assert ended.exit_code == 0, ended.output
    assert "Found greedily" in ended.stdout
    assert "<h1>" in (tmp_path / "causes.html").read_text()
    assert run("causes", file, *where, "--most", 1, "--csv").stdout.startswith("number,name,events,flips,more,own")
    assert SharedCauses.from_json(run("causes", file, *where, "--most", 1, "--json").stdout).predictions > 0
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert "bad.jsonl, explanation 1" in str(run("causes", tmp_path / "bad.jsonl", *where).exception)
    assert "give --csv or --json" in str(run("causes", file, *where, "--csv", "--json").exception)
