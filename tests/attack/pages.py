"""Names come from data, and data from anybody: on a page they are text, whatever they contain."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np

from attack.finding import expect
from attack.things import Generator
from cody.explaining.explanation import Explanation
from cody.explaining.pipeline import explain
from cody.graph import TemporalGraph
from cody.graph.columns import LONGEST_NAME
from cody.models.toy import ToyModel
from random_events import random_graph

PIECES = [
    *("</script>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "-->", "]]>", "<svg/onload=x>"),
    *('"', "'", "`", "&", "&lt;", "&#60;", "&quot;", "<", ">", "/", "\\", "\\u003c", "${x}", "{{x}}", "%s", "{0}"),
    *("\u202e", "\u2066", "\u200b", "\ufeff", "\x1b[31m", "\x07", "\u2028", "\u2029", "é", "\U0001d518", "\u200d"),
    *("__proto__", "constructor", "NaN", "null", "-0", "javascript:alert(1)", "onclick=", "style=", " ", "[/bold]"),
]


def attack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_graph(rng, nodes=int(rng.choice([3, 8])), events=int(rng.choice([12, 40])))
    weights, bias, row = rng.normal(size=drawn.num_events), float(rng.normal()), int(rng.integers(4, drawn.num_events))

    def page(names: list[str]) -> str:
        graph = TemporalGraph.from_arrays(drawn.src, drawn.dst, drawn.time, names=names)
        why = explain(ToyModel(graph, weights, bias=bias), graph, graph.query(row), count=3)
        _check_document(why)
        return why.to_html() + why._repr_html_()

    usual = [Elements(page([f"n{node}" * length for node in range(drawn.num_nodes)])) for length in (1, 4, 40)]
    hostile = _names(rng, drawn.num_nodes)
    made = page(hostile)
    elements = Elements(made)
    strange = elements.kinds - usual[0].kinds - usual[1].kinds - usual[2].kinds
    expect(not strange, "pages: a name becomes a part of a page", f"{strange} of {hostile}")
    expect(elements.scripts == usual[0].scripts, "pages: a name changes the scripts of a page", hostile)
    controls = {sign for sign in made if not sign.isprintable() and sign != "\n"}
    expect(not controls, "pages: a sign that is not printable is on a page", f"{controls} of {hostile}")


class Elements(HTMLParser):
    """What a page is made of: kinds of elements with the names of their attributes, and what its scripts do."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.kinds: set[tuple[str, ...]] = set()
        self.scripts: list[str] = []  # those that are run
        self._running = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kinds.add((tag, *sorted(name for name, _ in attrs)))
        self._running = tag == "script" and ("type", "application/json") not in attrs

    def handle_data(self, data: str) -> None:
        if self._running:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.kinds.add((tag,))
        self._running = False

    def handle_comment(self, data: str) -> None:
        self.kinds.add(("comment",))

    def handle_pi(self, data: str) -> None:
        self.kinds.add(("instruction",))


def _names(rng: Generator, count: int) -> list[str]:
    """Different names of a few pieces each; some as long as a name may be."""
    names: list[str] = []
    while len(names) < count:
        name = "".join(rng.choice(PIECES, int(rng.integers(1, 6))).tolist())
        name = (name * LONGEST_NAME if rng.random() < 0.1 else name)[:LONGEST_NAME].strip()
        if name and name not in names:
            names.append(name)
    return names


def _check_document(why: Explanation) -> None:
    """What is written is read back; what is printed has no signs that command a terminal."""
    same = Explanation.from_json(why.to_json())
    expect(same.to_json() == why.to_json(), "pages: an explanation is not what was read back", why.src)
    expect(json.loads(why.to_json())["src"] == why.src, "pages: the document has another name", why.src)
    printed = str(why).replace("\n", "")
    expect(printed.isprintable(), "pages: a sign that is not printable is printed", repr(printed)[:300])
