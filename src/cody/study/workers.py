"""The work of an evaluation in several processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set
from functools import partial
from pathlib import Path

from cody.data import open_graph
from cody.engine.named import NamedModel
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.study.failure import Failure
from cody.study.instances import Link
from cody.study.pool import ATTEMPTS, Opener, run_in_processes
from cody.study.record import Key, Record, key_of
from cody.study.run import EvaluationPlan, evaluate, keys_of


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

    def with_what_is_done(link: Link) -> tuple[Link, Set[Key]]:
        return link, known & keys_of(link, plan)

    records: Iterator[Record | Failure] = run_in_processes(
        opener,
        workers,
        partial(_evaluate_link, plan),
        [link for link in links if keys_of(link, plan) - known],
        message=with_what_is_done,
        lost=_without_records,
    )
    for record in records:
        known.add(key_of(record))
        yield record


def _evaluate_link(
    plan: EvaluationPlan, model: Model, graph: TemporalGraph, task: tuple[Link, Set[Key]]
) -> Iterator[Record | Failure]:
    link, done = task
    return evaluate(model, graph, [link], plan, done)


def _without_records(links: Sequence[Link]) -> str:
    shown = ", ".join(f"{link.event} ({link.kind})" for link in links[:5])
    return (
        f"{len(links)} predictions have no records because their workers died {ATTEMPTS} times: events {shown}; "
        "the same command tries them again"
    )
