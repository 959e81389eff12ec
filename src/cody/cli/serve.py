"""cody serve and cody mcp: a model that is open, for people and for language models."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cody.cli import options as shared
from cody.cli.command import bundled, command, given_by, option, option_fields
from cody.cli.terminal import say, waiting
from cody.cli.types import whole
from cody.errors import CallError
from cody.utils.extras import needed_by
from cody.utils.words import applied_to, sanitize

if TYPE_CHECKING:
    from cody.web.live import Live

_limits = option_fields("")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What a server answers about, and within which limits."""

    source: shared.ModelSource = given_by(shared.model_options)
    protect: Sequence[str] = given_by(shared.protect_option)
    decide: shared.DecisionOptions = given_by(shared.decision_options)
    units: shared.UnitOptions = given_by(shared.unit_options)
    searches: int = _limits("Maximum number of simultaneous searches; others wait.", type=whole(1, 64), default=2)
    seconds: float = _limits("Time limit of each search.", default=30.0)

    def open(self) -> Live:
        """The model and the data."""
        from cody.models.decided import decision_of
        from cody.utils.deadline import check_seconds
        from cody.web.live import Limits, Live

        check_seconds(self.seconds)
        decision = self.decide.decision()
        named = self.source.named()
        model, graph = self.source.open(named), named.graph
        if decision is not None and graph.num_events:  # what the model cannot answer is an error now, not for each link
            last = graph.query(graph.num_events - 1)
            decision_of(model, last, decision).about(graph, last)  # looks up the nodes that it names
        return Live(
            graph,
            model,
            named.data,
            self.source.model,
            Limits(searches=self.searches, seconds=self.seconds),
            protect=shared.parse_protected(graph, self.protect),
            decision=decision,
            by=self.units.kind,
            dependants=self.units.rule,
        )


live_options = bundled("served", LiveOptions)


@command("serve")
@live_options
@option("--host", default="127.0.0.1", help="Address to listen on. Beyond this machine, a token is needed.")
@option("--port", type=whole(0, 65535), default=8765, help="Port to listen on; 0 picks a free port.")
@option(
    "--allowed-host",
    was="--name",
    multiple=True,
    metavar="NAME",
    help="Another host name under which browsers reach this server. Repeatable.",
)
@option("--open", "open_browser", is_flag=True, help="Open it in the browser.")
def serve(served: LiveOptions, host: str, port: int, allowed_host: Sequence[str], open_browser: bool) -> None:
    """Explore a model in the browser: choose links, switch events on and off, add others, run searches."""
    import uvicorn

    from cody.web.app import create_app

    live = served.open()
    token = "" if _is_loopback(host) else secrets.token_urlsafe(24)
    listener = listen(host, port)
    address = _address(listener)
    app = create_app(live, hosts=LOOPBACK | {address, *allowed_host}, token=token)
    shown = f"http://{address}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}"
    say(f"Open {shown} (Ctrl-C stops)")
    if open_browser:
        webbrowser.open(shown)
    with listener, waiting():
        config = uvicorn.Config(app, log_level="warning", limit_concurrency=512, server_header=False)
        uvicorn.Server(config).run([listener])


@command("mcp")
@live_options
def mcp(served: LiveOptions) -> None:
    """Give a language model tools: predict, explain, what-if, audit and survey.

    It speaks the Model Context Protocol, through standard input and output, with the program that starts it (an
    assistant, an editor). Each answer says how it was verified.
    """
    with needed_by("cody mcp"):
        from cody.web.assistant import create_assistant

    live = served.open()
    say(f"Serving {applied_to(live.model_name, live.data_name)} to the program that started this (Ctrl-C stops)")
    with waiting():
        create_assistant(live).run("stdio")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections, and sends what is written to them without delay."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
        # Connections inherit it. Without it, the second packet of an answer waits 40 ms for word of the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise CallError(f"cannot listen on {sanitize(host)}, port {port}: {error.strerror or error}") from None


def _address(listener: socket.socket) -> str:
    """The address as it stands in a link; of all addresses, the name of this machine."""
    host = str(listener.getsockname()[0])
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
