"""Models of other libraries. Each adapter is imported on demand: `from cody.adapters import pyg`.

`from_steps` builds a model from a few functions, whatever library they call; the other adapters are built on it.
"""

from cody.adapters.approximate import approximately
from cody.adapters.compare import ScoreComparison, compare
from cody.adapters.discrete import GraphSnapshot, from_snapshots
from cody.adapters.history import HistoryModel, from_steps
from cody.adapters.past import Events, Past
from cody.adapters.probabilities import from_probabilities
from cody.adapters.tokens import Links, Tokens, from_tokens

__all__ = [
    "Events",
    "GraphSnapshot",
    "HistoryModel",
    "Links",
    "Past",
    "ScoreComparison",
    "Tokens",
    "approximately",
    "compare",
    "from_probabilities",
    "from_snapshots",
    "from_steps",
    "from_tokens",
]
