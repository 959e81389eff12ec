"""The page of a survey in a real browser: figures that show the predictions behind them."""

import html
import re
import sys
from functools import cache
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from cody.data import save_graph
from cody.study import compare_models, survey_of
from cody.study.explainers import Explainer
from cody.study.record_file import iterate_records
from cody.train.checkpoint import Checkpoint, save_model
from cody.web.survey_page import survey_page
from commands import run
from random_events import random_graph, random_network
from study.surveyed import explained
from web.browser import SCHEMES, WIDTHS, axe_source, chromium, serious_faults, shows, tab

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@cache
def single():
    return survey_of(*explained(-10.0, "toy"))


@cache
def double():
    (mine, graph), (theirs, _) = explained(-10.0, "toy"), explained(-14.0, "strict")
    return survey_page([survey_of(mine, graph), survey_of(theirs, graph)], compare_models(mine, theirs, graph))


class Page:
    def __init__(self, text):
        self.text = text

    def to_html(self):
        return self.text


def listed(page):
    return page.locator(".predictions > li:not([hidden])")


def test_it_opens_with_all_predictions_and_asks_nobody(browser, tmp_path):
    with tab(browser) as watched:
        page = watched.open(single(), tmp_path)
        assert listed(page).count() == 24
        assert len(watched.requests) == 1


def test_what_was_not_drawn_cannot_be_saved():
    found = single()
    nobody = tuple(msgspec.structs.replace(part, nodes=(), events=()) for part in found.parts)
    buttons = [
        page.partition("part-who")[2].partition("</section>")[0].count("data-save")
        for page in (survey_page([found]), survey_page([msgspec.structs.replace(found, parts=nobody)]))
    ]
    assert buttons == [2, 0]


def test_a_figure_shows_the_predictions_behind_it(browser, tmp_path):
    part = single().parts[0]
    behind = [each for each in part.predictions if 0 < len(each.events) <= 2]
    assert 0 < len(behind) < len(part.predictions)
    with tab(browser, viewport={"width": 1400, "height": 900}) as watched:
        page = watched.open(single(), tmp_path)
        point = page.get_by_role("button", name="At most 2 events").first
        point.click()
        assert point.get_attribute("aria-pressed") == "true"
        assert listed(page).count() == len(behind)
        assert listed(page).first.locator("p").nth(1).inner_text() == behind[0].reason
        assert listed(page).first.locator("p").nth(2).inner_text() == behind[0].sentence
        shows(page.locator("#chosen"), f"{len(behind)}: Predicted links that flip if at most 2 events are changed")
        page.get_by_role("button", name="Show all").click()
        assert listed(page).count() == 24
        assert point.get_attribute("aria-pressed") == "false"


def test_every_figure_has_the_predictions_that_it_counts(browser, tmp_path):
    with tab(browser, viewport={"width": 1400, "height": 900}) as watched:
        page = watched.open(single(), tmp_path)
        for part, title in zip(single().parts, ("Predicted links", "Missed links"), strict=True):
            for contrast in part.relations:
                behind = [each for each in part.predictions if any(e.relation == contrast.what for e in each.events)]
                panel = page.locator(".part-decisive .panel", has_text=title)
                row = panel.get_by_role("button", name=contrast.what)
                assert row.is_disabled() == (not behind)
                if behind:
                    row.click()
                    assert listed(page).count() == len(behind)


def test_predictions_can_be_searched_and_the_address_says_what_is_chosen(browser, tmp_path):
    with tab(browser, viewport={"width": 1400, "height": 900}) as watched:
        page = watched.open(single(), tmp_path)
        event = single().parts[0].predictions[3].event
        page.locator("#filter").fill(f"event {event} ")
        assert listed(page).count() == 1
        page.locator("#filter").fill("")
        page.locator("[data-list]:enabled").first.click()
        number, address = listed(page).count(), page.url
        assert re.search(r"#list=\d+$", address)
        page.reload()
        assert listed(page).count() == number < 24


def test_on_a_narrow_screen_the_list_comes_into_view_and_one_can_go_back(browser, tmp_path):
    with tab(browser, viewport={"width": 380, "height": 700}) as watched:
        page = watched.open(single(), tmp_path)
        page.locator("[data-list]:enabled").first.click()
        assert page.evaluate("document.activeElement.id") == "list-title"
        page.locator("#back").click()
        assert page.evaluate("document.activeElement.matches('[data-list]')")


