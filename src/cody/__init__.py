"""CoDy: which past events, had they not happened, would have changed this prediction?"""

from typing import TYPE_CHECKING, Any

from cody import _start  # noqa: F401  (the first of them)
from cody._version import __version__
from cody.candidates import Protected, candidates
from cody.data import load
from cody.edits import Add, Alter, Move
from cody.errors import CodyError
from cody.explain import explain
from cody.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.model import Change, Model, as_model

if TYPE_CHECKING:
    from cody.inference import load_model

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
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "load_model":  # what asks models is imported when it is needed
        from cody.inference import load_model

        return load_model
    raise AttributeError(f"module 'cody' has no attribute {name!r}")
