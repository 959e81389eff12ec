"""The benchmark: explainers on generated logs whose causes are known, with models that decide by these causes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cody.data.mechanisms import PlantedCauses, planted
from cody.engine.saved import load_model
from cody.errors import CallError, DataError, did_you_mean
from cody.graph import TemporalGraph
from cody.models.contract import Model, logits_of_links
from cody.models.folder import SavedModel, read_model, write_model
from cody.models.heuristics import reference_models
from cody.models.oracles import ORACLES, randomised
from cody.study import run as evaluation
from cody.study.appending import LineAppender, appending_lines
from cody.study.disturbances import DISTURBANCES, RANDOMISED, RETRAINED, SAME, Disturbance, MovedLog, similarities
from cody.study.explainers import Explainer
from cody.study.instances import Link
from cody.study.record import KINDS, Record
from cody.study.record_file import read_runs
from cody.study.sanity import cohesiveness, degree_likelihood, gap_likelihood, robust_fidelity
from cody.study.shares import Share, mean
from cody.study.truth import SCORES
from cody.utils.extras import missing
from cody.utils.forms import Count, Form, as_line, parse, read

if TYPE_CHECKING:
    from cody.train.training import TrainingSettings

logger = logging.getLogger(__name__)

ALL = "all mechanisms"
ROBUST = "robust"
CHECKS = (*DISTURBANCES, ROBUST)  # that take evaluations of their own
CHECKS_FOLDER, MODELS_FOLDER = "checks", "models"
EPOCHS, LEARNING_RATE = 30, 1e-3  # of the trained models: the logs are small
ORACLE = "oracle"
planted_once = cache(planted)


@cache
def _moved(disturbance: Disturbance, name: str) -> MovedLog:
    return disturbance.log(planted_once(name))


class BenchmarkStep(NamedTuple):
    """One link more is explained: for the table itself, or for a check."""

    check: str | None
    progress: evaluation.RunProgress


def run_benchmark(
    folder: str | Path,
    logs: Sequence[str],
    explainers: Sequence[Explainer],
    *,
    links: int = 20,
    seed: int = 0,
    models: Sequence[str] = (ORACLE,),
    checks: Sequence[str] = (),
) -> Iterator[BenchmarkStep]:
    """Let explainers explain links of generated logs, one file of records for each log. The same call resumes it.

    Args:
        folder: Where the files are written.
        logs: Mechanisms, with sizes and noise if they are not the usual ones: "reply", "joint noise=3".
        explainers: What to compare.
        links: How many links of each log are explained at most.
        seed: Draws the links, and is the seed of the explainers.
        models: Names of models: `BENCHMARK_MODELS`.
        checks: Which of `CHECKS` are made, too.
    """
    for check in checks:
        if check not in CHECKS:
            raise CallError(f"there is no check {check!r}{did_you_mean(check, CHECKS)}")
    for name in models:
        check_available(name)
    idle = []
    for made in [planted_once(text) for text in logs]:  # all before the first, which may take hours
        for name in models:
            model = benchmark_model(name, made, Path(folder) / MODELS_FOLDER)
            file = Path(folder) / f"{made.name.replace(' ', '-')}{'' if name == ORACLE else '-' + name}.jsonl"
            plan = evaluation.EvaluationPlan(made.name, model.name, tuple(explainers), seed)
            if not _predicts_any(model.on(made.graph), made):
                idle.append(f"{name} of {made.name}")
                continue
            sample = evaluation.Sample(min(links, len(made.ways)), ("correct",), (0.0, 1.0), events=tuple(made.ways))
            explained: Sequence[Link] = ()
            for step in evaluation.run(file, model.on(made.graph), made.graph, plan, sample):
                explained = step.links
                yield BenchmarkStep(None, step)
            yield from _checked(file, made, model, plan, explained, checks)
    if idle:
        logger.warning("no row for models that predict none of the links that were caused: %s", ", ".join(idle))
    if len(idle) == len(logs) * len(models):
        raise CallError("none of the models predicts any link that was caused: there is nothing to explain")


def _predicts_any(model: Model, made: PlantedCauses) -> bool:
    """Whether a model predicts any link that the mechanism caused: of the others, no causes are known."""
    return any(logit > 0 for logit in logits_of_links(model, [made.graph.query(row) for row in made.ways]))


def _checked(
    file: Path,
    made: PlantedCauses,
    model: BenchmarkModel,
    plan: evaluation.EvaluationPlan,
    links: Sequence[Link],
    checks: Sequence[str],
) -> Iterator[BenchmarkStep]:
    """The same links with one difference each, and under random removals."""
    for check in checks if links else ():
        there = _file_of(check, file)
        if check == ROBUST:
            _measure_robustness(there, file, model.on(made.graph), made)
            continue
        disturbance, moved = DISTURBANCES[check], _moved(DISTURBANCES[check], made.name)
        varied = {SAME: model.on, RANDOMISED: model.randomised, RETRAINED: model.retrained}[disturbance.model]
        if varied is None:
            continue
        events = tuple(sorted(moved.rows[[link.event for link in links]].tolist()))
        sample = evaluation.Sample(len(events), KINDS, (0.0, 1.0), events=events)
        with_it = replace(plan, data=f"{plan.data}, {check}", seed=plan.seed + disturbance.seed)
        for step in evaluation.run(there, varied(moved.graph), moved.graph, with_it, sample):
            yield BenchmarkStep(check, step)


def _file_of(check: str, file: Path) -> Path:
    return file.parent / CHECKS_FOLDER / check / file.name


# Robust fidelity takes evaluations of the model, so it is kept in files of its own.


class RobustLine(Form, frozen=True, kw_only=True, tag_field="schema", tag="cody/robust/1"):
    """The robust fidelity of one explanation."""

    explainer: str
    event: Count
    plus: float
    minus: float


class RobustAppender(LineAppender[RobustLine]):
    """A file of robust fidelities that is open for appending."""

    beginnings = (b'{"schema":"cody/robust/',)

    def read_line(self, line: bytes, number: int) -> RobustLine:
        return read(parse(line, "a line of robust fidelity"), RobustLine, "a line of robust fidelity")


def _measure_robustness(target: Path, file: Path, model: Model, made: PlantedCauses) -> None:
    with appending_lines(target, RobustAppender) as kept:
        known = {(line.explainer, line.event) for line in kept.known()}
        for record in read_runs([file], documents=True):
            if (record.explainer, record.event) in known:
                continue
            candidates = np.array([event.row for event in record.explanation.candidates], dtype=np.int64)
            rng = np.random.default_rng([record.seed, record.event])
            found = robust_fidelity(record, candidates, model, made.graph, rng)
            line = RobustLine(explainer=record.explainer, event=record.event, plus=found.plus, minus=found.minus)
            kept.write_line(as_line(line))


@dataclass(frozen=True, slots=True)
class BenchmarkAnswer:
    """One explanation of a benchmark, and what the checks say about it."""

    log: str
    model: str  # its kind: "oracle", or the name of another one
    explainer: str
    factual: bool
    event: int
    rows: tuple[int, ...]
    candidates: int
    evaluations: int
    seconds: float | None
    checks: dict[str, float]  # by the names in `MEASURED`, as far as they were made


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """What is known about one explainer on one log, or on all of them."""

    log: str
    model: str
    explainer: str
    factual: bool
    links: int
    scores: dict[str, Share]  # by their names in `cody.study.truth.SCORES`
    evaluations: Share
    seconds: Share | None
    checks: dict[str, Share | None]  # by the names in `MEASURED`; None: not measured


Values = dict[tuple[str, int], float]  # by explainer and event
Scored = tuple[BenchmarkAnswer, dict[str, float]]  # by the names in `SCORES`
MEASURED = ("fidelity+", "fidelity-", "robust+", "robust-", "cohesion", "gaps", "degrees", *DISTURBANCES)


def benchmark_rows(files: Iterable[str | Path]) -> list[BenchmarkRow]:
    """The table of a benchmark: one row for each explainer over all logs, then one for each log and explainer.

    Args:
        files: Records that `run_benchmark` wrote. The logs are generated again, and must be the same.
    """
    return rows_of(answer for file in files for answer in answers_in(Path(file)))


def answers_in(file: Path) -> Iterator[BenchmarkAnswer]:
    """What the explainers named, with all that is known about it, from the records of one log and its checks.

    Args:
        file: Records that `run_benchmark` wrote.
    """
    records = read_runs([file], documents=True)
    for record in records[:1]:
        check_log(record.data, record.data_identity)
    checked = _checks_of(file, records)
    for record in records:
        about = record.data, record.model.split()[0], record.explainer, record.factual, record.event, record.rows
        known = {name: values[_about(record)] for name, values in checked.items() if _about(record) in values}
        yield BenchmarkAnswer(*about, record.candidates, record.evaluations, record.seconds, known)


def _about(record: Record) -> tuple[str, int]:
    return record.explainer, record.event


def _checks_of(file: Path, records: Sequence[Record]) -> dict[str, Values]:
    """What is known about each explanation besides the causes, by the name of the check."""
    if not records:
        return {}
    name = records[0].data
    graph = planted_once(name).graph
    found: dict[str, Values] = {
        "fidelity+": {_about(record): float(record.is_necessary) for record in records},
        "fidelity-": {_about(record): float(record.is_sufficient) for record in records},
        "cohesion": {_about(record): cohesiveness(record, graph) for record in records},
        "gaps": {_about(record): gap_likelihood(record, graph) for record in records},
        "degrees": {_about(record): degree_likelihood(record, graph) for record in records},
    }
    if (there := _file_of(ROBUST, file)).exists():
        with there.open("rb") as opened:
            lines = list(RobustAppender(there, opened).entries())
        found["robust+"] = {(line.explainer, line.event): line.plus for line in lines}
        found["robust-"] = {(line.explainer, line.event): line.minus for line in lines}
    for check, disturbance in DISTURBANCES.items():
        if (there := _file_of(check, file)).exists():
            found[check] = similarities(records, read_runs([there]), _moved(disturbance, name).rows, disturbance)
    return found


def rows_of(answers: Iterable[BenchmarkAnswer]) -> list[BenchmarkRow]:
    """The table: one row for each explainer over all logs, then one for each log and explainer.

    Args:
        answers: Of any explainers and logs.
    """
    groups: dict[tuple[str, str, str], list[Scored]] = {}
    for answer in answers:
        scored = answer, {name: score(answer, planted_once(answer.log)) for name, score in SCORES.items()}
        for log in (ALL, answer.log):
            groups.setdefault((log, answer.model, answer.explainer), []).append(scored)
    rows = [_row(*about, scored) for about, scored in groups.items()]
    return sorted(rows, key=lambda row: (row.log != ALL, row.log, row.model, row.factual, -row.scores["exact"].value))


def _row(log: str, model: str, explainer: str, scored: Sequence[Scored]) -> BenchmarkRow:
    answers = [answer for answer, _ in scored]
    known = {name: [answer.checks[name] for answer in answers if name in answer.checks] for name in MEASURED}
    seconds = [answer.seconds for answer in answers if answer.seconds is not None]
    return BenchmarkRow(
        *(log, model, explainer, answers[0].factual, len(answers)),
        {name: mean([scores[name] for _, scores in scored]) for name in SCORES},
        mean([answer.evaluations for answer in answers]),
        mean(seconds) if len(seconds) == len(answers) else None,
        {name: mean(values) if values else None for name, values in known.items()},
    )


def check_log(name: str, identity: str) -> None:
    """Reject answers about a log that is another one when it is generated here.

    Args:
        name: Of the log.
        identity: Of the log that the answers are about.
    """
    try:
        made = planted_once(name)
    except CallError as error:
        raise DataError(f"these answers are about {name!r}, which is no generated log: {error}") from None
    if made.graph.identity != identity:
        raise DataError(f"the log {name!r} is another one than the records are about: {identity}")


# Models: one that decides by the mechanism, and trained ones, which need not. Each can be opened on a log that was
# changed, with random weights, or trained once more with another seed.


class BenchmarkModel(NamedTuple):
    """A model that can be opened on any log of the same nodes."""

    name: str  # in records
    on: Callable[[TemporalGraph], Model]
    randomised: Callable[[TemporalGraph], Model]  # the same with random weights
    retrained: Callable[[TemporalGraph], Model] | None = None  # trained with another seed; None: it is not trained


def _trained(name: str, graph: TemporalGraph, folder: Path) -> BenchmarkModel:
    """A network that was trained on a log; its folders are made when they are first needed, and then kept."""

    def saved(seed: int | None) -> Path:
        target = folder / (f"{name}-random" if seed is None else f"{name}-{seed}")
        if (target / "model.json").exists():
            return target
        if seed is None:
            write_model(target, shuffled(saved(0)))
        else:
            from cody.train.training import TrainingSettings

            settings = TrainingSettings(epochs=EPOCHS, learning_rate=LEARNING_RATE, seed=seed)
            TRAINERS[name].train(name, graph, settings, target)
        return target

    def opened(seed: int | None, log: TemporalGraph) -> Model:
        return load_model(saved(seed), log, allow_data_mismatch=True)

    return BenchmarkModel(name, partial(opened, 0), partial(opened, None), partial(opened, 1))


def _train_own(name: str, graph: TemporalGraph, settings: TrainingSettings, folder: Path) -> None:
    from cody.models.sizes import PRESETS
    from cody.train.architectures import ARCHITECTURES
    from cody.train.training import new_network, train

    for _ in train(graph, new_network(ARCHITECTURES[name], graph, PRESETS["compact"], settings.seed), settings, folder):
        pass


def _train_sequences(name: str, graph: TemporalGraph, settings: TrainingSettings, folder: Path) -> None:
    from cody.train.sequences import new_sequence_network
    from cody.train.training import train

    for _ in train(graph, new_sequence_network(name, graph, settings.seed), settings, folder):
        pass


def _train_pyg(name: str, graph: TemporalGraph, settings: TrainingSettings, folder: Path) -> None:
    from cody.adapters.pyg_folder import train_pyg_tgn

    train_pyg_tgn(graph, settings, folder)


class Trainer(NamedTuple):
    """How a network is trained on a log, and what must be installed for it."""

    train: Callable[[str, TemporalGraph, TrainingSettings, Path], None]  # name, log, settings, where it is saved
    module: str = "torch"


TRAINERS = {
    "tgn": Trainer(_train_own),
    "tgat": Trainer(_train_own),
    "graphmixer": Trainer(_train_sequences),
    "dygformer": Trainer(_train_sequences),
    "pyg-tgn": Trainer(_train_pyg, "torch_geometric"),
}


def shuffled(folder: Path) -> SavedModel:
    """A saved model with the numbers of each array of weights in random order.

    Args:
        folder: Of the model.
    """
    saved, rng = read_model(folder), np.random.default_rng(0)
    arrays = {name: rng.permutation(array.ravel()).reshape(array.shape) for name, array in saved.arrays.items()}
    return replace(saved, arrays=arrays)


RULED = ("EdgeBank", "EdgeBank, recent", "replies", "popularity", "recency", "common partners")
RULES = {re.sub(r"\W+", "-", name).lower(): name for name in RULED}  # edgebank-recent → its name in `reference_models`
BENCHMARK_MODELS = (ORACLE, *TRAINERS, *RULES)


def check_available(name: str) -> None:
    """Reject a model that does not exist, or that cannot be trained here for want of a package."""
    if name not in BENCHMARK_MODELS:
        raise CallError(f"there is no model {name!r} for generated logs{did_you_mean(name, BENCHMARK_MODELS)}")
    if name in TRAINERS and find_spec(TRAINERS[name].module) is None:
        raise missing(f"the model {name!r}", TRAINERS[name].module)


def benchmark_model(name: str, made: PlantedCauses, folder: Path) -> BenchmarkModel:
    """The model of that name for a log.

    Args:
        name: One of `BENCHMARK_MODELS`.
        made: The log.
        folder: Where trained models are kept.
    """
    check_available(name)
    if name == ORACLE:
        mechanism = made.name.split()[0]
        return BenchmarkModel(f"{ORACLE} {mechanism}", ORACLES[mechanism], randomised)
    if name in RULES:
        rule = reference_models(made.graph, [made.graph.query(row) for row in made.ways])[RULES[name]]
        return BenchmarkModel(name, rule.on, randomised)
    return _trained(name, made.graph, folder / made.name.replace(" ", "-"))
