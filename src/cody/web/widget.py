"""An explanation as a widget of a notebook: while the kernel lives, every set of its events can be tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from cody.errors import CallError, CodyError
from cody.explaining.explanation import REMOVED, Explanation
from cody.explaining.what_if import Scenario
from cody.graph import TemporalGraph
from cody.models.contract import Model, identity_of
from cody.utils.words import moment
from cody.web.gauge import gauge, outcome
from cody.web.live import Live

STATIC = "text/html"


class ExplanationWidget(anywidget.AnyWidget):
    """The past events of an explanation as boxes, and what the model decides without those that are not ticked."""

    _esm = Path(__file__).with_name("widget.js")

    sentence = traitlets.Unicode().tag(sync=True)
    events = traitlets.List(traitlets.Dict()).tag(sync=True)  # row and words of each, the latest first
    removed = traitlets.List(traitlets.Int()).tag(sync=True)  # rows that are not ticked
    answer = traitlets.Unicode().tag(sync=True)  # what is decided without them

    def __init__(self, why: Explanation, model: Model, graph: TemporalGraph) -> None:
        """Begins with the events of the answer removed.

        Args:
            why: The explanation.
            model: That it is about.
            graph: Its log.
        """
        if not isinstance(why, Explanation):
            raise CallError(f"the first argument is an explanation, as cody.explain returns it, not {why!r:.60}")
        if (why.model, why.data) != (identity_of(model), graph.identity):
            raise CallError("the explanation is about another model or other data than those that were given with it")
        removable = [event for event in reversed(why.candidates) if event.edit == REMOVED]
        words = [{"row": each.row, "words": f"{moment(each.time)}  {each.src} → {each.dst}"} for each in removable]
        self._why, self._live = why, Live(graph, model)
        self._rows = {event.row for event in removable}
        super().__init__(sentence=why.sentence, events=words)
        self.observe(self._ask, "removed")
        self.removed = [row for row in why.rows if row in self._rows]
        self._ask()

    @traitlets.validate("removed")
    def _known(self, proposal: Any) -> list[int]:
        """The rows, each once; those of other events are rejected."""
        rows: list[int] = list(dict.fromkeys(proposal["value"]))
        unknown = [row for row in rows if row not in self._rows]
        if unknown:
            raise traitlets.TraitError(
                f"event {unknown[0]} is not one of the {len(self._rows)} events that can be removed"
            )
        return rows

    def _ask(self, _: Any = None) -> None:
        """Ask the model what it decides without the events that are removed; an error is an answer, too."""
        rows = self._why.change_of(self.removed)
        try:
            given = self._live.score(Scenario(self._why.query, self._why.event, rows), self._why.decision)
        except CodyError as error:
            self.answer = str(error)
            return
        written = gauge(given.decision, ()).written(round(given.original, 5), round(given.logit, 5))
        before, after = (outcome(given.decision, margin) for margin in (given.original, given.logit))
        self.answer = f"{before} ({written[0]}) → {after} ({written[1]}) without {len(self.removed)} of them"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and the page for whoever cannot show widgets: an export, or a notebook without its kernel."""
        shown = super()._repr_mimebundle_(**options)
        if isinstance(shown, tuple):
            data, *rest = shown
            return ({**data, STATIC: self._why._repr_html_()}, *rest)
        return None if shown is None else {**shown, STATIC: self._why._repr_html_()}
