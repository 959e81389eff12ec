"""The questions as tools of a language model: the library's own answers, verified, within the server's limits."""

import asyncio
import json
import os
import sys
import time

import anyio
import numpy as np
import pytest

import cody
from cody import TemporalGraph
from cody.models import ToyModel
from commands import run

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import Client, StdioServerParameters, stdio_client

from cody.web import Limits, Live
from cody.web.assistant import create_assistant

ENDS = np.random.default_rng(4).integers(0, 9, (2, 60))
GRAPH = TemporalGraph.from_arrays(*ENDS, np.arange(60.0), names=[f"n{node}" for node in range(9)])
MODEL = ToyModel(GRAPH, weights=np.random.default_rng(5).normal(size=60), bias=0.3, indirect=0.5)


class SlowModel(ToyModel):
    """A model that takes its time."""

    def logits(self, query, changes):
        time.sleep(0.02)
        return super().logits(query, changes)


def ask(*questions, model=MODEL, limits=None):
    """The answers to some calls of tools, each (name, arguments), of a client that is connected in memory."""

    async def session():
        async with Client(create_assistant(Live(GRAPH, model, "data", "toy", limits or Limits()))) as client:
            return [await client.call_tool(name, given) for name, given in questions]

    return asyncio.run(session())


def test_an_assistant_sees_the_questions_and_what_they_take():
    async def session():
        async with Client(create_assistant(Live(GRAPH, MODEL))) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = asyncio.run(session())
    assert {tool.name for tool in tools} == {"about", "predict", "what_if", "explain", "audit", "survey"}
    assert all(tool.description and tool.output_schema for tool in tools)
    assert "verified" in instructions
    fields = [field for tool in tools for field in tool.input_schema["properties"].items()]
    described = {name for name, field in fields if "description" in field}
    assert {"event", "without", "top", "links", "node"} <= described


def test_an_explanation_is_the_librarys_and_carries_its_verification_and_document():
    async def session():
        async with Client(create_assistant(Live(GRAPH, MODEL, "data", "toy"))) as client:
            answer = (await client.call_tool("explain", {"event": 40})).structured_content
            return answer, await client.read_resource(answer["document"])

    answer, resource = asyncio.run(session())
    why = cody.explain(MODEL, GRAPH, GRAPH.query(40))
    assert why.is_counterfactual
    assert (answer["sentence"], answer["reason"], answer["verdict"]) == (why.sentence, why.reason, why.verdict)
    assert [each["event"] for each in answer["changes"]] == list(why.rows)
    assert (answer["verified"], answer["verification"]) == (True, why.verification.by)
    document = cody.Explanation.from_json(resource.contents[0].text)
    assert document.change == why.change
    assert cody.verify_explanation(document, MODEL, GRAPH).is_confirmed


def test_scores_of_changed_histories_are_the_librarys_and_verified():
    link = {"src": "n1", "dst": "n2", "time": 60.0}
    edits = {"without": [3, 50], "add": [{"src": "n1", "dst": "n2", "time": 55.5}], "move": [{"row": 40, "time": 2.0}]}
    plain, ranked = ask(("what_if", link | edits), ("what_if", link | {"without": [50], "top": 3}))
    longer = GRAPH.imagine([cody.Add("n1", "n2", 55.5), cody.Move(40, 2.0)])
    query = GRAPH.link("n1", "n2", 60.0)
    (logit,) = MODEL.on(longer).logits(query, [frozenset({3, 50, 60, 61})])
    assert plain.structured_content["after"]["logit"] == pytest.approx(float(logit), abs=1e-6)
    assert plain.structured_content["verified"]
    assert ranked.structured_content["after"]["standing"]["rank"] >= 1
    assert ranked.structured_content["verified"]


def test_a_change_that_a_prediction_does_not_see_is_remarked_on():
    (seen, late) = ask(("what_if", {"event": 40, "without": [39]}), ("what_if", {"event": 40, "without": [50]}))
    assert seen.structured_content["remarks"] == []
    assert late.structured_content["changed"] is False
    assert late.structured_content["remarks"] == [
        "event 50 does not lie before event 40: leaving it out changes nothing"
    ]


def test_a_fast_answer_that_the_reference_contradicts_is_not_called_verified():
    class Wrong(ToyModel):
        def reference(self, query, change, *, full=False):
            return type("Off", (), {"since": 0, "logits": lambda _, query, changes: [1.5 for _ in changes]})()

    wrong = Wrong(GRAPH, weights=np.random.default_rng(5).normal(size=60) / 100, bias=1.0)
    (scored,) = ask(("what_if", {"event": 40, "without": [39]}), model=wrong)
    assert not scored.structured_content["verified"]
    assert "which counts" in scored.structured_content["verification"]
    (predicted,) = ask(("predict", {"events": [40]}), model=wrong)
    assert not predicted.structured_content["verified"]


