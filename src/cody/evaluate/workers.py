"""The work of an evaluation in several processes on this machine.

Each worker opens graph, weights and version table itself. They are memory-mapped, so they are in memory only once.
A worker gets a link, sends its records one by one, and gets the next. One that dies is replaced, and its link is tried
once more.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from cody.adapters.named import NamedModel
from cody.data import open_graph
from cody.errors import CallError, CodyError
from cody.evaluate.record import Record
from cody.evaluate.run import Key, Link, Plan, evaluate, key_of, keys_of
from cody.graph import TemporalGraph
from cody.model import Model

Opener = Callable[[], tuple[Model, TemporalGraph]]

ATTEMPTS = 2  # a link that kills two workers would kill the next one too
FAILED_STARTS = 3  # workers that may die while they load the model, before the run gives up


def open_model(graph: Path, model: str, other_data: bool, folder: Path | None = None) -> tuple[Model, TemporalGraph]:
    """A saved graph and a model for it, as a worker uses them. Modules of the user's are looked for in `folder`."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for torch, if it is imported: every core has a worker
    named = NamedModel(model, partial(open_graph, graph), folder)
    return named.open(other_data=other_data), named.graph


def evaluate_in_processes(
    opener: Opener,
    workers: int,
    model: Model,
    graph: TemporalGraph,
    links: Sequence[Link],
    plan: Plan,
    done: Set[Key] = frozenset(),
) -> Iterator[Record]:
    """Does the work of `evaluate` in `workers` processes: the same records, in another order.

    `opener` is called once in each of them. It and the plan must be picklable: functions of a module, or
    `functools.partial` of them. A script that calls this needs the usual `if __name__ == "__main__":`.
    """
    if workers < 1:
        raise CallError(f"there must be at least 1 worker, not {workers}")
    pool = _Pool(opener, plan, set(done))
    pool.queue.extend(link for link in links if keys_of(link, plan) - done)
    try:
        while pool.queue or pool.busy:
            while len(pool.workers) < min(workers, len(pool.busy) + len(pool.queue)):
                pool.start()
            pool.hand_out()
            for connection in wait(list(pool.workers)):
                assert isinstance(connection, Connection)
                record = pool.receive(connection)
                if record is not None:
                    yield record
    finally:
        pool.stop()
    if pool.lost:
        shown = ", ".join(f"{link.event} ({link.kind})" for link in pool.lost[:5])
        raise CodyError(
            f"{len(pool.lost)} links have no records because their workers died {ATTEMPTS} times: events {shown}; "
            "the same command tries them again"
        )


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    ready: bool = False  # it has opened the model
    link: Link | None = None


@dataclass(slots=True)
class _Pool:
    """The workers, and the links that are left."""

    opener: Opener
    plan: Plan
    done: set[Key]
    queue: deque[Link] = field(default_factory=deque)
    workers: dict[Connection, _Worker] = field(default_factory=dict)
    deaths: Counter[Link | None] = field(default_factory=Counter)  # None: before it was ready
    lost: list[Link] = field(default_factory=list)

    @property
    def busy(self) -> list[Link]:
        return [worker.link for worker in self.workers.values() if worker.link is not None]

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")  # threads do not survive a fork
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(self.opener, self.plan, theirs), daemon=True)
        with _interrupts_ignored():
            process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.workers[ours] = _Worker(process)

    def receive(self, connection: Connection) -> Record | None:
        """Take one message of a worker."""
        worker = self.workers[connection]
        try:
            message = connection.recv()
        except (EOFError, OSError):
            self._discard(connection)
            return None
        if isinstance(message, Record):
            self.done.add(key_of(message))
            return message
        if isinstance(message, Exception):
            raise message
        worker.ready, worker.link = True, None
        return None

    def hand_out(self) -> None:
        """Give the next links to the workers that have none."""
        idle = [connection for connection, worker in self.workers.items() if worker.ready and worker.link is None]
        for connection, link in zip(idle, list(self.queue), strict=False):
            self.queue.popleft()
            self.workers[connection].link = link
            with suppress(OSError):  # it is dead, as `receive` will notice
                connection.send((link, self.done & keys_of(link, self.plan)))

    def _discard(self, connection: Connection) -> None:
        worker = self.workers.pop(connection)
        connection.close()
        worker.process.join()
        self.deaths[worker.link] += 1
        if worker.link is not None:
            try_again = self.deaths[worker.link] < ATTEMPTS
            (self.queue if try_again else self.lost).append(worker.link)
        elif not worker.ready and self.deaths[None] >= FAILED_STARTS:
            raise CodyError(
                f"workers die while they load the model, the last one with exit code {worker.process.exitcode}"
            )

    def stop(self) -> None:
        for connection, worker in self.workers.items():
            connection.close()
            worker.process.terminate()
        for worker in self.workers.values():
            worker.process.join()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started here ignore Ctrl-C, which reaches all processes at once: this one stops the others."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(opener: Opener, plan: Plan, connection: Connection) -> None:
    """A worker's life: it sends None when it is ready for a link, then its records, or the error that ends it."""
    with suppress(EOFError, ConnectionError):  # the run is over
        try:
            model, graph = opener()
        except Exception as error:
            connection.send(_sendable(error))
            return
        while True:
            connection.send(None)
            link, done = connection.recv()
            for message in _records(model, graph, link, plan, done):
                connection.send(message)


def _records(
    model: Model, graph: TemporalGraph, link: Link, plan: Plan, done: Set[Key]
) -> Iterator[Record | Exception]:
    try:
        yield from evaluate(model, graph, [link], plan, done)
    except Exception as error:
        yield _sendable(error)


def _sendable(error: Exception) -> Exception:
    """Our own errors can be pickled; for others that is not certain, so they are turned into one of ours."""
    return error if isinstance(error, CodyError) else CodyError(f"a worker failed: {type(error).__name__}: {error}")
