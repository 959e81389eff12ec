"""What a person sees in the terminal: tables and sentences, at most 80 columns wide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from cody.data import Dataset, Summary, is_here
from cody.graph import TemporalGraph
from cody.what_if import Case

if TYPE_CHECKING:
    from cody.bench import EngineCost, GrowthCost
    from cody.demo import Demo, Effects
    from cody.models.train import Progress

__all__ = ["answers", "bench", "datasets", "demo", "epoch", "escape", "summary", "trained"]


def probability(logit: float) -> float:
    """What a logit means.

    >>> probability(0.0)
    0.5
    """
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else 1 - probability(-logit)


def ago(seconds: float) -> str:
    """A duration in the unit a person would use.

    >>> ago(59), ago(5400), ago(200_000)
    ('59 s', '90 min', '2.3 days')
    """
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("hours", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def moment(time: float) -> str:
    """A unix time as a date; times too small to be one are durations since the beginning."""
    if time < 1e8:
        return f"t = {time:,.0f}"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; a column whose name starts with # holds numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column.removeprefix("#"), justify="right" if column.startswith("#") else "left", no_wrap=True)
    return made


def datasets(known: Iterable[Dataset]) -> Table:
    rows = table("name", "#nodes", "#events", "kind", "here", "what it is")
    for dataset in known:
        here = "yes" if is_here(dataset) else "no"
        counts = (f"{dataset.nodes:,}", f"{dataset.events:,}")
        rows.add_row(dataset.name, *counts, dataset.kind, here, dataset.title)
    return rows


def summary(name: str, graph: TemporalGraph, facts: Summary) -> Table:
    rows = table("", "", title=escape(name))
    rows.show_header = False
    rows.add_row("nodes", f"{facts.nodes:,}")
    rows.add_row("events", f"{facts.events:,}")
    rows.add_row("unique edges", f"{facts.unique_edges:,}")
    rows.add_row("span", f"{facts.days:,.1f} days ({moment(facts.first_time)} to {moment(facts.last_time)})")
    rows.add_row("kind", facts.kind)
    rows.add_row("event features", str(facts.event_features))
    rows.add_row("node features", str(facts.node_features))
    if graph.names is not None:
        shown = ", ".join(graph.name(node) for node in range(min(3, graph.num_nodes)))
        rows.add_row("node names", escape(f"{shown}, … (node 0 is called {graph.name(0)})"))
    rows.add_row("identity", graph.identity)
    return rows


def epoch(step: Progress) -> str:
    assert step.validation is not None
    precision = _percent(step.validation.average_precision)
    unseen = _percent(step.validation.inductive_average_precision)
    best = "  best so far" if step.best else ""
    return f"epoch {step.epoch:>3}  loss {step.loss:.4f}  validation AP {precision}, unseen nodes {unseen}{best}"


def trained(folder: Path, document: dict[str, Any]) -> Table:
    rows = table("test period", "#AP", "#AUC", title=escape(f"Saved in {folder}"))
    test = document["origin"]["test"]
    rows.add_row("all links", _percent(test["average_precision"]), _percent(test["auc"]))
    unseen = (_percent(test["inductive_average_precision"]), _percent(test["inductive_auc"]))
    rows.add_row("links of nodes unseen in training", *unseen)
    return rows


def answers(graph: TemporalGraph, cases: Sequence[Case], logits: Sequence[float]) -> Table:
    rows = table("#event", "link", "without", "#logit", "#score", "predicted")
    for case, logit in zip(cases, logits, strict=True):
        decision = "link" if logit > 0 else "no link"
        score = f"{probability(logit):.2f}"
        rows.add_row(str(case.event), _link(graph, case.event), _rows(case), f"{logit:.4f}", score, decision)
    return rows


def demo(result: Demo) -> Iterable[RenderableType]:
    graph, chosen = result.graph, result.chosen
    yield f"{graph.num_events:,} messages between {graph.num_nodes:,} students, and a TGN trained on the earlier ones."
    yield "Would these later messages be sent? The model sees everything before each.\n"
    links = table("#event", "link", "when", "#score", "predicted")
    for row, logit in zip(result.rows, result.logits, strict=True):
        decision = "link" if logit > 0 else "no link [red](wrong)[/]"
        links.add_row(str(row), _link(graph, row), moment(graph.time[row]), f"{probability(logit):.2f}", decision)
    yield links
    row, strongest = chosen.query.before, _strongest(chosen)
    flipping = int((chosen.without < 0).sum())
    yield f"\nWhy does it predict event {row}, {_link(graph, row)}?"
    yield f"Its score if one of {len(strongest)} past events had not happened, the strongest first:\n"
    yield _effects(graph, chosen, strongest[:5])
    yield f"\nHad it not happened, {_events(flipping)} alone would have changed the prediction."
    yield f"Ask for yourself:  cody what-if --event {row} --without {strongest[0]}"


def bench(
    engines: Sequence[EngineCost], growth: Sequence[GrowthCost], machine: dict[str, Any]
) -> Iterable[RenderableType]:
    yield escape(f"{machine['cpu']}, {machine['cores']} cores, one used; torch {machine['torch']}\n")
    rows = table("", "#plain", "#fast", "#ratio", "#300 questions", "#outside", "#peak", title="One question")
    for cost in engines:
        peak = "–" if cost.peak_mib is None else f"{cost.peak_mib:.0f} MiB"
        times = (f"{cost.plain_ms:.2f} ms", f"{cost.fast_ms:.3f} ms", f"{cost.ratio:.0f}×")
        rows.add_row(cost.model, *times, f"{cost.explanation_s:.3f} s", f"{100 * cost.share_outside:.0f} %", peak)
    yield rows
    if growth:
        rows = table("", "#events", "#300 questions", "#table", "#built in", title="\nOn generated graphs")
        for size in growth:
            cells = (f"{size.explanation_s:.3f} s", f"{size.table_gib:.2f} GiB", f"{size.build_s:.1f} s")
            rows.add_row(size.model, f"{size.events:,}", *cells)
        yield rows
    largest = max([cost.largest_difference for cost in engines] + [size.largest_difference for size in growth])
    yield f"\nLargest difference between plain and fast logits: {largest:.1e}"


def _events(count: int) -> str:
    return "one event" if count == 1 else f"each of {count} events"


def _effects(graph: TemporalGraph, effects: Effects, shown: list[int]) -> Table:
    rows = table("#without event", "link", "how long before", "#logit", "#score", "predicted")
    rows.add_row("(none)", "", "", f"{effects.logit:.3f}", f"{probability(effects.logit):.2f}", "link")
    logits = dict(zip(effects.candidates.tolist(), effects.without.tolist(), strict=True))
    for row in shown:
        when, decision = ago(effects.query.time - graph.time[row]), "link" if logits[row] > 0 else "[green]no link[/]"
        score = f"{probability(logits[row]):.2f}"
        rows.add_row(str(row), _link(graph, row), when, f"{logits[row]:.3f}", score, decision)
    return rows


def _strongest(effects: Effects) -> list[int]:
    """The candidates, those first whose absence lowers the score most."""
    return [int(row) for row in effects.candidates[effects.without.argsort(kind="stable")]]


def _link(graph: TemporalGraph, row: int) -> str:
    return escape(f"{graph.name(graph.src[row])} → {graph.name(graph.dst[row])}")


def _rows(case: Case) -> str:
    rows = [str(row) for row in sorted(case.removed)]
    return ", ".join(rows) if len(rows) <= 4 else f"{', '.join(rows[:3])}, … ({len(rows)} events)"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
