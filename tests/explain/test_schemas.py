"""The JSON Schemas in the documentation: up to date, and what documents really look like."""

import json
import runpy
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from cody.explain.pipeline import explain
from cody.models import ToyModel
from cody.search import greedy, policies
from cody.search.proposals import additions, moves, removals
from cody.study.explainers import Explainer
from cody.study.run import EvaluationPlan, Sample, run
from random_events import random_graph

DOCS = Path(__file__).parents[2] / "docs"


def validator(name):
    schema = json.loads((DOCS / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


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
