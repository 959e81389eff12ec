"""Running explainers on the same links: one record for each explainer and link, in a file that a later run continues.

`evaluate` does the work and yields records. `run` adds the file: it draws the links, skips what is done already, and
appends each record as it comes. Other ways to do the work (`workers.py`, `on_ray.py`) give the same records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from cody._version import __version__
from cody.errors import CallError, DataError, ModelError
from cody.explain.document import EvaluationPart, document_of
from cody.explain.explanation import Explanation
from cody.graph import TemporalGraph, whole_number
from cody.models.contract import (
    DECIMALS,
    Change,
    Model,
    checked_logits,
    describe,
    has_identity,
    identity_of,
    logit_of_only,
)
from cody.study.arrange import setting
from cody.study.explainers import Explainer, name_of
from cody.study.failure import NOT_OF_A_LINK, NOTHING_WORKS, Failure, reason_of
from cody.study.instances import TEST_PERIOD, check_sample, rows_of, sample_kinds
from cody.study.record import KINDS, Record, record_of
from cody.study.record_file import Appender, EvaluationHeader, ExplainerOptions, appending
from cody.utils.signatures import readable_help

logger = logging.getLogger(__name__)


class Link(NamedTuple):
    """A link to explain: its event, and the kind of the model's prediction."""

    event: int
    kind: str


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Which explainers answer about each link, and how.

    Each explainer starts with no answers of the model from another one, so that `seconds` can be compared, and a record
    does not depend on what else was run. With `share`, the explainers of a link share the model's answers, which is
    faster; each is still charged for everything it asked, but its `seconds` would be unfair, so they are None.
    """

    data: str  # names, as the user gave them
    model: str
    explainers: tuple[Explainer, ...]
    seed: int = 0
    share: bool = False

    def __post_init__(self) -> None:
        for what, name in (("data", self.data), ("model", self.model)):
            if not isinstance(name, str):
                raise CallError(f"{what} must be a name, for the records, not {name!r}")
        _make_whole(self, "seed")
        if not 0 <= self.seed < 2**63:
            raise CallError(f"seed must be at least 0 and below 2^63, not {self.seed}")
        if isinstance(self.explainers, Explainer) or not all(isinstance(one, Explainer) for one in self.explainers):
            raise CallError(
                f"explainers must be a sequence of cody.study.explainers.Explainer, not {self.explainers!r}"
            )
        names = [explainer.name for explainer in self.explainers]
        for name in names:
            if names.count(name) > 1:
                raise CallError(f"two explainers are called {name!r}")
        if not names:
            raise CallError("there is no explainer to run")


@dataclass(frozen=True, slots=True)
class Sample:
    """Which links are drawn; `cody.study.instances` says how."""

    instances: int  # of each kind
    kinds: Sequence[str] = KINDS
    period: tuple[float, float] = TEST_PERIOD
    margin: float = 0.0
    events: tuple[int, ...] | None = None  # draw among these rows only; None: among all of the period

    def __post_init__(self) -> None:
        _make_whole(self, "instances")
        check_sample(self.instances, self.period, self.margin)
        for kind in self.kinds:
            if kind not in KINDS:
                raise CallError(f"{kind!r} is not a kind of prediction: there are {' and '.join(KINDS)}")
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise CallError(f"kinds must be {' or '.join(KINDS)} or both, each once, not {', '.join(self.kinds)!r}")


def _make_whole(settings: EvaluationPlan | Sample, name: str) -> None:
    """Turn numpy's whole numbers into Python's, which JSON can hold; reject other numbers."""
    object.__setattr__(settings, name, whole_number(name, getattr(settings, name)))


Key = tuple[str, str, int]  # what a record is about: explainer, kind, event
Evaluate = Callable[[Model, TemporalGraph, Sequence[Link], EvaluationPlan, Set[Key]], Iterator[Record | Failure]]


def evaluate(
    model: Model, graph: TemporalGraph, links: Iterable[Link], plan: EvaluationPlan, done: Set[Key] = frozenset()
) -> Iterator[Record | Failure]:
    """One record per link and explainer, each as soon as it is finished.

    If an explainer fails with an error that is not about the call or the data, there is a `Failure` instead.

    Args:
        model: The model that is explained.
        graph: The log of events.
        links: The links to explain.
        plan: The explainers, and how they run.
        done: Keys of records to skip.

    >>> from cody.search.policies import temporal
    >>> from cody.search import greedy
    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> model = ToyModel(graph, weights=[1, 2, -1, 0])
    >>> plan = EvaluationPlan("mine", "toy", (Explainer("greedy-temporal", temporal, greedy),))
    >>> for record in evaluate(model, graph, [Link(3, "correct")], plan):
    ...     print(record.explainer, record.rows, record.is_necessary, record.is_sufficient)
    greedy-temporal (1,) True True
    """
    check_identity(model)
    for link in links:
        answers: dict[Change, float] | None = {} if plan.share else None
        for explainer in plan.explainers:
            if key(explainer.name, link) not in done:
                try:
                    yield _record(model, graph, link, plan, explainer, answers)
                except NOT_OF_A_LINK:
                    raise
                except Exception as error:
                    yield _failure(model, graph, link, plan, explainer, error)


def check_identity(model: Model) -> None:
    """Reject a model whose records could not be distinguished from those of another model of its class."""
    if not has_identity(model):
        raise CallError(
            f"the model {describe(model)} has no identity, so its records could not be distinguished "
            "from another model's; give it an attribute identity, a text that changes whenever its answers may: "
            "identity = cody.models.contract.fingerprint(weights)"
        )


def key(explainer: str, link: Link) -> Key:
    return explainer, link.kind, link.event


def key_of(entry: Record | Failure) -> Key:
    return entry.explainer, entry.kind, entry.event


def keys_of(link: Link, plan: EvaluationPlan) -> set[Key]:
    """The records that a plan asks for about a link."""
    return {key(explainer.name, link) for explainer in plan.explainers}


def _record(
    model: Model,
    graph: TemporalGraph,
    link: Link,
    plan: EvaluationPlan,
    explainer: Explainer,
    answers: dict[Change, float] | None,
) -> Record:
    query = graph.query(link.event)
    why = explainer.explain(model, graph, query, seed=plan.seed, answers=answers)
    only = round(logit_of_only(model, query, _happened(why)), DECIMALS)
    made_of = _parts_of(explainer, model)
    explained_by = made_of.search, made_of.policy, made_of.options
    evaluation = EvaluationPart(
        plan.data, plan.model, explainer.name, *explained_by, link.kind, only, __version__, plan.share
    )
    return record_of(document_of(why, evaluation))


def _failure(
    model: Model, graph: TemporalGraph, link: Link, plan: EvaluationPlan, explainer: Explainer, error: Exception
) -> Failure:
    return Failure(
        data=plan.data,
        model=plan.model,
        explainer=explainer.name,
        kind=link.kind,
        event=link.event,
        reason=reason_of(error),
        seed=plan.seed,
        model_identity=identity_of(model),
        data_identity=graph.identity,
        version=__version__,
    )


def _happened(why: Explanation) -> Change:
    """The events of an explanation that happened: those that would be missing, at another time, or altered."""
    return frozenset(event.affected for event, _ in why.steps if event.affected is not None)


def _parts_of(explainer: Explainer, model: Model) -> ExplainerOptions:
    """Search, policy and options of an explainer, as records and headers have them."""
    return ExplainerOptions(name_of(explainer.search), name_of(explainer.policy), explainer.options(model))


class RunProgress(NamedTuple):
    """How far a run has come."""

    finished: int
    total: int
    record: Record | Failure | None  # the latest; None: before the first one
    links: Sequence[Link]  # all that the run is about


@readable_help
def run(
    path: str | Path,
    model: Model,
    graph: TemporalGraph,
    plan: EvaluationPlan,
    sample: Sample,
    *,
    evaluate: Evaluate = evaluate,
) -> Iterator[RunProgress]:
    """Evaluate explainers and append each record to a file. Yields at first and after each record.

    The same call resumes a run that was stopped. With more links or more explainers it extends the run. A file of
    another run (other data, weights, seed, period, margin or options) is rejected, and so is a file that another run is
    writing.

    A link that cannot be explained is recorded with the reason, and the run continues; this version does not retry it.
    If nothing can be explained at all, the run ends with the reason.

    Args:
        path: The file.
        model: The model that is explained.
        graph: The log of events.
        plan: The explainers, and how they run.
        sample: Which links to draw.
        evaluate: Computes the missing records: `evaluate`, or the same in several processes or on Ray.
    """
    check_identity(model)
    settings = _settings(model, graph, plan, sample)
    with appending(path) as file:
        latest, known = _read_back(file, settings, model, graph, sample)
        links = _links(file, latest, model, graph, plan, sample, settings)
        wanted = set().union(*(keys_of(link, plan) for link in links))
        done = known & wanted
        finished = len(done)
        logger.info("%s: %d of %d records about %d links are done", file.path, finished, len(wanted), len(links))
        yield RunProgress(finished, len(wanted), None, links)
        failed = 0
        for entry in evaluate(model, graph, links, plan, done):
            if isinstance(entry, Record) and _contradicts_kind(entry):
                raise DataError(
                    f"{file.path} has event {entry.event} among the {entry.kind} predictions, but its logit is "
                    f"{entry.original}: the file belongs to another run; choose another file"
                )
            file.write(entry)
            logger.debug("%s, event %d: %s after %d evaluations", *_logged(entry))
            finished += 1
            failed += isinstance(entry, Failure)
            if isinstance(entry, Failure) and failed == finished == NOTHING_WORKS:
                raise ModelError(f"the first {failed} links could not be explained, the last one: {entry.reason}")
            yield RunProgress(finished, len(wanted), entry, links)


def _logged(record: Record | Failure) -> tuple[str, int, str, int]:
    if isinstance(record, Failure):
        return record.explainer, record.event, f"failed, {record.reason}", 0
    found = f"{len(record.rows) + len(record.imagined)} changes flip it" if record.is_necessary else record.ended
    return record.explainer, record.event, found, record.evaluations


def _settings(model: Model, graph: TemporalGraph, plan: EvaluationPlan, sample: Sample) -> EvaluationHeader:
    """The header of a run; the links are added later."""
    return EvaluationHeader(
        version=__version__,
        data=plan.data,
        model=plan.model,
        data_identity=graph.identity,
        model_identity=identity_of(model),
        seed=plan.seed,
        share=plan.share,
        period=sample.period,
        margin=sample.margin,
        instances=sample.instances,
        explainers={explainer.name: _parts_of(explainer, model) for explainer in plan.explainers},
        links={},
        events=UNSET if sample.events is None else sample.events,
    )


Known = dict[str, ExplainerOptions]  # explainers by name
TOLERANCE = 1e-3  # by which two computations of a logit may differ
MUST_AGREE = ("data_identity", "model_identity", "seed", "share", "period", "margin")


def _read_back(
    file: Appender, settings: EvaluationHeader, model: Model, graph: TemporalGraph, sample: Sample
) -> tuple[EvaluationHeader | None, set[Key]]:
    """The latest header of the file, and what its records are about. Lines of another run are rejected."""
    explainers = dict(settings.explainers)
    latest: EvaluationHeader | None = None
    last: Record | None = None
    links: set[Link] = set()
    done: set[Key] = set()
    failed: set[Key] = set()
    for entry in file.known():
        if isinstance(entry, Failure):
            _check_belongs(file, entry, settings, links)
            failed |= {key_of(entry)} if entry.version == __version__ else set()
        elif isinstance(entry, Record):
            _check_record(file, entry, settings, explainers, links)
            if key_of(entry) in done:
                raise DataError(f"{file.path} holds two records of {entry.explainer} about event {entry.event}")
            done.add(key_of(entry))
            last = entry
        else:
            latest = entry
            _check_header(file, entry, settings, explainers)
            links |= _links_of(file, entry, rows_of(sample.period, graph))
    if last is not None:
        _check_answer(file, last, model, graph)
    return latest, done | failed


def _check_header(file: Appender, header: EvaluationHeader, settings: EvaluationHeader, explainers: Known) -> None:
    """Reject the header of another run. It may have other explainers, but not the same one with other options."""
    for name in MUST_AGREE:
        there, here = getattr(header, name), getattr(settings, name)
        if there != here:
            raise DataError(
                f"{file.path} belongs to another run: there {name.replace('_', ' ')} is {there}, "
                f"here it is {here}; choose another file"
            )
    if header.events != settings.events:
        raise DataError(f"{file.path} belongs to another run, about other events; choose another file")
    for name, given in header.explainers.items():
        theirs, ours = _setting(given), _setting(explainers.setdefault(name, given))
        for option in sorted(theirs.keys() | ours.keys()):
            if theirs.get(option) != ours.get(option):
                raise DataError(
                    f"{file.path} belongs to another run: there {option} of {name} is {theirs.get(option)}, "
                    f"here it is {ours.get(option)}; choose another file"
                )


def _links_of(file: Appender, header: EvaluationHeader, rows: range) -> set[Link]:
    links = {Link(event, kind) for kind, events in header.links.items() for event in events}
    for link in sorted(links):
        if link.event not in rows:
            raise DataError(
                f"{file.path} belongs to another run: its header names event {link.event}, but the period has events "
                f"{rows.start} to {rows.stop - 1}; choose another file"
            )
    return links


def _setting(given: ExplainerOptions) -> dict[str, str]:
    """What must be the same. The same scorer may have another name."""
    values = setting(given.search, given.policy, given.options)
    if "policy.identity" in values:
        values.pop("policy.scorer", None)
    return values


def _check_record(
    file: Appender,
    record: Record,
    settings: EvaluationHeader,
    explainers: Known,
    links: Set[Link],
) -> None:
    known = explainers.get(record.explainer)
    given = ExplainerOptions(record.search, record.policy, record.options)
    agrees = known is not None and not _contradicts_kind(record) and _setting(given) == _setting(known)
    _check_belongs(file, record, settings, links, agrees=agrees)


def _check_belongs(
    file: Appender, entry: Record | Failure, settings: EvaluationHeader, links: Set[Link], *, agrees: bool = True
) -> None:
    names = ("data_identity", "model_identity", "seed")
    agrees = agrees and all(getattr(entry, name) == getattr(settings, name) for name in names)
    if not agrees or Link(entry.event, entry.kind) not in links:
        raise DataError(
            f"{file.path} holds a record of another run: {entry.explainer}, event {entry.event}; choose another file"
        )


def _contradicts_kind(record: Record) -> bool:
    """Whether the model's answer shows that a link is not of the kind it was drawn as."""
    return abs(record.original) > TOLERANCE and (record.original > 0) != (record.kind == "correct")


