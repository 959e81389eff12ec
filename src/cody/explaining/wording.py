"""The words of an answer: every sentence and every heading that an explanation is shown with.

What is found, proven and verified are values of an `Explanation`; this file only phrases them. The text, the page, the
command line and the survey all take their sentences from here.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cody.explaining import unit_words
from cody.explaining.reason import reason, recourse_question
from cody.explaining.unit_words import number_of_past, togetherness, without_units
from cody.explaining.waterfall import waterfall_lines
from cody.graph.edits import ADDED, ALTERED, MOVED, REMOVED
from cody.models.decision import Above, State, Subject, still
from cody.search.result import EVALUATIONS, ITERATIONS
from cody.utils import words
from cody.utils.tables import TextTable
from cody.utils.words import count, enumerated, is_date, link, moment, part_of, sanitize

if TYPE_CHECKING:
    from cody.explaining.explanation import Elsewhere, Event, Explanation

LONGEST_ALTERNATIVE = 6  # lines that an alternative takes in a table
LONGEST_FAILURE = 8  # edits in a table of what came closest
LONGEST_ANSWER = 24  # lines of a table; of a longer answer, the first and the last are shown
LAST_LINES = 4
MANY_SIMULTANEOUS = 0.1  # share of events with the same timestamp as the link that is remarked on
ONE_ACTION = (
    "If they belong to one action, such as a mail to many recipients, exclude them: --protect simultaneous (Python: "
    "Protected(simultaneous=True))."
)


# The whole answer


def text(why: Explanation) -> str:
    """The question, the reason, the answer, its tables and the notes below them."""
    tables = [line for table in tables_of(why) for line in table.as_text().lines()]
    first = [question(why), *([] if unit_words.sentence_says_all(why) else [reason(why)]), sentence(why)]
    return "\n".join(part for part in [*first, *tables, *waterfall_lines(why), *notes(why)] if part)


def short(why: Explanation) -> str:
    """The answer in a line, as `repr` shows it."""
    cells = why.decision.cells((why.states[0], why.states[-1]))
    heading, place = (why.decision.headings[1], 1) if why.decision.headings[1] else (why.decision.headings[0], 0)
    thing = f"{why.unit_name or why.event_name}s {'named' if why.factual else 'changed'}"
    share = f"{len(why.rows)} of {len(why.candidates)} {thing}"
    return f"Explanation({subject(why)}: {why.verdict}, {share}, {heading} {cells[0][place]} → {cells[1][place]})"


def notes(why: Explanation) -> tuple[str, ...]:
    """The notes below the tables; some of them are empty."""
    how = effort(why), considered(why), protection(why), simultaneity(why)
    return togetherness(why), leeway(why), certainty(why), stability(why), *how


def as_html(why: Explanation) -> str:
    """The answer as a few elements of HTML, for a place that shows no page."""
    asked, because, found = (html.escape(words_of(why)) for words_of in (question, reason, sentence))
    parts = [f"<p>{asked}</p><p><b>{because}</b> {found}</p>"]
    for table in (table.as_text() for table in tables_of(why)):
        rows = "".join(_html_row(table, cells, "td") for cells in table.rows)
        parts.append(f"<table><thead>{_html_row(table, table.headings, 'th')}</thead><tbody>{rows}</tbody></table>")
    if why.shares is not None:
        parts.append(f"<pre>{html.escape(chr(10).join(waterfall_lines(why)))}</pre>")
    return "".join([*parts, f"<p><small>{html.escape(' '.join(part for part in notes(why) if part))}</small></p>"])


# Sentences


def question(why: Explanation) -> str:
    """The link, its time, and the model's prediction."""
    if why.recourse is not None:
        return recourse_question(why, why.recourse, Subject(subject(why), why.src))
    name = "" if why.event is None else f"Event {why.event}, "
    when = moment(why.query.time) if why.rows else words.moment_and_zone(why.query.time)  # tables name the zone
    when = when if is_date(why.query.time) else f"time {when}"
    stated = why.decision.stated(why.states[0], Subject(subject(why), why.src))
    return f"{name}{when}: the model {stated}."


