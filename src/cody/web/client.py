"""A small client of `cody serve`, with nothing but the standard library."""

from __future__ import annotations

import json
import time
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

from cody.errors import CallError, CodyError
from cody.explaining.explanation import Explanation
from cody.study.explainers import DEFAULT_SEARCH

POLL = 0.05  # seconds between two looks at a search
WRONG_REQUEST = (400, 404, 405, 413, 422)
NETWORK = 60.0  # seconds for one request


class ServerClient:
    """Asks a model that is served elsewhere. What it returns is what the server's API answers, as plain data.

    >>> ServerClient("http://127.0.0.1:8765")
    ServerClient('http://127.0.0.1:8765')
    """

    def __init__(self, address: str, *, token: str = "") -> None:
        """Nothing is sent yet.

        Args:
            address: Of the server, as `cody serve` prints it; a token in it counts.
            token: The token that a server beyond this machine asks for.
        """
        plain, _, given = address.partition("?token=")
        self.address, self.token = plain.rstrip("/"), token or given
        here = "127.0.0.1" in plain or "localhost" in plain
        self._opener = build_opener(*([ProxyHandler({})] if here else []))  # a proxy does not know it

    def __repr__(self) -> str:
        return f"ServerClient({self.address!r})"

    def about(self) -> dict[str, Any]:
        """The data and the model of the server."""
        return self._ask("GET", "/api/about")

    def events(self, *, before: int | None = None, count: int = 25) -> list[dict[str, Any]]:
        """The latest events before a row, latest first, each with the model's prediction just before it."""
        limits = {"count": count} if before is None else {"count": count, "before": before}
        return self._ask("GET", f"/api/events?{urlencode(limits)}")

    def node(self, name: str, *, count: int = 25) -> dict[str, Any]:
        """A node with its latest events and its most likely partners."""
        return self._ask("GET", f"/api/nodes/{quote(name, safe='')}?{urlencode({'count': count})}")

    def score(self, **question: Any) -> dict[str, Any]:
        """The prediction with nothing changed, and with changes.

        Args:
            **question: `event`, or `src`, `dst` and `time`; `without`, `add`, `move`; one of `threshold`, `top`,
                `rather_than`, `label` and `between`.
        """
        return self._ask("POST", "/api/score", question)

    def explain(self, *, explainer: str = DEFAULT_SEARCH, **question: Any) -> Explanation:
        """The explanation of a link, as `cody.explain` has it; waits for the search, and cancels it on Ctrl-C.

        Args:
            explainer: Its name, as in `about()["explainers"]`.
            **question: As for `score`; also `why_not`, `evaluations` and `candidates`.
        """
        job = self._ask("POST", "/api/explanations", {"explainer": explainer, **question})
        path = f"/api/explanations/{job['id']}"
        try:
            while job["state"] in ("waiting", "running"):
                time.sleep(POLL)
                job = self._ask("GET", path)
        except KeyboardInterrupt:
            self._ask("DELETE", path)
            raise
        if job["state"] != "done":
            raise CodyError(job["error"] or f"the search is {job['state']}")
        return Explanation.from_dict(self._ask("GET", f"{path}/document"))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers["content-type"] = "application/json"
        request = Request(f"{self.address}{path}", content, headers, method=method)
        try:
            with self._opener.open(request, timeout=NETWORK) as answer:
                return json.load(answer)
        except HTTPError as error:
            _refuse(error)
        except URLError as error:
            raise CodyError(f"no answer from {self.address}: {error.reason}") from None


def _refuse(error: HTTPError) -> NoReturn:
    """The server's own error message as an error of the library."""
    with error:
        try:
            detail = json.load(error)["detail"]
        except (ValueError, KeyError, TypeError):
            detail = str(error)
    if isinstance(detail, list):  # of a field that is not as the API describes it
        detail = f"{'.'.join(map(str, detail[0]['loc'][1:]))}: {detail[0]['msg']}"
    raise (CallError if error.code in WRONG_REQUEST else CodyError)(detail) from None
