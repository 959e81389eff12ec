"""The JSON Schemas in the documentation: up to date, and what documents really look like."""

import json
import runpy
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from cody.errors import DataError
from cody.explaining.pipeline import explain
from cody.models import ToyModel
from cody.search import greedy, policies
from cody.search.proposals import additions, moves, removals
from cody.study import cases, compare_models, read_surveys, survey_of
from cody.study.comparison import SurveyOutput
from cody.study.explainers import Explainer
from cody.study.run import EvaluationPlan, Link, Sample, evaluate, run
from random_events import random_graph
from schemas import validator

DOCS = Path(__file__).parents[2] / "docs"


def test_the_schemas_are_up_to_date():
    made = runpy.run_path(str(DOCS / "make_schemas.py"))["files"]()
    assert {*(DOCS / "schemas").iterdir()} == made.keys()
    for file, content in made.items():
        assert file.read_text(encoding="utf-8") == content, "run: python docs/make_schemas.py"


@pytest.fixture(scope="module")
def toy():
    graph = random_graph(np.random.default_rng(1), nodes=10, events=60, ties=False)
    return ToyModel(graph, weights=np.linspace(-1, 1, 60), bias=-0.1), graph


def test_documents_follow_their_schema(toy):
    model, graph = toy
    for row in range(50, 60):
        for edits in ((removals,), (removals, additions, moves)):
            document = json.loads(explain(model, graph, graph.query(row), edits=edits).to_json())
            validator("explanation").validate(document)
    for wrong in ({"rows": "x"}, {"ended": "x"}, {"evaluated": {"sets": 3, "logits": []}}, {"kandidates": []}):
        with pytest.raises(jsonschema.ValidationError):
            validator("explanation").validate(document | wrong)


class Breaking(ToyModel):
    """A model that breaks at one link."""

    def logits(self, query, changes):
        if query.before == 58 and any(changes):
            raise RuntimeError("a kernel has failed")
        return super().logits(query, changes)


def test_lines_of_an_evaluation_follow_their_schemas(toy, tmp_path):
    graph = toy[1]
    plan = EvaluationPlan("made", "toy", (Explainer("greedy-temporal", policies.temporal, greedy),))
    model = Breaking(graph, weights=np.linspace(0.1, 1, 60), bias=0.5)
    list(run(tmp_path / "run.jsonl", model, graph, plan, Sample(20, ("correct",), (0.5, 1.0))))
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    names = [line["schema"].split("/")[1] for line in lines]
    assert {*names} == {"evaluation", "explanation", "failure"}
    for name, line in zip(names, lines, strict=True):
        validator(name).validate(line)


@pytest.fixture(scope="module")
def surveys(toy):
    """What a survey of two models prints as JSON."""
    graph = toy[1]
    explained = []
    for name, bias in (("one", -0.1), ("other", 0.2)):
        plan = EvaluationPlan("made", name, (Explainer("greedy-temporal", policies.temporal, greedy),))
        model = ToyModel(graph, weights=np.linspace(-1, 1, 60), bias=bias)
        links = [Link(row, "correct" if row % 2 else "incorrect") for row in range(40, 60)]
        explained.append(cases(list(evaluate(model, graph, links, plan)), graph))
    found = tuple(survey_of(each, graph) for each in explained)
    return SurveyOutput(found, compare_models(*explained, graph))


def test_a_survey_follows_its_schema_and_is_read_as_it_was_written(surveys):
    text = json.dumps(surveys.to_dict())
    validator("survey").validate(json.loads(text))
    assert read_surveys(text) == surveys
    alone = {"surveys": json.loads(text)["surveys"][:1], "comparison": None}
    assert read_surveys(json.dumps(alone)) == SurveyOutput(surveys.surveys[:1], None)


@pytest.mark.parametrize(
    ("where", "wrong", "message"),
    [
        (("data",), 3, r"surveys\[0\].data: expected `str`, got `int`"),
        (("schema",), "cody/survey/9", "cody/survey/9"),
        (("parts", 0, "links"), -1, r"surveys\[0\].parts\[0\].links: expected `int` >= 0"),
        (("parts", 0, "fragility", 0, "share", "value"), "much", "expected `float`, got `str`"),
        (("parts", 0, "fragility", 0, "shared"), {}, "unknown field `shared`"),
    ],
)
def test_a_damaged_survey_is_noticed(surveys, where, wrong, message):
    document = json.loads(json.dumps(surveys.to_dict()))
    place = document["surveys"][0]
    for name in where[:-1]:
        place = place[name]
    place[where[-1]] = wrong
    with pytest.raises(DataError, match=f"this survey is damaged: .*{message}"):
        read_surveys(json.dumps(document))
    with pytest.raises(jsonschema.ValidationError):
        validator("survey").validate(document)
