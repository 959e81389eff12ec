"""Which parts of the engine the time is spent in.

    python bench/parts.py
    python bench/parts.py --data wikipedia --model runs/tgn-wikipedia --event 146332
    python bench/parts.py --sizes 100000,10000000 --folder DISK

The explanations are those of `bench/engine.py --only explanation` and the links those of `--only scoring`: random
weights, paper sizes, 300 sets each. With a model, the explanation of one of its links. With sizes, the explanations of
`--only growth`: generated graphs of so many events, a TGN of compact sizes, its table in a folder. A part's time is
what it spends itself, without the parts it calls. Watching costs time too, so read the shares.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cody.data import load
from cody.engine import load_model
from cody.engine.attention import Attention, Decoder
from cody.engine.compiled import CompiledFollow
from cody.engine.fast import FastModel, QueryWorkspace
from cody.engine.layer import CompiledLayer, CompiledLinkDecoder, EventInputs, KnownVectors, Layer
from cody.engine.lineage import Lineage
from cody.engine.links import Histories, LinkScorer
from cody.engine.masks import EditableEvents, Requests, Windows
from cody.engine.memory import Gates, PureFollow
from cody.engine.replay import Replay
from cody.engine.tgn import FastTGN, MemoryInputs
from cody.engine.vectors import CompiledRows, NearDuplicates, Products, PureRows
from cody.engine.weights import Weights
from cody.explaining.pipeline import explain
from cody.graph import Query, TemporalGraph
from cody.search.oracle import Oracle
from engine import EVALUATIONS, OUT_OF_REACH, generated, late_links, random_model

PARTS = {
    "attention, and its products": [(Attention, "__call__"), (CompiledLayer, "_make")],
    "other products of matrices, gates, decoder": [
        (Products, "of"),
        (Gates, "events"),
        (Gates, "remember"),
        (CompiledFollow, "_add_events"),
        (CompiledFollow, "_compute"),
        (Decoder, "score"),
        (CompiledLinkDecoder, "score"),
        (LinkScorer, "_embed"),
    ],
    "time encodings": [(Weights, "encode"), (Weights, "encode_into")],
    "looking up events and memories": [
        (TemporalGraph, "recent"),
        (TemporalGraph, "ends"),
        (FastTGN, "read_versions"),
        (Histories, "attended"),
    ],
    "what is known already": [
        (KnownVectors, "find"),
        (KnownVectors, "add"),
        *((rows, name) for rows in (PureRows, CompiledRows) for name in ("find", "find_masked")),
    ],
    "which events a node attends to": [(Windows, "choose"), (Requests, "below"), (EventInputs, "look_up")],
    "which memories change": [
        (PureFollow, "follow"),
        (PureFollow, "_compute"),
        (NearDuplicates, "find"),
        (NearDuplicates, "first_of_each"),
        (NearDuplicates, "add"),
        (NearDuplicates, "sort"),
        (MemoryInputs, "plan"),
        (MemoryInputs, "compute"),
    ],
    "preparation": [
        (QueryWorkspace, "__init__"),
        (Lineage, "of"),
        (Windows, "__init__"),
        (EditableEvents, "__init__"),
    ],
    "the rest of the engine": [
        *((layer, name) for layer in (Layer, CompiledLayer) for name in ("plan", "compute")),
        (Layer, "_attend"),
        (QueryWorkspace, "answer"),
    ],
    "the oracle": [(Oracle, "_evaluate")],
    "verification": [(Replay, "logits")],
}


class Watch:
    """Seconds that each part spends itself."""

    def __init__(self):
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.inside = []  # seconds spent in the parts that each running one has called
        self.workspaces = []

    def wrapped(self, part, function):
        def watched(*args, **kwargs):
            start = time.process_time()
            self.inside.append(0.0)
            if function.__name__ == "answer" and isinstance(args[0], QueryWorkspace):
                self.workspaces.append(args[0])
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.process_time() - start
                self.seconds[part] += spent - self.inside.pop()
                if self.inside:
                    self.inside[-1] += spent

        return watched


class Subject(NamedTuple):
    """What is measured: a model, and what is asked of it about each link."""

    name: str
    graph: TemporalGraph
    model: FastModel
    ask: Callable[[Query], object]
    links: list[Query]


def usual(links):
    """Explanations by both models, and a link that is only scored."""
    graph = load("collegemsg")
    queries = late_links(np.random.default_rng(0), graph, links + 1)
    for kind in ("tgn", "tgat"):
        model = random_model(kind, graph, "paper", bias=OUT_OF_REACH)
        ask = partial(explain, model, graph, evaluations=EVALUATIONS)
        yield Subject(f"{kind.upper()}, an explanation", graph, model, ask, queries)
    model = random_model("tgn", graph, "paper")
    yield Subject("TGN, scoring a link", graph, model, partial(model.logits, changes=[frozenset()]), queries)


def grown(sizes, folder):
    """Explanations by a TGN in graphs of several sizes."""
    for events in map(int, sizes.split(",")):
        graph = generated(events)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            model = random_model("tgn", graph, "compact", OUT_OF_REACH, Path(place))
            ask = partial(explain, model, graph, evaluations=EVALUATIONS)
            queries = late_links(np.random.default_rng(0), graph, 11)
            for query in queries:
                ask(query)  # reads the table
            yield Subject(f"{events:,} events", graph, model, ask, queries)


def one(data, folder, event):
    graph = load(data)
    model = load_model(folder, graph)
    queries = [graph.query(graph.num_events - 1), graph.query(event)]
    yield Subject(f"{data}, event {event}", graph, model, partial(explain, model, graph), queries)


def measure(subject, watch):
    """The share of each part, and what was made."""
    first, *others = subject.links
    subject.ask(first)  # warms up
    watch.seconds = dict.fromkeys(PARTS, 0.0)
    watch.workspaces.clear()
    start = time.process_time()
    for query in others:
        subject.ask(query)
    whole = time.process_time() - start
    seconds = watch.seconds | {"the search, and all around it": whole - sum(watch.seconds.values())}
    vectors = sum(layer.vectors.length for made in set(watch.workspaces) for layer in made.layers)
    made = f"{len(watch.workspaces) / len(others):.0f} batches, {vectors / len(others):.0f} new vectors"
    return {part: f"{100 * spent / whole:.0f} %" for part, spent in seconds.items()} | {"for each link": made}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--links", type=int, default=10)
    arguments.add_argument("--data")
    arguments.add_argument("--model")
    arguments.add_argument("--event", type=int)
    arguments.add_argument("--sizes")
    arguments.add_argument("--folder", help="for the tables of --sizes")
    given = arguments.parse_args()
    watch = Watch()
    for part, functions in PARTS.items():
        for owner, name in functions:
            setattr(owner, name, watch.wrapped(part, getattr(owner, name)))
    if given.sizes:
        subjects = grown(given.sizes, given.folder)
    else:
        subjects = usual(given.links) if given.model is None else one(given.data, given.model, given.event)
    columns = {subject.name: measure(subject, watch) for subject in subjects}
    print(f"| part | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|", sep="\n")
    for part in next(iter(columns.values())):
        print(f"| {part} | {' | '.join(column[part] for column in columns.values())} |")


if __name__ == "__main__":
    sys.exit(main())
