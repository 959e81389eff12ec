"""What can be chosen by name on the command line: here names become functions."""

from __future__ import annotations

from enum import StrEnum

from cody import policies, search
from cody.candidates import events_among_nodes, events_on_paths
from cody.policies import Policy
from cody.search import Search


class Architecture(StrEnum):
    tgn = "tgn"
    tgat = "tgat"


class Engine(StrEnum):
    fast = "fast"
    replay = "replay"


class Explainer(StrEnum):
    cody = "cody"
    greedy = "greedy"
    greedy_then_cody = "greedy-then-cody"
    pgexplainer = "pgexplainer"
    tgnnexplainer = "tgnnexplainer"
    pbone = "pbone"
    random = "random"


class PolicyName(StrEnum):
    random = "random"
    temporal = "temporal"
    spatio_temporal = "spatio-temporal"
    event_impact = "event-impact"


class NearName(StrEnum):
    events = "events"
    nodes = "nodes"


class Replayed(StrEnum):
    window = "window"
    full = "full"


# Where names become functions.
SEARCHES: dict[Explainer, Search] = {
    Explainer.cody: search.cody,
    Explainer.greedy: search.greedy,
    Explainer.greedy_then_cody: search.greedy_then_cody,
}
POLICIES: dict[PolicyName, Policy] = {name: getattr(policies, name.name) for name in PolicyName}
NEARBY = {NearName.events: events_on_paths, NearName.nodes: events_among_nodes}


def baseline(explainer: Explainer, scorer: str, other_data: bool) -> tuple[Policy, Search]:
    """The policy and the search of a factual explainer. Some of them need torch, which takes a second to import."""
    if explainer is Explainer.random:
        return policies.random, search.top_share
    if explainer is Explainer.pbone:
        return policies.event_impact, search.top_share
    from cody.baselines import tgnnexplainer, trained_policy

    chosen = tgnnexplainer if explainer is Explainer.tgnnexplainer else search.top_share
    return trained_policy(scorer, other_data=other_data), chosen


CANDIDATES = {Explainer.tgnnexplainer: 30}  # its paper's number; 64 for all others


class Preset(StrEnum):
    paper = "paper"
    compact = "compact"
