"""cody serve: the page, live."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cody.cli import options as shared
from cody.cli.command import command, option, whole
from cody.cli.messages import say
from cody.cli.progress import waiting
from cody.cli.units import UnitOptions, unit_options
from cody.errors import CallError
from cody.utils.words import sanitize

if TYPE_CHECKING:
    from cody.web.live import Live

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


searches_option = option(
    "--searches", type=whole(1, 64), default=2, help="Maximum number of simultaneous searches; others wait."
)
seconds_option = option("--seconds", type=float, default=30.0, help="Time limit of each search.")


@command("serve")
@shared.model_options
@shared.protect_option
@shared.decision_options
@unit_options
@option("--host", default="127.0.0.1", help="Address to listen on. Beyond this machine, a token is needed.")
@option("--port", type=whole(0, 65535), default=8765, help="Port to listen on; 0 picks a free port.")
@option(
    "--allowed-host",
    was="--name",
    multiple=True,
    metavar="NAME",
    help="Another host name under which browsers reach this server. Repeatable.",
)
@searches_option
@seconds_option
@option("--open", "open_browser", is_flag=True, help="Open it in the browser.")
def serve(
    source: shared.ModelSource,
    protect: Sequence[str],
    decide: shared.DecisionOptions,
    units: UnitOptions,
    host: str,
    port: int,
    allowed_host: Sequence[str],
    searches: int,
    seconds: float,
    open_browser: bool,
) -> None:
    """Explore a model in the browser: choose links, switch events on and off, add others, run searches."""
    import uvicorn

    from cody.web.app import create_app

    live = live_model(source, protect, decide, units, searches, seconds)
    token = "" if _is_loopback(host) else secrets.token_urlsafe(24)
    listener = listen(host, port)
    address = _address(listener)
    served = create_app(live, hosts=LOOPBACK | {address, *allowed_host}, token=token)
    shown = f"http://{address}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}"
    say(f"Open {shown} (Ctrl-C stops)")
    if open_browser:
        webbrowser.open(shown)
    with listener, waiting():
        config = uvicorn.Config(served, log_level="warning", limit_concurrency=512, server_header=False)
        uvicorn.Server(config).run([listener])


def live_model(
    source: shared.ModelSource,
    protect: Sequence[str],
    decide: shared.DecisionOptions,
    units: UnitOptions,
    searches: int,
    seconds: float,
) -> Live:
    """The model and the data that a server answers about, with its limits.

    Args:
        source: Model and data.
        protect: What must not be removed.
        decide: How it is decided where a request does not say so.
        units: What changes together.
        searches: Maximum number of simultaneous searches.
        seconds: Time limit of each.
    """
    from cody.models.decided import decision_of
    from cody.utils.deadline import check_seconds
    from cody.web.live import Limits, Live

    check_seconds(seconds)
    decision = decide.decision()
    named = source.named()
    model, graph = source.open(named), named.graph
    if decision is not None and graph.num_events:  # one that the model cannot answer is an error now, not for each link
        last = graph.query(graph.num_events - 1)
        decision_of(model, last, decision).about(graph, last)  # looks up the nodes that it names
    return Live(
        graph,
        model,
        source.data,
        source.model,
        Limits(searches=searches, seconds=seconds),
        protect=shared.parse_protected(graph, protect),
        decision=decision,
        by=units.kind,
        dependants=units.rule,
    )


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
