"""An explainer in one function of the user's: `(model, graph, query) → rows or scores`.

It returns the rows of the events that it names, the most important first; or a score for each row, in a mapping. It may
take two more arguments by name: `candidates`, the rows that it may name, and `rng`, a random generator. Whatever it
asks the model about the link is counted.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from cody.engine.named import find_factory, is_factory, reported_as_of
from cody.errors import BudgetError, CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Change, Model, identity_of, reach
from cody.search.greedy import shortest_prefix, top_share
from cody.search.oracle import Oracle
from cody.search.result import EXHAUSTED, FOUND, SearchResult, best_evaluated, result

OwnFunction = Callable[..., Any]
PREFIX = "-prefix"
MAY_TAKE = ("candidates", "rng")


@dataclass(frozen=True, slots=True)
class CountedModel:
    """The model as an own explainer gets it: what it scores of the link is counted, and limited by a budget."""

    oracle: Oracle
    graph: TemporalGraph

    @property
    def identity(self) -> str:
        return identity_of(self.wrapped)

    @property
    def hops(self) -> int:
        return reach(self.wrapped)

    @property
    def wrapped(self) -> Model:
        """The model itself, for gradients; what it scores directly is not counted."""
        return self.oracle.model

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One margin for each change. [B]"""
        if query == self.oracle.query:
            return np.array(self.oracle.ask([frozenset(map(int, change)) for change in changes]))
        return np.asarray(self.wrapped.logits(query, changes))


class OwnSearch:
    """A search that calls a function of the user's.

    Args:
        function: The function, or its name, `module:function`.
        prefix: Of a function that returns scores: name the fewest first events that flip the decision, not a share.

    >>> def latest(model, graph, query, candidates):
    ...     return candidates[-1:]
    >>> OwnSearch(latest).__name__
    'latest'
    """

    def __init__(self, function: OwnFunction | str, *, prefix: bool = False) -> None:
        self.function, self.prefix = function, prefix
        found = self.found.func if isinstance(self.found, partial) else self.found
        self.__module__ = str(getattr(found, "__module__", "") or type(found).__module__)  # for records
        self.__name__ = self.__qualname__ = str(getattr(found, "__name__", type(found).__name__)) + PREFIX * prefix
        self.graph: TemporalGraph | None = None
        self.seed = 0

    @property
    def found(self) -> OwnFunction:
        """The function itself. Modules are looked for in the working folder, too."""
        if callable(self.function):
            return self.function
        return find_factory(self.function, Path.cwd(), "--explainers")

    @property
    def factual(self) -> bool:
        """Whether the function says that it names what speaks for the decision: `my_explainer.factual = True`."""
        return bool(getattr(self.found, "factual", False)) and not self.prefix

    def on(self, graph: TemporalGraph, seed: int) -> Self:
        """The same on a log.

        Args:
            graph: The log.
            seed: Of the generator that the function may take.
        """
        made = type(self)(self.function, prefix=self.prefix)
        made.graph, made.seed = graph, seed
        return made

    def __call__(self, oracle: Oracle, ranking: IntArray) -> SearchResult:
        graph = self.graph
        assert graph is not None  # `Explainer.explain` gives it one
        function, query = self.found, oracle.query
        rng = np.random.default_rng([self.seed, query.src, query.dst, query.before])
        offered = {"candidates": np.sort(ranking), "rng": rng}
        try:
            with reported_as_of(self.__name__):
                known = inspect.signature(function).parameters
                given = {name: offered[name] for name in MAY_TAKE if name in known}
                answer = function(CountedModel(oracle, graph), graph, query, **given)
        except BudgetError as spent:
            return result(oracle, ranking, best_evaluated(oracle, ranking.tolist()), 0, str(spent))
        if isinstance(answer, Mapping):
            order = self._ranked(answer, ranking)
            return shortest_prefix(oracle, order) if self.prefix else top_share(oracle, order)
        if self.prefix:
            raise CallError(f"{self.__name__}: only a function that returns scores has a shortest prefix")
        rows = self._rows(answer, ranking)
        ended = FOUND if len(ranking) else EXHAUSTED
        return result(oracle, ranking, rows, 0, ended, factual=self.factual)

    def _ranked(self, scores: Mapping[Any, Any], ranking: IntArray) -> IntArray:
        """The candidates, that with the highest score first; those without one come last, in the usual order."""
        self._rows(list(scores), ranking)
        try:
            known = {int(row): float(score) for row, score in scores.items()}
            is_number = not any(map(math.isnan, known.values()))
        except (TypeError, ValueError, OverflowError):
            is_number = False
        if not is_number:
            raise CallError(f"{self.__name__} returned a score that is not a number")
        return ranking[np.argsort([-known.get(row, -math.inf) for row in ranking.tolist()], kind="stable")]

    def _rows(self, answer: Any, ranking: IntArray) -> tuple[int, ...]:
        try:
            given = np.asarray(list(answer))
        except TypeError:
            given = np.asarray(answer)
        if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
            wanted = "rows of events, or a mapping from rows to scores"
            raise CallError(f"{self.__name__} must return {wanted}, not {answer!r:.60}")
        rows = tuple(given.astype(np.int64).tolist())
        candidates = set(ranking.tolist())
        wrong = [row for row in rows if row not in candidates]
        if wrong:
            raise CallError(
                f"{self.__name__} named event {wrong[0]}, which is none of the {len(ranking)} candidates; it gets them "
                "if it has an argument called candidates"
            )
        if len(set(rows)) < len(rows):
            raise CallError(f"{self.__name__} named an event twice")
        return rows


def is_own(name: str) -> bool:
    """Whether a name means a function of the user's.

    >>> is_own("my_module:my_explainer"), is_own("my_module:my_explainer-prefix"), is_own("shapley-prefix")
    (True, True, False)
    """
    return is_factory(name.removesuffix(PREFIX))


def own_search(name: str) -> OwnSearch:
    """The search that `module:function` names; with `-prefix`, the shortest prefix of its ranking."""
    return OwnSearch(name.removesuffix(PREFIX), prefix=name.endswith(PREFIX))
