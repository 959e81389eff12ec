"""Units on the page and the server: one row for all events of a unit, which opens into them, and switches all."""

import re
from functools import cache

import pytest

import cody
from cody.explaining.what_if import Scenario
from cody.graph import units as kinds
from cody.graph.dependants import reply

pytest.importorskip("fastapi", reason="fastapi is not installed")

from cody.web import Live

EVENT = 53007  # 749 → 474


@cache
def graph():
    return cody.load("collegemsg")


@cache
def model():
    return cody.load_model("tgat-collegemsg", graph())


def test_a_row_of_the_table_is_a_unit_that_opens_into_its_events():
    why = cody.explain(model(), graph(), graph().query(EVENT), by=kinds.pair)
    page = why.to_html()
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    assert body.count("<tr") == len(why.units)
    for unit in why.units:
        assert unit.name in body
    reported = {*why.rows}.union(*(other.rows for other in why.alternatives))
    assert body.count("<details>") == len(reported)
    for unit in (unit for unit in why.units if unit.row in reported):
        assert all(f"<li>{row}: " in body for row in unit.rows[-100:])


def test_names_in_a_unit_do_not_affect_the_text_around_them():
    rows = range(40)
    turned = cody.TemporalGraph.from_arrays(
        [0] * 40, [1 + row % 2 for row in rows], rows, names=["\u202eevil", "a\tb", "مرحبا"]
    )
    decides = cody.as_model(lambda graph, query, changes: [1.0 - 2 * (38 in c) for c in changes], turned, identity="x")
    page = cody.explain(decides, turned, turned.query(39), by=kinds.pair).to_html()
    listed = re.findall("<li>[0-9]+: .*?</li>", page)
    assert listed
    assert all(re.search("<bdi>[?]evil</bdi> → <bdi>(a[?]b|مرحبا)</bdi>, ", item) for item in listed)


def test_a_page_of_dependants_says_what_goes_along():
    chosen = next(
        why
        for row in range(53_000, 53_100)
        if (why := cody.explain(model(), graph(), graph().query(row), dependants=reply())).literal is not None
    )
    page = chosen.to_html()
    assert re.search(r"and \d+ dependants?", page)
    assert "If these still happen" in page


def test_the_server_switches_all_events_of_a_unit():
    for kind in (kinds.pair, kinds.node, kinds.day):
        live = Live(graph(), model(), by=kind)
        query = graph().query(EVENT)
        why = cody.explain(model(), graph(), query, by=kind, size=12)
        unit = why.units[0]
        answer = live.score(Scenario(query, EVENT, frozenset({unit.row})))
        (expected,) = model().logits(query, [unit.change])
        assert answer.logit == pytest.approx(expected, abs=1e-4)
        looked = live.look(Scenario(query, EVENT))
        assert looked.unit_name == kind.noun(graph())


def test_the_server_takes_dependants_along():
    live = Live(graph(), model(), dependants=reply())
    query = graph().query(53_002)
    answer = live.score(Scenario(query, 53_002, frozenset({52_529})))
    why = cody.explain(model(), graph(), query, dependants=reply())
    unit = why.unit(52_529)
    assert unit.dependants
    (expected,) = model().logits(query, [unit.change])
    assert answer.logit == pytest.approx(expected, abs=1e-4)
