"""What a person sees in the terminal: tables and sentences that fit 80 columns.

Nothing here is markup: names of nodes and files are printed as they are, with unprintable characters replaced.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cody.cli.messages import styled
from cody.data import Dataset, DataSummary, is_here
from cody.explaining.advice import NextStep, next_steps
from cody.explaining.explanation import Explanation
from cody.explaining.unit_words import sentence_says_all
from cody.explaining.waterfall import waterfall_lines
from cody.explaining.what_if import DecidedCase, Scenario
from cody.explaining.without import few_rows
from cody.explaining.wording import AnswerTable, alternatives_table, answer_table
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Alter, Move
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import LINK, NO_LINK, Above
from cody.models.margins import flips, numbers, probability, shift
from cody.models.predict import Predictions
from cody.models.predict_ranks import RankPrediction, RankPredictions
from cody.models.predictions import (
    DecidedPrediction,
    DecidedPredictions,
    LabelPrediction,
    LabelPredictions,
    PredictionList,
)
from cody.utils.tables import TextTable
from cody.utils.words import (
    ago,
    count,
    earlier,
    from_to,
    heading_of_times,
    is_date,
    moment,
    moment_and_zone,
    sanitize,
    timestamp,
)

if TYPE_CHECKING:
    from cody.cli.demo import Demo
    from cody.train.training import TrainingProgress

WRONG = click.style(" (wrong)", fg="red")
PROSE = 80  # columns of a sentence, however wide the terminal is


class Prose(NamedTuple):
    """Sentences, whose lines are broken between words."""

    text: str
    bold: bool = False


ShownPart = TextTable | Prose | str  # a text by itself is printed as it is


def print_parts(parts: Iterable[ShownPart]) -> None:
    """Print tables, prose and text. Into a file or a pipe, tables are as wide as they need to be."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if narrow else None
    for part in parts:
        print(styled(_as_text(part, width), sys.stdout))


def _as_text(part: ShownPart, width: int | None) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, TextTable):
        return "\n".join(part.lines(width))
    lines = [
        textwrap.fill(line, min(width or PROSE, PROSE), break_long_words=False, break_on_hyphens=False)
        for line in part.text.split("\n")
    ]
    return click.style("\n".join(lines), bold=True) if part.bold else "\n".join(lines)


def _green(text: str, changed: bool = True) -> str:
    """What stands out on a terminal."""
    return click.style(text, fg="green", bold=True) if changed and text else text


def datasets(known: Iterable[Dataset]) -> TextTable:
    rows = TextTable("name", "#nodes", "#events", "kind", "here", "what it is")
    for dataset in known:
        here = "yes" if is_here(dataset) else "no"
        counts = (f"{dataset.nodes:,}", f"{dataset.events:,}")
        rows.add_row(dataset.name, *counts, dataset.kind, here, dataset.title)
    return rows


def summary(name: str, graph: TemporalGraph, facts: DataSummary) -> TextTable:
    rows = TextTable("", "", title=click.style(sanitize(name, 48), bold=True), whole=[0])
    rows.add_row("nodes", f"{facts.nodes:,}")
    rows.add_row("events", f"{facts.events:,}")
    rows.add_row("unique edges", f"{facts.unique_edges:,}")
    unit = "" if is_date(facts.first_time) else " if times are seconds"
    span = f"{facts.days:,.1f} days" if facts.days >= 2 else ago(facts.last_time - facts.first_time)
    rows.add_row("span", f"{span}{unit} ({from_to(facts.first_time, facts.last_time)})")
    rows.add_row("simultaneous", _simultaneous(facts.simultaneous))
    rows.add_row("kind", facts.kind)
    rows.add_row("event features", str(facts.event_features))
    rows.add_row("node features", str(facts.node_features))
    if graph.event_name is not None:
        rows.add_row("an event is called", sanitize(graph.event_name, 40))
    if facts.labels is not None:
        rows.add_row("labels", _labels(facts.labels, facts.events))
    if graph.names is not None:
        first = [sanitize(graph.name(node), 24) for node in range(min(2, graph.num_nodes))]
        rows.add_row("node names", f"{', '.join(first)}, …")
    rows.add_row("identity", graph.identity)
    return rows


