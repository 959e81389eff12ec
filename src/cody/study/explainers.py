"""The catalogue: every explainer that can be chosen by name, what it is made of, and how the paper calls it.

An explainer is a policy and a search. The names here are those of the command line and of records; nobody else knows
any of them. Explainers of your own need no entry: `Explainer("mine", my_policy, my_search)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from cody import search
from cody.baselines import tgnnexplainer
from cody.errors import CallError, did_you_mean
from cody.explaining.explanation import Explanation
from cody.explaining.pipeline import explain
from cody.graph import Query, TemporalGraph, whole_number
from cody.graph.dependants import Rule
from cody.graph.neighbourhood import SIZE, Near, ends_first, events_among_nodes, events_on_paths
from cody.graph.protected import Protected
from cody.graph.units import UnitKind
from cody.models.contract import Model, reach
from cody.models.decided import LINK_PREDICTED, decision_of
from cody.models.decision import Decision
from cody.search import Search, attributions, policies
from cody.search.options import name_and_options, options_of
from cody.search.policies import Policy
from cody.search.proposals import Proposer, additions, alterations, check_proposers, moves, removals
from cody.study.own_function import OwnSearch, is_own, own_search
from cody.utils.signatures import readable_help


@readable_help
@dataclass(frozen=True, slots=True)
class Explainer:
    """A policy and a search under a name, and what they may change. Workers need functions that can be pickled."""

    name: str
    policy: Policy
    search: Search
    size: int | None = None  # candidates; None: 64, and more of them where nothing is found
    hops: int | None = None  # None: as far as the model looks
    near: Near = ends_first
    evaluations: int | None = None  # a budget
    edits: tuple[Proposer, ...] = (removals,)  # what could have been different
    protect: Protected | None = None  # events that may not be removed
    by: UnitKind | None = None  # what changes together; None: single events
    dependants: Rule | None = None  # what goes along with removed events
    learned: bool = False  # its policy was trained on predicted links, so it knows no other decision

    def __post_init__(self) -> None:
        object.__setattr__(self, "edits", check_proposers(self.edits))
        if not isinstance(self.name, str):
            raise CallError(f"the name of an explainer is text, not {self.name!r}")
        for name in ("size", "hops", "evaluations"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, number := whole_number(name, given))
                if number < 1:
                    raise CallError(f"{name} of {self.name!r} must be at least 1, not {number}")

    def check(self, decision: Decision | None) -> None:
        """Reject a decision that this explainer does not support; None: the predicted one of several labels."""
        if self.learned:
            check_learned(self.name, decision)

    def explain(self, model: Model, graph: TemporalGraph, query: Query, **others: Any) -> Explanation:
        """The explanation of a link by this explainer.

        Args:
            model: The model that is explained.
            graph: The log of events.
            query: The link that is scored.
            **others: Further options of `cody.explain`.
        """
        if self.learned:
            self.check(decision_of(model, query, others.get("decision")))
        chosen = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("name", "learned")}
        if isinstance(self.search, OwnSearch):
            chosen["search"] = self.search.on(graph, others.get("seed", 0))
        return explain(model, graph, query, **chosen | others)

    def options(self, model: Model) -> dict[str, Any]:
        """All that it is given, as plain data, apart from the names of policy and search."""
        hops = reach(model) if self.hops is None else self.hops
        near = getattr(self.near, "__name__", type(self.near).__name__)
        given: dict[str, Any] = {
            "policy": options_of(self.policy),
            "search": options_of(self.search),
            "candidates": {"size": self.size, "hops": hops, "near": near},
            "evaluations": self.evaluations,
            "edits": [name_and_options(propose)["name"] for propose in self.edits],
        }
        together = {"by": self.by, "dependants": self.dependants}
        given |= {name: chosen.as_parameters() for name, chosen in together.items() if chosen is not None}
        if self.protect is not None:
            given["protect"] = {name: value for name, value in self.protect.as_parameters().items() if value}
        return given


def name_of(function: Callable[..., Any]) -> str:
    """What records call a policy or a search: ours as on the command line, others with their module.

    >>> name_of(policies.spatio_temporal), name_of(partial(search.cody, iterations=9)), name_of(sorted)
    ('spatio-temporal', 'cody', 'builtins.sorted')
    """
    inner = function.func if isinstance(function, partial) else function
    named: Any = inner if hasattr(inner, "__qualname__") else type(inner)
    if named.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return str(named.__name__).replace("_", "-")
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True, slots=True)
class Entry:
    """An explainer of the catalogue."""

    name: str  # on the command line and in records
    title: str  # as the paper writes it, without the policy where that can be chosen
    search: Search
    policy: Policy | None  # None: it is learned
    learned: str = ""  # name of a policy that is learned, so that a scorer must have been trained for the model
    factual: bool = False  # names what speaks for a decision, whether or not it changes without that
    size: int | None = SIZE  # candidates; None: 64, and more of them where nothing is found
    paper: Mapping[str, float] = field(default_factory=dict)  # options of the search that the paper chose

    @property
    def needs_scorer(self) -> bool:
        return self.policy is None

    @property
    def parts(self) -> tuple[str, str]:
        """What records call its search and its policy."""
        return name_of(self.search), self.learned if self.policy is None else name_of(self.policy)

    @property
    def options(self) -> dict[str, Any]:
        """The options of its search, with their defaults."""
        return options_of(self.search)


# In the paper's order; its policies are the first four, and of the factual ones its are the last two but one.
ORDERS = (policies.random, policies.temporal, policies.spatio_temporal, policies.event_impact, policies.flow)
POLICIES: dict[str, Policy] = {name_of(policy): policy for policy in ORDERS}
SEARCHES: dict[str, tuple[str, Search, Mapping[str, float]]] = {  # with any policy; title, function, paper's options
    "scout": ("Scout", search.scout, {}),
    "greedy": ("GreeDy", search.greedy, {}),
    "cody": ("CoDy", search.cody, {"iterations": 300, "alpha": 2 / 3}),
    "greedy-then-cody": ("GreeDy, then CoDy", search.greedy_then_cody, {"iterations": 300, "alpha": 2 / 3}),
}
_factual = partial(Entry, factual=True)
FACTUAL = (
    _factual("random", "random sets", search.top_share, policies.random),
    _factual("pbone", "PBONE", search.top_share, policies.event_impact),
    _factual("tempme", "TempME", search.top_share, None, "tempme"),
    _factual("pgexplainer", "PGExplainer", search.top_share, None, "pgexplainer"),
    _factual("tgnnexplainer", "T-GNNExplainer", tgnnexplainer, None, "pgexplainer", size=30, paper={"rollouts": 500}),
    _factual("sufficient", "smallest sufficient sets", search.sufficient, policies.spatio_temporal),
)
RANKINGS = (
    _factual("shapley", "Shapley values", search.top_share, attributions.shapley),
    _factual("owen", "Owen values", search.top_share, attributions.owen),
    _factual("occlusion", "occlusion by pair", search.top_share, attributions.occlusion),
)
PREFIXES = tuple(
    Entry(f"{entry.name}-prefix", f"{entry.title}, shortest prefix", search.shortest_prefix, entry.policy)
    for entry in (*FACTUAL[:2], *RANKINGS)
)
SEARCHING = tuple(
    Entry(f"{name}-{policy}", title, function, order, size=None, paper=paper)
    for name, (title, function, paper) in SEARCHES.items()
    for policy, order in POLICIES.items()
)
# In the order of tables:
EXPLAINERS: dict[str, Entry] = {entry.name: entry for entry in (*FACTUAL, *RANKINGS, *PREFIXES, *SEARCHING)}
TRAINED = ("pgexplainer", "tempme")  # what `cody train-explainer` can train; the first by default
EDITS: dict[str, Proposer] = {"remove": removals, "add": additions, "move": moves, "alter": alterations}
WHY_NOT = ("remove", "add", "move")  # what could change where the question is why a link is not predicted
# Which events are candidates: the default, and the two readings of "near a link" that the paper has.
NEAR: dict[str, Near] = {"ends": ends_first, "events": events_on_paths, "nodes": events_among_nodes}

SPARSITIES = tuple(0.01 + 0.29 * level / 15 for level in range(16))  # 0.01 to 0.30: where TempME's paper measures

DEFAULT_SEARCH, DEFAULT_POLICY = "scout", "spatio-temporal"
COMPARED = ("cody-spatio-temporal", "greedy-spatio-temporal")  # by `cody evaluate` unless others are named
BENCHMARKED = (  # by `cody benchmark` unless others are named
    *("scout", "cody", "shapley-prefix", "owen-prefix", "greedy", "greedy-event-impact", "pbone-prefix"),
    *("random-prefix", "sufficient", "shapley", "owen", "occlusion", "pbone", "random"),
)

_BY_PARTS = {entry.parts: entry for entry in EXPLAINERS.values()}


def known(search: str, policy: str) -> Entry | None:
    """The entry that consists of a search and a policy, as records name them."""
    return _BY_PARTS.get((search, policy))


def find(name: str, policy: str | None = None) -> Entry:
    """The entry of that name. A search by itself takes a policy: by default the nearest events first.

    `module:function` is an explainer of the user's (`cody.study.own_function`).

    >>> find("cody").name, find("cody", "temporal").name, find("cody-temporal").name, find("pbone").name
    ('cody-spatio-temporal', 'cody-temporal', 'cody-temporal', 'pbone')
    """
    if is_own(name):
        own = own_search(name)
        return Entry(name, name, own, policies.spatio_temporal, factual=own.factual)
    if name not in SEARCHES and name not in EXPLAINERS:
        raise CallError(f"there is no explainer {name!r}{did_you_mean(name, [*EXPLAINERS, *SEARCHES])}")
    if name in EXPLAINERS:
        if policy is not None:
            raise CallError(_no_option("policy", name))
        return EXPLAINERS[name]
    entry = known(name, DEFAULT_POLICY if policy is None else policy)
    if entry is None:
        raise CallError(f"there is no policy {policy!r}{did_you_mean(str(policy), POLICIES)}")
    return entry


@readable_help
def explainer(
    name: str,
    *,
    policy: str | None = None,
    scorer: str | Path | None = None,
    allow_data_mismatch: bool = False,
    size: int | None = None,
    hops: int | None = None,
    near: Near = ends_first,
    evaluations: int | None = None,
    edits: tuple[Proposer, ...] = (removals,),
    protect: Protected | None = None,
    by: UnitKind | None = None,
    dependants: Rule | None = None,
    **options: Any,
) -> Explainer:
    """The explainer of that name.

    Args:
        name: A name from `cody explain --explainer`.
        policy: The policy that orders the candidates; by default, the explainer's own or spatio-temporal.
        scorer: For PGExplainer, T-GNNExplainer and TempME: the folder that `cody train-explainer` wrote, or the name of
            the shipped model it belongs to.
        allow_data_mismatch: Accept data other than those the weights were trained on.
        size: Number of candidates.
        hops: Neighbourhood radius; by default, that of the model.
        near: How candidates are chosen.
        evaluations: Budget of model evaluations.
        edits: Which kinds of edits may be made.
        protect: Events that may not be changed.
        by: What changes together (`cody.graph.units`); by default, single events.
        dependants: What goes along with removed events (`cody.graph.dependants`); by default, nothing.
        **options: Options of the search.

    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> tree = explainer("cody", policy="temporal", iterations=100)
    >>> tree.explain(ToyModel(graph, weights=[1, 2, -1, 0]), graph, graph.query(3)).rows
    (1,)
    """
    chosen = {"policy": policy, "scorer": scorer}
    check_options(name, [*options, *(option for option, value in chosen.items() if value is not None)])
    entry = find(name, policy)
    if (isinstance(entry.search, OwnSearch) or entry.factual) and edits != (removals,):
        what = "is a function of rows" if isinstance(entry.search, OwnSearch) else "names events that happened"
        raise CallError(f"the explainer {name!r} {what}: it supports removals only, and no other edits")
    ordering = _policy(entry, scorer, allow_data_mismatch)
    searching = partial(entry.search, **options) if options else entry.search
    given = entry.size if size is None else size, hops, near, evaluations, edits, protect, by, dependants
    return Explainer(entry.name, ordering, searching, *given, learned=entry.needs_scorer)


def at_sparsities(
    name: str, sparsities: Iterable[float] = SPARSITIES, *, scorer: str | Path | None = None
) -> tuple[Explainer, ...]:
    """An explainer that ranks events, once per share of them that it names. The default is TempME's protocol.

    Args:
        name: An explainer that ranks events.
        sparsities: The shares.
        scorer: Folder of the trained scorer, or the name of the shipped model it belongs to.

    >>> [one.name for one in at_sparsities("pbone", [0.1, 0.2])]
    ['pbone at 0.100', 'pbone at 0.200']
    """
    made = ((share, explainer(name, scorer=scorer, sparsity=share)) for share in sparsities)
    return tuple(replace(one, name=f"{one.name} at {share:.3f}") for share, one in made)


def find_edits(names: Iterable[str]) -> tuple[Proposer, ...]:
    """The functions that propose edits of these kinds.

    >>> [function.__name__ for function in find_edits(["add", "remove"])]
    ['additions', 'removals']
    """
    chosen = list(dict.fromkeys(names))
    wrong = [f"there is no kind of edit {name!r}" for name in chosen if name not in EDITS]
    if wrong or not chosen:
        raise CallError(f"{wrong[0] if wrong else 'no kind of edit is named'}; there are {', '.join(EDITS)}")
    return tuple(EDITS[name] for name in chosen)


def check_options(name: str, given: Iterable[str], spelled: Callable[[str], str] = str) -> None:
    """Raise a CallError for options that an explainer does not have.

    Args:
        name: The explainer.
        given: Names of the options.
        spelled: How the caller writes an option, for the message.
    """
    entry = find(name)
    more = {"policy": name in SEARCHES, "scorer": entry.needs_scorer}
    for option in given:
        if not (option in entry.options or more.get(option)):
            raise CallError(_no_option(option, name, spelled))


def _no_option(option: str, name: str, spelled: Callable[[str], str] = str) -> str:
    why = {"policy": ": it has an order of its own", "scorer": ": it learns nothing"}
    why["iterations"] = f"; its budget is {spelled('evaluations')}"
    return f"the explainer {name!r} has no option {spelled(option)}{why.get(option, '')}"


def check_learned(name: str, decision: Decision | None) -> None:
    """Reject a decision that an explainer does not support because it was trained for another one.

    Args:
        name: Of an explainer that is trained.
        decision: What is decided; None: the predicted one of several labels.
    """
    if decision != LINK_PREDICTED:
        learned = ", ".join(entry.name for entry in FACTUAL if entry.needs_scorer)
        raise CallError(
            f"the explainer {name!r} supports only whether a link is predicted (threshold 0.5), since it is trained on "
            f"gradients of that decision; this holds for {learned}, and every other explainer supports all decisions"
        )


def _policy(entry: Entry, scorer: str | Path | None, allow_data_mismatch: bool) -> Policy:
    if entry.policy is not None:
        return entry.policy
    if scorer is None:
        raise CallError(
            f"the explainer {entry.name!r} needs a scorer that was trained for the model: the folder that "
            "cody train-explainer writes, or the name of a shipped model"
        )
    from cody.baselines import trained_policy  # torch takes a second to import

    return trained_policy(entry.learned, scorer, allow_data_mismatch=allow_data_mismatch)
