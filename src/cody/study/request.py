"""How links are explained, in one value that workers and files can have."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from cody.engine.named import NamedModel
from cody.explaining.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.models.contract import Model
from cody.models.deciding import ByLabel, described
from cody.models.decision import Decision
from cody.search.oracle import Oracle
from cody.study.explainers import Explainer, name_of

logger = logging.getLogger(__name__)

Watch = Callable[[Oracle], None]


class OtherModels(NamedTuple):
    """What answers should survive. Workers get it too, and open these models themselves."""

    names: tuple[str, ...]  # of models of the same log
    robust: bool  # prefer what flips all of them
    noise: bool
    allow_data_mismatch: bool = False
    folder: Path | None = None  # where modules of the user's are looked for first

    @property
    def described(self) -> dict[str, Any]:
        """What a later run compares."""
        return {"also": list(self.names), "robust": self.robust, "noise": self.noise}

    def arguments(self, graph: TemporalGraph) -> dict[str, Any]:
        """The arguments of `cody.explain`, with the models opened.

        Args:
            graph: The log of events.
        """
        return {"also": _opened(self, graph), "robust": self.robust, "noise": self.noise}


@lru_cache(maxsize=1)
def _opened(others: OtherModels, graph: TemporalGraph) -> dict[str, Model]:
    """Once in each process."""
    options = {"allow_data_mismatch": others.allow_data_mismatch}
    return {name: NamedModel(name, lambda: graph, others.folder).open(**options) for name in others.names}


class Request(NamedTuple):
    """How each link is explained. Workers get it too, so it must be picklable."""

    explainer: Explainer
    options: dict[str, Any]  # further arguments of explain, all of them plain data
    names: dict[str, str]  # of data and model, as the user gave them
    decision: Decision | ByLabel | None = None  # None: the one that the model makes
    others: OtherModels | None = None

    def explain(
        self, model: Model, graph: TemporalGraph, query: Query, watch: Watch | None = None, **beyond: Any
    ) -> Explanation:
        """The explanation of a link. Its parameters record the request, so that a later run can compare them.

        Args:
            model: The model that is explained.
            graph: The log of events.
            query: The link that is scored.
            watch: Called with the oracle before the search starts.
            beyond: Further arguments of `cody.explain` that a request cannot hold, such as other models that are open.
        """
        if self.others is not None and not beyond:
            beyond = self.others.arguments(graph)
        why = self.explainer.explain(model, graph, query, decision=self.decision, watch=watch, **self.options, **beyond)
        found = why.verdict, why.evaluations, why.seconds
        logger.debug("%s → %s: %s, %d evaluations in %.2f s", why.src, why.dst, *found)
        return replace(why, parameters=why.parameters | self.names | {"request": self.described(model)})

    def described(self, model: Model) -> dict[str, Any]:
        """All of it but the names, as JSON has it."""
        parts = {"search": name_of(self.explainer.search), "policy": name_of(self.explainer.policy)}
        options = self.explainer.options(model) | self.options
        if self.decision is not None:
            options |= {"decision": described(self.decision)}
        if self.others is not None:
            options |= self.others.described
        return json.loads(json.dumps(parts | {"options": options}))
