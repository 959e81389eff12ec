"""Evaluations and surveys of every decision, compared with what the definitions say on small cases."""

import json
import re
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest

import cody
from cody import search
from cody.data import save_graph
from cody.errors import CallError, DataError
from cody.explaining import pipeline
from cody.models import ToyModel, decision
from cody.models.contract import as_model
from cody.paper.tables import tables
from cody.paper.typeset import as_text
from cody.search import policies
from cody.search.proposals import additions
from cody.search.result import EXHAUSTED, best_evaluated, result
from cody.study import cases, metrics, read_surveys, survey_of
from cody.study.cases import (
    DESTINATION,
    FURTHER,
    REVERSE,
    RIVAL,
    SAME,
    SOURCE,
    relation_names,
    relations,
)
from cody.study.explainers import Explainer
from cody.study.instances import kind_in_words, sample_kinds
from cody.study.record_file import iterate_records, read_records, records_of_models
from cody.study.run import EvaluationPlan, Link, Sample, evaluate, run
from commands import run as command
from random_events import random_graph
from some_records import random_records, timeless

EVENTS, NODES, K = 60, 9, 3
OTHER = "4"
GREEDY = Explainer("greedy", policies.temporal, search.greedy, size=8)
NAMED = Explainer("named", policies.random, partial(search.top_share, sparsity=0.5), size=8)
DECISIONS = {
    "link": None,
    "above": cody.above(0.7),
    "top": cody.in_top(K),
    "among": cody.in_top(2, among=["1", "2", "3", "4"]),
    "rather": cody.rather_than(OTHER),
    "between": cody.between(-1, 1),
    "own": cody.decided_by(lambda scores: scores[:, 0] ** 2 - 1, positive="clear", negative="unclear"),
}
COUNTS = {"correct": lambda margin: margin > 0, "incorrect": lambda margin: margin <= 0}


@pytest.fixture(scope="module")
def toy():
    rng = np.random.default_rng(11)
    graph = random_graph(rng, nodes=NODES, events=EVENTS)
    return ToyModel(graph, rng.normal(size=EVENTS)), graph


def rivals_by_definition(kind, graph, query):
    """The nodes that a destination competes with, written as the documentation has it; None: nothing is decided."""
    if kind == "top":
        others = {int(node) for node in graph.dst[: query.before]} - {query.src, query.dst}
        return sorted(others) if len(others) >= K else None
    if kind == "among":
        others = [graph.node(name) for name in ("1", "2", "3", "4") if graph.node(name) != query.dst]
        return others if len(others) >= 2 else None
    if kind == "rather":
        return None if graph.node(OTHER) in (query.src, query.dst) else [graph.node(OTHER)]
    return []


def margin_by_definition(kind, model, graph, query, change):
    """The margin and the rank under a change, from one call of the model for each destination; None as above."""
    rivals = rivals_by_definition(kind, graph, query)
    if rivals is None:
        return None
    own, *others = (float(model.logits(query._replace(dst=node), [change])[0]) for node in (query.dst, *rivals))
    rank = 1 + sum(other >= own for other in others)
    margins = {
        "link": lambda: own,
        "above": lambda: own - np.log(0.7 / 0.3),
        "top": lambda: own - sorted(others)[-K],
        "among": lambda: own - sorted(others)[-2],
        "rather": lambda: own - others[0],
        "between": lambda: min(own + 1, 1 - own),
        "own": lambda: own**2 - 1,
    }
    return margins[kind](), rank


def records(toy, kind, explainers=(GREEDY, NAMED)):
    model, graph = toy
    drawn = sample_kinds(model, graph, EVENTS, ("correct", "incorrect"), period=(0.3, 1), decision=DECISIONS[kind])
    links = [Link(row, name) for name, rows in drawn.items() for row in rows]
    return list(evaluate(model, graph, links, EvaluationPlan("made", "toy", explainers, decision=DECISIONS[kind])))


@pytest.mark.parametrize("kind", DECISIONS)
def test_links_are_correct_where_the_margin_is_above_0(toy, kind):
    model, graph = toy
    drawn = sample_kinds(model, graph, EVENTS, COUNTS, period=(0, 1), decision=DECISIONS[kind])
    margins = {
        row: known[0]
        for row in range(EVENTS)
        if (known := margin_by_definition(kind, model, graph, graph.query(row), frozenset()))
    }
    for name, holds in COUNTS.items():
        assert drawn[name] == [row for row, margin in margins.items() if holds(margin)]
    assert all(drawn.values())
    assert (kind in ("top", "rather")) == (len(margins) < EVENTS)


