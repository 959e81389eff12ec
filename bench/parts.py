"""Which parts of the engine an explanation spends its time in: `python bench/parts.py`.

The explanations are those of `cody bench --only explanation`: random weights, paper sizes, 300 sets each. A part's time
is what it spends itself, without the parts it calls. Watching costs time too, so read the shares.
"""

import argparse
import sys
import time

import numpy as np

from cody.bench import OUT_OF_REACH, QUESTIONS, _queries, _random_model
from cody.data import load
from cody.explain import explain
from cody.inference.attention import Attention, Decoder
from cody.inference.fast import Events, Known, Layer, Workspace
from cody.inference.lineage import Lineage
from cody.inference.masks import Universe, Windows
from cody.inference.tgn import Gates, MemoryInputs
from cody.inference.vectors import Products
from cody.oracle import Oracle

PARTS = {
    "attention": [(Attention, "__call__")],
    "products of matrices, gates, decoder": [
        (Products, "of"),
        (Gates, "events"),
        (Gates, "remember"),
        (Decoder, "score"),
    ],
    "what is known already": [(Known, "find"), (Known, "add"), (Layer, "_made_of")],
    "which events a node attends to": [(Windows, "choose"), (Events, "look_up")],
    "which memories change": [
        (MemoryInputs, "follow"),
        (MemoryInputs, "_compute"),
        (MemoryInputs, "plan"),
        (MemoryInputs, "compute"),
    ],
    "preparation": [(Workspace, "__init__"), (Lineage, "__init__"), (Windows, "__init__"), (Universe, "__init__")],
    "the rest of the engine": [(Layer, "plan"), (Layer, "compute"), (Layer, "_attend"), (Workspace, "answer")],
    "asking": [(Oracle, "_evaluate")],
}


class Watch:
    """Seconds that each part spends itself."""

    def __init__(self):
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.inside = []  # seconds spent in the parts that each running one has called

    def wrapped(self, part, function):
        def watched(*args, **kwargs):
            start = time.process_time()
            self.inside.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.process_time() - start
                self.seconds[part] += spent - self.inside.pop()
                if self.inside:
                    self.inside[-1] += spent

        return watched


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--links", type=int, default=10)
    links = arguments.parse_args().links
    watch = Watch()
    for part, functions in PARTS.items():
        for owner, name in functions:
            setattr(owner, name, watch.wrapped(part, getattr(owner, name)))
    graph = load("collegemsg")
    shares, made = {}, {}
    workspaces = []
    answer = Workspace.answer

    def noted(self, changes):
        workspaces.append(self)
        return answer(self, changes)

    Workspace.answer = noted
    for kind in ("tgn", "tgat"):
        model = _random_model(kind, graph, "paper", bias=OUT_OF_REACH)
        first, *others = _queries(np.random.default_rng(0), graph, links + 1)
        explain(model, graph, first, evaluations=QUESTIONS)  # warms up
        watch.seconds = dict.fromkeys(PARTS, 0.0)
        workspaces.clear()
        start = time.process_time()
        for query in others:
            explain(model, graph, query, evaluations=QUESTIONS)
        whole = time.process_time() - start
        parts = watch.seconds | {"the search, and all around it": whole - sum(watch.seconds.values())}
        shares[kind] = {part: seconds / whole for part, seconds in parts.items()}
        vectors = sum(layer.vectors.length for one in set(workspaces) for layer in one.layers)
        made[kind] = f"{len(workspaces) / links:.0f} batches, {vectors / links:.0f} new vectors in all layers"
    print("| part | TGN | TGAT |", "|---|---|---|", sep="\n")
    for part in shares["tgn"]:
        print(f"| {part} | {shares['tgn'][part]:.0%} | {shares['tgat'][part]:.0%} |".replace("%", " %"))
    print(f"| for 300 sets | {made['tgn']} | {made['tgat']} |")


if __name__ == "__main__":
    sys.exit(main())
