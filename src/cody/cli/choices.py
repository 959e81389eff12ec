"""What can be chosen by name on the command line. Explainers and policies have their names from `cody.explainers`."""

from __future__ import annotations

from enum import StrEnum

from cody.explainers import DEFAULT_POLICY, FACTUAL, NEAR, POLICIES, SEARCHES


class Architecture(StrEnum):
    tgn = "tgn"
    tgat = "tgat"


class Engine(StrEnum):
    fast = "fast"
    replay = "replay"


class NearName(StrEnum):
    events = "events"
    nodes = "nodes"


class Replayed(StrEnum):
    window = "window"
    full = "full"


class Preset(StrEnum):
    paper = "paper"
    compact = "compact"


NEARBY = {name: NEAR[name.value] for name in NearName}

# How help lists them.
SEARCH_NAMES = ", ".join(SEARCHES)
FACTUAL_NAMES = ", ".join(entry.name for entry in FACTUAL)
POLICY_NAMES = ", ".join(f"{name} (default)" if name == DEFAULT_POLICY else name for name in POLICIES)
