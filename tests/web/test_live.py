"""The page with a model behind it, in a real browser: the shipped model and its real messages."""

import re
import time
from functools import cache

import pytest

import cody
from cody import Add
from cody.models.margins import scores
from web.browser import SCHEMES, axe_source, chromium, serious_faults, shows, tab
from web.server import serving

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from cody.web import Live, create_app


@cache
def graph():
    return cody.load("collegemsg")


@cache
def model():
    return cody.load_model("tgn-collegemsg", graph())


class Slow:
    """The model, but each question takes a while, so that a search can be cancelled."""

    hops, identity = 2, "slow"

    def logits(self, query, changes):
        time.sleep(0.05)
        return model().logits(query, changes)


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address():
    with serving(create_app(Live(graph(), model(), "collegemsg", "tgn-collegemsg"))) as client:
        yield client.address


def logit(event, *rows):
    return float(model().logits(graph().query(event), [frozenset(rows)])[0])


def test_a_link_is_chosen_and_explained_from_end_to_end(browser, address):
    with tab(browser) as watched:
        page = watched.page
        page.goto(f"{address}/?before=53855")
        page.get_by_role("link", name="1772 → 1395").first.click()
        assert page.locator("h1").inner_text() == "The model predicts 1772 → 1395."
        page.wait_for_url("**/*explainer=*")  # it is explained at once
        assert "the score falls from 0.92 to 0.06: no link." in page.locator(".answer").inner_text()
        assert page.locator("#now-score").inner_text() == "0.06"
        page.go_back()
        assert page.url.endswith("?before=53855")
        assert all(url.startswith((address, "blob:")) for url in watched.requests)


def test_any_combination_is_answered_by_the_model(browser, address):
    with tab(browser) as watched:
        page = watched.page
        page.goto(f"{address}/?event=53854&without=53852,53747,53159")
        expected = scores(logit(53854), logit(53854, 53852, 53747, 53159))[1]
        shows(page.locator("#now-score"), expected)
        page.locator("tbody tr", has_text="53747").locator("[data-toggle]").check()
        assert "without=53159%2C53852" in page.url
        expected = scores(logit(53854), logit(53854, 53852, 53159))[1]
        shows(page.locator("#now-score"), expected)


def test_an_imagined_event_is_added(browser, address):
    longer = graph().imagine([Add("1395", "1772", "2004-07-28 03:54")])
    expected = float(model().on(longer).logits(longer.query(53852), [frozenset({graph().num_events})])[0])
    with tab(browser) as watched:
        page = watched.page
        page.goto(f"{address}/?event=53852")
        page.get_by_text("Edit the history").click()
        page.get_by_label("Add an event").fill("1395 1772 2004-07-28 03:54")
        page.get_by_role("button", name="Add", exact=True).click()
        page.wait_for_url("**/*add=*")
        assert page.locator("#now-score").inner_text() == scores(logit(53852), expected)[1]
        assert page.locator("#now-prediction").inner_text() == "link"
        assert page.locator(".plot .event.imagined.changed").count() == 1
        page.get_by_role("button", name="Nothing changed").click()
        assert page.locator("#now-prediction").inner_text() == "no link"


def test_a_search_is_cancelled_by_a_click(browser):
    with serving(create_app(Live(graph(), Slow(), "collegemsg", ""))) as client, tab(browser) as watched:
        page = watched.page
        page.goto(f"{client.address}/?event=53869")  # the search begins at once
        shows(page.locator("#progress"), "sets evaluated")
        page.locator("#cancel").click()
        shows(page.locator("#progress"), "cancelled")
        page.locator("#explain:enabled").wait_for()
        page.locator("#cancel").wait_for(state="hidden")


def test_links_stand_side_by_side(browser, address):
    with tab(browser, viewport={"width": 1600, "height": 900}) as watched:
        page = watched.page
        page.goto(f"{address}/?side=53854,53869")
        for place, words in enumerate(("falls from 0.92 to 0.06", "rises from 0.24 to 0.68")):
            page.frame_locator("iframe").nth(place).get_by_text(words).first.wait_for()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("", "Recent messages"),
        ("?node=1395", "Who next?"),
        ("?event=53854", "Past messages"),
        ("?event=53854&top=10", "The ranking"),
        ("?event=53854&rather_than=1395", "Past messages"),
        ("?event=53852&add=1395 1772 2004-07-28 03:54", "Past messages"),
        ("?event=53852&explainer=scout&why_not=1", "Counterfactuals"),
        ("?event=99999999", "This page cannot be shown"),
    ],
    ids=["start", "node", "link", "ranking", "decided wrongly", "imagined", "explained", "error"],
)
def test_axe_finds_no_serious_fault(browser, address, request, asked, shown, scheme):
    source = axe_source(request.config.cache.mkdir("axe"))
    with tab(browser, color_scheme=scheme) as watched:
        page = watched.page
        page.goto(f"{address}/{asked}")
        if asked.startswith("?event=5385") and not {"add", "rather_than"} & set(re.findall(r"\w+", asked)):
            page.locator(".badges").wait_for()  # explained at once
        page.get_by_role("heading", name=shown).wait_for()
        page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        assert serious_faults(page, source) == []
        watched.complaints[:] = [each for each in watched.complaints if "400" not in each]  # the page of an error
