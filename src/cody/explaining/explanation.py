"""The answer: the smallest change to the history that flips this prediction, and how it was found and verified.

An `Explanation` knows the names and times of all events it speaks of, so it can be read, stored and shown without the
graph and the model it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cody.explaining import unit_words, wording
from cody.explaining.advice import NextStep, next_steps
from cody.explaining.reason import edits, reason
from cody.graph import Query
from cody.graph.edits import ADDED as ADDED  # documents name edits by these words
from cody.graph.edits import ALTERED as ALTERED
from cody.graph.edits import MOVED as MOVED
from cody.graph.edits import REMOVED as REMOVED
from cody.models.contract import Change
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import Decision, Standing, State
from cody.models.margins import flips
from cody.search.daily import DailyLimit, daily_limit
from cody.search.result import BUDGETS, Evaluated, Wider, Window, distinct, flipping_sets, lower_bound
from cody.utils.words import to_json

if TYPE_CHECKING:
    import networkx
    from matplotlib.figure import Figure
    from torch_geometric.explain import Explanation as PygExplanation


class Event(NamedTuple):
    """What could change, with its nodes as the user calls them: an event that happened, or an imagined one."""

    row: int
    src: str
    dst: str
    time: float
    edit: str = REMOVED  # what a change that names it means: it is removed, added, moved here, or altered
    replaces: int | None = None  # the event that is moved or altered
    was: float | None = None  # when that one happened
    carries: str = ""  # its features in words, where they are few: "rating −10", or "rating −10 → 10" if it is altered
    features: tuple[float, ...] | None = None  # of an added or altered event, where events have some

    @property
    def affected(self) -> int | None:
        """The event of the log that is removed, moved or altered; None if this one is added."""
        return self.row if self.edit == REMOVED else self.replaces


class Neighbour(NamedTuple):
    """A node near the link, and how many events lie between them."""

    name: str
    hops: int


class Surroundings(NamedTuple):
    """What is shown around an answer: the nodes of the candidates, and events between them that are not candidates."""

    nodes: tuple[Neighbour, ...]
    events: tuple[Event, ...]


class Verification(NamedTuple):
    """The decisive answers, computed once more, on their own, with nothing remembered."""

    by: str  # how, in words
    original: float  # logit with nothing changed
    without: float  # logit with the change


class Counterfactual(NamedTuple):
    """Another change that would have led to the other decision."""

    rows: tuple[int, ...]
    verification: Verification
    standing: Standing | None = None  # what lies behind the margin, where the margin does not say it all


class ChangedUnit(NamedTuple):
    """Events that change together, and the candidate that stands for them."""

    row: int  # of the candidate
    name: str  # in words; empty: an event, with what depends on it
    rows: tuple[int, ...]  # its events before the link, ascending
    dependants: tuple[int, ...]  # what goes along with them by a rule
    first: float  # when its first and its last event happened
    last: float

    @property
    def change(self) -> Change:
        """All events that change with it."""
        return frozenset(self.rows + self.dependants)


class WholeUnit(NamedTuple):
    """A unit that most events of an answer belong to, and what is decided without all of it."""

    name: str
    rows: tuple[int, ...]  # its events before the link, ascending
    shared: int  # how many of them the answer has
    logit: float  # without all of them, by the reference
    by: str  # how it was computed, in words


class EventShares(NamedTuple):
    """What each candidate adds to the margin, so that base and values add up to the margin with nothing changed.

    "attention" is another kind: the share of each candidate in what the model attends to.
    """

    name: Literal["shapley", "owen", "attention"]  # of the values
    base: float  # the margin without any candidate; 0 where they do not add up
    rows: tuple[int, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]  # half of the interval of 95 %; 0 where a value is exact

    @property
    def adds_up(self) -> bool:
        """Whether base and values add up to the margin."""
        return self.name != "attention"


class Elsewhere(NamedTuple):
    """What another model, or this one under noise, decides with nothing changed and with each counterfactual."""

    name: str
    model: str  # its identity; empty: it is the explained model under noise
    original: float  # margin with nothing changed
    without: tuple[float, ...]  # with the answer, then with each alternative

    def agrees_with(self, original: float) -> bool:
        """Whether it decides the same with nothing changed."""
        return not flips(original, self.original)

    def holds(self, number: int) -> bool:
        """Whether a counterfactual flips its decision: 0 is the answer, 1 the first alternative."""
        return flips(self.original, self.without[number])


class Recourse(NamedTuple):
    """The question about a node that could add events from one moment on, until the time of the link."""

    actor: str  # name of the node
    since: float  # the moment
    event: int | None  # the row of the event that the link was then, if it is one that happened
    now: float  # the margin at that moment
    keep: bool  # the decision of that moment is to be kept; else the other one is wanted

    def is_met_by(self, margin: float) -> bool:
        """Whether what is wanted is decided with that margin."""
        return flips(self.now, margin) != self.keep


class AnswerStep(NamedTuple):
    """One more row of the answer, and the logit then."""

    event: Event
    logit: float | None  # None: there was no time to compute it


# Scores of further changes, as many as can be computed within some seconds.
Rescore = Callable[[Sequence[Change], float], dict[Change, float]]

# What an explanation is about besides its candidates.
SOME_EVENTS = "some"  # other events could matter too
SEEN_EVENTS = "seen"  # no other event alone can matter: the candidates are all that the model sees
ALL_EVENTS = "all"  # no other event can matter, whatever happens to the candidates


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """What an explainer found about one prediction. `print` shows it, `to_json` writes it."""

    query: Query
    src: str  # the query's nodes as the user calls them
    dst: str
    event: int | None  # the row of the event, if the link is one that happened
    candidates: tuple[Event, ...]  # what could change, oldest first
    rows: tuple[int, ...]  # the answer, in the order in which the search put it together
    logits: tuple[float | None, ...]  # after 0, 1, … all of them; None: there was no time to compute it
    ended: str  # why the search ended: a word of cody.search.result
    factual: bool  # the explainer names what supports the decision; it did not search for what flips it
    iterations: int
    evaluations: int  # distinct sets that the model scored
    seconds: float  # without the verification
    verification: Verification | None  # None: nothing claims to change the decision, or there was no time
    without_all: float | None  # the logit with all candidates changed; None: verified, or no time
    parameters: dict[str, Any]  # what the explainer was given
    seed: int
    model: str  # identities of what it is about
    data: str
    evaluated: tuple[tuple[tuple[int, ...], float], ...] = ()  # every set that was scored, with its logit
    alternatives: tuple[Counterfactual, ...] = ()  # other counterfactuals, best first; none contains another
    window: Window | None = None  # when the one imagined event of the answer could have been, to the same effect
    surroundings: Surroundings | None = None  # None: in documents that other programs or 0.1 wrote
    wider: Wider | None = None  # a larger set of candidates that was searched without success
    scope: str = SOME_EVENTS  # whether events that are no candidates could matter: one of the words above
    decision: Decision = LINK_PREDICTED  # what flips; the logits of this explanation are its margins
    standings: tuple[Standing | None, ...] = ()  # what lies behind each margin, where the margin does not say it all
    subject: str = "link"  # what is decided on: a link, or an event or node that is labelled
    event_name: str = "event"  # what the data call one event: a message, a payment
    label: str | None = None  # of the event in the log, where a label is predicted; the model did not see it
    unit_name: str = ""  # what the candidates are, where each stands for several events: a conversation, a day
    units: tuple[ChangedUnit, ...] = ()  # what candidates stand for; those that are not here stand for themselves
    unit_events: tuple[Event, ...] = ()  # the latest events of the units that are reported
    literal: float | None = None  # with dependants: the logit without the events of the answer alone
    whole: WholeUnit | None = None  # the unit that the answer nearly is; None: it is none, or units were searched
    elsewhere: tuple[Elsewhere, ...] = ()  # other models, and this one under noise; empty: not tested
    shares: EventShares | None = None  # what each candidate adds to the margin; None: not computed
    recourse: Recourse | None = None  # what a node could still do; None: what could have been different
    rescore: Rescore | None = field(default=None, compare=False)  # while the model is here; not part of the document

    def __getstate__(self) -> list[Any]:
        """What another process gets: everything but the model."""
        return [None if each.name == "rescore" else getattr(self, each.name) for each in fields(self)]

    @property
    def original(self) -> float:
        """The logit with nothing changed."""
        assert self.logits[0] is not None  # it is always computed, and documents are checked
        return self.logits[0]

    @property
    def without(self) -> float | None:
        """The logit with the whole answer."""
        return self.logits[-1]

    @property
    def states(self) -> tuple[State, ...]:
        """The decision with nothing changed, and after each edit of the answer."""
        standings = self.standings or (None,) * len(self.logits)
        return tuple(map(State, self.logits, standings))

    @property
    def outcome(self) -> str:
        """What the model decides with nothing changed, in a few words."""
        return self.decision.outcome(self.original)

    @property
    def change(self) -> Change:
        """The rows that the answer changes, all those of its units."""
        return self.change_of(self.rows)

    def change_of(self, rows: Iterable[int]) -> Change:
        """The rows that change where these candidates do: themselves, or all events of their units."""
        units = {unit.row: unit.change for unit in self.units}
        return frozenset().union(*(units.get(row, (row,)) for row in rows))

    @property
    def along(self) -> Change:
        """The events that go along with the answer by a rule, and are not events of its units."""
        units = [unit for unit in self.units if unit.row in self.rows]
        along = frozenset[int]().union(*(unit.dependants for unit in units))
        return along.difference(*(unit.rows for unit in units))

    def unit(self, row: int) -> ChangedUnit | None:
        """What the candidate of that row stands for; None: for itself."""
        return next((unit for unit in self.units if unit.row == row), None)

    @property
    def removed(self) -> tuple[int, ...]:
        """The events that the answer removes; none if it names events without removing them."""
        if self.factual:
            return ()
        removed = tuple(row for row in self.rows if self.candidate(row).edit == REMOVED)
        return tuple(sorted(self.change_of(removed))) if self.units else removed

    @property
    def imagined(self) -> tuple[int, ...]:
        """The imagined events of the answer: added, moved or altered ones."""
        return tuple(row for row in self.rows if self.candidate(row).edit != REMOVED)

    @property
    def is_counterfactual(self) -> bool:
        """Whether the decision changes with the answer; verified."""
        return self.verification is not None and flips(self.verification.original, self.verification.without)

    @property
    def is_unverified(self) -> bool:
        """Whether the search found a counterfactual that the reference had no time to verify, or disagrees with."""
        changed = self.without is not None and flips(self.original, self.without)
        return changed and not self.is_counterfactual

    @property
    def counterfactuals(self) -> Evaluated:
        """All that the search found, with their logits, best first: fewest edits, then furthest; not all verified."""
        return flipping_sets({frozenset(rows): logit for rows, logit in self.evaluated})

    @property
    def proven(self) -> int:
        """A size: every smaller set of candidates was evaluated, or contains an event that flips it alone.

        It follows from the sets that were evaluated.
        """
        sets = {frozenset(rows) for rows, _ in self.evaluated}
        rows = [event.row for event in self.candidates]
        return lower_bound(sets, rows, dict(self.counterfactuals), self.daily_limit)

    @property
    def daily_limit(self) -> DailyLimit | None:
        """How many events of one day may change together; None: all of them."""
        given = self.parameters.get("per_day")
        if given is None:
            return None
        return daily_limit(given["most"], given["zone"], ((event.row, event.time) for event in self.candidates))

    @property
    def is_exhausted(self) -> bool:
        """Whether every set of candidates was evaluated."""
        return self.proven > len(self.candidates)

    @property
    def is_minimal(self) -> bool:
        """Whether it is certain that no smaller set of the candidates changes the decision."""
        smaller = any(len(change) < len(self.rows) for change, _ in self.counterfactuals)
        return self.is_counterfactual and not smaller and len(self.rows) <= self.proven

    @property
    def smallest_found(self) -> int | None:
        """The size of the smallest set that flips the prediction; None if none was found."""
        return min((len(change) for change, _ in self.counterfactuals), default=None)

    def distinct_below(self, size: int) -> int:
        """How many sets of fewer edits flip the prediction, none containing another.

        Imagined events that differ in time or features only count once.
        """
        return len({frozenset(map(self._what, change)) for change in self._flipping_below(size)})

    def flips_at_other_times(self, size: int) -> bool:
        """Whether some of these sets differ in times or features of imagined events only."""
        return self.distinct_below(size) < len(self._flipping_below(size))

    def _flipping_below(self, size: int) -> list[frozenset[int]]:
        """Sets of fewer edits that flip the prediction, none containing another."""
        return distinct(change for change, _ in self.counterfactuals if len(change) < size)

    def _what(self, row: int) -> tuple[int | str, ...]:
        """The same for imagined events that differ in time or features only: their nodes, or the event they replace."""
        event = self._by_row.get(row)  # None: in a document that somebody has changed
        if event is not None and event.replaces is not None:
            return "other", event.replaces
        return (REMOVED, row) if event is None or event.edit != ADDED else (ADDED, event.src, event.dst)

    @property
    def has_all_seen_events(self) -> bool:
        """Whether no event that is not a candidate can matter alone."""
        return self.scope != SOME_EVENTS

    @property
    def has_all_events(self) -> bool:
        """Whether no event that is not a candidate can matter at all."""
        return self.scope == ALL_EVENTS

    @property
    def verdict(self) -> str:
        """What is known: a counterfactual, or that there is none, or only that none was found, or not looked for."""
        if self.is_counterfactual:
            return "counterfactual"
        if self.is_unverified and not self.factual:
            return "not verified"
        if self.is_settled:
            return "nothing needed"
        if self.is_exhausted and not self.counterfactuals:  # a factual explainer may meet one and name other events
            return "none among the candidates"
        if self.factual:
            return "factual"
        return "none within the budget" if self.was_cut_short else "none found"

    @property
    def is_settled(self) -> bool:
        """Whether time alone leads to what is wanted, so that the node need not do anything."""
        return self.recourse is not None and self.recourse.is_met_by(self.original)

    @property
    def was_cut_short(self) -> bool:
        """Whether a budget ended the search: with a larger one it might have found a better answer."""
        return self.ended in BUDGETS

    def candidate(self, row: int) -> Event:
        """The candidate of that row."""
        return self._by_row[row]

    @property
    def _by_row(self) -> dict[int, Event]:
        return {event.row: event for event in self.candidates}

    @property
    def steps(self) -> list[AnswerStep]:
        """The rows of the answer in order, each with the logit once it is changed too."""
        events = self._by_row
        return [AnswerStep(events[row], logit) for row, logit in zip(self.rows, self.logits[1:], strict=True)]

    @property
    def allows_more(self) -> bool:
        """Whether more than removals was considered."""
        return any(event.edit != REMOVED for event in self.candidates)

    @property
    def simultaneous(self) -> frozenset[int]:
        """The past events among the candidates that happened at the very time of the link."""
        past = (event for event in self.candidates if event.edit == REMOVED)
        return frozenset(event.row for event in past if event.time == self.query.time)

    @property
    def question(self) -> str:
        """The link, when, and the model's prediction."""
        return wording.question(self)

    @property
    def reason(self) -> str:
        """What the answer comes down to, in a sentence or two: who, when, and whether it works only together."""
        return reason(self)

    def edits_of(self, rows: Sequence[int]) -> str:
        """What is different with these candidates changed, in words: "without 9 messages between 105 and 3 others"."""
        return edits(self, rows)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return wording.sentence(self)

    @property
    def certainty(self) -> str:
        """How far a counterfactual can be trusted; empty if there is none."""
        return wording.certainty(self)

    @property
    def stability(self) -> str:
        """In how many models the answer holds, and whether it does under noise; empty if that was not tested."""
        return wording.stability(self)

    @property
    def togetherness(self) -> str:
        """What goes along with the answer by a rule, and which unit it nearly is; empty if nothing and none."""
        return unit_words.togetherness(self)

    @property
    def next_steps(self) -> list[NextStep]:
        """Options of `cody explain` to try next; none if an answer was found, or there is none."""
        return next_steps(self)

    @property
    def leeway(self) -> str:
        """At which times the one imagined event of the answer also flips the prediction; empty if none was tested."""
        return wording.leeway(self)

    @property
    def effort(self) -> str:
        """How many sets were evaluated, and whether a budget ended it."""
        return wording.effort(self)

    @property
    def considered(self) -> str:
        """Which kinds of edits were considered, and how many; empty if only removals were."""
        return wording.considered(self)

    @property
    def protection(self) -> str:
        """What was not allowed to be removed; empty if everything was."""
        return wording.protection(self)

    @property
    def simultaneity(self) -> str:
        """What to do where many candidates, or the decisive ones, are of the very moment of the link; else empty."""
        return wording.simultaneity(self)

    def to_frame(self, kind: str = "pandas") -> Any:
        """The answer as a table: one row for each edit, in order, with the prediction once it is made too.

        Times are dates (UTC) and durations where the log has dates, else numbers. Where events have few features, a
        column has them in words.

        Args:
            kind: "pandas", "polars" or "arrow".
        """
        from cody.explaining.export import to_frame

        return to_frame(self, kind)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The events that the explanation knows as a NetworkX graph; the key of an edge is the row of its event.

        Edges have `time`, `role` (`answer`, `candidate`, `context`, or `query` for the explained link, key -1), `edit`
        (what the change does: `removed`, `added`, `moved`, `altered`) and, where it was evaluated, `effect`: how far
        changing this one alone moves the logit or margin.
        """
        from cody.explaining.export import to_networkx

        return to_networkx(self)

    def to_cypher(self) -> str:
        """Statements that create the events that the explanation knows in a graph database (Neo4j, Memgraph).

        Nodes are `(:Node {name})`, events `[:EVENT {row, role, time, edit, effect}]`, as in `to_networkx`.
        """
        from cody.explaining.export import to_cypher

        return to_cypher(self)

    def to_pyg(self, data: Any = None) -> PygExplanation:
        """The explanation as one of PyTorch Geometric: `edge_mask` and `node_mask` are 1 where the answer is.

        Args:
            data: The `TemporalData` that the graph was made of: its nodes and all of its events are then numbered as
                they are there. By default, the events that the explanation knows, with `node_names` and `event`, the
                row of each edge.
        """
        from cody.explaining.export import to_pyg

        return to_pyg(self, data)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, in the form that `cody.explaining.document` defines."""
        from cody.explaining.document import document_of  # whoever only looks at an answer need not wait for it
        from cody.utils.forms import as_plain

        return as_plain(document_of(self))

    def to_json(self) -> str:
        """One line of JSON, with the version of its form. Unprintable characters are escapes."""
        return to_json(self.to_dict(), compact=True)

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """What `to_json` wrote. A line of an evaluation is read, too, and a document that CoDy 0.2 wrote."""
        from cody.explaining.document import from_text

        return from_text(text)

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> Explanation:
        """What `to_dict` made."""
        from cody.explaining.document import from_plain

        return from_plain(written)

    def __repr__(self) -> str:
        return wording.short(self)

    def __str__(self) -> str:
        return wording.text(self)

    def to_html(self) -> str:
        """A page that shows all of it, in one self-contained file: events can be switched off and on.

        If the model is still here, what every first click leads to is computed now and stored in the page.
        """
        from cody import web as view  # whoever wants no page need not wait for it

        return view.page(self)

    def figure(self, width: float = 3.3) -> Figure:
        """The timeline as a matplotlib figure for papers and slides, with the lanes that matter.

        Args:
            width: In inches: 3.3 fits one column of a paper, 7 fits two.
        """
        from cody import web as view

        return view.figure(self, width)

    def _repr_html_(self) -> str:
        """The page in a notebook, and the sentence and the difference it makes as a plain table."""
        from cody import web as view

        return view.frame(self, wording.as_html(self))
