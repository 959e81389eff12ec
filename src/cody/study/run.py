"""Running explainers on the same links: one record for each explainer and link, in a file that a later run continues.

`evaluate` does the work and yields records. `run` adds the file: it draws the links, skips what is done already, and
appends each record as it comes. Other ways to do the work (`pool.py`, `on_ray.py`) give the same records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace as with_fields

from cody._version import __version__
from cody.errors import CallError, DataError, ModelError
from cody.explaining.document import EvaluationPart, decision_part, document_of
from cody.explaining.explanation import Explanation
from cody.graph import TemporalGraph, whole_number
from cody.models.contract import DECIMALS, Change, Model, describe, has_identity, identity_of, logit_of_only
from cody.models.decided import LINK_PREDICTED, DecidedModel, decide, decision_of
from cody.models.deciding import ByLabel
from cody.models.decision import Decision, InTop
from cody.study.explainers import Explainer, name_of
from cody.study.instances import TEST_PERIOD, Link, check_decision, check_sample, decision_about, sample_kinds
from cody.study.record import KINDS, NOT_OF_A_LINK, NOTHING_WORKS, Failure, Key, Record, reason_of, record_of
from cody.study.record_file import Appender, EvaluationHeader, ExplainerOptions, appending
from cody.study.resume import contradicts_kind, read_back
from cody.utils.signatures import readable_help

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Which explainers answer about each link, and how.

    Each explainer starts with no answers of the model from another one, so that `seconds` can be compared, and a record
    does not depend on what else was run. With `share`, the explainers of a link share the model's answers, which is
    faster; each is still charged for everything it requested, but its `seconds` would be unfair, so they are None.
    """

    data: str  # names, as the user gave them
    model: str
    explainers: tuple[Explainer, ...]
    seed: int = 0
    share: bool = False
    decision: Decision | ByLabel | None = None  # what is to flip; None: what the model decides by itself

    def __post_init__(self) -> None:
        for what, name in (("data", self.data), ("model", self.model)):
            if not isinstance(name, str):
                raise CallError(f"{what} must be a name, for the records, not {name!r}")
        _make_whole(self, "seed")
        if not 0 <= self.seed < 2**63:
            raise CallError(f"seed must be at least 0 and below 2^63, not {self.seed}")
        if isinstance(self.explainers, Explainer) or not all(isinstance(one, Explainer) for one in self.explainers):
            wanted = "a sequence of cody.study.explainers.Explainer"
            raise CallError(f"explainers must be {wanted}, not {self.explainers!r}")
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


Answers = dict[Change, float] | None  # of the model about a link, which explainers may share
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
    check_plan(model, graph, plan)
    for link in links:
        answers: Answers = {} if plan.share else None
        for explainer in plan.explainers:
            if (explainer.name, link.kind, link.event) not in done:
                try:
                    yield _record(model, graph, link, plan, explainer, answers)
                except NOT_OF_A_LINK:
                    raise
                except Exception as error:
                    about = _made_with(model, graph, plan) | {"explainer": explainer.name, "kind": link.kind}
                    yield Failure(**about, event=link.event, reason=reason_of(error))


def evaluate_one(
    plan: EvaluationPlan, model: Model, graph: TemporalGraph, task: tuple[Link, Set[Key]]
) -> Iterator[Record | Failure]:
    """The records of a link that are not done yet: the work of `evaluate`, a task at a time.

    Args:
        plan: The explainers, and how they run.
        model: The model that is explained.
        graph: The log of events.
        task: A link, and the keys of its records that are done.
    """
    link, done = task
    return evaluate(model, graph, [link], plan, done)


def without_records(listed: Sequence[str], attempts: int) -> str:
    """The error for links whose workers died each time.

    Args:
        listed: The links, in words.
        attempts: How often they were tried.
    """
    return (
        f"{len(listed)} predictions have no records because their workers died {attempts} times: events "
        f"{', '.join(listed[:5])}; the same command tries them again"
    )


def check_plan(model: Model, graph: TemporalGraph, plan: EvaluationPlan) -> Decision | None:
    """The decision about every link; a plan that cannot be carried out is rejected before anything is explained.

    Args:
        model: The model that is explained.
        graph: The log of events.
        plan: The explainers, what is to flip, and how they run.
    """
    if not has_identity(model):  # its records could be those of another model of its class
        raise CallError(
            f"the model {describe(model)} has no identity, so its records could not be distinguished "
            "from another model's; give it an attribute identity, a text that changes whenever its answers may: "
            "identity = cody.models.contract.fingerprint(weights)"
        )
    decision = check_decision(model, graph, plan.decision)
    for explainer in plan.explainers:
        explainer.check(decision)
    return decision


def keys_of(link: Link, plan: EvaluationPlan) -> set[Key]:
    """The records that a plan asks for about a link."""
    return {(explainer.name, link.kind, link.event) for explainer in plan.explainers}


