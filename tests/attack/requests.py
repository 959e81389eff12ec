"""Whatever is sent to a server: never an error of its own, and never an answer that is not what the library says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from attack.finding import expect
from attack.things import Generator
from cody.graph import TemporalGraph
from cody.models.toy import ToyModel
from random_events import random_graph
from web.server import Client, serving

ODD: list[Any] = [
    *(None, True, False, 0, -1, 3.0, 0.5, 1e308, -1e308, 2**53, 2**63, 10**400, [], {}, [[]], [None], [0, 0], ["0"]),
    *("", " ", "0", "n1", "now", "NaN", "1e999", "</script>", "\u202e", "\x00", "..", "../../etc/passwd", "%00"),
    *("é" * 300, "2004-04-15", "9999-99-99", [10**9], {"row": 1}, {"row": 1, "time": 2.0}),
    [{"src": "n1", "dst": "n2", "time": 3.0}],
]
FIELDS = ("event", "src", "dst", "time", "without", "add", "move", "explainer", "why_not", "before", "count", "extra")
PATHS = ("/", "/api/about", "/api/score", "/api/events", "/api/nodes/n1", "/api/explanations", "/openapi.json", "/x")
REQUESTS = 40


def attack(seed: int) -> None:
    from cody.web import Limits, Live, create_app

    rng = np.random.default_rng(seed)
    graph = _graph(rng)
    model = ToyModel(graph, rng.normal(size=graph.num_events))
    live = Live(graph, model, "odd", "toy", Limits(seconds=0.3, away=0.2, body=4096))
    with serving(create_app(live)) as client:
        for _ in range(REQUESTS):
            _send_something(rng, client)
        _check_answers(rng, client, graph, model)


def _graph(rng: Generator) -> TemporalGraph:
    drawn = random_graph(rng, nodes=8, events=40)
    names = [f"n{node}" for node in range(drawn.num_nodes)]
    return TemporalGraph.from_arrays(drawn.src, drawn.dst, drawn.time, names=names)


def _send_something(rng: Generator, client: Client) -> None:
    path = str(rng.choice(PATHS)) + ("" if rng.random() < 0.8 else f"/{_odd(rng)}"[:200])
    path = "".join(sign if sign.isascii() and sign.isprintable() and sign != " " else "%C3%A9" for sign in path)
    method = str(rng.choice(["GET", "GET", "POST", "POST", "POST", "DELETE", "PUT", "HEAD"]))
    fields = rng.choice(FIELDS, int(rng.integers(0, 5)), replace=False).tolist()
    body = {field: _odd(rng) for field in fields}
    if rng.random() < 0.5:
        body |= {"event": int(rng.integers(40)), "explainer": "scout"}
    sent = json.dumps(body if rng.random() < 0.9 else _odd(rng)).encode()
    if rng.random() < 0.1:
        sent = sent[: int(rng.integers(len(sent) + 1))] + bytes(rng.integers(0, 256, 8).tolist())
    answer = client.ask(method, path, body=sent, headers={"content-type": "application/json"})
    shown = f"{method} {path} {sent[:200]!r}: {answer.status} {answer.text[:200]}"
    expect(answer.status < 500 or answer.status == 503, "requests: an error of the server", shown)  # 503: it is busy
    if answer.status >= 400 and answer.text and method != "HEAD":
        readable = answer.headers.get("content-type", "").startswith(("application/json", "text/html", "text/plain"))
        expect(readable and "Traceback" not in answer.text, "requests: a refusal that nobody can read", shown)


def _odd(rng: Generator) -> Any:
    return ODD[int(rng.integers(len(ODD)))]


def _check_answers(rng: Generator, client: Client, graph: TemporalGraph, model: ToyModel) -> None:
    """After all that, a sensible question has the right answer."""
    row = int(rng.integers(1, graph.num_events))
    without = sorted(rng.choice(row, min(row, 3), replace=False).tolist())
    answer = client.post("/api/score", event=row, without=without)
    expect(answer.status == 200, "requests: a sensible question is refused", answer.text)
    (right,) = model.logits(graph.query(row), [frozenset(without)])
    expect(abs(answer.json()["logit"] - right) < 1e-5, "requests: an answer is wrong", f"{answer.text}, not {right}")
