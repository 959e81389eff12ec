"""Causes that many predictions share: the few events, pairs, nodes or days without which most of them flip.

The set is found greedily: what is added next is what makes most further predictions flip. That is not always the
fewest, and it says so; but what is said about each set is computed from all predictions, by the reference
implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from cody._version import __version__
from cody.errors import CallError
from cody.explaining.explanation import Explanation
from cody.explaining.verification import counterfactuals_of, reference_logit
from cody.graph import TemporalGraph
from cody.graph.units import Label, UnitKind
from cody.models.contract import NOTHING, Change, Model, check_belongs, identity_of
from cody.models.decided import decide
from cody.models.margins import flips
from cody.search.result import distinct
from cody.study.link_margins import margins_without
from cody.study.metrics import grouped
from cody.utils.forms import Count, Document, Form
from cody.utils.signatures import readable_help
from cody.utils.tables import TextTable
from cody.utils.words import count, sanitize

SCHEMA = "cody/causes/1"
MOST = 10  # causes
TRIED = 12  # possible causes that are evaluated at each step, those first that explain most
SETS = 20  # known counterfactuals of a prediction that possible causes are taken from

Watch = Callable[[int], None]  # how many sets were evaluated on all predictions


class SharedCause(Form, frozen=True):
    """One of the causes, in the order in which they were found."""

    name: str
    events: Annotated[Count, Meta(description="that it consists of, before the last prediction")]
    flips: Annotated[Count, Meta(description="predictions that flip without it and those before it, verified")]
    more: Annotated[int, Meta(description="how many more these are than without it")]
    own: Annotated[Count, Meta(description="of those that flip, links of one of its own nodes")]
    rows: Annotated[tuple[Count, ...], Meta(description="its events")]


class SharedCauses(Document, frozen=True, tag_field="schema", tag=SCHEMA):
    """Without what most of these predictions flip."""

    kind = "a document of shared causes"
    version: str
    data: Annotated[str, Meta(description="identity")]
    model: Annotated[str, Meta(description="identity")]
    thing: Annotated[str, Meta(description="what one cause is")]
    predictions: Count
    explained: Annotated[Count, Meta(description="those with a counterfactual of their own")]
    possible: Annotated[Count, Meta(description="causes that occur in counterfactuals")]
    evaluated: Annotated[Count, Meta(description="sets of causes that were evaluated on all predictions")]
    causes: tuple[SharedCause, ...]
    replays: Annotated[Count, Meta(description="predictions that the reference implementation computed")] = 0

    @property
    def flips(self) -> int:
        """How many predictions flip without all of the causes."""
        return self.causes[-1].flips if self.causes else 0

    @property
    def sentence(self) -> str:
        """The finding: without the first of them, and without how many most predictions flip."""
        if not self.causes:
            return f"No {self.thing} flips any of {count(self.predictions, 'prediction')}."
        first, further = self.causes[0], ""
        half = [number for number, cause in enumerate(self.causes, start=1) if 2 * cause.flips > self.predictions]
        number = half[0] if half else len(self.causes)
        if number > 1:
            flip = f"{self.causes[number - 1].flips:,} flip" if first.flips else self._flip(self.causes[number - 1])
            most = ", most of them" if half and self.predictions > 1 else ""
            further = f"Without {count(number, self.thing)}, {flip}{most}."
        single = f"Without {sanitize(first.name, 60)}, {self._flip(first)}." if first.flips else ""
        return f"{single} {further}".strip()

    def _flip(self, cause: SharedCause) -> str:
        """How many predictions flip."""
        if self.predictions == 1:
            return "the 1 prediction flips"
        return f"{cause.flips:,} of {self.predictions:,} predictions {'flips' if cause.flips == 1 else 'flip'}"

    def notes(self) -> list[str]:
        """How they were found, and what is known about them."""
        alone = f"{self.explained:,} of {count(self.predictions, 'prediction')} had a counterfactual of their own."
        greedy = (
            f"Found greedily among {count(self.possible, self.thing)} of their counterfactuals: each is the one "
            "without which the most further predictions flip, or come closest to it. A smaller set may exist."
        )
        verified = f"Each set was verified on all predictions ({count(self.replays, 'replay')})."
        return [greedy, verified, alone] if self.causes else [alone]

    def table(self) -> TextTable:
        """A row for each cause: without it and those above."""
        rows = TextTable("without", "events", "flip", "more", "its own links", whole=[0])
        for number, cause in enumerate(self.causes):
            name = f"{'and ' if number else ''}{sanitize(cause.name, 60)}"
            share = f"{cause.flips:,} ({100 * cause.flips / self.predictions:.0f} %)"
            rows.add_row(name, f"{cause.events:,}", share, f"{cause.more:+,}", f"{cause.own:,}")
        return rows

    def rows(self) -> list[dict[str, Any]]:
        """One row for each cause, for csv; the number is its place in the curve."""
        columns = ("name", "events", "flips", "more", "own")
        numbered = enumerate(self.causes, start=1)
        return [{"number": number} | {name: getattr(cause, name) for name in columns} for number, cause in numbered]

    def to_html(self) -> str:
        """A page that shows all of it, one self-contained file."""
        from cody.web.causes_page import causes_page  # whoever wants no page need not wait for it

        return causes_page(self)

    def __str__(self) -> str:
        listed = [f"  {number}. {cause.name}: {cause.flips:,}" for number, cause in enumerate(self.causes, start=1)]
        return "\n".join([self.sentence, *listed, *self.notes()])


@readable_help
def shared_causes(
    explanations: Iterable[Explanation],
    model: Model,
    graph: TemporalGraph,
    *,
    by: UnitKind | None = None,
    most: int = MOST,
    tried: int = TRIED,
    watch: Watch | None = None,
) -> SharedCauses:
    """Without which few events, pairs, nodes or days do most of these predictions flip?

    Args:
        explanations: Of many predictions by one model, such as those of a survey.
        model: That model.
        graph: The log of events.
        by: What one cause is: `pair`, `node` or `day` of `cody.graph.units`. By default, single events.
        most: Number of causes.
        tried: Number of possible causes that are evaluated for each place.
        watch: Called with the number of sets evaluated so far.

    >>> from cody.explaining.pipeline import explain
    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> model = ToyModel(graph, weights=[1, 2, -1, 0])
    >>> print(shared_causes([explain(model, graph, graph.query(3))], model, graph).sentence)
    Without event 1 (0 → 2), the 1 prediction flips.
    """
    for name, number in (("most", most), ("tried", tried)):
        if number < 1:
            raise CallError(f"{name} must be at least 1, not {number}")
    whys = _checked(explanations, model, graph)
    known = [_known_sets(why, graph.num_events) for why in whys]
    possible = _possible(whys, known, graph, by)
    found = _GreedyCauses(model, graph, whys, known, possible, tried, watch)
    found.search(most)
    return SharedCauses(
        version=__version__,
        data=graph.identity,
        model=identity_of(model),
        thing=graph.name_of_event() if by is None else by.noun(graph),
        predictions=len(whys),
        explained=sum(why.is_counterfactual for why in whys),
        possible=len(possible),
        evaluated=found.evaluated,
        causes=tuple(found.causes),
        replays=found.replays,
    )


def _checked(explanations: Iterable[Explanation], model: Model, graph: TemporalGraph) -> list[Explanation]:
    """The explanations in the order of time, each prediction once; those of other data or models are rejected."""
    check_belongs(model, graph)
    whys = {(why.query, str(why.decision)): why for why in explanations}
    if not whys:
        raise CallError("there are no explanations, so there is nothing that they could share")
    for what, ours in (("data", graph.identity), ("model", identity_of(model))):
        for why in whys.values():
            if getattr(why, what) != ours:
                raise CallError(f"an explanation is about the {what} {getattr(why, what)}, and these are {ours}")
    return sorted(whys.values(), key=lambda why: (why.query.before, why.query))


def _known_sets(why: Explanation, num_events: int) -> list[Change]:
    """What is known to flip a prediction by removals alone: the answer, its alternatives, and others, small first."""
    sets = [*counterfactuals_of(why)]
    if not why.factual:
        sets += [why.change_of(change) for change in distinct(change for change, _ in why.counterfactuals)]
    removals = (change for change in sets if change and max(change) < num_events)
    return list(dict.fromkeys(removals))[:SETS]


class PossibleCause(NamedTuple):
    """Events that could be a cause together."""

    name: str
    rows: Change
    nodes: frozenset[int]  # that it is about; empty: of a day


def _possible(
    whys: Sequence[Explanation], known: Sequence[Sequence[Change]], graph: TemporalGraph, by: UnitKind | None
) -> list[PossibleCause]:
    """What occurs in the counterfactuals, with all its events before the last prediction."""
    if by is None:
        every = sorted(frozenset[int]().union(*(change for sets in known for change in sets)))
        return [PossibleCause(_event_in_words(graph, row), frozenset([row]), _nodes_of(graph, [row])) for row in every]
    labels: dict[Label, None] = {}
    for why, sets in zip(whys, known, strict=True):
        rows = np.array(sorted(frozenset[int]().union(*sets)), dtype=np.int64)
        labels.update(dict.fromkeys(label for some in by.labels(graph, why.query, rows) for label in some))
    units = by.units(graph, max(why.query.before for why in whys), list(labels))
    return [PossibleCause(unit.name, unit.change, _nodes_of(graph, unit.rows.tolist())) for unit in units]


def _event_in_words(graph: TemporalGraph, row: int) -> str:
    src, dst = (sanitize(graph.name(int(ends[row])), 24) for ends in (graph.src, graph.dst))
    return f"{graph.name_of_event()} {row} ({src} → {dst})"


def _nodes_of(graph: TemporalGraph, rows: Sequence[int]) -> frozenset[int]:
    """The nodes that all of these events have in common."""
    ends = [frozenset((int(graph.src[row]), int(graph.dst[row]))) for row in rows]
    return frozenset.intersection(*ends) if ends else frozenset()


@dataclass
class _GreedyCauses:
    """Greedy: what is added next is what makes most further predictions flip."""

    model: Model
    graph: TemporalGraph
    whys: Sequence[Explanation]
    known: Sequence[Sequence[Change]]  # of each prediction, sets that flip it
    possible: Sequence[PossibleCause]
    tried: int
    watch: Watch | None
    causes: list[SharedCause] = field(default_factory=list)
    evaluated: int = 0
    replays: int = 0

    def search(self, most: int) -> None:
        """Add causes as long as more predictions flip, or come closer to it; then drop what turned out useless."""
        gone, left = NOTHING, list(self.possible)
        flipped = frozenset[int]()
        while left and len(self.causes) < most and len(flipped) < len(self.whys):
            ranked = sorted(left, key=lambda cause: (-self.explains(gone, cause.rows), cause.name))[: self.tried]
            tries = [(self.flipping(gone | cause.rows), cause) for cause in ranked]
            _, best = max(tries, key=lambda pair: (len(pair[0]), self.explains(gone, pair[1].rows)))
            verified = self.verified(gone | best.rows)
            comes_closer = len(verified) == len(flipped) and self.explains(gone, best.rows) > 0
            if len(verified) <= len(flipped) and not comes_closer:
                break
            own = sum(bool(best.nodes & {*self.whys[place].query[:2]}) for place in verified)
            counts = len(best.rows), len(verified), len(verified) - len(flipped), own
            self.causes.append(SharedCause(best.name, *counts, tuple(sorted(best.rows))))
            gone, flipped = gone | best.rows, verified
            left.remove(best)
        while self.causes and self.causes[-1].more <= 0:
            self.causes.pop()

    def explains(self, gone: Change, rows: Change) -> float:
        """How far a cause completes counterfactuals that the documents know, besides what is gone already."""
        total = 0.0
        for sets in self.known:
            before = max((len(some & gone) / len(some) for some in sets), default=1.0)
            if before < 1:
                after = max(len(some & (gone | rows)) / len(some) for some in sets)
                total += 1.0 if after == 1 else 0.5 * (after - before)
        return total

    def flipping(self, gone: Change) -> frozenset[int]:
        """Which predictions flip without these events, by the engine."""
        flipped: set[int] = set()
        by_decision = grouped(range(len(self.whys)), lambda place: self.whys[place].decision.of_any_link())
        for decision, places in by_decision.items():
            queries = [self.whys[place].query for place in places]
            margins = margins_without(self.model, self.graph, queries, gone, decision)
            pairs = zip(places, margins.original.tolist(), margins.without.tolist(), strict=True)
            flipped |= {place for place, before, after in pairs if before == before and flips(before, after)}
        self.evaluated += 1
        if self.watch is not None:
            self.watch(self.evaluated)
        return frozenset(flipped)

    def verified(self, gone: Change) -> frozenset[int]:
        """Which predictions flip, by the reference implementation: of all that these events can reach."""
        flipped = set()
        for place, why in enumerate(self.whys):
            change = frozenset(row for row in gone if row < why.query.before)
            if change:
                decided = decide(self.model, self.graph, why.query, why.decision)
                self.replays += 1
                if flips(why.original, reference_logit(decided, why.query, change, full=False)[0]):
                    flipped.add(place)
        return frozenset(flipped)
