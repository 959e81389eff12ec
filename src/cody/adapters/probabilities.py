"""Models that answer with probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cody.errors import ModelError
from cody.graph import FloatArray, Query, TemporalGraph
from cody.model import Change, Model, SeesPart, Session, graph_of, identity_of, model_on, open_session, reach

NEAREST = 1e-7  # to 0 and to 1; beyond it, single precision knows no probabilities


def to_logits(probabilities: ArrayLike) -> FloatArray:
    """log(p / (1 - p)), of probabilities that are neither 0 nor 1.

    >>> to_logits([0.5, 0.75]).round(4).tolist()
    [0.0, 1.0986]
    """
    values = np.asarray(probabilities, dtype=np.float64)
    bad = values[(values < 0) | (values > 1)]
    if bad.size:
        raise ModelError(f"a probability must lie between 0 and 1, and the model gave {bad[0]:.6g}")
    clipped = np.clip(values, NEAREST, 1 - NEAREST)
    logits: FloatArray = np.log(clipped / (1 - clipped))
    return logits


@dataclass(frozen=True, slots=True)
class FromProbabilities:
    """A model whose answers are probabilities, as one whose answers are logits."""

    model: Model

    @property
    def identity(self) -> str:
        return f"{identity_of(self.model)}-logits"

    @property
    def hops(self) -> int:
        return reach(self.model)

    @property
    def graph(self) -> TemporalGraph | None:
        return graph_of(self.model)

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        return to_logits(self.model.logits(query, changes))

    def session(self, query: Query, rows: Sequence[int] = ()) -> Session:
        return _Session(open_session(self.model, query, rows))

    def sees_before(self, query: Query) -> int:
        return self.model.sees_before(query) if isinstance(self.model, SeesPart) else query.before

    def on(self, graph: TemporalGraph) -> FromProbabilities:
        return FromProbabilities(model_on(self.model, graph))


@dataclass(frozen=True, slots=True)
class _Session:
    session: Session

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        return to_logits(self.session.logits(changes))


def from_probabilities(model: Model) -> FromProbabilities:
    """A model that answers with probabilities (its last layer is a sigmoid) as one that answers with logits."""
    return FromProbabilities(model)
