"""Comparing explainers: evaluations, tables, figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from cody import search
from cody.cli.choices import DEFAULT_EDITS, NEARBY, NearName, parse_edits
from cody.cli.common import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    DataOption,
    JsonOption,
    ModelOption,
    OtherDataOption,
    ScorerOption,
    SortOption,
    UnitOption,
    app,
    open_model,
    parse_shares,
    print_json,
    say,
)
from cody.cli.options import AllowOption, KindsOption, PeriodOption, ProtectOption, RayOption, SeedOption, WorkersOption
from cody.cli.parser import FOLDER, LINES, Argument, Option
from cody.cli.progress import progress, status
from cody.cli.protect import protected
from cody.data import load, save_graph
from cody.data.storage import is_saved_graph
from cody.engine.named import NamedModel, is_factory, load_factory
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.contract import Model
from cody.search.proposals import Proposer
from cody.study import metrics
from cody.study import run as evaluation
from cody.study.explainers import COMPARED, EXPLAINERS, SEARCHES, Entry, explainer, find
from cody.study.failure import Failure, in_words
from cody.study.instances import PAPER_MARGIN, PAPER_PERIOD, TEST_PERIOD
from cody.study.record import Record
from cody.study.record_file import iterate_records, read_failures
from cody.utils import start as _start
from cody.utils import words

if TYPE_CHECKING:
    from cody.study.pool import Opener

ALL = "all"


@app.command(
    groups={
        "Which predictions": "instances kinds period margin seed paper",
        "Data and model": "data model sort unit allow_data_mismatch",
        "The explainers": "explainers candidates near allow protect iterations alpha evaluations share scorer",
        "The work": "workers ray out_",
    },
    examples={
        "cody evaluate --instances 100 --out run.jsonl": "CoDy and GreeDy; stopped, the same command goes on",
        "cody evaluate --explainers all --workers 4 --out run.jsonl": "all explainers, in four processes",
    },
)
def evaluate(
    out_: Annotated[
        Path, Option("--out", writes=LINES, help="File for the records, JSON Lines; an existing run is continued.")
    ],
    data: DataOption = DEFAULT_DATA,
    model: ModelOption = DEFAULT_MODEL,
    explainers: Annotated[
        str, Option(help=f"{', '.join(f'{name}-POLICY' for name in SEARCHES)}, factual ones; all.")
    ] = ",".join(COMPARED),
    instances: Annotated[int, Option(min=1, help="Links of each kind.")] = 100,
    kinds: KindsOption = "correct,incorrect",
    period: PeriodOption = None,
    margin: Annotated[float | None, Option(help="Leave out logits closer to 0. Default: 0.")] = None,
    near: Annotated[NearName | None, Option(help="Which events are candidates, as in explain. Default: ends.")] = None,
    paper: Annotated[
        bool, Option("--paper", help="As in the published tables: --period 0.2..0.6 --margin 0.2 --near nodes.")
    ] = False,
    candidates: Annotated[
        int | None, Option(min=1, help="Maximum number of candidate events. Default: 64; T-GNNExplainer: 30.")
    ] = None,
    allow: AllowOption = None,
    protect: ProtectOption = None,
    iterations: Annotated[int, Option(min=1, help="Budget of tree searches.")] = 300,
    alpha: Annotated[float, Option(show_default="2/3", help="Tree searches: 0 explores, 1 exploits.")] = search.ALPHA,
    evaluations: Annotated[int | None, Option(min=1, help="Budget of questions, for each explainer.")] = None,
    share: Annotated[
        bool, Option("--share", help="Explainers share answers about a link: faster, but without timings.")
    ] = False,
    scorer: ScorerOption = None,
    seed: SeedOption = 0,
    workers: WorkersOption = 1,
    ray: RayOption = None,
    sort: SortOption = False,
    unit: UnitOption = None,
    allow_data_mismatch: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Run explainers on the same links, and keep a record of each answer. The same command continues a stopped run."""
    if not 0 <= alpha <= 1:
        raise CallError(f"--alpha must lie between 0 and 1, not {alpha}")
    edits = _edits(allow, paper)
    entries = _entries(explainers)
    _check_scorer_is_used(entries, explainers, scorer)
    chosen = [
        explainer(
            entry.name,
            scorer=(scorer or model) if entry.needs_scorer else None,
            allow_data_mismatch=allow_data_mismatch,
            size=candidates or entry.size or SIZE,  # the same for all, so that their answers can be compared
            near=NEARBY[near or (NearName.nodes if paper else NearName.ends)],
            evaluations=evaluations,
            edits=edits,
            **_options(entry, iterations=iterations, alpha=alpha),
        )
        for entry in entries
    ]
    sample = evaluation.Sample(
        instances,
        named_kinds(kinds),
        parse_shares(period) if period is not None else PAPER_PERIOD if paper else TEST_PERIOD,
        margin if margin is not None else PAPER_MARGIN if paper else 0.0,
    )
    with status("Loading the data ..."):
        named = NamedModel(model, partial(load, data, sort=sort, unit=unit))
        kept = protected(named.graph, protect or [])
        chosen = [replace(each, protect=kept) for each in chosen]
        plan = evaluation.EvaluationPlan(named.data(data), model, tuple(chosen), seed, share)
    loaded = open_model(named, allow_data_mismatch=allow_data_mismatch)
    for learned in dict.fromkeys(entry.learned for entry in entries if entry.needs_scorer):
        _check_scorer(learned, scorer or model, loaded, allow_data_mismatch)
    with way_to_evaluate(plan.data, named.graph, model, allow_data_mismatch, workers, ray) as way:
        steps = evaluation.run(out_, loaded, named.graph, plan, sample, evaluate=way)
        links = finish(steps, sample, kept=out_, nothing="nothing was done yet")
    failures = failures_of(out_, plan, links)
    _print(metrics.summaries(records_of(out_, plan, links), failures), as_json=json_)
    say_failures(failures)
    if not json_ and edits != parse_edits(DEFAULT_EDITS):
        print(f"Allowed were {allow}: do not compare this with explainers that only remove events.")


