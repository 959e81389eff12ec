"""Data sets of TGB, from a small folder in its own form on disk, read by its own package."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import cody
from cody import search
from cody.errors import CallError, DataError
from cody.models.predict_ranks import predict_ranks
from cody.search import policies
from cody.study.explainers import Explainer
from cody.study.record_file import read_records
from cody.study.run import EvaluationPlan, Sample
from cody.study.run import run as run_plan
from commands import run

pytest.importorskip("tgb.linkproppred.dataset", reason="the extra tgb is not installed")

from tgb.linkproppred import dataset as tgb
from tgb.linkproppred.evaluate import Evaluator
from tgb.utils.utils import save_pkl

from cody.data.tgb import _sampler, negatives

EVENTS, USERS, PAGES = 120, 6, 12


@pytest.fixture
def wiki(tmp_path, monkeypatch):
    """The files of a small tgbl-wiki, which have two features, and negatives for its last 30 %."""
    monkeypatch.setattr(tgb, "PROJ_DIR", f"{tmp_path}/")
    negatives.cache_clear()
    _sampler.cache_clear()
    folder = tmp_path / "datasets" / "tgbl_wiki"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, USERS, EVENTS), rng.integers(0, PAGES, EVENTS)
    src[:USERS], dst[:PAGES] = range(USERS), range(PAGES)
    rows = [(u, i, 100 * t, 0, *rng.normal(size=2).round(3)) for t, (u, i) in enumerate(zip(src, dst, strict=True))]
    with (folder / "tgbl-wiki_edgelist_v2.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("user_id", "item_id", "timestamp", "state_label", "features"), *rows])
    last = {"val": range(84, 102), "test": range(102, 120)}
    for split, part in last.items():
        others = {(int(src[t]), int(dst[t]) + USERS, 100 * t): _others(rng, int(dst[t])) for t in part}
        save_pkl(others, str(folder / f"tgbl-wiki_{split}_ns_v2.pkl"))
    return src, dst + USERS


def _others(rng, page):
    return USERS + rng.choice(np.delete(np.arange(PAGES), page), 7, replace=False)


@pytest.fixture
def model(wiki):
    """Scores differ between destinations, and some are equal."""
    graph = cody.load("tgbl-wiki")

    def score(graph, query, changes):
        recent = graph.history(query.dst, query.before)
        return [float(sum(row not in change for row in recent[-5:]) + query.dst % 3) - 3 for change in changes]

    return cody.as_model(score, graph, identity="recent"), graph


def test_events_are_those_of_tgb_under_its_numbers(wiki):
    graph, (src, dst) = cody.load("tgbl-wiki"), wiki
    np.testing.assert_array_equal(graph.src, src)
    np.testing.assert_array_equal(graph.dst, dst)
    np.testing.assert_array_equal(graph.time, 100.0 * np.arange(EVENTS))
    assert graph.features.shape == (EVENTS, 2)
    assert graph.name(7) == "7"


def test_ranks_are_those_of_its_evaluator(model):
    model, graph = model
    part = range(102, 120)
    found = predict_ranks(model, graph, part, k=3, among=negatives("tgbl-wiki"))
    sampler = tgb.LinkPropPredDataset("tgbl-wiki", download=False)
    sampler.load_test_ns()
    totals = []
    for row in part:
        query = graph.query(row)
        link = (np.array([part]) for part in (query.src, query.dst, int(query.time)))
        (others,) = sampler.negative_sampler.query_batch(*link, split_mode="test")
        scores = [model.logits(query._replace(dst=dst), [frozenset()])[0] for dst in (query.dst, *others)]
        given = {"y_pred_pos": np.array(scores[:1]), "y_pred_neg": np.array([scores[1:]]), "eval_metric": ["mrr"]}
        totals.append(Evaluator("tgbl-wiki", k_value=3).eval(given))
    assert any(each.ties for each in found)
    assert all(each.of == 8 for each in found)
    assert found.as_tgb()["mrr"] == pytest.approx(np.mean([each["mrr"] for each in totals]), rel=1e-6)
    assert found.as_tgb()["hits@3"] == pytest.approx(np.mean([each["hits@3"] for each in totals]))


def test_why_a_link_has_its_rank_among_the_negatives(model):
    model, graph = model
    among = negatives("tgbl-wiki")
    (ranked,) = predict_ranks(model, graph, [110], k=1, among=among)
    why = cody.explain(model, graph, graph.query(110), decision=cody.in_top(ranked.rank, among=among))
    assert why.standings[0].rank == ranked.rank
    assert why.decision.of == 8
    assert set(why.decision.among) == set(among(graph.query(110)))
    again = cody.Explanation.from_json(why.to_json())
    assert cody.verify_explanation(again, model, graph).is_confirmed


def test_evaluations_and_surveys_rank_against_the_negatives(model):
    model, graph = model
    among = negatives("tgbl-wiki")
    found = cody.survey(model, graph, instances=2, decision=cody.in_top(3, among=among), period=(0.7, 1.0))
    rows = [each.event for part in found.parts for each in part.predictions]
    ranks = {each.event: each.rank for each in predict_ranks(model, graph, rows, k=3, among=among)}
    for part in found.parts:
        assert all((ranks[each.event] <= 3) == (part.kind == "correct") for each in part.predictions)


def test_a_file_of_records_names_its_rivals_and_is_resumed_with_these_only(model, tmp_path):
    model, graph = model
    explainer = Explainer("greedy", policies.temporal, search.greedy, size=8)

    def write(path, decision, instances=1):
        plan = EvaluationPlan("made", "recent", (explainer,), decision=decision)
        list(run_plan(path, model, graph, plan, Sample(instances, period=(0.7, 1.0))))
        return read_records(path)

    among = negatives("tgbl-wiki")
    own, path = cody.in_top(3, among=among), tmp_path / "run.jsonl"
    written = write(path, own)
    header = json.loads(path.read_text().splitlines()[0])
    assert header["decision"] == {"kind": "top", "k": 3, "rivals_of": "negatives of tgbl-wiki"}
    assert all(record.decision.rivals_of == "negatives of tgbl-wiki" for record in written)
    assert len(write(path, own, 2)) > len(written)
    before = path.read_bytes()
    there = r"there decision is in the top 3 of its own rivals \(negatives of tgbl-wiki\), here it is in the top 3"
    for other in (None, [str(USERS + page) for page in range(7)], lambda query: among(query)):
        with pytest.raises(DataError, match=there):
            write(path, cody.in_top(3, among=other))
    assert path.read_bytes() == before


def test_links_of_the_training_part_have_none(model):
    model, graph = model
    with pytest.raises(CallError, match="tgbl-wiki has no negatives for the link"):
        cody.explain(model, graph, graph.query(20), decision=cody.in_top(3, among=negatives("tgbl-wiki")))


def test_what_is_not_there_is_said(wiki):
    with pytest.raises(DataError, match=r"'tgbl-uci' is not here .*cody data fetch tgbl-uci"):
        cody.load("tgbl-uci")
    with pytest.raises(DataError, match="TGB cannot load 'tgbl-wikis'"):
        cody.load("tgbl-wikis")
    with pytest.raises(CallError, match="edges of several types"):
        cody.load("tkgl-yago")
    link = cody.load("tgbl-wiki").query(110)
    with pytest.raises(DataError, match=r"'tgbl-uci' is not here"):
        negatives("tgbl-uci")(link)
    with pytest.raises(DataError, match="TGB cannot load 'tgbl-wikis'"):
        negatives("tgbl-wikis")(link)
    with pytest.raises(CallError, match="so unit cannot be given"):
        cody.load("tgbl-wiki", unit="s")


def test_the_command_line_ranks_against_the_negatives(wiki, tmp_path, monkeypatch):
    code = "import cody\ndef model(graph):\n    return cody.models.ToyModel(graph, bias=1.0)\n"
    (tmp_path / "model_of_tgb.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--data", "tgbl-wiki", "--model", "model_of_tgb:model"]
    printed = run("predict", *words, "--top", 3, "--among", "tgbl-wiki", "--events", "110,111", "--csv")
    assert [row["of"] for row in csv.DictReader(printed.splitlines())] == ["8", "8"]
    assert "120 events" in run("data", "fetch", "tgbl-wiki")


def test_the_page_about_tgb_runs(model, capsys):
    model, _ = model
    page = Path(__file__).parents[2] / "docs" / "tools" / "tgb.md"
    (block,) = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    exec(block.replace("130_000", "110").replace("k=10", "k=3"), {"my_model": lambda graph: model})
    printed = capsys.readouterr().out
    assert "'mrr': " in printed
    assert "the top" in printed