def _labels(counts: Mapping[str, int], events: int) -> str:
    """How many events each class has."""
    known = sum(counts.values())
    shares = (f"{sanitize(name, 40)} {number:,} ({_share(number, known)})" for name, number in counts.items())
    unknown = f"; {events - known:,} unknown" if known < events else ""
    return ", ".join(shares) + unknown


def _share(part: int, whole: int) -> str:
    share = 100 * part / max(1, whole)
    return f"{share:.1f} %" if share >= 1 or not part else f"{share:.2g} %"


def _simultaneous(share: float) -> str:
    """How many events have another one of their source at the same time, and what that means if they are many."""
    advice = "\n(--protect simultaneous: those of a link are no candidates)" if share >= 0.25 else ""
    return f"{100 * share:.1f} % of events share time and source with another{advice}"


def epoch(step: TrainingProgress) -> str:
    """The result of an epoch; empty within one."""
    if step.validation is None:
        return ""
    precision = _percent(step.validation.average_precision)
    unseen = _percent(step.validation.inductive_average_precision)
    best = "  best" if step.best else ""
    return f"epoch {step.epoch:>3}  loss {step.loss:.4f}  validation AP {precision}, unseen nodes {unseen}{best}"


def trained(folder: Path, document: dict[str, Any]) -> TextTable:
    """The quality of a model on its test period; that of labels, side by side with what needs no model."""
    origin, title = document["origin"], click.style(f"Saved in {sanitize(folder)}", bold=True)
    tested, names = f"{origin['events']['test']:,} links", ("all of them", "those of nodes unseen in training")
    if "baselines" in origin:
        labels, last = origin["test_labels"], sanitize(document["classes"][-1], 30)
        of_what = f", {labels[document['classes'][-1]]:,} {last}" if len(labels) == 2 else ""
        tested, names = (
            f"{origin['events']['test']:,} labels{of_what}",
            ("this model", "  for nodes unseen in training"),
        )
        if document["threshold"] is not None:
            title += f"\n{last} from a score of {document['threshold']:.3g} on (best F1, validation period)"
    rows = TextTable(f"test period ({tested})", "#AP", "#AUC", title=title)
    for name, prefix in zip(names, ("", "inductive_"), strict=True):
        found = origin["test"]
        rows.add_row(name, _percent(found[f"{prefix}average_precision"]), _percent(found[f"{prefix}auc"]))
    for name, found in origin.get("baselines", {}).items():
        rows.add_row(name, _percent(found["average_precision"]), _percent(found["auc"]))
    return rows


def answers(graph: TemporalGraph, cases: Sequence[Scenario], decided: Sequence[DecidedCase], pair: str) -> TextTable:
    """The scenarios and what is decided in each, with the digits that tell the first from the last.

    Args:
        graph: The log.
        cases: The scenarios.
        decided: What is decided in each.
        pair: What two nodes are called: a link, or the event that is labelled.
    """
    heading = "change" if any(case.edits for case in cases) else "without"
    rows = TextTable("#event", pair, heading, *(f"#{name}" for name in decided[0].decision.headings), "predicted")
    for case, answer, figures in zip(cases, decided, _figures(decided), strict=True):
        event = "" if case.event is None else str(case.event)
        ends = dict.fromkeys((case.query.src, case.query.dst))  # a node that is labelled stands at both
        link = " → ".join(sanitize(_name(graph, node), 20) for node in ends)
        rows.add_row(event, link, _changes(graph, case), *figures, answer.decision.cell(answer.margin))
    return rows


def _figures(decided: Sequence[DecidedCase]) -> list[tuple[str, str]]:
    """The two figures that a table shows of each case."""
    first = decided[0].decision
    if not isinstance(first, Above):
        return [each.decision.cells([each.state])[0] for each in decided]
    written = first.written(*(each.margin for each in decided))
    return [(f"{each.margin + first.line:.4f}", score) for each, score in zip(decided, written, strict=True)]


