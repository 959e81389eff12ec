"""What a model's scores decide: a signed margin, above 0 where the decision is positive, and the words for it.

Searches, proofs, verification and metrics know margins only. A decision says which scores it reads (those of the link,
of other destinations, of classes), makes a margin of them, and phrases what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.models.margins import flips, kth_best, logit_of, numbers, probability, scores
from cody.utils.words import count, in_words, sanitize

LINK, NO_LINK = "link", "no link"
AND = " and "
CLOSE = 0.01  # difference of a probability from a threshold of 0.5 that is called close
CONTENDERS = 64  # rivals that a search compares with, where there are more
SHOWN_BELOW = 3  # places of a ranking that are shown below the last one that counts


# What is known about a decision under one history


class Leader(NamedTuple):
    """A place of a ranking: a node or a class, and its score."""

    name: str
    score: float


class Standing(NamedTuple):
    """What lies behind a margin, where the margin alone does not say it."""

    value: float | None = None  # of a number in a range
    rank: int | None = None  # 1 is the best
    leaders: tuple[Leader, ...] = ()  # the best, and the one that the decision is about


class State(NamedTuple):
    """A decision under one history."""

    margin: float | None  # None: there was no time to compute it
    standing: Standing | None = None


class Subject(NamedTuple):
    """What is decided on, as sentences name it."""

    name: str  # "1118 → 105", or the name of a node
    src: str  # the source alone


class Cells(NamedTuple):
    """What tables show of a state, besides the outcome."""

    first: str
    second: str


NO_RIVALS = np.zeros(0, dtype=np.int64)


class Decision:
    """Which scores are read, the margin that they make, and the words for it. By default, about the link alone."""

    __slots__ = ()
    kind: ClassVar[str]  # its name in documents
    question: ClassVar[str] = "a margin"  # what is predicted, in errors
    headings: ClassVar[tuple[str, str]] = ("margin", "")  # of the two cells that a table shows of it
    has_standing: ClassVar[bool] = True  # whether more lies behind a margin than the margin says

    @property
    def named(self) -> str:
        """The destination or class that it is about; empty if about whatever a link leads to."""
        return ""

    @property
    def predicted_label(self) -> str | None:
        """The label that a positive margin predicts; None if it predicts none."""
        return None

    def margin(self, scores: FloatArray) -> FloatArray:
        """The margin of the scores of the link, or of its classes, then of the rivals. [B, m] → [B]"""
        raise NotImplementedError

    def rivals(self, graph: TemporalGraph, query: Query) -> IntArray:
        """The other destinations whose scores it reads."""
        return NO_RIVALS

    def about(self, graph: TemporalGraph, query: Query) -> Self | None:
        """The same about one of many links; None if there is nothing to decide.

        Args:
            graph: The log of events.
            query: The link.
        """
        return self

    def of_any_link(self) -> Self:
        """The same without what `about` and a search have found out about one link."""
        return self

    def standing(self, scores: FloatArray, names: Sequence[str]) -> Standing | None:
        """What lies behind a margin; None if the margin says it all. [m], with the name of each score"""
        return None

    def score(self, margin: float) -> float | None:
        """The probability that a margin stands for; None if it stands for none."""
        return None

    def written(self, *margins: float | None) -> list[str]:
        """What margins stand for, as text, told apart where they differ: probabilities, or the margins themselves."""
        return numbers(*margins)

    def outcome(self, margin: float) -> str:
        """What is decided, in a few words."""
        raise NotImplementedError

    def cell(self, margin: float) -> str:
        """The outcome, as a table has it."""
        return self.outcome(margin)

    def claim(self) -> str:
        """What a positive margin says of any link."""
        return self.outcome(1.0)

    def stated(self, state: State, subject: Subject) -> str:
        """What the model does, with its numbers, as the first line of an answer has it."""
        return f"decides {self.outcome(_known(state))} for {subject.name} (margin {numbers(state.margin)[0]})"

    def effect(self, first: State, last: State) -> str:
        """What becomes of the numbers from one history to another."""
        before, after = numbers(first.margin, last.margin)
        direction = "falls" if _known(last) < _known(first) else "rises"
        return f"the margin stays at {after}" if before == after else f"the margin {direction} from {before} to {after}"

    def moved(self, first: State, last: State) -> str:
        """What becomes of the numbers and the decision from one history to another."""
        outcome = f"{still(_known(first), _known(last))}{self.outcome(_known(last))}"
        return f"{self.effect(first, last)}: {outcome}"

    def would(self, margin: float, thing: str) -> tuple[str, str]:
        """Who would do what, if that were the margin of a thing: a sentence without the word "would"."""
        return "the decision", f"be {self.outcome(margin)}"

    def is_close(self, margin: float) -> bool:
        """Whether a decision is so close that it should be said."""
        return False

    def cells(self, states: Sequence[State]) -> list[Cells]:
        """What tables show of each state: the margin, and one more figure."""
        margins = self.written(*(state.margin for state in states))
        return [Cells(margin, self.figure(state)) for margin, state in zip(margins, states, strict=True)]

    def figure(self, state: State) -> str:
        """What a table shows besides the margin."""
        return ""

    def remark(self) -> str:
        """What else is to be known about how it was decided; empty if nothing."""
        return ""


def _known(state: State) -> float:
    assert state.margin is not None  # whoever speaks of a state knows its margin
    return state.margin


def still(first: float, last: float) -> str:
    """A word for a decision that stands."""
    return "" if flips(first, last) else "still "


# Decisions about one number


@dataclass(frozen=True, slots=True)
class Above(Decision):
    """Whether a probability is above a threshold.

    >>> Above().moved(State(2.448), State(-2.73))
    'the score falls from 0.92 to 0.06: no link'
    """

    threshold: float = 0.5
    positive: str = LINK
    negative: str = NO_LINK

    kind: ClassVar[str] = "above"
    question: ClassVar[str] = "whether one score is above a threshold"
    has_standing: ClassVar[bool] = False
    headings: ClassVar[tuple[str, str]] = ("logit", "score")

    @property
    def line(self) -> float:
        """The logit of the threshold."""
        return logit_of(self.threshold)

    def margin(self, scores: FloatArray) -> FloatArray:
        return scores[:, 0] - self.line

    def outcome(self, margin: float) -> str:
        return self.positive if margin > 0 else self.negative

    @property
    def predicted_label(self) -> str:
        return self.positive

    def score(self, margin: float) -> float:
        return probability(margin + self.line)

    def written(self, *margins: float | None) -> list[str]:
        shares = (None if margin is None else self.score(margin) for margin in margins)
        return numbers(*shares, line=self.threshold)

    def stated(self, state: State, subject: Subject) -> str:
        threshold = "" if self.threshold == 0.5 else f", threshold {self.threshold:g}"
        known = f"(score {self.written(state.margin)[0]}{threshold})"
        if (self.positive, self.negative) == (LINK, NO_LINK):
            return f"{'expects' if _known(state) > 0 else 'does not expect'} {subject.name} {known}"
        scored = known if _known(state) > 0 else known.replace("(score", f"({self.positive} scores", 1)
        return f"expects {self.outcome(_known(state))} for {subject.name} {scored}"

    def would(self, margin: float, thing: str) -> tuple[str, str]:
        if (self.positive, self.negative) == (LINK, NO_LINK):
            return "the model", f"{'' if margin > 0 else 'not '}predict {thing}"
        return "the model", f"predict {self.outcome(margin)}"

    def is_close(self, margin: float) -> bool:
        return abs(self.score(margin) - self.threshold) < 2 * CLOSE * min(self.threshold, 1 - self.threshold)

    def effect(self, first: State, last: State) -> str:
        before, after = self.written(first.margin, last.margin)
        direction = "falls" if _known(last) < _known(first) else "rises"
        if before != after:
            return f"the score {direction} from {before} to {after}"
        logits = f"{_known(first) + self.line:.3f} to {_known(last) + self.line:.3f}"
        by = "" if first.margin == last.margin else f" (its logit {direction} from {logits})"
        return f"the score stays at {before}{by}"

    def cells(self, states: Sequence[State]) -> list[Cells]:
        margins = [state.margin for state in states]
        logits = ["–" if margin is None else f"{margin + self.line:.3f}" for margin in margins]
        return [Cells(*pair) for pair in zip(logits, self.written(*margins), strict=True)]


@dataclass(frozen=True, slots=True)
class Between(Decision):
    """Whether a number lies within a range."""

    low: float
    high: float

    kind: ClassVar[str] = "between"
    question: ClassVar[str] = "a number in a range"
    headings: ClassVar[tuple[str, str]] = ("margin", "value")

    def margin(self, scores: FloatArray) -> FloatArray:
        return np.minimum(scores[:, 0] - self.low, self.high - scores[:, 0])

    def standing(self, scores: FloatArray, names: Sequence[str]) -> Standing:
        return Standing(value=round(float(scores[0]), 5))

    def would(self, margin: float, thing: str) -> tuple[str, str]:
        return "the predicted value", f"be {self.outcome(margin)}"

    def outcome(self, margin: float) -> str:
        return f"{'within' if margin > 0 else 'outside'} {self.low:g} to {self.high:g}"

    def stated(self, state: State, subject: Subject) -> str:
        return f"expects {self.figure(state)} for {subject.name}, {self.outcome(_known(state))}"

    def effect(self, first: State, last: State) -> str:
        return f"the value changes from {self.figure(first)} to {self.figure(last)}"

    def figure(self, state: State) -> str:
        return "–" if state.standing is None else numbers(state.standing.value)[0]


@dataclass(frozen=True, slots=True)
class DecidedBy(Decision):
    """Whatever a function of the model's scores decides: positive where the function is above 0."""

    function: Callable[[FloatArray], Any] | None = None  # [B, m] → [B]; None: read from a document
    positive: str = "yes"
    negative: str = "no"

    kind: ClassVar[str] = "own"
    has_standing: ClassVar[bool] = False

    def margin(self, scores: FloatArray) -> FloatArray:
        if self.function is None:
            raise CallError("this decision was read from a document, which does not hold the function that made it")
        margins = np.asarray(self.function(scores), dtype=np.float64)
        if margins.shape != (len(scores),):
            raise CallError(f"the function of decided_by must return one margin per row of scores, not {margins!r:.60}")
        if not np.isfinite(margins).all():
            raise CallError(f"the function of decided_by must return finite numbers, not {margins!r:.60}")
        return margins

    def outcome(self, margin: float) -> str:
        return self.positive if margin > 0 else self.negative