def _check_answer(file: Appender, record: Record, model: Model, graph: TemporalGraph) -> None:
    """Reject records of another model with the same identity: its answer about the link of the last one differs."""
    query, nothing = graph.query(record.event), [frozenset[int]()]
    (logit,) = checked_logits(query, nothing, model.logits(query, nothing))
    if abs(logit - record.original) > TOLERANCE * max(1.0, abs(logit)):
        raise DataError(
            f"{file.path} holds records of another model: there event {record.event} has the logit {record.original}, "
            f"here it has {logit:.5f}; choose another file"
        )


def _links(
    file: Appender,
    latest: EvaluationHeader | None,
    model: Model,
    graph: TemporalGraph,
    plan: EvaluationPlan,
    sample: Sample,
    settings: EvaluationHeader,
) -> list[Link]:
    """The links of the latest header, if it has the wanted sample; else they are drawn, and a header is added.

    The same seed draws the same links first, so a larger sample holds a smaller one.
    """
    drawn: Mapping[str, Sequence[int]] | None = _known_links(latest, sample)
    is_known = drawn is not None
    if drawn is None:
        drawn = sample_kinds(
            model,
            graph,
            sample.instances,
            sample.kinds,
            period=sample.period,
            margin=sample.margin,
            seed=plan.seed,
            events=sample.events,
        )
    if not any(drawn.values()):
        first, last = sample.period
        raise CallError(
            f"there is no {' or '.join(sample.kinds)} link between the shares {first:g} and {last:g} of the events "
            f"whose logit is at least {sample.margin:g} away from 0: try another period, margin or kind"
        )
    if not is_known or latest is None or not latest.explainers.keys() >= settings.explainers.keys():
        file.write(msgspec.structs.replace(settings, links={kind: tuple(rows) for kind, rows in drawn.items()}))
    return [Link(event, kind) for kind in sample.kinds for event in drawn[kind]]


def _known_links(latest: EvaluationHeader | None, sample: Sample) -> Mapping[str, Sequence[int]] | None:
    wanted = latest is not None and latest.instances == sample.instances and latest.links.keys() == set(sample.kinds)
    return latest.links if latest is not None and wanted else None
