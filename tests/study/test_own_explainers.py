"""An explainer in one function: it runs wherever explainers are named, and is checked before its figures count."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.data.mechanisms import mechanism
from cody.errors import CallError, ModelError
from cody.models.oracles import ORACLES
from cody.search.policies import spatio_temporal
from cody.study.conformance import check_explainer
from cody.study.explainers import Explainer, explainer, find
from cody.study.own_function import OwnSearch
from cody.study.record_file import read_records

MADE = mechanism("joint", episodes=30)
MODEL = ORACLES["joint"](MADE.graph)
ROW = next(iter(MADE.ways))
MODULE = """
def latest_flipping(model, graph, query, candidates):
    original, *without = model.logits(query, [frozenset(), *(frozenset({int(row)}) for row in candidates)])
    return [row for row, logit in zip(candidates, without) if (logit > 0) != (original > 0)][-1:]

def recency(model, graph, query, candidates):
    return {row: graph.time[row] for row in candidates}

def fails(model, graph, query):
    return 1 / 0
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_explainers.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def answer_of(function, **options):
    made = Explainer("mine", spatio_temporal, OwnSearch(function, **options), size=64)
    return made.explain(MODEL, MADE.graph, MADE.graph.query(ROW))


def outcomes(which):
    return {each.name: each.status for each in check_explainer(which).outcomes}


def test_rows_are_the_answer_and_what_was_asked_is_counted():
    def one_cause(model, graph, query, candidates):
        model.logits(query, [frozenset({int(candidates[-1])}), frozenset()])
        return [next(iter(MADE.ways[ROW][0]))]

    why = answer_of(one_cause)
    assert why.is_counterfactual
    assert not why.factual
    assert why.evaluations == 2


def test_scores_name_a_share_of_the_candidates_or_the_shortest_prefix():
    causes = MADE.causes_of(ROW)

    def scores(model, graph, query, candidates):
        return {row: float(row in causes) for row in candidates}

    whole, prefix = answer_of(scores), answer_of(scores, prefix=True)
    assert whole.factual
    assert not prefix.factual
    assert causes <= {*whole.rows} | causes
    assert set(prefix.rows) <= causes
    assert len(prefix.rows) == 1


def test_a_budget_ends_an_own_explainer_with_its_best_set():
    def everything(model, graph, query, candidates):
        model.logits(query, [frozenset()])
        for row in candidates:
            model.logits(query, [frozenset({int(row)})])
        return candidates

    made = Explainer("mine", spatio_temporal, OwnSearch(everything), size=64, evaluations=3)
    why = made.explain(MODEL, MADE.graph, MADE.graph.query(ROW))
    assert why.ended == "evaluations"
    assert why.evaluations == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5], "must return rows of events"),
        ([10**6], "none of the"),
        (None, "must return rows of events"),
        ({0: float("nan")}, "none of the"),
    ],
)
def test_what_is_no_answer_is_an_error_that_says_so(answer, message):
    with pytest.raises(CallError, match=message):
        answer_of(lambda model, graph, query: answer)


def test_an_error_of_the_function_names_its_line():
    def broken(model, graph, query):
        return 1 / 0

    with pytest.raises(ModelError, match=r"broken failed \(test_own_explainers.py, line \d+\): ZeroDivisionError"):
        answer_of(broken)


def test_a_good_explainer_passes_every_check():
    assert set(outcomes("scout").values()) == {"passed"}


def test_checks_notice_what_is_wrong():
    calls = iter(range(10**6))

    def forgetful(model, graph, query, candidates):
        return candidates[: 1 + next(calls) % 2]

    def looking_ahead(model, graph, query, candidates):
        return candidates[-1:] if graph.num_events == MADE.graph.num_events else candidates[:1]

    def meddling(model, graph, query, candidates):
        graph.time.flags.writeable = True
        graph.time[:] = graph.time[::-1].copy()[::-1]
        return candidates[:1]

    assert outcomes(forgetful)["repeats"] == "failed"
    assert outcomes(looking_ahead)["looks_back"] == "failed"
    assert outcomes(lambda model, graph, query: [0.5])["answers"] == "failed"
    assert outcomes(lambda model, graph, query: [0])["answers"] == "failed"
    assert outcomes(lambda model, graph, query, candidates: candidates[:1])["pickles"] == "skipped"