# Decisions that compare


@dataclass(frozen=True, slots=True)
class InTop(Decision):
    """Whether a destination is among the k best for its source."""

    k: int = 10
    among: tuple[str, ...] | None = None  # names of the rivals; None: every node that has been a destination by then
    of: int = 0  # how many destinations are ranked; 0: not known yet
    name: str = ""  # of the destination that the decision is about; empty: not known yet
    own: Callable[[Query], Sequence[Any]] | None = None  # names the rivals of each link, where it has its own
    rivals_of: str = ""  # what names them, where each link has its own
    overtaking: tuple[str, ...] = ()  # rivals that a search compares with besides the highest-ranked ones

    kind: ClassVar[str] = "top"
    question: ClassVar[str] = "the best destinations"
    headings: ClassVar[tuple[str, str]] = ("lead", "rank")

    def margin(self, scores: FloatArray) -> FloatArray:
        return scores[:, 0] - kth_best(scores[:, 1:], self.k)

    def rivals(self, graph: TemporalGraph, query: Query) -> IntArray:
        if self.among is None:
            rivals = sorted_unique(graph.dst[: query.before]).astype(np.int64)
            rivals = rivals[(rivals != query.dst) & (rivals != query.src)]
        else:
            rivals = np.array([_rival(graph, query, name) for name in dict.fromkeys(self.among)], dtype=np.int64)
        if self.k > len(rivals):
            ranked = f"only {count(len(rivals) + 1, 'destination')} {'are' if len(rivals) else 'is'} ranked"
            raise CallError(f"every destination is in the top {self.k:,}, since {ranked}; choose a smaller top")
        return rivals

    def of_link(self, query: Query) -> InTop:
        """The same with the rivals of this link, where each link has its own."""
        return self if self.own is None else replace(self, among=tuple(map(str, self.own(query))), own=None)

    def about(self, graph: TemporalGraph, query: Query) -> InTop | None:
        """The same about one of many links, which is never its own rival; None where every destination is in the top.

        Args:
            graph: The log of events.
            query: The link.
        """
        known = self.of_link(query)
        others = known.among and tuple(name for name in known.among if graph.node(name) != query.dst)
        known = replace(known, among=others)
        try:
            known.rivals(graph, query)
        except CallError:
            return None
        return known

    def of_any_link(self) -> InTop:
        return replace(self, name="", of=0, overtaking=())

    @property
    def named(self) -> str:
        return self.name

    @property
    def contenders(self) -> int:
        """How many rivals a search compares with; what it finds is verified against all of them."""
        return max(CONTENDERS, 2 * self.k)

    def standing(self, scores: FloatArray, names: Sequence[str]) -> Standing:
        return ranking(scores, names, self.k + SHOWN_BELOW)

    def remark(self) -> str:
        rivals = self.of - 1
        if rivals <= self.contenders:
            return ""
        others = f" and {len(self.overtaking)} that would overtake" if self.overtaking else ""
        return f"Searched against the {self.contenders} highest-ranked rivals{others}, verified against all {rivals:,}."

    def would(self, margin: float, thing: str) -> tuple[str, str]:
        return sanitize(self.name, 24), f"{'' if margin > 0 else 'not '}be in the top {self.k}"

    def outcome(self, margin: float) -> str:
        return f"{'' if margin > 0 else 'not '}in the top {self.k}"

    def stated(self, state: State, subject: Subject) -> str:
        rank = "–" if state.standing is None or state.standing.rank is None else in_words(state.standing.rank)
        ranked = f"ranks {sanitize(self.name, 24)} {rank} of {self.of:,} for {sanitize(subject.src, 24)}"
        return f"{ranked}, {self.outcome(_known(state))}"

    def effect(self, first: State, last: State) -> str:
        before, after = (0 if state.standing is None else state.standing.rank or 0 for state in (first, last))
        if before == after:
            return f"{sanitize(self.name, 24)} stays at rank {after:,}"
        direction = "falls" if after > before else "rises"
        return f"{sanitize(self.name, 24)} {direction} from rank {before:,} to rank {after:,}"

    def figure(self, state: State) -> str:
        return "–" if state.standing is None else f"{state.standing.rank:,}"