def sentence(why: Explanation) -> str:
    """The answer in one sentence."""
    if why.is_counterfactual and not why.factual:
        return f"{capital(_changed(why))} {_moved(why)}."
    if why.is_unverified and not why.factual:
        return f"Not verified: {_changed(why)} {_moved(why)}."
    if why.is_settled and why.recourse is not None:
        return f"With nothing added {why.decision.moved(State(why.recourse.now), why.states[0])}."
    if not why.candidates:
        return f"There are no past {thing(why)}s near this {_subject(why)} to remove."
    if why.factual:
        named = part_of(len(why.rows), len(why.candidates), why.unit_name or f"past {why.event_name}")
        effect = f"Without them {_moved(why)}." if why.rows and _moved(why) else ""
        return f"Named as important: {named}. {effect}".rstrip()
    return f"{_none_found(why)} {_closest(why)}"


def _none_found(why: Explanation) -> str:
    if why.counterfactuals:  # a user's own search need not answer with one that it found
        return f"Not a counterfactual, although the search found {len(why.counterfactuals)}."
    if why.is_exhausted:
        where = "that can matter" if why.has_all_events else f"near this {_subject(why)}"
        near = f"{_past(why, len(why.candidates))} {where if not why.unit_name else f'near this {_subject(why)}'}"
        edits = f"{count(len(why.candidates), 'edit')} that were considered"
        if len(why.candidates) == 1 and not why.allows_more:
            return f"{capital(near.replace('1', 'the one', 1))} does not flip the prediction.{_none_wider(why)}"
        return f"No set of the {edits if why.allows_more else near} flips the prediction.{_none_wider(why)}"
    within = f" within {_budget(why)}" if why.was_cut_short else ""
    if why.wider is not None:  # this budget and this proof are those of the first search
        within = f" among {_past(why, len(why.candidates))}{within}"
    if why.proven > 1:
        below = _no_set_below(why, why.proven)
        return f"No counterfactual found{within}: {below}, but a larger set may.{_none_wider(why)}"
    return f"No counterfactual found{within}; there may be one.{_none_wider(why)}"


def _budget(why: Explanation) -> str:
    """The budget that ended the search among the candidates."""
    if why.ended == ITERATIONS:
        return count(why.iterations, "iteration")
    if why.ended == EVALUATIONS:
        return count(why.evaluations - (why.wider.evaluations if why.wider else 0), "evaluation")
    return f"{why.seconds:.2f} seconds"


def _none_wider(why: Explanation) -> str:
    """The result of the search among more events; empty if there was none."""
    if why.wider is None:
        return ""
    more = count(why.wider.evaluations, "more evaluation")
    return f" None found among {_past(why, why.wider.events)} either, with {more}."


def _closest(why: Explanation) -> str:
    """The set that came closest to a flip."""
    closest = "No evaluated set comes closer to a flip." if why.evaluations > 1 else "No set was evaluated."
    if why.rows and why.without is not None:
        closest = f"Closest: {_changed(why)} {why.decision.effect(why.states[0], why.states[-1])}."
    if why.without_all is not None and not why.is_exhausted:
        everything = "With all edits together" if why.allows_more else f"Without all {len(why.candidates):,}"
        then = f"{still(why.original, why.without_all)}{why.decision.outcome(why.without_all)}"
        if isinstance(why.decision, Above):
            (then,) = why.decision.written(why.without_all)
        closest += f" {everything} it is {then}."
    return closest


def _subject(why: Explanation) -> str:
    """What is decided on, in a word of the data."""
    return why.event_name if why.subject == "event" else why.subject


def occasion(subject: str, event_name: str) -> str:
    """What the past lies before, in a word: a link, an event as the data call it, or the prediction about a node.

    >>> occasion("link", "message"), occasion("event", "rating"), occasion("node", "edit")
    ('link', 'rating', 'prediction')
    """
    return {"link": "link", "event": event_name}.get(subject, "prediction")


