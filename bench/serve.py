"""`cody serve` on the shipped model, measured: how long an answer takes, and what fifty clients at once do to it.

    python bench/serve.py --only latency --requests 400
    python bench/serve.py --only crowd --rounds 10 --clients 50

latency    one client, as a browser asks; every question is about another link of the test period. A page is asked for
           anew when an event is imagined; its time is that until all of it has arrived. Besides the time that a person
           waits, that of the processor which the server takes: on a busy machine it is the one to compare
crowd      clients that ask all at once; every answer is compared with the library's, and the memory of the server is
           read after each round. Every question of every round is a new one
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

import cody
from cody import Add, Move, TemporalGraph
from cody.explaining.what_if import answer_cases
from cody.web.questions import LinkQuestion, as_case

DAY = 86_400.0
TEST_PERIOD = 0.85  # share of the events before it
PARTS = ("latency", "crowd")


@contextmanager
def served() -> Iterator[tuple[int, int]]:
    """The command, running: its port and the id of its process."""
    command = [sys.executable, "-m", "cody", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            yield int(re.search(r":(\d+)/", said)[1]), process.pid  # type: ignore[index]
        finally:
            process.terminate()


class Client:
    """A connection that stays open, as a browser's does."""

    def __init__(self, port: int) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        sent = None if body is None else json.dumps(body)
        self.connection.request(method, path, sent, {"content-type": "application/json"} if sent else {})
        answer = self.connection.getresponse()
        content = answer.read()
        assert answer.status == 200, (answer.status, content[:200], body)
        return content

    def score(self, question: object) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.ask("POST", "/api/score", question))
        return said

    def page(self, **address: object) -> bytes:
        return self.ask("GET", f"/?{urlencode(address)}")


def moment_before(time: float, rng: np.random.Generator) -> float:
    return time - 60.0 - float(rng.exponential(DAY))


def added(graph: TemporalGraph, row: int, rng: np.random.Generator) -> Add:
    """A message of the link's source to somebody, shortly before it."""
    other = graph.name(int(rng.integers(graph.num_nodes)))
    return Add(graph.name(int(graph.src[row])), other, moment_before(float(graph.time[row]), rng))


def past_of(graph: TemporalGraph, row: int) -> list[int]:
    """The latest events of the link's source; where there are none, the latest of all."""
    rows: list[int] = graph.history(int(graph.src[row]), row)[-5:].tolist()
    return rows or [row - 1]


def moved(graph: TemporalGraph, row: int, rng: np.random.Generator) -> Move:
    return Move(int(rng.choice(past_of(graph, row))), moment_before(float(graph.time[row]), rng))


def as_json(edit: Add | Move) -> dict[str, Any]:
    return {key: value for key, value in edit._asdict().items() if key != "features"}


def latency(graph: TemporalGraph, port: int, process: int, requests: int, rng: np.random.Generator) -> None:
    client = Client(port)
    client.page(event=graph.num_events - 1)  # what is only done once

    def take_away(row: int) -> None:
        client.score({"event": row, "without": past_of(graph, row)[-3:]})

    def add(row: int) -> None:
        client.score({"event": row, "add": [as_json(added(graph, row, rng))]})

    def move(row: int) -> None:
        client.score({"event": row, "move": [as_json(moved(graph, row, rng))]})

    def open_page(row: int) -> None:
        client.page(event=row)

    def open_with_addition(row: int) -> None:
        edit = added(graph, row, rng)
        client.page(event=row, add=f"{edit.src} {edit.dst} {edit.time!r}")

    kinds: dict[str, Callable[[int], None]] = {
        "three events taken away": take_away,
        "an event added": add,
        "an event moved": move,
        "a page": open_page,
        "a page with an event added": open_with_addition,
    }
    print(f"\nmilliseconds, {requests} requests each{'':15}median    90 %    99 %  slowest  over 100 ms")
    for name, ask in kinds.items():
        waited, worked = [], []
        for row in rng.integers(int(TEST_PERIOD * graph.num_events), graph.num_events, requests).tolist():
            began, busy = time.perf_counter(), processor(process)
            ask(row)
            waited.append(1000 * (time.perf_counter() - began))
            worked.append(1000 * (processor(process) - busy))
        for kind, took in (("processor", worked), ("waited", waited)):
            figures = "".join(f"{value:8.1f}" for value in np.quantile(took, [0.5, 0.9, 0.99, 1]))
            print(f"  {name:30}{kind:12}{figures}  {sum(each > 100 for each in took):11}", flush=True)


def questions(graph: TemporalGraph, count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Different ones: taken away, added, moved in turn."""
    made = []
    for place, row in enumerate(rng.integers(int(TEST_PERIOD * graph.num_events), graph.num_events, count).tolist()):
        asked: dict[str, Any] = {"event": row, "without": past_of(graph, row)[-1 - place % 3 :]}
        if place % 3 == 1:
            asked["add"] = [as_json(added(graph, row, rng))]
        if place % 3 == 2:
            asked["move"] = [as_json(moved(graph, row, rng))]
        made.append(asked)
    return made


def processor(process: int) -> float:
    """The seconds of the processor that all threads of a process have taken."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def resident(process: int) -> float:
    """The memory of a process that is in use, in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def crowd(
    graph: TemporalGraph, port: int, process: int, rounds: int, clients: int, each: int, rng: np.random.Generator
) -> None:
    model = cody.load_model("tgn-collegemsg", graph)
    worst = 0.0
    print(f"\n{clients} clients at once, {each} questions each\n  round  largest difference  memory of the server, MiB")
    print(f"  {0:5}{'':20}{resident(process):10.0f}")
    for number in range(1, rounds + 1):
        asked = questions(graph, clients * each, rng)
        barrier = threading.Barrier(clients)

        def ask(place: int, asked: list[dict[str, Any]] = asked, barrier: threading.Barrier = barrier) -> list[float]:
            client = Client(port)
            barrier.wait()
            return [float(client.score(question)["logit"]) for question in asked[place::clients]]

        with ThreadPoolExecutor(clients) as pool:
            answers = list(pool.map(ask, range(clients)))
        memory = resident(process)
        cases = [as_case(graph, LinkQuestion(**question)) for question in asked]
        expected = [answer_cases(model, graph, [case])[0] for case in cases]
        for place, mine in enumerate(answers):
            worst = max([worst, *np.abs(np.subtract(mine, expected[place::clients])).tolist()])
        print(f"  {number:5}{worst:20.1e}{memory:10.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--each", type=int, default=20, help="questions of each client in each round")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    graph = cody.load("collegemsg")
    rng = np.random.default_rng(given.seed)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    with served() as (port, process):
        if given.only != "crowd":
            latency(graph, port, process, given.requests, rng)
        if given.only != "latency":
            crowd(graph, port, process, given.rounds, given.clients, given.each, rng)


if __name__ == "__main__":
    main()