def _record(
    model: Model, graph: TemporalGraph, link: Link, plan: EvaluationPlan, explainer: Explainer, answers: Answers
) -> Record:
    query = graph.query(link.event)
    decision = decision_about(model, graph, query, plan.decision) or decision_of(model, query, plan.decision)
    decided = decide(model, graph, query, decision)
    why = explainer.explain(model, graph, query, decision=decision, seed=plan.seed, answers=answers)
    if isinstance(decided, DecidedModel) and isinstance(decision, InTop):
        why = _against_all(why, decided, decision.k)
    only = round(logit_of_only(decided, query, _happened(why)), DECIMALS)
    parts = _parts_of(explainer, model)
    about = plan.data, plan.model, explainer.name, parts.search, parts.policy, parts.options, link.kind
    return record_of(document_of(why, EvaluationPart(*about, only, __version__, plan.share)))


def _against_all(why: Explanation, decided: DecidedModel, k: int) -> Explanation:
    """An explanation whose last margin is that among all rivals, where the search, which knew some, had the wrong sign.

    More rivals can only lower a margin, so it is not above 0. By how much is not known with events that were imagined.
    """
    last, standing = why.logits[-1], why.standings[-1] if why.standings else None
    if last is None or standing is None or standing.rank is None or (last > 0) == (standing.rank <= k):
        return why
    margin = 0.0
    if why.verification is not None:
        margin = why.verification.without
    elif not why.imagined:
        margin = decided.states(why.query, [why.change])[0].margin or 0.0
    return replace(why, logits=(*why.logits[:-1], round(margin, DECIMALS)))


def _made_with(model: Model, graph: TemporalGraph, plan: EvaluationPlan) -> dict[str, Any]:
    """What headers and failures say about a run."""
    identities = {"data_identity": graph.identity, "model_identity": identity_of(model)}
    return {"data": plan.data, "model": plan.model, "seed": plan.seed, "version": __version__} | identities


def _happened(why: Explanation) -> Change:
    """The events of an explanation that happened: those that would be missing, at another time, or altered."""
    affected = frozenset(event.affected for event, _ in why.steps if event.affected is not None)
    return why.change_of(affected) if why.units else affected


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
    decision = check_plan(model, graph, plan)
    settings = EvaluationHeader(  # the links are added later
        **_made_with(model, graph, plan),
        share=plan.share,
        period=sample.period,
        margin=sample.margin,
        instances=sample.instances,
        explainers={explainer.name: _parts_of(explainer, model) for explainer in plan.explainers},
        links={},
        events=UNSET if sample.events is None else sample.events,
        decision=UNSET if decision == LINK_PREDICTED else None if decision is None else decision_part(decision),
    )
    with appending(path) as file:
        latest, known = read_back(file, settings, model, graph, plan.decision)
        links = _links(file, latest, model, graph, plan, sample, settings)
        wanted = set().union(*(keys_of(link, plan) for link in links))
        done = known & wanted
        finished = len(done)
        logger.info("%s: %d of %d records about %d links are done", file.path, finished, len(wanted), len(links))
        yield RunProgress(finished, len(wanted), None, links)
        failed = 0
        for entry in evaluate(model, graph, links, plan, done):
            if isinstance(entry, Record) and contradicts_kind(entry, graph):
                raise DataError(
                    f"{file.path} has event {entry.event} among the {entry.kind} predictions, but its logit is "
                    f"{entry.original}: the file belongs to another run; choose another file"
                )
            file.write(entry)
            logger.debug("%s, event %d: %s after %d evaluations", *_logged(entry))
            finished += 1
            failed += isinstance(entry, Failure)
            if isinstance(entry, Failure) and failed == finished == NOTHING_WORKS:
                raise ModelError(f"the first {failed} predictions could not be explained, the last one: {entry.reason}")
            yield RunProgress(finished, len(wanted), entry, links)


def _logged(record: Record | Failure) -> tuple[str, int, str, int]:
    if isinstance(record, Failure):
        return record.explainer, record.event, f"failed, {record.reason}", 0
    found = f"{len(record.rows) + len(record.imagined)} changes flip it" if record.is_necessary else record.ended
    return record.explainer, record.event, found, record.evaluations


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
    drawn: Mapping[str, Sequence[int]]
    is_known = False
    if latest is not None and latest.instances == sample.instances and latest.links.keys() == set(sample.kinds):
        drawn, is_known = latest.links, latest.explainers.keys() >= settings.explainers.keys()
    else:
        draw = partial(sample_kinds, period=sample.period, margin=sample.margin, events=sample.events)
        drawn = draw(model, graph, sample.instances, sample.kinds, seed=plan.seed, decision=plan.decision)
    if not any(drawn.values()):
        first, last = sample.period
        raise CallError(
            f"there is no {' or '.join(sample.kinds)} prediction between the shares {first:g} and {last:g} of the "
            f"events whose logit is at least {sample.margin:g} away from 0: try another period, margin or kind"
        )
    if not is_known:
        file.write(with_fields(settings, links={kind: tuple(rows) for kind, rows in drawn.items()}))
    return [Link(event, kind) for kind in sample.kinds for event in drawn[kind]]