def _occasion(why: Explanation) -> str:
    return occasion(why.subject, why.event_name)


def _past(why: Explanation, number: int) -> str:
    """A number of past events, as the data call them, or of units of events."""
    return count(number, why.unit_name or f"past {why.event_name}")


def _changed(why: Explanation) -> str:
    """The edits of the answer in words."""
    past, edits = number_of_past(why), [event.edit for event, _ in why.steps]
    if not why.units or REMOVED not in edits:
        return changed_in_words(edits, past, why.event_name)
    others = changed_in_words([edit for edit in edits if edit != REMOVED], past, why.event_name)
    return " and ".join(part for part in (without_units(why), others) if part)


def _moved(why: Explanation) -> str:
    """The effect of the answer on scores and decision; empty if it is not known."""
    return "" if why.without is None else why.decision.moved(why.states[0], why.states[-1])


def certainty(why: Explanation) -> str:
    """How far a counterfactual can be trusted; empty if there is none."""
    if why.is_unverified:
        doubt = "no time was left for it; allow more seconds"
        if (found := why.verification) is not None:
            doubt = f"{found.by}, the logit is {found.without:.5f}, which does not flip the prediction"
        return f"Not verified: {doubt}."
    if why.verification is None or not why.is_counterfactual:
        return ""
    smaller = "This explainer does not look for the smallest set." if why.factual else _smaller(why)
    alone = not why.factual and not why.alternatives and why.parameters.get("count") not in (None, 1)
    return f"Verified {why.verification.by}. {smaller}{' No alternative found.' if alone else ''}"


def _smaller(why: Explanation) -> str:
    """What is proven about sets that are smaller than the answer, and about others of its size."""
    size, proven, smallest = len(why.rows), why.proven, why.smallest_found
    if smallest is not None and smallest < size:  # a user's own search need not answer with the smallest
        found = f"The search found a smaller set, of {count(smallest, thing(why))}"
        return f"{found}, but not for all of the models." if "across" in why.parameters else f"{found}."
    if not why.is_minimal and proven == 1:
        return "Smaller sets may exist."
    if not why.is_minimal:
        between = f"{proven}" if proven == size - 1 else f"{proven} to {size - 1}"
        return f"{capital(_no_set_below(why, proven))}; a set of {between} may."
    smaller = "No smaller set exists." if size == 1 else f"{capital(_no_set_below(why, size))}."
    return f"{smaller} {_of_its_size(why)}".rstrip()


def _of_its_size(why: Explanation) -> str:
    """How many other sets flip the prediction, up to the size that was exhaustively tested; empty if that is less."""
    if why.proven == len(why.rows):
        return ""
    ways = why.distinct_below(why.proven)
    again = ", except the same at other times" * (why.flips_at_other_times(why.proven) and ways == 1)
    if why.proven == 2:
        return f"{ways} single {thing(why)}s flip it." if ways > 1 else f"No other single {thing(why)} flips it{again}."
    most = f"of at most {min(why.proven - 1, len(why.candidates))} {thing(why)}s"
    return f"There are {ways} such sets {most}." if ways > 1 else f"It is the only such set {most}{again}."


def _no_set_below(why: Explanation, size: int) -> str:
    """The claim that no set of fewer candidates flips the prediction."""
    if size > 3:
        return f"no set of fewer than {size} {thing(why)}s flips it"
    seen = " that the model can see" if why.has_all_seen_events else ""
    return f"no single {thing(why)}{seen} flips it" if size == 2 else f"no single {thing(why)} and no pair flips it"


def thing(why: Explanation) -> str:
    """What the candidates are."""
    return "edit" if why.allows_more else why.unit_name or why.event_name


def effort(why: Explanation) -> str:
    """How many sets were evaluated, and whether a budget ended it."""
    cut = ", then the budget was exhausted" if why.was_cut_short else ""
    how = " Searched by estimates; every reported score is exact." if why.parameters.get("estimates") else ""
    return f"{count(why.evaluations, 'set')} evaluated in {why.seconds:.2f} s{cut}.{how}"


