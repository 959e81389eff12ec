"""Explanations of many links: lines of JSON, rows of a table, or a file that a later run resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cody.cli.running import stoppable, worker_opener
from cody.cli.terminal import print_csv, print_json, progress, say, share_a_terminal
from cody.errors import ModelError
from cody.explaining.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.study import explanations
from cody.study.record import NOTHING_WORKS
from cody.utils import words

if TYPE_CHECKING:
    from cody.cli.explain import ExplainRequest, ResultOptions


def explain_many(
    question: ExplainRequest,
    queries: Sequence[Query],
    result: ResultOptions,
    *,
    remark: Callable[[Explanation], None] | None,
    allow_data_mismatch: bool,
    beyond: Mapping[str, Any],
) -> None:
    """Explain links, and print or write each explanation as soon as it is known.

    Args:
        question: The model, the graph, and how links are explained.
        queries: The links.
        result: Where the explanations go.
        remark: Called with each.
        allow_data_mismatch: As the user says.
        beyond: What the answers should survive.
    """
    model, graph, request = question
    outcome, out = Outcomes(graph, remark), result.out
    with _way_to_explain(question, result.workers, allow_data_mismatch, beyond) as explain:
        if out is None:
            with stoppable(None, "what was finished is printed (--out FILE saves it and can be resumed)"):
                _print(outcome.explained(_watched(queries, explain)), as_csv=result.as_csv)
        else:
            with stoppable(out, "nothing was done yet"):
                _write(out, explanations.explain_into(out, model, graph, queries, request, explain), outcome)
    if out is not None and result.as_csv:
        wanted = set(queries)
        rows = {
            why.query: explanations.row_of(why) for why in explanations.read_explanations(out) if why.query in wanted
        }
        print_csv(explanations.COLUMNS, (rows[query] for query in queries if query in rows))
    outcome.end(len(queries))


@dataclass(slots=True)
class Outcomes:
    """What became of the links: remarks on those that are explained, and reasons for those that are not."""

    graph: TemporalGraph
    remark: Callable[[Explanation], None] | None
    seen: int = 0
    failed: int = 0

    def explained(self, answers: Iterable[explanations.Answer]) -> Iterator[Explanation]:
        """The explanations among the answers; for the others, the reason is printed."""
        for answer in answers:
            self.seen += 1
            if isinstance(answer, explanations.Unexplained):
                self._fail(answer)
                continue
            if self.remark is not None:
                self.remark(answer)
            yield answer

    def _fail(self, answer: explanations.Unexplained) -> None:
        self.failed += 1
        src, dst = (words.sanitize(self.graph.name(node)) for node in (answer.query.src, answer.query.dst))
        if self.failed == self.seen == NOTHING_WORKS:
            raise ModelError(
                f"the first {self.failed} predictions could not be explained, the last one: {answer.reason}"
            )
        say(f"{src} → {dst}, before row {answer.query.before}, is not explained: {answer.reason}")

    def end(self, total: int) -> None:
        if self.failed:
            raise ModelError(f"{self.failed:,} of {words.count(total, 'prediction')} could not be explained; see above")


@contextmanager
def _way_to_explain(
    question: ExplainRequest, workers: int, allow_data_mismatch: bool, beyond: Mapping[str, Any]
) -> Iterator[explanations.Explain]:
    """Who does the work: this process, or several, which open other models themselves."""
    model, graph, request = question
    if workers == 1:
        yield lambda queries: explanations.explain_each(model, graph, queries, request, **beyond)
        return
    with worker_opener(request.names["data"], graph, request.names["model"], allow_data_mismatch) as opener:
        yield lambda queries: explanations.explain_in_processes(opener, workers, queries, request)


def _watched(queries: Sequence[Query], explain: explanations.Explain) -> Iterator[explanations.Answer]:
    """The answers in the order of the links; how many there are is shown, unless they are on the terminal."""
    with progress("explanations", len(queries), drawn=not share_a_terminal()) as move:  # lines show how far it is, too
        for number, answer in enumerate(explanations.in_order(queries, explain(queries)), start=1):
            yield answer
            move(completed=number)


def _print(whys: Iterable[Explanation], *, as_csv: bool) -> None:
    if as_csv:
        print_csv(explanations.COLUMNS, map(explanations.row_of, whys))
        return
    for why in whys:
        print_json(why.to_dict())


def _write(out: Path, steps: Iterator[explanations.ExplanationProgress], outcome: Outcomes) -> None:
    """Append what the file does not have yet, and say what it has in the end."""
    first = next(steps)
    if first.finished:
        say(f"{first.finished:,} of {words.count(first.total, 'explanation')} already done")
    with progress("explanations", first.total, completed=first.finished) as move:
        for step in steps:
            move(completed=step.finished)
            list(outcome.explained([] if step.answer is None else [step.answer]))
    say(f"{words.count(first.total - outcome.failed, 'explanation')} in {words.sanitize(out, 200)}")
