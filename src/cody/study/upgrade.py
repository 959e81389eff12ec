"""Records and headers of earlier versions, in the current form. The names they used appear only here.

Schema 1 kept everything that an explainer was given, with the names of its two functions, as `parameters`, and called
the events of an explanation `removed`.
"""

from __future__ import annotations

from typing import Any

from cody.study.explainers import EXPLAINERS

FUNCTIONS = {  # former name: current name
    "spatio_temporal": "spatio-temporal",
    "event_impact": "event-impact",
    "greedy_then_cody": "greedy-then-cody",
    "top_share": "top-share",
}
UNKNOWN = "unknown"


def upgraded_record(old: dict[str, Any]) -> dict[str, Any]:
    """A record of schema 1 as one of schema 2."""
    kept = {name: value for name, value in old.items() if name not in ("removed", "parameters")}
    return kept | {"rows": old["removed"]} | upgraded_explainer(old["explainer"], old["parameters"])


def upgraded_explainer(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The search, policy and options of an explainer.

    >>> upgraded_explainer("mine", {"search": {"name": "cody", "alpha": 0.5}, "policy": {"name": "event_impact"}})
    {'search': 'cody', 'policy': 'event-impact', 'options': {'search': {'alpha': 0.5}, 'policy': {}}}
    """
    entry = EXPLAINERS.get(name)  # other programs may write records without names of functions
    search, policy = (name, UNKNOWN) if entry is None else entry.parts
    return {
        "search": _function(parameters, "search", search),
        "policy": _function(parameters, "policy", policy),
        "options": {
            part: {option: given for option, given in value.items() if option != "name"}
            if part in ("search", "policy") and isinstance(value, dict)
            else value
            for part, value in parameters.items()
        },
    }


def _function(parameters: dict[str, Any], part: str, default: str) -> str:
    value = parameters.get(part)
    name = value.get("name") if isinstance(value, dict) else None
    return FUNCTIONS.get(name, name) if isinstance(name, str) else default