def considered(why: Explanation) -> str:
    """Which kinds of edits were considered, and which rivals; empty if only removals were, and all rivals."""
    kinds = {REMOVED: "removal", ADDED: "addition", MOVED: "move", ALTERED: "alteration"}
    number = {edit: sum(event.edit == edit for event in why.candidates) for edit in kinds}
    parts = [count(number[edit], kind) for edit, kind in kinds.items() if number[edit]]
    edits = f"Considered: {', '.join(parts)}." if why.allows_more else ""
    rivals = "" if why.factual else why.decision.remark()  # what is named was not searched against some of them
    return " ".join(part for part in (edits, unit_words.left_out(why), rivals) if part)


def leeway(why: Explanation) -> str:
    """At which other times the one imagined event of the answer flips the prediction; empty if none was tested."""
    if why.window is None or not why.is_counterfactual or len(why.rows) != 1:
        return ""
    ((event, _),) = why.steps
    first, last, tried, fails = why.window
    when = f"from {moment(first)} to {moment(last)}"
    # Up to the link: to the last minute, or hundredth of the way.
    if event.replaces is None and why.query.time - last <= max(60.0 * is_date(last), 0.01 * (why.query.time - first)):
        when = f"since {moment(first)}"
    times = "both" if tried == 2 else f"all {tried}"
    when = f"also flips it at {times} tested times {when}" if tried > 1 else f"flips it at {moment(first)}"
    what = link(event.src, event.dst) if event.replaces is None else f"Event {event.replaces}"
    if fails is not None:
        return f"{what} {when}; at {moment(fails)} it does not."
    return f"{what} {when}." + (" Older times were not tested." if event.replaces is None else "")


def simultaneity(why: Explanation) -> str:
    """Advice where many candidates, or the decisive ones, have the same timestamp as the link; else empty."""
    past = number_of_past(why)
    same = frozenset[int]() if why.unit_name else why.simultaneous
    decisive = [row in same for row in why.removed] if why.is_counterfactual else []
    if not same or (len(same) < MANY_SIMULTANEOUS * past and 2 * sum(decisive) <= len(decisive)):
        return ""
    several = f"{sum(decisive)} of {len(decisive)} decisive {why.event_name}s"
    which = several if len(decisive) > 1 else "the decisive one"
    among = f", including {which}" if any(decisive) else ""
    verb = "has" if len(same) == 1 else "have"
    return f"{len(same)} of {_past(why, past)} {verb} the same timestamp as the {_occasion(why)}{among}. {ONE_ACTION}"


def protection(why: Explanation) -> str:
    """Who could change anything, and what could not be removed; empty if everybody could change everything."""
    actor = why.parameters.get("actor")
    limit = why.daily_limit
    daily = "" if limit is None else f"at most {limit.most} a day"
    if isinstance(actor, str):
        which = "be added" if why.recourse is not None else "change"
        own = f"Only {why.event_name}s that start at {sanitize(actor, 24)} could {which}{f', {daily}' * bool(daily)}."
    else:
        own = f"{capital(daily)} could change." if daily else ""
    protected = protected_in_words(why.parameters.get("protect"), _occasion(why))
    return " ".join(part for part in (own, protected) if part)


# In how many models a counterfactual holds


def stability(why: Explanation) -> str:
    """In how many models the answer and its alternatives hold, and whether noise changes that; empty if not tested."""
    models = [each for each in why.elsewhere if each.model]
    noise = [each for each in why.elsewhere if not each.model]
    return " ".join([*(_in_models(why, models) if models else ()), *_under(why, noise)])


def _in_models(why: Explanation, models: Sequence[Elsewhere]) -> Iterator[str]:
    """Where the answer holds, of the models that decide the same from the start, and which alternatives in more."""
    agreeing = [each for each in models if each.agrees_with(why.original)]
    failing = [each.name for each in agreeing if not each.holds(0)]
    others = [each.name for each in models if each not in agreeing]
    here, *elsewhere = (sum(each.holds(number) for each in agreeing) for number in range(1 + len(why.alternatives)))
    but = f", not in {enumerated(failing)}" if failing else ""
    yield f"Holds in {1 + here} of {count(1 + len(agreeing), 'model')}{but}."
    if others:
        yield f"{count(len(others), 'model')} decided differently from the start: {enumerated(others)}."
    yield from (f"Alternative {n} holds in {1 + held}." for n, held in enumerate(elsewhere, start=1) if held > here)


