"""What an answer survives: the scores of other models, and of this one under noise, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cody.models.margins import flips
from cody.utils.words import sanitize
from cody.web.facts import Facts
from cody.web.markup import Markup
from cody.web.parts import cell, row, table

WIDEST = 40  # letters of a name


def stability_table(facts: Facts) -> Markup:
    """One row for the model itself, and one for each other that was tested: its score before and after, who flips."""
    heads = ["", f"{facts.gauge.word} before", "after", "the answer", *["alternatives that flip it"] * _several(facts)]
    return table(heads, _rows(facts), "elsewhere", caption="What other models decide")


def _several(facts: Facts) -> bool:
    return bool(facts.why.alternatives)


def _rows(facts: Facts) -> Iterator[Markup]:
    why = facts.why
    if why.verification is not None:
        here = why.verification.without, *(other.verification.without for other in why.alternatives)
        yield _row(facts, "the explained model", why.verification.original, here)
    for each in why.elsewhere:
        yield _row(facts, sanitize(each.name, WIDEST), each.original, each.without)


def _row(facts: Facts, name: str, original: float, without: Sequence[float]) -> Markup:
    agrees = not flips(facts.why.original, original)
    holding = [flips(original, margin) for margin in without]
    flipping = [str(number) for number, holds in enumerate(holding) if holds and number]
    verdict = ("flips it" if holding[0] else "does not flip it") if agrees else "decides differently from the start"
    others = [", ".join(flipping) if agrees and flipping else "–"] if _several(facts) else []
    scores = (facts.gauge.in_full(margin) for margin in (original, without[0]))
    return row(name, *scores, cell(verdict, class_="turned" if agrees and holding[0] else "same"), *others)