def _name(graph: TemporalGraph, node: int) -> str:
    return graph.name(node) if node < graph.num_nodes else "?"


def _changes(graph: TemporalGraph, case: Scenario) -> str:
    """The changes of a scenario, in words."""
    parts = [("without " if case.edits else "") + _rows(case)] if case.removed else []
    for edit in case.edits:
        if isinstance(edit, Add):
            parts.append(f"+ {sanitize(edit.src, 14)} → {sanitize(edit.dst, 14)}, {moment_and_zone(edit.time)}")
        elif isinstance(edit, Move):
            parts.append(f"{edit.row} moved to {moment_and_zone(edit.time)}")
        elif isinstance(edit, Alter):
            features = graph.imagine([edit]).carried(graph.num_events)
            parts.append(f"{edit.row} altered" + (f": {sanitize(features)}" if features else ""))
    return "\n".join(parts)


def predictions(
    found: PredictionList[Any], listed: PredictionList[Any], shown: PredictionList[Any], options: str
) -> Iterable[ShownPart]:
    """Scored links, labels or ranks, the wrong predictions marked; of long lists the end, and how to see the rest.

    Args:
        found: All that were scored.
        listed: Those that the user wants to see: all, or the wrong predictions.
        shown: The last of these.
        options: Options of the command that asks why.
    """
    yield Prose(sanitize(found.sentence, 2000))
    if isinstance(found, LabelPredictions):
        yield Prose(sanitize(found.rule, 400))
    if not len(shown):
        if len(found):
            yield Prose("None of them is known to be wrong.")
        return
    yield ""
    rows = TextTable(*_headings(shown))
    scores = (
        numbers(*(each.score for each in shown), line=found.threshold) if isinstance(found, LabelPredictions) else None
    )
    for number, each in enumerate(shown):
        event = "" if each.event is None else str(each.event)
        link = f"{sanitize(each.src, 20)} → {sanitize(each.dst, 20)}"
        if isinstance(found, DecidedPredictions):
            figures = [numbers(each.margin)[0], *([sanitize(each.figure, 40)] if found.decision.headings[1] else [])]
        else:
            figures = [f"{each.score:.2f}" if scores is None else scores[number]]
        rows.add_row(event, link, moment(each.time), *figures, *_verdict(each))
    yield rows
    yield ""
    if len(shown) < len(listed):
        wrong = ", --wrong the wrong ones" if listed is found and len(found.wrong) else ""
        kind = found.unit if listed is found else "wrong prediction"
        yield Prose(f"{len(shown):,} of {count(len(listed), kind)} shown: --last N shows more{wrong}, --csv all.")
    latest = min(reversed(list(shown)), key=lambda each: each.event is None)  # of events, if there are any
    yield f"Explain it:  cody explain {_link_options(latest)}{options}"


def _headings(shown: PredictionList[Any]) -> tuple[str, ...]:
    when = heading_of_times(shown[0].time)
    if isinstance(shown, LabelPredictions):
        return "#row", sanitize(shown.unit, 24), when, "#score", "predicted", "label"
    if isinstance(shown, RankPredictions):
        return "#event", "link", when, "#score", "#rank", "#of", f"top {shown.k}"
    if isinstance(shown, DecidedPredictions):
        pair = "link" if shown.subject == "link" else sanitize(shown.unit, 24)
        return "#event", pair, when, *(f"#{name}" for name in shown.decision.headings if name), "predicted"
    return "#event", "link", when, "#score", "predicted"


