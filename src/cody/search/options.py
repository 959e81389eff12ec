"""How to search, and among what: the options of an explanation in one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cody.errors import CallError
from cody.graph import whole_number
from cody.graph.dependants import Rule
from cody.graph.neighbourhood import SIZE, Near, ends_first
from cody.graph.protected import Protected
from cody.graph.units import UnitKind
from cody.models.contract import Change, Model, identity_of, reach
from cody.search.oracle import Oracle
from cody.search.policies import Policy, spatio_temporal
from cody.search.proposals import Proposer, removals
from cody.search.result import Search
from cody.search.scout import scout
from cody.utils.signatures import readable_help
from cody.utils.words import zone_name

# Options that are whole numbers, and the least of each; None: whoever uses it says what is wrong with it.
WHOLE_NUMBERS = {"per_day": 1, "size": None, "hops": None, "count": 1, "prove": 1, "seed": 0, "evaluations": None}
USUAL_COUNT = 3  # counterfactuals that are reported where no number is given, as far as one search finds them


@readable_help
@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of `cody.explain`, where each of them is explained."""

    policy: Policy = spatio_temporal
    search: Search = scout
    size: int | None = None  # None: a few candidates, and more of them where nothing is found
    hops: int | None = None  # None: as far as the model looks
    near: Near = ends_first
    protect: Protected | None = None
    edits: tuple[Proposer, ...] = (removals,)
    by: UnitKind | None = None  # None: single events
    dependants: Rule | None = None  # None: what is removed takes nothing along
    count: int | None = None  # None: up to three, of those that one search finds
    prove: int = 1
    seed: int = 0
    evaluations: int | None = None  # None: what the search takes by itself
    seconds: float | None = None
    full_replay: bool = False
    per_day: int | None = None  # None: as many edits a day as one likes
    watch: Callable[[Oracle], None] | None = None
    across: tuple[Model, ...] = ()  # other models, whose decisions are to flip, too; they answer margins
    paid: frozenset[Change] = frozenset()  # sets that an earlier search has evaluated within the same budget

    @property
    def has_units(self) -> bool:
        """Whether several events may change together."""
        return self.by is not None or self.dependants is not None

    @property
    def reported(self) -> int:
        """How many counterfactuals are reported at most."""
        return USUAL_COUNT if self.count is None else self.count

    def checked(self, model: Model) -> SearchOptions:
        """The same in plain numbers, with the radius of the model where none is given; invalid values are rejected."""
        for name in ("policy", "search", "near"):
            if not callable(getattr(self, name)):
                example = "for example from cody.search.policies or cody.search"
                raise CallError(f"{name} must be a function, {example}, not {getattr(self, name)!r}")
        if self.protect is not None and not isinstance(self.protect, Protected):
            form = "cody.Protected(events=…, nodes=…, times=…, simultaneous=…)"
            raise CallError(f"protect must be {form}, not {self.protect!r}")
        if self.across and (self.edits != (removals,) or self.prove > 1):
            raise CallError("a search across models removes events and proves nothing: leave out edits and prove")
        if self.per_day is not None and (self.has_units or self.across):
            raise CallError("per_day counts single edits of one model's past: leave out by, dependants and robust")
        numbers: dict[str, Any] = {"hops": reach(model)}
        for name, least in WHOLE_NUMBERS.items():
            if (given := getattr(self, name)) is not None or name in ("prove", "seed"):
                numbers[name] = whole_number(name, given)
                if least is not None and numbers[name] < least:
                    raise CallError(f"{name} must be at least {least}, not {numbers[name]}")
        return replace(self, **numbers)

    def as_parameters(self) -> dict[str, Any]:
        """As plain data, as documents have it; functions by name, each with its own options."""
        size, near = SIZE if self.size is None else self.size, name_and_options(self.near)["name"]
        together = {"by": self.by, "dependants": self.dependants}
        given: dict[str, Any] = {name: given.as_parameters() for name, given in together.items() if given is not None}
        given |= {name: name_and_options(getattr(self, name)) for name in ("policy", "search")}
        given |= {
            "candidates": {"size": size, "hops": self.hops, "near": near},
            "edits": [name_and_options(propose)["name"] for propose in self.edits],
            "protect": None if self.protect is None else self.protect.as_parameters(),
        }
        given |= {name: getattr(self, name) for name in ("count", "prove", "evaluations")}
        given["seconds"] = None if self.seconds is None else float(self.seconds)
        given |= {"across": [identity_of(model) for model in self.across]} if self.across else {}
        return given | ({"per_day": {"most": self.per_day, "zone": zone_name()}} if self.per_day else {})


def name_and_options(function: Callable[..., Any]) -> dict[str, Any]:
    """The name of a function and its options."""
    inner = function.func if isinstance(function, partial) else function
    return {"name": getattr(inner, "__name__", type(inner).__name__)} | options_of(function)


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The options of a function as plain data: those that were given, and the defaults of the others."""
    inner, given = (function.func, function.keywords) if isinstance(function, partial) else (function, {})
    if not inspect.isfunction(inner):
        return {}
    options = inspect.signature(inner).parameters.values()
    values = {option.name: option.default for option in options if option.kind is option.KEYWORD_ONLY} | given
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