def test_two_models_are_shown_side_by_side(browser, tmp_path):
    with tab(browser, viewport={"width": 1600, "height": 900}) as watched:
        page = watched.open(Page(double()), tmp_path)
        assert "models agree" in page.locator("h1").inner_text()
        apart = page.get_by_role("button", name="on which they disagree")
        apart.click()
        events = re.findall(r"event (\d+)", " ".join(listed(page).locator(".about").all_inner_texts()))
        assert events
        assert all(events.count(event) == 2 for event in events)  # once for each model


def test_names_cannot_do_anything(browser, tmp_path):
    names = [EVIL, "<b>", "&lt;", *(f"node {number}" for number in range(9))]
    found = survey_of(*explained(-10.0, EVIL, names))
    with tab(browser) as watched:
        page = watched.open(found, tmp_path)
        assert page.locator("img").count() == 0
        assert "</script>" in page.locator(".occasion").inner_text()
        assert len(watched.requests) == 1


def test_the_headline_has_its_interval_and_the_finding_is_the_largest_difference(browser, tmp_path):
    part = single().parts[0]
    half = next(each for each in part.fragility if each.share.value >= 0.5)
    named = [*part.relations, *part.latest, part.repetition, *part.ages]
    clear = [each for each in named if each.ratio is not None and each.ratio.low > 1]
    with tab(browser) as watched:
        page = watched.open(single(), tmp_path)
        low, high = (f"{100 * limit:.0f}" for limit in (half.share.low, half.share.high))
        assert page.locator("h1").inner_text().startswith(f"{100 * half.share.value:.0f} % ({low}–{high} %) of")
        largest = max(clear, key=lambda each: each.decisive.value - each.candidates.value)
        assert f"{largest.what} (" in page.locator(".answer").inner_text()


def test_the_curve_is_a_step_function_on_a_true_axis(browser, tmp_path):
    sizes = [len(each.events) for each in single().parts[0].predictions]
    with tab(browser) as watched:
        page = watched.open(single(), tmp_path)
        curve = page.locator("svg.curve").first
        corners = [tuple(map(float, each.split())) for each in curve.locator(".line").get_attribute("d")[1:].split("L")]
        top, bottom = 26, 150
        for most in range(1, 11):
            share = sum(0 < size <= most for size in sizes) / len(sizes)
            assert corners[2 * most] == pytest.approx((most, bottom - (bottom - top) * share), abs=0.01)
        middles = {}
        for label in curve.locator(".size").all():
            box = label.bounding_box()
            middles[int(label.text_content())] = box["x"] + box["width"] / 2
        step = (middles[10] - middles[0]) / 10
        assert all(place == pytest.approx(middles[0] + size * step, abs=1) for size, place in middles.items())


def test_a_point_is_selected_by_the_keyboard(browser, tmp_path):
    with tab(browser, viewport={"width": 1400, "height": 900}) as watched:
        page = watched.open(single(), tmp_path)
        point = page.get_by_role("button", name="At most 2 events").first
        point.focus()
        page.keyboard.press("Enter")
        assert point.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_charts_are_saved(browser, kind, tmp_path):
    with tab(browser) as watched:
        page = watched.open(single(), tmp_path)
        with page.expect_download() as download:
            page.locator(f'.part-decisive [data-save="{kind}"]').click()
        content = download.value.path().read_bytes()
        if kind == "png":
            assert content.startswith(b"\x89PNG")
        else:
            texts = ElementTree.fromstring(content).itertext()
            assert {"the reverse", "ratio", "50"} <= set(texts) or "the reverse direction" in content.decode()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("made", [lambda: single(), lambda: Page(double())], ids=["one", "two"])
