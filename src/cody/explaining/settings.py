"""What the settings in a document describe, made once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.graph.dependants import RULES, WITHIN
from cody.graph.neighbourhood import ends_first
from cody.graph.protected import Protected
from cody.graph.units import EVENT, KINDS, named_kind
from cody.models.contract import Model, as_seen
from cody.search.near_units import NearUnits


def near_units(parameters: Mapping[str, Any], model: Model, graph: TemporalGraph, query: Query) -> NearUnits | None:
    """The units near a link that the settings of a document describe; None: they were made by a user's function.

    Args:
        parameters: The settings.
        model: The model that is explained.
        graph: The log of events.
        query: The link.
    """
    by, rule, settings = (parameters.get(name) or {} for name in ("by", "dependants", "candidates"))
    if not all(isinstance(each, dict) for each in (by, rule, settings)):
        raise CallError("its settings are not understood")
    if by.get("name", EVENT) not in KINDS or (rule and rule.get("name") not in RULES):
        return None
    kind = named_kind(by.get("name", EVENT), gap=by.get("gap"), ends=bool(by.get("ends")))
    chosen = RULES[rule["name"]](rule.get("within", WITHIN)) if rule else None
    protect = Protected.from_parameters(parameters.get("protect"))
    seen, hops = as_seen(model, graph, query), int(settings.get("hops") or 1)
    return NearUnits(graph, seen, hops, ends_first, protect and protect.at(query), kind, chosen)
