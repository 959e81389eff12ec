"""Explanations of many links: lines of JSON, rows of a table, or a file that a later run resumes."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cody import words
from cody.cli.common import print_json, say
from cody.cli.evaluate import stoppable, worker_opener
from cody.cli.progress import progress, share_a_terminal
from cody.evaluate.explanations import (
    COLUMNS,
    Explain,
    explain_in_processes,
    explain_into,
    in_order,
    read_explanations,
    row_of,
)
from cody.evaluate.request import Request
from cody.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.model import Model


def explain_many(
    model: Model,
    graph: TemporalGraph,
    request: Request,
    queries: Sequence[Query],
    remark: Callable[[Explanation], None] | None,
    *,
    out: Path | None,
    workers: int,
    as_csv: bool,
    other_data: bool,
) -> None:
    """Explain links, and print or write each explanation as soon as it is known. `remark` is told each of them."""
    with _way_to_explain(model, graph, request, workers, other_data) as explain:
        if out is None:
            with stoppable(None, "what was finished is printed (--out FILE keeps it, and resumes)"):
                _print(_watched(queries, explain, remark), as_csv=as_csv)
            return
        with stoppable(out, "nothing was done yet"):
            _write(out, model, graph, queries, request, explain, remark)
    if as_csv:
        asked = set(queries)
        rows = {why.query: row_of(why) for why in read_explanations(out) if why.query in asked}
        print_rows(rows[query] for query in queries)


@contextmanager
def _way_to_explain(
    model: Model, graph: TemporalGraph, request: Request, workers: int, other_data: bool
) -> Iterator[Explain]:
    """Who does the work: this process, or several."""
    if workers == 1:
        yield lambda queries: (request.explain(model, graph, query) for query in queries)
        return
    with worker_opener(request.names["data"], graph, request.names["model"], other_data) as opener:
        yield lambda queries: explain_in_processes(opener, workers, queries, request)


def _watched(
    queries: Sequence[Query], explain: Explain, remark: Callable[[Explanation], None] | None
) -> Iterator[Explanation]:
    """The explanations in the order of the links; how many there are is shown, unless they are on the terminal."""
    with progress("links", len(queries), drawn=not share_a_terminal()) as move:  # lines show how far it is, too
        for number, why in enumerate(in_order(queries, explain(queries)), start=1):
            if remark is not None:
                remark(why)
            yield why
            move(completed=number)


def _print(explanations: Iterable[Explanation], *, as_csv: bool) -> None:
    if as_csv:
        print_rows(map(row_of, explanations))
        return
    for why in explanations:
        print_json(why.to_dict())


def _write(
    out: Path,
    model: Model,
    graph: TemporalGraph,
    queries: Sequence[Query],
    request: Request,
    explain: Explain,
    remark: Callable[[Explanation], None] | None,
) -> None:
    """Append what the file does not have yet, and say what it has in the end."""
    steps = explain_into(out, model, graph, queries, request, explain)
    first = next(steps)
    if first.finished:
        say(f"{first.finished:,} of {words.count(first.total, 'explanation')} already done")
    with progress("links", first.total, completed=first.finished) as move:
        for step in steps:
            move(completed=step.finished)
            if remark is not None and step.why is not None:
                remark(step.why)
    say(f"{words.count(first.total, 'explanation')} in {words.plain(out, 200)}")


def print_rows(rows: Iterable[dict[str, object]]) -> None:
    """Print rows of a table as comma-separated values, each as soon as it is known."""
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
        sys.stdout.flush()
