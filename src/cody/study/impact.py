"""Impact: which later predictions would be other ones, had some events not happened.

The inverse of an explanation: one change of the log, and all links after it. What the change cannot reach is not
computed (`cody.models.contract.links_without`); what flips is verified by the reference implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta
from msgspec.structs import asdict

from cody._version import __version__
from cody.errors import CallError
from cody.explaining.verification import verify_change
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph, check_query, whole_number
from cody.graph.dependants import Rule, as_rule
from cody.graph.dependants import dependants as dependants_of
from cody.graph.neighbourhood import hops_from
from cody.graph.units import NONE, Unit
from cody.models.contract import DECIMALS, Change, Model, check_changes, check_is_model, identity_of
from cody.models.decided import decide, decision_of, subject_of_decision
from cody.models.deciding import ByLabel, described
from cody.models.decision import Decision
from cody.models.margins import flips
from cody.models.predictions import PERIOD, Watch, rows_between
from cody.study import impact_words
from cody.study.link_margins import LinkMargins, margins_without
from cody.study.report import age_bins
from cody.utils.forms import Count, Document, Form
from cody.utils.frames import frame_of_kind
from cody.utils.signatures import readable_help
from cody.utils.words import ROUND_DURATIONS, count, enumerated, is_date

SCHEMA = "cody/impact/1"
MOST_TIMES = 16
VERIFIED = 20  # flips that are verified unless another number is given
INCOMPARABLE = "links left out because the decision would compare them with themselves, or has too few rivals"
ON_THE_LINE = 2e-5  # a margin this close to 0 is verified in any case: rounding could decide it


class RemovedEvents(Form, frozen=True):
    """The events that did not happen."""

    name: Annotated[str, Meta(description="what they are, in words")]
    rows: tuple[Count, ...]
    first: Annotated[float, Meta(description="time of the first of them")]
    last: float


class MovedLink(Form, frozen=True):
    """A link whose score changes without the events."""

    event: Annotated[Count | None, Meta(description="its row, if it is an event of the log")]
    src: str
    dst: str
    time: float
    since: Annotated[float, Meta(description="time since the latest of the removed events before it")]
    hops: Annotated[Count | None, Meta(description="events between it and the nearest removed one; null: no path")]
    original: Annotated[float, Meta(description="margin with nothing changed; above 0, the decision is positive")]
    without: Annotated[float, Meta(description="margin without the events")]
    score: Annotated[float | None, Meta(description="with nothing changed; null: it is no probability")]
    score_without: float | None
    moved: Annotated[float, Meta(description="by how much the probability changes, or else the margin")]
    flips: bool
    outcome: Annotated[str, Meta(description="what is decided without the events")]
    verified: Annotated[str | None, Meta(description="how the reference confirmed it; null: it was not used")] = None


class TimeBin(Form, frozen=True):
    """Links by the time since the events."""

    name: str
    links: Count
    moved: Annotated[float, Meta(description="mean over these links of how far the score moves")]
    flips: Count


class HopBin(Form, frozen=True):
    """Links by their distance from the events."""

    hops: Count | None  # None: not connected, or further than is counted
    links: Count
    moved: float
    flips: Count


class Impact(Document, frozen=True, tag_field="schema", tag=SCHEMA):
    """Which predictions would be other ones without some events: how far, how long, and at what distance."""

    kind = "an impact"
    version: str
    model: Annotated[str, Meta(description="identity")]
    data: Annotated[str, Meta(description="identity")]
    removed: RemovedEvents
    decision: dict[str, Any]
    links: Annotated[Count, Meta(description="that were looked at")]
    reached: Annotated[Count, Meta(description="links whose score can change at all; only these were computed")]
    first: Annotated[float, Meta(description="time of the first link")]
    last: float
    moves: Annotated[tuple[MovedLink, ...], Meta(description="flips first, then by how far the score moves")]
    by_time: tuple[TimeBin, ...]
    by_hops: tuple[HopBin, ...]
    half_within: Annotated[float | None, Meta(description="time within which half of all movement lies")]
    most_within: Annotated[float | None, Meta(description="the same for nine tenths")]
    own: Annotated[Count, Meta(description="links left out because they are removed themselves")] = 0
    incomparable: Annotated[Count, Meta(description=INCOMPARABLE)] = 0
    called: Annotated[
        str, Meta(description="what is predicted: a link, or something about an event, as the data call it")
    ] = "link"
    thing: Annotated[str, Meta(description="what the data call an event")] = "event"

    @property
    def flips(self) -> tuple[MovedLink, ...]:
        """The links that would be decided differently."""
        return tuple(each for each in self.moves if each.flips)

    @property
    def moved_links(self) -> int:
        """How many scores change."""
        return len(self.moves)

    @property
    def furthest(self) -> float:
        """By how much a score changes at most."""
        return max((each.moved for each in self.moves), default=0.0)

    @property
    def verified(self) -> int:
        """How many flips the reference implementation has confirmed: those that move furthest."""
        return sum(each.verified is not None for each in self.flips)

    @property
    def sentence(self) -> str:
        """The finding in a sentence."""
        return impact_words.sentence(self)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each link that moves, for csv."""
        return [asdict(each) for each in self.moves]

    def to_frame(self, kind: str = "pandas") -> Any:
        """A table of the links that move; times that are dates are readable ones, in UTC.

        Args:
            kind: "pandas", "polars" or "arrow".
        """
        import pandas

        frame = pandas.DataFrame(self.rows(), columns=list(MovedLink.__struct_fields__))
        if self.moves and all(is_date(each.time) for each in self.moves):
            frame["time"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
        return frame_of_kind(frame, kind)

    def to_html(self) -> str:
        """A page that shows all of it, one self-contained file."""
        from cody.web.impact_page import impact_page  # whoever wants no page need not wait for it

        return impact_page(self)

    def __str__(self) -> str:
        return impact_words.text(self)


@readable_help
def impact(
    model: Model,
    graph: TemporalGraph,
    removed: int | Iterable[int] | Unit,
    links: Iterable[int | Query] | None = None,
    *,
    decision: Decision | ByLabel | None = None,
    dependants: Rule | Callable[[TemporalGraph, int], Iterable[int]] | None = None,
    verify: int = VERIFIED,
    watch: Watch | None = None,
) -> Impact:
    """Which later predictions would be other ones, had some events not happened.

    Args:
        model: The model.
        graph: The log of events.
        removed: The events: a row, several rows, or a unit such as `cody.graph.units.find_unit(graph, node, "105")`.
        links: Rows of events, and queries (`graph.link`). By default, the events of the last 15 % of the log. Those
            before the first removed event cannot change; those that are removed themselves are left out, and those
            whose destination is what the decision compares with.
        decision: As in `cody.explain`.
        dependants: Which later events go along with the removed ones, as in `cody.explain`. By default, none.
        verify: Number of flips to verify by the reference implementation, those that move furthest first.
        watch: Called with the number of links done so far and in total.

    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    >>> found = impact(ToyModel(graph, weights=[1, 2, -1, 0]), graph, 1, links=[2, 3])
    >>> [(each.event, each.flips) for each in found.moves]
    [(3, True), (2, False)]
    """
    check_is_model(model)
    unit = _with_dependants(graph, _unit(graph, removed), as_rule(dependants))
    (change,) = check_changes(graph, [unit.rows.tolist()])
    later = _comparable(_later_links(graph, unit, links), graph, decision)
    margins = margins_without(model, graph, later.queries, change, decision, watch)
    since, hops = _since(graph, unit.rows, later.queries), hops_from(graph, unit.rows, later.queries)
    found = LinkTable(graph, later, margins, since, hops)
    moves = found.moves()
    verified = _verified(moves, found, model, change, whole_number("verify", verify))
    return _document(model, unit, found, moves | verified, decision)


Moves = dict[int, MovedLink]  # by the place of the link


class LaterLinks(NamedTuple):
    """The links that are looked at, in the order of time."""

    queries: list[Query]
    events: list[int | None]  # the row of each that is an event of the log
    own: int  # that were left out because they are removed themselves
    incomparable: int = 0  # that were left out: compared with themselves, or with too few rivals


def _unit(graph: TemporalGraph, removed: int | Iterable[int] | Unit) -> Unit:
    """The events that are removed, with a name."""
    if isinstance(removed, Unit):
        return removed
    given = [removed] if isinstance(removed, int | np.integer) else removed
    rows = sorted({graph.query(row).before for row in given})
    if not rows:
        raise CallError("no event is named: give the row of an event, or several")
    listed = enumerated(list(map(str, rows))) if len(rows) <= 5 else f"{rows[0]} to {rows[-1]}"
    name = f"{graph.name_of_event()}{'s' if len(rows) > 1 else ''} {listed}"
    return Unit(name, np.array(rows, dtype=np.int64))


def _with_dependants(graph: TemporalGraph, unit: Unit, rule: Rule | None) -> Unit:
    """The events with those that go along by a rule."""
    along = NONE if rule is None else dependants_of(graph, rule, unit.rows.tolist(), graph.num_events)
    if not len(along):
        return unit
    return Unit(f"{unit.name} and {count(len(along), 'dependant')}", np.union1d(unit.rows, along))


def _later_links(graph: TemporalGraph, unit: Unit, links: Iterable[int | Query] | None) -> LaterLinks:
    """The links after the first removed event, sorted."""
    rows = set(unit.rows.tolist())
    given = rows_between(graph, PERIOD).tolist() if links is None else list(links)
    if not given:
        raise CallError("there are no links to look at: choose another period")
    pairs = [(link, None) if isinstance(link, Query) else (graph.query(link), int(link)) for link in given]
    for query, _ in pairs:
        check_query(graph, query)
    others = [pair for pair in pairs if pair[1] not in rows]
    if not others:
        raise CallError(f"{unit.name}: all links of the period are removed themselves, so none is left to predict")
    kept = sorted((pair for pair in others if pair[0].before > unit.rows[0]), key=lambda pair: pair[0].before)
    if not kept:
        last = max(query.before for query, _ in pairs)
        raise CallError(
            f"{unit.name} has no later link in the period, whose last one is event {last}: it affects none of them; "
            "choose a later period, or an earlier event"
        )
    if len(rows) >= kept[-1][0].before:
        raise CallError(f"{unit.name}: these are all events before the links, so nothing is left to predict from")
    return LaterLinks([query for query, _ in kept], [event for _, event in kept], len(pairs) - len(others))


def _comparable(later: LaterLinks, graph: TemporalGraph, decision: Decision | ByLabel | None) -> LaterLinks:
    """The links that the decision can be made about."""
    if not isinstance(decision, Decision):
        return later
    kept = [place for place, query in enumerate(later.queries) if decision.about(graph, query) is not None]
    if not kept:
        raise CallError(
            "every link of the period has the node to compare with at one of its ends, or too few rivals: name other "
            "nodes, or choose another period"
        )
    queries, events = [later.queries[place] for place in kept], [later.events[place] for place in kept]
    return LaterLinks(queries, events, later.own, len(later.queries) - len(kept))


def _since(graph: TemporalGraph, rows: IntArray, queries: Sequence[Query]) -> FloatArray:
    """The time from the latest of the events before each link to the link. [n]"""
    before, times = np.array([[query.before, query.time] for query in queries]).T
    latest = rows[np.searchsorted(rows, before.astype(np.int64)) - 1]
    return times - graph.time[latest]


@dataclass(frozen=True, slots=True)
class LinkTable:
    """What is known about each link. n = links"""

    graph: TemporalGraph
    later: LaterLinks
    margins: LinkMargins
    since: FloatArray  # [n]
    hops: IntArray  # [n]

    def moves(self) -> Moves:
        """The links that move, by place: flips first, then by how far."""
        original, without = self.margins.original, self.margins.without
        moved = np.flatnonzero(np.abs(without - original) >= 0.5 * 10**-DECIMALS).tolist()
        made = {place: self.link(place, original[place], without[place]) for place in moved}
        return dict(sorted(made.items(), key=lambda item: (not item[1].flips, -item[1].moved)))

    def link(self, place: int, original: float, without: float, verified: str | None = None) -> MovedLink:
        """A link with its margins.

        Args:
            place: Of the link.
            original: The margin with nothing changed.
            without: The margin without the events.
            verified: How that was verified.
        """
        query, decision, hops = self.later.queries[place], self.margins.decisions[place], int(self.hops[place])
        scores = [score for each in (original, without) if (score := decision.score(each)) is not None]
        before, after = scores or (original, without)
        return MovedLink(
            event=self.later.events[place],
            src=self.graph.name(query.src),
            dst=self.graph.name(query.dst),
            time=query.time,
            since=float(self.since[place]),
            hops=None if hops < 0 else hops,
            original=round(float(original), DECIMALS),
            without=round(float(without), DECIMALS),
            score=round(scores[0], 6) if scores else None,
            score_without=round(scores[1], 6) if scores else None,
            moved=round(abs(after - before), 6),
            flips=bool(flips(original, without)),
            outcome=decision.outcome(without),
            verified=verified,
        )


def _verified(moves: Moves, found: LinkTable, model: Model, change: Change, most: int) -> Moves:
    """The flips that move furthest, and whatever is too close to call, as the reference has them."""
    first = [place for place, link in moves.items() if link.flips][:most]
    close = [place for place, link in moves.items() if min(abs(link.original), abs(link.without)) < ON_THE_LINE]
    verified = {}
    for place in dict.fromkeys([*first, *close]):
        query, link = found.later.queries[place], moves[place]
        decided = decide(model, found.graph, query, found.margins.decisions[place])
        checked = verify_change(decided, query, change, (link.original, link.without), False)
        assert checked is not None  # there is no time limit
        verified[place] = found.link(place, checked.original, checked.without, checked.by)
    return verified


def _document(model: Model, unit: Unit, found: LinkTable, moves: Moves, decision: Decision | ByLabel | None) -> Impact:
    """Everything that is needed to show it without model and graph."""
    graph, queries, since = found.graph, found.later.queries, found.since
    moved, flipped = np.zeros(len(queries)), np.zeros(len(queries), dtype=bool)
    for place, link in moves.items():
        moved[place], flipped[place] = link.moved, link.flips
    bins = age_bins(since, ROUND_DURATIONS if is_date(queries[0].time) else None, most=MOST_TIMES)
    ages, distances = np.searchsorted(bins.limits, since), [*range(found.hops.max(initial=-1) + 1), -1]

    def summary(some: BoolArray) -> tuple[int, float, int]:
        """Of some links: how many there are, how far they move in the mean, and how many flip."""
        mean = round(float(moved[some].mean()), 6) if some.any() else 0.0
        return int(some.sum()), mean, int(flipped[some].sum())

    return Impact(
        version=__version__,
        model=identity_of(model),
        data=graph.identity,
        removed=RemovedEvents(unit.name, tuple(unit.rows.tolist()), *graph.time[unit.rows[[0, -1]]].tolist()),
        decision=described(decision_of(model, queries[0], decision) if decision is None else decision),
        links=len(queries),
        reached=int(found.margins.reached.sum()),
        first=queries[0].time,
        last=max(query.time for query in queries),
        moves=tuple(sorted(moves.values(), key=lambda link: (not link.flips, -link.moved))),
        by_time=tuple(TimeBin(name, *summary(ages == number)) for number, name in enumerate(bins.names)),
        by_hops=tuple(
            HopBin(None if hops < 0 else hops, *summary(found.hops == hops))
            for hops in distances
            if (found.hops == hops).any()
        ),
        half_within=_within(since, moved, 0.5),
        most_within=_within(since, moved, 0.9),
        called=predicted_thing(model, graph, decision),
        thing=graph.name_of_event(),
        own=found.later.own,
        incomparable=found.later.incomparable,
    )


def predicted_thing(model: Model, graph: TemporalGraph, decision: Decision | ByLabel | None) -> str:
    """What predictions are about, as the data call it: a link, or an event of which something is predicted.

    Args:
        model: The model.
        graph: The log of events.
        decision: What is decided; None: what the model decides by itself.
    """
    return "link" if subject_of_decision(model, decision) == "link" else graph.name_of_event()


def _within(since: FloatArray, moved: FloatArray, share: float) -> float | None:
    """The time since the events within which a share of all movement lies; None if nothing moves."""
    order = np.argsort(since, kind="stable")
    total = np.cumsum(moved[order])
    return float(since[order][np.searchsorted(total, share * total[-1])]) if moved.any() else None
