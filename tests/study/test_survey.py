"""What a survey says: shares that can be computed by hand, and on a campus, what was planted there."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import cody
from cody.data import campus, save_graph
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.models.contract import as_model
from cody.models.toy import ToyModel
from cody.study import cases, compare_models, read_surveys, survey_of
from cody.study.cases import DESTINATION, FURTHER, RELATIONS, REVERSE, SAME, SOURCE, ExplainedLink, columns, relations
from cody.study.explainers import WHY_NOT, explainer, find_edits
from cody.study.record_file import read_runs
from cody.study.run import EvaluationPlan, Link, evaluate
from cody.study.shares import Share, contrast, mean
from cody.train.checkpoint import Checkpoint, save_model
from commands import run
from random_events import random_graph, random_network
from some_records import record

DAY, HOUR = 86_400.0, 3_600.0


def explained(model, graph, links, name="mine"):
    plan = EvaluationPlan("some", name, (explainer("scout"),))
    return cases(list(evaluate(model, graph, links, plan)), graph)


def kind_of(graph, node):
    return graph.name(int(node)).split()


def planted(graph, query, changes):
    """Follows the rules of a campus: an enrolment leads to a post within two days, a post to an answer within hours."""
    (one, number), (other, others) = kind_of(graph, query.src), kind_of(graph, query.dst)
    if (one, other) == ("student", "forum"):
        who, wanted, delay = query.src, f"course {others}", 2.1 * DAY
    elif (one, other) == ("course", "student"):
        who, wanted, delay = query.dst, f"forum {number}", 3.1 * HOUR
    else:
        return [-1.0] * len(changes)
    rows = [row for row in graph.history(who, query.before).tolist() if query.time - graph.time[row] <= delay]
    causes = [row for row in rows if graph.src[row] == who and graph.name(int(graph.dst[row])) == wanted]
    return [1.0 if set(causes) - change else -1.0 for change in changes]


@pytest.fixture(scope="module")
def made():
    return campus(students=30, courses=4, days=14, enrolments=2, noise=0.2, seed=1)


@pytest.mark.parametrize(
    ("rule", "relation", "within"), [("forum", SOURCE, 2.1 * DAY), ("student", DESTINATION, 3.1 * HOUR)]
)
def test_on_a_campus_the_survey_says_what_was_planted(made, rule, relation, within):
    graph = made.graph
    rows = [row for row, causes in enumerate(made.causes) if causes and kind_of(graph, graph.dst[row])[0] == rule]
    links = [Link(row, "correct") for row in rows[-40:]]
    found = explained(as_model(planted, graph, identity="planted"), graph, links)
    for case in found:
        if case.size == 1:
            assert set(case.candidates[case.decisive].tolist()) == made.causes[case.event]
    (part,) = survey_of(found, graph).parts
    assert (part.links, part.explained) == (40, 40)
    assert part.fragility[0].share.value > 0.9  # one event is the cause
    shares = {each.what: each for each in part.relations}
    assert shares[relation].decisive.value > 0.99
    assert shares[relation].ratio.low > 1.5
    assert all(each.decisive.value < 0.01 for name, each in shares.items() if name != relation)
    assert part.age.decisive < within
    assert part.age.candidates > part.age.decisive


@pytest.fixture
def graph():
    return TemporalGraph.from_arrays(src=[0, 1, 0, 2, 3, 0], dst=[1, 0, 2, 1, 2, 1], time=[1, 2, 3, 4, 5, 6])


def test_every_event_has_one_relation_to_a_link(graph):
    case = ExplainedLink(record(), graph.query(5), np.arange(5), np.zeros(5, dtype=bool))
    assert [RELATIONS[kind] for kind in relations(graph, case)] == [SAME, REVERSE, SOURCE, DESTINATION, FURTHER]


def test_shares_are_means_over_links(graph):
    found = contrast("such", [1.0, 0.5], [0.25, 0.25])
    assert (found.decisive.value, found.candidates.value, found.ratio.value) == (0.75, 0.25, 3.0)
    assert (found.decisive.low, found.decisive.high) == (0.5, 1.0)
    assert (found.ratio.low, found.ratio.high) == (2.0, 4.0)
    assert contrast("never", [0.0, 0.0], [0.0, 0.0]).ratio is None
    assert mean([1, 1, 1]) == Share(1.0, 1.0, 1.0)
    wide, narrow = mean([0, 1] * 5), mean([0, 1] * 500)
    assert wide.high - wide.low > 4 * (narrow.high - narrow.low)


def test_fragility_counts_links_by_the_size_of_their_counterfactual():
    graph = random_graph(np.random.default_rng(1), nodes=10, events=60, ties=False)
    model = ToyModel(graph, weights=np.where(np.arange(60) % 3, 2.0, -1.0), bias=-0.5)
    links = [Link(row, "correct") for row in range(20, 60) if model.logits(graph.query(row), [frozenset()])[0] > 0]
    found = explained(model, graph, links)
    for case in found:
        assert set(case.candidates[case.decisive].tolist()) == set(case.record.rows if case.record.is_necessary else ())
    (part,) = survey_of(found, graph).parts
    assert max(case.size for case in found) > 1
    for each in part.fragility:
        expected = np.mean([case.record.is_necessary and len(case.record.rows) <= each.edits for case in found])
        assert each.share.value == pytest.approx(expected)
        assert each.share.low <= expected <= each.share.high
    assert sum(share.decisive.value for share in part.relations) == pytest.approx(1)
    assert part.most_fragile[0].rows
    assert len(part.most_fragile[0].rows) <= min(case.size for case in found if case.flips)


def test_links_without_a_counterfactual_are_robust_and_say_nothing_about_what_decides(graph):
    always = as_model(lambda graph, query, changes: [3.0] * len(changes), graph, identity="always")
    (part,) = survey_of(explained(always, graph, [Link(5, "correct")]), graph).parts
    assert (part.explained, part.relations, part.age) == (0, (), None)
    assert all(each.share.value == 0 for each in part.fragility)
    assert part.most_fragile[0].rows == part.most_robust == ()


def test_a_link_without_a_counterfactual_is_not_shown_as_fragile(where):
    shown = run(*words_for(where, "tgn"), "--events", "150,160,170", "--evaluations", 1)
    assert "(none found)" in shown
    assert "fragile" not in shown
    assert "The most robust ones:" in shown


def test_nodes_decide_for_links_that_are_not_their_own():
    star = TemporalGraph.from_arrays(src=[9, 1, 2, 3, 1, 2, 3], dst=[8, 9, 9, 9, 4, 5, 6], time=[1, 2, 3, 4, 5, 6, 7])
    model = ToyModel(star, weights=[0, 1, 1, 1, 0, 0, 0], bias=-0.2)
    found = explained(model, star, [Link(4, "correct"), Link(5, "correct"), Link(6, "correct")])
    (part,) = survey_of(found, star).parts
    (decider,) = part.nodes
    assert (decider.name, decider.decides) == ("9", 3)
    assert decider.could == 3


def test_two_models_are_compared_on_the_links_that_both_have(graph):
    one = ToyModel(graph, weights=[5, 1, 1, 1, 0, 0], bias=-3)
    other = ToyModel(graph, weights=[1, 1, 1, 5, 0, 0], bias=-3)
    links = [Link(5, "correct")]
    mine, theirs = explained(one, graph, links), explained(other, graph, links, "other")
    same, different = compare_models(mine, mine, graph), compare_models(mine, theirs, graph)
    assert (same.overlap.value, same.same_reason.value, same.same_decision.value) == (1, 1, 1)
    assert (different.overlap.value, different.same_reason.value) == (0, 0)
    assert (different.differ[0].rows, different.differ[0].others) == ((0,), (3,))
    wrong = [replace(case, record=replace(case.record, kind="incorrect")) for case in theirs]
    assert compare_models(mine, wrong, graph).same_decision.value == 0
    assert compare_models(mine, wrong, graph).overlap is None


@pytest.fixture(scope="module")
def imagining():
    """A model for which one event more near a link is enough, and its explanations, which may add and move events."""
    graph = random_graph(np.random.default_rng(1), nodes=10, events=60, ties=False)
    model = ToyModel(graph, weights=np.zeros(60), bias=-0.5, half_life=1e9)
    plan = EvaluationPlan("some", "mine", (explainer("scout", edits=find_edits(WHY_NOT), size=20),))
    links = [Link(row, "incorrect") for row in range(56, 60)]
    return graph, cases(list(evaluate(model, graph, links, plan)), graph)


def test_added_events_are_described_like_others(imagining):
    graph, found = imagining
    added = [case for case in found if case.record.is_necessary and case.record.imagined]
    assert added
    for case in found:
        assert case.size == (case.record.size if case.record.is_necessary else 0)
        assert len(case.candidates) == case.record.candidates
        times = columns(graph, case).time
        assert (np.diff(times) >= 0).all()
    (part,) = survey_of(found, graph).parts
    for each in part.fragility:
        expected = np.mean([case.record.is_necessary and case.record.size <= each.edits for case in found])
        assert each.share.value == pytest.approx(expected)
    assert sum(share.decisive.value for share in part.relations) == pytest.approx(1)
    events = [event for example in part.predictions for event in example.events if event.edit == "added"]
    records = [edit for case in added for edit in case.record.imagined if edit.edit == "added"]
    assert sorted((e.src, e.dst, e.time) for e in events) == sorted((e.src, e.dst, e.time) for e in records)
    assert any("event added" in example.sentence for example in part.predictions)


def test_models_that_would_add_the_same_event_have_the_same_reason(imagining):
    graph, mine = imagining
    later = [replace(case, imagined=tuple(e._replace(time=e.time + 1e-3) for e in case.imagined)) for case in mine]
    assert compare_models(mine, later, graph).overlap.value == 1


def test_ages_are_shares_that_add_up(made):
    graph = made.graph
    rows = [row for row, causes in enumerate(made.causes) if causes]
    found = explained(as_model(planted, graph, identity="planted"), graph, [Link(row, "correct") for row in rows[-20:]])
    (part,) = survey_of(found, graph).parts
    assert sum(each.decisive.value for each in part.ages) == pytest.approx(1)
    assert sum(each.candidates.value for each in part.ages) == pytest.approx(1)
    names = {each.what for each in part.ages}
    assert all(event.age in names for example in part.predictions for event in example.events)


# The command


@pytest.fixture
def where(tmp_path):
    graph = random_graph(np.random.default_rng(0), nodes=20, events=200)
    save_graph(graph, tmp_path / "events")
    for kind in ("tgn", "tgat"):
        save_model(tmp_path / kind, Checkpoint(random_network(graph, kind), graph.identity))
    return tmp_path


def words_for(where, *models):
    named = [word for model in models for word in ("--model", where / model)]
    return ("survey", "--data", where / "events", *named, "--instances", 3, "--evaluations", 80)


def test_a_survey_goes_on_from_its_records(where):
    words = (*words_for(where, "tgn"), "--out", where / "run.jsonl", "--json")
    first = json.loads(run(*words))
    written = (where / "run.jsonl").read_text()
    assert json.loads(run(*words)) == first
    assert (where / "run.jsonl").read_text() == written
    lines = written.splitlines(keepends=True)
    (where / "run.jsonl").write_text("".join(lines[:-2]))  # as if it had been killed
    assert json.loads(run(*words)) == first
    assert {part["kind"] for part in first["surveys"][0]["parts"]} <= {"correct", "incorrect"}


def test_every_figure_is_in_the_csv(where):
    rows = list(csv.DictReader(run(*words_for(where, "tgn"), "--csv").splitlines()))
    assert {"flipped by at most 1", "flipped by at most 10"} <= {row["figure"] for row in rows}
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows if not row["of"])


def test_two_models_are_asked_about_the_same_links(where):
    printed = read_surveys(run(*words_for(where, "tgn", "tgat"), "--out", where / "run.jsonl", "--json"))
    numbers = [sum(part.links for part in each.parts) for each in printed.surveys]
    assert numbers[0] == numbers[1] == printed.comparison.links
    assert (where / "run-2.jsonl").exists()
    shown = run(*words_for(where, "tgn", "tgat"), "--out", where / "run.jsonl")
    assert "the same decision on" in shown
    assert "mean overlap" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_links_can_be_those_of_a_node_or_given(where):
    shown = run(*words_for(where, "tgn"), "--period", "0.5..1", "--node", 3)
    listed = re.findall(r"^\s*\d+  (\d+) → (\d+) ", shown, re.MULTILINE)
    assert listed
    assert all("3" in ends for ends in listed)
    document = json.loads(run(*words_for(where, "tgn"), "--events", "150,160", "--json"))
    examples = [each["event"] for part in document["surveys"][0]["parts"] for each in part["most_fragile"]]
    assert sorted(examples) == [150, 160]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--explainer", "pbone"], "a survey needs a search"),
        (["--events", "3", "--node", "2"], "leave out --node"),
        (["--events", "999"], "event 999 is out of range"),
        (["--csv", "--json"], "not both"),
        (["--node", "77"], "node 77 is out of range"),
    ],
)
def test_calls_that_make_no_sense_are_refused(where, words, message):
    assert message in run(*words_for(where, "tgn"), *words, code=2)


def test_a_model_is_not_compared_with_itself(where):
    assert "given twice" in run(*words_for(where, "tgn", "tgn"), code=2)


def test_a_survey_can_allow_other_edits_than_removals(where):
    words = (*words_for(where, "tgn"), "--events", "150,160,170", "--allow", "add,move")
    document = json.loads(run(*words, "--json"))
    (found,) = document["surveys"]
    assert found["allowed"] == ["additions", "moves"]
    events = [e for part in found["parts"] for example in part["predictions"] for e in example["events"]]
    assert events
    assert {event["edit"] for event in events} <= {"added", "moved"}
    assert "changes with " in run(*words)
    words = (*words[:-1], "remove,add")
    document = json.loads(run(*words, "--json"))
    rows = {row for part in document["surveys"][0]["parts"] for each in part["most_fragile"] for row in each["rows"]}
    removed = {f"{row} removed" for row in rows if isinstance(row, int)}
    assert removed
    assert removed <= set(re.findall(r"\d+ removed", run(*words)))
    assert "--allow 'nothing'" in run(*words_for(where, "tgn"), "--allow", "nothing", code=2)


def test_one_call_surveys_a_model_and_gives_what_its_steps_give():
    graph = cody.load("collegemsg")
    model = cody.load_model("tgn-collegemsg", graph)
    rows, seen = [53_852, 53_854, 53_869], []
    found = cody.survey(model, graph, rows, watch=lambda done, total: seen.append((done, total)), model_name="tgn")
    assert [(part.kind, part.links) for part in found.parts] == [("correct", 1), ("incorrect", 2)]
    assert {each.event for part in found.parts for each in part.predictions} == set(rows)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    links = [Link(row, "correct" if row == 53_854 else "incorrect") for row in (53_854, 53_852, 53_869)]
    plan = EvaluationPlan("the data", "tgn", (explainer("scout"),))
    assert found == survey_of(cases(evaluate(model, graph, links, plan), graph), graph)
    drawn = cody.survey(model, graph, instances=2, kinds=["correct"], seed=3)
    assert [(part.kind, part.links) for part in drawn.parts] == [("correct", 2)]
    with pytest.raises(CallError, match="no link is given"):
        cody.survey(model, graph, [])


def test_halves_of_a_survey_made_apart_are_one(where, tmp_path):
    base = ("survey", "--data", where / "events", "--explainer", "scout")
    rows = list(range(150, 190))
    for name, part in (("whole", rows), ("first", rows[:25]), ("second", rows[20:])):  # some are in both halves
        listed = ",".join(map(str, part))
        run(*base, "--model", where / "tgn", "--events", listed, "--out", tmp_path / f"{name}.jsonl", "--instances", 40)
    halves = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    merged = run("survey", *halves, "--data", where / "events", "--json")
    assert json.loads(merged) == json.loads(
        run("survey", tmp_path / "whole.jsonl", "--data", where / "events", "--json")
    )
    parts = json.loads(merged)["surveys"][0]["parts"]
    assert sum(part["links"] for part in parts) == len(rows)
    run("survey", *halves, "--data", where / "events", "--html", tmp_path / "both.html")
    assert (tmp_path / "both.html").exists()
    assert len(read_runs(halves)) == len(rows)  # what is in both counts once, in tables and figures too


def test_files_that_cannot_be_counted_together_are_refused(where, tmp_path):
    base = ("survey", "--data", where / "events", "--model", where / "tgn", "--events", "150,151,152")
    run(*base, "--out", tmp_path / "one.jsonl")
    run(*base, "--candidates", 8, "--out", tmp_path / "other.jsonl")
    run(*base, "--explainer", "greedy", "--out", tmp_path / "greedy.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    here = ("--data", where / "events")
    for files, options, message in [
        (["one", "other"], here, "cannot be counted together: candidates is"),
        (["one", "greedy"], here, "records of 2 explainers: choose with --explainer"),
        (["one"], (*here, "--explainer", "cody"), "no records of cody: only of scout"),
        (["empty"], here, "the files have no records: none at all"),
        (["one"], (), "are about other data"),
        (["one"], (*here, "--instances", 3), "--instances is for a new survey"),
        (["one"], (*here, "--pages", "x"), "--pages are linked from the survey's page"),
    ]:
        assert message in run("survey", *(tmp_path / f"{name}.jsonl" for name in files), *options, code=2)


def test_the_csv_says_who_decides(where, tmp_path):
    words = (*words_for(where, "tgn"), "--out", tmp_path / "records.jsonl")
    (found,) = json.loads(run(*words, "--json"))["surveys"]
    rows = [row for row in csv.DictReader(run(*words, "--csv").splitlines()) if row["of"]]
    assert {row["figure"] for row in rows} <= {
        f"{kind}: {w}" for kind in ("node", "event") for w in ("decides", "could decide")
    }
    listed = {(part["kind"], each["name"], each["decides"]) for part in found["parts"] for each in part["nodes"]}
    assert listed
    assert {(row["kind"], row["of"], int(row["value"])) for row in rows if row["figure"] == "node: decides"} == listed
