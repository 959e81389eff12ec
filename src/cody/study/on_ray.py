"""The work of an evaluation, or of an audit, on a Ray cluster.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

from cody.errors import CallError, CodyError, first_line
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.study.instances import Link
from cody.study.pool import Work
from cody.study.record import Failure, Key, Record
from cody.study.run import EvaluationPlan, evaluate_one, keys_of, without_records
from cody.utils.extras import needed_by

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
    tasks = [(link, done & keys_of(link, plan)) for link in links if keys_of(link, plan) - done]
    work = partial(evaluate_one, plan)

    def lost(died: Sequence[tuple[tuple[Link, Set[Key]], str]]) -> str:
        return without_records([f"{link.event} ({link.kind}, {error})" for (link, _), error in died], RETRIES + 1)

    def name(task: tuple[Link, Set[Key]]) -> str:
        return f"event {task[0].event}"

    with connected(address) as ray:
        yield from run_on_ray(ray, load or model, graph, work, tasks, name=name, lost=lost)


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
            message = f"{complaints()} {error}"
            if REFUSED.search(message):
                raise CallError(NEEDS_TOKEN.format(address=address)) from None
            raise CallError(f"there is no Ray cluster at {address!r}: {first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def run_on_ray(
    ray: Any,
    model: Model | Load,
    graph: TemporalGraph,
    work: Work,
    tasks: Iterable[Any],
    *,
    name: Callable[[Any], str],
    lost: Callable[[Sequence[tuple[Any, str]]], str],
) -> Iterator[Any]:
    """What `work(model, graph, task)` yields for each task, in any order.

    Args:
        ray: As `connected` gives it.
        model: The model, or a function that makes it, once in each worker.
        graph: The log of events.
        work: What a worker does; it must be picklable.
        tasks: What is to be done.
        name: What a task is called in an error.
        lost: The error for tasks whose workers died each time, with how; it is raised when all others are done.
    """
    shared = ray.put((model, graph, work))  # together, because the model holds the graph too
    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_do)
    queue = deque(tasks)
    died: list[tuple[Any, str]] = []
    pending: dict[Any, Any] = {}
    room, polled = 0, -math.inf
    while queue or pending:
        if time.monotonic() - polled > POLL_EVERY:
            room, polled = TASKS_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 1))), time.monotonic()
        while queue and len(pending) < room:
            task = queue.popleft()
            pending[remote.remote([shared], task)] = task
        finished, _ = ray.wait(list(pending), timeout=5.0)
        for reference in finished:
            task = pending.pop(reference)
            try:
                yield from ray.get(reference)
            except ray.exceptions.RayTaskError as error:  # the work failed, not the cluster
                raise CodyError(f"a worker failed on {name(task)}: {error.cause}") from None
            except ray.exceptions.RayError as error:
                died.append((task, type(error).__name__))
    if died:
        raise CodyError(lost(died))


def _do(shared: list[Any], task: Any) -> list[Any]:
    """A task. The reference comes in a list, so that Ray does not fetch it for every task; `_open` does, once."""
    (reference,) = shared
    model, graph, work = _open(reference)
    return list(work(model, graph, task))


@lru_cache(maxsize=1)
def _open(reference: Any) -> tuple[Model, TemporalGraph, Work]:
    """Done once in each worker."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for torch, if it is imported: every core has a worker
    model, graph, work = _ray().get(reference)
    return (model if hasattr(model, "logits") else model(graph)), graph, work


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
    with needed_by("--ray"):
        return importlib.import_module("ray")
