"""cody what-if: what a model predicts under a modified history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cody.cli import options as shared
from cody.cli.command import COUNT, FILE, command, section
from cody.cli.messages import print_json, say
from cody.cli.units import UnitOptions, unit_options
from cody.errors import CallError
from cody.explaining.what_if import (
    DecidedCase,
    Scenario,
    decide_cases,
    each_unit,
    near,
    read_cases,
    unseen,
    without_effect,
)
from cody.explaining.without import Removal
from cody.explaining.wording import occasion
from cody.graph import TemporalGraph
from cody.graph.dependants import Rule
from cody.graph.edits import Add, Alter, Edit, Move
from cody.graph.units import EVENT, Unit
from cody.models.contract import Model, about_node, subject_of
from cody.models.decided import subject_of_decision
from cody.models.decision import LINK, Above
from cody.utils.words import count

_link, _edit, _model = section("The link"), section("Changes to the history"), section("Data and model")


@command(
    "what-if",
    examples={
        "cody what-if --event 53854 --without 53852": "had this message not been sent",
        'cody what-if --event 53854 --move "53852 1 day earlier"': "had it been sent a day earlier",
        'cody what-if --event 53852 --add "1395 1772 2004-07-28 03:54"': "had there been one more",
        "cody what-if --event 53854 --without 53852 --top 10": "and where would 1395 rank then?",
        'cody what-if --event 53007 --without-pair "474 1285"': "had these two never written to each other",
    },
)
@shared.link_options
@_link(
    "--cases", type=FILE, help='A JSON list of {"event": row, "removed": [rows], "added": …, "moved": …, "altered": …}.'
)
@shared.edit_options
@unit_options
@_edit("--each", is_flag=True, help="Remove candidate events, or units (--by), one at a time.")
@_edit(
    "--strongest", was="--most", type=COUNT, default=10, metavar="N", help="With --each: show the N strongest effects."
)
@shared.decision_options
@shared.model_options
@_model(
    "--engine",
    type=click.Choice(["fast", "replay"]),
    default="fast",
    help="The fast engine, or replay, the reference implementation.",
)
@shared.json_option
def what_if(
    link: shared.LinkOptions,
    cases: Path | None,
    edits: shared.EditOptions,
    units: UnitOptions,
    each: bool,
    strongest: int,
    decide: shared.DecisionOptions,
    source: shared.ModelSource,
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
    if units.by != EVENT and not each:
        raise CallError(f"--by {units.by} says what --each removes at a time; to remove one of them, --without-pair, …")
    new_nodes, decision, rule = edits.new_node, decide.decision(), units.rule
    named = source.named()
    graph = named.graph
    if cases is not None:
        scenarios = read_cases(cases, graph)
    else:
        query, removal, changes = link.query(graph), edits.removed(graph), edits.edits(graph)
        scenarios = _scenarios(graph, Scenario(query, link.event), removal, changes, rule)
    model = source.open(named, reference=engine == "replay")
    link.check(model)
    subject = subject_of_decision(model, decision)
    about = f"the {occasion(subject, graph.name_of_event())}"
    if cases is not None:
        _say_which_cases_are_too_late(graph, scenarios, new_nodes, about)
    else:
        changed = Scenario(query, link.event, removal.rows, changes)
        for remark in without_effect(graph, changed, new_nodes, about):
            say(remark)
    if each:
        scenarios += _without_each(model, graph, scenarios[0], units)
    answers = decide_cases(model, graph, scenarios, decision, new_nodes=new_nodes)
    if as_json:
        print_json([_answer(graph, case, answer) for case, answer in zip(scenarios, answers, strict=True)])
        return
    from cody.cli import show

    pair = "link" if subject == "link" else graph.name_of_event()
    if each:
        unit = "" if units.kind is None else units.kind.noun(graph)
        show.print_parts(show.effects(graph, scenarios, answers, strongest, unit or pair, unit))
    else:
        show.print_parts([show.answers(graph, scenarios, answers, pair)])


def _scenarios(
    graph: TemporalGraph, unchanged: Scenario, removal: Removal, edits: tuple[Edit, ...], rule: Rule | None
) -> list[Scenario]:
    """Nothing changed, then what is removed and edited; by a rule, then with what goes along."""
    if not removal.rows and not edits:
        return [unchanged]
    literal = unchanged._replace(removed=removal.rows, edits=edits, names=removal.names)
    along = removal.dependants(graph, rule, unchanged.query.before)
    if not along:
        return [unchanged, literal]
    return [unchanged, literal, literal._replace(removed=removal.rows | along, dependants=along)]


def _without_each(model: Model, graph: TemporalGraph, unchanged: Scenario, units: UnitOptions) -> list[Scenario]:
    """The history without each past event of the query in turn, or without each unit of them."""
    query = about_node(unchanged.query) if subject_of(model) == "node" else unchanged.query
    if units.rule is None and units.by == EVENT:
        return [unchanged._replace(removed=frozenset({row})) for row in near(model, graph, query).tolist()]
    return [_without_unit(unchanged, unit) for unit in each_unit(model, graph, query, units.kind, units.rule)]


def _without_unit(unchanged: Scenario, unit: Unit) -> Scenario:
    names = (unit.name,) if unit.name else ()
    along = unit.change.difference(unit.rows.tolist())
    return unchanged._replace(removed=unit.change, names=names, dependants=along)


def _say_which_cases_are_too_late(
    graph: TemporalGraph, cases: Sequence[Scenario], new_nodes: Sequence[str], what: str
) -> None:
    """Say in how many cases something is changed that the question does not see, and name the first."""
    late = [
        number
        for number, case in enumerate(cases)
        if any(case.query.before <= row < graph.num_events for row in case.removed)
        or any(unseen(graph, case.query, edit, new_nodes) for edit in case.edits)
    ]
    if late:
        of_all = f"{len(late):,} of {count(len(cases), 'case')}, the first of them case {late[0]}"
        say(f"{of_all}, change something that does not lie before {what}: that has no effect")


def _answer(graph: TemporalGraph, case: Scenario, decided: DecidedCase) -> dict[str, Any]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    answer: dict[str, Any] = {"event": case.event}
    if case.event is None:
        answer |= {"src": graph.name(case.query.src), "dst": graph.name(case.query.dst), "time": case.query.time}
    answer["removed"] = sorted(case.removed)
    answer |= {"named": list(case.names)} if case.names else {}
    answer |= {"dependants": sorted(case.dependants)} if case.dependants else {}
    for name, kind in (("added", Add), ("moved", Move)):
        if any(isinstance(edit, kind) for edit in case.edits):
            answer[name] = [edit._asdict() for edit in case.edits if isinstance(edit, kind)]
    names, altered = graph.names_of_features(), [edit for edit in case.edits if isinstance(edit, Alter)]
    if altered:
        answer["altered"] = [
            {"row": edit.row, "features": dict(zip(names, edit.features, strict=True))} for edit in altered
        ]
    return answer | _figures(decided)


def _figures(decided: DecidedCase) -> dict[str, Any]:
    """What is decided, and its numbers."""
    decision, margin, standing = decided.decision, decided.margin, decided.state.standing
    if isinstance(decision, Above):
        figures = {"logit": round(margin + decision.line, 6), "score": round(decision.score(margin), 6)}
        usual = decision.threshold == 0.5 and decision.positive == LINK
        return figures | {"predicted": margin > 0} | ({} if usual else {"outcome": decision.outcome(margin)})
    known = {} if standing is None else {name: value for name, value in standing._asdict().items() if value}
    if "leaders" in known:
        known["leaders"] = [leader._asdict() for leader in known["leaders"]]
    return {"margin": round(margin, 6)} | known | {"predicted": margin > 0, "outcome": decision.outcome(margin)}
