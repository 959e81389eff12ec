"""What does a model react to? Interventions on the past of many links, each an exact what-if, and what follows.

An audit draws links of the test period, and as many that did not happen; modifies the past of each in every way of
`cody.study.interventions`; and compares the decisions with those of reference models (`cody.models.heuristics`). Its
verdict is a few sentences, each with the numbers behind it, and checks that pass, warn or fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from cody.errors import CallError, CodyError, did_you_mean
from cody.explaining.what_if import Scenario, answer_cases, near
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Model, as_seen, check_is_model, identity_of, label_task, logit_of_only, logits_of_links
from cody.models.heuristics import reference_models
from cody.models.margins import flips, logit_of
from cody.models.separation import average_precision
from cody.study.instances import TEST_PERIOD, check_sample, rows_of
from cody.study.interventions import (
    DIRECTION,
    FEATURES,
    HISTORY,
    INTERVENTIONS,
    ORDER,
    TIME,
    Intervention,
    ModifiedPast,
    Near,
)
from cody.study.shares import Share, mean
from cody.utils.forms import Form, as_plain, parse, read
from cody.utils.signatures import readable_help
from cody.utils.words import count

SCHEMA = "cody/audit/1"
LINKS = 100
SAME = 1e-3  # logits: what must not matter may differ by rounding
Status = Literal["pass", "warn", "fail"]
PASS: Status = "pass"
WARN: Status = "warn"
FAIL: Status = "fail"
IGNORED, HARDLY, MUCH = 0.01, 0.05, 0.25  # shares of decisions that change
LIKE_EDGEBANK = 0.95
FEW = 50  # predictions; among fewer, a single one moves a share by more than 2 percentage points
LOOKS_BACK = 0.1  # share of decisions that may change where older events are missing

Watch = Callable[[int, int], None]  # how many links are done, of how many


class InterventionEffect(Form, frozen=True, kw_only=True):
    """What an intervention changes."""

    name: str
    group: Annotated[str, Meta(description="what it tells about")]
    links: Annotated[int, Meta(ge=0, description="links that it applies to")]
    flipped: Annotated[Share | None, Meta(description="share of decisions that change")]
    moved: Annotated[Share | None, Meta(description="mean change of the logit")]
    size: Annotated[float | None, Meta(description="mean absolute change of the logit")]
    largest: Annotated[float | None, Meta(description="largest absolute change of the logit")]
    average_precision: Annotated[float | None, Meta(description="under the modified past; null: all links are alike")]
    reason: Annotated[str, Meta(description="why it applies to no link; empty if it does")] = ""


class ReferenceAgreement(Form, frozen=True, kw_only=True):
    """How a reference model decides on the same links."""

    name: str
    agrees: Annotated[Share, Meta(description="share of links on which both decide the same")]
    right: Annotated[Share | None, Meta(description="where they differ: how often the audited model is right")]
    average_precision: float | None


class AuditCheck(Form, frozen=True, kw_only=True):
    """Something that a model should or should not do."""

    name: str
    status: Status
    detail: str


class AuditReport(Form, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """What a model reacts to, and what it agrees with."""

    data: Annotated[str, Meta(description="the identity of the data")]
    model: Annotated[str, Meta(description="the identity of the model")]
    links: Annotated[int, Meta(ge=1)]
    happened: Annotated[int, Meta(ge=0, description="links that happened, or events of the second class")]
    seed: int
    average_precision: float | None
    effects: tuple[InterventionEffect, ...]
    references: tuple[ReferenceAgreement, ...]
    checks: tuple[AuditCheck, ...]
    verdict: Annotated[tuple[str, ...], Meta(description="sentences, each with the numbers behind it")]

    @property
    def status(self) -> Status:
        """The worst status of its checks."""
        statuses = {check.status for check in self.checks}
        return FAIL if FAIL in statuses else WARN if WARN in statuses else PASS

    def effect(self, name: str) -> InterventionEffect | None:
        """The effect of the intervention of that name; None: it is not part of the audit."""
        return next((effect for effect in self.effects if effect.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return as_plain(self)

    def __str__(self) -> str:
        return " ".join(self.verdict)


def read_audit(text: str | bytes) -> AuditReport:
    """What `cody audit --json` printed."""
    return read(parse(text, "an audit"), AuditReport, "an audit")


@readable_help
def audit(
    model: Model,
    graph: TemporalGraph,
    *,
    links: int = LINKS,
    period: tuple[float, float] = TEST_PERIOD,
    interventions: Sequence[Intervention] | None = None,
    at_most: Mapping[str, float] | None = None,
    seed: int = 0,
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
        seed: Seed for drawing links.
        watch: Called with the number of links that are done, and in total.

    >>> from cody.models import ToyModel
    >>> rng = np.random.default_rng(0)
    >>> graph = TemporalGraph.from_arrays(src=rng.integers(0, 5, 60), dst=5 + rng.integers(0, 5, 60), time=range(60))
    >>> report = audit(ToyModel(graph, bias=-1.0), graph, links=5)
    >>> report.status, report.effect("later events removed").flipped.value
    ('warn', 0.0)
    """
    check_is_model(model)
    interventions = INTERVENTIONS if interventions is None else interventions
    _check_names(at_most or {}, interventions)
    drawn = _draw(model, graph, links, period, seed)
    names = [each.name for each in interventions]
    columns = {name: np.full(len(drawn.queries), np.nan) for name in names}
    reasons: dict[str, str] = {}
    original = np.array(logits_of_links(model, drawn.queries))
    for place, query in enumerate(drawn.queries):
        rng = np.random.default_rng([seed, place])
        past = Near(graph, query, near(model, graph, query), rng)
        for name, logit in _modified(model, past, interventions, reasons):
            columns[name][place] = logit
        if watch is not None:
            watch(place + 1, len(drawn.queries))
    line = _decides_at(model)
    effects = tuple(
        _effect(each, columns[each.name] - line, original - line, drawn.truth, reasons) for each in interventions
    )
    references = () if label_task(model) else tuple(_references(graph, drawn, original))
    return AuditReport(
        data=graph.identity,
        model=identity_of(model),
        links=len(drawn.queries),
        happened=int(drawn.truth.sum()),
        seed=seed,
        average_precision=_average_precision(original, drawn.truth),
        effects=effects,
        references=references,
        checks=tuple(_checks(effects, interventions, references, at_most or {})),
        verdict=(*_verdict(effects, references), *_too_few(len(drawn.queries))),
    )


