"""`check_explainer`: whether an explainer obeys the rules without which its figures could not be compared."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cody.data.mechanisms import mechanism
from cody.errors import CallError, CodyError, first_line
from cody.explaining.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.checks import CheckResult, Report
from cody.models.checks.trial import Failed, Skipped
from cody.models.contract import NOTHING, Model, OffersOther, checked_logits, open_session
from cody.models.oracles import ORACLES
from cody.search.policies import spatio_temporal
from cody.study.explainers import Explainer, explainer
from cody.study.own_function import OwnFunction, OwnSearch

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

    def limited(self, *, size: int | None = None, evaluations: int | None = None) -> ExplainerTrial:
        """The same with fewer candidates, or with a budget."""
        known = self.explainer
        size, evaluations = size or known.size, evaluations or known.evaluations
        return replace(self, explainer=replace(known, size=size, evaluations=evaluations))


Rule = Callable[[ExplainerTrial], None]
RULES: list[tuple[str, str, Rule]] = []  # name, meaning, function


def _rule(meaning: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        RULES.append((rule.__name__.strip("_"), meaning, rule))
        return rule

    return add


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
    for name, meaning, rule in RULES:
        try:
            rule(trial)
        except Skipped as reason:
            yield CheckResult(name, meaning, "skipped", str(reason))
        except Failed as failure:
            yield CheckResult(name, meaning, "failed", str(failure))
        except Exception as error:
            detail = str(error) if isinstance(error, CodyError) else f"{type(error).__name__}: {first_line(error)}"
            yield CheckResult(name, meaning, "failed", detail)
        else:
            yield CheckResult(name, meaning, "passed")
            continue
        if rule is _answers:
            yield CheckResult("the rest", f"{len(RULES) - 1} more rules", "skipped", "fix the first one")
            return


@_rule("Names distinct candidates")
def _answers(trial: ExplainerTrial) -> None:
    trial.answers()


@_rule("The same seed gives the same answer, whatever was explained before")
def _repeats(trial: ExplainerTrial) -> None:
    first, again = trial.answers(), trial.answers(trial.queries[::-1])[::-1]
    for query, one, other in zip(trial.queries, first, again, strict=True):
        if one != other:
            raise Failed(f"event {query.before}: {list(one)}, and explained after others {list(other)}")


@_rule("Does not depend on later events")
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


@_rule("Names nothing where there is nothing to name")
def _empty(trial: ExplainerTrial) -> None:
    named = trial.answer(trial.graph.query(0)).rows
    if named:
        raise Failed(f"it names {list(named)} for the first event of the log")


@_rule("Names one event at most of one candidate")
def _single(trial: ExplainerTrial) -> None:
    trial.limited(size=1).answers()


@_rule("Keeps to a budget of evaluations, and ends with an answer")
def _budget(trial: ExplainerTrial) -> None:
    for query in trial.queries:
        try:
            used = trial.limited(evaluations=FEW).answer(query).evaluations
        except CallError as error:
            raise Skipped(str(error)) from None
        if used > FEW:
            raise Failed(f"it evaluated {used} sets with a budget of {FEW}")


@_rule("Leaves the model as it was")
def _leaves(trial: ExplainerTrial) -> None:
    for query in trial.queries:
        before = _score(trial, query)
        trial.answer(query)
        if _score(trial, query) != before:
            raise Failed(f"event {query.before}: its logit was {before}, and is {_score(trial, query)} afterwards")


@_rule("Can be sent to other processes (--workers)")
def _pickles(trial: ExplainerTrial) -> None:
    try:
        pickle.dumps(trial.explainer)
    except Exception as error:
        raise Skipped(f"it cannot: {first_line(error)}") from None


def _score(trial: ExplainerTrial, query: Query) -> float:
    return float(checked_logits(query, [NOTHING], open_session(trial.model, query).logits([NOTHING]))[0])
