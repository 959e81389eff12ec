"""Work in several processes on this machine: tasks in, results out, whatever happens to the workers.

Each worker opens graph, weights and version table itself. They are memory-mapped, so they are in memory only once.
A worker gets a task, sends its results one by one, and gets the next. One that dies is replaced, and its task is tried
once more.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from cody.data import open_graph
from cody.engine.named import NamedModel
from cody.errors import CallError, CodyError
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.study.instances import Link
from cody.study.record import Failure, Key, Record, key_of
from cody.study.run import EvaluationPlan, evaluate_one, keys_of, without_records

Opener = Callable[[], tuple[Model, TemporalGraph]]
Work = Callable[[Model, TemporalGraph, Any], Iterator[Any]]  # the results of a task

ATTEMPTS = 2  # a task that kills two workers would kill the next one too
FAILED_STARTS = 3  # workers that may die while they load the model, before the run gives up

logger = logging.getLogger(__name__)


def run_in_processes(
    opener: Opener,
    workers: int,
    work: Work,
    tasks: Iterable[Hashable],
    *,
    message: Callable[[Any], Any] = lambda task: task,
    lost: Callable[[list[Any]], str],
) -> Iterator[Any]:
    """What `work(model, graph, message(task))` yields for each task, in any order.

    Args:
        opener: makes model and graph, once in each process. It and `work` must be picklable: functions of a module, or
            `functools.partial` of them. A script that calls this needs the usual `if __name__ == "__main__":`.
        workers: how many processes there are.
        work: what a worker does.
        tasks: what is to be done.
        message: what a worker is told about a task, worked out when it gets it.
        lost: the error for tasks whose workers died each time; it is raised when all others are done.
    """
    if workers < 1:
        raise CallError(f"there must be at least 1 worker, not {workers}")
    pool = _Pool(opener, work, message, deque(tasks))
    try:
        while pool.queue or pool.busy:
            while len(pool.workers) < min(workers, len(pool.busy) + len(pool.queue)):
                pool.start()
            pool.hand_out()
            for connection in wait(list(pool.workers)):
                assert isinstance(connection, Connection)
                yield from (result.value for result in pool.receive(connection))
    finally:
        pool.stop()
    if pool.lost:
        raise CodyError(lost(pool.lost))


class _Result(NamedTuple):
    value: Any


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    ready: bool = False  # it has opened the model
    task: Hashable | None = None


@dataclass(slots=True)
class _Pool:
    """The workers, and the tasks that are left."""

    opener: Opener
    work: Work
    message: Callable[[Any], Any]
    queue: deque[Hashable]
    workers: dict[Connection, _Worker] = field(default_factory=dict)
    deaths: Counter[Hashable | None] = field(default_factory=Counter)  # None: before it was ready
    lost: list[Hashable] = field(default_factory=list)

    @property
    def busy(self) -> list[Hashable]:
        return [worker.task for worker in self.workers.values() if worker.task is not None]

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")  # threads do not survive a fork
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(self.opener, self.work, theirs), daemon=True)
        with _interrupts_ignored():
            process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.workers[ours] = _Worker(process)
        logger.debug("worker %s started", process.pid)

    def receive(self, connection: Connection) -> Iterator[_Result]:
        """Take one message of a worker: a result, an error, or that it is ready for the next task."""
        worker = self.workers[connection]
        try:
            message = connection.recv()
        except (EOFError, OSError):
            self._discard(connection)
            return
        if isinstance(message, Exception):
            raise message
        if isinstance(message, _Result):
            yield message
        else:
            worker.ready, worker.task = True, None

    def hand_out(self) -> None:
        """Give the next tasks to the workers that have none."""
        idle = [connection for connection, worker in self.workers.items() if worker.ready and worker.task is None]
        for connection, task in zip(idle, list(self.queue), strict=False):
            self.queue.popleft()
            self.workers[connection].task = task
            with suppress(OSError):  # it is dead, as `receive` will notice
                connection.send(self.message(task))

    def _discard(self, connection: Connection) -> None:
        worker = self.workers.pop(connection)
        connection.close()
        worker.process.join()
        self.deaths[worker.task] += 1
        code = worker.process.exitcode
        if worker.task is not None:
            try_again = self.deaths[worker.task] < ATTEMPTS
            (self.queue if try_again else self.lost).append(worker.task)
            then = "it is tried again" if try_again else "it is given up"
            logger.warning("a worker died with exit code %s on %s: %s", code, worker.task, then)
        elif not worker.ready and self.deaths[None] >= FAILED_STARTS:
            raise CodyError(f"workers die while they load the model, the last one with exit code {code}")

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


def _work(opener: Opener, work: Work, connection: Connection) -> None:
    """A worker's life: it sends None when it is ready for a task, then its results, or the error that ends it."""
    with suppress(EOFError, ConnectionError):  # the run is over
        try:
            model, graph = opener()
        except Exception as error:
            connection.send(_sendable(error))
            return
        while True:
            connection.send(None)
            for message in _results(work, model, graph, connection.recv()):
                connection.send(message)


def _results(work: Work, model: Model, graph: TemporalGraph, task: Any) -> Iterator[_Result | Exception]:
    try:
        yield from map(_Result, work(model, graph, task))
    except Exception as error:
        yield _sendable(error)


def _sendable(error: Exception) -> Exception:
    """Our own errors can be pickled; for others that is not certain, so they are turned into one of ours."""
    return error if isinstance(error, CodyError) else CodyError(f"a worker failed: {type(error).__name__}: {error}")


# The work of an evaluation in several processes on this machine.


def open_model(
    graph: Path, model: str, allow_data_mismatch: bool, folder: Path | None = None
) -> tuple[Model, TemporalGraph]:
    """A saved graph and a model for it, as a worker uses them. Modules of the user's are looked for in `folder`."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for torch, if it is imported: every core has a worker
    named = NamedModel(model, partial(open_graph, graph), folder)
    return named.open(allow_data_mismatch=allow_data_mismatch), named.graph


def evaluate_in_processes(
    opener: Opener,
    workers: int,
    model: Model,
    graph: TemporalGraph,
    links: Sequence[Link],
    plan: EvaluationPlan,
    done: Set[Key] = frozenset(),
) -> Iterator[Record | Failure]:
    """Does the work of `evaluate` in `workers` processes: the same records, in another order.

    `opener` is called once in each of them. It and the plan must be picklable: functions of a module, or
    `functools.partial` of them. A script that calls this needs the usual `if __name__ == "__main__":`.
    """
    known = set(done)
    records: Iterator[Record | Failure] = run_in_processes(
        opener,
        workers,
        partial(evaluate_one, plan),
        [link for link in links if keys_of(link, plan) - known],
        message=lambda link: (link, known & keys_of(link, plan)),
        lost=lambda lost: without_records([f"{link.event} ({link.kind})" for link in lost], ATTEMPTS),
    )
    for record in records:
        known.add(key_of(record))
        yield record