def _rival(graph: TemporalGraph, query: Query, name: str) -> int:
    rival = graph.node(name)
    if rival == query.dst:
        raise CallError(f"{name!r} is the destination of the link itself; name another one to compare it with")
    return rival


def ranking(scores: FloatArray, names: Sequence[str], most: int) -> Standing:
    """The rank of the first score among all, and the best of them; the first one is named, wherever it ranks.

    Args:
        scores: The score that is ranked, then its rivals'. [m]
        names: What each score belongs to. [m]
        most: How many of the best are named.

    >>> ranking(np.array([1.0, 3.0, 2.0]), ["a", "b", "c"], 1)
    Standing(value=None, rank=3, leaders=(Leader(name='b', score=3.0), Leader(name='a', score=1.0)))
    """
    rivals_first = np.roll(np.arange(len(scores)), -1)  # of equal scores, the rivals' rank higher
    order = rivals_first[np.argsort(-scores[rivals_first], kind="stable")][:most].tolist()
    if 0 not in order:
        order.append(0)
    leaders = tuple(Leader(names[place], round(float(scores[place]), 5)) for place in order)
    return Standing(rank=1 + int((scores[1:] >= scores[0]).sum()), leaders=leaders)


@dataclass(frozen=True, slots=True)
class RatherThan(Decision):
    """Whether a destination is ranked above another one."""

    other: str
    name: str = ""  # of the destination that the decision is about; empty: not known yet

    kind: ClassVar[str] = "rather"
    question: ClassVar[str] = "one destination rather than another"
    headings: ClassVar[tuple[str, str]] = ("lead", "scores")

    def margin(self, scores: FloatArray) -> FloatArray:
        return scores[:, 0] - scores[:, 1]

    def rivals(self, graph: TemporalGraph, query: Query) -> IntArray:
        rival = _rival(graph, query, self.other)
        if rival == query.src:
            raise CallError(f"{self.other!r} is the source of the link itself; name another one to compare it with")
        return np.array([rival], dtype=np.int64)

    def about(self, graph: TemporalGraph, query: Query) -> RatherThan | None:
        return None if graph.node(self.other) in (query.src, query.dst) else self

    def of_any_link(self) -> RatherThan:
        return replace(self, name="")

    @property
    def named(self) -> str:
        return self.name

    def standing(self, scores: FloatArray, names: Sequence[str]) -> Standing:
        return ranking(scores, names, 2)

    def ranked(self, margin: float) -> tuple[str, str]:
        """Both nodes, the one that is ranked above the other first."""
        name, other = sanitize(self.name, 24), sanitize(self.other, 24)
        return (name, other) if margin > 0 else (other, name)

    def would(self, margin: float, thing: str) -> tuple[str, str]:
        first, second = self.ranked(margin)
        return first, f"be ranked above {second}"

    def outcome(self, margin: float) -> str:
        return " rather than ".join(self.ranked(margin))

    def cell(self, margin: float) -> str:
        return self.ranked(margin)[0]

    def claim(self) -> str:
        return f"ranked above {sanitize(self.other, 24)}"

    def stated(self, state: State, subject: Subject) -> str:
        own, _, other = self.figure(state).partition(AND)
        preferred_first = (own, other) if _known(state) > 0 else (other, own)
        preferred = " to ".join(self.ranked(_known(state)))
        return f"prefers {preferred} for {sanitize(subject.src, 24)} (scores {AND.join(preferred_first)})"

    def effect(self, first: State, last: State) -> str:
        return f"the scores of {AND.join(self.ranked(1.0))} change from {self.figure(first)} to {self.figure(last)}"

    def moved(self, first: State, last: State) -> str:
        stands = still(_known(first), _known(last))
        return f"{self.effect(first, last)}: the model {stands}prefers {' to '.join(self.ranked(_known(last)))}"

    def figure(self, state: State) -> str:
        """The two probabilities: of the destination, and of the other one."""
        leaders = () if state.standing is None else state.standing.leaders
        by_name = {leader.name: leader.score for leader in leaders}
        return AND.join(scores(by_name.get(self.name), by_name.get(self.other)))


