"""Explainers to compare with: they find the events that a prediction rests on, not those whose absence changes it.

Each is a policy and a search, as the others are:

    random sets      policies.random          top_share
    PBONE            policies.event_impact    top_share
    PGExplainer      pgexplainer              top_share
    T-GNNExplainer   pgexplainer              tgnnexplainer
"""

from cody.baselines.checkpoint import load_pgexplainer, load_scorer, pgexplainer, shipped_explainers, trained_policy
from cody.baselines.pgexplainer import Scorer, learned_order
from cody.baselines.tgnnexplainer import Explored, Level, explore, tgnnexplainer
from cody.baselines.train import Settings, train_explainer

__all__ = [
    "Explored",
    "Level",
    "Scorer",
    "Settings",
    "explore",
    "learned_order",
    "load_pgexplainer",
    "load_scorer",
    "pgexplainer",
    "shipped_explainers",
    "tgnnexplainer",
    "train_explainer",
    "trained_policy",
]
