"""The catalogue: every name works wherever a name can be given, and no other module knows them."""

import ast
import json
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody import search
from cody.baselines import MotifSettings, ScorerSettings, train_explainer
from cody.baselines.differentiable import SoftModel
from cody.cli import app
from cody.data import save_graph
from cody.errors import CallError
from cody.explaining.pipeline import explain
from cody.models import ToyModel
from cody.search import policies
from cody.study.explainers import (
    EXPLAINERS,
    POLICIES,
    SEARCHES,
    TRAINED,
    Explainer,
    at_sparsities,
    explainer,
    find,
    known,
    name_of,
)
from cody.study.record_file import read_records
from cody.study.run import EvaluationPlan, Link, evaluate
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network

NAMES = [*EXPLAINERS, *SEARCHES]  # a search by itself has the default policy


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small graph, a model and trained scorers, saved."""
    folder = tmp_path_factory.mktemp("explainers")
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    model = SoftModel(cody.load_model(folder / "model", graph))
    for settings in (ScorerSettings, MotifSettings):
        list(train_explainer(model, settings(links=8, epochs=1), folder / "scorer"))
    return folder


def run(made, command, *words):
    where = ["--data", made / "events", "--model", made / "model"]
    result = CliRunner().invoke(app, [str(word) for word in (command, *where, *words)])
    assert result.exit_code == 0, result.exception
    return result.stdout


def scorer_of(made, name):
    return made / "scorer" if find(name).needs_scorer else None


@pytest.mark.parametrize("name", NAMES)
def test_every_name_works_with_explain(made, name):
    words = ["--event", 290, "--explainer", name, "--candidates", 6, "--json"]
    why = json.loads(run(made, "explain", *words, *(["--scorer", made / "scorer"] if scorer_of(made, name) else [])))
    entry = find(name)
    function = {part: why["parameters"][part]["name"].replace("_", "-") for part in ("search", "policy")}
    assert (function["search"], function["policy"]) == entry.parts
    assert why["factual"] is entry.factual


def test_every_name_works_with_evaluate(made, tmp_path):
    asked = ["--instances", 1, "--kinds", "correct", "--period", "0.2..1", "--candidates", 6, "--iterations", 9]
    for number, names in enumerate((EXPLAINERS, SEARCHES)):
        out = tmp_path / f"{number}.jsonl"
        trained = ["--scorer", made / "scorer"] if any(find(name).needs_scorer for name in names) else []
        run(made, "evaluate", *asked, "--explainers", ",".join(names), "--out", out, *trained)
        entries = [find(name) for name in names]
        found = {record.explainer: record for record in read_records(out)}
        assert list(found) == [entry.name for entry in entries]
        for entry in entries:
            record = found[entry.name]
            assert (record.search, record.policy) == entry.parts
            assert record.options["search"].keys() == entry.options.keys()
            assert record.options["candidates"]["size"] == 6


@pytest.mark.parametrize("name", NAMES)
def test_every_name_works_in_python(made, name):
    graph = cody.load(str(made / "events"))
    model = cody.load_model(made / "model", graph)
    one = explainer(name, scorer=scorer_of(made, name), size=6)
    why = one.explain(model, graph, graph.query(290))
    again = explain(model, graph, graph.query(290), policy=one.policy, search=one.search, size=6)
    assert replace(why, seconds=0.0) == replace(again, seconds=0.0)
    (record,) = evaluate(model, graph, [Link(290, "correct")], EvaluationPlan("made", "tgn", (one,)))
    assert (record.rows, record.search, record.policy) == (why.rows, *find(name).parts)


def test_what_can_be_trained_is_what_a_policy_is_learned_for():
    assert {entry.learned for entry in EXPLAINERS.values() if entry.needs_scorer} == set(TRAINED)
    assert all(find(name).learned == name for name in TRAINED)


def test_an_explainer_at_several_sparsities_names_so_many_of_the_same_ranking(made):
    graph = cody.load(str(made / "events"))
    model = cody.load_model(made / "model", graph)
    found = [one.explain(model, graph, graph.query(290)) for one in at_sparsities("tempme", scorer=made / "scorer")]
    assert len(found) == 16
    sizes = [len(why.rows) for why in found]
    count = len(found[0].candidates)
    assert sizes == [max(1, round(share * count)) for share in np.linspace(0.01, 0.3, 16)]
    assert all(why.rows == found[-1].rows[: len(why.rows)] for why in found)


def test_an_entry_has_the_names_that_records_will_have():
    for entry in EXPLAINERS.values():
        assert known(*entry.parts) is entry
    assert {name: name_of(function) for name, function in POLICIES.items()} == {name: name for name in POLICIES}
    assert {name: name_of(function) for name, (_, function, _) in SEARCHES.items()} == {name: name for name in SEARCHES}
    with pytest.raises(FrozenInstanceError):
        EXPLAINERS["pbone"].size = 3


def test_the_papers_options_are_options():
    for entry in EXPLAINERS.values():
        assert entry.paper.keys() <= entry.options.keys()


def test_options_reach_the_search_and_its_defaults_stay():
    one = explainer("cody", policy="temporal", iterations=7, alpha=0.5, evaluations=9)
    assert one == replace(one, policy=policies.temporal, name="cody-temporal", size=None)
    assert (one.search.func, one.search.keywords) == (search.cody, {"iterations": 7, "alpha": 0.5})
    assert explainer("tgnnexplainer", scorer="tgn-collegemsg").size == 30
    assert explainer("greedy-random").search is search.greedy


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: explainer("cody-temporl"), "there is no explainer 'cody-temporl'; did you mean 'cody-temporal'"),
        (lambda: explainer("cody", policy="tempral"), "there is no policy 'tempral'; did you mean 'temporal'"),
        (lambda: explainer("cody-temporal", policy="random"), "the explainer 'cody-temporal' has no option policy"),
        (lambda: find("pbone", "random"), "the explainer 'pbone' has no option policy"),
        (lambda: explainer("greedy", alpha=0.5), "the explainer 'greedy' has no option alpha"),
        (
            lambda: explainer("greedy", scorer="x"),
            "the explainer 'greedy' has no option scorer: it learns",
        ),
        (lambda: explainer("pgexplainer"), "'pgexplainer' needs a scorer that was trained for the model"),
        (lambda: explainer("cody", size=0), "size of 'cody-spatio-temporal' must be at least 1, not 0"),
    ],
)
def test_options_that_no_explainer_has_are_refused(call, message):
    with pytest.raises(CallError, match=re.escape(message)):
        call()


def temporal(graph, query, events, oracle, rng, *, backwards=True):
    """A policy of a user's own, with a name that the catalogue has too."""
    return events[:: -1 if backwards else 1]


