"""What every part of the page needs: events by number, the effect of each alone, and all evaluated sets.

One colour means "for the positive decision", another "against it", everywhere: of an event, what it speaks for as it
is; of a score, on which side of the line it lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, takewhile
from typing import Any, NamedTuple
from unicodedata import east_asian_width

from cody.explaining.explanation import ChangedUnit, Event, Explanation
from cody.models.contract import Change
from cody.models.decision import Above, Decision, InTop, Standing, State
from cody.models.margins import flips
from cody.search.result import distinct
from cody.utils.words import count, earlier, sanitize
from cody.web.gauge import Gauge, gauge, outcome
from cody.web.markup import Markup, link, tag

SHORT = 20  # characters that fit beside a lane or in a table
SHORTEST = 8  # characters that fit beside a lane on a phone
WORTH_CUTTING = 4  # characters that all names share at an end


FOR, AGAINST, SLIGHT, UNKNOWN = "for", "against", "slight", "unknown"
NOTICEABLE = 0.005  # of the gauge, or in score: a smaller effect is drawn as negligible
REMOVED = "removed"
MOST_SHOWN = 3  # maximum number of counterfactuals, including those that were not verified separately
OWN_LANES = 10  # nodes besides the ends that have a lane of their own, if there are many
IMAGINED = {"added": "imagined", "moved": "moved to this time", "altered": "altered"}  # kinds of edits, in words
SECONDS = 3.0  # that scoring first clicks may take; shipped models need a tenth of a second
SMALL_ANSWER = 8  # all pairs within an answer up to this size are scored, too


class NamedChange(NamedTuple):
    """A set of edits that the page offers by name."""

    name: str
    change: tuple[int, ...]  # numbers of candidates, in the order of the answer
    verified: bool


class KnownChange(NamedTuple):
    """A set of edits that was evaluated."""

    change: tuple[int, ...]  # numbers of candidates, ascending
    logit: float
    score: str  # formatted to be read next to the original score
    standing: Standing | None = None  # what lies behind the margin, if that is known


@dataclass(frozen=True)
class Facts:
    """Everything about one explanation that the page shows."""

    why: Explanation
    served: bool = False  # whether there is a server with a model behind the page

    @property
    def movable(self) -> bool:
        """Whether the threshold can be moved."""
        return self.served and isinstance(self.why.decision, Above)

    @cached_property
    def number(self) -> dict[int, int]:
        """The number of each candidate, by its row."""
        return {event.row: number for number, event in enumerate(self.why.candidates)}

    @cached_property
    def hops(self) -> dict[str, int]:
        return distances(self.why)

    @cached_property
    def labels(self) -> dict[str, str]:
        """A short label for each node."""
        return labels(self.hops)

    @cached_property
    def short_labels(self) -> dict[str, str]:
        """A very short label for each node."""
        return labels(self.hops, SHORTEST)

    @cached_property
    def imagined(self) -> int:
        """How many of the candidates are imagined."""
        return sum(event.edit != REMOVED for event in self.why.candidates)

    def unit(self, event: Event) -> ChangedUnit | None:
        """What a candidate stands for; None: for itself."""
        return self._units.get(event.row)

    @cached_property
    def _units(self) -> dict[int, ChangedUnit]:
        return {unit.row: unit for unit in self.why.units}

    def link(self, event: Event) -> Markup:
        """The nodes of an event; of a unit, its name."""
        unit = self.unit(event)
        if unit is not None and unit.name:
            return tag.span(sanitize(unit.name))
        return link(self.labels[event.src], self.labels[event.dst])

    def distance(self, event: Event) -> int:
        """Events between this one and the link."""
        return min(self.hops[event.src], self.hops[event.dst])

    @cached_property
    def known(self) -> list[KnownChange]:
        """Every evaluated set: those of the search, in order, then the steps of the answer."""
        why, answers = self.why, dict[tuple[int, ...], float]()
        prefixes = ((why.rows[:length], logit) for length, logit in enumerate(why.logits))
        every = (tuple(event.row for event in why.candidates), why.without_all)
        for rows, logit in (*why.evaluated, *prefixes, every):
            if logit is not None and all(row in self.number for row in rows):
                answers.setdefault(tuple(sorted({self.number[row] for row in rows})), logit)
        return [
            KnownChange(change, logit, self.gauge.written(why.original, logit)[1], self.standings.get(change))
            for change, logit in answers.items()
        ]

    @cached_property
    def gauge(self) -> Gauge:
        """How the margins of this explanation are drawn and written."""
        margins = (*(logit for _, logit in self.why.evaluated), *self.why.logits, self.why.without_all)
        return gauge(self.why.decision, (margin for margin in margins if margin is not None))

    @cached_property
    def standings(self) -> dict[tuple[int, ...], Standing]:
        """What lies behind the margins of the steps of the answer and of the alternatives, where that is known."""
        why = self.why
        known = [(why.rows[:length], standing) for length, standing in enumerate(why.standings)]
        known += [(other.rows, other.standing) for other in why.alternatives]
        return {tuple(sorted(self._numbers(rows))): standing for rows, standing in known if standing is not None}

    def outcome(self, margin: float) -> str:
        """What is decided, in a few words."""
        return outcome(self.why.decision, margin)

    def figure(self, known: KnownChange) -> str:
        """What is shown of a prediction besides its margin: its rank, say; empty if there is nothing, or not known."""
        shown, first = figure(self.why.decision, State(known.logit, known.standing)), self.standings.get(())
        if shown and known.change and first and first.rank is not None and isinstance(self.why.decision, InTop):
            return shown.replace(": ", f": {first.rank:,} → ", 1)
        return shown

    @cached_property
    def clicks(self) -> dict[tuple[int, ...], float]:
        """What first clicks lead to, where the search did not evaluate it.

        A page has no model. So these sets are scored when it is made, as far as there is time, and stored in it.
        """
        if self.served or self.why.rescore is None:
            return {}
        rows = [event.row for event in self.why.candidates]
        offered = [frozenset(rows[number] for number in state.change) for state in self.states]
        searched = {frozenset(rows[number] for number in known.change) for known in self.known}
        unknown = [change for change in dict.fromkeys(first_clicks(rows, offered)) if change not in searched]
        scored = self.why.rescore(unknown, SECONDS) if unknown else {}
        return {tuple(sorted(self._numbers(change))): margin for change, margin in scored.items()}

    @cached_property
    def answers(self) -> dict[tuple[int, ...], KnownChange]:
        clicked = (
            KnownChange(change, margin, self.gauge.written(self.why.original, margin)[1])
            for change, margin in self.clicks.items()
        )
        return {known.change: known for known in (*clicked, *self.known)}

    def alone(self, number: int) -> KnownChange | None:
        """The evaluation of this candidate alone."""
        return self.answers.get((number,))

    def moved(self, number: int) -> float | None:
        """How far this candidate alone moves the margin; None: not evaluated."""
        known = self.alone(number)
        return None if known is None else abs(known.logit - self.why.original)

    def effect(self, number: int) -> str:
        """The effect of one candidate alone on the prediction."""
        known, original = self.alone(number), self.why.original
        if known is None:
            return UNKNOWN
        moved = abs(self.gauge.place(known.logit) - self.gauge.place(original))
        if moved < NOTICEABLE and not flips(original, known.logit):
            return SLIGHT
        lower = known.logit < original
        return FOR if lower == (self.why.candidates[number].edit == REMOVED) else AGAINST

    def side(self, margin: float | None) -> str:
        """On which side of the line a margin lies."""
        return UNKNOWN if margin is None else FOR if margin > 0 else AGAINST

    @cached_property
    def strongest(self) -> float:
        """The largest effect of a single candidate on the logit."""
        return max((moved for moved in map(self.moved, range(len(self.why.candidates))) if moved), default=0.0)

    @cached_property
    def kept_lanes(self) -> set[str]:
        """The nodes that matter: of the answers, then of the strongest events."""
        offered = Counter(number for state in self.states for number in state.change)
        weight: Counter[str] = Counter()
        for number, event in enumerate(self.why.candidates):
            for end in (event.src, event.dst):
                weight[end] += round(1e6 * offered[number]) + round(1e3 * self.strength(number))
        ends = {self.why.src, self.why.dst}
        others = [(node, value) for node, value in weight.most_common() if node not in ends]
        decisive = sum(value >= 1e6 for _, value in others)
        return ends | {node for node, value in others[: min(OWN_LANES, max(decisive, OWN_LANES // 2))] if value}

    def strength(self, number: int) -> float:
        """The effect of one candidate alone on the logit, relative to the largest."""
        moved = self.moved(number)
        return moved / self.strongest if moved and self.strongest < float("inf") else 0.0

    @cached_property
    def states(self) -> list[NamedChange]:
        """What the page offers by name: nothing changed, the answer, the alternatives."""
        why = self.why
        states = [NamedChange("Nothing changed", (), True)]
        if why.rows:
            answer = "The answer" if why.is_counterfactual else "The closest set"
            answer = f"The named {self.event}s" if why.factual else answer
            states.append(NamedChange(answer, self._numbers(why.rows), why.is_counterfactual))
        verified = [(self._numbers(other.rows), True) for other in why.alternatives]
        shown = {frozenset(change) for change in [*(state.change for state in states), *(rows for rows, _ in verified)]}
        found = [self._numbers(rows) for rows in self._other_ways()]
        others = verified + [(change, False) for change in found if frozenset(change) not in shown]
        kind = "Alternative" if why.rows else "Counterfactual"
        named = enumerate(others[: max(MOST_SHOWN, len(verified))], start=1)
        return states + [NamedChange(f"{kind} {place}", *other) for place, other in named]

    def _other_ways(self) -> list[frozenset[int]]:
        """Counterfactuals that the search found besides the answer; none contains another."""
        known = [change for change, _ in self.why.counterfactuals if change <= set(self.number)]
        if not self.why.is_counterfactual:
            return distinct(known)
        answer = frozenset(self.why.rows)
        return [change for change in distinct([answer, *known])[1:] if not change < answer]

    def _numbers(self, rows: Any) -> tuple[int, ...]:
        ordered = sorted(rows) if isinstance(rows, frozenset) else rows
        return tuple(self.number[row] for row in ordered)

    def before(self, event: Event) -> str:
        return earlier(event.time, self.why.query.time)

    def phrase(self, event: Event) -> str:
        """An event in words."""
        unit = self.unit(event)
        if unit is not None and unit.name:
            return f"{sanitize(unit.name)} ({count(len(unit.rows), self.why.event_name)})"
        text = f"{self.labels[event.src]} → {self.labels[event.dst]}, {self.before(event)} before"
        return f"{text}, {event.carries}" if event.carries else text

    def beside(self, event: Event) -> str:
        """A remark shown next to an event. It begins with a comma, so that what is copied can be read."""
        return ", ".join(["", *filter(None, [IMAGINED.get(event.edit), f"{self.before(event)} before", event.carries])])

    def said_alone(self, number: int) -> str:
        """The prediction with only this candidate changed, in words."""
        known = self.alone(number)
        if known is None:
            return "not evaluated alone"
        return f"changed alone, the {self.gauge.word} is {known.score}: {self.outcome(known.logit)}"

    @property
    def past(self) -> str:
        return count(len(self.why.candidates), self.thing)

    @property
    def thing(self) -> str:
        """What a candidate is: an event as the data call it, or a unit of events."""
        return sanitize(self.why.unit_name, 24) or self.event

    @property
    def event(self) -> str:
        """What the data call one event."""
        return sanitize(self.why.event_name, 24)

    @property
    def subject(self) -> str:
        """What is decided on: a link, a node, or an event as the data call it."""
        return self.event if self.why.subject == "event" else self.why.subject


def figure(decision: Decision, state: State) -> str:
    """What a prediction is shown with besides its margin, in words; empty if there is nothing, or not known."""
    if state.standing is None or not decision.headings[1]:
        return ""
    return sanitize(f"{decision.headings[1]}: {decision.figure(state)}", 80)


# First clicks


def first_clicks(candidates: Sequence[int], offered: Sequence[Change]) -> Iterator[Change]:
    """The sets that one click leads to, from nothing, then from each set that is offered; then pairs within those.

    >>> [sorted(change) for change in first_clicks([1, 2, 3], [frozenset(), frozenset({1, 2})])]
    [[1], [2], [3], [2], [1], [1, 2, 3], [1, 2]]
    """
    for start in offered:
        yield from (start ^ {row} for row in candidates)
    for start in offered:
        if 1 < len(start) <= SMALL_ANSWER:
            yield from map(frozenset, combinations(sorted(start), 2))


# How far nodes are from the link


def distances(why: Explanation) -> dict[str, int]:
    """The distance of each node from the link: from the document, or else along the candidates."""
    found = {why.src: 0, why.dst: 0}
    if why.surroundings is not None:
        found |= {node.name: node.hops for node in why.surroundings.nodes if node.name not in found}
    else:
        _follow(why.candidates, found)
    furthest = max(found.values()) or 1
    for event in [*why.candidates, *(why.surroundings.events if why.surroundings else ())]:
        for end in (event.src, event.dst):
            found.setdefault(end, furthest)
    return found


def _follow(events: Sequence[Event], found: dict[str, int]) -> None:
    """Extend distances along events until nothing more can be reached."""
    ring = 0
    while ring in found.values():
        for event in events:
            for here, there in ((event.src, event.dst), (event.dst, event.src)):
                if found.get(here) == ring:
                    found.setdefault(there, ring + 1)
        ring += 1


# Short labels that distinguish long names


def labels(names: Collection[str], width: int = SHORT) -> dict[str, str]:
    """A label for each name. If one is long, the common ending is left out, and if necessary the common beginning.

    >>> labels(["ann.berger@example.org", "bob.doe@example.org"])
    {'ann.berger@example.org': 'ann.berger…', 'bob.doe@example.org': 'bob.doe…'}
    """
    shown = {name: sanitize(name, 400) for name in names}
    first, last, longest = 0, 0, max(map(len, shown.values()), default=0)
    if longest > width and len(shown) > 1:
        first = _shared(shown.values())
        last = _shared(text[first:][::-1] for text in shown.values())
    first, last = (length if length >= WORTH_CUTTING else 0 for length in (first, last))
    if longest - last < width:
        first = 0
    begin, end = "…" * bool(first), "…" * bool(last)
    cut = {name: f"{begin}{text[first : len(text) - last]}{end}" for name, text in shown.items()}
    return {name: sanitize(text, width // (1 + _has_wide(text))) for name, text in cut.items()}


def _shared(texts: Iterable[str]) -> int:
    """The length of their common prefix."""
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


def _has_wide(text: str) -> bool:
    """Whether letters of a text are twice as wide as others, as Chinese ones are."""
    return any(east_asian_width(letter) in "WF" for letter in text)
