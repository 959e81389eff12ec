"""The page alive."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import webbrowser
from functools import partial
from typing import Annotated

from cody.cli.common import DataOption, ModelOption, OtherDataOption, SortOption, UnitOption, app, open_model, say
from cody.cli.options import ProtectOption
from cody.cli.parser import Option
from cody.cli.progress import waiting
from cody.cli.protect import protected
from cody.data import load
from cody.engine.named import NamedModel
from cody.errors import CallError
from cody.utils.words import sanitize

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


@app.command("serve")
def serve(
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    host: Annotated[str, Option(help="Address to listen on. Beyond this machine, a token is needed.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any that is free.")] = 8765,
    name: Annotated[list[str] | None, Option(help="A name under which this server may be called. Repeatable.")] = None,
    searches: Annotated[int, Option(min=1, max=64, help="Searches at once; others wait.")] = 2,
    seconds: Annotated[float, Option(help="Budget of time for each search.")] = 30.0,
    protect: ProtectOption = None,
    open_: Annotated[bool, Option("--open", help="Show it in the browser.")] = False,
    sort: SortOption = False,
    unit: UnitOption = None,
    allow_data_mismatch: OtherDataOption = False,
) -> None:
    """Explore a model in the browser: choose links, switch events off and on, imagine others, let explainers search."""
    import uvicorn

    from cody.utils.deadline import check_seconds
    from cody.web.app import create_app
    from cody.web.live import Limits, Live

    check_seconds(seconds)
    named = NamedModel(model, partial(load, data, sort=sort, unit=unit))
    loaded = open_model(named, allow_data_mismatch=allow_data_mismatch)
    graph = named.graph
    limits = Limits(searches=searches, seconds=seconds)
    live = Live(graph, loaded, data, model, limits, protect=protected(graph, protect or []))
    token = "" if _is_loopback(host) else secrets.token_urlsafe(24)
    listener = listen(host, port)
    address = _address(listener)
    names = LOOPBACK | {address, *(name or [])}
    served = create_app(live, hosts=names, token=token)
    shown = f"http://{address}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}"
    say(f"Open {shown} (Ctrl-C stops)")
    if open_:
        webbrowser.open(shown)
    with listener, waiting():
        config = uvicorn.Config(served, log_level="warning", limit_concurrency=512, server_header=False)
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
