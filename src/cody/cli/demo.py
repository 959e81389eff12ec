"""The first thing a newcomer runs: real links, a model, and why it is right about one and wrong about another."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cody.cli import show
from cody.cli.command import command
from cody.cli.options import use_threads
from cody.cli.terminal import WRONG, ShownPart, print_parts, status
from cody.cli.what_if import link_of
from cody.data import load
from cody.engine import load_model
from cody.errors import CodyError
from cody.explaining.explanation import Explanation
from cody.explaining.pipeline import explain
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.decided import LINK_PREDICTED
from cody.models.margins import probability
from cody.utils import words
from cody.utils.files import cache_directory
from cody.utils.tables import TextTable
from cody.web import write_page

DATA, MODEL = "collegemsg", "tgn-collegemsg"
PERIOD = 0.9  # the demo looks at links from here on: well within the test period
FEW = 3  # events of a counterfactual that can be taken in at a glance


@command("demo")
def demo() -> None:
    """See which past event decides a real prediction."""
    with status("Loading 59,835 messages and a trained TGN ..."):
        use_threads(1)
        result = run_demo()
        page = demo_page(result)
    print_parts(_shown(result, page))


class Demo(NamedTuple):
    """Some links of the last weeks with their logits; the first right and wrong ones with a small counterfactual."""

    graph: TemporalGraph
    rows: IntArray  # [n] links that happened
    logits: FloatArray  # [n]
    correct: Explanation
    incorrect: Explanation


def demo_page(result: Demo) -> Path | None:
    """Write a page about the wrong answer where it can be made again; None if that is not possible."""
    file = cache_directory() / "demo.html"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_page(result.incorrect, file)
    except (CodyError, OSError):  # the demo is worth seeing without it
        return None
    return file


def run_demo(links: int = 6) -> Demo:
    """Score a few links of the test period; then explain links of both kinds until one has a small counterfactual."""
    graph = load(DATA)
    model = load_model(MODEL, graph)
    first = int(PERIOD * graph.num_events)
    queries = [graph.query(row) for row in range(first, graph.num_events)]

    def score(place: int) -> float:
        return float(model.logits(queries[place], [frozenset()])[0])

    def first_explained(*, predicted: bool) -> Explanation:
        wanted = (place for place in range(len(queries)) if (score(place) > 0) == predicted)
        explanations = (explain(model, graph, queries[place], size=SIZE) for place in wanted)
        found = next(why for why in explanations if why.is_counterfactual and len(why.rows) <= FEW)
        return replace(found, parameters=found.parameters | {"data": DATA, "model": MODEL})

    logits = np.array([score(place) for place in range(links)])
    explained = first_explained(predicted=True), first_explained(predicted=False)
    return Demo(graph, first + np.arange(links), logits, *explained)


def _shown(result: Demo, page: Path | None) -> Iterable[ShownPart]:
    graph = result.graph
    yield f"{graph.num_events:,} messages between {graph.num_nodes:,} students, and a TGN trained on the earlier ones."
    yield "Would these later messages be sent? The model sees everything before each.\n"
    links = TextTable("#event", "link", words.heading_of_times(float(graph.time[0])), "#score", "predicted")
    for number, logit in zip(result.rows.tolist(), result.logits.tolist(), strict=True):
        verdict = LINK_PREDICTED.outcome(logit) + ("" if logit > 0 else WRONG)
        when = words.moment(float(graph.time[number]))
        links.add_row(str(number), link_of(graph, number), when, f"{probability(logit):.2f}", verdict)
    yield links
    yield "\nWhich past events decide? One prediction that was right, and one that was wrong:\n"
    yield from show.explanation(result.correct)
    yield ""
    yield from show.explanation(result.incorrect)
    yield ""
    if page is not None:
        yield f"Look at it in a browser:  {_below_home(page)}"
    yield f"Try it yourself:          {_as_called()} explain --event {result.incorrect.event}"


def _as_called() -> str:
    """What to type for this program: its path, as it was called, where a shell would not find it by its name."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "cody" and shutil.which("cody") is None else "cody"


def _below_home(path: Path) -> str:
    """A path as a person would type it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
