"""The widget of a notebook: what it asks the model, and what it shows."""

from pathlib import Path

import numpy as np
import pytest

import cody
from cody import TemporalGraph
from cody.errors import CallError
from cody.models import ToyModel

pytest.importorskip("anywidget", reason="the extra notebook is not installed")

from traitlets import TraitError

from cody.web.widget import ExplanationWidget

ENDS = np.random.default_rng(4).integers(0, 9, (2, 60))
GRAPH = TemporalGraph.from_arrays(*ENDS, np.arange(60.0), names=[f"<n{node}>" for node in range(9)])
MODEL = ToyModel(GRAPH, weights=np.random.default_rng(5).normal(size=60), bias=0.3, indirect=0.5)


@pytest.fixture(scope="module")
def why():
    found = cody.explain(MODEL, GRAPH, GRAPH.query(40))
    assert found.is_counterfactual
    return found


def test_it_begins_with_the_answer_and_says_what_the_model_decides_for_every_other_set(why):
    widget = ExplanationWidget(why, MODEL, GRAPH)
    assert widget.removed == list(why.rows)
    for rows in ([], [why.candidates[0].row], [event.row for event in why.candidates]):
        widget.removed = rows
        before, after = MODEL.logits(why.query, [frozenset(), frozenset(rows)])
        words = ["link" if margin > 0 else "no link" for margin in (before, after)]
        assert widget.answer.startswith(f"{words[0]} (")
        assert f"→ {words[1]} (" in widget.answer
        assert widget.answer.endswith(f" without {len(rows)} of them")


@pytest.mark.parametrize("row", [-1, 40, 10**6])
def test_only_its_own_events_can_be_removed_and_each_counts_once(why, row):
    widget = ExplanationWidget(why, MODEL, GRAPH)
    with pytest.raises(TraitError, match=f"event {row} is not one of the {len(why.candidates)} events"):
        widget.removed = [row]
    assert widget.removed == list(why.rows)
    first = why.candidates[0].row
    widget.removed = [first, first]
    assert widget.removed == [first]
    assert widget.answer.endswith(" without 1 of them")


def test_another_model_and_other_data_are_refused(why):
    other = ToyModel(GRAPH, bias=0.3)
    for given in ((why, other, GRAPH), (why, MODEL, GRAPH.select(np.arange(50)))):
        with pytest.raises(CallError, match="another model or other data"):
            ExplanationWidget(*given)
    with pytest.raises(CallError, match=r"an explanation, as cody\.explain returns it, not 'why'"):
        ExplanationWidget("why", MODEL, GRAPH)


def test_other_decisions_are_asked_as_well():
    found = cody.explain(MODEL, GRAPH, GRAPH.query(40), decision=cody.in_top(2))
    widget = ExplanationWidget(found, MODEL, GRAPH)
    widget.removed = []
    assert "in the top 2" in widget.answer


def test_whoever_cannot_show_widgets_gets_the_page(why):
    shown = ExplanationWidget(why, MODEL, GRAPH)._repr_mimebundle_()
    data = shown[0] if isinstance(shown, tuple) else shown
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"] == why._repr_html_()


def test_boxes_tell_the_kernel_and_names_are_text(why):
    from web.browser import chromium, tab

    widget = ExplanationWidget(why, MODEL, GRAPH)
    code = (Path(cody.__file__).parent / "web" / "widget.js").read_text(encoding="utf-8")
    page = "<!doctype html><div id=here></div>"
    with chromium() as browser, tab(browser, offline=True) as watched:
        watched.page.set_content(page)
        first = watched.page.evaluate(
            """async ([code, state]) => {
              const file = new Blob([code], { type: "text/javascript" });
              const { default: widget } = await import(URL.createObjectURL(file));
              const heard = [];
              const set = (name, value) => { state[name] = value; heard.push(value); };
              const model = { get: (name) => state[name], set, save_changes() {}, on() {}, off() {} };
              const el = document.getElementById("here");
              widget.render({ model, el });
              const boxes = [...el.querySelectorAll("input")];
              const ticked = boxes.map((box) => box.checked);
              boxes[0].click();
              const said = el.querySelector("[role=status]").textContent;
              return [ticked, heard, el.querySelectorAll("label").length, said];
            }""",
            [code, {name: getattr(widget, name) for name in ("sentence", "events", "removed", "answer")}],
        )
    ticked, heard, labels, said = first
    rows = [event["row"] for event in widget.events]
    assert labels == len(rows)
    assert [row for row, box in zip(rows, ticked, strict=True) if not box] == sorted(why.rows, reverse=True)
    assert heard == [sorted(set(why.rows) ^ {rows[0]})]
    assert said == "…"
