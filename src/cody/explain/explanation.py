"""The answer: what would have had to be otherwise for this prediction to be another one?

An `Explanation` knows the names and times of all events it speaks of, so it can be read, stored and shown without the
graph and the model it came from.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from cody.errors import DataError
from cody.explain import document
from cody.graph import Query
from cody.models.contract import Change
from cody.models.decision import decision, flips, probability, scores
from cody.search.intrusion import Window
from cody.search.result import (
    ENDINGS,
    EVALUATIONS,
    ITERATIONS,
    SECONDS,
    Evaluated,
    distinct,
    flipping_sets,
    lower_bound,
)
from cody.utils.files import with_checksum
from cody.utils.words import (
    columns,
    count,
    earlier,
    heading_of_times,
    is_date,
    moment,
    moment_and_zone,
    padded,
    sanitize,
    to_json,
)

if TYPE_CHECKING:
    import pandas

SCHEMA = "cody/explanation/2"
LONGEST_ALTERNATIVE = 6  # lines that an alternative takes in a table
LONGEST_FAILURE = 8  # edits in a table of what came closest
MANY_SIMULTANEOUS = 0.1  # share of events of the very moment of the link that is remarked on
ONE_ACTION = (
    "If they are one action, such as a mail to many people, leave them out: --protect simultaneous (Python: "
    "Protected(simultaneous=True))."
)
REMOVED, ADDED, MOVED, ALTERED = "removed", "added", "moved", "altered"


class Event(NamedTuple):
    """What could be otherwise, with its nodes as the user calls them: an event that happened, or an imagined one."""

    row: int
    src: str
    dst: str
    time: float
    edit: str = REMOVED  # what a change that names it means: it is removed, added, moved here, or altered
    replaces: int | None = None  # the event that is moved or altered
    was: float | None = None  # when that one happened
    carries: str = ""  # its features in words, where they are few: "rating −10", or "rating −10 → 10" if it is altered

    def as_dict(self) -> dict[str, Any]:
        """As plain data. An event without features has nothing to say about them."""
        return {name: value for name, value in self._asdict().items() if name != "carries" or value}


class Neighbour(NamedTuple):
    """A node near the link, and how many events lie between them."""

    name: str
    hops: int


class Surroundings(NamedTuple):
    """What is shown around an answer: the nodes of the candidates, and events between them that are none."""

    nodes: tuple[Neighbour, ...]
    events: tuple[Event, ...]


class Confirmation(NamedTuple):
    """The decisive answers, computed once more, on their own, with nothing remembered."""

    by: str  # how, in words
    original: float  # logit with nothing otherwise
    without: float  # logit with the change


class Counterfactual(NamedTuple):
    """Another change that would have led to the other decision."""

    rows: tuple[int, ...]
    confirmed: Confirmation


class AnswerStep(NamedTuple):
    """One more row of the answer, and what the model says then."""

    event: Event
    logit: float | None  # None: there was no time to ask


class Line(NamedTuple):
    """One line of the table that shows an answer: one edit more, and what the model says then."""

    edit: str
    link: str
    when: str
    before: str
    logit: str
    score: str
    predicted: str


# What an explanation is about besides its candidates.
SOME_EVENTS = "some"  # other events could matter too
SEEN_EVENTS = "seen"  # no other event alone can matter: the candidates are all that the model sees
ALL_EVENTS = "all"  # no other event can matter, whatever happens to the candidates
SCOPES = (SOME_EVENTS, SEEN_EVENTS, ALL_EVENTS)


class Wider(NamedTuple):
    """A search among more events than the candidates, where none of these was found to flip the prediction."""

    events: int  # the candidates included
    evaluations: int  # besides those about the candidates


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """What an explainer found about one prediction. `print` shows it, `to_json` keeps it."""

    query: Query
    src: str  # the query's nodes as the user calls them
    dst: str
    event: int | None  # the row of the event, if the link is one that happened
    candidates: tuple[Event, ...]  # what could be otherwise, oldest first
    rows: tuple[int, ...]  # the answer, in the order in which the search put it together
    logits: tuple[float | None, ...]  # after 0, 1, … all of them; None: there was no time to ask
    ended: str  # why the search ended: a word of cody.search.result
    factual: bool  # the explainer names what speaks for the decision; it did not look for what would change it
    iterations: int
    evaluations: int  # distinct sets that the explainer asked the model about
    seconds: float  # for all of it but the confirmation
    confirmed: Confirmation | None  # None: nothing claims to change the decision, or there was no time
    without_all: float | None  # the logit with all candidates otherwise; None: confirmed, or no time
    parameters: dict[str, Any]  # what the explainer was given
    seed: int
    model: str  # identities of what it is about
    data: str
    explored: tuple[tuple[tuple[int, ...], float], ...] = ()  # every set asked about, and the answer
    alternatives: tuple[Counterfactual, ...] = ()  # other ways out, best first; none contains another
    window: Window | None = None  # when the one imagined event of the answer could have been, to the same effect
    surroundings: Surroundings | None = None  # None: in documents of others, and of before
    wider: Wider | None = None  # where else a counterfactual was looked for in vain; None: nowhere
    scope: str = SOME_EVENTS  # whether events that are no candidates could matter: one of the words above

    @property
    def original(self) -> float:
        """The logit with nothing otherwise."""
        assert self.logits[0] is not None  # it is always asked for, and documents are checked
        return self.logits[0]

    @property
    def without(self) -> float | None:
        """The logit with the whole answer."""
        return self.logits[-1]

    @property
    def change(self) -> Change:
        return frozenset(self.rows)

    @property
    def removed(self) -> tuple[int, ...]:
        """The events that did not happen in the answer; none if it names events without taking them away."""
        return () if self.factual else tuple(row for row in self.rows if self._events[row].edit == REMOVED)

    @property
    def imagined(self) -> tuple[int, ...]:
        """The imagined events that did."""
        return tuple(row for row in self.rows if self._events[row].edit != REMOVED)

    @property
    def is_counterfactual(self) -> bool:
        """Whether the decision changes with the answer; confirmed."""
        return self.confirmed is not None and flips(self.confirmed.original, self.confirmed.without)

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the search found a counterfactual that plain replay had no time for, or does not agree with."""
        changed = self.without is not None and flips(self.original, self.without)
        return changed and not self.is_counterfactual

    @property
    def counterfactuals(self) -> Evaluated:
        """All that the search met, with their logits, best first: fewest edits, then furthest; not all confirmed."""
        return flipping_sets({frozenset(rows): logit for rows, logit in self.explored})

    @property
    def proven(self) -> int:
        """Every set of fewer than so many candidates was tried, or has an event that alone does it.

        It follows from what was asked.
        """
        asked = {frozenset(rows) for rows, _ in self.explored}
        return lower_bound(asked, [event.row for event in self.candidates], dict(self.counterfactuals))

    @property
    def is_exhausted(self) -> bool:
        """Whether every set of candidates was tried."""
        return self.proven > len(self.candidates)

    @property
    def is_minimal(self) -> bool:
        """Whether it is certain that no smaller set of the candidates changes the decision."""
        smaller = any(len(change) < len(self.rows) for change, _ in self.counterfactuals)
        return self.is_counterfactual and not smaller and len(self.rows) <= self.proven

    @property
    def verdict(self) -> str:
        """What is known: a counterfactual, or that there is none, or only that none was found, or not looked for."""
        if self.is_counterfactual:
            return "counterfactual"
        if self.is_unconfirmed and not self.factual:
            return "not confirmed"
        if self.is_exhausted and not self.counterfactuals:  # a factual explainer may meet one and name other events
            return "none among the candidates"
        if self.factual:
            return "factual"
        return "none within the budget" if self.was_cut_short else "none found"

    @property
    def was_cut_short(self) -> bool:
        """Whether a budget ended the search: with a larger one it might have found a better answer."""
        return self.ended in (ITERATIONS, EVALUATIONS, SECONDS)

    @property
    def _events(self) -> dict[int, Event]:
        return {event.row: event for event in self.candidates}

    @property
    def steps(self) -> list[AnswerStep]:
        """The rows of the answer in order, each with the logit once it is otherwise too."""
        events = self._events
        return [AnswerStep(events[row], logit) for row, logit in zip(self.rows, self.logits[1:], strict=True)]

    @property
    def question(self) -> str:
        """The link, when, and what the model says about it."""
        name = "" if self.event is None else f"Event {self.event}, "
        said = f"{decision(self.original)} (score {scores(self.original)[0]})"
        when = moment(self.query.time) if self.rows else moment_and_zone(self.query.time)  # tables name the zone
        return f"{name}{_link(self.src, self.dst)}, {when}: the model says {said}."

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.is_counterfactual and not self.factual:
            return f"{capital(self._otherwise)} {self._moved}."
        if self.is_unconfirmed and not self.factual:
            return f"Not confirmed: {self._otherwise} {self._moved}."
        if not self.candidates:
            return "There are no past events near this link that could be taken away."
        if self.factual:
            named = f"{len(self.rows)} of {count(len(self.candidates), 'past event')}"
            effect = f"Without them {self._moved}." if self.rows and self._moved else ""
            return f"Named as important: {named}. {effect}".rstrip()
        return f"{self._none_found} {self._closest}"

    @property
    def _none_found(self) -> str:
        if self.counterfactuals:  # a search of one's own need not answer with one that it met
            return f"This is no counterfactual, though the search met {len(self.counterfactuals)}."
        if self.is_exhausted:
            where = "that can matter" if self.scope == ALL_EVENTS else "near this link"
            near = f"{count(len(self.candidates), 'past event')} {where}"
            edits = f"{count(len(self.candidates), 'edit')} that were considered"
            return f"No set of the {edits if self.allows_more else near} changes the decision.{self._none_wider}"
        evaluations = self.evaluations - (self.wider.evaluations if self.wider else 0)
        limit = {ITERATIONS: count(self.iterations, "iteration"), EVALUATIONS: count(evaluations, "evaluation")}
        within = f" within {limit.get(self.ended, f'{self.seconds:.2f} seconds')}" if self.was_cut_short else ""
        if self.wider is not None:  # this budget and this proof are those of the first search
            within = f" among {count(len(self.candidates), 'past event')}{within}"
        none = f"No counterfactual was found{within}; there may be one."
        if self.proven > 1:
            below = self._no_set_below(self.proven)
            none = f"No counterfactual was found{within}: {below}, but there may be one of more."
        return f"{none}{self._none_wider}"

    @property
    def _none_wider(self) -> str:
        """What the search among more events came to; empty if there was none."""
        if self.wider is None:
            return ""
        more = count(self.wider.evaluations, "more evaluation")
        return f" None was found among {count(self.wider.events, 'past event')} either, with {more}."

    @property
    def _closest(self) -> str:
        """What came closest to the other decision."""
        closest = "No set that was tried leads closer to one." if self.evaluations > 1 else "No set was tried."
        if self.rows:
            closest = f"Closest: {self._otherwise} {self._moved.partition(':')[0]}."
        if self.without_all is not None and not self.is_exhausted:
            everything = "With all edits together" if self.allows_more else f"Without all {len(self.candidates):,}"
            closest += f" {everything} it is {scores(self.without_all)[0]}."
        return closest

    @property
    def _otherwise(self) -> str:
        """The answer in words: what did not happen, and what did."""
        events = self._events
        past = sum(event.edit == REMOVED for event in self.candidates)
        return changed_in_words([events[row].edit for row in self.rows], past)

    @property
    def _moved(self) -> str:
        """What the answer does to the score and the decision; empty if nobody knows."""
        return "" if self.without is None else moved_in_words(self.original, self.without)

    @property
    def certainty(self) -> str:
        """How far a counterfactual can be trusted; empty if there is none."""
        if self.is_unconfirmed:
            return f"Not confirmed: {self._doubt}."
        if self.confirmed is None or not self.is_counterfactual:
            return ""
        smaller = "It did not look for the smallest such set." if self.factual else self._smaller
        alone = not self.factual and not self.alternatives and self.parameters.get("count") not in (None, 1)
        return f"Confirmed: {self.confirmed.by}. {smaller}{' No other way out was found.' if alone else ''}"

    @property
    def _smaller(self) -> str:
        """What is proven about sets that are smaller than the answer, and about others of its size."""
        size, proven = len(self.rows), self.proven
        smallest = min((len(change) for change, _ in self.counterfactuals), default=size)
        if smallest < size:  # a search of one's own need not answer with the smallest
            return f"A smaller set was met, of {count(smallest, self._thing)}."
        if not self.is_minimal and proven == 1:
            return "Smaller sets may exist."
        if not self.is_minimal:
            between = f"{proven}" if proven == size - 1 else f"{proven} to {size - 1}"
            return f"{capital(self._no_set_below(proven))}; a set of {between} may."
        smaller = "No set is smaller." if size == 1 else f"{capital(self._no_set_below(size))}."
        if proven == size:
            return smaller
        different = distinct(change for change, _ in self.counterfactuals if len(change) < proven)
        ways = len({frozenset(map(self._what, change)) for change in different})
        if proven == 2:
            others = f"{ways} {self._thing}s do" if ways > 1 else f"No other {self._thing} does"
            return f"{smaller} {others} it alone."
        most = f"of at most {min(proven - 1, len(self.candidates))} {self._thing}s"
        return f"{smaller} {f'There are {ways} such sets' if ways > 1 else 'It is the only such set'} {most}."

    def _what(self, row: int) -> tuple[int | str, ...]:
        """The same for imagined events that differ in time or features only: who met, or which event is another one."""
        event = self._events.get(row)  # None: in a document that somebody has changed
        if event is not None and event.replaces is not None:
            return "other", event.replaces
        return (REMOVED, row) if event is None or event.edit != ADDED else (ADDED, event.src, event.dst)

    def _no_set_below(self, size: int) -> str:
        """The claim that no set of fewer candidates changes the decision."""
        if size > 3:
            return f"no set of fewer than {size} {self._thing}s does it"
        seen = " that the model can see" if self.scope != SOME_EVENTS else ""
        return f"no single {self._thing}{seen} does it" if size == 2 else f"no single {self._thing} and no two do it"

    @property
    def _thing(self) -> str:
        """What the candidates are."""
        return "edit" if self.allows_more else "event"

    @property
    def _doubt(self) -> str:
        """Why a counterfactual that was found is not confirmed."""
        if self.confirmed is None:
            return "there was no time left for it; allow more seconds"
        return f"{self.confirmed.by}, the logit is {self.confirmed.without:.5f}, which changes nothing"

    @property
    def effort(self) -> str:
        """What was tried, and whether there was more to try."""
        cut = " when the budget ran out" if self.was_cut_short else ""
        how = " by estimates, and what they pointed to exactly," if self.parameters.get("estimates") else ""
        return f"{count(self.evaluations, 'set')} of events tried{how} in {self.seconds:.2f} s{cut}."

    @property
    def allows_more(self) -> bool:
        """Whether more than removals was considered."""
        return any(event.edit != REMOVED for event in self.candidates)

    @property
    def considered(self) -> str:
        """Which kinds of edits were considered, and how many; empty if only removals were."""
        kinds = {REMOVED: "removal", ADDED: "addition", MOVED: "move", ALTERED: "alteration"}
        number = {edit: sum(event.edit == edit for event in self.candidates) for edit in kinds}
        parts = [count(number[edit], kind) for edit, kind in kinds.items() if number[edit]]
        return f"Considered: {', '.join(parts)}." if self.allows_more else ""

    @property
    def leeway(self) -> str:
        """When the one imagined event of the answer could have been; exactly what was asked. Empty if nothing was."""
        if self.window is None or not self.is_counterfactual or len(self.rows) != 1:
            return ""
        event = self._events[self.rows[0]]
        first, last, tried, fails = self.window
        when = f"from {moment(first)} to {moment(last)}"
        if event.replaces is None and self._is_latest(last):
            when = f"since {moment(first)}"
        when = f"at each of {tried} times tried {when}" if tried > 1 else f"at {moment(first)}"
        what = _link(event.src, event.dst) if event.replaces is None else f"Event {event.replaces}"
        if fails is not None:
            return f"{what} would have done {when}; at {moment(fails)} it would not."
        return f"{what} would have done {when}." + (" Older ones were not tried." if event.replaces is None else "")

    def _is_latest(self, time: float) -> bool:
        """Whether what was tried reaches up to the question: to the last minute, or hundredth of the way."""
        first = time if self.window is None else self.window.first
        return self.query.time - time <= max(60.0 * is_date(time), 0.01 * (self.query.time - first))

    @property
    def simultaneity(self) -> str:
        """What to do where many candidates, or the decisive ones, are of the very moment of the link; else empty."""
        past = [event for event in self.candidates if event.edit == REMOVED]
        same = {event.row for event in past if event.time == self.query.time}
        decisive = [row in same for row in self.removed] if self.is_counterfactual else []
        if not same or (len(same) < MANY_SIMULTANEOUS * len(past) and 2 * sum(decisive) <= len(decisive)):
            return ""
        among = f", {sum(decisive)} of {count(len(decisive), 'decisive one')} among them" if any(decisive) else ""
        share = f"{len(same)} of {count(len(past), 'past event')}"
        return f"{share} happened at the very moment of the link{among}. {ONE_ACTION}"

    @property
    def protection(self) -> str:
        """What was not allowed to be removed; empty if everything was."""
        return protected_in_words(self.parameters.get("protect"))

    @property
    def lines(self) -> list[Line]:
        """The table that every form of this answer shows: nothing otherwise, then one edit more in each line."""
        written = scores(*self.logits)
        said = [("–", "–") if logit is None else (f"{logit:.3f}", decision(logit)) for logit in self.logits]
        lines = [Line("(none)", "", "", "", said[0][0], written[0], said[0][1])]
        for number, (event, score, (logit, predicted)) in enumerate(
            zip((event for event, _ in self.steps), written[1:], said[1:], strict=True)
        ):
            name = f"{'+ ' if number else ''}{_edit(event)}"
            times = moment(event.time), earlier(event.time, self.query.time)
            lines.append(Line(name, _link_and_features(event), *times, logit, score, predicted))
        more = len(self.rows) - LONGEST_FAILURE
        if more > 1 and self.confirmed is None:  # of what does not change the decision, nobody needs to know all
            lines[-more:] = [lines[-1]._replace(edit=f"+ {more} more", link="", when="", before="")]
        return lines

    @property
    def other_lines(self) -> list[Line]:
        """The table of the alternatives: the events of each, and in its last line what the model says then."""
        events = self._events
        lines: list[Line] = []
        for other in self.alternatives:
            lines += [Line("", "", "", "", "", "", "")] * bool(lines)
            logit = other.confirmed.without
            said = (f"{logit:.3f}", scores(self.original, logit)[1], decision(logit))
            shown = other.rows if len(other.rows) <= LONGEST_ALTERNATIVE else other.rows[: LONGEST_ALTERNATIVE - 1]
            for number, row in enumerate(shown):
                event, is_last = events[row], number == len(other.rows) - 1
                times = moment(event.time), earlier(event.time, self.query.time)
                name = f"{'+ ' if number else ''}{_edit(event)}"
                lines.append(Line(name, _link_and_features(event), *times, *(said if is_last else ("", "", ""))))
            if len(shown) < len(other.rows):
                lines.append(Line(f"+ {len(other.rows) - len(shown)} more", "", "", "", *said))
        return lines

    @property
    def other_heading(self) -> str:
        """What the first column of the table of alternatives lists."""
        events = self._events
        others = [events[row].edit for other in self.alternatives for row in other.rows]
        return "or without" if set(others) <= {REMOVED} else "or otherwise"

    @property
    def heading(self) -> str:
        """What the first column of the table lists."""
        if self.factual:
            return "named"
        return "otherwise" if self.imagined else "without"

    def to_frame(self) -> pandas.DataFrame:
        """The answer as a table: one row for each edit, in order, with what the model says once it is made too.

        Times are dates (UTC) and durations where the log has dates, else numbers. Where events have few features, a
        column has them in words.
        """
        import pandas

        rows = [
            {
                "event": event.row,
                "edit": event.edit,
                "src": event.src,
                "dst": event.dst,
                "time": event.time,
                "before": self.query.time - event.time,
                "logit": logit,
                "score": None if logit is None else probability(logit),
                "predicted": None if logit is None else logit > 0,
                "features": event.carries,
            }
            for event, logit in self.steps
        ]
        columns = ["event", "edit", "src", "dst", "time", "before", "logit", "score", "predicted"]
        with_features = ["features"] * any(event.carries for event in self.candidates)
        frame = pandas.DataFrame(rows, columns=columns + with_features)
        if rows and all(map(is_date, [self.query.time, *frame["time"]])):
            frame["time"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
            frame["before"] = pandas.to_timedelta(frame["before"], unit="s")
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        written: dict[str, Any] = {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "is_counterfactual": self.is_counterfactual,
            "is_minimal": self.is_minimal,
            "proven": self.proven,
            "sentence": self.sentence,
            "remarks": [remark for remark in (self.simultaneity,) if remark],
        }
        written |= {field.name: getattr(self, field.name) for field in fields(self)}
        written["query"] = self.query._asdict()
        written["candidates"] = [event.as_dict() for event in self.candidates]
        written["window"] = None if self.window is None else self.window._asdict()
        written["wider"] = None if self.wider is None else self.wider._asdict()
        written["confirmed"] = None if self.confirmed is None else self.confirmed._asdict()
        written["alternatives"] = [
            {"rows": other.rows, "confirmed": other.confirmed._asdict()} for other in self.alternatives
        ]
        if self.surroundings is not None:
            nodes, events = self.surroundings
            written["surroundings"] = {
                "nodes": [node._asdict() for node in nodes],
                "events": [event.as_dict() for event in events],
            }
        return with_checksum(written)

    def to_json(self) -> str:
        """One line of JSON, with the version of its form. Unprintable characters are escapes."""
        return to_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """What `to_json` wrote."""
        try:
            read = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"this is not an explanation: not JSON ({error})") from None
        return cls.from_dict(read)

    @classmethod
    def from_dict(cls, written: Any) -> Explanation:
        """What `to_dict` made, also in its first form."""
        try:
            known = document.upgraded(written, SCHEMA)
            made = cls(**{name: document.read_field(READERS, name, known[name]) for name in READERS})
            _check(made)
        except KeyError as error:
            raise DataError(f"this explanation is damaged: {error} is missing") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"this explanation is damaged: {error}") from None
        return made

    def __repr__(self) -> str:
        before, after = scores(self.original, self.without)
        share = f"{len(self.rows)} of {len(self.candidates)} events {'named' if self.factual else 'otherwise'}"
        return f"Explanation({_link(self.src, self.dst)}: {self.verdict}, {share}, score {before} → {after})"

    def __str__(self) -> str:
        table = _aligned([self._titles, *self.lines]) if self.rows else []
        if self.alternatives:
            table += _aligned([Line(self.other_heading, *self.headings), *self.other_lines])
        return "\n".join(part for part in [self.question, self.sentence, *table, *self._notes] if part)

    @property
    def _notes(self) -> tuple[str, ...]:
        """What stands below the table; some of them are empty."""
        return self.leeway, self.certainty, self.effort, self.considered, self.protection, self.simultaneity

    @property
    def _titles(self) -> Line:
        return Line(self.heading, *self.headings)

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the other columns of both tables."""
        return ("link", heading_of_times(self.query.time), "before", "logit", "score", "predicted")

    def to_html(self) -> str:
        """A page that shows all of it, in one file: events can be switched off and on. It asks nobody for anything."""
        from cody import web as view  # whoever wants no page need not wait for it

        return view.page(self)

    def _repr_html_(self) -> str:
        """The page in a notebook, and the sentence and the difference it makes as a plain table."""
        from cody import web as view

        return view.frame(self, "".join(self._html()))

    def _html(self) -> Iterator[str]:
        yield f"<p>{html.escape(self.question)}</p><p><b>{html.escape(self.sentence)}</b></p>"
        if self.rows:
            yield "<table><thead>" + _row(*self._titles, tag="th") + "</thead><tbody>"
            yield from (_row(*line) for line in self.lines)
            yield "</tbody></table>"
        if self.alternatives:
            yield "<table><thead>" + _row(self.other_heading, *self.headings, tag="th") + "</thead><tbody>"
            yield from (_row(*line) for line in self.other_lines)
            yield "</tbody></table>"
        yield f"<p><small>{html.escape(' '.join(part for part in self._notes if part))}</small></p>"


NUMBERS = {0, 4, 5}  # columns of the table


def _edit(event: Event) -> str:
    """What is otherwise, as a table names it."""
    named = event.row if event.replaces is None else event.replaces
    return {REMOVED: f"{named}", ADDED: "added", MOVED: f"{named} moved", ALTERED: f"{named} altered"}[event.edit]


def changed_in_words(edits: Sequence[str], past: int) -> str:
    """What is otherwise, each edit named by its kind: what did not happen, of so many past events, and what did.

    >>> changed_in_words([REMOVED, ADDED], 64)
    'without 1 of 64 past events and with 1 event more'
    """
    parts = {
        REMOVED: "without {} of " + count(past, "past event"),
        ADDED: "with {} more",
        MOVED: "with {} at another time",
        ALTERED: "with {} altered",
    }
    numbers = {edit: edits.count(edit) for edit in parts}
    said = {edit: f"{number}" if edit == REMOVED else count(number, "event") for edit, number in numbers.items()}
    return " and ".join(words.format(said[edit]) for edit, words in parts.items() if numbers[edit])


def protected_in_words(protected: dict[str, Any] | None) -> str:
    """What was not allowed to be removed, from the parameters of an explanation; empty if everything was.

    >>> protected_in_words({"events": [3, 7], "simultaneous": True})
    'Protected: events of the moment of the link; events 3, 7.'
    """
    given = protected or {}
    parts = ["events of the moment of the link"] if given.get("simultaneous") else []
    for name, thing in (("events", "event"), ("nodes", "node"), ("times", "time")):
        entries = given.get(name, [])
        shown = [" to ".join(map(moment, entry)) if name == "times" else sanitize(entry, 24) for entry in entries[:4]]
        if shown:
            more = f" and {len(entries) - 4} more" if len(entries) > 4 else ""
            parts.append(f"{thing if len(entries) == 1 else name} {', '.join(shown)}{more}")
    return f"Protected: {'; '.join(parts)}." if parts else ""


def moved_in_words(first: float, last: float) -> str:
    """What becomes of the score and the decision, from one logit to another.

    >>> moved_in_words(2.448, -2.73)
    'the score falls from 0.92 to 0.06: no link'
    """
    before, after = scores(first, last)
    moved = f"{_direction(first, last)} from {before} to {after}"
    if before == after:
        by = "" if first == last else f" (its logit {_direction(first, last)} from {first:.3f} to {last:.3f})"
        moved = f"stays at {before}{by}"
    return f"the score {moved}: {'' if flips(first, last) else 'still '}{decision(last)}"


def _direction(first: float, last: float) -> str:
    return "falls" if last < first else "rises"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _aligned(lines: list[Line]) -> list[str]:
    """A table as plain text."""
    widths = [max(columns(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            padded(cell, width, right=column in NUMBERS)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _row(*cells: str, tag: str = "td") -> str:
    sides = ["right" if column in NUMBERS else "left" for column in range(len(cells))]
    style = "padding: 0.1em 0.8em; text-align: {}"
    made = (
        f'<{tag} style="{style.format(side)}">{html.escape(cell)}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(made)}</tr>"


def _check(made: Explanation) -> None:
    """Refuse a document whose parts do not belong together."""
    if len(set(made.rows)) < len(made.rows) or len(made.logits) != len(made.rows) + 1:
        raise ValueError("the rows of the answer and their logits do not belong together")
    if made.logits[0] is None:
        raise ValueError("the logit with nothing otherwise is missing")
    known = {event.row for event in made.candidates}
    if len(known) < len(made.candidates):
        raise ValueError("an event stands twice among the candidates")
    for rows in (made.rows, *(other.rows for other in made.alternatives)):
        if not known.issuperset(rows):
            raise ValueError(f"{min(set(rows) - known)} is not the row of a candidate")


def _link_and_features(event: Event) -> str:
    """The nodes of an event as a table has them, and what it carries."""
    named = _link(event.src, event.dst, 14)
    return f"{named}, {sanitize(event.carries)}" if event.carries else named


def _link(src: str, dst: str, width: int = 24) -> str:
    return f"{sanitize(src, width)} → {sanitize(dst, width)}"


EVENT = document.named_tuple(Event, edit=document.one_of(REMOVED, ADDED, MOVED, ALTERED))

READERS: document.Readers = {
    "query": document.named_tuple(Query),
    "src": document.text,
    "dst": document.text,
    "event": document.or_none(document.row_number),
    "candidates": document.tuple_of(EVENT),
    "rows": document.tuple_of(document.row_number),
    "logits": document.tuple_of(document.or_none(document.finite)),
    "ended": document.one_of(*ENDINGS),
    "factual": document.flag,
    "iterations": document.row_number,
    "evaluations": document.row_number,
    "seconds": document.finite,
    "confirmed": document.or_none(document.named_tuple(Confirmation)),
    "without_all": document.or_none(document.finite),
    "parameters": document.parameters,
    "seed": document.seed,
    "model": document.text,
    "data": document.text,
    "explored": document.tuple_of(document.pair(document.tuple_of(document.row_number), document.finite)),
    "window": document.or_none(document.named_tuple(Window)),
    "wider": document.or_none(document.named_tuple(Wider)),
    "scope": document.one_of(*SCOPES),
    "alternatives": document.tuple_of(
        document.named_tuple(
            Counterfactual, rows=document.tuple_of(document.row_number), confirmed=document.named_tuple(Confirmation)
        )
    ),
    "surroundings": document.or_none(
        document.named_tuple(
            Surroundings,
            nodes=document.tuple_of(document.named_tuple(Neighbour)),
            events=document.tuple_of(EVENT),
        )
    ),
}
