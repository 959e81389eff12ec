"""cody explain --even-if: what could be missing, and the few events on which a decision rests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cody.cli import options as shared
from cody.cli.command import refuse
from cody.cli.terminal import Prose, ShownPart, print_csv, print_json, print_parts, progress, say, share_a_terminal
from cody.errors import CallError
from cody.explaining.even_if import EvenIf, even_if
from cody.explaining.even_if_words import kept_table, notes, question, sentence
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.contract import Model
from cody.search.further import number_of_sets
from cody.search.oracle import Oracle, counting
from cody.search.proposals import removals
from cody.search.scout import usual_evaluations
from cody.study.explainers import Explainer, find
from cody.study.request import Request
from cody.utils.words import timestamp

COLUMNS = ["event", "src", "dst", "time", "margin", "candidates", "kept", "what", "smallest", "robust", "evaluations"]
LEAST = 2  # sets smaller than this are tested in any case: single events


def check_even_if(chosen: Explainer, others: Mapping[str, bool]) -> None:
    """Refuse what does not go with --even-if.

    Args:
        chosen: What explains.
        others: Options, and whether each is given.
    """
    refuse("--even-if prints text, --json and --html, or with --events lines of JSON or --csv", others)
    if chosen.edits != (removals,):
        raise CallError("--even-if says what could be missing: leave out --allow and --why-not")
    if chosen.dependants is not None:
        raise CallError(
            "--even-if keeps some events and removes others, which may depend on those: leave out --with-dependants"
        )
    if find(chosen.name).factual:
        raise CallError(f"--even-if needs a search, and {chosen.name!r} is none: leave out --explainer")


def answer_even_if(
    model: Model, graph: TemporalGraph, request: Request, query: Query, alone: bool, *, as_json: bool, html: Path | None
) -> EvenIf:
    """Search and print; the answer.

    Args:
        model: The model.
        graph: The log of events.
        request: How the link is explained.
        query: The link.
        alone: Keep nothing else.
        as_json: Print the document.
        html: Write a page.
    """
    size, prove = request.explainer.size or SIZE, max(LEAST, request.options["prove"])
    sets = request.explainer.evaluations or number_of_sets(size, prove) + size + usual_evaluations(size)
    with progress("sets of events evaluated", sets) as move:
        watch = counting(lambda tried: move(completed=tried, total=max(tried, sets)))
        found = _found(model, graph, request, query, alone, watch)
    if as_json:
        print_json(found.to_dict())
    else:
        print_parts(_parts(found))
    shared.write_page(found.to_html, html)
    return found


def answer_even_if_of_many(
    model: Model, graph: TemporalGraph, request: Request, queries: Sequence[Query], *, alone: bool, as_csv: bool
) -> None:
    """Search and print: a document on each line, or a row of a table. Links without an answer are named.

    Args:
        model: The model.
        graph: The log of events.
        request: How each link is explained.
        queries: The links.
        alone: Keep nothing else.
        as_csv: Print a table.
    """

    def answers() -> Iterator[EvenIf]:
        failed = 0
        with progress("answers", len(queries), drawn=not share_a_terminal()) as move:
            for number, query in enumerate(queries, start=1):
                try:
                    yield _found(model, graph, request, query, alone)
                except CallError as error:
                    failed += 1
                    if failed == len(queries):
                        raise
                    say(f"event {query.before} is left out: {error}")
                move(completed=number)

    if as_csv:
        print_csv(COLUMNS, map(_row, answers()))
        return
    for found in answers():
        print_json(found.to_dict())


def _row(found: EvenIf) -> dict[str, Any]:
    """An answer as a row of a table."""
    named = {name: getattr(found, name) for name in ("event", "src", "dst", "smallest", "robust", "evaluations")}
    return named | {
        "time": timestamp(found.time),
        "margin": found.original,
        "candidates": len(found.candidates),
        "kept": None if found.kept is None else len(found.kept),
        "what": " ".join(map(str, found.kept_rows)),
    }


def _found(
    model: Model,
    graph: TemporalGraph,
    request: Request,
    query: Query,
    alone: bool,
    watch: Callable[[Oracle], None] | None = None,
) -> EvenIf:
    chosen, options = request.explainer, request.options
    same = {
        name: getattr(chosen, name) for name in ("policy", "search", "hops", "near", "protect", "by", "evaluations")
    }
    same |= {name: options[name] for name in ("seed", "seconds", "full_replay")}
    size, prove = chosen.size or SIZE, max(LEAST, options["prove"])
    return even_if(
        model, graph, query, decision=request.decision, alone=alone, size=size, prove=prove, watch=watch, **same
    )


def _parts(found: EvenIf) -> Iterator[ShownPart]:
    yield Prose(question(found))
    yield Prose(sentence(found), bold=True)
    if found.kept:
        yield ""
        yield kept_table(found)
    yield ""
    for note in notes(found):
        yield Prose(note)