@pytest.mark.parametrize("kind", DECISIONS)
def test_a_margin_keeps_out_what_is_hardly_decided(toy, kind):
    model, graph = toy
    drawn = sample_kinds(model, graph, EVENTS, COUNTS, period=(0.3, 1), margin=0.5, decision=DECISIONS[kind])
    rows = sorted(chain(*drawn.values()))
    margins = {
        row: margin_by_definition(kind, model, graph, graph.query(row), frozenset()) for row in range(18, EVENTS)
    }
    assert rows == [row for row, known in margins.items() if known is not None and abs(known[0]) >= 0.5]


@pytest.mark.parametrize("kind", DECISIONS)
def test_records_say_what_the_definitions_say(toy, kind):
    model, graph = toy
    found = records(toy, kind)
    assert len(found) > 20
    for record in found:
        query, named = graph.query(record.event), frozenset(record.rows)
        others = frozenset(range(query.before)) - named
        before, after, alone = (
            margin_by_definition(kind, model, graph, query, change) for change in (frozenset(), named, others)
        )
        for told, known in ((record.original, before), (record.without, after), (record.only, alone)):
            assert told == pytest.approx(known[0], abs=2e-5)
        assert record.is_necessary == ((before[0] > 0) != (after[0] > 0))
        assert record.is_sufficient == ((before[0] > 0) == (alone[0] > 0))
        ranks = (before[1], after[1]) if kind in ("top", "among") else (None, None)
        assert (record.rank, record.rank_after) == ranks
    assert {record.is_necessary for record in found} == {True, False}
    assert {record.is_sufficient for record in found} == {True, False}


def every_set(oracle, ranking):
    """Evaluates all sets of candidates."""
    sets = chain.from_iterable(combinations(ranking.tolist(), size) for size in range(len(ranking) + 1))
    oracle.ask([frozenset(rows) for rows in sets])
    return result(oracle, ranking, best_evaluated(oracle, ranking.tolist()), 1, EXHAUSTED)


@pytest.mark.parametrize("kind", DECISIONS)
def test_a_survey_counts_the_smallest_counterfactuals_that_exist(toy, kind):
    model, graph = toy
    found = survey_of(
        cases(records(toy, kind, (Explainer("all", policies.temporal, every_set, size=6),)), graph), graph
    )
    for part in found.parts:
        smallest = []
        for each in part.predictions:
            query = graph.query(each.event)
            why = cody.explain(model, graph, query, decision=_about(kind, graph, query), size=6, search=every_set)
            rows = [event.row for event in why.candidates]
            original = margin_by_definition(kind, model, graph, query, frozenset())[0]
            sizes = [
                size
                for size in range(1, len(rows) + 1)
                for change in combinations(rows, size)
                if (margin_by_definition(kind, model, graph, query, frozenset(change))[0] > 0) != (original > 0)
            ]
            smallest.append(min(sizes, default=99))
            assert len(each.rows) == (smallest[-1] if sizes else 0)
        assert part.explained == sum(size < 99 for size in smallest)
        for each in part.fragility:
            assert each.share.value == pytest.approx(np.mean([size <= each.edits for size in smallest]))
        assert smallest == sorted(smallest)


def _about(kind, graph, query):
    if kind != "among":
        return DECISIONS[kind]
    return cody.in_top(2, among=[graph.name(node) for node in rivals_by_definition(kind, graph, query)])


def test_rankings_are_measured_against_all_rivals_though_the_search_knows_some(toy, monkeypatch):
    """With one contender, the search takes sets for counterfactuals that are none among all rivals."""
    model, graph = toy
    monkeypatch.setattr(decision.InTop, "contenders", property(lambda self: self.k))
    monkeypatch.setattr(pipeline, "SEARCHED_AGAIN", 0)
    found = records(toy, "top")
    fooled = 0
    for record in found:
        query, named = graph.query(record.event), frozenset(record.rows)
        before, after = (margin_by_definition("top", model, graph, query, each) for each in (frozenset(), named))
        others = frozenset(range(query.before)) - named
        assert record.is_necessary == ((before[0] > 0) != (after[0] > 0))
        if record.is_necessary != (record.first is not None):
            assert record.without == pytest.approx(after[0], abs=2e-5)
        assert record.is_sufficient == (
            (before[0] > 0) == (margin_by_definition("top", model, graph, query, others)[0] > 0)
        )
        assert (record.rank, record.rank_after) == (before[1], after[1])
        fooled += record.first is not None and not record.is_necessary and record.explainer == "greedy"
    assert fooled  # else this tests nothing


