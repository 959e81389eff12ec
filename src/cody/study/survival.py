"""In how many other models the answers of a survey hold, and how many hold under noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cody.explaining.verification import with_stability
from cody.graph import TemporalGraph
from cody.models.contract import Model, identity_of
from cody.study.cases import ExplainedLink
from cody.study.record_file import with_elsewhere
from cody.study.shares import Share, mean
from cody.utils.forms import Count, Form

ALL = "all of these models"


class Survival(Form, frozen=True):
    """How many answers hold in another model, or under noise."""

    what: str  # the name of the model, `ALL`, or what the noise is
    tested: Count  # counterfactuals for whose links it decides the same with nothing changed
    holds: Share | None  # (1/tested) Σ [the counterfactual flips it, too]; None: none was tested


def with_survival(
    case: ExplainedLink, model: Model, graph: TemporalGraph, also: Mapping[str, Model], *, noise: bool = False
) -> ExplainedLink:
    """A link with what other models say about its counterfactual, and this one under noise; its record has it, too.

    What is known already is not computed again.

    Args:
        case: An explained link whose document was kept.
        model: The model that was explained; it is used only for noise.
        graph: The log of events.
        also: Other models of the same log, by name.
        noise: Whether to test this model a minute later, and with an unrelated event added.
    """
    if not case.flips:
        return case
    known = {each.model: each for each in case.elsewhere if each.model}
    found = {name: identity_of(other) for name, other in also.items()}
    missing = {name: other for name, other in also.items() if found[name] not in known}
    under_noise = tuple(each for each in case.elsewhere if not each.model)
    if missing or (noise and not under_noise):
        noisy = noise and not under_noise
        why = with_stability(case.record.explanation, model, graph, missing, noise=noisy)
        known |= {each.model: each for each in why.elsewhere if each.model}
        under_noise = tuple(each for each in why.elsewhere if not each.model) if noisy else under_noise
    known |= {identity: known[identity]._replace(name=name) for name, identity in found.items()}
    elsewhere = (*known.values(), *under_noise)
    return replace(case, elsewhere=elsewhere, record=with_elsewhere(case.record, elsewhere))


def held_in(case: ExplainedLink) -> tuple[int, int] | None:
    """In how many other models an answer holds, and how many decide the same with nothing changed; None: not tested."""
    models = [each for each in case.elsewhere if each.model]
    agreeing = [each for each in models if each.agrees_with(case.record.original)]
    return (sum(each.holds(0) for each in agreeing), len(agreeing)) if models else None


def survival_of(cases: Sequence[ExplainedLink]) -> tuple[Survival, ...]:
    """How many answers hold in each other model, in all of them where there are several, and under noise.

    Args:
        cases: The explained links of one kind.
    """
    tested = [case for case in cases if case.elsewhere]
    names = dict.fromkeys((each.name, bool(each.model)) for case in tested for each in case.elsewhere)
    models = [_of_one(tested, name) for name, is_model in names if is_model]
    counts = [counted for case in tested if (counted := held_in(case)) is not None and counted[1]]
    together = [_survival(ALL, [holding == agreeing for holding, agreeing in counts])] if len(models) > 1 else []
    return (*models, *together, *(_of_one(tested, name) for name, is_model in names if not is_model))


def _of_one(cases: Sequence[ExplainedLink], name: str) -> Survival:
    pairs = [(case, each) for case in cases for each in case.elsewhere if each.name == name]
    return _survival(name, [each.holds(0) for case, each in pairs if each.agrees_with(case.record.original)])


def _survival(what: str, holds: Sequence[bool]) -> Survival:
    return Survival(what, len(holds), mean(holds) if holds else None)