def _verdict(each: Any) -> tuple[str, ...]:
    """What is predicted, and whether that is wrong."""
    if isinstance(each, RankPrediction):
        return f"{each.rank:,}", f"{each.of:,}", "yes" if each.in_top else "no"
    wrong = WRONG if each.right is False else ""
    if isinstance(each, DecidedPrediction):
        return (sanitize(each.predicted, 40) + wrong,)
    if isinstance(each, LabelPrediction):
        return sanitize(each.predicted, 24) + wrong, "–" if each.label is None else sanitize(each.label, 24)
    return ((LINK if each.predicted else NO_LINK) + wrong,)


def _link_options(link: Any) -> str:
    """The options that name a link."""
    if link.event is not None:
        return f"--event {link.event}"
    src, dst = (shlex.quote(sanitize(end)) for end in (link.src, link.dst))
    return f"--src {src} --dst {dst} --time {link.time:.15g}"


def partners(shown: Predictions, node: str, options: str) -> Iterable[ShownPart]:
    """The most likely partners of a node, best first."""
    if not len(shown):
        yield Prose(f"{sanitize(node)} has no possible partners.")
        return
    when = shown[0].time
    first = shown.queries[0]
    yield Prose(f"The most likely partners of {sanitize(node)}, as of {moment_and_zone(when)}:")
    yield ""
    now = when == float(shown.graph.time[shown.graph.num_events - 1])
    rows = TextTable("link", "#score", "predicted", "last contact", *([] if now else ["next contact"]))
    for place, each in enumerate(shown):
        contact = shown.contact(place)
        before = "never" if contact.last is None else f"{earlier(contact.last, when)} before"
        after = "never" if contact.next is None else f"{earlier(when, contact.next)} later"
        link = f"{sanitize(each.src, 20)} → {sanitize(each.dst, 20)}"
        rows.add_row(link, f"{each.score:.2f}", LINK_PREDICTED.outcome(each.logit), before, *([] if now else [after]))
    yield rows
    yield ""
    src, dst = (shlex.quote(sanitize(shown.graph.name(end))) for end in (first.src, first.dst))
    link_again = f"--src {src} --dst {dst} --time {'now' if now else shlex.quote(timestamp(when))}"
    yield f"Explain it:  cody explain {link_again}{options}"


