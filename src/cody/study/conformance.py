"""`check_explainer`: whether an explainer obeys the rules without which its figures could not be compared."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cody.data.mechanisms import mechanism
from cody.errors import CallError, first_line
from cody.explaining.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.checks.check import CheckResult, Report, Status
from cody.models.checks.trial import Failed, Skipped
from cody.models.contract import NOTHING, Model, OffersOther, checked_logits, open_session
from cody.models.oracles import ORACLES
from cody.search.policies import spatio_temporal
from cody.study.explainers import Explainer, explainer
from cody.study.own_function import OwnFunction, OwnSearch
from cody.study.record import reason_of

FEW = 5  # evaluations, or candidates


@dataclass(frozen=True, slots=True)
class ExplainerTrial:
    """An explainer, and the links that it is tried on."""

    explainer: Explainer
    model: Model
    graph: TemporalGraph
    queries: tuple[Query, ...]

    def answers(self, queries: Sequence[Query] | None = None) -> list[tuple[int, ...]]:
        """What it names for each link."""
        return [self.answer(query).rows for query in (self.queries if queries is None else queries)]

    def answer(self, query: Query) -> Explanation:
        return self.explainer.explain(self.model, self.graph, query)

    def limited(self, **limits: Any) -> ExplainerTrial:
        """The same with fewer candidates (`size`), or with a budget (`evaluations`)."""
        return replace(self, explainer=replace(self.explainer, **limits))


Rule = Callable[[ExplainerTrial], None]


def check_explainer(
    which: Explainer | OwnFunction | str,
    model: Model | None = None,
    graph: TemporalGraph | None = None,
    queries: Sequence[Query] | None = None,
) -> Report:
    """Try an explainer on a few links, and report which rules it obeys. `print(report)` shows them.

    Args:
        which: An `Explainer`, a name of the catalogue, `module:function`, or a function of your own.
        model: By default, one that decides by a known mechanism.
        graph: By default, the log of this mechanism.
        queries: The links; by default, some with known causes.

    >>> def latest(model, graph, query, candidates):
    ...     return candidates[-1:]
    >>> check_explainer(latest).passed
    True
    """
    if isinstance(which, str):
        which = explainer(which, size=SIZE)
    elif not isinstance(which, Explainer):
        which = Explainer(which.__name__, spatio_temporal, OwnSearch(which), size=SIZE)
    if (model is None) != (graph is None):
        raise CallError("model and graph go together: give both or neither")
    if model is None or graph is None:
        made = mechanism("joint", episodes=30)
        graph, model = made.graph, ORACLES["joint"](made.graph)
        queries = [graph.query(row) for row in list(made.ways)[:FEW]] if queries is None else queries
    if not queries:
        raise CallError("queries are missing: links of the graph, for example [graph.query(100), graph.query(200)]")
    return Report(tuple(_outcomes(ExplainerTrial(which, model, graph, tuple(queries)))), "explainer")


def _outcomes(trial: ExplainerTrial) -> Iterator[CheckResult]:
    for rule, meaning in RULES.items():
        name = rule.__name__.strip("_")
        outcome: tuple[Status, str] = "passed", ""
        try:
            rule(trial)
        except Skipped as reason:
            outcome = "skipped", str(reason)
        except Failed as failure:
            outcome = "failed", str(failure)
        except Exception as error:
            outcome = "failed", reason_of(error)
        yield CheckResult(name, meaning, *outcome)
        if rule is _answers and outcome[0] != "passed":
            yield CheckResult("the rest", f"{len(RULES) - 1} more rules", "skipped", "fix the first one")
            return


def _answers(trial: ExplainerTrial) -> None:
    trial.answers()


def _repeats(trial: ExplainerTrial) -> None:
    first, again = trial.answers(), trial.answers(trial.queries[::-1])[::-1]
    for query, one, other in zip(trial.queries, first, again, strict=True):
        if one != other:
            raise Failed(f"event {query.before}: {list(one)}, and explained after others {list(other)}")


def _looks_back(trial: ExplainerTrial) -> None:
    if not isinstance(trial.model, OffersOther):
        raise Skipped("the model cannot be moved to a shorter log")
    for query in trial.queries:
        if query.before >= trial.graph.num_events:
            continue
        shorter = trial.graph.select(np.arange(query.before + 1))
        there = trial.explainer.explain(trial.model.on(shorter), shorter, query).rows
        here = trial.answer(query).rows
        if here != there:
            raise Failed(f"event {query.before}: {list(here)}, and on a log that ends with it {list(there)}")


def _empty(trial: ExplainerTrial) -> None:
    named = trial.answer(trial.graph.query(0)).rows
    if named:
        raise Failed(f"it names {list(named)} for the first event of the log")


def _single(trial: ExplainerTrial) -> None:
    trial.limited(size=1).answers()


def _budget(trial: ExplainerTrial) -> None:
    for query in trial.queries:
        try:
            used = trial.limited(evaluations=FEW).answer(query).evaluations
        except CallError as error:
            raise Skipped(str(error)) from None
        if used > FEW:
            raise Failed(f"it evaluated {used} sets with a budget of {FEW}")


def _leaves(trial: ExplainerTrial) -> None:
    for query in trial.queries:
        before = _score(trial, query)
        trial.answer(query)
        if _score(trial, query) != before:
            raise Failed(f"event {query.before}: its logit was {before}, and is {_score(trial, query)} afterwards")


def _pickles(trial: ExplainerTrial) -> None:
    try:
        pickle.dumps(trial.explainer)
    except Exception as error:
        raise Skipped(f"it cannot: {first_line(error)}") from None


def _score(trial: ExplainerTrial, query: Query) -> float:
    return float(checked_logits(query, [NOTHING], open_session(trial.model, query).logits([NOTHING]))[0])


RULES: dict[Rule, str] = {
    _answers: "Names distinct candidates",
    _repeats: "The same seed gives the same answer, whatever was explained before",
    _looks_back: "Does not depend on later events",
    _empty: "Names nothing where there is nothing to name",
    _single: "Names one event at most of one candidate",
    _budget: "Keeps to a budget of evaluations, and ends with an answer",
    _leaves: "Leaves the model as it was",
    _pickles: "Can be sent to other processes (--workers)",
}
