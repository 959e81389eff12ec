"""Logs in which one action is many events: a mail to many people. Its copies can be protected, and that is advised."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cody import Protected, explain
from cody.data import save_graph, summarise
from cody.errors import CallError
from cody.explaining.explanation import Explanation
from cody.explaining.what_if import Scenario
from cody.graph import TemporalGraph
from cody.graph.neighbourhood import candidates
from cody.models.toy import ToyModel
from cody.search.proposals import moves, removals
from cody.study import cases, survey_of
from cody.study.explainers import explainer
from cody.study.record_file import read_records
from cody.study.run import EvaluationPlan, Link, evaluate
from cody.train.checkpoint import Checkpoint, save_model
from cody.web import Live
from commands import run
from random_events import random_network

DAYS = 12
RECIPIENTS = 6
LINK = (DAYS - 1) * (RECIPIENTS + 2) - 1  # the last copy of the last mail
OPTION = "--protect simultaneous"


def mails():
    """Each day, 0 and 1 write to each other; then 0 writes to everybody at the same second."""
    rows = []
    for day in range(DAYS - 1):
        start = 1_741_000_000.0 + 86_400 * day
        rows += [(0, 1, start), (1, 0, start + 600)]
        rows += [(0, 2 + other, start + 3600) for other in range(RECIPIENTS)]
    src, dst, time = zip(*rows, strict=True)
    return TemporalGraph.from_arrays(src=src, dst=dst, time=time)


GRAPH = mails()
COPIES = list(range(LINK - RECIPIENTS + 1, LINK))


def expects_copies():
    """A model in which the other copies of a mail decide."""
    weights = np.zeros(GRAPH.num_events)
    weights[COPIES] = 2.0
    return ToyModel(GRAPH, weights, bias=-0.5)


def test_events_of_the_moment_of_the_link_can_be_protected():
    query = GRAPH.query(LINK)
    assert set(COPIES) <= set(candidates(GRAPH, query, size=16).tolist())
    kept = candidates(GRAPH, query, size=16, protect=Protected(simultaneous=True))
    assert len(kept) == 16
    assert GRAPH.time[kept].max() < query.time
    both = candidates(GRAPH, query, size=16, protect=Protected(nodes=[1], simultaneous=True))
    assert not {0, 1} <= {*GRAPH.src[both].tolist(), *GRAPH.dst[both].tolist()}
    other = GRAPH.query(LINK - RECIPIENTS)  # a copy of nothing
    np.testing.assert_array_equal(
        candidates(GRAPH, other), candidates(GRAPH, other, protect=Protected(simultaneous=True))
    )


@pytest.mark.parametrize("edits", [removals, (removals, moves)])
def test_nothing_of_that_moment_is_removed_or_moved(edits):
    why = explain(expects_copies(), GRAPH, GRAPH.query(LINK), protect=Protected(simultaneous=True), edits=edits)
    touched = {event.row if event.replaces is None else event.replaces for event in why.candidates}
    assert not touched & set(COPIES)
    assert why.parameters["protect"]["simultaneous"] is True
    assert "Protected: events at the time of the link." in str(why)
    assert Explanation.from_json(why.to_json()) == why


def test_the_moment_is_that_of_the_link_also_where_a_model_sees_less():
    class SeesYesterday(ToyModel):
        def sees_before(self, query):
            return query.before - RECIPIENTS - 2  # in the middle of the mail of the day before

    model = SeesYesterday(GRAPH)
    query = GRAPH.query(LINK)
    seen = [event.row for event in explain(model, GRAPH, query, protect=Protected(simultaneous=True)).candidates]
    assert seen == [event.row for event in explain(model, GRAPH, query).candidates]
    assert GRAPH.time[seen[-1]] == GRAPH.time[model.sees_before(query)]


def test_a_mask_needs_the_moment():
    with pytest.raises(CallError, match=r"protected\.at"):
        Protected(simultaneous=True).mask(GRAPH, np.arange(3))
    with pytest.raises(CallError, match="must be True or False"):
        explain(expects_copies(), GRAPH, GRAPH.query(LINK), protect=Protected(simultaneous="yes"))


def test_an_explanation_recommends_it_where_many_candidates_are_copies():
    why = explain(expects_copies(), GRAPH, GRAPH.query(LINK), size=20)
    advice = "5 of 20 past events have the same timestamp as the link, including 5 of 5 decisive events."
    assert why.simultaneity.startswith(advice)
    assert OPTION in why.simultaneity
    assert why.simultaneity in str(why)
    assert why.simultaneity in why.to_html()
    assert json.loads(why.to_json())["remarks"] == [why.simultaneity]


def test_it_is_recommended_where_few_candidates_are_copies_but_decide():
    weights = np.zeros(GRAPH.num_events)
    weights[COPIES[-1]] = 1.0
    why = explain(ToyModel(GRAPH, weights, bias=-0.5), GRAPH, GRAPH.query(LINK), size=64)
    assert why.removed == (COPIES[-1],)
    assert "5 of 64 past events" in why.simultaneity
    assert "including the decisive one" in why.simultaneity


def test_it_is_not_recommended_where_it_does_not_matter():
    protected = explain(expects_copies(), GRAPH, GRAPH.query(LINK), protect=Protected(simultaneous=True))
    weights = np.zeros(GRAPH.num_events)
    weights[COPIES[0] - 1] = 1.0
    few = explain(ToyModel(GRAPH, weights, bias=-0.5), GRAPH, GRAPH.query(LINK), size=64)
    alone = explain(expects_copies(), GRAPH, GRAPH.query(LINK - RECIPIENTS))
    for why in (protected, few, alone):
        assert why.simultaneity == ""
        assert json.loads(why.to_json())["remarks"] == []


def explained(protect=None):
    links = [Link(LINK - 8 * day, "correct") for day in range(3)]
    plan = EvaluationPlan("mails", "toy", (explainer("scout", size=20, protect=protect),))
    return cases(list(evaluate(ToyModel(GRAPH, bias=-2.0), GRAPH, links, plan)), GRAPH)


def test_a_survey_recommends_it_and_says_what_was_protected():
    found = survey_of(explained(), GRAPH)
    (part,) = found.parts
    assert part.simultaneous.candidates.value == pytest.approx(5 / 20)
    assert "25 % of the candidates" in part.simultaneous.advice
    assert OPTION in part.simultaneous.advice
    assert part.simultaneous.advice in found.to_html()
    assert found.to_dict()["parts"][0]["simultaneous"]["candidates"]["value"] == pytest.approx(0.25)
    assert "simultaneous: candidates" in {row["figure"] for row in found.rows()}
    protected = survey_of(explained(Protected(simultaneous=True)), GRAPH)
    assert protected.parts[0].simultaneous.candidates.value == 0
    assert protected.parts[0].simultaneous.advice == ""
    assert protected.protected == "Protected: events at the time of the link."
    assert protected.protected.rstrip(".") in protected.to_html()


def test_the_candidates_of_a_case_are_those_that_the_explainer_had():
    for case in explained(Protected(simultaneous=True, nodes=["1"])):
        assert len(case.candidates) == case.record.candidates
        assert GRAPH.time[case.candidates].max() < case.query.time


def test_the_share_of_simultaneous_events_is_part_of_the_summary():
    assert summarise(GRAPH).simultaneous == pytest.approx(RECIPIENTS / (RECIPIENTS + 2))
    alone = TemporalGraph.from_arrays(src=[0, 1, 0, 0], dst=[2, 2, 1, 2], time=[1.0, 1.0, 2.0, 3.0])
    assert summarise(alone).simultaneous == 0  # at the same time, but not of the same source


def test_a_server_protects_them_too():
    live = Live(GRAPH, expects_copies(), protect=Protected(simultaneous=True))
    case = Scenario(GRAPH.query(LINK), LINK)
    assert not {event.row for event in live.look(case).candidates} & set(COPIES)
    named = live.look(case._replace(removed=frozenset(COPIES[:1])))
    assert COPIES[0] in {event.row for event in named.candidates}  # what somebody takes away is shown


# The commands


@pytest.fixture
def made(tmp_path):
    save_graph(GRAPH, tmp_path / "mails")
    save_model(tmp_path / "model", Checkpoint(random_network(GRAPH, "tgat"), GRAPH.identity))
    return "--data", tmp_path / "mails", "--model", tmp_path / "model"


def test_the_option_is_understood_beside_others(made):
    words = ("explain", *made, "--event", LINK, "--json", "--protect", "simultaneous", "--protect", "nodes=1")
    document = json.loads(run(*words))
    assert document["parameters"]["protect"] == {"events": [], "nodes": ["1"], "times": [], "simultaneous": True}
    assert not {*document["candidates"]["row"]} & set(COPIES)
    refused = run("explain", *made, "--event", LINK, "--protect", "simultaneous=yes", code=2)
    assert "or simultaneous" in refused


def test_the_commands_recommend_it_and_obey_it(made):
    flags = ("--candidates", 20)
    assert OPTION in " ".join(run("explain", *made, "--event", LINK, *flags).split())
    assert "the same timestamp" not in run("explain", *made, "--event", LINK, *flags, *OPTION.split())
    links = ("--events", f"{LINK},{LINK - 8}", *flags)
    assert OPTION in " ".join(run("survey", *made, *links).split())
    surveyed = run("survey", *made, *links, *OPTION.split())
    assert "Protected: events at the time of the link." in surveyed
    assert "the same timestamp" not in surveyed
    shown = run("data", "show", made[1])
    assert "75.0 % of events share time and source with another" in shown
    assert OPTION in shown


def test_records_of_an_evaluation_say_what_was_protected(made, tmp_path):
    words = ("evaluate", *made, "--instances", 2, "--explainers", "greedy-temporal", "--out", tmp_path / "run.jsonl")
    run(*words, *OPTION.split())
    given = [record.options["protect"] for record in read_records(tmp_path / "run.jsonl")]
    assert given == [{"simultaneous": True}] * len(given) != []
    assert "belongs to another run" in run(*words, code=1)


def test_an_explainer_keeps_what_it_protects_unless_told_otherwise():
    chosen = explainer("scout", size=20, protect=Protected(simultaneous=True))
    model, query = expects_copies(), GRAPH.query(LINK)
    assert not chosen.explain(model, GRAPH, query).simultaneity
    assert chosen.explain(model, GRAPH, query, protect=None).simultaneity
    assert replace(chosen, protect=None).explain(model, GRAPH, query).simultaneity
