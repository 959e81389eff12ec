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
from math import ceil, comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cody.cli.messages import styled
from cody.cli.proof import LONGEST
from cody.data import Dataset, DataSummary, is_here
from cody.explain.explanation import Explanation
from cody.explain.what_if import Effects, Scenario
from cody.explain.wording import AnswerTable, alternatives_table, answer_table
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Alter, Move
from cody.models.decision import decision, flips, probability, scores, shift
from cody.models.predict import Prediction, Predictions
from cody.search.result import SECONDS
from cody.search.widening import WIDTHS
from cody.study.explainers import DEFAULT_SEARCH
from cody.utils.tables import TextTable
from cody.utils.words import (
    ago,
    count,
    duration,
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
    from cody.study.metrics import Group
    from cody.study.metrics import MetricSummary as GroupSummary
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
    return click.style(text, fg="green", bold=True) if changed else text


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
    if graph.names is not None:
        first = [sanitize(graph.name(node), 24) for node in range(min(2, graph.num_nodes))]
        rows.add_row("node names", f"{', '.join(first)}, …")
    rows.add_row("identity", graph.identity)
    return rows


def _simultaneous(share: float) -> str:
    """How many events have another one of their source at the same time, and what that means if they are many."""
    advice = "\n(--protect simultaneous: those of a link are no candidates)" if share >= 0.25 else ""
    return f"{100 * share:.1f} % of events share time and source with another{advice}"


def epoch(step: TrainingProgress) -> str:
    assert step.validation is not None
    precision = _percent(step.validation.average_precision)
    unseen = _percent(step.validation.inductive_average_precision)
    best = "  best so far" if step.best else ""
    return f"epoch {step.epoch:>3}  loss {step.loss:.4f}  validation AP {precision}, unseen nodes {unseen}{best}"


def trained(folder: Path, document: dict[str, Any]) -> TextTable:
    origin = document["origin"]
    rows = TextTable(
        f"test period ({origin['events']['test']:,} links)",
        "#AP",
        "#AUC",
        title=click.style(f"Saved in {sanitize(folder)}", bold=True),
    )
    test = origin["test"]
    rows.add_row("all of them", _percent(test["average_precision"]), _percent(test["auc"]))
    unseen = (_percent(test["inductive_average_precision"]), _percent(test["inductive_auc"]))
    rows.add_row("those of nodes unseen in training", *unseen)
    return rows


def answers(graph: TemporalGraph, cases: Sequence[Scenario], logits: Sequence[float]) -> TextTable:
    """The scenarios and their scores. Scores that differ have digits enough to tell."""
    heading = "change" if any(case.edits for case in cases) else "without"
    rows = TextTable("#event", "link", heading, "#logit", "#score", "predicted")
    for case, logit, score in zip(cases, logits, scores(*logits), strict=True):
        event = "" if case.event is None else str(case.event)
        link = " → ".join(sanitize(_name(graph, node), 20) for node in (case.query.src, case.query.dst))
        rows.add_row(event, link, _changes(graph, case), f"{logit:.4f}", score, decision(logit))
    return rows


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
            said = graph.imagine([edit]).carried(graph.num_events)
            parts.append(f"{edit.row} altered" + (f": {sanitize(said)}" if said else ""))
    return "\n".join(parts)


def predictions(found: Predictions, listed: Predictions, shown: Predictions, options: str) -> Iterable[ShownPart]:
    """Scored links, the wrong predictions marked; of long lists the end, and how to see the rest.

    Args:
        found: All links that were scored.
        listed: Those that the user wants to see: all, or the wrong predictions.
        shown: The last of these.
        options: Options of the command that asks why.
    """
    yield Prose(found.sentence)
    if not len(shown):
        return
    yield ""
    rows = TextTable("#event", "link", heading_of_times(shown[0].time), "#score", "predicted")
    for each in shown:
        verdict = decision(each.logit) + (WRONG if each.right is False else "")
        event = "" if each.event is None else str(each.event)
        link = f"{sanitize(each.src, 20)} → {sanitize(each.dst, 20)}"
        rows.add_row(event, link, moment(each.time), f"{each.score:.2f}", verdict)
    yield rows
    yield ""
    if len(shown) < len(listed):
        kind, wrong = ("link", ", --wrong the wrong ones") if listed is found else ("wrong prediction", "")
        yield Prose(f"{len(shown):,} of {count(len(listed), kind)} shown: --last N shows more{wrong}, --csv all.")
    latest = min(reversed(list(shown)), key=lambda each: each.event is None)  # of events, if there are any
    yield f"Explain it:  cody explain {_asked(latest)}{options}"


def _asked(link: Prediction) -> str:
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
        rows.add_row(link, f"{each.score:.2f}", decision(each.logit), before, *([] if now else [after]))
    yield rows
    yield ""
    src, dst = (shlex.quote(sanitize(shown.graph.name(end))) for end in (first.src, first.dst))
    asked = f"--src {src} --dst {dst} --time {'now' if now else shlex.quote(timestamp(when))}"
    yield f"Explain it:  cody explain {asked}{options}"


def effects(graph: TemporalGraph, found: Effects, most: int) -> Iterable[ShownPart]:
    """The events whose absence would move the score most, strongest first."""
    before = found.logit
    without = list(zip(found.candidates.tolist(), found.without.tolist(), strict=True))
    strongest = sorted(without, key=lambda pair: -shift(before, pair[1]))[:most]
    rows = TextTable("#without event", "link", "how long before", "#logit", "#score", "predicted")
    rows.add_row("(none)", "", "", f"{before:.3f}", f"{probability(before):.2f}", decision(before))
    for row, logit in strongest:
        verdict = _green(decision(logit), flips(before, logit))
        numbers = (f"{logit:.3f}", f"{probability(logit):.2f}")
        rows.add_row(str(row), _link(graph, row), earlier(float(graph.time[row]), found.query.time), *numbers, verdict)
    yield rows
    if len(strongest) < len(without):
        yield f"\nThe {len(strongest)} strongest of {len(without)}; --top {len(without)} shows all."
    alone = sum(flips(before, logit) for _, logit in without)
    past = f"{alone or 'None'} of {len(found.candidates)} past events"
    yield f"\n{past} would alone, by not happening, have changed the prediction."


def explanation(why: Explanation) -> Iterable[ShownPart]:
    """The question, the answer, the events it is about, and how far it can be trusted."""
    yield Prose(why.question)
    yield Prose(why.sentence, bold=True)
    if why.rows:
        yield ""
        yield answer(why)
        yield ""
    if why.alternatives:
        yield others(why)
        yield ""
    for note in (why.leeway, why.certainty):
        if note:
            yield Prose(note)
    yield Prose(" ".join(part for part in (why.effort, why.considered, why.protection) if part))
    if why.simultaneity:
        yield ""
        yield Prose(why.simultaneity)
    if why.verdict in ("none within the budget", "none found") and why.candidates:
        yield ""
        yield advice(why)


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


def advice(why: Explanation) -> TextTable:
    """What to try next after a search that found nothing, and what that would cost, from what was asked."""
    size, number, each = why.proven, len(why.candidates), why.seconds / max(1, why.evaluations)
    left = comb(number, size) - sum(len(rows) == size for rows, _ in why.evaluated)
    kind = {1: "single events", 2: "pairs", 3: "triples"}.get(size, f"sets of {size}")
    rows = TextTable("try next", "")
    if why.ended == SECONDS:  # until there is more time, nothing else would help
        rows.add_row(f"--seconds {ceil(10 * why.seconds)}", "to look further")
        return rows
    if why.parameters["search"]["name"] != DEFAULT_SEARCH:
        rows.add_row(f"--explainer {DEFAULT_SEARCH}", "to search further with the same budget")
    else:
        larger = 10 * why.evaluations
        rows.add_row(f"--evaluations {larger}", f"to look further (within {duration(larger * each)})")
    if 0 < left * each < LONGEST:
        rows.add_row(f"--prove {size + 1}", f"to try the other {left:,} {kind}, too (within {duration(left * each)})")
    looked_at = number if why.wider is None else why.wider.events
    if looked_at in (why.parameters["candidates"]["size"], *WIDTHS):  # if it is less, there are no others
        rows.add_row(f"--candidates {4 * looked_at}", "to consider older events, too")
    return rows


def others(why: Explanation) -> TextTable:
    """The alternatives, each with the prediction then."""
    rows = _edits(alternatives := alternatives_table(why))
    for line in alternatives.lines:
        rows.add_row(*line[:-1], _green(line.predicted))
    return rows


def answer(why: Explanation) -> TextTable:
    """The edits of the answer, one after the other, with the prediction then."""
    rows = _edits(edits := answer_table(why))
    for line in edits.lines:
        changed = line.predicted not in ("–", decision(why.original))
        rows.add_row(*line[:-1], _green(line.predicted, changed))
    return rows


def _edits(shown: AnswerTable) -> TextTable:
    """The head of a table of edits."""
    edit, link, when, before, logit, score, predicted = shown.headings
    # Rather long names on two lines than every date.
    return TextTable(f"#{edit}", link, when, before, f"#{logit}", f"#{score}", predicted, whole=[2, 3, 6])


def demo(result: Demo, page: Path | None) -> Iterable[ShownPart]:
    graph = result.graph
    yield f"{graph.num_events:,} messages between {graph.num_nodes:,} students, and a TGN trained on the earlier ones."
    yield "Would these later messages be sent? The model sees everything before each.\n"
    links = TextTable("#event", "link", heading_of_times(float(graph.time[0])), "#score", "predicted")
    for number, logit in zip(result.rows.tolist(), result.logits.tolist(), strict=True):
        verdict = decision(logit) + ("" if logit > 0 else WRONG)
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
    rows = [str(row) for row in sorted(case.removed)]
    return ", ".join(rows) if len(rows) <= 4 else f"{', '.join(rows[:3])}, … ({len(rows)} events)"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"


def evaluation(summaries: Mapping[Group, GroupSummary]) -> Iterable[ShownPart]:
    """Means for each explainer, one table for each kind of prediction."""
    kinds: dict[str, TextTable] = {}
    for group, row in summaries.items():
        title = count(row.links, f"{group.kind} link")
        if title not in kinds:
            names = ("explainer", "#fid+", "#fid-", "#sparsity", "#AUFSC+", "#sets", "#seconds")
            kinds[title] = TextTable(*names, title="\n" * bool(kinds) + click.style(title, bold=True), whole=[0])
        shares = (row.fidelity_plus, row.fidelity_minus, row.sparsity, row.aufsc_plus)
        asked = row.evaluations or 0.0
        sets = f"{asked:,.{1 if asked < 1000 else 0}f}"
        seconds = "–" if row.seconds is None else f"{row.seconds:.3f}"
        kinds[title].add_row(group.explainer, *(f"{share:.3f}" for share in shares), sets, seconds)
    yield from kinds.values()
    if kinds:
        yield ""
        yield Prose(
            "fid+: share of links whose decision changes without the events named; fid-: share whose decision stays "
            "with these events alone; sparsity: mean share of the candidates that is named; AUFSC+: area under fid+ "
            "over sparsity; sets: mean number of sets that were evaluated."
        )