def _scores(model, links, change):
    """The scores of links with nothing changed, and with a change. [2][m]"""
    return np.array([model.logits(link, [frozenset(), change]) for link in links]).T.round(9)


def test_a_search_whose_answer_fails_among_all_rivals_knows_those_that_overtake_the_next_time(toy, monkeypatch):
    model, graph = toy
    monkeypatch.setattr(decision.InTop, "contenders", property(lambda self: self.k))
    explained = partial(cody.explain, model, graph, decision=cody.in_top(2), size=16)
    mended = 0
    for query in map(graph.query, (33, 40, 44, 51, 55)):
        monkeypatch.setattr(pipeline, "SEARCHED_AGAIN", 0)
        once = explained(query)
        monkeypatch.setattr(pipeline, "SEARCHED_AGAIN", 2)
        why = explained(query)
        if once.verdict != "not verified":
            assert (why.rows, why.decision) == (once.rows, once.decision)
            continue
        mended += why.is_counterfactual
        assert why.verdict != "not verified"
        assert why.evaluations > once.evaluations
        assert f"and {len(why.decision.overtaking)} that would overtake, verified against all" in str(why)
        links = [query, *(query._replace(dst=rival) for rival in why.decision.rivals(graph, query).tolist())]
        ranks = [sum(score >= scores[0] for score in scores) for scores in _scores(model, links, why.change)]
        assert [rank <= 2 for rank in ranks] == [False, why.is_counterfactual]
        report = cody.verify_explanation(why.to_json(), model, graph, sets=None)
        assert report.is_confirmed, str(report)
    assert mended  # else this tests nothing


def test_only_what_stands_among_all_rivals_is_replayed(toy, monkeypatch):
    model, graph = toy
    monkeypatch.setattr(decision.InTop, "contenders", property(lambda self: self.k))
    searched, replayed = [], []
    search_widening, verify = pipeline.search_widening, pipeline.verify
    monkeypatch.setattr(
        pipeline, "search_widening", lambda *arguments: searched.append(arguments) or search_widening(*arguments)
    )
    monkeypatch.setattr(
        pipeline, "verify", lambda *arguments, **options: replayed.append(arguments) or verify(*arguments, **options)
    )
    for number, query in enumerate(map(graph.query, (33, 40, 44, 51, 55)), 1):
        cody.explain(model, graph, query, decision=cody.in_top(2), size=16)
        assert len(replayed) == number
    assert len(searched) > len(replayed)


def test_searching_again_stays_within_the_budget(toy, monkeypatch):
    model, graph = toy
    monkeypatch.setattr(decision.InTop, "contenders", property(lambda self: self.k))
    for query in map(graph.query, range(30, EVENTS)):
        why = cody.explain(model, graph, query, decision=DECISIONS["top"], size=8, evaluations=12)
        assert why.evaluations <= 12


def test_added_events_are_measured_against_all_rivals_too(toy, monkeypatch):
    monkeypatch.setattr(decision.InTop, "contenders", property(lambda self: self.k))
    adding = Explainer("adding", policies.temporal, search.scout, size=24, edits=(additions,))
    found = records(toy, "top", (adding,))
    assert any(record.imagined for record in found)
    for record in found:
        assert record.is_necessary == ((record.rank <= K) != (record.rank_after <= K))


# Metrics