def effects(
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
    before = decided[0].margin
    event = graph.name_of_event()
    without = sorted(zip(cases[1:], decided[1:], strict=True), key=lambda pair: -shift(before, pair[1].margin))
    headings = (f"#{name}" for name in decided[0].decision.headings)
    rows = TextTable(f"#without {event}", removed, "how long before", *headings, "predicted")
    shown = [decided[0], *(answer for _, answer in without[:most])]
    cells = [each.decision.cells([each.state])[0] for each in shown]
    rows.add_row("(none)", "", "", *cells[0], decided[0].decision.cell(before))
    for (case, answer), figures in zip(without[:most], cells[1:], strict=True):
        outcome = _green(answer.decision.cell(answer.margin), flips(before, answer.margin))
        rows.add_row(*_removed(graph, case, unit), *figures, outcome)
    yield rows
    if len(shown) <= len(without):
        yield f"\nThe {len(shown) - 1} strongest of {len(without)}; --strongest {len(without)} shows all."
    alone = sum(flips(before, answer.margin) for _, answer in without)
    past = f"{alone or 'none'} of {count(len(without), unit or f'past {event}')}"
    yield f"\nRemoved alone, {past} would change the prediction."


def _removed(graph: TemporalGraph, case: Scenario, unit: str) -> tuple[str, str, str]:
    """What a scenario removes: an event, or a unit with the number of its events; and how long before the link."""
    own = sorted(case.removed - case.dependants)
    when = earlier(float(graph.time[own[-1]]), case.query.time)
    along = f" + {len(case.dependants):,}" if case.dependants else ""
    if case.names:
        return f"{count(len(own), graph.name_of_event())}{along}", case.names[0].removeprefix(f"{unit} "), when
    return f"{own[0]}{along}", _link(graph, own[0]), when


def explanation(why: Explanation) -> Iterable[ShownPart]:
    """The question, the answer, the events it is about, and how far it can be trusted."""
    yield Prose(why.question)
    if headed := bool(why.reason) and not sentence_says_all(why):
        yield Prose(why.reason, bold=True)
    yield Prose(why.sentence, bold=not headed)
    if why.rows:
        yield ""
        yield answer(why)
        yield ""
    if why.alternatives:
        yield others(why)
        yield ""
    yield from waterfall_lines(why)[1:]
    for note in (why.togetherness, why.leeway, why.certainty, why.stability):
        if note:
            yield Prose(note)
    yield Prose(" ".join(part for part in (why.effort, why.considered, why.protection) if part))
    if why.simultaneity:
        yield ""
        yield Prose(why.simultaneity)
    if steps := next_steps(why):
        yield ""
        yield advice(steps)


def addition(why: Explanation, other: Explanation | None) -> Iterable[ShownPart]:
    """An event whose addition flips the prediction where no removals do, and how to search for it; else nothing."""
    if other is not None and other.is_counterfactual:
        ((event, _),) = other.steps
        ask = "--allow remove,add" if why.original > 0 else "--why-not"
        link = f"{sanitize(event.src, 24)} → {sanitize(event.dst, 24)}"
        yield ""
        yield Prose(
            f"Adding one event would flip it: {link}, {moment(event.time)}. {ask} finds the least intrusive one."
        )


def advice(steps: Iterable[NextStep]) -> TextTable:
    """What to try next after a search that found nothing, and what that would cost."""
    rows = TextTable("try next", "")
    for step in steps:
        rows.add_row(*step)
    return rows


def others(why: Explanation) -> TextTable:
    """The alternatives, each with the prediction then."""
    headings, lines = alternatives_table(why)
    return AnswerTable(headings, [line._replace(predicted=_green(line.predicted)) for line in lines]).as_text()


def answer(why: Explanation) -> TextTable:
    """The edits of the answer, one after the other, with the prediction then."""
    headings, lines = answer_table(why)
    usual = "–", why.decision.cell(why.original)
    shown = [line._replace(predicted=_green(line.predicted, line.predicted not in usual)) for line in lines]
    return AnswerTable(headings, shown).as_text()


def demo(result: Demo, page: Path | None) -> Iterable[ShownPart]:
    graph = result.graph
    yield f"{graph.num_events:,} messages between {graph.num_nodes:,} students, and a TGN trained on the earlier ones."
    yield "Would these later messages be sent? The model sees everything before each.\n"
    links = TextTable("#event", "link", heading_of_times(float(graph.time[0])), "#score", "predicted")
    for number, logit in zip(result.rows.tolist(), result.logits.tolist(), strict=True):
        verdict = LINK_PREDICTED.outcome(logit) + ("" if logit > 0 else WRONG)
        when = moment(float(graph.time[number]))
        links.add_row(str(number), _link(graph, number), when, f"{probability(logit):.2f}", verdict)
    yield links
    yield "\nWhich past events decide? One prediction that was right, and one that was wrong:\n"
    yield from explanation(result.correct)
    yield ""
    yield from explanation(result.incorrect)
    yield ""
    if page is not None:
        yield f"Look at it in a browser:  {_below_home(page)}"
    yield f"Try it yourself:          {_as_called()} explain --event {result.incorrect.event}"


def _as_called() -> str:
    """What to type for this program: its path, as it was called, where a shell would not find it by its name."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "cody" and shutil.which("cody") is None else "cody"


def _below_home(path: Path) -> str:
    """A path as a person would type it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _link(graph: TemporalGraph, row: int) -> str:
    named = " → ".join(sanitize(graph.name(int(node)), 20) for node in (graph.src[row], graph.dst[row]))
    return ", ".join([named, *filter(None, [sanitize(graph.carried(row))])])


def _rows(case: Scenario) -> str:
    """What a scenario removes: by name, else by rows; and how many events went along."""
    along = f" and {count(len(case.dependants), 'dependant')}" if case.dependants else ""
    return ("\n".join(case.names) or few_rows(case.removed - case.dependants)) + along


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
