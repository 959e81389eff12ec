"""The rules of `logits(query, changes)`. A model that breaks one of them gets wrong explanations, or none.

The most informative checks come first: where an early one fails, later ones may fail because of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from cody.errors import first_line
from cody.graph import Query, whole_number
from cody.models.checks.check import Check, add_to
from cody.models.checks.trial import (
    LARGE,
    UNCHANGED,
    Failed,
    Skipped,
    Trial,
    TrialQuestion,
    TwoAnswers,
    hashes_of_columns,
    identity_or_error,
    in_two_threads,
    interrupt,
    listed,
    out_of_reach,
    some_of,
)
from cody.models.contract import HOPS, Change, LacksOwnBatch, as_seen, looks_like_probabilities

ENOUGH_ANSWERS, OTHER_LINKS = 15, 12  # to distinguish probabilities from logits

CHECKS: list[Check] = []
_rule = add_to(CHECKS)
_thorough_rule = partial(_rule, quick=False)
_last_rule = partial(_rule, once=True, at_the_end=True)  # about all calls of the other checks


@_rule("a finite number for each change", vital=True)
def _shape(trial: Trial, query: Query, changes: list[Change]) -> None:
    trial.ask(query, [UNCHANGED])
    trial.ask(query, [UNCHANGED, UNCHANGED])


@_rule("sets of different sizes in one batch", vital=True)
def _sizes(trial: Trial, query: Query, changes: list[Change]) -> None:
    trial.ask(query, changes)


@_rule(
    "a second call gives the same answer",
    "nothing may be random, and a call may not change the model",
    cause="dropout is active or batch statistics are updated (call model.eval() first), neighbours "
    "are sampled at random, or each call advances the memory of the model",
    vital=True,
)
def _repeated(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    trial.ask(query, changes)  # the effect of earlier calls is another check
    first, again = trial.ask(query, changes), trial.ask(query, changes)
    yield TwoAnswers(query, changes, first, again, "at first", "in a second call")


@_rule(
    "answers are logits: below 0 where no link is predicted",
    cause="the model ends with a sigmoid: leave it out, or return log(p / (1 - p)) for a probability p, as "
    "cody.adapters.from_probabilities(model) does",
    once=True,
)
def _probabilities(trial: Trial) -> None:
    if trial.outputs > 1:
        raise Skipped("class scores are compared with one another, on any scale")
    answers: list[float] = []
    for query, changes in trial.questions:
        answers += trial.ask(query, changes).tolist()
    some_rows = np.unique(np.linspace(0, trial.graph.num_events - 1, OTHER_LINKS, dtype=int))
    for row in some_rows.tolist():  # logits of a few links may lie there by chance
        if not looks_like_probabilities(answers):
            return
        answers += trial.ask(trial.graph.query(row), [UNCHANGED]).tolist()
    if len(answers) < ENOUGH_ANSWERS:
        raise Skipped(f"{len(answers)} answers are too few to decide")
    if looks_like_probabilities(answers) and min(answers) < max(answers):  # else see `past_matters`
        raise Failed(
            f"all {len(answers)} answers lie between {min(answers):.4g} and {max(answers):.4g}; each that is above 0 "
            'means "link", so no change to the history could flip the decision'
        )


@_rule(
    "an answer does not depend on the rest of its batch",
    "answers must not depend on the other sets of a batch",
    cause="a mean, a normalisation or a maximum is taken over the whole batch (batch normalisation: model.eval()), or "
    "what one set removes is still missing for the next one",
)
def _alone(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    alone = np.concatenate([trial.ask(query, [change]) for change in changes])
    yield TwoAnswers(query, changes, alone, trial.ask(query, changes), "alone", f"in a batch of {len(changes)}")


@_thorough_rule(
    "nor on the order of the batch",
    "answers must not depend on the order of a batch",
    cause="what one set does to the model is still there for the next one: put removed events back, or restore the "
    "memory, before the next set",
)
def _order(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    reverse = trial.ask(query, changes[::-1])[::-1]
    yield TwoAnswers(query, changes, trial.ask(query, changes), reverse, "", "with the batch in reverse order")


@_thorough_rule(
    "nor on sets that occur in it twice",
    "a set must get the same logit each time it occurs in a batch",
    cause="answers are returned for distinct sets only: return one for each place in the batch",
)
def _duplicates(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    twice = [change for change in changes for _ in range(2)]
    once = trial.ask(query, changes).repeat(2, axis=0)
    yield TwoAnswers(query, twice, once, trial.ask(query, twice), "", "with each set twice in the batch")


@_rule(
    "nor on earlier calls",
    "a call may not affect later ones",
    cause="a call leaves state behind: the memory is not reset, a snapshot is not restored before the next call, "
    "or a cache holds wrong values",
)
def _interleaved(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    fresh = [trial.fresh(query), *changes[1:2]]
    first, again = trial.ask(query, fresh), trial.ask(query, fresh)
    yield TwoAnswers(query, fresh, first, again, "at first", "in a second call")
    for step in (1,) if trial.quick else (1, -1):
        other, other_changes = trial.other(query, step)
        trial.ask(other, other_changes[:2])
        yield TwoAnswers(query, fresh, again, trial.ask(query, fresh), "in a second call", f"after a call with {other}")


@_rule(
    "a set evaluated for two queries gets an answer for each",
    "the answer for one query must not be returned for another (if the check `later` fails too, fix that first)",
    cause="answers are cached by the set only: make the query part of the key",
    skipped="needs two queries, and events after one of them",
)
def _own_answers(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    other, _ = trial.other(query)
    if other != query and query.before < trial.graph.num_events:
        fresh = trial.fresh(query)
        trial.ask(other, [fresh])
        control = trial.ask(query, [fresh | {query.before}])  # means the same, but cannot be in a cache
        here = f"after a call with {other} and the same set"
        there = f"when event {query.before}, which is later, is removed too"
        yield TwoAnswers(query, [fresh], trial.ask(query, [fresh]), control, here, there)


@_rule(
    "removing the latest events equals scoring before them",
    "a removed event must count as little as one that the query does not see",
    cause="removed events are still used somewhere: in the memory, as neighbours, in a count or in a last contact "
    "time; leave them out before anything is computed from them",
)
def _unseen(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    visible = as_seen(trial.model, trial.graph, query).before  # a batch that is cut there may be seen as a whole
    lengths = sorted({max(query.before - 1, 0), max(query.before - LARGE, query.before // 2)})
    lengths = sorted({_with_the_same_state(trial, query, min(before, visible)) for before in lengths})
    seen = [as_seen(trial.model, trial.graph, query._replace(before=before)).before for before in lengths]
    removed = [frozenset(range(before, query.before)) for before in seen]
    answers = trial.ask(query, removed)
    for before, change, answer in zip(lengths, removed, answers, strict=True):
        unseen = trial.ask_hypothetical(query._replace(before=before), [UNCHANGED])
        yield TwoAnswers(query, [change], np.array([answer]), unseen, "", f"with before={before} and nothing removed")


def _with_the_same_state(trial: Trial, query: Query, before: int) -> int:
    """A row at or before `before` where a state without these events is one that some batch begins with."""
    model = trial.model
    if not isinstance(model, LacksOwnBatch):
        return before
    own, there = model.state_before(query), model.state_before(query._replace(before=before))
    return before if own == there else min(own, there)


@_rule(
    "removing events after the query changes nothing",
    "a query sees rows below `before` only, or below `sees_before(query)` of the model; later ones must have no effect",
    cause="the model has seen the future: its neighbour loader or its memory holds events from row query.before on",
    skipped="no query has events after it",
)
def _later(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    after = np.arange(as_seen(trial.model, trial.graph, query).before, trial.graph.num_events)
    if after.size:
        later = some_of(after, 100, trial.rng) | {query.before}
        words = f"when later events {listed(later)} are removed too"
        yield trial.pairs(query, changes, [change | later for change in changes], words)


@_rule(
    "removing events out of the query's reach changes nothing",
    "no chain of visible events connects these to the query's nodes, so they must have no effect",
    cause="neighbours are sorted by an unstable sort, so events of equal time may be swapped (use a stable one); "
    "or events are numbered by counting the remaining ones, instead of by their rows; or something is averaged over "
    "all events of the graph",
    skipped="for each query, all past events are connected to its nodes",
)
def _unreachable(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    far = frozenset(out_of_reach(trial.graph, query).tolist())
    if far:
        words = f"when events {listed(far)} are removed too"
        yield trial.pairs(query, changes, [change | far for change in changes], words)


@_rule(
    "a reference model gives the same answers",
    "they must agree",
    cause="one of the two is wrong: compare them step by step on the set named here",
    skipped="no reference was given",
)
def _reference(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    if trial.reference is not None:
        yield trial.same(query, changes, partial(trial.reference.logits, query), "by the reference")


@_rule(
    "after an error or Ctrl-C the answers are the same",
    "a call that fails must leave nothing behind",
    cause="what a call changes in the model is restored only if all goes well: restore it in a `finally` block, or "
    "work on a copy",
)
def _after_error(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    expected = trial.ask(query, changes)
    fresh = [trial.fresh(query), trial.fresh(query, share=2)]
    with suppress(Exception):
        trial.model.logits(query._replace(src=trial.graph.num_nodes), [UNCHANGED])
    interrupt(trial, fresh, partial(trial.model.logits, query))
    words = "after calls that were wrong or interrupted"
    yield TwoAnswers(query, changes, expected, trial.ask(query, changes), "at first", words)
    if query.before < trial.graph.num_events:  # means the same, but was not part of a call that failed
        control = trial.ask(query, [change | {query.before} for change in fresh])
        yield TwoAnswers(query, fresh, control, trial.ask(query, fresh), "with later events removed too", words)


@_thorough_rule(
    "if the whole history is removed, nothing of it is left",
    "both times the model sees no event at all",
    cause="removed events are still used somewhere, or a mean is taken over no events at all",
)
def _everything(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    if LARGE < query.before < max(question.query.before for question in trial.questions):
        return  # one long history is enough
    past = trial.rng.permutation(query.before).tolist()
    removed = [frozenset(past[: 2**power]) for power in range(LARGE.bit_length())] + [frozenset(past)]
    unseen = trial.ask_hypothetical(query._replace(before=0), [UNCHANGED])
    all_gone = trial.ask(query, removed)[-1:]
    yield TwoAnswers(query, removed[-1:], all_gone, unseen, "", "with before=0 and nothing removed")


@_last_rule(
    "the list of changes is not modified",
    cause="the list is sorted or extended in place: work on a copy, since the caller matches the answers with its list",
)
def _arguments(trial: Trial) -> None:
    if trial.changed_list:
        raise Failed(f"a call with {trial.changed_list} modified the list of changes")


@_last_rule(
    "the graph is bit-identical after all checks",
    cause="the model writes into an array of the graph: copy it first",
)
def _graph(trial: Trial) -> None:
    now = hashes_of_columns(trial.graph, quick=trial.quick)
    changed = [column for column, before in trial.columns.items() if now[column] != before]
    if changed:
        raise Failed(f"{', '.join(changed)} of the graph changed during the checks")


# Findings that only limit the use of a model or are probably unintended: notes, since explanations are right.

LIMITS: list[Check] = []
_limit = add_to(LIMITS, only_noted=True)
_thorough_limit = partial(_limit, quick=False)
_last_limit = partial(_limit, once=True, at_the_end=True)


@_limit(
    "removing the whole history changes some logit",
    skipped="no query has a history",
    note_if_equal="removing the whole history changes no logit of any query: the model ignores its history",
)
def _past_matters(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    if query.before:
        past: Change = frozenset(range(query.before))
        one, other = trial.ask(query, [UNCHANGED, past])
        yield TwoAnswers(query, [past], np.array([one]), np.array([other]))


@_thorough_limit(
    "scoring much later changes some logit",
    note_if_equal="scoring later by twice the span of the graph changes no logit of any query: the model ignores time",
)
def _time_matters(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    graph = trial.graph
    span = float(graph.time[graph.num_events - 1] - graph.time[0])
    later = trial.ask(query._replace(time=query.time + 2.0 * span + 1.0), [UNCHANGED])
    yield TwoAnswers(query, [UNCHANGED], trial.ask(query, [UNCHANGED]), later)


@_thorough_limit(
    "links that did not happen are scored too",
    cause="the event is looked up in the graph: take nodes and time from the query; until then, only events that "
    "happened can be explained",
)
def _hypothetical(trial: Trial, query: Query, changes: list[Change]) -> None:
    graph = trial.graph
    others = np.setdiff1d(graph.dst, [query.src, query.dst])
    with _usual_cause():
        if others.size:
            trial.ask(query._replace(dst=int(trial.rng.choice(others))), changes)
        time = max(query.time, float(graph.time[graph.num_events - 1])) + 1.0
        trial.ask(query._replace(time=time, before=graph.num_events), changes)


@_thorough_limit(
    "numpy integers, sets and tuples mean the same",
    "a row is a row, whatever its type",
    cause="rows are looked up by their type or changes used as keys: begin logits() with "
    "changes = cody.models.contract.check_changes(graph, changes), which converts them",
)
def _argument_types(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    def ask(plain: list[Change]) -> Any:
        odd: Any = tuple({np.int64(row) for row in change} for change in plain)
        numbers: Any = {"src": np.int64(query.src), "dst": np.int32(query.dst), "before": np.int64(query.before)}
        return trial.model.logits(query._replace(**numbers), odd)

    expected = trial.ask(query, changes)
    with _usual_cause("with numpy integers in sets, "):
        answers = trial.ask(query, changes, ask)
    yield TwoAnswers(query, changes, expected, answers, "with plain integers", "with numpy integers in sets")


@_last_limit(
    "answers come as a numpy array of floats",
    cause="the answers are used, but other code may need arrays: return np.asarray(scores, dtype=float)",
)
def _form(trial: Trial) -> None:
    if trial.odd_form:
        raise Failed(f"the model returned {trial.odd_form}")


@_thorough_limit(
    "an empty list of changes gives an empty array",
    cause="stacking or concatenating nothing fails: return np.empty(0) for no changes",
)
def _empty_batch(trial: Trial, query: Query, changes: list[Change]) -> None:
    with _usual_cause():
        trial.ask(query, [])


@_thorough_limit("an event that does not exist is an error")
def _unknown_rows(trial: Trial, query: Query, changes: list[Change]) -> None:
    for row in (-1, trial.graph.num_rows):
        trial.check_time()
        try:
            trial.model.logits(query, [frozenset({row})])
        except Exception:
            continue
        raise Failed(
            f"{query} with the change {{{row}}} raised no error, though rows go from 0 to {trial.graph.num_rows - 1}",
            "rows are not checked, so a mistake of the caller goes unnoticed: begin logits() with "
            "cody.models.contract.check_changes(graph, changes)",
        )


@_thorough_limit(
    "an answer is an array that no other call uses",
    "each call should return a new array",
    cause="a buffer or an entry of a cache is returned: return a copy; until then, copy the answers you keep",
    skipped="the answers are not arrays of floats",
)
def _own_array(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    returned: list[Any] = []

    def ask(changes: list[Change]) -> Any:
        returned.append(trial.model.logits(query, changes))
        return returned[-1]

    expected = trial.ask(query, changes, ask)
    if isinstance(returned[0], np.ndarray) and returned[0].dtype.kind == "f":
        trial.ask(query, changes[::-1])
        yield TwoAnswers(query, changes, expected, returned[0], "", "in the same array after the next call")
        with suppress(ValueError):  # a read-only array is safe
            returned[0][...] += 1
        again = trial.ask(query, changes)
        with suppress(ValueError):
            returned[0][...] = expected  # restored, in case it is in a cache
        words = "after the caller wrote into the array of the last answer"
        yield TwoAnswers(query, changes, expected, again, "", words)


@_thorough_limit(
    "two threads at once get the usual answers",
    "only one thread at a time may use the model",
    cause="a call stores intermediate results in the model: use local variables, or take a lock",
)
def _threads(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    questions = [TrialQuestion(query, changes), trial.other(query)]
    expected = [trial.ask(*question) for question in questions]
    with _usual_cause():
        answers = in_two_threads([partial(trial.ask, *question) for question in questions])
    for question, one, answer in zip(questions, expected, answers, strict=True):
        yield TwoAnswers(*question, one, answer, "in one thread", "while another thread used the model too")


@_last_limit(
    "the model has a constant identity",
    cause="identity is a string that changes whenever the answers may, for example "
    "cody.models.contract.fingerprint(*weights); without it, results of different models cannot be distinguished",
)
def _identity(trial: Trial) -> None:
    now = identity_or_error(trial.model)
    if not isinstance(now, str) or not now:
        raise Failed(f"identity must be text, not {now!r:.60}")
    if now != trial.identity:
        raise Failed(f"identity was {trial.identity!r:.60} at first, and is {now!r:.60} now")
    if re.search("0x[0-9a-f]{6}", now):
        raise Failed(f"identity is {now!r:.80}: it contains a memory address, which differs in each run")


@_limit(
    "the model has `hops`, how far it looks",
    cause=f"hops is the number of its layers or of the hops that it samples; without it, {HOPS} are assumed",
    once=True,
)
def _hops(trial: Trial) -> None:
    try:
        hops = whole_number("hops", trial.model.hops)
    except Exception as error:
        raise Failed(f"model.hops raised {type(error).__name__}: {first_line(error)}") from None
    if hops < 1:
        raise Failed(f"hops must be at least 1, not {hops}")


@contextmanager
def _usual_cause(words: str = "") -> Iterator[None]:
    """Add the usual cause of the check to failures."""
    try:
        yield
    except Failed as failure:
        raise Failed(f"{words}{failure}") from None
