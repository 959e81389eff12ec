"""The small client of the server, and the document that describes the server's API."""

import json
import threading
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import cody
from cody import TemporalGraph
from cody.errors import CallError, CodyError
from cody.models import ToyModel
from cody.web.client import ServerClient

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from cody.web import Limits, Live, create_app
from web.server import serving

DOCS = Path(__file__).parents[2] / "docs"
ENDS = np.random.default_rng(4).integers(0, 9, (2, 60))
GRAPH = TemporalGraph.from_arrays(*ENDS, np.arange(60.0), names=[f"n/{node}" for node in range(9)])
MODEL = ToyModel(GRAPH, weights=np.random.default_rng(5).normal(size=60), bias=0.3, indirect=0.5)


@contextmanager
def client(model=MODEL, limits=None, token=""):
    with serving(create_app(Live(GRAPH, model, limits=limits or Limits()), token=token)) as served:
        yield ServerClient(f"{served.address}/?token={token}" if token else served.address)


def test_the_client_explains_as_the_library_does():
    with client() as server:
        why = server.explain(event=40)
        same = server.explain(src="n/1", dst="n/2", time=60, explainer="pbone")
    expected = cody.explain(MODEL, GRAPH, GRAPH.query(40))
    assert isinstance(why, cody.Explanation)
    assert (why.change, why.sentence) == (expected.change, expected.sentence)
    assert cody.verify_explanation(why, MODEL, GRAPH).is_confirmed
    assert (same.src, same.dst) == ("n/1", "n/2")


def test_the_client_scores_and_lists_as_the_library_does():
    with client() as server:
        scored = server.score(event=40, without=[39])
        listed = server.events(before=50, count=3)
        node = server.node("n/3", count=2)
        about = server.about()
    logits = MODEL.logits(GRAPH.query(40), [frozenset(), frozenset({39})])
    assert (scored["original"], scored["logit"]) == pytest.approx(tuple(logits), abs=1e-6)
    assert [each["row"] for each in listed] == [49, 48, 47]
    assert all("n/3" in (each["src"], each["dst"]) for each in node["events"])
    assert about["events"] == 60


def test_the_token_may_be_part_of_the_address():
    with client(token="secret") as server:
        assert server.token == "secret"
        assert server.about()["events"] == 60
        with pytest.raises(CodyError, match="open the address with the token"):
            ServerClient(server.address).about()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"event": 99}, "event 99 is out of range: rows go from 0 to 59"),
        ({}, "give event, or src, dst and time"),
        ({"event": -1}, "event: Input should be greater than or equal to 0"),
        ({"event": 3, "kandidates": 5}, "kandidates: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_the_servers_words(question, words):
    with client() as server, pytest.raises(CallError, match=words):
        server.explain(**question)


def test_a_search_that_fails_and_a_server_that_is_not_there_are_errors():
    class Broken(ToyModel):
        def logits(self, query, changes):
            raise RuntimeError("no such tensor")

    with client(Broken(GRAPH)) as server, pytest.raises(CodyError, match="no such tensor"):
        server.explain(event=40)
    with pytest.raises(CodyError, match=f"no answer from {server.address}: "):
        server.about()


def test_ctrl_c_cancels_the_search(monkeypatch):
    started = threading.Event()

    class Slow(ToyModel):
        def logits(self, query, changes):
            started.set()
            threading.Event().wait(0.02)
            return super().logits(query, changes)

    def interrupt(_):
        started.wait(5)
        raise KeyboardInterrupt

    live = Live(GRAPH, Slow(GRAPH, weights=np.ones(60) / 99, bias=9.0))
    with serving(create_app(live)) as served:
        monkeypatch.setattr("cody.web.client.time.sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ServerClient(served.address).explain(event=50)
        monkeypatch.undo()
        assert live._jobs == {}


def test_answers_are_as_the_api_document_describes_them():
    described = json.loads((DOCS / "schemas" / "openapi.json").read_text(encoding="utf-8"))
    with client() as server:
        answers = {
            ("/api/about", "get"): server.about(),
            ("/api/score", "post"): server.score(event=40, top=3),
            ("/api/events", "get"): server.events(count=2),
            ("/api/nodes/{name}", "get"): server.node("n/3"),
        }
    for (path, method), answer in answers.items():
        content = described["paths"][path][method]["responses"]["200"]["content"]["application/json"]
        schema = content["schema"] | {"components": described["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer)


def test_the_page_about_the_server_shows_the_client(monkeypatch, capsys):
    (block,) = [
        part.partition("```")[0]
        for part in (DOCS / "questions" / "serve.md").read_text(encoding="utf-8").split("```py\n")[1:]
    ]
    graph = cody.load("collegemsg")
    live = Live(graph, cody.load_model("tgn-collegemsg", graph))
    with serving(create_app(live)) as served:
        exec(block.replace("http://127.0.0.1:8765", served.address), {})
    for line, printed in zip(
        [line for line in block.splitlines() if "print(" in line], capsys.readouterr().out.splitlines(), strict=True
    ):
        assert line.endswith(f"# {printed}")
