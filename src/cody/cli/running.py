"""Runs that take long: who does the work, how far it is, what Ctrl-C leaves behind, and what a run wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import structs

from cody.cli.terminal import progress, say, status, stop
from cody.data import save_graph
from cody.data.readers import is_saved_graph
from cody.engine.named import NamedModel, is_factory, load_factory
from cody.errors import CallError, DataError, ModelError
from cody.graph import TemporalGraph
from cody.models.contract import Model, identity_of
from cody.models.decided import name_of_subject
from cody.study import run as evaluation
from cody.study.instances import KindWords, Link, kind_in_words
from cody.study.record import Failure, Key, Record, in_words, key_of
from cody.study.record_file import iterate_records, read_failures
from cody.utils import words
from cody.utils.files import scratch_folder

if TYPE_CHECKING:
    from cody.cli.options import ModelSource, WorkOptions
    from cody.study.pool import Opener


def run_evaluation(
    file: Path,
    model: Model,
    graph: TemporalGraph,
    plan: evaluation.EvaluationPlan,
    sample: evaluation.Sample,
    way: AbstractContextManager[evaluation.Evaluate],
    *,
    kept: Path | None,
    nothing: str = "nothing was done yet",
) -> tuple[set[Key], dict[str, KindWords]]:
    """Explain links, and show how far it is. Returns the keys of their records, and what each kind is called.

    Args:
        file: Where the records go.
        model: The model.
        graph: The log of events.
        plan: What is explained, and how.
        sample: Which links are drawn.
        way: Who does the work.
        kept: The file that a later run resumes.
        nothing: What to say if there is none.
    """
    settled = evaluation.check_plan(model, graph, plan)
    subject = name_of_subject(model, graph, settled)
    names = {kind: kind_in_words(kind, settled, subject) for kind in sample.kinds}
    with way as evaluate, stoppable(kept, nothing):
        steps = evaluation.run(file, model, graph, plan, sample, evaluate=evaluate)
        with status("Drawing predictions ..."):
            first = next(steps)
        _say_what_is_missing(first.links, sample, names)
        if first.finished:
            say(f"{first.finished:,} of {first.total:,} records already done")
        begun = monotonic()
        with progress("records", first.total, completed=first.finished) as move:
            for step in steps:
                rate = (step.finished - first.finished) / max(monotonic() - begun, 1e-9)
                move(completed=step.finished, description=f"records, {rate:.1f} a second")
    return set().union(*(evaluation.keys_of(link, plan) for link in first.links)), names


@contextmanager
def stoppable(kept: Path | None, nothing: str) -> Iterator[None]:
    """Work that Ctrl-C ends with a note on what is kept: a file that the same command resumes, or `nothing`."""
    try:
        yield
    except KeyboardInterrupt:
        there = kept is not None and kept.exists()
        stop(f"what is done is in {words.sanitize(kept, 2000)}; rerun to resume" if there else nothing)


def records_of(
    file: Path, plan: evaluation.EvaluationPlan, wanted: Set[Key], *, documents: bool = False
) -> Iterator[Record]:
    """The records of a run. A file may hold those of others, and several spellings of the same data and model."""
    for record in iterate_records(file, documents=documents):
        if key_of(record) in wanted:
            yield replace(record, data=plan.data, model=plan.model)


def failures_of(file: Path, plan: evaluation.EvaluationPlan, wanted: Set[Key]) -> list[Failure]:
    """What a run could not explain."""
    failed = (failure for failure in read_failures(file) if key_of(failure) in wanted)
    return [structs.replace(failure, data=plan.data, model=plan.model) for failure in failed]


def say_failures(failures: Sequence[Failure]) -> None:
    for sentence in in_words(failures):
        say(sentence)


def _say_what_is_missing(links: Sequence[Link], sample: evaluation.Sample, names: Mapping[str, KindWords]) -> None:
    """Say which of the requested predictions are not explained: too few exist, or too many were named."""
    if sample.events is not None:
        if len(links) < len(sample.events):
            limits = f"at most {sample.instances:,} of each kind (--instances), {' and '.join(sample.kinds)} (--kinds)"
            say(f"{len(links):,} of {words.count(len(sample.events), 'prediction')} are explained: {limits}")
        return
    for kind in sample.kinds:
        found = sum(link.kind == kind for link in links)
        if found < sample.instances:
            exist = f"only {found:,} of the {names[kind].counted(sample.instances)} requested"
            say(f"{exist} {'exists' if found == 1 else 'exist'} in this period with this margin")


@contextmanager
def way_to_evaluate(
    data: str, graph: TemporalGraph, source: ModelSource, work: WorkOptions
) -> Iterator[evaluation.Evaluate]:
    """Who does the work: this process, several of them, or a cluster."""
    from cody.study.on_ray import connected, evaluate_on_ray
    from cody.study.pool import evaluate_in_processes

    work.check()
    if work.ray is not None:
        with connected(work.ray):  # a cluster that cannot be reached is noticed before links are drawn
            yield partial(evaluate_on_ray, work.ray, load=made_there(source.model))
    elif work.workers == 1:
        yield evaluation.evaluate
    else:
        with worker_opener(data, graph, source.model, source.allow_data_mismatch) as opener:
            yield partial(evaluate_in_processes, opener, work.workers)


def made_there(model: str) -> Callable[[TemporalGraph], Model] | None:
    """What makes a model in each worker of a cluster; None: it is sent there."""
    return partial(load_factory, model, Path.cwd()) if is_factory(model) else None


@contextmanager
def worker_opener(data: str, graph: TemporalGraph, model: str, allow_data_mismatch: bool) -> Iterator[Opener]:
    """What opens graph and model in each worker, as long as the block lasts."""
    from cody.study.pool import open_model

    with scratch_folder("cody-workers-") as folder:
        saved = Path(data) if is_saved_graph(Path(data)) else save_graph(graph, folder / "graph")
        yield partial(open_model, saved, model, allow_data_mismatch, Path.cwd())


def open_others(names: Iterable[str], source: ModelSource, model: Model, graph: TemporalGraph) -> dict[str, Model]:
    """The models that --also names; an error if one of them is the explained model itself, or two are the same."""
    opened, known = {}, {identity_of(model): "the model that is explained"}
    for name in dict.fromkeys(names):
        try:
            opened[name] = replace(source, model=name).open(NamedModel(name, lambda: graph))
        except (CallError, DataError, ModelError) as error:
            raise type(error)(f"--also {name}: {error}") from None
        identity = identity_of(opened[name])
        if identity in known:
            raise CallError(f"--also {name} is {known[identity]}: name another one")
        known[identity] = f"the same model as --also {name}"
    return opened


def follow_training(
    steps: Iterator[Any],
    waiting: str,
    position: Callable[[Any], tuple[str, int, int]],
    line: Callable[[Any], str],
    *,
    at_most: bool = False,
) -> None:
    """Train, and show how far it is. Ctrl-C ends the command with a note on how to resume.

    Args:
        steps: Do the work.
        waiting: What is shown before the first of them.
        position: What is counted, how much of it is done, and of how much.
        line: What is printed at the end of an epoch; empty within one.
        at_most: It may end before everything is done.
    """
    finished = None
    try:
        with progress(waiting, None, at_most=at_most) as move:
            for step in steps:
                if finished is None and step.epoch > 1:
                    say(f"resuming after epoch {step.epoch - 1}")
                text = line(step)
                finished = step.epoch if text else step.epoch - 1
                description, completed, total = position(step)
                move(description=description, completed=completed, total=total)
                if text:
                    say(text)
    except KeyboardInterrupt:
        stop(f"{finished} epochs are done; rerun to resume" if finished else "")
