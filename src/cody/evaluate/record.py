"""One row of an evaluation: what one explainer said about one link, and what it cost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from cody.errors import DataError
from cody.search.found import flips

SCHEMA = "cody/record/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """X = the events of the explanation. All logits are exact answers of the model."""

    data: str  # names, as the user gave them
    model: str
    explainer: str  # for example cody-spatio-temporal
    kind: str  # of the prediction: "correct" or "incorrect"
    event: int  # row of the explained link
    candidates: int  # how many events could be removed
    removed: tuple[int, ...]  # X, rows in the order of the explainer
    original: float  # logit with nothing removed
    without: float  # logit without X
    only: float  # logit of a past that consists of X only
    ended: str  # why the search ended: a word of cody.search.found
    iterations: int
    evaluations: int  # distinct sets that the explainer asked about
    first: int | None  # how many of them until the first that changes the decision; None: no such set
    seconds: float | None  # wall time, without confirmation and without `only`; None: it profited from other explainers
    seed: int
    parameters: dict[str, Any]  # what the explainer was told
    model_identity: str
    data_identity: str
    version: str  # of this package

    @property
    def sparsity(self) -> float:
        """|X| / |C|; 0 where there is nothing to remove."""
        return len(self.removed) / self.candidates if self.candidates else 0.0

    @property
    def is_necessary(self) -> bool:
        """Fidelity+ of one link: the decision changes without X."""
        return flips(self.original, self.without)

    @property
    def is_sufficient(self) -> bool:
        """Fidelity- of one link: the decision stays when the past consists of X only."""
        return not flips(self.original, self.only)

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Record:
        """What `to_json` wrote."""
        try:
            document = json.loads(line)
            schema = document.get("schema")
            if schema != SCHEMA:
                raise DataError(f"this is no record: its schema is {schema!r}, not {SCHEMA!r}")
            values = {field.name: document[field.name] for field in fields(cls)}
        except (ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"this is no record: {error}") from None
        except KeyError as error:
            raise DataError(f"this record is damaged: {error} is missing") from None
        return cls(**values | {"removed": tuple(values["removed"])})
