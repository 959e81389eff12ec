"""What a person sees of an explanation: tables and sentences that fit 80 columns.

Nothing here is markup: names of nodes and files are printed as they are, with unprintable characters replaced.
"""

from __future__ import annotations

from collections.abc import Iterable

from cody.cli.terminal import Prose, ShownPart, green
from cody.explaining.advice import NextStep, next_steps
from cody.explaining.explanation import Explanation
from cody.explaining.unit_words import sentence_says_all
from cody.explaining.waterfall import waterfall_lines
from cody.explaining.wording import AnswerTable, alternatives_table, answer_table
from cody.utils.tables import TextTable


def explanation(why: Explanation) -> Iterable[ShownPart]:
    """The question, the answer, the events it is about, and how far it can be trusted."""
    yield Prose(why.question)
    if headed := bool(why.reason) and not sentence_says_all(why):
        yield Prose(why.reason, bold=True)
    yield Prose(why.sentence, bold=not headed)
    if why.rows:
        yield from ("", answer(why), "")
    if why.alternatives:
        yield from (others(why), "")
    yield from waterfall_lines(why)[1:]
    for note in (why.togetherness, why.leeway, why.certainty, why.stability):
        if note:
            yield Prose(note)
    yield Prose(" ".join(part for part in (why.effort, why.considered, why.protection) if part))
    if why.simultaneity:
        yield from ("", Prose(why.simultaneity))
    if steps := next_steps(why):
        yield from ("", advice(steps))


def advice(steps: Iterable[NextStep]) -> TextTable:
    """What to try next after a search that found nothing, and what that would cost."""
    return TextTable("try next", "", rows=steps)


def others(why: Explanation) -> TextTable:
    """The alternatives, each with the prediction then."""
    headings, lines = alternatives_table(why)
    return AnswerTable(headings, [line._replace(predicted=green(line.predicted)) for line in lines]).as_text()


def answer(why: Explanation) -> TextTable:
    """The edits of the answer, one after the other, with the prediction then."""
    headings, lines = answer_table(why)
    usual = "–", why.decision.cell(why.original)
    shown = [line._replace(predicted=green(line.predicted, line.predicted not in usual)) for line in lines]
    return AnswerTable(headings, shown).as_text()
