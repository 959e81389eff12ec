"""What does a model react to? Interventions on the past of many links, each an exact what-if.

An audit draws links of the test period, and as many that did not happen; modifies the past of each in every way of
`cody.study.interventions`; and compares the decisions with those of reference models (`cody.models.heuristics`). What
follows from that is in `cody.study.audit_report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import asdict

from cody.errors import CallError, CodyError, did_you_mean
from cody.explaining.what_if import Scenario, answer_cases, near
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Model, as_seen, check_is_model, identity_of, label_task, logit_of_only, logits_of_links
from cody.models.deciding import above
from cody.models.heuristics import reference_models
from cody.models.margins import logit_of, probability
from cody.study import audit_report as report
from cody.study.appending import LineAppender, appending_lines, check_same_run
from cody.study.audit_report import AuditReport, read_audit
from cody.study.instances import TEST_PERIOD, check_sample, rows_of
from cody.study.interventions import INTERVENTIONS, LAST, OWN, Intervention, ModifiedPast, Near
from cody.study.pool import ATTEMPTS, Opener, Work, run_in_processes
from cody.utils.forms import Form, as_line, parse, read
from cody.utils.signatures import readable_help

__all__ = ["AuditReport", "audit", "read_audit"]

LINKS = 100
RUN, LINE = "cody/audit-run/1", "cody/audited-link/1"

Watch = Callable[[int, int], None]  # how many links are done, of how many
Load = Callable[[TemporalGraph], Model]


class AuditRun(Form, frozen=True, kw_only=True, tag_field="schema", tag=RUN):
    """The settings of an audit: the first line of its file."""

    data: str
    model: str
    links: int
    period: tuple[float, float]
    seed: int
    interventions: tuple[str, ...]


class AuditedLink(Form, frozen=True, kw_only=True, tag_field="schema", tag=LINE):
    """The scores of a link under its modified pasts."""

    place: int
    logit: float
    modified: dict[str, float]
    reasons: dict[str, str]  # why interventions cannot be made


Task = tuple[int, Query]  # the place of a link among those that were drawn, and the link
Measure = Callable[[Sequence[Task]], Iterable[AuditedLink]]


@readable_help
def audit(
    model: Model,
    graph: TemporalGraph,
    *,
    links: int = LINKS,
    period: tuple[float, float] = TEST_PERIOD,
    interventions: Sequence[Intervention] | None = None,
    at_most: Mapping[str, float] | None = None,
    threshold: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    workers: int = 1,
    opener: Opener | None = None,
    ray: str | None = None,
    load: Load | None = None,
    watch: Watch | None = None,
) -> AuditReport:
    """What a model reacts to: order, times, direction, features, how much history, and what must not matter.

    Args:
        model: Predicts links, or one of two labels.
        graph: The log of events.
        links: Number of events of the period to draw; as many links that did not happen are drawn with them.
        period: Part of the log, as shares of the events.
        interventions: Ways to modify the past of a link; default: all of `cody.study.interventions`.
        at_most: Checks of your own: the name of an intervention, and the share of decisions that it may change.
        threshold: Predicted above this probability. Default: the model's, else 0.5.
        seed: Seed for drawing links.
        out: File for the scores of each link; the same call resumes a run that was stopped.
        workers: Number of processes; more than one need `opener`.
        opener: Function of a module that makes model and graph in each process.
        ray: Address of a Ray cluster that does the work; "local": one on this machine.
        load: With `ray`: makes the model in each worker, if it cannot be pickled.
        watch: Called with the number of links that are done, and in total.

    >>> from cody.models import ToyModel
    >>> rng = np.random.default_rng(0)
    >>> graph = TemporalGraph.from_arrays(src=rng.integers(0, 5, 60), dst=5 + rng.integers(0, 5, 60), time=range(60))
    >>> report = audit(ToyModel(graph, bias=-1.0), graph, links=5)
    >>> report.status, report.effect("later events removed").flipped.value
    ('warn', 0.0)
    """
    check_is_model(model)
    chosen = INTERVENTIONS if interventions is None else tuple(interventions)
    _check_names(at_most or {}, chosen)
    task = label_task(model)
    usual = 0.5 if task is None or task.threshold is None else task.threshold
    line = logit_of(usual if threshold is None else above(threshold).threshold)
    if workers > 1 and opener is None:
        raise CallError("several workers need opener=, a function that makes model and graph in each process")
    if workers > 1 and ray is not None:
        raise CallError("give workers or ray, not both")
    queries, truth = _draw(model, graph, links, period, seed)
    measure = partial(_measure_each, chosen, seed)
    way: Measure = partial(measure, model, graph)
    if workers > 1 and opener is not None:
        way = partial(run_in_processes, opener, workers, measure, message=lambda task: [task], lost=_lost)
    if ray is not None:
        way = partial(_on_ray, ray, load or model, graph, measure)
    data, identity, names = graph.identity, identity_of(model), tuple(each.name for each in chosen)
    run = AuditRun(data=data, model=identity, links=links, period=period, seed=seed, interventions=names)
    audited = sorted(_measured(run, list(enumerate(queries)), way, out, watch), key=lambda each: each.place)
    original = np.array([each.logit for each in audited]) - line
    effects = tuple(_effects(chosen, audited, original, truth, line))
    references = () if task else tuple(_references(graph, queries, original, truth))
    precision = report.precision_of(original, truth)
    beside = "" if task else report.one_sided(original, line)
    faults = {each.name: each.fault for each in chosen if each.fault}
    return AuditReport(
        data=data,
        model=identity,
        links=len(queries),
        happened=int(truth.sum()),
        label=task.classes[1] if task else None,
        seed=seed,
        average_precision=precision,
        effects=effects,
        references=references,
        threshold=probability(line),
        checks=tuple(report.checks_of(effects, references, at_most or {}, beside, precision)),
        summary=report.summary_of(effects, references, faults, beside),
        verdict=tuple(report.verdict_of(effects, references, len(queries))),
    )


def _effects(
    chosen: Sequence[Intervention], audited: Sequence[AuditedLink], original: FloatArray, truth: BoolArray, line: float
) -> Iterator[report.InterventionEffect]:
    reasons = {name: reason for each in reversed(audited) for name, reason in each.reasons.items()}
    names = [each.name for each in chosen]
    logits = {name: np.array([link.modified.get(name, np.nan) for link in audited]) - line for name in names}
    for each in chosen:
        reason = reasons.get(each.name, "no past has such events")
        uncut = logits.get(OWN) if each.name in LAST else None
        yield report.effect_of(each, logits[each.name], original, truth, reason, uncut)


def _references(
    graph: TemporalGraph, queries: Sequence[Query], original: FloatArray, truth: BoolArray
) -> Iterator[report.ReferenceAgreement]:
    for name, reference in reference_models(graph, queries).items():
        scores = np.array([float(reference.logits(query, [frozenset()])[0]) for query in queries])
        yield report.agreement(name, scores, original, truth)


# The work, and the file that it can be resumed from


Line = AuditRun | AuditedLink


class AuditFile(LineAppender[Line]):
    """The file of an audit that is open for appending: its settings, then one line a link."""

    beginnings = (f'{{"schema":"{RUN}"'.encode(), f'{{"schema":"{LINE}"'.encode())

    def read_line(self, line: bytes, number: int) -> Line:
        form: type[Line] = AuditRun if number == 1 else AuditedLink
        return read(parse(line, "a line of an audit"), form, "a line of an audit")


def _measured(
    run: AuditRun, tasks: Sequence[Task], measure: Measure, out: str | Path | None, watch: Watch | None
) -> Iterator[AuditedLink]:
    """The scores of all links: those that the file has, then the others, which are appended to it."""
    with ExitStack() as stack:
        file = None if out is None else stack.enter_context(appending_lines(out, AuditFile))
        known = [] if file is None else list(file.known())
        if file is not None and not known:
            file.write_line(as_line(run))
        for header in known[:1]:
            check_same_run(str(out), asdict(header), asdict(run), "audit")
        done = {each.place: each for each in known[1:] if isinstance(each, AuditedLink)}
        yield from done.values()
        left = [task for task in tasks if task[0] not in done]
        for number, link in enumerate(measure(left) if left else (), start=len(done) + 1):
            if file is not None:
                file.write_line(as_line(link))
            if watch is not None:
                watch(number, len(tasks))
            yield link


def _lost(tasks: Sequence[object], attempts: int = ATTEMPTS) -> str:
    return f"{len(tasks)} links are not audited because their workers died {attempts} times"


def _on_ray(
    address: str, model: Model | Load, graph: TemporalGraph, measure: Work, tasks: Sequence[Task]
) -> Iterator[AuditedLink]:
    from cody.study.on_ray import RETRIES, connected, run_on_ray

    each, lost = [[task] for task in tasks], partial(_lost, attempts=RETRIES + 1)
    with connected(address) as ray:
        yield from run_on_ray(ray, model, graph, measure, each, name=lambda task: f"link {task[0][0]}", lost=lost)


def _measure_each(
    interventions: Sequence[Intervention], seed: int, model: Model, graph: TemporalGraph, tasks: Iterable[Task]
) -> Iterator[AuditedLink]:
    """The scores of each link under its modified pasts."""
    for place, query in tasks:
        past = Near(graph, query, near(model, graph, query), np.random.default_rng([seed, place]))
        reasons: dict[str, str] = {}
        (logit,) = logits_of_links(model, [query])
        modified = {name: float(value) for name, value in _modified(model, past, interventions, reasons)}
        yield AuditedLink(place=place, logit=float(logit), modified=modified, reasons=reasons)


def _check_names(given: Mapping[str, float], interventions: Sequence[Intervention]) -> None:
    known = [each.name for each in interventions]
    for name, share in given.items():
        if name not in known:
            raise CallError(f"there is no intervention {name!r}{did_you_mean(name, known)}")
        if not 0 <= share <= 1:
            raise CallError(f"{name!r} may change a share of the decisions between 0 and 1, not {share}")


# Which links


def _draw(
    model: Model, graph: TemporalGraph, links: int, period: tuple[float, float], seed: int
) -> tuple[list[Query], BoolArray]:
    """Links of a period, and which of them happened (or have the second of two labels)."""
    check_sample(links, period, 0.0)
    task, rng = label_task(model), np.random.default_rng(seed)
    rows = np.array(rows_of(period, graph))
    rows = rows[rows > 0]
    if task is not None:
        if len(task.classes) != 2:
            raise CallError(f"an audit is about two classes; this model has {len(task.classes)}")
        rows = rows[[graph.label_of(row) in task.classes for row in rows.tolist()]]
    if not len(rows):
        raise CallError("there are no events to audit in this period")
    chosen = np.sort(rng.choice(rows, size=min(links, len(rows)), replace=False)).tolist()
    queries = [as_seen(model, graph, graph.query(row)) for row in chosen]
    if task is not None:
        return queries, np.array([graph.label_of(row) == task.classes[1] for row in chosen])
    others = [query._replace(dst=_another(graph, query, rng)) for query in queries]
    return queries + others, np.repeat([True, False], [len(queries), len(others)])


def _another(graph: TemporalGraph, query: Query, rng: np.random.Generator) -> int:
    """A random destination of the past that the source does not interact with now."""
    known: IntArray = np.unique(graph.dst[: query.before])
    known = known[(known != query.dst) & (known != query.src)]
    return int(rng.choice(known)) if len(known) else query.src


# What becomes of them


def _modified(
    model: Model, past: Near, interventions: Sequence[Intervention], reasons: dict[str, str]
) -> Iterator[tuple[str, float]]:
    """The logit under each modified past; why an intervention cannot be made is noted once."""
    made = [(each.name, modified) for each in interventions if (modified := each.modify(past)) is not None]
    edited = [(name, each) for name, each in made if each.kept is None]
    try:
        scores = _scored(model, past.graph, [each for _, each in edited])
        yield from [(name, score) for (name, _), score in zip(edited, scores, strict=True)]
    except CodyError:  # one of them: a model may know removals only
        for name, each in edited:
            try:
                yield name, _scored(model, past.graph, [each])[0]
            except CodyError as error:
                reasons.setdefault(name, str(error))
    for name, each in made:
        if each.kept is not None:
            yield name, logit_of_only(model, each.query, each.kept)


def _scored(model: Model, graph: TemporalGraph, pasts: Sequence[ModifiedPast]) -> list[float]:
    scenarios = [Scenario(past.query, None, past.removed, past.edits) for past in pasts]
    new_nodes = dict.fromkeys(name for past in pasts for name in past.new_nodes)
    return answer_cases(model, graph, scenarios, new_nodes=list(new_nodes))