def test_nothing_is_wider_than_the_window(browser, width, made, tmp_path):
    with tab(browser, viewport={"width": width, "height": 900}) as watched:
        page = watched.open(made(), tmp_path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_the_labels_of_the_axis_stand_beside_the_points(browser, width, tmp_path):
    with tab(browser, viewport={"width": width, "height": 900}) as watched:
        page = watched.open(single(), tmp_path)
        levels = page.locator(".curve").first.locator(".level")
        points = page.locator(".curve").first.locator(".point .hit").first.bounding_box()
        assert levels.all_text_contents() == ["0 %", "50 %", "100 %"]
        assert all(box["x"] + box["width"] <= points["x"] for box in (each.bounding_box() for each in levels.all()))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("made", [lambda: single(), lambda: Page(double())], ids=["one", "two"])
def test_axe_finds_no_serious_fault(browser, scheme, made, tmp_path, request):
    source = axe_source(request.config.cache.mkdir("axe"))
    with tab(browser, color_scheme=scheme) as watched:
        page = watched.open(made(), tmp_path)
        page.locator("[data-list]:enabled").first.click()
        assert serious_faults(page, source) == []


def test_it_prints_its_figures(browser, tmp_path):
    with tab(browser) as watched:
        page = watched.open(single(), tmp_path)
        page.emulate_media(media="print")
        assert page.get_by_role("button", name="the reverse direction").first.is_visible()
        assert page.locator(".part-list").is_hidden()
        printed = page.pdf(prefer_css_page_size=True, print_background=True)
        assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) <= 2


def test_without_scripts_every_figure_and_prediction_can_be_read(browser, tmp_path):
    with tab(browser, java_script_enabled=False) as watched:
        page = watched.open(single(), tmp_path)
        assert listed(page).count() == 24
        assert page.locator(".point").count() == 10


def test_the_command_writes_the_page_and_the_pages_of_its_explanations(tmp_path):
    graph = random_graph(np.random.default_rng(0), nodes=20, events=200)
    save_graph(graph, tmp_path / "events")
    save_model(tmp_path / "tgn", Checkpoint(random_network(graph, "tgn"), graph.identity))
    asked = ("survey", "--data", tmp_path / "events", "--model", tmp_path / "tgn", "--events", "150,160")
    options = ("--evaluations", 80, "--html", tmp_path / "survey.html")
    run(*asked, *options)
    links = re.findall(r'href="([^"]+)"', (tmp_path / "survey.html").read_text())
    assert sorted(links) == ["survey/150.html", "survey/160.html"]
    assert 'href="../survey.html"' in (tmp_path / "survey" / "150.html").read_text()
    (tmp_path / "taken").write_text("mine")
    refused = run(*asked, "--evaluations", 80, "--html", tmp_path / "taken.html", code=2)
    assert "choose one with --pages FOLDER" in refused
    run(*asked, *options, "--pages", tmp_path / "the pages")
    links = re.findall(r'href="([^"]+)"', (tmp_path / "survey.html").read_text())
    assert sorted(links) == ["the%20pages/150.html", "the%20pages/160.html"]
    assert {file.name for file in (tmp_path / "the pages").iterdir()} == {"150.html", "160.html"}
    assert "linked from the survey" in run(*asked, "--pages", tmp_path / "the pages", code=2)
    (tmp_path / "mine.html").write_text("<p>my own</p>")
    assert "choose another name" in run(*asked, "--html", tmp_path / "mine.html", code=2)


def test_pages_of_a_survey_cost_no_second_search(tmp_path, monkeypatch):
    graph = random_graph(np.random.default_rng(0), nodes=20, events=200)
    save_graph(graph, tmp_path / "events")
    save_model(tmp_path / "tgn", Checkpoint(random_network(graph, "tgn"), graph.identity))
    data = ("--data", tmp_path / "events")
    records = tmp_path / "run.jsonl"
    run("survey", *data, "--model", tmp_path / "tgn", "--events", "150,160", "--evaluations", 80, "--out", records)
    known = [record.explanation for record in iterate_records(records, documents=True)]
    assert {why.event for why in known} == {150, 160}

    def refuse(*_, **__):
        raise AssertionError("something was searched, or candidates were looked for")

    monkeypatch.setattr(Explainer, "explain", refuse)
    for module in ("cody.graph.neighbourhood", "cody.explaining.upgrade"):
        monkeypatch.setattr(sys.modules[module], "candidates", refuse)
    run("survey", records, *data, "--html", tmp_path / "survey.html", "--pages", tmp_path / "pages")
    for why in known:
        assert why.sentence in html.unescape((tmp_path / "pages" / f"{why.event}.html").read_text())
    run("survey", records, *data, "--html", tmp_path / "run.html")
    assert "run.html is the page of a survey and would be overwritten" in run("view", records, "--all", code=2)
    run("view", records, "--all", "--out", tmp_path / "all.html")
    assert {file.name for file in (tmp_path / "all").iterdir()} == {"1.html", "2.html"}