def _decides_at(model: Model) -> float:
    """The logit above which a link, or the second of two classes, is predicted."""
    task = label_task(model)
    return 0.0 if task is None or task.threshold is None else logit_of(task.threshold)


def _check_names(given: Mapping[str, float], interventions: Sequence[Intervention]) -> None:
    known = [each.name for each in interventions]
    for name, share in given.items():
        if name not in known:
            raise CallError(f"there is no intervention {name!r}{did_you_mean(name, known)}")
        if not 0 <= share <= 1:
            raise CallError(f"{name!r} may change a share of the decisions between 0 and 1, not {share}")


# Which links


class DrawnLinks(NamedTuple):
    """Links of a period, and which of them happened (or have the second of two labels)."""

    queries: list[Query]
    truth: BoolArray


def _draw(model: Model, graph: TemporalGraph, links: int, period: tuple[float, float], seed: int) -> DrawnLinks:
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
        return DrawnLinks(queries, np.array([graph.label_of(row) == task.classes[1] for row in chosen]))
    others = [query._replace(dst=_another(graph, query, rng)) for query in queries]
    return DrawnLinks(queries + others, np.repeat([True, False], [len(queries), len(others)]))


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
        yield from zip(
            [name for name, _ in edited], _scored(model, past.graph, [each for _, each in edited]), strict=True
        )
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


def _effect(
    intervention: Intervention, logits: FloatArray, original: FloatArray, truth: BoolArray, reasons: Mapping[str, str]
) -> InterventionEffect:
    name, applies = intervention.name, ~np.isnan(logits)
    if not applies.any():
        reason = reasons.get(name, "no link has such events")
        nothing = dict.fromkeys(("flipped", "moved", "size", "largest", "average_precision"))
        return InterventionEffect(name=name, group=intervention.group, links=0, reason=reason, **nothing)
    before, after = original[applies], logits[applies]
    shift = after - before
    return InterventionEffect(
        name=name,
        group=intervention.group,
        links=int(applies.sum()),
        flipped=mean([float(flips(*pair)) for pair in zip(before.tolist(), after.tolist(), strict=True)]),
        moved=mean(shift),
        size=float(np.abs(shift).mean()),
        largest=float(np.abs(shift).max()),
        average_precision=_average_precision(after, truth[applies]),
    )


def _average_precision(scores: FloatArray, truth: BoolArray) -> float | None:
    """None if all links happened, or none did."""
    return average_precision(scores, truth) if truth.any() and not truth.all() else None