@dataclass(frozen=True, slots=True)
class Labelled(Decision):
    """Whether a class is the predicted one, of several."""

    label: str
    classes: tuple[str, ...]

    kind: ClassVar[str] = "labelled"
    headings: ClassVar[tuple[str, str]] = ("lead", "best")

    @property
    def named(self) -> str:
        return self.label

    @property
    def predicted_label(self) -> str:
        return self.label

    def margin(self, scores: FloatArray) -> FloatArray:
        place = self.classes.index(self.label)
        return scores[:, place] - np.delete(scores, place, axis=1).max(axis=1)

    def standing(self, scores: FloatArray, names: Sequence[str]) -> Standing:
        order = np.argsort(-scores, kind="stable").tolist()
        leaders = tuple(Leader(self.classes[place], round(float(scores[place]), 5)) for place in order)
        return Standing(rank=1 + order.index(self.classes.index(self.label)), leaders=leaders)

    def would(self, margin: float, thing: str) -> tuple[str, str]:
        return "the model", f"{'' if margin > 0 else 'not '}predict {self.label}"

    def outcome(self, margin: float) -> str:
        return self.label if margin > 0 else f"not {self.label}"

    def stated(self, state: State, subject: Subject) -> str:
        best = self.figure(state)
        rest = "" if best == self.label else f", not {self.label},"
        return f"expects {best}{rest} for {subject.name} (lead {numbers(state.margin)[0]})"

    def effect(self, first: State, last: State) -> str:
        before, after = numbers(first.margin, last.margin)
        return f"the lead of {self.label} changes from {before} to {after}"

    def figure(self, state: State) -> str:
        """The class with the highest score."""
        leaders = () if state.standing is None else state.standing.leaders
        return leaders[0].name if leaders else "–"