def test_a_random_explainer_is_given_a_generator_of_its_seed():
    def random(model, graph, query, candidates, rng):
        return rng.permutation(candidates)[:2]

    one = answer_of(random).rows
    made = Explainer("mine", spatio_temporal, OwnSearch(random), size=64)
    several = {made.explain(MODEL, MADE.graph, MADE.graph.query(ROW), seed=seed).rows for seed in range(8)}
    assert answer_of(random).rows == one
    assert len(several) > 1


def test_a_module_is_named_on_the_command_line(module):
    names = "my_explainers:latest_flipping,my_explainers:recency-prefix"
    call = ["evaluate", "--data", "joint", "--model", "cody.models.oracles:joint", "--explainers", names]
    ran = CliRunner().invoke(app, [*call, "--instances", "2", "--out", "r.jsonl", "--json"])
    assert ran.exit_code == 0, ran.output
    records = read_records("r.jsonl")
    assert {record.explainer for record in records} == set(names.split(","))
    assert {record.search for record in records} == {"my_explainers.latest_flipping", "my_explainers.recency-prefix"}
    assert all(json.dumps(record.options) for record in records)


def test_an_own_explainer_joins_the_benchmark_and_its_failures_are_reported(module):
    call = ["benchmark", "run", "--out", "b", "--mechanisms", "joint", "--links", "2"]
    ran = CliRunner().invoke(app, [*call, "--explainers", "my_explainers:latest_flipping", "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)[0]["scores"]["exact"]["value"] == 1
    failed = CliRunner().invoke(app, [*call[:3], "f", *call[4:], "--explainers", "my_explainers:fails"])
    shown = CliRunner().invoke(app, ["benchmark", "table", "f"])
    assert "my_explainers:fails failed on 2 predictions, which no figure includes" in failed.stderr
    assert shown.stderr == failed.stderr
    checked = CliRunner().invoke(app, ["benchmark", "check", "my_explainers:fails"])
    assert checked.exit_code != 0
    assert "ZeroDivisionError" in checked.output


def test_a_function_that_does_not_exist_is_named_with_its_option(module):
    with pytest.raises(CallError, match="my_explainers has no function 'recenty'; did you mean 'recency'"):
        find("my_explainers:recenty")
    with pytest.raises(CallError, match="which --explainers no_such:thing names"):
        explainer("no_such:thing")


def test_scores_that_are_no_numbers_are_rejected():
    with pytest.raises(CallError, match="a score that is not a number"):
        answer_of(lambda model, graph, query, candidates: {int(candidates[0]): np.nan})


def test_a_function_that_ends_the_program_does_not(module):
    def leaves(model, graph, query):
        raise SystemExit(0)

    with pytest.raises(ModelError, match=r"leaves failed .*SystemExit: 0"):
        answer_of(leaves)
    (module / "a_script.py").write_text("import sys; sys.exit(0)")
    with pytest.raises(ModelError, match="a_script cannot be imported: SystemExit: 0"):
        find("a_script:explainer")


@pytest.mark.parametrize("score", ["high", None, 10**400, float("nan")])
def test_a_score_that_is_no_number_is_one_error(score):
    with pytest.raises(CallError, match="returned a score that is not a number"):
        answer_of(lambda model, graph, query, candidates: dict.fromkeys(candidates.tolist(), score))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", ""], "explainers '' names nothing"),
        (["run", "--out", "x", "--mechanisms", ","], "--mechanisms ',' names nothing"),
        (["run", "--out", "x", "--models", ""], "--models '' names nothing"),
        (["run", "--out", "x", "--checks", ""], "--checks '' names nothing"),
    ],
)
def test_a_list_that_names_nothing_is_refused(words, message, module):
    ended = CliRunner().invoke(app, ["benchmark", *words])
    assert message in str(ended.exception)
    assert not (module / "x").exists()
