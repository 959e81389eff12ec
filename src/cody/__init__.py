"""CoDy: which past events, had they not happened, would have changed this prediction?"""

import logging as _logging
from typing import TYPE_CHECKING

from cody import _lazy, _start  # noqa: F401  (before anything that takes time)
from cody._version import __version__

if TYPE_CHECKING:
    from cody.adapters.saved import load_model
    from cody.candidates import Protected, candidates
    from cody.data import load
    from cody.edits import Add, Alter, Move
    from cody.errors import CodyError
    from cody.explain import explain
    from cody.explanation import Explanation
    from cody.graph import Query, TemporalGraph
    from cody.model import Change, Model, as_model
    from cody.predict import predict
    from cody.survey import survey

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
    "as_model",
    "candidates",
    "explain",
    "load",
    "load_model",
    "predict",
    "survey",
]

_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # silent, unless a program asks

_lazy.import_on_demand(
    __name__,
    {
        "cody.adapters.saved": "load_model",
        "cody.candidates": "Protected candidates",
        "cody.data.named": "load",
        "cody.edits": "Add Alter Move",
        "cody.errors": "CodyError",
        "cody.explain": "explain",
        "cody.explanation": "Explanation",
        "cody.graph": "Query TemporalGraph",
        "cody.model": "Change Model as_model",
        "cody.predict": "predict",
        "cody.survey.of_model": "survey",
    },
)
