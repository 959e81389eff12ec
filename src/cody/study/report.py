"""What explained links have in common: how fragile they are, what the decisive events are, and who decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from cody.explaining import wording
from cody.explaining.document import DecisionPart, ExplanationDocument, decision_part
from cody.explaining.upgrade import RecordOf02
from cody.graph import BoolArray, FloatArray, TemporalGraph
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import Decision, Labelled
from cody.study.cases import (
    ExplainedLink,
    Survival,
    ages,
    columns,
    decisive_events,
    held_in,
    is_repeated,
    named,
    ranks,
    relation_names,
    relations,
    survival_of,
)
from cody.study.instances import kind_in_words
from cody.study.metrics import grouped
from cody.study.record import REMOVALS, Document
from cody.study.shares import Contrast, Share, contrast, mean
from cody.utils.forms import Count, Form
from cody.utils.words import ROUND_DURATIONS, count, is_date

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.figure import Figure

SIZES = (1, 2, 3, 5, 10)  # edits that a prediction may depend on
LATEST = (1, 4, 16)  # "among the k latest candidates"
NAMED_AGES = ("1 min", "10 min", "1 hour", "6 hours", "1 day", "1 week", "30 days", "1 year")
AGES = {seconds: name for seconds, name in ROUND_DURATIONS.items() if name in NAMED_AGES}
MOST_AGES = 8  # in a table
FEW = 10  # predictions with a counterfactual; shares of fewer say little
LISTED = 5  # links and nodes in each list
SCHEMA = "cody/survey/1"


class Simultaneous(Form, frozen=True):
    """How many events have the same timestamp as what is predicted."""

    candidates: Share  # mean over links of (share of the past events among the candidates that did)
    decisive: Share | None  # the same of the events of counterfactuals; None: there are none

    @property
    def advice(self) -> str:
        """What to do about it if they are many; else empty."""
        share = 0.0 if self.decisive is None else self.decisive.value
        if max(self.candidates.value, share) < wording.MANY_SIMULTANEOUS:
            return ""
        among = "" if self.decisive is None else f" and {100 * share:.0f} % of the decisive events"
        many = f"{100 * self.candidates.value:.0f} % of the candidates{among}"
        return f"{many} have the same timestamp as the predicted event. {wording.ONE_ACTION}"


class Fragile(Form, frozen=True):
    """How many predictions depend on few events."""

    edits: Count
    share: Share  # (1/N) Σ 1[a counterfactual of at most `edits` edits was found]


class Age(Form, frozen=True):
    """Medians over the events of all links together."""

    decisive: float
    candidates: float


class Decisive(Form, frozen=True):
    """An event of a counterfactual, and what it is to the link."""

    edit: str  # "removed", "added" or "moved"
    row: Count | None  # of the event that is missing or moved; None: an added one
    src: str
    dst: str
    time: float  # when it happened, or would have
    was: float | None  # when an event happened that is moved
    relation: str  # one of RELATIONS
    latest: Count  # 1 for the latest candidate, 2 for the one before it, …
    age: str  # which of the ages of the part
    repeated: bool  # its two nodes had interacted before


class Example(Form, frozen=True):
    """One explained prediction."""

    event: Count
    src: str
    dst: str
    time: float
    score: float | None  # the probability that is compared with a threshold; None: the decision is another
    rows: tuple[int | str, ...]  # of the counterfactual, imagined events in words; empty: none was found
    sentence: str
    events: tuple[Decisive, ...]  # the same in full
    reason: str = ""  # what the counterfactual comes down to; empty: none was found, or CoDy 0.2 wrote the record
    figure: str = ""  # what lies behind the decision, in a word: a score, a rank, a label
    held_in: tuple[Count, Count] | None = None  # other models in which the answer holds, of those that decide the same


class Decider(Form, frozen=True):
    """A node or an event that occurs in counterfactuals of links that are not its own."""

    name: str  # of the node, or "src → dst" of the event
    row: Count | None  # of the event
    decides: Count  # links in whose counterfactual it occurs
    could: Count  # links among whose candidates it occurs


class Part(Form, frozen=True):
    """What holds for links of one kind."""

    kind: str  # "correct" or "incorrect"
    links: Count
    explained: Count  # those with a counterfactual
    fragility: tuple[Fragile, ...]
    relations: tuple[Contrast, ...]  # empty if nothing was explained
    latest: tuple[Contrast, ...]  # among the k latest candidates
    repetition: Contrast | None  # the two nodes of the event had interacted before
    ages: tuple[Contrast, ...]  # how long before the link
    age: Age | None  # the same in one figure, in the unit of the log
    simultaneous: Simultaneous
    nodes: tuple[Decider, ...]
    events: tuple[Decider, ...]
    most_fragile: tuple[Example, ...]
    most_robust: tuple[Example, ...]  # of the others
    predictions: tuple[Example, ...]  # all of them, the most fragile first
    title: str = "links"  # what these predictions are, in words
    survival: tuple[Survival, ...] = ()  # how many answers hold in other models and under noise; empty: not tested

    @property
    def caution(self) -> str:
        """A warning if what the decisive events are is known from few predictions only; else empty."""
        if not 0 < self.explained < FEW:
            return ""
        have = "prediction has" if self.explained == 1 else "predictions have"
        return f"Only {self.explained} {have} a counterfactual, so these shares and their intervals say little."


class Survey(Form, frozen=True, tag_field="schema", tag=SCHEMA):
    """What decides a model's predictions in general."""

    data: str
    model: str
    explainer: str
    allowed: tuple[str, ...]  # "removals", "additions", "moves", "alterations": what could change
    parts: tuple[Part, ...]
    protected: str = ""  # what was not allowed to be removed, in words
    decision: DecisionPart | UnsetType | None = UNSET  # what flips, as in documents; null: the predicted label
    subject: str = "link"  # what it is decided on: a link, or an event or node that is labelled
    figure: str = "score"  # what the figure of an example is
    event_name: str = "event"  # what an event is, as the data calls it: a message, a payment
    unit_name: str = ""  # what the candidates are, where each stands for several events: a conversation, a day

    @property
    def edit_name(self) -> str:
        """What counterfactuals are counted in."""
        return "edit" if self.allowed != REMOVALS else self.unit_name or self.event_name

    @property
    def units_note(self) -> str:
        """What shares of events mean where candidates are units; empty: they are events."""
        one = f"Each {self.unit_name} counts here as one of its {self.event_name}s, mostly the latest."
        return one if self.unit_name else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return msgspec.to_builtins(self)

    def rows(self) -> list[dict[str, Any]]:
        """Every figure as one row, for csv: kind, figure, value, low, high, and the node or event that it is about."""
        rows = []
        for part in self.parts:
            about = {"data": self.data, "model": self.model, "kind": part.kind}
            shares = ({"figure": name, **msgspec.structs.asdict(share), "of": ""} for name, share in _figures(part))
            counts = _counts("node", part.nodes) + _counts("event", part.events)
            rows += [about | row for row in (*shares, *counts)]
        return rows

    def to_arrow(self) -> pyarrow.Table:
        """The same as an Arrow table, which pandas, polars and DuckDB take."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())

    def to_html(self) -> str:
        """A page that shows all of it, with the predictions behind each figure. It makes no network requests."""
        from cody.web.survey_page import survey_page  # whoever wants no page need not wait for it

        return survey_page([self])

    def curve(self, width: float = 3.3) -> Figure:
        """How few events decide how many predictions, as a matplotlib figure for papers and slides.

        Args:
            width: In inches: 3.3 fits one column of a paper, 7 fits two.
        """
        from cody.web.survey_drawing import survey_figure

        return survey_figure([self], width)


def survey_of(explained: Sequence[ExplainedLink], graph: TemporalGraph) -> Survey:
    """What the cases of one model have in common, links that it predicts and links that it misses apart."""
    first = explained[0].record
    decision = _decision_of_all(explained)
    by_kind = grouped(explained, lambda case: case.record.kind)
    parts = tuple(_part(kind, by_kind[kind], graph) for kind in sorted(by_kind))
    occasion = wording.occasion(first.subject, graph.name_of_event())
    return Survey(
        *(first.data, first.model, first.explainer, first.allowed, parts),
        protected=wording.protected_in_words(first.options.get("protect"), occasion),
        decision=UNSET if decision == LINK_PREDICTED else None if decision is None else decision_part(decision),
        subject=first.subject,
        figure=first.decision.headings[1] or first.decision.headings[0],
        event_name=graph.name_of_event(),
        unit_name=_unit_name(first.document),
    )


def _unit_name(document: Document | None) -> str:
    units = document.units if isinstance(document, ExplanationDocument) else UNSET
    return "" if units is UNSET else units.name


def with_name(words: str, called: str) -> str:
    """Words about events, with what the data call an event.

    >>> with_name("another event of the source", "rating"), with_name("the 4 latest candidates", "rating")
    ('another rating of the source', 'the 4 latest candidates')
    """
    return words.replace("event", called)


def _decision_of_all(explained: Sequence[ExplainedLink]) -> Decision | None:
    """What all of these decide; None: each about the label that is predicted."""
    first = explained[0].record.decision
    if isinstance(first, Labelled):
        return first if {case.record.decision for case in explained} == {first} else None
    return first.of_any_link()


def _part(kind: str, of_kind: Sequence[ExplainedLink], graph: TemporalGraph) -> Part:
    flipped = [case for case in of_kind if case.flips]
    by_size = sorted(of_kind, key=lambda case: (not case.flips, case.size, abs(case.record.original)))
    bins = _age_bins(flipped, graph)
    predictions = tuple(_example(case, graph, bins) for case in by_size)
    shares = [mean([case.flips and case.size <= edits for case in of_kind]) for edits in SIZES]
    subject = with_name(of_kind[0].record.subject, graph.name_of_event())
    return Part(
        kind=kind,
        links=len(of_kind),
        explained=len(flipped),
        fragility=tuple(map(Fragile, SIZES, shares)),
        **(_what_decides(flipped, graph, bins) if flipped else NOTHING_DECIDES),
        simultaneous=_simultaneous(of_kind, graph),
        nodes=_nodes(of_kind, graph),
        events=_events(of_kind, graph),
        most_fragile=predictions[:LISTED],
        most_robust=predictions[LISTED:][: -LISTED - 1 : -1],
        predictions=predictions,
        title=kind_in_words(kind, _decision_of_all(of_kind), subject).plural,
        survival=survival_of(flipped),
    )


NOTHING_DECIDES: dict[str, Any] = {"relations": (), "latest": (), "repetition": None, "ages": (), "age": None}


def _what_decides(flipped: Sequence[ExplainedLink], graph: TemporalGraph, bins: Bins) -> dict[str, Any]:
    """How the decisive events of these links differ from their candidates."""
    kinds = [relations(graph, case) for case in flipped]
    latest = [ranks(case) for case in flipped]
    repeated, old = [is_repeated(graph, case) for case in flipped], [ages(graph, case) for case in flipped]
    binned = [np.searchsorted(bins.limits, age) for age in old]
    decisive = [age[case.decisive] for age, case in zip(old, flipped, strict=True)]

    def each(columns: Sequence[Any], names: Iterable[str]) -> tuple[Contrast, ...]:
        """Of every link, the candidates whose value is the place of the name."""
        return tuple(_contrast(name, flipped, [of == place for of in columns]) for place, name in enumerate(names))

    return {
        "relations": each(kinds, relation_names(flipped[0].record)),
        "latest": tuple(_contrast(latest_in_words(most), flipped, [of <= most for of in latest]) for most in LATEST),
        "repetition": _contrast("its nodes had interacted before", flipped, repeated),
        "ages": each(binned, bins.names),
        "age": Age(float(np.median(np.concatenate(decisive))), float(np.median(np.concatenate(old)))),
    }


def latest_in_words(most: int) -> str:
    """What a candidate is called that is among so many of the latest."""
    return f"among the {most} latest candidates" if most > 1 else "the latest candidate"


class Bins(NamedTuple):
    """Ages put together: those up to the first limit, up to the second, …, and beyond the last."""

    limits: tuple[float, ...]
    names: tuple[str, ...]

    def of(self, age: float) -> str:
        return self.names[int(np.searchsorted(self.limits, age))]


def _age_bins(flipped: Sequence[ExplainedLink], graph: TemporalGraph) -> Bins:
    """Round ages that the candidates lie between."""
    of_all = np.concatenate([np.zeros(0), *(ages(graph, case) for case in flipped)])
    return age_bins(of_all, AGES if flipped and is_date(flipped[0].query.time) else None)


def age_bins(of_all: FloatArray, limits: Mapping[float, str] | None, *, most: int = MOST_AGES) -> Bins:
    """Round ages that some ages lie between.

    Args:
        of_all: The ages.
        limits: Names of round ages. None: powers of 10, for times that are no dates, and have no unit.
        most: Number of bins at most.
    """
    limits = _powers(of_all) if limits is None else limits
    youngest, oldest = (float(limit(of_all)) for limit in (np.min, np.max)) if len(of_all) else (0.0, 0.0)
    inside = [limit for limit in limits if youngest <= limit < oldest][-most + 1 :]
    names = [limits[limit] for limit in inside]
    if not inside:
        return Bins((), ("any age",))
    between = [f"{one} to {other}" for one, other in pairwise(names)]
    return Bins(tuple(inside), (f"up to {names[0]}", *between, f"over {names[-1]}"))


def _powers(of_all: np.ndarray) -> dict[float, str]:
    positive = of_all[of_all > 0]
    if not len(positive):
        return {}
    first, last = (math.floor(math.log10(limit)) for limit in (positive.min(), positive.max()))
    return {10.0**power: f"{10.0**power:g}" for power in range(first, last + 1)}


def _contrast(what: str, flipped: Sequence[ExplainedLink], holds: Sequence[BoolArray]) -> Contrast:
    decisive = [float(true[case.decisive].mean()) for case, true in zip(flipped, holds, strict=True)]
    return contrast(what, decisive, [float(true.mean()) for true in holds])


def _simultaneous(of_kind: Sequence[ExplainedLink], graph: TemporalGraph) -> Simultaneous:
    """Events of the log only: an imagined one can be put at any time."""
    real = [case.candidates < graph.num_events for case in of_kind]
    same = [(ages(graph, case) == 0) & past for case, past in zip(of_kind, real, strict=True)]
    shares = [float(at.sum() / max(1, past.sum())) for at, past in zip(same, real, strict=True)]
    removed = [case.decisive & past for case, past in zip(of_kind, real, strict=True)]
    decisive = [float(at[chosen].mean()) for at, chosen in zip(same, removed, strict=True) if chosen.any()]
    return Simultaneous(mean(shares), mean(decisive) if decisive else None)


def _nodes(of_kind: Sequence[ExplainedLink], graph: TemporalGraph) -> tuple[Decider, ...]:
    def others(case: ExplainedLink, chosen: BoolArray) -> set[int]:
        src, dst, *_ = columns(graph, case)
        return {*src[chosen].tolist(), *dst[chosen].tolist()} - {case.query.src, case.query.dst}

    return tuple(Decider(graph.name(node), None, *times) for node, *times in _deciders(of_kind, others))


def _events(of_kind: Sequence[ExplainedLink], graph: TemporalGraph) -> tuple[Decider, ...]:
    """Events of the log that are missing or moved in counterfactuals."""

    def real(case: ExplainedLink, chosen: BoolArray) -> set[int]:
        moved = {event.row: event.replaces for event in case.imagined}
        rows = (row if row < graph.num_events else moved[row] for row in case.candidates[chosen].tolist())
        return {row for row in rows if row is not None}

    def name(row: int) -> str:
        return f"{graph.name(int(graph.src[row]))} → {graph.name(int(graph.dst[row]))}"

    return tuple(Decider(name(row), row, *times) for row, *times in _deciders(of_kind, real))


def _deciders(
    of_kind: Sequence[ExplainedLink], of: Callable[[ExplainedLink, BoolArray], set[int]]
) -> list[tuple[int, int, int]]:
    """What occurs in more than one counterfactual, in how many, and among the candidates of how many links.

    The most frequent first; of equals, the smaller number.

    Args:
        of_kind: The links.
        of: The nodes or events that some candidates of a link stand for.
    """
    decides = Counter(number for case in of_kind for number in of(case, case.decisive))
    could = Counter(number for case in of_kind for number in of(case, np.ones_like(case.decisive)))
    often = [(number, times, could[number]) for number, times in decides.items() if times > 1]
    return sorted(often, key=lambda each: (-each[1], each[0]))[:LISTED]


def _example(case: ExplainedLink, graph: TemporalGraph, bins: Bins) -> Example:
    link = case.event, graph.name(case.query.src), graph.name(case.query.dst), case.query.time
    events = _decisive(case, graph, bins) if case.flips else ()
    rows = tuple(named(case, event) for event in decisive_events(graph, case))
    score, shown = case.record.score(case.record.original), case.record.decision.cells([case.states[0]])[0]
    is_known = case.flips and not isinstance(case.record.document, RecordOf02)
    return Example(
        *(*link, None if score is None else round(score, 6), rows, _sentence(case, events, graph), events),
        reason=case.record.explanation.reason if is_known else "",
        figure=shown.second or shown.first,
        held_in=held_in(case),
    )


def _decisive(case: ExplainedLink, graph: TemporalGraph, bins: Bins) -> tuple[Decisive, ...]:
    columns_of = relations(graph, case), ranks(case), ages(graph, case), is_repeated(graph, case)
    chosen = (column[case.decisive].tolist() for column in columns_of)
    names = relation_names(case.record)
    return tuple(
        Decisive(it.edit, it.affected, it.src, it.dst, it.time, it.was, names[kind], rank, bins.of(age), repeated)
        for it, kind, rank, age, repeated in zip(decisive_events(graph, case), *chosen, strict=True)
    )


def _sentence(case: ExplainedLink, events: Sequence[Decisive], graph: TemporalGraph) -> str:
    record, event, unit = case.record, graph.name_of_event(), _unit_name(case.record.document)
    if not events:
        return f"No counterfactual was found; {count(record.evaluations, 'set')} of {unit or event}s were evaluated."
    past = int((case.candidates < graph.num_events).sum())
    changed = wording.capital(wording.changed_in_words([each.edit for each in events], past, event, unit))
    return f"{changed} {record.decision.moved(*case.states)}."


def _figures(part: Part) -> list[tuple[str, Share]]:
    found = [(f"flipped by at most {each.edits}", each.share) for each in part.fragility]
    found.append(("simultaneous: candidates", part.simultaneous.candidates))
    found += [] if part.simultaneous.decisive is None else [("simultaneous: decisive", part.simultaneous.decisive)]
    repeated = () if part.repetition is None else (part.repetition,)
    aged = tuple(msgspec.structs.replace(each, what=f"age {each.what}") for each in part.ages)
    for each in (*part.relations, *part.latest, *repeated, *aged):
        found += [(f"{each.what}: decisive", each.decisive), (f"{each.what}: candidates", each.candidates)]
        found += [] if each.ratio is None else [(f"{each.what}: ratio", each.ratio)]
    found += [(f"holds in {each.what}", each.holds) for each in part.survival if each.holds is not None]
    return found


def _counts(kind: str, deciders: Sequence[Decider]) -> list[dict[str, Any]]:
    """Who decides for others how often, and how often it could: numbers of links."""
    rows = []
    for each in deciders:
        name = each.name if each.row is None else f"{each.row}, {each.name}"
        for what, value in (("decides", each.decides), ("could decide", each.could)):
            rows.append({"figure": f"{kind}: {what}", "value": value, "of": name})
    return rows
