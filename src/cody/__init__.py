"""CoDy: which past events, had they not happened, would have changed this prediction?"""

import logging as _logging
from typing import TYPE_CHECKING

from cody._version import __version__
from cody.utils import lazy as _lazy
from cody.utils import start as _start  # noqa: F401  (before anything that takes time)

if TYPE_CHECKING:
    from cody.data import load
    from cody.engine.saved import load_model
    from cody.errors import CodyError
    from cody.explaining.claims import verify_explanation
    from cody.explaining.even_if import even_if
    from cody.explaining.explanation import Explanation
    from cody.explaining.pipeline import explain
    from cody.explaining.recourse import recourse
    from cody.graph import Query, TemporalGraph
    from cody.graph.edits import Add, Alter, Move
    from cody.graph.neighbourhood import candidates
    from cody.graph.protected import Protected
    from cody.models.contract import Change, Model, as_model
    from cody.models.deciding import above, between, decided_by, in_top, labelled, rather_than
    from cody.models.predict import predict
    from cody.study import audit, impact, survey

__all__ = [
    "Add",
    "Alter",
    "Change",
    "CodyError",
    "Explanation",
    "Model",
    "Move",
    "Protected",
    "Query",
    "TemporalGraph",
    "__version__",
    "above",
    "as_model",
    "audit",
    "between",
    "candidates",
    "decided_by",
    "even_if",
    "explain",
    "impact",
    "in_top",
    "labelled",
    "load",
    "load_model",
    "predict",
    "rather_than",
    "recourse",
    "survey",
    "verify_explanation",
]

_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # silent, unless a program asks

_lazy.import_on_demand(
    __name__,
    {
        "cody.data.named": "load",
        "cody.engine.saved": "load_model",
        "cody.errors": "CodyError",
        "cody.explaining.claims": "verify_explanation",
        "cody.explaining.even_if": "even_if",
        "cody.explaining.explanation": "Explanation",
        "cody.explaining.pipeline": "explain",
        "cody.explaining.recourse": "recourse",
        "cody.graph.edits": "Add Alter Move",
        "cody.graph.log": "Query TemporalGraph",
        "cody.graph.neighbourhood": "candidates",
        "cody.graph.protected": "Protected",
        "cody.models.contract": "Change Model as_model",
        "cody.models.deciding": "above between decided_by in_top labelled rather_than",
        "cody.models.predict": "predict",
        "cody.study.audit": "audit",
        "cody.study.impact": "impact",
        "cody.study.surveys": "survey",
    },
)
