"""What lies behind a decision, before and after: a ranking with its rivals, class scores, or a number in a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from cody.models.decision import SHOWN_BELOW, Between, Decision, InTop, Labelled, RatherThan, Standing, State
from cody.models.margins import probability
from cody.utils.words import sanitize
from cody.web.facts import Facts, NamedChange, figure
from cody.web.markup import Markup, name, percent, tag

WIDEST = 24  # letters of a name
NOT_KNOWN = "Known for the answer and its alternatives only."
ROOM = 0.15  # of the axis of a number, on either side of what it shows


def words_of(decision: Decision) -> tuple[str, str] | None:
    """The title of this part of the page, and a sentence; None if a decision has no such part."""
    if isinstance(decision, InTop):
        line = f"The line is below place {decision.k}, the last that counts."
        return "The ranking", f"The best of {decision.of:,} destinations, with their scores. {line}"
    if isinstance(decision, RatherThan):
        return "The two destinations", "Their scores, the higher one first."
    if isinstance(decision, Labelled):
        return "The class scores", "The class with the highest score is predicted."
    if isinstance(decision, Between):
        return "The predicted number", f"Shaded: the range from {decision.low:g} to {decision.high:g}."
    return None


def before_and_after(facts: Facts, opened: NamedChange) -> Markup:
    """The picture: with nothing changed, and with a change; the script redraws the second half."""
    decision = facts.why.decision
    known = [facts.standings.get(()), facts.standings.get(tuple(sorted(opened.change)))]
    if isinstance(decision, Between):
        return _number(decision, [None if standing is None else standing.value for standing in known])
    shares = _shares(decision, known)
    titles = ("Nothing changed", opened.name or "Now")
    halves = (
        tag.div(
            tag.h3(heading, id=f"standing-{key}-title"),
            tag.p(NOT_KNOWN, class_="unevaluated", hidden=bool(standing)),
            tag.ol(*_places(decision, standing, shares), *_room(facts, standing), id=f"standing-{key}"),
            class_="idle" if key == "now" and not opened.change else None,
        )
        for key, heading, standing in zip(("was", "now"), titles, known, strict=True)
    )
    return tag.div(*halves, class_="standings")


def lines(facts: Facts) -> int:
    """How many lines a list has room for, so that nothing below it moves when it changes."""
    known = max((len(standing.leaders) for standing in facts.standings.values()), default=0)
    decision = facts.why.decision
    return max(known, decision.k + SHOWN_BELOW + 1) if may_stand_apart(decision) else known


def may_stand_apart(decision: Decision) -> TypeGuard[InTop]:
    """Whether what a decision is about may lie beyond the places that are listed."""
    return isinstance(decision, InTop) and decision.of > decision.k + SHOWN_BELOW


def _room(facts: Facts, standing: Standing | None) -> Iterator[Markup]:
    """Empty lines up to that number, as high as those that a ranking has there."""
    decision, every = facts.why.decision, lines(facts)
    last, apart = decision.k if isinstance(decision, InTop) else 0, every if may_stand_apart(decision) else 0
    for place in range(1 + (len(standing.leaders) if standing else 0), every + 1):
        kinds = ["blank", *["last"] * (place == last), *["apart"] * (place == apart)]
        yield tag.li("\u00a0", class_=" ".join(kinds), aria_hidden="true")


def _shares(decision: Decision, known: Sequence[Standing | None]) -> dict[float, float]:
    """The length of the bar of each score: a probability; of class scores, from below the lowest to the highest."""
    every = [leader.score for standing in known if standing is not None for leader in standing.leaders]
    if not isinstance(decision, Labelled) or not every:
        return {score: probability(score) for score in every}
    low, high = min(every), max(every)
    room = 0.08 * (high - low) or 1.0
    return {score: (score - low + room) / (high - low + room) for score in every}


def _places(decision: Decision, standing: Standing | None, shares: dict[float, float]) -> Iterator[Markup]:
    """The lines of a list; the one that the decision is about is marked, and apart if it is not among the best."""
    if standing is None:
        return
    own, last = decision.named, decision.k if isinstance(decision, InTop) else 0
    for place, leader in enumerate(standing.leaders, start=1):
        score = leader.score if isinstance(decision, Labelled) else probability(leader.score)
        rank = standing.rank if leader.name == own and standing.rank is not None else place
        kinds = ["own"] * (leader.name == own) + ["apart"] * (rank != place) + ["last"] * (place == last)
        bar = tag.rect(width=percent(shares[leader.score]), height=10, rx=2)
        yield tag.li(
            tag.span(f"{rank:,}", class_="rank"),
            name(leader.name, WIDEST),
            tag.svg(bar, width="100%", height=10, aria_hidden="true"),
            tag.span(f"{score:.3f}"),
            class_=" ".join(kinds) or None,
        )


def _number(decision: Between, values: Sequence[float | None]) -> Markup:
    """An axis with the range, and the number before and after."""
    shown = [decision.low, decision.high, *(value for value in values if value is not None)]
    low, high = min(shown), max(shown)
    low, high = low - ROOM * (high - low), high + ROOM * (high - low)

    def place(value: float) -> float:
        return (value - low) / (high - low)

    first, last = (None if value is None else place(value) for value in values)
    start, end = place(decision.low), place(decision.high)
    parts = [
        tag.rect(class_="track", x=0, y=17, width="100%", height=6, rx=3),
        tag.rect(class_="range", x=percent(start), y=6, width=percent(end - start), height=28, rx=4),
        *(tag.text(f"{limit:g}", x=percent(place(limit)), y=50) for limit in (decision.low, decision.high)),
        tag.circle(class_="first", cx=percent(first or 0.0), cy=20, r=6.5, hidden=first is None),
        tag.circle(class_="now", cx=percent(last or 0.0), cy=20, r=7.5, id="number-now", hidden=last is None),
    ]
    scale = {"data-low": repr(low), "data-high": repr(high)}
    return tag.svg(*parts, class_="number", width="100%", height=54, aria_hidden="true", **scale)


def as_plain(decision: Decision, state: State) -> dict[str, Any] | None:
    """What lies behind a margin as plain data, with names as they are shown; None if nothing does."""
    standing = state.standing
    if standing is None:
        return None
    leaders = [{"name": sanitize(leader.name, WIDEST), "score": leader.score} for leader in standing.leaders]
    return {"value": standing.value, "rank": standing.rank, "leaders": leaders, "figure": figure(decision, state)}