def _edits(allow: str | None, paper: bool) -> tuple[Proposer, ...]:
    edits = parse_edits(DEFAULT_EDITS if allow is None else allow)
    if paper and edits != parse_edits(DEFAULT_EDITS):
        raise CallError(f"--paper compares removals, as the paper does: leave out --allow {allow}")
    return edits


def _check_scorer_is_used(entries: Sequence[Entry], names: str, scorer: str | None) -> None:
    if scorer is not None and not any(entry.needs_scorer for entry in entries):
        learned = ", ".join(entry.name for entry in EXPLAINERS.values() if entry.needs_scorer)
        raise CallError(f"{names!r} has no option --scorer: only these use one: {learned}")


def named_kinds(text: str) -> tuple[str, ...]:
    """What `--kinds` names."""
    return tuple(dict.fromkeys(kind.strip() for kind in text.split(",") if kind.strip()))


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
    """Work that Ctrl-C ends with a word about what is kept: a file that the same command resumes, or `nothing`."""
    try:
        yield
    except KeyboardInterrupt:
        there = kept is not None and kept.exists()
        file = f"what is done is in {words.sanitize(kept, 2000)}, and the same command continues from there"
        say(f"stopped; {file if there else nothing}")
        sys.exit(_start.STOPPED)


def records_of(file: Path, plan: evaluation.EvaluationPlan, links: Sequence[evaluation.Link]) -> Iterator[Record]:
    """The records of a run. A file may hold those of others, and several spellings of the same data and model."""
    wanted = {evaluation.key(each.name, link) for each in plan.explainers for link in links}
    for record in iterate_records(file):
        if evaluation.key_of(record) in wanted:
            yield replace(record, data=plan.data, model=plan.model)


def failures_of(file: Path, plan: evaluation.EvaluationPlan, links: Sequence[evaluation.Link]) -> list[Failure]:
    """What a run could not explain."""
    wanted = {evaluation.key(each.name, link) for each in plan.explainers for link in links}
    failed = (failure for failure in read_failures(file) if evaluation.key_of(failure) in wanted)
    return [replace(failure, data=plan.data, model=plan.model) for failure in failed]


def say_failures(failures: Sequence[Failure]) -> None:
    for sentence in in_words(failures):
        say(sentence)


def _print(summaries: dict[metrics.Group, metrics.MetricSummary], *, as_json: bool) -> None:
    if as_json:
        print_json([group._asdict() | asdict(summary) for group, summary in summaries.items()])
        return
    from cody.cli import show

    show.print_parts(show.evaluation(summaries))


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
            exist = f"only {found:,} of the {words.count(sample.instances, f'{kind} link')} asked for"
            say(f"{exist} {'exists' if found == 1 else 'exist'} in this period with this margin")


