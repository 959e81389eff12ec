"""A survey of a model in one call: links are drawn, explained, and summarised."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

from cody.errors import CallError, FailedLinksWarning, ModelError
from cody.explaining.verification import check_models
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.models.deciding import ByLabel
from cody.models.decision import Decision
from cody.study.cases import cases, with_survival
from cody.study.explainers import DEFAULT_SEARCH, Explainer
from cody.study.explainers import explainer as named_explainer
from cody.study.instances import TEST_PERIOD, Link, sample_kinds
from cody.study.record import KINDS, Failure, Record, in_words
from cody.study.report import Survey, survey_of
from cody.study.run import EvaluationPlan, evaluate
from cody.utils.signatures import readable_help


@readable_help
def survey(
    model: Model,
    graph: TemporalGraph,
    links: Iterable[int] | None = None,
    *,
    instances: int = 50,
    kinds: Sequence[str] = KINDS,
    period: tuple[float, float] = TEST_PERIOD,
    explainer: Explainer | None = None,
    decision: Decision | ByLabel | None = None,
    also: Mapping[str, Model] | None = None,
    noise: bool = False,
    seed: int = 0,
    data_name: str = "the data",
    model_name: str = "the model",
    watch: Callable[[int, int], None] | None = None,
) -> Survey:
    """What decides a model's predictions in general, from explanations of many of them.

    Args:
        model: The model whose predictions are explained.
        graph: The log that it was made for.
        links: Rows of events, all of which are explained. Default: some are drawn.
        instances: How many are drawn of each kind.
        kinds: "correct", "incorrect", or both. Of links, predicted ones are correct (above the threshold, in the top);
            of labels, those that are as in the log.
        period: The part of the log that they are drawn from, as shares of its events.
        explainer: What explains them (`cody.study.explainers.explainer`). Default: the search that `explain` uses.
        decision: What is to flip, as in `explain`. By default, what the model decides.
        also: Other models of the same log, by name: the answers that hold in them, too, are counted.
        noise: Count also the answers that hold a minute later, and with an unrelated event added.
        seed: For drawing links, and for policies with chance.
        data_name: What the data are called in the result.
        model_name: What the model is called in the result.
        watch: Called after each explanation, with the number of finished and of all links.

    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> (part,) = survey(ToyModel(graph, weights=[1, 2, -1, 0]), graph, [3]).parts
    >>> part.kind, part.links, part.explained
    ('correct', 1, 1)
    """
    check_models(also or {}, graph)
    rows = None if links is None else sorted(set(links))
    if rows is not None and not rows:
        raise CallError("no link is given; links are rows of events")
    most = instances if rows is None else len(rows)
    drawn = sample_kinds(model, graph, most, kinds, period=period, seed=seed, events=rows, decision=decision)
    chosen = [Link(row, kind) for kind in kinds for row in drawn[kind]]
    if not chosen:
        raise CallError(f"there is no {' or '.join(kinds)} prediction among those requested")
    explainers = (explainer or named_explainer(DEFAULT_SEARCH),)
    plan = EvaluationPlan(data_name, model_name, explainers, seed, decision=decision)
    entries = []
    for number, entry in enumerate(evaluate(model, graph, chosen, plan), start=1):
        entries.append(entry)
        if watch is not None:
            watch(number, len(chosen))
    records = [entry for entry in entries if isinstance(entry, Record)]
    failures = [entry for entry in entries if isinstance(entry, Failure)]
    if not records:
        raise ModelError(f"no prediction could be explained, the first one: {failures[0].reason}")
    for sentence in in_words(failures):
        warnings.warn(sentence, FailedLinksWarning, stacklevel=2)
    explained = cases(records, graph)
    if also or noise:
        explained = [with_survival(case, model, graph, also or {}, noise=noise) for case in explained]
    return survey_of(explained, graph)
