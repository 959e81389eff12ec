"""What follows from an audit: effects of modified pasts, agreement with reference models, checks, and a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from cody.graph import BoolArray, FloatArray
from cody.models.margins import flips, probability
from cody.models.separation import average_precision
from cody.study.interventions import FAULT, FEATURES, LAST, LATER, ORDER, TIME, USES, WHEN, Intervention
from cody.study.metrics import within
from cody.study.shares import Share, mean
from cody.utils.forms import Document, Form
from cody.utils.words import count, enumerated

SCHEMA = "cody/audit/1"
SAME = 1e-3  # logits: what must not matter may differ by rounding
Status = Literal["pass", "warn", "fail"]
PASS: Status = "pass"
WARN: Status = "warn"
FAIL: Status = "fail"
IGNORED, HARDLY, MUCH = 0.01, 0.05, 0.25  # shares of decisions that change
LIKE_EDGEBANK = 0.95
EVEN = 0.5  # where a model and a reference differ, one of them is right
ONE_SIDED = 0.95  # of the decisions are the same: a modified past can change few of them
FEW = 50  # predictions; among fewer, a single one moves a share by more than 2 percentage points
LOOKS_BACK = 0.1  # share of decisions that may change where older events are missing
SAMPLES = 300  # bootstrap samples of the change in average precision


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
    gained: Annotated[Share | None, Meta(description="change of average precision on these links")] = None
    older: Annotated[
        Share | None, Meta(description="of a cut history: share of decisions that all events of the two ends change")
    ] = None
    reason: Annotated[str, Meta(description="why it applies to no link; empty if it does")] = ""


class ReferenceAgreement(Form, frozen=True, kw_only=True):
    """How a reference model decides on the same links."""

    name: str
    agrees: Annotated[Share, Meta(description="share of links on which both decide the same")]
    right: Annotated[Share | None, Meta(description="where they differ: how often the audited model is right")]
    average_precision: float | None


Effects = Sequence[InterventionEffect]
References = Sequence[ReferenceAgreement]  # EdgeBank first


class AuditCheck(Form, frozen=True, kw_only=True):
    """Something that a model should or should not do."""

    name: str
    status: Status
    detail: str


class AuditReport(Document, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """What a model reacts to, and what it agrees with."""

    kind = "an audit"
    data: Annotated[str, Meta(description="the identity of the data")]
    model: Annotated[str, Meta(description="the identity of the model")]
    links: Annotated[int, Meta(ge=1)]
    happened: Annotated[int, Meta(ge=0, description="links that happened, or events that have the label")]
    label: Annotated[str | None, Meta(description="that is predicted; null: links are")] = None
    seed: int
    average_precision: float | None
    threshold: Annotated[float, Meta(description="predicted above this probability")] = 0.5
    effects: tuple[InterventionEffect, ...]
    references: tuple[ReferenceAgreement, ...]
    checks: tuple[AuditCheck, ...]
    summary: Annotated[str, Meta(description="the verdict in a sentence")]
    verdict: Annotated[tuple[str, ...], Meta(description="sentences, each with the numbers behind it")]

    @property
    def status(self) -> Status:
        """The worst status of its checks."""
        return max((check.status for check in self.checks), key=(PASS, WARN, FAIL).index, default=PASS)

    def effect(self, name: str) -> InterventionEffect | None:
        """The effect of the intervention of that name; None: it is not part of the audit."""
        return next((effect for effect in self.effects if effect.name == name), None)

    def to_html(self, name: str = "the model", data: str = "the data") -> str:
        """A page that shows all of it, one self-contained file.

        Args:
            name: What the model is called there.
            data: What the data are called there.
        """
        from cody.web.audit_page import audit_page  # whoever wants no page need not wait for it

        return audit_page(self, name, data)

    def __str__(self) -> str:
        return " ".join([self.summary, *self.verdict])


def read_audit(text: str | bytes) -> AuditReport:
    """What `cody audit --json` printed."""
    return AuditReport.from_json(text)


# Effects


def effect_of(
    intervention: Intervention,
    logits: FloatArray,
    original: FloatArray,
    truth: BoolArray,
    reason: str,
    uncut: FloatArray | None = None,
) -> InterventionEffect:
    """What an intervention changes.

    Args:
        intervention: Which one it is.
        logits: Under the modified past, less the logit at which the model decides; nan where it does not apply. [n]
        original: The same with nothing changed. [n]
        truth: Which links happened. [n]
        reason: Why it applies to no link, if it does not.
        uncut: Of a cut history: the logits with all events of the two ends. [n]
    """
    name, applies = intervention.name, ~np.isnan(logits)
    if not applies.any():
        nothing = dict.fromkeys(("flipped", "moved", "size", "largest", "average_precision"))
        return InterventionEffect(name=name, group=intervention.group, links=0, reason=reason, **nothing)
    before, after, happened = original[applies], logits[applies], truth[applies]
    shift = after - before
    return InterventionEffect(
        name=name,
        group=intervention.group,
        links=int(applies.sum()),
        flipped=_differing(before, after),
        moved=mean(shift),
        size=float(np.abs(shift).mean()),
        largest=float(np.abs(shift).max()),
        average_precision=precision_of(after, happened),
        gained=_gained(before, after, happened),
        older=None if uncut is None else _differing(uncut[applies], after),
    )


def _differing(some: FloatArray, others: FloatArray) -> Share:
    """The share of decisions that differ."""
    return mean([float(flips(*pair)) for pair in zip(some.tolist(), others.tolist(), strict=True)])


def precision_of(scores: FloatArray, truth: BoolArray) -> float | None:
    """The average precision; None if all links happened, or none did."""
    return average_precision(scores, truth) if truth.any() and not truth.all() else None


def _gained(before: FloatArray, after: FloatArray, truth: BoolArray) -> Share | None:
    """By how much average precision changes; the interval is over samples of the links."""
    if truth.all() or not truth.any():
        return None
    rng, places = np.random.default_rng(0), (np.flatnonzero(truth), np.flatnonzero(~truth))

    def change(of: Any) -> float:
        return average_precision(after[of], truth[of]) - average_precision(before[of], truth[of])

    drawn = [change(np.concatenate([rng.choice(some, len(some)) for some in places])) for _ in range(SAMPLES)]
    return Share(change(slice(None)), *within(np.array(drawn)))


def agreement(name: str, scores: FloatArray, logits: FloatArray, truth: BoolArray) -> ReferenceAgreement:
    """How a reference model with these scores decides, compared with the audited one. [n], [n], [n]"""
    decided = logits > 0
    same = decided == (scores > 0)
    right = None if same.all() else mean((decided == truth)[~same].astype(float))
    precision = precision_of(scores, truth)
    return ReferenceAgreement(name=name, agrees=mean(same.astype(float)), right=right, average_precision=precision)


def one_sided(logits: FloatArray, line: float) -> str:
    """What is wrong with a threshold that decides nearly all links alike; empty: nothing.

    Args:
        logits: Of the links, half of which happened, less the logit at which the model decides. [n]
        line: That logit.
    """
    predicted = float((logits > 0).mean())
    if 1 - ONE_SIDED < predicted < ONE_SIDED:
        return ""
    halves = f"{probability(line + float(np.median(logits))):.3g}"
    above = np.mean([probability(line + logit) > float(halves) for logit in logits.tolist()])
    divides = 1 - ONE_SIDED < above < ONE_SIDED  # unless the scores are the same, to so many digits
    advice = f"; a threshold of {halves} would divide them evenly" if divides else ""
    return f"predicts {percent(predicted)} of the links, half of which happened: few decisions can change{advice}"


# Checks


def checks_of(
    effects: Effects,
    references: References,
    at_most: Mapping[str, float],
    beside: str = "",
    average_precision: float | None = None,
) -> Iterator[AuditCheck]:
    """What the model should and should not do, and whether it does.

    Args:
        effects: Of all interventions.
        references: EdgeBank first.
        at_most: Names of interventions, and the share of decisions that each may change.
        beside: What is wrong with the threshold, if something is.
        average_precision: Of the model.
    """
    if beside:
        yield AuditCheck(name="decides both ways", status=WARN, detail=beside)
    for effect in effects:
        if effect.group == FAULT and effect.largest is not None:
            reacts = effect.largest > SAME
            detail = f"changes a logit by up to {effect.largest:.2g}" if reacts else "nothing beyond rounding"
            name = f"{effect.name}: changes nothing"
            yield AuditCheck(name=name, status=FAIL if reacts else PASS, detail=detail)
    for group, word in ((TIME, "times"), (WHEN, "order or times"), (FEATURES, "features")):
        known = strongest(effects, group)
        if known is not None:
            share = _flipped(known)
            yield AuditCheck(name=f"uses {word}", status=WARN if share < IGNORED else PASS, detail=_changes(share))
    yield from _gains_from_features(effects)
    for reference in references[:1]:
        yield _knows_more(reference, average_precision)
    for effect in effects:
        if effect.name in at_most:
            share, limit = _flipped(effect), at_most[effect.name]
            status = FAIL if share > limit else PASS
            yield AuditCheck(name=f"{effect.name}: at most {percent(limit)}", status=status, detail=_changes(share))


def _knows_more(reference: ReferenceAgreement, precision: float | None) -> AuditCheck:
    """Whether the model decides differently from a reference model, and predicts no worse for it."""
    right, simple = reference.right, reference.average_precision
    worse = reference.agrees.value >= LIKE_EDGEBANK
    detail = _decides_alike(reference)
    if right is not None:
        worse |= right.high < EVEN
    if precision is not None and simple is not None:
        worse |= precision < simple
        detail += f"; average precision {100 * precision:.1f} %, that of {reference.name} {100 * simple:.1f} %"
    return AuditCheck(name=f"knows more than {reference.name}", status=WARN if worse else PASS, detail=detail)


def _gains_from_features(effects: Effects) -> Iterator[AuditCheck]:
    """Whether a model that reacts to features predicts worse without them: swapped ones only cost it."""
    reacts = [effect for effect in effects if effect.group == FEATURES and _flipped(effect) >= HARDLY]
    gains = [effect.gained for effect in reacts if effect.gained is not None]
    if gains:
        lost = min(gains, key=lambda gained: gained.high)
        points = f"{signed(100 * lost.value, 1)} points [{signed(100 * lost.low, 1)}, {signed(100 * lost.high, 1)}]"
        status = PASS if lost.high < 0 else WARN
        yield AuditCheck(name="gains from features", status=status, detail=f"average precision without them {points}")


def strongest(effects: Effects, group: str) -> InterventionEffect | None:
    """The intervention of a group that changes most decisions; None: none of them applies.

    Times exchanged among all events change the order and also when each node was active. Of a model that ignores the
    latter, they tell whether it uses the order.
    """
    known = [effect for effect in effects if effect.group == group and effect.flipped is not None]
    if group == ORDER and not any(_flipped(effect) >= IGNORED for effect in effects if effect.group == TIME):
        known += [effect for effect in effects if effect.group == WHEN and effect.flipped is not None]
    return max(known, key=_flipped, default=None)


def _flipped(effect: InterventionEffect) -> float:
    return 0.0 if effect.flipped is None else effect.flipped.value


def _changes(share: float) -> str:
    return f"changes {percent(share)} of the decisions"


# The verdict


def summary_of(effects: Effects, references: References, faults: Mapping[str, str], beside: str = "") -> str:
    """The verdict in a sentence: what the model does wrong, what it uses, and how far it looks back.

    Args:
        effects: Of all interventions.
        references: EdgeBank first; none for models of labels.
        faults: What a model does wrong that reacts to an intervention, by the names of these.
        beside: What is wrong with the threshold, if something is.
    """
    wrong = [faults[effect.name] for effect in effects if effect.name in faults and (effect.largest or 0.0) > SAME]
    used: dict[str, list[str]] = {}
    for group, what in USES.items():
        known = strongest(effects, group)
        if known is not None:
            used.setdefault(verb(_flipped(known)), []).append(f"{what} ({percent(_flipped(known))})")
    order = ("depends on", "uses", "hardly uses", "ignores")
    uses = [f"{word} {enumerated(used[word])}" for word in order if word in used]
    back = looks_back(effects)
    alike = [first for first in references[:1] if first.agrees.value >= LIKE_EDGEBANK]
    like = [f"does little more than repeat ({percent(each.agrees.value)} like {each.name})" for each in alike]
    parts = [beside, *wrong, *like, _named_first(", ".join(uses)), *([back[0]] if back else [])]
    sentence = "; ".join(part for part in parts if part)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def verdict_of(effects: Effects, references: References, links: int) -> Iterator[str]:
    """Sentences about what the model reacts to, each with its numbers."""
    reactions = [(what, known) for group, what in USES.items() if (known := strongest(effects, group)) is not None]
    for number, (what, known) in enumerate(reactions):
        share, cost = _flipped(known), _cost(known)
        uses = f"{verb(share)} {what if number else _named_first(what)}"
        yield f"It {uses}: with {known.name}, {percent(share)} of its decisions change{cost}."
    if any(effect.name == LATER and effect.largest is not None and effect.largest <= SAME for effect in effects):
        yield "It does not notice when the prediction is made: one day later, no score changes."
    back = looks_back(effects)
    if back:
        yield f"It {back[0]}: {back[1]}."
    closest = sorted(references, key=lambda each: -each.agrees.value)[:1]
    named = [*references[:1], *(each for each in closest if each is not references[0])]  # EdgeBank comes first
    yield from (f"It {_decides_alike(each)}." for each in named)
    if links < FEW:
        yield f"Only {count(links, 'prediction')}, so these shares are rough: audit more before relying on them."


def _named_first(text: str) -> str:
    """A text that names the events before it says what is theirs.

    >>> _named_first("depends on their times, uses their partners")
    'depends on the times of events, uses their partners'
    """
    before, _, _ = text.partition(" of events")
    return re.sub(r"their (\w+)", r"the \1 of events", text, count=1) if "their " in before else text


def verb(share: float) -> str:
    """What a model does with something without which this share of its decisions changes."""
    words = ((IGNORED, "ignores"), (HARDLY, "hardly uses"), (MUCH, "uses"))
    return next((word for limit, word in words if share < limit), "depends on")


def _cost(effect: InterventionEffect) -> str:
    """What the decisions that change do to average precision, if that is clear."""
    gained = effect.gained
    if gained is None or effect.average_precision is None or _flipped(effect) < IGNORED:
        return ""
    if gained.low <= 0 <= gained.high:
        return ""
    before, after = effect.average_precision - gained.value, effect.average_precision
    goes = "falls" if gained.high < 0 else "rises"
    return f", and average precision {goes} from {100 * before:.0f} to {100 * after:.0f} %"


def looks_back(effects: Effects) -> tuple[str, str] | None:
    """How far a model looks back, and the number behind it; None: that was not part of the audit.

    A cut history has nothing that others did, so it is compared with all events of the two ends and nothing else: what
    differs is due to the older events alone.
    """
    cuts = sorted((LAST[effect.name], effect.older.value) for effect in effects if effect.older is not None)
    if not cuts:
        return None
    # More history may change more decisions: as few events as are enough, of all cuts from there on.
    enough = list(takewhile(lambda cut: cut[1] <= LOOKS_BACK, reversed(cuts)))
    number, share = (enough or cuts)[-1]
    alone = f"with {'that one' if number == 1 else 'those'} alone, {percent(share)} of its decisions differ from those "
    alone += "with all events of the two"
    sooner = next((cut for cut in cuts if cut[0] < number and cut[1] <= LOOKS_BACK), None)
    if sooner is not None:
        alone += f", though with the last {sooner[0]} only {percent(sooner[1])} do"
    far = f"about {count(number, 'event')}" if enough else f"further than {count(number, 'event')}"
    return f"looks back {far} of each end", alone


def _decides_alike(reference: ReferenceAgreement) -> str:
    alike = f"decides like {reference.name} on {percent(reference.agrees.value)} of the links"
    right = reference.right
    return alike if right is None else f"{alike}; where they differ, it is right in {percent(right.value)}"


def percent(share: float) -> str:
    """A share without decimals."""
    return f"{100 * share:.0f} %"


def signed(number: float, decimals: int) -> str:
    """A change with its sign; no change is +0.

    >>> signed(-1.25, 1), signed(-0.001, 2)
    ('-1.2', '+0.00')
    """
    return f"{round(number, decimals) or 0.0:+.{decimals}f}"
