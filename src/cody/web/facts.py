"""What every part of the page needs: events by number, the effect of each alone, and all evaluated sets."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from cody.models.decision import decision, flips, probability, scores, shift
from cody.search.result import distinct
from cody.utils.words import count, earlier, moment
from cody.web.lanes import distances
from cody.web.markup import Markup, link
from cody.web.names import SHORTEST, labels
from cody.web.shown import Shown, ShownEvent

TOWARDS, AGAINST, SLIGHT, UNKNOWN = "towards", "against", "slight", "unknown"
NOTICEABLE = 0.005  # in score: a smaller effect is drawn as negligible
REMOVED = "removed"
MOST_SHOWN = 3  # maximum number of counterfactuals, including those that were not verified separately


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


@dataclass(frozen=True)
class Facts:
    """Everything about one explanation that the page shows."""

    why: Shown

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

    def link(self, event: ShownEvent) -> Markup:
        return link(self.labels[event.src], self.labels[event.dst])

    def distance(self, event: ShownEvent) -> int:
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
        return [KnownChange(change, logit, scores(why.original, logit)[1]) for change, logit in answers.items()]

    @cached_property
    def answers(self) -> dict[tuple[int, ...], KnownChange]:
        return {known.change: known for known in self.known}

    def alone(self, number: int) -> KnownChange | None:
        """The evaluation of this candidate alone."""
        return self.answers.get((number,))

    def effect(self, number: int) -> str:
        """The effect of one candidate alone on the prediction."""
        known, original = self.alone(number), self.why.original
        if known is None:
            return UNKNOWN
        if abs(probability(known.logit) - probability(original)) < NOTICEABLE and not flips(original, known.logit):
            return SLIGHT
        return TOWARDS if shift(original, known.logit) > 0 else AGAINST

    @cached_property
    def strongest(self) -> float:
        """The largest effect of a single candidate on the logit."""
        moves = (abs(known.logit - self.why.original) for known in self.known if len(known.change) == 1)
        return max(moves, default=0.0)

    def strength(self, number: int) -> float:
        """The effect of one candidate alone on the logit, relative to the largest."""
        known = self.alone(number)
        if known is None or not 0 < self.strongest < float("inf"):
            return 0.0
        return abs(known.logit - self.why.original) / self.strongest

    @cached_property
    def states(self) -> list[NamedChange]:
        """What the page offers by name: nothing changed, the answer, the alternatives."""
        why = self.why
        states = [NamedChange("Nothing changed", (), True)]
        if why.rows:
            states.append(NamedChange(self.answer_name, self._numbers(why.rows), why.is_counterfactual))
        verified = [NamedChange("", self._numbers(other.rows), True) for other in why.alternatives]
        shown = {frozenset(state.change) for state in [*states, *verified]}
        flipping_sets = [
            self._numbers(rows) for rows in self._other_ways() if frozenset(self._numbers(rows)) not in shown
        ]
        others = verified + [
            NamedChange("", change, False) for change in flipping_sets[: max(0, MOST_SHOWN - len(verified))]
        ]
        kind = "Alternative" if why.rows else "Counterfactual"
        named = [state._replace(name=f"{kind} {place}") for place, state in enumerate(others, start=1)]
        return states + named

    @property
    def answer_name(self) -> str:
        if self.why.factual:
            return "The named events"
        return "The answer" if self.why.is_counterfactual else "The closest set"

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

    def before(self, event: ShownEvent) -> str:
        return earlier(event.time, self.why.query.time)

    def phrase(self, event: ShownEvent) -> str:
        """An event in words."""
        text = f"{self.labels[event.src]} → {self.labels[event.dst]}, {self.before(event)} before"
        return f"{text}, {event.carries}" if event.carries else text

    def edit(self, event: ShownEvent) -> str:
        """What it means to change this event."""
        kinds = {"added": "imagined", "moved": "moved to this time", "altered": "altered"}
        return kinds.get(event.edit, "")

    def beside(self, event: ShownEvent) -> str:
        """A remark shown next to an event."""
        return ", ".join(filter(None, [self.edit(event), f"{self.before(event)} before", event.carries]))

    def said_alone(self, number: int) -> str:
        """The prediction with only this candidate changed, in words."""
        known = self.alone(number)
        if known is None:
            return "not evaluated alone"
        return f"changed alone, the score is {known.score}: {decision(known.logit)}"

    @property
    def command(self) -> str:
        """The command that scores other sets, without the edits."""
        why, words = self.why, ["cody", "what-if"]
        for option in ("data", "model"):
            if isinstance(why.parameters.get(option), str):
                words += [f"--{option}", why.parameters[option]]
        if why.event is not None:
            return shlex.join([*words, "--event", str(why.event)])
        return shlex.join([*words, "--src", why.src, "--dst", why.dst, "--time", repr(why.query.time)])

    def option(self, event: ShownEvent) -> str:
        """An edit as an option of that command; empty for removals, which share one option."""
        if event.edit == "added":
            return shlex.join(["--add", shlex.join([event.src, event.dst, repr(event.time)])])
        return shlex.join(["--move", f"{event.replaces} {event.time!r}"]) if event.edit == "moved" else ""

    def when(self, event: ShownEvent) -> str:
        return moment(event.time)

    @property
    def past(self) -> str:
        return count(len(self.why.candidates), "event")
