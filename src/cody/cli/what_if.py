"""cody what-if: what a model predicts under a modified history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cody.cli import options as shared
from cody.cli.command import bundled, command, given_by, option_fields
from cody.cli.terminal import ShownPart, green, print_json, print_parts, say
from cody.cli.types import FILE
from cody.errors import CallError
from cody.explaining import what_if as pasts
from cody.explaining.what_if import DecidedCase, Scenario
from cody.explaining.without import Removal, few_rows
from cody.explaining.wording import occasion
from cody.graph import TemporalGraph
from cody.graph.dependants import Rule
from cody.graph.edits import Add, Alter, Edit, Move
from cody.graph.units import EVENT
from cody.models.contract import Model, about_node, subject_of
from cody.models.decided import subject_of_decision
from cody.models.decision import LINK, Above
from cody.models.margins import flips, shift
from cody.utils import words
from cody.utils.tables import TextTable

_link, _edit = option_fields("The link"), option_fields("Changes to the history")
_model = option_fields("Data and model")


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """Which link, what changes, and how it is scored."""

    link: shared.LinkOptions = given_by(shared.link_options)
    cases: Path | None = _link(
        'A JSON list of {"event": row, "removed": [rows], "added": …, "moved": …, "altered": …}.', type=FILE
    )
    edits: shared.EditOptions = given_by(shared.edit_options)
    units: shared.UnitOptions = given_by(shared.unit_options)
    each: bool = _edit("Remove candidate events, or units (--by), one at a time.")
    strongest: int = _edit("With --each: show the N strongest effects.", "N", was="--most", default=10)
    decide: shared.DecisionOptions = given_by(shared.decision_options)
    source: shared.ModelSource = given_by(shared.model_options)
    engine: str = _model(
        "The fast engine, or replay, the reference implementation.", one_of=["fast", "replay"], default="fast"
    )
    as_json: bool = given_by(shared.json_option)

    def check(self) -> None:
        """Refuse options that contradict each other."""
        changed = self.edits.are_given
        if self.cases is not None and (self.each or changed or self.link.is_given):
            raise CallError(
                "--cases describes everything; leave out --event, --src, --without, --add, --move, --alter and --each"
            )
        if self.each and changed:
            raise CallError("--each removes one event at a time; leave out --without, --add, --move and --alter")
        if self.units.by != EVENT and not self.each:
            what = f"--by {self.units.by} says what --each removes at a time"
            raise CallError(f"{what}; to remove one of them, --without-pair, …")


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
@bundled("options", WhatIfOptions)
def what_if(options: WhatIfOptions) -> None:
    """Score a link under a modified history: without some events, with others, or with events at other times."""
    options.check()
    edits, source, units, link = options.edits, options.source, options.units, options.link
    new_nodes, decision, rule = edits.new_node, options.decide.decision(), units.rule
    named = source.named()
    graph = named.graph
    if options.cases is not None:
        scenarios = pasts.read_cases(options.cases, graph)
    else:
        query, removal, changes = link.query(graph), edits.removed(graph), edits.edits(graph)
        scenarios = _scenarios(graph, Scenario(query, link.event), removal, changes, rule)
    model = source.open(named, reference=options.engine == "replay")
    link.check(model)
    subject = subject_of_decision(model, decision)
    about = f"the {occasion(subject, graph.name_of_event())}"
    if options.cases is not None:
        _say_which_cases_are_too_late(graph, scenarios, new_nodes, about)
    else:
        changed = Scenario(query, link.event, removal.rows, changes)
        for remark in pasts.without_effect(graph, changed, new_nodes, about):
            say(remark)
    if options.each:
        scenarios += _without_each(model, graph, scenarios[0], units)
    answers = pasts.decide_cases(model, graph, scenarios, decision, new_nodes=new_nodes)
    if options.as_json:
        print_json([_answer(graph, case, answer) for case, answer in zip(scenarios, answers, strict=True)])
        return
    pair = "link" if subject == "link" else graph.name_of_event()
    if options.each:
        unit = "" if units.kind is None else units.kind.noun(graph)
        print_parts(_effects(graph, scenarios, answers, options.strongest, unit or pair, unit))
    else:
        print_parts([_table(graph, scenarios, answers, pair)])


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


def _without_each(model: Model, graph: TemporalGraph, unchanged: Scenario, units: shared.UnitOptions) -> list[Scenario]:
    """The history without each past event of the query in turn, or without each unit of them."""
    query = about_node(unchanged.query) if subject_of(model) == "node" else unchanged.query
    if units.rule is None and units.by == EVENT:
        return [unchanged._replace(removed=frozenset({row})) for row in pasts.near(model, graph, query).tolist()]
    return [
        unchanged._replace(
            removed=unit.change,
            names=(unit.name,) if unit.name else (),
            dependants=unit.change.difference(unit.rows.tolist()),
        )
        for unit in pasts.each_unit(model, graph, query, units.kind, units.rule)
    ]


def _say_which_cases_are_too_late(
    graph: TemporalGraph, cases: Sequence[Scenario], new_nodes: Sequence[str], what: str
) -> None:
    """Say in how many cases something is changed that the question does not see, and name the first."""
    late = [
        number
        for number, case in enumerate(cases)
        if any(case.query.before <= row < graph.num_events for row in case.removed)
        or any(pasts.unseen(graph, case.query, edit, new_nodes) for edit in case.edits)
    ]
    if late:
        of_all = f"{len(late):,} of {words.count(len(cases), 'case')}, the first of them case {late[0]}"
        say(f"{of_all}, change something that does not lie before {what}: that has no effect")


def _answer(graph: TemporalGraph, case: Scenario, decided: DecidedCase) -> dict[str, Any]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    answer: dict[str, Any] = {"event": case.event}
    if case.event is None:
        answer |= {"src": graph.name(case.query.src), "dst": graph.name(case.query.dst), "time": case.query.time}
    names = graph.names_of_features()
    changes = {
        "named": list(case.names),
        "dependants": sorted(case.dependants),
        "added": [edit._asdict() for edit in case.edits if isinstance(edit, Add)],
        "moved": [edit._asdict() for edit in case.edits if isinstance(edit, Move)],
        "altered": [
            {"row": edit.row, "features": dict(zip(names, edit.features, strict=True))}
            for edit in case.edits
            if isinstance(edit, Alter)
        ],
    }
    given = {name: listed for name, listed in changes.items() if listed}
    return answer | {"removed": sorted(case.removed)} | given | _figures(decided)


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


def _table(graph: TemporalGraph, cases: Sequence[Scenario], decided: Sequence[DecidedCase], pair: str) -> TextTable:
    """The scenarios and what is decided in each, with the digits that tell the first from the last.

    Args:
        graph: The log.
        cases: The scenarios.
        decided: What is decided in each.
        pair: What two nodes are called: a link, or the event that is labelled.
    """
    heading = "change" if any(case.edits for case in cases) else "without"
    rows = TextTable("#event", pair, heading, *(f"#{name}" for name in decided[0].decision.headings), "predicted")
    for case, answer, figures in zip(cases, decided, _cells(decided), strict=True):
        event = "" if case.event is None else str(case.event)
        ends = dict.fromkeys((case.query.src, case.query.dst))  # a node that is labelled stands at both
        link = " → ".join(words.sanitize(graph.name(node) if node < graph.num_nodes else "?", 20) for node in ends)
        rows.add_row(event, link, _changes(graph, case), *figures, answer.decision.cell(answer.margin))
    return rows


def _cells(decided: Sequence[DecidedCase]) -> list[tuple[str, str]]:
    """The two figures that a table shows of each case."""
    first = decided[0].decision
    if not isinstance(first, Above):
        return [each.decision.cells([each.state])[0] for each in decided]
    written = first.written(*(each.margin for each in decided))
    return [(f"{each.margin + first.line:.4f}", score) for each, score in zip(decided, written, strict=True)]


def _changes(graph: TemporalGraph, case: Scenario) -> str:
    """The changes of a scenario, in words."""
    parts = [("without " if case.edits else "") + _rows(case)] if case.removed else []
    for edit in case.edits:
        if isinstance(edit, Add):
            parts.append(f"+ {words.link(edit.src, edit.dst, 14)}, {words.moment_and_zone(edit.time)}")
        elif isinstance(edit, Move):
            parts.append(f"{edit.row} moved to {words.moment_and_zone(edit.time)}")
        elif isinstance(edit, Alter):
            features = graph.imagine([edit]).carried(graph.num_events)
            parts.append(f"{edit.row} altered" + (f": {words.sanitize(features)}" if features else ""))
    return "\n".join(parts)


def _effects(
    graph: TemporalGraph, cases: Sequence[Scenario], decided: Sequence[DecidedCase], most: int, removed: str, unit: str
) -> Iterable[ShownPart]:
    """The events whose absence would move the decision most, strongest first.

    Args:
        graph: The log.
        cases: Nothing changed, then one event or unit removed in each.
        decided: What is decided in each case.
        most: How many are shown.
        removed: What the column of what is removed is headed by.
        unit: What a unit of events is called; empty: events are removed one by one.
    """
    before, event = decided[0].margin, graph.name_of_event()
    without = sorted(zip(cases[1:], decided[1:], strict=True), key=lambda pair: -shift(before, pair[1].margin))
    headings = (f"#{name}" for name in decided[0].decision.headings)
    rows = TextTable(f"#without {event}", removed, "how long before", *headings, "predicted")
    for case, answer in ((None, decided[0]), *without[:most]):
        named = ("(none)", "", "") if case is None else _removed(graph, case, unit)
        outcome = green(answer.decision.cell(answer.margin), flips(before, answer.margin))
        rows.add_row(*named, *answer.decision.cells([answer.state])[0], outcome)
    yield rows
    if most < len(without):
        yield f"\nThe {most} strongest of {len(without)}; --strongest {len(without)} shows all."
    alone = sum(flips(before, answer.margin) for _, answer in without)
    past = f"{alone or 'none'} of {words.count(len(without), unit or f'past {event}')}"
    yield f"\nRemoved alone, {past} would change the prediction."


def _removed(graph: TemporalGraph, case: Scenario, unit: str) -> tuple[str, str, str]:
    """What a scenario removes: an event, or a unit with the number of its events; and how long before the link."""
    own = sorted(case.removed - case.dependants)
    when = words.earlier(float(graph.time[own[-1]]), case.query.time)
    along = f" + {len(case.dependants):,}" if case.dependants else ""
    if case.names:
        return f"{words.count(len(own), graph.name_of_event())}{along}", case.names[0].removeprefix(f"{unit} "), when
    return f"{own[0]}{along}", link_of(graph, own[0]), when


def _rows(case: Scenario) -> str:
    """What a scenario removes: by name, else by rows; and how many events went along."""
    along = f" and {words.count(len(case.dependants), 'dependant')}" if case.dependants else ""
    return ("\n".join(case.names) or few_rows(case.removed - case.dependants)) + along


def link_of(graph: TemporalGraph, row: int) -> str:
    """The nodes of an event, and what it carries."""
    named = words.link(graph.name(int(graph.src[row])), graph.name(int(graph.dst[row])), 20)
    return ", ".join(filter(None, [named, words.sanitize(graph.carried(row))]))
