"""Made-up requests to a running server: none may lead to a 5xx, or to an answer that its OpenAPI forbids.

    pip install schemathesis
    python bench/fuzz_serve.py --requests 10000

The server is this process, with the shipped model and a watch that counts every answer. Schemathesis reads the
document, and is told besides which nodes, rows, times and explainers there are, so that most of what it makes up
reaches the model. It also sends what the document forbids, and then the server must refuse.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

HOOKS = '''
import json

import schemathesis

NAMES, LAST, TIMES, EXPLAINERS = json.loads({facts!r})
ROW = {{"type": "integer", "minimum": 0, "maximum": LAST}}
NAME = {{"anyOf": [{{"enum": NAMES}}, {{"type": "string", "minLength": 1, "maxLength": 200}}]}}
KNOWN = {{
    "src": NAME,
    "dst": NAME,
    "name": NAME,
    "explainer": {{"enum": EXPLAINERS}},
    "event": ROW,
    "row": ROW,
    "time": {{"anyOf": [{{"enum": TIMES}}, {{"type": "number"}}, {{"type": "string", "minLength": 1}}]}},
}}
NOTHING = {{"type": "null"}}
LINK = ["src", "dst", "time"]
EVENT_OR_LINK = [
    {{"required": ["event"], "properties": {{"event": ROW, **{{name: NOTHING for name in LINK}}}}}},
    {{"required": LINK, "properties": {{"event": NOTHING, **{{name: KNOWN[name] for name in LINK}}}}}},
]


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Say which nodes, rows, times and explainers there are: what the document cannot know."""
    for name in ("Question", "Search", "Added", "Moved"):
        schema = raw_schema["components"]["schemas"][name]
        known = {{key: KNOWN[key] for key in schema["properties"] if key in KNOWN}}
        if "without" in schema["properties"]:
            known |= {{key: {{"anyOf": [KNOWN[key], NOTHING]}} for key in ("event", *LINK)}}
            schema["properties"]["without"]["items"] = ROW
            schema["oneOf"] = EVENT_OR_LINK
        schema["properties"] |= known
    for parameter in raw_schema["paths"]["/api/nodes/{{name}}"]["get"]["parameters"]:
        parameter["schema"] = KNOWN.get(parameter["name"], parameter["schema"])
'''


class Counted:
    """An application that counts its answers by status."""

    def __init__(self, app: Any) -> None:
        self.app, self.answers = app, Counter[int]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.answers[message["status"]] += 1
                if self.answers.total() % 500 == 0:
                    print(self, file=sys.stderr, flush=True)
            await send(message)

        await self.app(scope, receive, sending)

    def __str__(self) -> str:
        return f"{self.answers.total():,} answers: {dict(sorted(self.answers.items()))}"


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of the application, for as long as the block runs."""
    import uvicorn

    with create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000, help="go on until so many were answered")
    parser.add_argument("--examples", type=int, default=150, help="for each kind of request, in each round")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    import cody
    from cody.web import Limits, Live, create_app
    from cody.web.live_pages import NAMES

    graph = cody.load("collegemsg")
    limits = Limits(away=0.5)  # so that searches which nobody waits for do not take the time of the others
    live = Live(graph, cody.load_model("tgn-collegemsg", graph), "collegemsg", "tgn-collegemsg", limits)
    last = graph.num_events - 1
    names = sorted({graph.name(node) for node in graph.src[-20:].tolist()})
    facts = json.dumps([names, last, graph.time[-2000::100].tolist(), NAMES])
    app, failed, seed = Counted(create_app(live)), 0, given.seed
    with serving(app) as address, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "narrowed.py").write_text(HOOKS.format(facts=facts))
        environment = os.environ | {"SCHEMATHESIS_HOOKS": "narrowed", "PYTHONPATH": folder}
        while app.answers.total() < given.requests and not failed:
            command = [Path(sys.executable).parent / "schemathesis", "run", f"{address}/openapi.json"]
            # Whether a question makes sense for the data, no document can say: a 400 is a right answer to a valid one.
            command += ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
            command += ["--request-timeout", "60", "--max-examples", str(given.examples), "--seed", str(seed)]
            failed = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
            seed += 1
            print(app, flush=True)
    errors = sum(count for status, count in app.answers.items() if status >= 500)
    print(f"{errors} of {app.answers.total():,} answers were a 5xx")
    return 1 if failed or errors else 0


if __name__ == "__main__":
    sys.exit(main())
