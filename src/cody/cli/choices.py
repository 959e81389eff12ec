"""What can be chosen by name on the command line. Names of explainers and policies: `cody.study.explainers`."""

from __future__ import annotations

from enum import StrEnum

from cody.errors import CallError
from cody.search.proposals import Proposer
from cody.study.explainers import DEFAULT_POLICY, EDITS, FACTUAL, NEAR, POLICIES, SEARCHES, TRAINED, find_edits


class ArchitectureName(StrEnum):
    tgn = "tgn"
    tgat = "tgat"


class Engine(StrEnum):
    fast = "fast"
    replay = "replay"


class NearName(StrEnum):
    ends = "ends"
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
TRAINED_NAMES = ", ".join(TRAINED)
POLICY_NAMES = ", ".join(f"{name} (default)" if name == DEFAULT_POLICY else name for name in POLICIES)
EDIT_NAMES = ", ".join(EDITS)
DEFAULT_EDITS, WHY_NOT = "remove", ",".join(EDITS)


def parse_edits(text: str) -> tuple[Proposer, ...]:
    """What `--allow` names."""
    try:
        return find_edits(name.strip() for name in text.split(",") if name.strip())
    except CallError as error:
        raise CallError(f"--allow {text!r}: {error}") from None
