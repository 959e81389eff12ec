"""What each candidate adds to a decision, or how much a model attends to it, beside the counterfactual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from cody.errors import CallError, did_you_mean
from cody.explaining.explanation import EventShares, Explanation
from cody.graph import IntArray, TemporalGraph
from cody.models.contract import Model
from cody.models.decided import decide
from cody.search.attributions import attention_rollout, attribute, pairs_of, singles
from cody.search.oracle import Oracle

Groups = Callable[[TemporalGraph, IntArray], list[list[int]]]
Shares = Literal["shapley", "owen", "attention"]
ATTENTION: Literal["attention"] = "attention"
ATTRIBUTED: dict[str, Groups] = {"shapley": singles, "owen": pairs_of}


def with_shares(
    why: Explanation, model: Model, graph: TemporalGraph, name: Shares = "shapley", *, seconds: float | None = None
) -> Explanation:
    """The explanation with what each of its candidates adds to the margin, or with its share of the attention.

    Args:
        why: The explanation.
        model: The model that was explained.
        graph: The log that it is about.
        name: "shapley"; "owen", where the events of two nodes belong together; or "attention"
            (`cody.search.attributions.attention_rollout`), for models that offer it.
        seconds: Budget of time.

    Raises:
        BudgetError: It takes longer.
    """
    if name not in (*ATTRIBUTED, ATTENTION):
        raise CallError(f"there are no {name!r} values{did_you_mean(name, [*ATTRIBUTED, ATTENTION])}")
    if why.imagined or why.units or why.unit_name:
        raise CallError("what each event adds is known for removals of single events: leave out --by and --allow")
    rows = np.array([event.row for event in why.candidates], dtype=np.int64)
    if name == ATTENTION:
        found_shares = attention_rollout(model, graph, why.query)
        shares = tuple(round(found_shares.get(row, 0.0), 5) for row in rows.tolist())
        return replace(why, shares=EventShares(name, 0.0, tuple(rows.tolist()), shares, (0.0,) * len(rows)))
    oracle = Oracle(decide(model, graph, why.query, why.decision), why.query, seconds=seconds)
    found = attribute(oracle, ATTRIBUTED[name](graph, rows), np.random.default_rng([why.seed, why.query.before]))
    values, errors = ([round(float(number), 5) for number in some] for some in (found.values, found.error))
    return replace(why, shares=EventShares(name, found.base, found.rows, tuple(values), tuple(errors)))
