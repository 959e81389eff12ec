"""Models that return probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cody.errors import ModelError
from cody.graph import FloatArray, Query, TemporalGraph
from cody.models.contract import Change, Model, SeesPart, Session, graph_of, identity_of, model_on, open_session, reach


def to_logits(probabilities: ArrayLike) -> FloatArray:
    """log(p / (1 - p)), in double precision.

    A probability of exactly 0 or 1 has been rounded. It gets the logit of a number halfway to the nearest one that its
    type has, so that it lies beyond all others: in single precision -104.0 and 17.3.

    >>> to_logits([0.5, 0.75, 1e-30]).round(4).tolist()
    [0.0, 1.0986, -69.0776]
    >>> to_logits(np.array([0.0, 1 - 2**-24, 1.0], dtype=np.float32)).round(1).tolist()
    [-104.0, 16.6, 17.3]
    """
    given = np.asarray(probabilities)
    precision = np.finfo(given.dtype if given.dtype.kind == "f" else np.float64)
    values = given.astype(np.float64)
    bad = values[(values < 0) | (values > 1)]
    if bad.size:
        raise ModelError(f"a probability must lie between 0 and 1, but the model returned {bad[0]:.6g}")
    with np.errstate(divide="ignore"):
        logits: FloatArray = np.log(values) - np.log1p(-values)
    logits[values == 0] = np.log(float(precision.smallest_subnormal)) - np.log(2)
    logits[values == 1] = np.log(2) - np.log(float(precision.epsneg))
    return logits


@dataclass(frozen=True, slots=True)
class FromProbabilities:
    """A model that returns probabilities, as one that returns logits."""

    model: Model

    gives_logits = True

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
        return _LogitSession(open_session(self.model, query, rows))

    def sees_before(self, query: Query) -> int:
        return self.model.sees_before(query) if isinstance(self.model, SeesPart) else query.before

    def on(self, graph: TemporalGraph) -> FromProbabilities:
        return FromProbabilities(model_on(self.model, graph))


@dataclass(frozen=True, slots=True)
class _LogitSession:
    session: Session

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        return to_logits(self.session.logits(changes))


def from_probabilities(model: Model) -> FromProbabilities:
    """A model that returns logits, from one that returns probabilities (its last layer is a sigmoid)."""
    return FromProbabilities(model)
