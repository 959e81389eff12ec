"""The work of an evaluation on a Ray cluster.

Model, graph and version table are put into Ray's object store once; it brings them to each node, where all workers read
the same memory. A task is a link. Ray places the tasks, and repeats those whose worker or node died.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from cody.errors import CallError, CodyError, first_line
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.study.instances import Link
from cody.study.record import Failure, Key, Record
from cody.study.run import EvaluationPlan, evaluate, keys_of
from cody.utils.extras import missing

Load = Callable[[TemporalGraph], Model]

RETRIES = 5  # deaths of a worker or its node that a link survives
POLL_EVERY = 1.0  # seconds; the size of the cluster may grow and shrink
TASKS_PER_CPU = 2  # so that no processor waits for the driver
STDERR = 2  # the descriptor: Ray's own code does not write to Python's stream
WAIT = "RAY_gcs_server_port_wait_time_s"  # seconds for which Ray tries to connect
REFUSED = re.compile("InvalidAuthToken|[Aa]uthentication token")
NEEDS_TOKEN = (
    "the Ray cluster at {address!r} refuses this process, because it has not got the cluster's token: copy "
    "~/.ray/auth_token of the head (`ray get-auth-token --generate` makes it) to this machine and to every node, and "
    "set RAY_AUTH_MODE=token on all of them"
)


def evaluate_on_ray(
    address: str,
    model: Model,
    graph: TemporalGraph,
    links: Sequence[Link],
    plan: EvaluationPlan,
    done: Set[Key] = frozenset(),
    *,
    load: Load | None = None,
) -> Iterator[Record | Failure]:
    """Does the work of `evaluate` on the cluster at `address` ("local": one on this machine); records in another order.

    The nodes need this package and nothing else. A model of your own must be picklable; or `load(graph)` makes it, once
    in each worker.
    """
    with connected(address) as ray:
        yield from _submit(ray, model if load is None else load, graph, links, plan, done)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster at `address`. A connection that was open before is used instead, and stays open."""
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    is_elsewhere = _check_reachable(address)
    with _quiet(is_elsewhere) as complaints:
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            said = f"{complaints()} {error}"
            if REFUSED.search(said):
                raise CallError(NEEDS_TOKEN.format(address=address)) from None
            raise CallError(f"there is no Ray cluster at {address!r}: {first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _submit(
    ray: Any, model: Model | Load, graph: TemporalGraph, links: Sequence[Link], plan: EvaluationPlan, done: Set[Key]
) -> Iterator[Record | Failure]:
    shared = ray.put((model, graph, plan))  # together, because the model holds the graph too
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_evaluate_link)
    queue = deque(link for link in links if keys_of(link, plan) - done)
    lost: list[str] = []
    pending: dict[Any, Link] = {}
    room, polled = 0, -math.inf
    while queue or pending:
        if time.monotonic() - polled > POLL_EVERY:
            room, polled = TASKS_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 1))), time.monotonic()
        while queue and len(pending) < room:
            link = queue.popleft()
            pending[task.remote([shared], link, done & keys_of(link, plan))] = link
        finished, _ = ray.wait(list(pending), timeout=5.0)
        for reference in finished:
            link = pending.pop(reference)
            try:
                yield from ray.get(reference)
            except ray.exceptions.RayTaskError as error:  # the explainer failed, not the cluster
                raise CodyError(f"a worker failed on event {link.event}: {error.cause}") from None
            except ray.exceptions.RayError as error:
                lost.append(f"{link.event} ({link.kind}, {type(error).__name__})")
    if lost:
        raise CodyError(
            f"{len(lost)} predictions have no records because their workers died {RETRIES + 1} times: "
            f"events {', '.join(lost[:5])}; the same command tries them again"
        )


def _evaluate_link(shared: list[Any], link: Link, done: Set[Key]) -> list[Record | Failure]:
    """A task. The reference comes in a list, so that Ray does not fetch it for every task; `_open` does, once."""
    (reference,) = shared
    model, graph, plan = _open(reference)
    return list(evaluate(model, graph, [link], plan, done))


@lru_cache(maxsize=1)
def _open(reference: Any) -> tuple[Model, TemporalGraph, EvaluationPlan]:
    """Done once in each worker."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for torch, if it is imported: every core has a worker
    model, graph, plan = _ray().get(reference)
    return (model if hasattr(model, "logits") else model(graph)), graph, plan


def _check_reachable(address: str) -> bool:
    """Reject an address that does not answer; Ray itself would try for minutes. Returns whether it is an address."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return False
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        raise CallError(f"there is no Ray cluster at {address!r}: {error}") from None
    return True


@contextmanager
def _quiet(short: bool) -> Iterator[Callable[[], str]]:
    """Keep what Ray writes to standard error while it connects, a line for each attempt, and write it if that succeeds.

    `short`: a cluster that answers is given a few attempts, not the twenty of a cluster that is being started.
    """
    waiting = {WAIT: os.environ.get(WAIT, "3")} if short else {}
    with tempfile.TemporaryFile() as kept, changed_environment(waiting):
        try:
            usual = os.dup(STDERR)
        except OSError:  # there is none
            yield lambda: ""
            return

        def complaints() -> str:
            kept.seek(0)
            return kept.read().decode(errors="replace")

        os.dup2(kept.fileno(), STDERR)
        try:
            yield complaints
        except CallError:
            raise
        else:
            os.write(usual, complaints().encode())
        finally:
            os.dup2(usual, STDERR)
            os.close(usual)


@contextmanager
def changed_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the time of a block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise missing("--ray", "ray") from None