def _under(why: Explanation, noise: Sequence[Elsewhere]) -> Iterator[str]:
    """Whether the answer holds under noise."""
    holding = [each.name for each in noise if each.agrees_with(why.original) and each.holds(0)]
    failing = [each.name for each in noise if each.name not in holding]
    if holding:
        yield f"It {'also ' if not failing else ''}holds {enumerated(holding)}."
    if failing:
        yield f"It does not hold {enumerated(failing)}."


# Tables


class Line(NamedTuple):
    """One line of the table that shows an answer: one more edit, and the prediction with it."""

    edit: str = ""
    link: str = ""
    when: str = ""
    before: str = ""
    logit: str = ""
    score: str = ""
    predicted: str = ""


class AnswerTable(NamedTuple):
    """A table of edits, and the predictions with them."""

    headings: Line
    lines: list[Line]

    def as_text(self) -> TextTable:
        """The table as text."""
        edit, link, when, before, logit, score, predicted = self.headings
        # Rather long names on two lines than every date, but rather a period on two lines than every row.
        whole = [3, 6] if any(" to " in line.when for line in self.lines) else [2, 3, 6]
        table = TextTable(f"#{edit}", link, when, before, f"#{logit}", f"#{score}", predicted, whole=whole)
        for line in self.lines:
            table.add_row(*line)
        return table


def tables_of(why: Explanation) -> list[AnswerTable]:
    """The tables that every form of this answer shows: of the answer, and of the alternatives; those that there are."""
    tables = [answer_table(why)] * bool(why.rows)
    return [*tables, alternatives_table(why)] if why.alternatives else tables


def answer_table(why: Explanation) -> AnswerTable:
    """Nothing changed, then one more edit in each line."""
    events = [Line("(none)"), *(_line(why, event, number) for number, (event, _) in enumerate(why.steps))]
    lines = [
        line._replace(logit=cells.first, score=cells.second, predicted=_outcome(why, state.margin))
        for line, cells, state in zip(events, why.decision.cells(why.states), why.states, strict=True)
    ]
    more = len(why.rows) - LONGEST_FAILURE
    if more > 1 and why.verification is None:  # what flips nothing need not be listed in full
        lines[-more:] = [lines[-1]._replace(edit=f"+ {more} more", link="", when="", before="")]
    elif len(lines) > LONGEST_ANSWER:
        first, last = LONGEST_ANSWER - LAST_LINES, len(lines) - LAST_LINES
        folded = lines[last - 1]  # the prediction after those that are left out
        lines[first:last] = [folded._replace(edit=f"+ {last - first} more", link="", when="", before="")]
    changed = "change" if why.imagined else "without"
    return AnswerTable(_headings(why, "named" if why.factual else changed, why.rows), lines)


def alternatives_table(why: Explanation) -> AnswerTable:
    """The events of each alternative, with the prediction in its last line."""
    lines: list[Line] = []
    for other in why.alternatives:
        lines += [Line()] * bool(lines)
        logit = other.verification.without
        events = [why.candidate(row) for row in other.rows]
        shown = events if len(events) <= LONGEST_ALTERNATIVE else events[: LONGEST_ALTERNATIVE - 1]
        lines += [_line(why, event, number) for number, event in enumerate(shown)]
        if len(shown) < len(events):
            lines.append(Line(f"+ {len(events) - len(shown)} more"))
        _, cells = why.decision.cells((why.states[0], State(logit, other.standing)))
        lines[-1] = lines[-1]._replace(logit=cells.first, score=cells.second, predicted=_outcome(why, logit))
    return AnswerTable(_headings(why, "alternative", [row for other in why.alternatives for row in other.rows]), lines)


