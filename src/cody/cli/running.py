"""Runs that take long: who does the work, how far it is, what Ctrl-C leaves behind, and what a run wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from msgspec import structs

from cody.cli.messages import say
from cody.cli.progress import progress, status
from cody.data import save_graph
from cody.data.storage import is_saved_graph
from cody.engine.named import is_factory, load_factory
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.study import run as evaluation
from cody.study.failure import Failure, in_words
from cody.study.record import Record
from cody.study.record_file import iterate_records, read_failures
from cody.utils import start, words
from cody.utils.files import scratch_folder

if TYPE_CHECKING:
    from cody.cli.options import ModelSource
    from cody.study.pool import Opener


def finish(
    steps: Iterator[evaluation.RunProgress], sample: evaluation.Sample, *, kept: Path | None, nothing: str
) -> Sequence[evaluation.Link]:
    """Do the work, and show how far it is. Returns the links. `kept`: the file that a later run goes on with."""
    with stoppable(kept, nothing):
        with status("Drawing links ..."):
            first = next(steps)
        say_what_is_missing(first.links, sample)
        follow(first, steps)
    return first.links


@contextmanager
def stoppable(kept: Path | None, nothing: str) -> Iterator[None]:
    """Work that Ctrl-C ends with a note on what is kept: a file that the same command resumes, or `nothing`."""
    try:
        yield
    except KeyboardInterrupt:
        there = kept is not None and kept.exists()
        stop(f"what is done is in {words.sanitize(kept, 2000)}; rerun to resume" if there else nothing)


def stop(left: str = "") -> NoReturn:
    """End a command after Ctrl-C, and say what it leaves behind."""
    say(f"stopped; {left}" if left else "stopped")
    sys.exit(start.STOPPED)


def records_of(
    file: Path, plan: evaluation.EvaluationPlan, links: Sequence[evaluation.Link], *, documents: bool = False
) -> Iterator[Record]:
    """The records of a run. A file may hold those of others, and several spellings of the same data and model."""
    wanted = {evaluation.key(each.name, link) for each in plan.explainers for link in links}
    for record in iterate_records(file, documents=documents):
        if evaluation.key_of(record) in wanted:
            yield replace(record, data=plan.data, model=plan.model)


def failures_of(file: Path, plan: evaluation.EvaluationPlan, links: Sequence[evaluation.Link]) -> list[Failure]:
    """What a run could not explain."""
    wanted = {evaluation.key(each.name, link) for each in plan.explainers for link in links}
    failed = (failure for failure in read_failures(file) if evaluation.key_of(failure) in wanted)
    return [structs.replace(failure, data=plan.data, model=plan.model) for failure in failed]


def say_failures(failures: Sequence[Failure]) -> None:
    for sentence in in_words(failures):
        say(sentence)


def say_what_is_missing(links: Sequence[evaluation.Link], sample: evaluation.Sample) -> None:
    """Say which links that were asked for are not explained: too few exist, or too many were named."""
    if sample.events is not None:
        if len(links) < len(sample.events):
            limits = f"at most {sample.instances:,} of each kind (--instances), {' and '.join(sample.kinds)} (--kinds)"
            say(f"{len(links):,} of {words.count(len(sample.events), 'link')} are explained: {limits}")
        return
    for kind in sample.kinds:
        found = sum(link.kind == kind for link in links)
        if found < sample.instances:
            exist = f"only {found:,} of the {words.count(sample.instances, f'{kind} link')} requested"
            say(f"{exist} {'exists' if found == 1 else 'exist'} in this period with this margin")


@contextmanager
def way_to_evaluate(
    data: str, graph: TemporalGraph, source: ModelSource, workers: int, ray: str | None
) -> Iterator[evaluation.Evaluate]:
    """Who does the work: this process, several of them, or a cluster."""
    from cody.study.on_ray import connected, evaluate_on_ray
    from cody.study.workers import evaluate_in_processes

    if ray is not None and workers > 1:
        raise CallError("give --workers or --ray, not both")
    if ray is not None:
        with connected(ray):  # a cluster that cannot be reached is noticed before links are drawn
            make = partial(load_factory, source.model, Path.cwd()) if is_factory(source.model) else None
            yield partial(evaluate_on_ray, ray, load=make)
    elif workers == 1:
        yield evaluation.evaluate
    else:
        with worker_opener(data, graph, source.model, source.allow_data_mismatch) as opener:
            yield partial(evaluate_in_processes, opener, workers)


@contextmanager
def worker_opener(data: str, graph: TemporalGraph, model: str, allow_data_mismatch: bool) -> Iterator[Opener]:
    """What opens graph and model in each worker, as long as the block lasts."""
    from cody.study.workers import open_model

    with scratch_folder("cody-workers-") as folder:
        saved = Path(data) if is_saved_graph(Path(data)) else save_graph(graph, folder / "graph")
        yield partial(open_model, saved, model, allow_data_mismatch, Path.cwd())


def follow(first: evaluation.RunProgress, steps: Iterator[evaluation.RunProgress]) -> None:
    """Do the work of an evaluation, and show how far it is."""
    if first.finished:
        say(f"{first.finished:,} of {first.total:,} records already done")
    begun = monotonic()
    with progress("records", first.total, completed=first.finished) as move:
        for step in steps:
            rate = (step.finished - first.finished) / max(monotonic() - begun, 1e-9)
            move(completed=step.finished, description=f"records, {rate:.1f} a second")
