"""Checks of the optional methods of a model: sessions, the reference implementation, a history of a few events,
many links at once, another log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cody.errors import first_line
from cody.graph import Query
from cody.graph.edits import Add, Alter, Edit, Move
from cody.graph.neighbourhood import candidates
from cody.models import contract
from cody.models.checks.check import Check, add_to
from cody.models.checks.trial import (
    LARGE,
    UNCHANGED,
    Ask,
    Failed,
    Trial,
    TrialQuestion,
    TwoAnswers,
    in_two_threads,
    interrupt,
    listed,
)
from cody.models.contract import Change, Model

CHECKS: list[Check] = []
_offer = add_to(CHECKS)
_session_rule = partial(_offer, needs=contract.OffersSessions, skipped="the model offers no session(query)")
NO_OTHER = "the model offers no on(graph)"
_imagined_rule = partial(_offer, needs=contract.OffersOther, skipped=NO_OTHER)

T = TypeVar("T")


@_session_rule(
    "a session gives the answers of the model, in any order",
    "a session must give the answers of the model",
    cause="a session is affected by an earlier call, or relies on the rows that it was opened with: any rows "
    "may be changed, in any order",
)
def _session(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    expected = trial.ask(query, changes)
    session = _open(trial, query, rows=True)
    backwards = [trial.ask(query, [change], session.logits)[0] for change in reversed(changes)]
    words = "by a session, one by one from the last to the first"
    yield TwoAnswers(query, changes, expected, np.array(backwards[::-1]), "by the model", words)
    other, other_changes = trial.other(query)
    trial.ask(other, other_changes, _open(trial, other).logits)
    at_once = trial.ask(query, changes, session.logits)
    yield TwoAnswers(query, changes, expected, at_once, "by the model", "by a session, after another one was opened")


@_session_rule(
    "after an error or Ctrl-C it still does",
    "a call that fails must leave nothing behind",
    cause="the cached values were half updated when the call ended: remove them before they are updated, so that the "
    "next call starts afresh if this one fails",
)
def _session_error(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    expected, session = trial.ask(query, changes), _open(trial, query, rows=True)
    interrupt(trial, changes, session.logits)
    words = "by a session, after calls that were wrong or interrupted"
    yield TwoAnswers(query, changes, expected, trial.ask(query, changes, session.logits), "by the model", words)


@_session_rule(
    "two sessions in two threads get the usual answers",
    "sessions must not disturb each other",
    cause="sessions share something that they modify, for example a buffer or the memory of the model: give each its "
    "own, or take a lock",
)
def _two_sessions(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    questions = [TrialQuestion(query, changes), trial.other(query)]
    expected = [trial.ask(*question) for question in questions]
    sessions = [_open(trial, question.query) for question in questions]
    pairs = zip(questions, sessions, strict=True)
    answers = in_two_threads([partial(trial.ask, *question, session.logits) for question, session in pairs])
    for question, one, answer in zip(questions, expected, answers, strict=True):
        yield TwoAnswers(*question, one, answer, "by the model", "by a session while another one ran in a thread")


def _open(trial: Trial, query: Query, *, rows: bool = False) -> contract.Session:
    near = candidates(trial.graph, query)[::2].tolist() if rows else []  # others will be evaluated too
    return _offered(trial, f"session({query}, {len(near)} rows)", lambda model: model.session(query, near))


@_offer(
    "the reference implementation gives the same answers",
    "the implementation that verifies answers must agree with them",
    cause="the model and its reference differ, or reference(query, change) starts from a state that the change "
    "already affects: start before the first changed row",
    needs=contract.OffersReference,
    skipped="the model offers no reference(query, change)",
)
def _plain(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    few = changes[:2]
    expected = trial.ask(query, few)
    for full in (False,) if trial.quick else (False, True):
        answers = []
        for change in few:
            call = f"reference({query}, …, full={full})"
            judge: contract.Reference = _offered(trial, call, lambda model: model.reference(query, change, full=full))  # noqa: B023
            answers.append(trial.ask(query, [change], partial(judge.logits, query))[0])
        yield TwoAnswers(query, few, expected, np.array(answers), "by the model", f"by its reference with full={full}")


@_offer(
    "a history of a few events equals removing all others",
    "only(query, kept) must mean that all other visible rows are removed",
    cause="only() lets something remain of the events that are not kept, or loses the batch, the order or the features "
    "of those that are",
    needs=contract.OffersOnly,
    skipped="the model offers no only(query, kept)",
)
def _only(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    model: Any = trial.model
    shortest = min(question.query.before for question in trial.questions)
    if query.before > max(shortest, LARGE):
        return
    kept = [UNCHANGED, *changes[1:3]]
    removed = [frozenset(range(query.before)) - rows for rows in kept]

    yield trial.same(query, removed, lambda _: [model.only(query, rows) for rows in kept], "by only(query, kept)")


@_offer(
    "many links at once get the answers that each gets alone",
    "logits_of_links(queries) must mean that nothing is changed",
    cause="logits_of_links() mixes up the order of the links, or lets a link see events of another one's past",
    needs=contract.OffersLinks,
    skipped="the model offers no logits_of_links(queries)",
)
def _links(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    model: Any = trial.model
    links = [trial.other(query).query, query, query]
    yield trial.same(query, [UNCHANGED] * 2, lambda _: model.logits_of_links(links)[1:], "among other links")


@_offer(
    "one session about many links answers as for each",
    "a session about many links must give the answers of the model for each of them",
    cause="session_of_links() mixes up the order of links or changes, or lets a link see what another one reads",
    needs=contract.ScoresLinks,
    skipped="the model offers no session_of_links(links, margin)",
)
def _many_links(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    links = _of_one_moment(trial, query)
    call = f"session_of_links({len(links)} links)"
    margin = contract.first_score
    session: contract.ScoreSession = _offered(trial, call, lambda model: model.session_of_links(links, margin))
    yield from _each_link(trial, links, changes, session.scores, "among other links")
    if isinstance(trial.model, contract.OffersReferenceOfLinks):
        last = changes[-1:]
        call = "reference_of_links(…)"
        reference: Any = _offered(trial, call, lambda model: model.reference_of_links(links, last[0]))
        yield from _each_link(trial, links, last, partial(reference.scores, links), "by the reference of all links")


def _of_one_moment(trial: Trial, query: Query) -> list[Query]:
    """A link, and the same with two other destinations; of labels, the query alone."""
    if contract.label_task(trial.model) is not None:
        return [query]
    others = np.setdiff1d(trial.graph.dst[: trial.graph.num_events], [query.src, query.dst])[:2]
    return [query, *(query._replace(dst=int(node)) for node in others)]


def _each_link(
    trial: Trial, links: list[Query], changes: list[Change], scores: Ask, words: str
) -> Iterable[TwoAnswers]:
    """The answers about each link by the model, and as a part of the scores of all."""
    for place, link in enumerate(links):
        expected = trial.ask_hypothetical(link, changes)

        def part(asked: list[Change], place: int = place) -> Any:
            own = np.asarray(scores(asked))[:, place * trial.outputs : (place + 1) * trial.outputs]
            return own[:, 0] if trial.outputs == 1 else own

        yield TwoAnswers(link, changes, expected, trial.ask(link, changes, part), "alone", words)


class Longer(NamedTuple):
    """The model on a log with imagined rows."""

    ask: Ask
    rows: dict[str, int]  # kind of edit → imagined row; without a history, nothing is moved or altered
    real: int  # the event that is moved or altered


@_imagined_rule(
    "imagined events get answers",
    "the same call must give the same answer",
    cause="rows from graph.num_events on are imagined ones, which the model ignores: let "
    "graph.difference(change, query) say which real rows are absent and which imagined ones are present",
)
def _imagined(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    for longer in _longer(trial, query):
        rows = frozenset(longer.rows.values())
        tested = [*(frozenset({row}) for row in sorted(rows)[:4]), *(change | rows for change in changes)]
        try:
            first, again = trial.ask(query, tested, longer.ask), trial.ask(query, tested, longer.ask)
        except Failed as failure:
            raise Failed(f"on a log with imagined rows, {failure}") from None
        yield TwoAnswers(query, tested, first, again, "at first", "in a second call, on a log with imagined rows")


@_imagined_rule(
    "an imagined event that no change names changes nothing",
    "imagined rows are absent unless a change names them",
    cause="the columns of the graph are read as a whole: graph.src, graph.dst and graph.time end with the imagined "
    "rows; only the first graph.num_events have happened",
)
def _unnamed(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    for longer in _longer(trial, query):
        yield trial.same(query, changes, longer.ask, "on a log with imagined rows")


@_imagined_rule(
    "nor does an imagined event after the query",
    "a query sees imagined rows before its place and time only",
    cause="the model does not check what the query sees: graph.difference(change, query) has the rows that are present",
)
def _imagined_later(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    for longer in _longer(trial, query):
        later = {row for what, row in longer.rows.items() if what in ("added later", "altered later")}
        words = f"with the later events {listed(frozenset(later))} imagined too"
        yield trial.pairs(query, changes, [change | later for change in changes], words, longer.ask)


@_imagined_rule(
    "a moved event is absent from its old place",
    "where an imagined row is present, the real one that it replaces is absent",
    cause="the real row is still there, or the imagined one is in another place: graph.difference(change, query) has "
    "what is absent and what is present",
    skipped=f"{NO_OTHER}, or no query has a history",
)
def _replaced(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    for longer in _longer(trial, query):
        if "moved" in longer.rows:
            removed = [change | {longer.real} for change in changes]
            moved = [change | {longer.rows["moved"]} for change in changes]
            words = f"with event {longer.real} moved beyond the query instead"
            yield trial.pairs(query, removed, moved, words, longer.ask)
        if "altered" in longer.rows:
            words = f"with event {longer.real} replaced by itself"
            yield trial.pairs(query, [UNCHANGED], [frozenset({longer.rows["altered"]})], words, longer.ask)


@_imagined_rule(
    "an added event changes some logit",
    note_if_equal="an added event between the nodes of a query changes no logit of any: imagined rows are ignored",
)
def _added_matters(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    for longer in _longer(trial, query):
        yield trial.pairs(query, [UNCHANGED], [frozenset({longer.rows["added"]})], "", longer.ask)


def _longer(trial: Trial, query: Query) -> list[Longer]:
    """The model on a log with imagined events around a query; empty if the model does not offer that."""
    model, graph = trial.model, trial.graph
    if graph.imagined is not None:
        return []
    src, dst = graph.name(query.src), graph.name(query.dst)
    last = max(query.time, float(graph.time[-1]))
    before = contract.as_seen(model, graph, query).before
    first = float(graph.time[before : before + 1].min(initial=query.time))
    step = max(1.0, 1e-9 * abs(last))  # of nanoseconds since 1970, 1 would be rounded away
    after = last + step
    edits: dict[str, Edit] = {"added": Add(src, dst, first - step), "added later": Add(src, dst, after)}
    real = int(np.concatenate([graph.history(node, before) for node in query[:2]]).max(initial=-1))
    if real >= 0:
        edits["moved"] = Move(real, after)
    if graph.features is not None and real >= 0:
        edits["altered"] = Alter(real, graph.features[real].tolist())
    if graph.features is not None and query.before < graph.num_events:
        edits["altered later"] = Alter(query.before, (graph.features[query.before] + 1).tolist())
    longer = graph.imagine(list(edits.values()))
    other: Model = _offered(trial, "on(graph)", lambda model: model.on(longer))
    rows = dict(zip(edits, range(graph.num_events, longer.num_rows), strict=True))
    return [Longer(partial(other.logits, query), rows, real)]


def _offered(trial: Trial, call: str, offer: Callable[[Any], T]) -> T:
    try:
        return offer(trial.model)
    except Exception as error:
        raise Failed(f"{call} raised {type(error).__name__}: {first_line(error)}") from None