def test_rank_metrics_are_medians_and_the_mean_reciprocal_rank_that_is_lost(toy):
    found = records(toy, "top", (GREEDY,))
    before, after = (np.array([getattr(record, name) for record in found], float) for name in ("rank", "rank_after"))
    assert metrics.rank(found) == np.sort(before)[(len(before) - 1) // 2]
    assert metrics.rank_after(found) == np.sort(after)[(len(after) - 1) // 2]
    assert metrics.reciprocal_rank_lost(found) == pytest.approx(np.mean(1 / before - 1 / after))
    kept = [record for record in found if record.kind == "correct" and record.is_necessary]
    assert metrics.rank(kept) <= K < metrics.rank_after(kept)
    assert metrics.reciprocal_rank_lost(kept) > 0


def test_intervals_of_rank_metrics_come_from_samples_of_links(toy):
    found = records(toy, "top", (GREEDY,))
    before = np.array([record.rank for record in found], float)
    counts = np.concatenate(list(metrics.draws(len(found), 50, np.random.default_rng(3))))
    by_hand = [np.sort(np.repeat(before, count.astype(int)))[(len(before) - 1) // 2] for count in counts]
    known = metrics.interval(metrics.rank, found, rng=np.random.default_rng(3), samples=50)
    assert known == metrics.within(np.array(by_hand))
    low, high = metrics.interval(metrics.reciprocal_rank_lost, found, rng=np.random.default_rng(3))
    assert low < metrics.reciprocal_rank_lost(found) < high


def test_where_nothing_is_ranked_there_is_no_rank(toy):
    for kind in ("link", "rather", "between"):
        found = metrics.summary(records(toy, kind, (GREEDY,)))
        assert (found.rank, found.rank_after, found.reciprocal_rank_lost) == (None, None, None)


def test_a_probability_is_that_of_the_model_whatever_the_threshold(toy):
    model, graph = toy
    found = records(toy, "above", (GREEDY,))
    gains = []
    for record in found:
        query, others = graph.query(record.event), frozenset(range(record.event)) - frozenset(record.rows)
        before, alone = 1 / (1 + np.exp(-model.logits(query, [frozenset(), others])))
        gains.append(alone - before if before > 0.7 else before - alone)
    assert metrics.delta_probability(found) == pytest.approx(np.mean(gains), abs=1e-5)
    assert metrics.delta_probability(records(toy, "top", (GREEDY,))) is None
    assert metrics.delta_logit(records(toy, "top", (GREEDY,))) is not None


# Labels


class Classes:
    """Three classes: each counts the events of the two nodes in its own way."""

    identity, hops, classes = "classes", 1, ("good", "odd", "fraud")

    def __init__(self, graph):
        self.graph = graph
        self.table = np.random.default_rng(2).normal(size=(graph.num_events, 3))

    def logits(self, query, changes):
        ends = {query.src, query.dst}
        near = [row for row in range(query.before) if {int(self.graph.src[row]), int(self.graph.dst[row])} & ends]
        return np.array(
            [sum((self.table[row] for row in near if row not in change), np.zeros(3)) for change in changes]
        )


@pytest.fixture(scope="module")
def labelled(toy):
    """Events with labels, some of them unknown, and a model of two classes with a threshold of its own."""
    rng = np.random.default_rng(5)
    graph = toy[1].with_labels(rng.integers(-1, 2, size=EVENTS), ["fine", "fraud"])
    weights = rng.normal(size=EVENTS)

    def count(graph, query, changes):
        return ToyModel(graph, weights).logits(query, changes)

    return as_model(count, graph, identity="labels", hops=1, classes=["fine", "fraud"], threshold=0.6), graph


@pytest.mark.parametrize(
    ("chosen", "threshold"),
    [(None, 0.6), (cody.labelled("fraud"), 0.6), (cody.labelled("fine"), 0.6), (cody.above(0.3), 0.3)],
)
def test_labels_are_correct_where_they_are_as_in_the_log(labelled, chosen, threshold):
    model, graph = labelled
    drawn = sample_kinds(model, graph, EVENTS, COUNTS, period=(0.2, 1), decision=chosen)
    expected = {"correct": [], "incorrect": []}
    for row in range(12, EVENTS):
        score = 1 / (1 + np.exp(-model.logits(graph.query(row), [frozenset()])[0]))
        label = graph.label_of(row)
        if label is not None:
            predicted = "fraud" if score > threshold else "fine"
            expected["correct" if predicted == label else "incorrect"].append(row)
    assert drawn == expected
    assert all(drawn.values())


@pytest.mark.parametrize("chosen", [None, "odd"])
def test_of_several_labels_the_predicted_one_counts_or_the_named_one(toy, chosen):
    graph = toy[1].with_labels(np.random.default_rng(1).integers(-1, 3, size=EVENTS), Classes.classes)
    model, given = Classes(graph), None if chosen is None else cody.labelled(chosen)
    drawn = sample_kinds(model, graph, EVENTS, COUNTS, period=(0.2, 1), decision=given)
    best = {
        row: Classes.classes[int(model.logits(graph.query(row), [frozenset()])[0].argmax())] for row in range(EVENTS)
    }
    for row in chain(*drawn.values()):
        label = graph.label_of(row)
        right = best[row] == label if chosen is None else (best[row] == chosen) == (label == chosen)
        assert row in drawn["correct" if right else "incorrect"]
    assert len(list(chain(*drawn.values()))) == sum(graph.label_of(row) is not None for row in range(12, EVENTS))
    plan = EvaluationPlan("made", "classes", (GREEDY,), decision=given)
    for record in evaluate(model, graph, [Link(row, "correct") for row in drawn["correct"]], plan):
        query, named = graph.query(record.event), frozenset(record.rows)
        scores = model.logits(query, [frozenset(), named, frozenset(range(query.before)) - named])
        place = Classes.classes.index(best[record.event] if chosen is None else chosen)
        margins = scores[:, place] - np.delete(scores, place, axis=1).max(axis=1)
        assert (record.original, record.without, record.only) == pytest.approx(margins, abs=2e-5)


def test_models_of_labels_need_labels(labelled):
    model, graph = labelled
    with pytest.raises(CallError, match="the data have no labels, so it is not known which predictions are correct"):
        cody.survey(model, graph.with_labels(None))


def test_a_decision_that_the_model_cannot_answer_is_one_clear_error(toy, labelled):
    plan = EvaluationPlan("made", "toy", (GREEDY,))
    for case, given, message in (
        (toy, cody.labelled("fraud"), "the model predicts links, not labels such as 'fraud'"),
        (toy, cody.rather_than("nobody"), "nobody"),
        (toy, cody.in_top(2, among=["1", "2", "nobody"]), "nobody"),
        (labelled, cody.in_top(3), "the model predicts labels of events .*, not the best destinations"),
        (labelled, cody.labelled("fruad"), "'fruad' is not .* did you mean 'fraud'"),
    ):
        with pytest.raises(CallError, match=message):
            next(evaluate(*case, [Link(50, "correct")], replace(plan, decision=given)))


def test_where_nothing_can_be_decided_nothing_is_run(toy, tmp_path):
    plan = EvaluationPlan("made", "toy", (GREEDY,), decision=cody.in_top(NODES + 3))
    with pytest.raises(CallError, match=f"every destination is in the top {NODES + 3}"):
        next(run(tmp_path / "run.jsonl", *toy, plan, Sample(3)))
    assert not (tmp_path / "run.jsonl").exists()


# Files


def written(path, case, chosen, count=3, model="toy"):
    plan = EvaluationPlan("made", model, (GREEDY,), decision=chosen)
    for _ in run(path, *case, plan, Sample(count, period=(0.3, 1.0))):
        pass
    return read_records(path)


def test_a_file_says_the_decision_and_is_resumed_with_it_only(toy, tmp_path):
    path = tmp_path / "run.jsonl"
    first = written(path, toy, cody.in_top(K))
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["decision"] == {"kind": "top", "k": K}
    assert {line["decision"]["kind"] for line in lines} == {"top"}
    assert timeless(written(path, toy, cody.in_top(K))) == timeless(first)
    for other, said in (
        (None, "link above 0.5"),
        (cody.in_top(2), "in the top 2"),
        (cody.above(0.8), "link above 0.8"),
    ):
        with pytest.raises(DataError, match=f"there decision is in the top 3, here it is {said}; choose another file"):
            written(path, toy, other)
    more = written(path, toy, cody.in_top(K), 5)
    assert len(more) > len(first)


def test_half_is_the_default_threshold(toy, tmp_path):
    assert timeless(written(tmp_path / "one.jsonl", toy, None)) == timeless(
        written(tmp_path / "other.jsonl", toy, cody.above(0.5))
    )
    header = json.loads((tmp_path / "other.jsonl").read_text().splitlines()[0])
    assert "decision" not in header
    written(tmp_path / "one.jsonl", toy, cody.above(0.5))


def test_a_model_of_labels_has_its_own_threshold(labelled, tmp_path):
    path = tmp_path / "run.jsonl"
    written(path, labelled, None, model="labels")
    header = json.loads(path.read_text().splitlines()[0])
    assert header["decision"] == {"kind": "above", "threshold": 0.6, "positive": "fraud", "negative": "fine"}
    written(path, labelled, cody.labelled("fraud"), model="labels")
    with pytest.raises(DataError, match=r"there decision is fraud above 0\.6, here it is fraud above 0\.5; choose"):
        written(path, labelled, cody.above(0.5), model="labels")


def test_a_record_of_the_wrong_kind_is_noticed(toy, labelled, tmp_path):
    """A label is right or wrong whatever the sign of its margin; a file in which they are mixed up is another's."""
    for case, chosen in ((toy, cody.in_top(K)), (labelled, None)):
        path = tmp_path / f"{chosen}.jsonl".replace("/", "")
        written(path, case, chosen)
        lines = path.read_text().splitlines()
        swapped = [
            re.sub(r',"checksum":"\w+"', "", line.replace('"kind":"correct"', '"kind":"incorrect"'))
            for line in lines[1:]
        ]
        header = json.loads(lines[0])
        header.pop("checksum")
        header["links"] = {"incorrect": sorted(chain(*header["links"].values()))}
        header["instances"] = len(header["links"]["incorrect"])
        path.write_text("\n".join([json.dumps(header), *swapped]) + "\n")
        with pytest.raises(DataError, match="holds a record of another run"):
            written(path, case, chosen)


def test_records_of_two_decisions_are_not_counted_together(toy, tmp_path):
    files = [tmp_path / "top.jsonl", tmp_path / "above.jsonl"]
    both = [*written(files[0], toy, cody.in_top(K)), *written(files[1], toy, cody.above(0.8))]
    with pytest.raises(
        DataError, match=r"mix two different decisions, 'in the top 3' and 'link above 0\.8'; pass their"
    ):
        tables(both)
    with pytest.raises(CallError, match=r"about different decisions: 'in the top 3' and 'link above 0\.8'"):
        records_of_models(files)
    assert len(records_of_models(files[:1])) == 1


def test_two_models_of_labels_may_each_have_their_threshold(labelled, tmp_path):
    model, graph = labelled
    files = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    written(files[0], labelled, None, model="one")
    written(files[1], (replace(model, threshold=0.4, identity="other"), graph), None, model="other")
    assert len(records_of_models(files)) == 2


# Words


def test_tables_say_what_was_decided_and_show_ranks(toy):
    text = as_text(tables(records(toy, "top")))
    number = len({record.event for record in records(toy, "top") if record.kind == "correct"})
    assert f"toy on made, {number} links in the top 3 and" in text
    assert "links not in the top 3" in text
    assert "RR lost: mean of 1/rank − 1/rank without X" in text
    assert "RR lost" not in as_text(tables(records(toy, "above")))
    assert "links above 0.7 and" in as_text(tables(records(toy, "above")))


def test_the_papers_figures_are_for_its_own_decision():
    made = [
        replace(record, decision=cody.in_top(3))
        for record in random_records(np.random.default_rng(0), model="tgn", explainer="cody-temporal")
    ]
    assert all(not table.has_paper for table in tables(made, paper=True))
    assert any(table.has_paper for table in tables([replace(one, decision=cody.above()) for one in made], paper=True))


@pytest.mark.parametrize(
    ("chosen", "subject", "correct", "incorrect"),
    [
        (cody.above(), "link", "2 correct links", "2 incorrect links"),
        (cody.above(0.8), "link", "2 links above 0.8", "2 links not above 0.8"),
        (cody.in_top(9), "link", "2 links in the top 9", "2 links not in the top 9"),
        (cody.rather_than("b"), "link", "2 links ranked above b", "2 links not ranked above b"),
        (cody.between(2, 5), "link", "2 links within 2 to 5", "2 links outside 2 to 5"),
        (DECISIONS["own"], "link", "2 links decided 'clear'", "2 links decided 'unclear'"),
        (None, "event", "2 correctly labelled events", "2 incorrectly labelled events"),
        (decision.Above(0.6, "bad", "good"), "node", "2 correctly labelled nodes", "2 incorrectly labelled nodes"),
    ],
)
def test_kinds_have_a_name_under_each_decision(chosen, subject, correct, incorrect):
    assert kind_in_words("correct", chosen, subject).counted(2) == correct
    assert kind_in_words("incorrect", chosen, subject).counted(2) == incorrect


MODEL = """
import numpy as np
from cody import as_model
from cody.models import ToyModel

def make(graph):
    weights = np.random.default_rng(5).normal(size=graph.num_events)
    count = lambda graph, query, changes: ToyModel(graph, weights).logits(query, changes)
    return as_model(count, graph, identity="labels", hops=1, classes=["fine", "fraud"], threshold=0.6)

def links(graph):
    return ToyModel(graph, np.random.default_rng(5).normal(size=graph.num_events))
"""


@pytest.fixture
def where(labelled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.py").write_text(MODEL)
    save_graph(labelled[1], tmp_path / "graph")
    return "--data", tmp_path / "graph", "--model"


def test_evaluations_and_surveys_call_events_what_the_data_call_them(where, labelled, tmp_path):
    graph = labelled[1]
    named = save_graph(graph.with_labels(graph.labels, graph.label_names, "payment"), tmp_path / "named")
    about = ("--data", named, "--model", "made:make", "--instances", 4, "--period", "0.2..1")
    assert "4 correctly labelled payments" in command("evaluate", *about, "--out", "run.jsonl")
    shown = " ".join(command("survey", *about, "--html", "survey.html").split())
    assert "4 incorrectly labelled payments" in shown
    assert "another payment of the source" in shown
    assert not re.search(r"\bevents\b", shown)
    visible = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", Path("survey.html").read_text(), flags=re.DOTALL)
    assert "Correctly labelled payments" in visible
    assert "How many payments does a prediction depend on?" in visible
    assert "another payment of the source" in visible


def speaks_of_links(text):
    return re.search(r"\blinks?\b", text, re.IGNORECASE)


def test_nothing_calls_a_label_a_link(where, tmp_path):
    shown = command("evaluate", *where, "made:make", "--instances", 4, "--period", "0.2..1", "--out", "run.jsonl")
    assert "4 correctly labelled events" in shown
    assert "4 incorrectly labelled events" in shown
    assert not speaks_of_links(shown)
    assert not speaks_of_links(as_text(tables(read_records("run.jsonl"))))
    options = ("--instances", 99, "--period", "0.2..1", "--html", "survey.html")
    shown = command("survey", *where, "made:make", *options)
    assert "correctly labelled events" in shown
    assert not speaks_of_links(shown)
    page = (tmp_path / "survey.html").read_text()
    visible = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert "Correctly labelled events" in visible
    assert not speaks_of_links(visible)
    printed = command("survey", *where, "made:make", "--instances", 9, "--period", "0.2..1", "--json")
    assert not speaks_of_links(re.sub(r'"links": ?\d+', "", printed))


@pytest.mark.parametrize(
    ("options", "words", "decided"),
    [
        (("--top", 3), "links in the top 3", {"kind": "top", "k": 3}),
        (
            ("--top", 2, "--among", "1,2,3,4"),
            "links in the top 2",
            {"kind": "top", "k": 2, "among": ["1", "2", "3", "4"]},
        ),
        (("--rather-than", 4), "links ranked above 4", {"kind": "rather", "other": "4"}),
        (("--between=-1..1",), "events within -1 to 1", {"kind": "between", "low": -1.0, "high": 1.0}),
        (
            ("--threshold", 0.7),
            "links above 0.7",
            {"kind": "above", "threshold": 0.7, "positive": "link", "negative": "no link"},
        ),
    ],
)
def test_commands_take_every_decision(where, options, words, decided):
    given = (*where, "made:links", *options, "--period", "0.3..1", "--instances", 3)
    shown = command("evaluate", *given, "--explainers", "greedy", "--out", "run.jsonl")
    assert f"3 {words}\n" in shown
    assert ("RR lost" in shown) == ("--top" in options)
    header = json.loads(Path("run.jsonl").read_text().splitlines()[0])
    assert header["decision"] == decided
    surveyed = command("survey", *given, "--out", "survey.jsonl")
    assert f"3 {words}, " in " ".join(surveyed.split())  # lines are folded where the folder's name ends them
    (found,) = read_surveys(command("survey", "survey.jsonl", "--data", where[1], "--json")).surveys
    assert found.parts[0].title == words
    (summary, *_) = json.loads(command("evaluate", *given, "--explainers", "greedy", "--out", "run.jsonl", "--json"))
    known = [record for record in iterate_records("run.jsonl") if record.kind == summary["kind"]]
    assert summary["fidelity_plus"] == np.mean([record.is_necessary for record in known])
    assert (summary["rank"] is not None) == ("--top" in options)


def test_decisions_that_contradict_other_options_are_refused(where):
    message = command("evaluate", *where, "made:links", "--top", 3, "--paper", "--out", "run.jsonl", code=2)
    assert "--paper compares predicted links, as the paper does: leave out the decision" in message
    command("survey", *where, "made:links", "--top", 3, "--instances", 2, "--period", "0.3..1", "--out", "a.jsonl")
    message = command("survey", "a.jsonl", "--data", where[1], "--top", 3, code=2)
    assert "--top is for a new survey; records in files are counted as they are" in message


def test_learned_explainers_say_what_they_support(toy):
    model, graph = toy
    learned = replace(GREEDY, name="pgexplainer", learned=True)
    why = learned.explain(model, graph, graph.query(50), decision=cody.above(0.5))
    assert why.rows == GREEDY.explain(model, graph, graph.query(50)).rows
    message = r"'pgexplainer' supports only whether a link is predicted \(threshold 0\.5\).*tempme, pgexplainer, tgnn"
    with pytest.raises(CallError, match=message):
        learned.explain(model, graph, graph.query(50), decision=cody.above(0.8))
    plan = EvaluationPlan("made", "toy", (GREEDY, learned), decision=cody.in_top(3))
    with pytest.raises(CallError, match=message):
        next(evaluate(model, graph, [Link(50, "correct")], plan))


def test_a_trained_explainer_that_is_missing_is_not_what_keeps_it_from_a_decision(where):
    supports = "supports only whether a link is predicted"
    question = ("explain", *where, "made:links", "--event", 40, "--explainer", "pgexplainer", "--scorer", "nowhere")
    assert supports in command(*question, "--top", 3, code=2)
    message = command(*question, code=1)
    assert supports not in message
    assert "no trained explainer 'nowhere'" in message
    run = ("evaluate", *where, "made:links", "--explainers", "tempme", "--out", "run.jsonl")
    assert supports in command(*run, "--rather-than", "3", code=2)


def test_a_survey_in_python_takes_a_decision(toy):
    model, graph = toy
    found = cody.survey(model, graph, range(40, EVENTS), decision=cody.in_top(K))
    correct, incorrect = found.parts
    assert (correct.title, incorrect.title) == ("links in the top 3", "links not in the top 3")
    assert found.figure == "rank"
    for part in found.parts:
        for each in part.predictions:
            _, rank = margin_by_definition("top", model, graph, graph.query(each.event), frozenset())
            assert (each.figure, each.score) == (str(rank), None)
    example = next(each for each in correct.predictions if each.rows)
    assert re.search(
        r"Without \d of \d+ past events \d falls from rank [123] to rank \d: not in the top 3\.", example.sentence
    )


@pytest.mark.parametrize("kind", ["top", "rather"])
def test_events_of_rivals_are_told_apart(toy, kind):
    graph = toy[1]
    model = ToyModel(graph, np.random.default_rng(1).normal(size=EVENTS), indirect=0.5)  # it looks two hops away
    scout = Explainer("scout", policies.temporal, search.scout, size=16)
    found = cases(records((model, graph), kind, (scout,)), graph)
    seen = set()
    for case in found:
        query = case.query
        rivals = rivals_by_definition(kind, graph, query)
        scores = {node: model.logits(query._replace(dst=node), [frozenset()])[0] for node in (*rivals, query.dst)}
        best = sorted(scores, key=scores.get)[-K - decision.SHOWN_BELOW :] if kind == "top" else rivals
        for row, place in zip(case.candidates.tolist(), relations(graph, case).tolist(), strict=True):
            ends = {int(graph.src[row]), int(graph.dst[row])}
            if not ends & {query.src, query.dst}:
                name = RIVAL if ends & set(best) else FURTHER
                assert relation_names(case.record)[place] == name
                seen.add(name)
            else:
                assert place < 4
    assert seen == {RIVAL, FURTHER}
    part = survey_of(found, graph).parts[0]
    assert [each.what for each in part.relations] == [SAME, REVERSE, SOURCE, DESTINATION, RIVAL, FURTHER]
    assert sum(each.decisive.value for each in part.relations) == pytest.approx(1)
