"""Access control and size limits, checked before anything else looks at a request."""

from __future__ import annotations

import json
import secrets

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "cody-token"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class TooLargeError(Exception):
    """The body of a request is too large."""


class Guard:
    """Accepts requests that address this server by its name, come from its own pages, carry the token, and are small.

    A foreign page in the same browser could otherwise reach a server on the user's machine: by a host name that points
    there (so the Host is checked), or directly (so the Origin is).
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], token: str, largest_body: int) -> None:
        self.app, self.hosts, self.token, self.largest_body = app, hosts, token, largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        request = Request(scope)
        token = request.query_params.get("token", "")
        refused = self._refusal(request, token)
        if refused is not None:
            await _answer(send, *refused)
            return
        # a cookie, so that the token is needed only once
        cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        more = [(b"set-cookie", cookie.encode())] if self.token and token else []
        try:
            await self.app(scope, self._bounded(receive), _with_headers(send, more))
        except TooLargeError:
            await _answer(send, 413, f"a request may have {self.largest_body:,} bytes")

    def _refusal(self, request: Request, token: str) -> tuple[int, str] | None:
        hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
        if len(hosts) != 1 or _name(hosts[0]) not in self.hosts:
            return 403, "this server does not have that host name"
        if any(origin.partition("://")[2] != hosts[0] for origin in origins):
            return 403, "cross-site requests are not allowed"
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        shown = (bearer, token, request.cookies.get(COOKIE, ""))
        if self.token and not any(secrets.compare_digest(each.encode(), self.token.encode()) for each in shown):
            return 401, "open the address with the token that cody serve printed"
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self.largest_body:
            return 413, f"a request may have {self.largest_body:,} bytes"
        return None

    def _bounded(self, receive: Receive) -> Receive:
        seen = 0

        async def bounded() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.largest_body:
                raise TooLargeError
            return message

        return bounded


def _name(host: str) -> str:
    """A host without its port."""
    return host.rsplit("]", 1)[0] + "]" if host.startswith("[") else host.rsplit(":", 1)[0]


def _with_headers(send: Send, more: list[tuple[bytes, bytes]]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS, *more]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, words: str) -> None:
    headers = [(b"content-type", b"application/json"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": words}).encode()})
