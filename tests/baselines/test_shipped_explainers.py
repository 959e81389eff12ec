"""Each shipped link model comes with a trained scorer."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.baselines import MotifScorer, load_pgexplainer, load_tempme, shipped_explainers
from cody.cli import app
from cody.errors import CallError, ModelError
from cody.models.folder import read_model, shipped_models
from cody.models.toy import ToyModel
from cody.search import top_share
from cody.search.oracle import Oracle
from cody.search.policies import random, shift

LINK_MODELS = sorted(name for name in shipped_models() if read_model(name).task is None)


@pytest.fixture(scope="module")
def graph():
    return cody.load("collegemsg")


def test_every_shipped_link_model_has_an_explainer_of_its_name():
    assert sorted(shipped_explainers()) == LINK_MODELS
    assert shipped_explainers(MotifScorer.FILES) == shipped_explainers()  # in the same folders
    for folder in shipped_explainers().values():
        assert sum(file.stat().st_size for file in folder.iterdir()) < 300_000


@pytest.mark.parametrize("name", LINK_MODELS)
def test_damage_to_a_shipped_explainer_is_noticed(name, graph, tmp_path):
    model = cody.load_model(name, graph)
    folder = shutil.copytree(shipped_explainers()[name], tmp_path / name)
    for file, place in (("explainer.safetensors", -500), ("explainer.json", -100)):
        whole = bytearray((folder / file).read_bytes())
        damaged = whole.copy()
        damaged[place] ^= 1
        (folder / file).write_bytes(damaged)
        with pytest.raises(ModelError, match=r"damaged|is not the file that"):
            load_pgexplainer(folder, model)
        (folder / file).write_bytes(whole)
    load_pgexplainer(folder, model)


@pytest.mark.parametrize("name", LINK_MODELS)
def test_without_the_events_that_a_shipped_explainer_names_the_logit_moves_far(name, graph):
    model = cody.load_model(name, graph)
    moved = {}
    for policy in (load_pgexplainer(name, model), load_tempme(name, model), random):
        shifts = []
        for row in range(55_000, 57_000, 50):
            query = graph.query(row)
            oracle, events = Oracle(model, query), cody.candidates(graph, query)
            ranking = policy(graph, query, events, oracle, np.random.default_rng(row))
            original, without = oracle.ask([frozenset(), frozenset(top_share(oracle, ranking).rows)])
            shifts.append(shift(original, without))
        moved[policy.__name__] = np.mean(shifts)
    assert moved["pgexplainer"] > 3 * abs(moved["random"])
    assert moved["tempme"] > 3 * abs(moved["random"])


def test_the_explainer_of_another_model_is_refused_and_an_unknown_one_too(graph):
    model = cody.load_model("tgat-collegemsg", graph)
    with pytest.raises(ModelError, match="belongs to another model"):
        load_pgexplainer("tgn-collegemsg", model)
    with pytest.raises(ModelError, match="did you mean 'tgat-collegemsg'"):
        load_pgexplainer("tgat-collegemsgs", model)
    with pytest.raises(CallError, match="not for"):
        load_pgexplainer("tgat-collegemsg", ToyModel(graph))


def test_the_command_trains_tempme_and_refuses_options_of_others(tmp_path):
    asked = ["train-explainer", "--explainer", "tempme", "--model", "tgat-collegemsg", "--links", "8", "--epochs", "1"]
    asked += ["--out", str(tmp_path)]
    wrong = CliRunner().invoke(app, [*asked, "--entropy", "1"])
    assert str(wrong.exception) == "the explainer 'tempme' has no option --entropy"
    result = CliRunner().invoke(app, [*asked, "--prior", "0.2", "--json"])
    assert result.exit_code == 0, result.exception or result.output
    assert json.loads(result.stdout)["origin"]["settings"]["prior"] == 0.2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["motifs.json", "motifs.safetensors"]
    unknown = CliRunner().invoke(app, ["train-explainer", "--explainer", "tempmy", "--out", str(tmp_path)])
    assert "did you mean 'tempme'" in str(unknown.exception)


def test_the_command_trains_an_explainer_that_then_loads(graph, tmp_path):
    asked = ["train-explainer", "--model", "tgat-collegemsg", "--links", "8", "--epochs", "2", "--json"]
    result = CliRunner().invoke(app, [*asked, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.exception or result.output
    document = json.loads(result.stdout)
    assert document["origin"]["settings"]["epochs"] == 2
    assert document["data"] == graph.identity
    assert "epoch   2" in result.stderr
    load_pgexplainer(tmp_path, cody.load_model("tgat-collegemsg", graph))
    again = CliRunner().invoke(app, [*asked, "--out", str(tmp_path)])
    assert "already holds a trained explainer" in str(again.exception)
