"""The page with a model behind it, in a real browser: the shipped model and its real messages."""

import re
import time
from functools import cache

import pytest

import cody
from cody import Add
from cody.models.margins import probability, scores
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
        page.get_by_label("from", exact=True).fill("1395")
        page.get_by_label("to", exact=True).fill("1772")
        page.get_by_label("when", exact=True).fill("2004-07-28 03:54")
        page.get_by_role("button", name="Add", exact=True).click()
        page.wait_for_url("**/*add_time=*")
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
        shows(page.locator(".reason"), "Searching for the smallest change")
        page.locator("#cancel").click()
        shows(page.locator("#progress"), "cancelled")
        page.locator("#searching").wait_for(state="hidden")
        page.get_by_text("Search again").click()
        page.locator("#explain:enabled").wait_for()
        page.locator("#cancel").wait_for(state="hidden")


def test_ticked_links_are_compared_in_one_table(browser, address):
    with tab(browser) as watched:
        page = watched.page
        page.goto(f"{address}/?before=53870")
        for row in (53869, 53854):
            page.get_by_label(f"Compare event {row}").check()
        page.get_by_role("button", name="Compare the ticked ones").click()
        rows = page.locator("tbody tr")
        shows(rows.nth(0), "0.24 no link")  # in the order of the list
        shows(rows.nth(0), "0.68 link")
        shows(rows.nth(1), "Without the message from 1395 to 1772, 14 minutes before")
        assert rows.count() == 2
        shows(page.locator("#progress"), "")


def test_wrong_input_stays_and_is_explained_beside_its_field(browser, address):
    with tab(browser) as watched:
        page = watched.page
        page.goto(f"{address}/?src=abc&dst=3&time=now")
        assert page.locator("#src").input_value() == "abc"
        assert page.locator("#time").input_value() == "now"
        shows(page.locator("#src-problem"), "there is no node 'abc'")
        page.goto(f"{address}/?event=53852")
        page.get_by_text("Edit the history").click()
        for label, text in (("from", "1395"), ("to", "1772"), ("when", "2005-01-01")):
            page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name="Add", exact=True).click()
        shows(page.locator("#add_time-problem"), "an added event must lie before the link")
        assert page.locator("#add_time").input_value() == "2005-01-01"
        watched.complaints[:] = [each for each in watched.complaints if "400" not in each]


def test_the_start_page_shows_examples_and_how_good_the_model_is(browser, address):
    with tab(browser) as watched:
        page = watched.page
        page.goto(address)
        shows(page.locator("main"), "of 200 recent links that happened")
        for title in ("Wrong", "Fragile", "Surprising"):
            listed = page.locator(".kinds > div", has_text=title).locator("li")
            assert listed.count() == 3
            for each in listed.all():
                row, score = (
                    re.search(r"=(\d+)", each.locator("a").get_attribute("href"))[1],
                    float(each.locator("span").inner_text()),
                )
                assert score == pytest.approx(probability(logit(int(row))), abs=6e-4)
                assert {"Wrong": score < 0.5, "Fragile": abs(score - 0.5) < 0.05, "Surprising": score > 0.5}[title]


def test_budget_and_horizon_can_be_set(browser, address):
    with tab(browser) as watched:
        page = watched.page
        page.goto(f"{address}/?event=53869")
        page.wait_for_url("**/*explainer=*")
        page.get_by_text("Search again").click()
        page.locator("#evaluations").fill("40")
        page.locator("#candidates").fill("12")
        page.locator("#explain").click()
        page.wait_for_url("**/*candidates=12*")
        shows(page.locator("h2", has_text="All 12"), "All 12 messages")
        assert page.locator("#evaluations").input_value() == "40"


def test_where_nothing_was_found_a_button_looks_further(browser, address):
    with tab(browser) as watched:
        page = watched.page
        page.goto(f"{address}/?event=53860&candidates=6")
        page.wait_for_url("**/*explainer=*")
        assert page.locator(".next button").all_inner_texts() == ["Consider older events, too", "Add events, too"]
        page.get_by_role("button", name="Consider older events, too").click()
        page.wait_for_url("**/*candidates=24*")
        page.goto(f"{address}/?event=53860&candidates=6")
        page.wait_for_url("**/*explainer=*")
        page.get_by_role("button", name="Add events, too").click()
        page.wait_for_url("**/*why_not=1*")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("", "Recent messages"),
        ("?node=1395", "Its past"),
        ("?side=53854", "1 prediction compared"),
        ("?src=abc&dst=3&time=now", "Choose another link"),
        ("?event=53854", "Past messages"),
        ("?event=53854&top=10", "The ranking"),
        ("?event=53854&rather_than=1395", "Past messages"),
        ("?event=53852&add=1395 1772 2004-07-28 03:54", "Past messages"),
        ("?event=53852&explainer=scout&why_not=1", "Counterfactuals"),
        ("?event=99999999", "Choose another link"),
    ],
    ids=[
        "start",
        "node",
        "comparison",
        "wrong field",
        "link",
        "ranking",
        "decided wrongly",
        "imagined",
        "explained",
        "error",
    ],
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
