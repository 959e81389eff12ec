"""The pages of reports in a real browser: nothing is wider than the window, and nothing is cut."""

from functools import cache

import numpy as np
import pytest

import cody
from cody.graph.units import node
from cody.models import ToyModel
from cody.study.causes import shared_causes
from random_events import random_graph
from web.browser import WIDTHS, chromium, tab


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@cache
def known():
    events = random_graph(np.random.default_rng(3), nodes=12, events=60)
    names = [f"somebody.{number}@department.example" for number in range(12)]
    graph = cody.TemporalGraph.from_arrays(events.src, events.dst, 1.1e9 + 3600 * events.time, names=names)
    return ToyModel(graph, weights=np.random.default_rng(5).normal(0.3, 1, size=60), bias=-0.3), graph


def audit():
    return cody.audit(*known(), links=20).to_html("model", "data")


def causes():
    model, graph = known()
    whys = [cody.explain(model, graph, graph.query(row), size=6, evaluations=30) for row in range(50, 60)]
    return shared_causes(whys, model, graph, by=node, tried=5).to_html()


def impact():
    return cody.impact(*known(), [3, 4]).to_html()


def even_if():
    model, graph = known()
    return cody.even_if(model, graph, graph.query(59)).to_html()


def recourse():
    model, graph = known()
    return cody.recourse(model, graph, graph.query(59), graph.names[graph.src[59]], graph.time[59] + 86_400.0).to_html()


CUT = """(width) => [...document.querySelectorAll("main *")].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width && !e.closest(".scrolled, .scroll, .states, svg") && box.right > width + 0.5;
}).map((e) => e.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("made", [audit, causes, impact, even_if, recourse], ids=lambda made: made.__name__)
def test_no_report_is_wider_than_the_window(browser, made, width, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(made(), encoding="utf-8")
    with tab(browser, viewport={"width": width, "height": 900}) as watched:
        watched.page.goto(file.as_uri())
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        assert watched.page.evaluate(CUT, width) == []
