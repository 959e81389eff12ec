"""Factual explainers to compare with. They name the events that a prediction rests on, not events that flip it.

Each is a policy and a search, like all explainers:

    random sets      policies.random          top_share
    PBONE            policies.event_impact    top_share
    PGExplainer      learned_order            top_share
    TempME           motif_order              top_share
    T-GNNExplainer   learned_order            tgnnexplainer

The learned ones need torch, which is imported when the first of their names is used.
"""

from typing import TYPE_CHECKING, Any

from cody.baselines.tgnnexplainer import Explored, Level, explore, tgnnexplainer
from cody.utils.extras import needed_by

if TYPE_CHECKING:
    from cody.baselines.checkpoint import (
        load_pgexplainer,
        load_scorer,
        load_tempme,
        load_trained,
        shipped_explainers,
        trained_policy,
    )
    from cody.baselines.pgexplainer import Scorer, ScorerSettings, learned_order
    from cody.baselines.tempme import MotifScorer, MotifSettings, motif_order
    from cody.baselines.train import settings_of, train_explainer

__all__ = [
    "Explored",
    "Level",
    "MotifScorer",
    "MotifSettings",
    "Scorer",
    "ScorerSettings",
    "explore",
    "learned_order",
    "load_pgexplainer",
    "load_scorer",
    "load_tempme",
    "load_trained",
    "motif_order",
    "settings_of",
    "shipped_explainers",
    "tgnnexplainer",
    "train_explainer",
    "trained_policy",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in __all__:
        with needed_by(f"cody.baselines.{name}"):
            from cody.baselines import checkpoint, pgexplainer, tempme, train

        modules = (checkpoint, pgexplainer, tempme, train)
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module 'cody.baselines' has no attribute {name!r}")