def _headings(why: Explanation, first: str, rows: Sequence[int]) -> Line:
    pair = "link" if why.subject == "link" else why.event_name
    if any(why.unit(row) is not None for row in rows):  # events that are added are in none
        pair = why.unit_name or pair
    return Line(first, pair, words.heading_of_times(why.query.time), "before", *why.decision.headings, "predicted")


def _outcome(why: Explanation, margin: float | None) -> str:
    return "–" if margin is None else why.decision.cell(margin)


def _line(why: Explanation, event: Event, number: int) -> Line:
    """An edit as a table shows it, without the prediction."""
    unit = why.unit(event.row)
    if unit is not None and unit.name:
        return Line(*unit_words.unit_cells(why, unit, first=not number))
    named = link(event.src, event.dst, 14)
    carrying = f"{named}, {sanitize(event.carries)}" if event.carries else named
    along = f" + {len(unit.dependants)}" if unit is not None and unit.dependants else ""
    edit = f"{'+ ' if number else ''}{_edit(event)}{along}"
    return Line(edit, carrying, moment(event.time), words.earlier(event.time, why.query.time))


def _edit(event: Event) -> str:
    """An edit, as a table names it."""
    named = event.row if event.replaces is None else event.replaces
    return {REMOVED: f"{named}", ADDED: "added", MOVED: f"{named} moved", ALTERED: f"{named} altered"}[event.edit]


def _html_row(table: TextTable, cells: Sequence[str], tag: str) -> str:
    style = "padding: 0.1em 0.8em; text-align: "
    sides = zip(["right" if number else "left" for number in table.numbers], cells, strict=True)
    made = (f'<{tag} style="{style}{side}">{html.escape(cell)}</{tag}>' for side, cell in sides)
    return f"<tr>{''.join(made)}</tr>"


# Phrases that surveys and other pages use too


def changed_in_words(edits: Sequence[str], past: int, event: str = "event", unit: str = "") -> str:
    """Edits in words, counted by kind; removals out of the given number of past events, or of units of events.

    Args:
        edits: The kind of each edit.
        past: How many events or units could be removed.
        event: What the data call an event.
        unit: What a unit is, where units are removed.

    >>> changed_in_words([REMOVED, ADDED], 64)
    'without 1 of 64 past events and with 1 event added'
    """
    kinds = {ADDED: "added", MOVED: "moved", ALTERED: "altered"}
    removed, others = edits.count(REMOVED), {edit: edits.count(edit) for edit in kinds}
    parts = [f"without {part_of(removed, past, unit or f'past {event}')}"] * bool(removed)
    parts += [f"with {count(number, event)} {kinds[edit]}" for edit, number in others.items() if number]
    return " and ".join(parts)


def protected_in_words(protected: dict[str, Any] | None, occasion: str = "link") -> str:
    """The events that may not be removed, from the parameters of an explanation; empty if there are none.

    Args:
        protected: The parameter.
        occasion: The word for what is decided on, as `occasion` gives it.

    >>> protected_in_words({"events": [3, 7], "simultaneous": True})
    'Protected: events at the time of the link; events 3, 7.'
    """
    given = protected or {}
    parts = [f"events at the time of the {occasion}"] if given.get("simultaneous") else []
    for name, thing in (("events", "event"), ("nodes", "node"), ("times", "time")):
        entries = given.get(name, [])
        shown = [" to ".join(map(moment, entry)) if name == "times" else sanitize(entry, 24) for entry in entries[:4]]
        if shown:
            more = f" and {len(entries) - 4} more" if len(entries) > 4 else ""
            parts.append(f"{thing if len(entries) == 1 else name} {', '.join(shown)}{more}")
    return f"Protected: {'; '.join(parts)}." if parts else ""


def subject(why: Explanation) -> str:
    """What is decided on, as sentences name it: the nodes of a link, or one node."""
    return sanitize(why.src, 24) if why.subject == "node" else link(why.src, why.dst)


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
