"""cody serve: the page, live."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cody.cli import options as shared
from cody.cli.command import bundled, command, option, whole
from cody.cli.messages import say
from cody.cli.progress import waiting
from cody.errors import CallError
from cody.utils.words import sanitize

if TYPE_CHECKING:
    from cody.web.live import Live

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What a server answers about, and within which limits."""

    source: shared.ModelSource
    protect: Sequence[str]
    decide: shared.DecisionOptions
    units: shared.UnitOptions
    searches: int
    seconds: float

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


live_options = bundled(
    "served",
    LiveOptions,
    shared.model_options,
    shared.protect_option,
    shared.decision_options,
    shared.unit_options,
    option("--searches", type=whole(1, 64), default=2, help="Maximum number of simultaneous searches; others wait."),
    option("--seconds", type=float, default=30.0, help="Time limit of each search."),
)


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