def test_functions_of_your_own_are_not_taken_for_those_of_the_catalogue():
    graph = random_graph(np.random.default_rng(0), nodes=10, events=60)
    mine = Explainer("mine", partial(temporal, backwards=False), search.greedy)
    (record,) = evaluate(ToyModel(graph), graph, [Link(50, "correct")], EvaluationPlan("made", "toy", (mine,)))
    assert (record.search, record.policy) == ("greedy", "test_explainers.temporal")
    assert record.options["policy"] == {"backwards": False}
    assert known(record.search, record.policy) is None


SOURCE = Path(cody.__file__).parent
KNOW_NAMES = {SOURCE / "study" / "explainers.py", SOURCE / "study" / "upgrade.py"}  # present ones, and former ones
KNOW_NAMES |= {SOURCE / "baselines" / file for file in ("clones.py", "their_code.py")}  # a published package's


def literals(file):
    """All strings of a module but its docstrings and what it exports, with their lines."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        is_export = isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "__all__" for name in node.targets)
        is_prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for inner in ast.walk(node) if is_export or is_prose else ():
            inner.said = True
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not hasattr(node, "said"):
            yield node.lineno, node.value


def test_no_other_module_knows_the_name_of_an_explainer():
    words = {"random", "greedy"}  # also in sentences
    others = {"cody", "cody-", "shapley", "owen"}  # the package, and values that are shown beside any explanation
    names = {*NAMES, *(f"{name}-" for name in SEARCHES)} - others
    name = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(names - words, key=len, reverse=True))})(?![\w-])")

    def mentions(file):
        found = [(line, text) for line, text in literals(file) if name.search(text) or text in words]
        return [f"{file.relative_to(SOURCE)}:{line}: {text!r}" for line, text in found]

    assert [mention for file in sorted({*SOURCE.rglob("*.py")} - KNOW_NAMES) for mention in mentions(file)] == []
    assert len(mentions(SOURCE / "study" / "explainers.py")) > 10, "it would find none"


def test_nothing_but_the_catalogue_takes_names_of_explainers_apart():
    """Asking for a prefix or a suffix is how a name was parsed."""
    parsing = re.compile(r"explainer\w*\.(partition|rpartition|split|startswith|endswith|removesuffix)\(")
    for file in SOURCE.rglob("*.py"):
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            assert not parsing.search(line) or "entry.name" in line, f"{file.name}:{number}: {line.strip()}"


def test_the_catalogue_needs_no_torch():
    code = "import sys, cody.study.explainers; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
