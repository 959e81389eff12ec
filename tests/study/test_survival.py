"""In how many other models the answers of a survey hold."""

import html

import numpy as np
import pytest

import cody
from cody.data import save_graph
from cody.errors import CallError
from cody.models import ToyModel
from cody.models.margins import flips
from cody.study import read_surveys
from cody.study.cases import ALL_MODELS
from cody.study.record_file import iterate_records
from cody.train.checkpoint import Checkpoint, save_model
from commands import run
from random_events import random_graph, random_network

ROWS = range(40, 60)


@pytest.fixture(scope="module")
def graph():
    return random_graph(np.random.default_rng(3), nodes=12, events=60)


def toy(graph, seed):
    """Models that differ by less than what they have in common."""
    weights, noise = (np.random.default_rng(each).normal(0.4, 1, size=graph.num_events) for each in (0, seed))
    return ToyModel(graph, weights=weights + 0.5 * noise, bias=-0.8)


def test_each_answer_is_counted_in_each_model_that_decides_the_same(graph):
    first, others = toy(graph, 0), {name: toy(graph, seed) for seed, name in enumerate(("one", "two"), start=1)}
    found = cody.survey(first, graph, ROWS, also=others, noise=True)
    assert len(found.parts) == 2
    for part in found.parts:
        answers = [each for each in part.predictions if each.rows]
        held = {each.event: [] for each in answers}
        for name, model in others.items():
            for each in answers:
                query = graph.query(each.event)
                before, after = model.logits(query, [frozenset(), frozenset(each.rows)])
                if not flips(first.logits(query, [frozenset()])[0], before):
                    held[each.event].append((name, flips(before, after)))
        shown = {each.what: (each.tested, None if each.holds is None else each.holds.value) for each in part.survival}
        for name in others:
            holds = [flag for pairs in held.values() for model, flag in pairs if model == name]
            assert shown[name] == (len(holds), pytest.approx(np.mean(holds)) if holds else None)
        together = [all(flag for _, flag in pairs) for pairs in held.values() if pairs]
        assert shown[ALL_MODELS] == (len(together), pytest.approx(np.mean(together)) if together else None)
        assert {each.event: each.held_in for each in answers} == {
            event: (sum(flag for _, flag in pairs), len(pairs)) for event, pairs in held.items()
        }
        assert list(shown)[:3] == ["one", "two", ALL_MODELS]
        assert list(shown)[-1] == "with an unrelated event"
    tested = [
        each for part in found.parts for each in part.survival if each.what in (*others, ALL_MODELS) and each.tested
    ]
    shares = {each.holds.value for each in tested}
    assert any(0 < share < 1 for share in shares)
    assert any(each.held_in[0] != each.held_in[1] > 0 for part in found.parts for each in part.predictions if each.rows)
    assert f"<td>{found.parts[0].survival[0].tested}</td>" in found.to_html()
    assert any(row["figure"] == "holds in one" for row in found.rows())


def test_without_other_models_nothing_is_said_about_them(graph):
    found = cody.survey(toy(graph, 0), graph, ROWS)
    assert all(part.survival == () for part in found.parts)
    assert "survive" not in found.to_html().split("</style>")[1]
    with pytest.raises(CallError, match="made for the graph"):
        cody.survey(toy(graph, 0), graph, ROWS, also={"b": toy(random_graph(np.random.default_rng(4)), 1)})


def test_the_command_counts_prints_and_draws_them(graph, tmp_path):
    save_graph(graph, tmp_path / "events")
    for seed, name in enumerate(("first", "second")):
        save_model(tmp_path / name, Checkpoint(random_network(graph, "tgn", seed=seed), graph.identity))
    asked = ("survey", "--data", tmp_path / "events", "--model", tmp_path / "first", "--events", "50,55,58")
    asked += ("--evaluations", 60, "--out", tmp_path / "run.jsonl")
    other = ("--also", tmp_path / "second")
    document = run(*asked, *other, "--json", "--html", tmp_path / "page.html")
    (found,) = read_surveys(document).surveys
    assert any(part.survival for part in found.parts)
    assert {each.what for part in found.parts for each in part.survival} == {str(tmp_path / "second")}
    assert "the answer also flips" in run(*asked, *other)
    assert "Do the answers survive?" in (tmp_path / "page.html").read_text()
    pages = [html.unescape(page.read_text()) for page in (tmp_path / "page").glob("*.html")]
    assert sum("What it survives" in page for page in pages) == sum(part.explained for part in found.parts)
    assert "is the model that is explained" in run(*asked, "--also", tmp_path / "first", code=2)
    assert "give one --model" in run(*asked, *other, "--model", tmp_path / "second", code=2)


def test_records_hold_it_and_it_can_be_computed_later(graph, tmp_path):
    save_graph(graph, tmp_path / "events")
    for seed, name in enumerate(("first", "second", "third")):
        save_model(tmp_path / name, Checkpoint(random_network(graph, "tgn", seed=seed), graph.identity))
    data = ("--data", tmp_path / "events")
    asked = ("survey", *data, "--model", tmp_path / "first", "--events", "50,55,58", "--evaluations", 60)
    other, third = ("--also", tmp_path / "second"), ("--also", tmp_path / "third", "--noise")
    at_once, later, copy = (tmp_path / f"{name}.jsonl" for name in ("at-once", "later", "copy"))

    def survival(*words):
        (found,) = read_surveys(run(*words, "--json")).surveys
        return [part.survival for part in found.parts]

    known = survival(*asked, "--out", at_once, *other)
    assert any(known)
    assert survival("survey", at_once, *data) == known  # nothing is computed: the records have it
    run(*asked, "--out", later)
    before = later.read_bytes()
    assert survival("survey", later, *data, *other) == known
    assert later.read_bytes() == before
    both = survival("survey", later, *data, *other, *third, "--out", copy)
    others = [str(tmp_path / "second"), str(tmp_path / "third")]
    assert {tuple(each.what for each in part[:2]) for part in both if part} == {tuple(others)}
    assert survival("survey", copy, *data) == both
    assert survival("survey", at_once, *data, *third, "--out", at_once) == both  # added to what was known
    assert survival("survey", at_once, *data) == both
    why = next(record.explanation for record in iterate_records(at_once, documents=True) if record.is_necessary)
    assert [each.name for each in why.elsewhere][:2] == others
    assert "of 2 models" in why.stability
    assert survival(*asked, "--out", at_once) == both  # the run is resumed
    assert "must be a new file" in run("survey", later, *data, *other, "--out", copy, code=2)
    assert "is for a new survey, or for what --also" in run("survey", later, *data, "--out", copy, code=2)
    assert "the model that is explained" in run("survey", later, *data, "--also", tmp_path / "first", code=2)