@contextmanager
def way_to_evaluate(
    data: str, graph: TemporalGraph, model: str, allow_data_mismatch: bool, workers: int, ray: str | None
) -> Iterator[evaluation.Evaluate]:
    """Who does the work: this process, several of them, or a cluster."""
    from cody.study.on_ray import connected, evaluate_on_ray
    from cody.study.workers import evaluate_in_processes

    if ray is not None and workers > 1:
        raise CallError("give --workers or --ray, not both")
    if ray is not None:
        with connected(ray):  # a cluster that cannot be reached is noticed before links are drawn
            make = partial(load_factory, model, Path.cwd()) if is_factory(model) else None
            yield partial(evaluate_on_ray, ray, load=make)
    elif workers == 1:
        yield evaluation.evaluate
    else:
        with worker_opener(data, graph, model, allow_data_mismatch) as opener:
            yield partial(evaluate_in_processes, opener, workers)


@contextmanager
def worker_opener(data: str, graph: TemporalGraph, model: str, allow_data_mismatch: bool) -> Iterator[Opener]:
    """What opens graph and model in each worker, as long as the block lasts."""
    from cody.study.scratch import clear_abandoned, scratch_folder
    from cody.study.workers import open_model

    clear_abandoned()
    with scratch_folder() as folder:
        saved = Path(data) if is_saved_graph(Path(data)) else save_graph(graph, folder / "graph")
        yield partial(open_model, saved, model, allow_data_mismatch, Path.cwd())


def _entries(names: str) -> list[Entry]:
    """The entries of the catalogue with these names."""
    asked = [name.strip() for name in names.split(",") if name.strip()]
    named = [find(name) for name in asked if name != ALL]
    return list(EXPLAINERS.values()) if ALL in asked else named


def _options(entry: Entry, **given: Any) -> dict[str, Any]:
    """Those options that the search of an explainer has."""
    return {name: value for name, value in given.items() if name in entry.options}


def _check_scorer(policy: str, scorer: str, model: Model, allow_data_mismatch: bool) -> None:
    """A scorer that was not trained for this model is refused before anything is run."""
    from cody.baselines import load_trained

    load_trained(policy, scorer, model, allow_data_mismatch=allow_data_mismatch)


def follow(first: evaluation.RunProgress, steps: Iterator[evaluation.RunProgress]) -> None:
    """Do the work of an evaluation, and show how far it is."""
    if first.finished:
        say(f"{first.finished:,} of {first.total:,} records already done")
    begun = monotonic()
    with progress("records", first.total, completed=first.finished) as move:
        for step in steps:
            rate = (step.finished - first.finished) / max(monotonic() - begun, 1e-9)
            move(completed=step.finished, description=f"records, {rate:.1f} a second")


class TableFormat(StrEnum):
    text = "text"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


RecordFiles = Annotated[list[Path], Argument(help="Files of records that cody evaluate wrote; also .gz.")]


@app.command("tables")
def tables_(
    files: RecordFiles,
    format_: Annotated[TableFormat, Option("--format", help="How they are written.")] = TableFormat.text,
    paper: Annotated[bool, Option("--paper", help="The paper's own figures beside ours.")] = False,
    intervals: Annotated[bool, Option("--intervals", help="Bootstrap intervals of 95 %.")] = False,
) -> None:
    """Compare explainers as the paper's tables do."""
    from cody.paper import typeset
    from cody.paper.tables import tables
    from cody.study.record_file import read_runs

    records = read_runs(files)
    failures = [failure for file in files for failure in read_failures(file)]
    rng = np.random.default_rng(0) if intervals else None
    made = tables(records, paper=paper, rng=rng, failures=failures)
    writers = {
        TableFormat.text: typeset.as_text,
        TableFormat.markdown: typeset.as_markdown,
        TableFormat.latex: typeset.as_latex,
        TableFormat.csv: typeset.as_csv,
    }
    print(writers[format_](made), end="")


@app.command()
def figures(
    files: RecordFiles,
    out_: Annotated[Path, Option("--out", writes=FOLDER, help="Folder for the figures, as SVG and PNG.")] = Path(
        "figures"
    ),
) -> None:
    """Draw the figures of the paper's evaluation."""
    from cody.paper.figures import save_figures
    from cody.study.record_file import read_runs

    records = read_runs(files)
    for path in save_figures(records, out_):
        print(path)