def _references(graph: TemporalGraph, drawn: DrawnLinks, logits: FloatArray) -> Iterator[ReferenceAgreement]:
    decided = logits > 0
    for name, reference in reference_models(graph, drawn.queries).items():
        scores = np.array([float(reference.logits(query, [frozenset()])[0]) for query in drawn.queries])
        same = decided == (scores > 0)
        right = None if same.all() else mean((decided == drawn.truth)[~same].astype(float))
        yield ReferenceAgreement(
            name=name,
            agrees=mean(same.astype(float)),
            right=right,
            average_precision=_average_precision(scores, drawn.truth),
        )


# What follows


def _checks(
    effects: Sequence[InterventionEffect],
    interventions: Sequence[Intervention],
    references: Sequence[ReferenceAgreement],
    at_most: Mapping[str, float],
) -> Iterator[AuditCheck]:
    must_not = {each.name for each in interventions if each.must_not_matter}
    for effect in effects:
        if effect.name in must_not and effect.largest is not None:
            largest = (
                f"changes a logit by up to {effect.largest:.2g}" if effect.largest > SAME else "nothing beyond rounding"
            )
            status = FAIL if effect.largest > SAME else PASS
            yield AuditCheck(name=f"{effect.name}: changes nothing", status=status, detail=largest)
    for group, word in ((TIME, "times"), (ORDER, "the order of events"), (FEATURES, "features")):
        shares = [effect.flipped.value for effect in effects if effect.group == group and effect.flipped is not None]
        if shares:
            status = WARN if max(shares) < IGNORED else PASS
            yield AuditCheck(name=f"uses {word}", status=status, detail=_changes(max(shares)))
    for reference in references[:1]:
        status = WARN if reference.agrees.value >= LIKE_EDGEBANK else PASS
        alike = f"decides alike on {_percent(reference.agrees.value)} of the links"
        yield AuditCheck(name=f"knows more than {reference.name}", status=status, detail=alike)
    for effect in effects:
        if effect.name in at_most:
            share, limit = 0.0 if effect.flipped is None else effect.flipped.value, at_most[effect.name]
            status = FAIL if share > limit else PASS
            yield AuditCheck(name=f"{effect.name}: at most {_percent(limit)}", status=status, detail=_changes(share))


def _changes(share: float) -> str:
    return f"changes {_percent(share)} of the decisions"


def _verdict(effects: Sequence[InterventionEffect], references: Sequence[ReferenceAgreement]) -> Iterator[str]:
    """Sentences about what the model reacts to, each with its numbers."""
    for group, what in (
        (ORDER, "the order of events"),
        (TIME, "their times"),
        (DIRECTION, "their direction"),
        (FEATURES, "their features"),
    ):
        known = [effect for effect in effects if effect.group == group and effect.flipped is not None]
        if known:
            strongest = max(known, key=lambda effect: effect.flipped.value if effect.flipped else 0.0)
            assert strongest.flipped is not None
            share = strongest.flipped.value
            yield f"It {_word(share)} {what}: with {strongest.name}, {_percent(share)} of its decisions change."
    yield from _looks_back(effects)
    if references:
        yield _closest(max(references, key=lambda reference: reference.agrees.value))


def _too_few(links: int) -> Iterator[str]:
    """A warning where other links could well lead to another verdict."""
    if links < FEW:
        yield f"Only {count(links, 'prediction')}, so these shares are rough: audit more links before relying on them."


def _word(share: float) -> str:
    words = ((IGNORED, "ignores"), (HARDLY, "hardly uses"), (MUCH, "uses"))
    return next((word for limit, word in words if share < limit), "depends on")


def _looks_back(effects: Sequence[InterventionEffect]) -> Iterator[str]:
    cuts = [
        (int(effect.name.split()[3]), effect.flipped.value)
        for effect in effects
        if effect.group == HISTORY and effect.name.startswith("only the last ") and effect.flipped is not None
    ]
    if not cuts:
        return
    enough = next(((number, share) for number, share in sorted(cuts) if share <= LOOKS_BACK), None)
    if enough is None:
        most, share = max(cuts)
        yield f"It looks back further than {most} events of each end: with those alone {_percent(share)} change."
    else:
        events = count(enough[0], "event")
        yield f"It looks back about {events} of each end: with those alone {_percent(enough[1])} change."


def _closest(reference: ReferenceAgreement) -> str:
    alike = f"It decides like {reference.name} on {_percent(reference.agrees.value)} of the links"
    return (
        f"{alike}."
        if reference.right is None
        else f"{alike}; where they differ, it is right in {_percent(reference.right.value)}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
