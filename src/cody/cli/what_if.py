"""cody what-if: what a model predicts under a modified history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cody.cli.command import COUNT, FILE, command, section
from cody.cli.messages import print_json, say
from cody.cli.options import (
    EditOptions,
    LinkOptions,
    ModelSource,
    edit_options,
    json_option,
    link_options,
    model_options,
)
from cody.errors import CallError
from cody.explain.what_if import Scenario, answer_cases, effects, read_cases, unseen
from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add, Alter, Edit, Move
from cody.models.decision import probability
from cody.utils.words import count

_link, _edit, _model = section("The link"), section("Changes to the history"), section("Data and model")


@command(
    "what-if",
    examples={
        "cody what-if --event 53854 --without 53852": "had this message not been sent",
        'cody what-if --event 53854 --move "53852 1 day earlier"': "had it been sent a day earlier",
        'cody what-if --event 53852 --add "1395 1772 2004-07-28 03:54"': "had there been one more",
    },
)
@link_options
@_link(
    "--cases",
    type=FILE,
    help='A JSON list of {"event": row, "removed": [rows], "added": …, "moved": …, "altered": …}.',
)
@edit_options
@_edit("--each", is_flag=True, help="Remove candidate events, one at a time.")
@_edit("--top", was="--most", type=COUNT, default=10, metavar="N", help="With --each: show the N strongest effects.")
@model_options
@_model(
    "--engine",
    type=click.Choice(["fast", "replay"]),
    default="fast",
    help="The fast engine, or replay, the reference implementation.",
)
@json_option
def what_if(
    link: LinkOptions,
    cases: Path | None,
    edits: EditOptions,
    each: bool,
    top: int,
    source: ModelSource,
    engine: str,
    as_json: bool,
) -> None:
    """Score a link under a modified history: without some events, with others, or with events at other times."""
    if cases is not None and (each or edits.are_given or link.is_given):
        raise CallError(
            "--cases describes everything; leave out --event, --src, --without, --add, --move, --alter and --each"
        )
    if each and edits.are_given:
        raise CallError("--each removes one event at a time; leave out --without, --add, --move and --alter")
    removed, new_nodes = edits.removed, edits.new_node
    named = source.named()
    graph = named.graph
    if cases is not None:
        scenarios = read_cases(cases, graph)
        _say_which_cases_are_too_late(graph, scenarios, new_nodes)
    else:
        query, changes = link.query(graph), edits.edits(graph)
        scenarios = [Scenario(query, link.event)]
        scenarios += [Scenario(query, link.event, removed, changes)] if removed or changes else []
        _say_what_is_too_late(graph, query, link.event, removed, changes, new_nodes)
    model = source.open(named, reference=engine == "replay")
    if each:
        found = effects(model, graph, scenarios[0].query)
        scenarios += [scenarios[0]._replace(removed=frozenset({row})) for row in found.candidates.tolist()]
        logits = [found.logit, *found.without.tolist()]
    else:
        logits = answer_cases(model, graph, scenarios, new_nodes=new_nodes)
    if as_json:
        print_json([_answer(graph, case, logit) for case, logit in zip(scenarios, logits, strict=True)])
        return
    from cody.cli import show

    show.print_parts(show.effects(graph, found, top) if each else [show.answers(graph, scenarios, logits)])


def _say_what_is_too_late(
    graph: TemporalGraph,
    query: Query,
    event: int | None,
    removed: frozenset[int],
    edits: Sequence[Edit],
    new_nodes: Sequence[str],
) -> None:
    """Say which changes the question does not see, because they lie after it."""
    later = sorted(row for row in removed if query.before <= row < graph.num_events)
    what = f"event {event}" if event is not None else "the link"
    if len(later) == 1:
        say(f"event {later[0]} does not lie before {what}: leaving it out changes nothing")
    elif later:
        some = f"{len(later):,} of {count(len(removed), 'event')}, from {later[0]} on,"
        say(f"{some} do not lie before {what}: leaving them out changes nothing")
    for edit in edits:
        if said := unseen(graph, query, edit, new_nodes):
            say(said)


def _say_which_cases_are_too_late(graph: TemporalGraph, cases: Sequence[Scenario], new_nodes: Sequence[str]) -> None:
    """Say in how many cases something is changed that the question does not see, and name the first."""
    late = [
        number
        for number, case in enumerate(cases)
        if any(case.query.before <= row < graph.num_events for row in case.removed)
        or any(unseen(graph, case.query, edit, new_nodes) for edit in case.edits)
    ]
    if late:
        of_all = f"{len(late):,} of {count(len(cases), 'case')}, the first of them case {late[0]}"
        say(f"{of_all}, change something that does not lie before the link: that has no effect")


def _answer(graph: TemporalGraph, case: Scenario, logit: float) -> dict[str, Any]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    answer: dict[str, Any] = {"event": case.event}
    if case.event is None:
        answer |= {"src": graph.name(case.query.src), "dst": graph.name(case.query.dst), "time": case.query.time}
    answer["removed"] = sorted(case.removed)
    for name, kind in (("added", Add), ("moved", Move)):
        if any(isinstance(edit, kind) for edit in case.edits):
            answer[name] = [edit._asdict() for edit in case.edits if isinstance(edit, kind)]
    names, altered = graph.names_of_features(), [edit for edit in case.edits if isinstance(edit, Alter)]
    if altered:
        answer["altered"] = [
            {"row": edit.row, "features": dict(zip(names, edit.features, strict=True))} for edit in altered
        ]
    return answer | {
        "logit": round(logit, 6),
        "score": round(probability(logit), 6),
        "predicted": logit > 0,
    }
