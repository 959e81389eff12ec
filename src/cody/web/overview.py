"""What a server's model is like: how it scores recent events, how often it is right, and examples worth looking at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError
from cody.graph import Query
from cody.models.predict import Prediction, Predictions
from cody.models.predictions import LabelPrediction
from cody.utils.words import count
from cody.web.live import Live
from cody.web.markup import Markup, percent, tag

SAMPLE = 200  # events of the test period
FROM = 0.85  # of the log: the test period
LISTED = 3  # examples of a kind
BINS = 20
HEIGHT = 110  # pixels of the histogram

Scored = Prediction | LabelPrediction


class Overview(NamedTuple):
    """A sample of events, and of links that did not happen, as the model scores them."""

    happened: list[Scored]
    others: list[Scored]  # the same sources with random destinations; none if the model predicts labels
    examples: list[tuple[str, str, list[Scored]]]  # predictions with a title, and why they are worth looking at

    @property
    def quality(self) -> str:
        """How often the model is right, in a sentence."""
        right = sum(each.right is True for each in self.happened)
        if not self.others:
            known = sum(each.right is not None for each in self.happened)
            return f"It is right about {right} of {count(known, 'recent event')}." if known else ""
        alarms = sum(bool(each.predicted) for each in self.others)
        return (
            f"It predicts {_share(right, len(self.happened))} of {len(self.happened)} recent links that happened, and "
            f"{_share(alarms, len(self.others))} of {len(self.others)} that did not (random destinations)."
        )


def _share(part: int, of: int) -> str:
    return f"{100 * part / max(1, of):.0f} %"


def overview(live: Live) -> Overview | None:
    """The overview of a server, computed once; None if there was no time for it, or there are no events."""
    if not live.seen:
        try:
            live.seen.append(_overview(live))
        except BudgetError:
            live.seen.append(None)
    seen = live.seen[0]
    assert seen is None or isinstance(seen, Overview)
    return seen


def _overview(live: Live) -> Overview | None:
    graph = live.graph
    if graph.num_events < 2:
        return None
    first = max(1, int(FROM * graph.num_events))
    rows = np.unique(np.linspace(first, graph.num_events - 1, SAMPLE).astype(int)).tolist()
    found, others, new = live.predicted(rows), list[Scored](), list[Scored]()
    sure = "The model was sure about these, and wrong."
    if isinstance(found, Predictions):
        sure = "These happened. The model was sure that they would not."
        pool = np.unique(graph.dst[: graph.num_events])
        drawn = np.random.default_rng(0).choice(pool, len(rows)).tolist()
        pairs = zip(rows, drawn, strict=True)
        queries = [Query(int(graph.src[row]), dst, float(graph.time[row]), row) for row, dst in pairs]
        others = [each for each in live.predicted(queries) if each.right is not None]
        new = [each for place, each in enumerate(found) if each.predicted and found.contact(place).last is None]
    happened: list[Scored] = list(found)
    threshold = (live.task and live.task.threshold) or 0.5
    wrong = [each for each in happened if each.right is False]
    never_met = "Predicted, although the two had never met before."
    little = f"Scores closest to the threshold, {threshold:g}: little would flip them."
    examples = [
        ("Wrong", sure, sorted(wrong, key=lambda each: -abs(each.score - threshold))[:LISTED]),
        ("Fragile", little, sorted(happened, key=lambda each: abs(each.score - threshold))[:LISTED]),
        ("Surprising", never_met, sorted(new, key=lambda each: -each.score)[:LISTED]),
    ]
    return Overview(happened, others, examples)


def histogram(found: Overview) -> Markup:
    """How scores are distributed: of what happened, and of what did not."""
    kinds = [("happened", found.happened), ("other", found.others)]
    counts = {kind: np.histogram([each.score for each in scored], BINS, (0, 1))[0] for kind, scored in kinds}
    most = max(1, *(int(each.max()) for each in counts.values()))
    bars = [
        tag.rect(
            x=percent((place + 0.08 + 0.42 * (kind == "other")) / BINS),
            width=percent(0.42 / BINS),
            y=HEIGHT * (1 - number / most),
            height=HEIGHT * number / most,
            class_=kind,
        )
        for kind, numbers in counts.items()
        for place, number in enumerate(numbers.tolist())
        if number
    ]
    labels = [tag.text(f"{at:g}", x=percent(at), y=HEIGHT + 16) for at in (0.0, 0.5, 1.0)]
    line = tag.line(x1=0, x2="100%", y1=HEIGHT, y2=HEIGHT, class_="rule")
    labels.append(tag.text("score", x="75%", y=HEIGHT + 16))
    drawn = tag.svg(*bars, line, *labels, width="100%", height=HEIGHT + 20, role="img", aria_label="Scores")
    legend = [tag.li(tag.i(class_="happened"), "happened")]
    legend += [tag.li(tag.i(class_="other"), "did not happen")] if found.others else []
    return tag.div(drawn, tag.ul(*legend, class_="legend"), class_="histogram")