def test_predictions_of_events_of_a_node_and_of_partners():
    listed, of_node, partners = ask(
        ("predict", {"events": [7, 5]}),
        ("predict", {"node": "n3", "count": 2}),
        ("predict", {"node": "n3", "next_partners": True, "count": 2}),
    )
    expected = cody.predict(MODEL, GRAPH, [7, 5])
    predictions = listed.structured_content["predictions"]
    assert [(each["event"], each["src"], each["predicted"]) for each in predictions] == [
        (each.event, each.src, each.predicted) for each in expected
    ]
    assert listed.structured_content["verified"]
    assert listed.structured_content["verification"].startswith("2 of 2 confirmed")
    assert all("n3" in (each["src"], each["dst"]) for each in of_node.structured_content["predictions"])
    best = cody.predict(MODEL, GRAPH, node="n3", next=2)
    assert [each["dst"] for each in partners.structured_content["predictions"]] == [each.dst for each in best]


def test_audits_and_surveys_say_what_was_verified():
    audited, surveyed = ask(("audit", {"links": 2}), ("survey", {"links": 1}))
    report = cody.audit(MODEL, GRAPH, links=2)
    assert audited.structured_content["summary"] == report.summary
    assert audited.structured_content["verified"]
    found = cody.survey(MODEL, GRAPH, instances=1)
    explained = sum(part.explained for part in found.parts)
    assert surveyed.structured_content["verification"].startswith(f"each of the {explained} counterfactuals")
    assert len(surveyed.structured_content["figures"]) == len(found.rows())


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [
        ("what_if", {"event": 99}, "event 99 is out of range: rows go from 0 to 59"),
        ("what_if", {}, "give event, or src, dst and time"),
        ("explain", {"event": 40, "threshold": 7}, "a threshold is a probability between 0 and 1, not 7"),
        ("predict", {"node": "n99"}, "n99"),
        ("what_if", {"event": 40, "without": list(range(300))}, "at most 256"),
        ("audit", {"links": 51}, "less than or equal to 50"),
    ],
)
def test_errors_are_the_librarys_own_words(tool, given, words):
    (answer,) = ask((tool, given))
    assert answer.is_error
    assert words in answer.content[0].text


def test_a_model_that_fails_is_an_error_of_that_question_alone():
    class Broken(ToyModel):
        def logits(self, query, changes):
            raise RuntimeError("no such tensor")

    answer, about = ask(("what_if", {"event": 40}), ("about", {}), model=Broken(GRAPH))
    assert answer.is_error
    assert "RuntimeError: no such tensor" in answer.content[0].text
    assert about.structured_content["events"] == 60


def test_what_takes_too_long_ends_and_says_how_far_it_came():
    slow, limits = SlowModel(GRAPH, weights=np.ones(60) / 9), Limits(seconds=0.3)
    began = time.monotonic()
    (answer,) = ask(("survey", {"links": 50}), model=slow, limits=limits)
    assert answer.is_error
    assert "links were done within 0.3 seconds; ask about fewer" in answer.content[0].text
    assert time.monotonic() - began < 60


def test_a_search_ends_when_the_assistant_no_longer_waits():
    live = Live(GRAPH, SlowModel(GRAPH, weights=np.ones(60) / 99, bias=9.0), limits=Limits(seconds=600))

    async def session():
        async with Client(create_assistant(live)) as client:
            with anyio.move_on_after(0.3):
                await client.call_tool("explain", {"event": 50, "evaluations": 100_000})
            while live._jobs:
                await anyio.sleep(0.02)

    began = time.monotonic()
    asyncio.run(session())
    assert time.monotonic() - began < 60


def test_the_command_speaks_with_the_program_that_starts_it():
    async def session():
        started = StdioServerParameters(command=sys.executable, args=["-m", "cody", "mcp"], env=dict(os.environ))
        async with Client(stdio_client(started)) as client:
            answer = await client.call_tool("what_if", {"event": 53854, "without": [53852]})
            return json.loads(answer.content[0].text)

    answer = asyncio.run(session())
    assert (answer["before"], answer["after"]["outcome"]) == ("link", "no link")
    assert (answer["verified"], answer["changed"]) == (True, True)


def test_a_decision_that_cannot_be_made_is_an_error_before_anything_is_served():
    assert "no node" in run("mcp", "--rather-than", "nobody", code=2)


def test_what_a_tool_cannot_take_is_refused_in_a_line_and_never_dropped():
    refused = ask(
        ("explain", {"event": 40, "thresold": 0.9}),
        ("what_if", {"event": 40, "remove": [3]}),
        ("predict", {"events": [7], "node": "n3"}),
        ("predict", {"next_partners": True}),
        ("explain", {"event": "forty"}),
        ("audit", {"links": 10**30}),
    )
    assert all(answer.is_error for answer in refused)
    said = [answer.content[0].text for answer in refused]
    for text, part in zip(
        said,
        [
            "explain has no argument 'thresold'; did you mean 'threshold'?",
            "what_if has no argument 'remove'",
            "give events or node, not both",
            "give node, too",
            "event: Input should be a valid integer, not 'forty'",
            "links: Input should be less than or equal to 50, not 1000",
        ],
        strict=True,
    ):
        assert part in text
        assert "\n" not in text
