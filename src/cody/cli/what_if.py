"""Questions about another past."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cody.cli.choices import Engine
from cody.cli.common import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    DataOption,
    JsonOption,
    ModelOption,
    OtherDataOption,
    SortOption,
    UnitOption,
    app,
    open_model,
    print_json,
    say,
)
from cody.cli.links import asked_links
from cody.cli.options import (
    AddOption,
    AlterOption,
    DstOption,
    EventOption,
    MoveOption,
    NewNodeOption,
    SrcOption,
    TimeOption,
    WithoutOption,
)
from cody.cli.parser import Option
from cody.data import load
from cody.engine.named import NamedModel
from cody.errors import CallError
from cody.explain.what_if import (
    Scenario,
    answer_cases,
    effects,
    parse_add,
    parse_alter,
    parse_move,
    parse_rows,
    read_cases,
    unseen,
)
from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add, Alter, Edit, Move
from cody.models.decision import probability
from cody.utils.words import count


@app.command(
    "what-if",
    groups={
        "The link": "event src dst time cases",
        "What is otherwise": "without add move alter new_node each most",
        "Data and model": "data model sort unit allow_data_mismatch engine",
    },
    examples={
        "cody what-if --event 53854 --without 53852": "had this message not been sent",
        'cody what-if --event 53854 --move "53852 1 day earlier"': "had it been sent a day earlier",
        'cody what-if --event 53852 --add "1395 1772 2004-07-28 03:54"': "had there been one more",
    },
)
def what_if(
    data: DataOption = DEFAULT_DATA,
    model: ModelOption = DEFAULT_MODEL,
    event: EventOption = None,
    src: SrcOption = None,
    dst: DstOption = None,
    time: TimeOption = None,
    without: WithoutOption = "",
    add: AddOption = None,
    move: MoveOption = None,
    alter: AlterOption = None,
    new_node: NewNodeOption = None,
    each: Annotated[bool, Option("--each", help="Leave out past events near the link, one at a time.")] = False,
    most: Annotated[int, Option(min=1, help="With --each: how many of them are shown, strongest first.")] = 10,
    cases: Annotated[
        Path | None,
        Option(help='A JSON list of {"event": row, "removed": [rows], "added": …, "moved": …, "altered": …}.'),
    ] = None,
    engine: Annotated[Engine, Option(help="The fast one, or the slow one that defines right.")] = Engine.fast,
    sort: SortOption = False,
    unit: UnitOption = None,
    allow_data_mismatch: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Ask what a model would say were the past otherwise: without some events, with others, at other times."""
    removed, changed = frozenset(parse_rows(without)), bool(without or add or move or alter)
    if cases is not None and (each or changed or any(part is not None for part in (event, src, dst, time))):
        raise CallError(
            "--cases says everything; leave out --event, --src, --without, --add, --move, --alter and --each"
        )
    if each and changed:
        raise CallError("--each leaves out one event at a time; leave out --without, --add, --move and --alter")
    named = NamedModel(model, partial(load, data, sort=sort, unit=unit))
    graph = named.graph
    if cases is not None:
        asked = read_cases(cases, graph)
        _say_which_cases_are_too_late(graph, asked, new_node or [])
    else:
        (query,) = asked_links(graph, event, None, src, dst, time)
        edits: tuple[Edit, ...] = (
            *(parse_add(text, graph) for text in add or []),
            *(parse_move(text, graph) for text in move or []),
            *(parse_alter(text, graph) for text in alter or []),
        )
        asked = [Scenario(query, event), *([Scenario(query, event, removed, edits)] if removed or edits else [])]
        _say_what_is_too_late(graph, query, event, removed, edits, new_node or [])
    loaded = open_model(named, allow_data_mismatch=allow_data_mismatch, plainly=engine == Engine.replay)
    if each:
        found = effects(loaded, graph, asked[0].query)
        asked += [asked[0]._replace(removed=frozenset({row})) for row in found.candidates.tolist()]
        logits = [found.logit, *found.without.tolist()]
    else:
        logits = answer_cases(loaded, graph, asked, new_nodes=new_node or [])
    if json_:
        print_json([_answer(graph, case, logit) for case, logit in zip(asked, logits, strict=True)])
        return
    from cody.cli import show

    show.print_parts(show.effects(graph, found, most) if each else [show.answers(graph, asked, logits)])


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
