"""The page in a real browser: what a person clicks, types and sees."""

import re
from functools import cache, partial
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

import cody
from cody.graph.units import pair
from cody.models.decision import Above
from cody.models.margins import scores
from web.browser import SCHEMES, WIDTHS, axe_source, chromium, moved_by_clicks, serious_faults, shows, tab
from web.explained import BIDI, EVIL, cut_short, imagined, large, nothing, toy


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def why():
    return toy()


def number(why, row):
    return [event.row for event in why.candidates].index(row)


def arc(page, why, row):
    return page.locator(f'.plot .event[data-e="{number(why, row)}"]')


def box(page, why, row):
    return page.locator(f'[data-toggle="{number(why, row)}"]')


def logit(why, *rows):
    return {frozenset(change): value for change, value in why.evaluated}[frozenset(rows)]


def test_it_opens_without_a_complaint_and_asks_nobody(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        page.get_by_role("button", name="Nothing changed").click()
        page.get_by_text("calendar").click()
        assert len(watched.requests) == 1  # the file itself


def test_it_opens_with_the_answer(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        assert page.locator("#now-score").inner_text() == scores(why.original, why.without)[1]
        assert page.locator("#now-prediction").inner_text() == Above().outcome(why.without)
        for row in why.rows:
            assert arc(page, why, row).get_attribute("aria-checked") == "false"
            assert not box(page, why, row).is_checked()
        assert page.get_by_role("button", name="The answer").get_attribute("aria-pressed") == "true"


def test_switching_an_event_gives_the_stored_answer_and_the_flip(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path, "#change=")
        assert page.locator("#now-score").inner_text() == scores(why.original)[0]
        for row in (event.row for event in why.candidates):
            arc(page, why, row).dispatch_event("click")
            stored = logit(why, row)
            assert page.locator("#now-score").inner_text() == scores(why.original, stored)[1]
            assert page.locator("#now-prediction").inner_text() == Above().outcome(stored)
            assert not box(page, why, row).is_checked()
            box(page, why, row).check()  # the same switch
            assert page.locator("#now-score").inner_text() == scores(why.original)[0]


@cache
def collegemsg():
    graph = cody.load("collegemsg")
    return cody.load_model("tgn-collegemsg", graph), graph


def real(row):
    model, graph = collegemsg()
    return cody.explain(model, graph, graph.query(row))


MADE = {made.__name__: made for made in (toy, large, imagined, cut_short)}
REAL = {f"event {row}": partial(real, row) for row in range(53851, 53861)}  # all of them have answers


@pytest.mark.parametrize("name", [*MADE, *REAL])
def test_every_first_click_answers_from_every_state(browser, name, tmp_path):
    why = (MADE | REAL)[name]()
    assert why.is_counterfactual or name in MADE
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        found = page.evaluate(
            """() => {
                 const seen = [];
                 const events = [...document.querySelectorAll(".plot .event")];
                 for (const state of document.querySelectorAll(".states button")) {
                   for (const event of events) {
                     state.click();
                     event.dispatchEvent(new MouseEvent("click", { bubbles: true }));
                     seen.push([...document.querySelectorAll("#now-score, #now-prediction")].map((e) => e.textContent));
                   }
                 }
                 return seen;
               }"""
        )
        assert len(found) == page.locator(".states button").count() * len(why.candidates)
        assert not [shown for shown in found if shown[0] == "?" or shown[1] == "not evaluated"]


@pytest.mark.parametrize("width", [380, 1280])
@pytest.mark.parametrize("explained", [toy, imagined, REAL["event 53854"]], ids=["toy", "imagined", "real"])
def test_no_first_click_moves_anything(browser, explained, width, tmp_path):
    with tab(browser, viewport={"width": width, "height": 900}) as watched:
        assert moved_by_clicks(watched.open(explained(), tmp_path)) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_however_many_digits_a_score_needs_it_covers_nothing(browser, width, tmp_path):
    why = toy(bias=-5.000009)  # with event 4 or 5 removed, the score is just below a half
    with tab(browser, viewport={"width": width, "height": 900}) as watched:
        page = watched.open(why, tmp_path, "#change=4")
        assert len(page.locator("#was-score").inner_text()) == len("0.982014")
        parts = [page.locator(name).bounding_box() for name in ("#was-score", ".numbers > :not([aria-hidden]) > .to")]
        parts += [page.locator("#now-score").bounding_box(), page.locator(".gauge").bounding_box()]
        if width < 620:
            parts.pop()  # the gauge lies below
        for left, right in pairwise(parts):
            assert left["x"] + left["width"] <= right["x"]


def test_labels_of_the_answer_lie_on_top_of_all_arrows(browser, tmp_path):
    with tab(browser) as watched:
        page = watched.open(toy(), tmp_path)
        assert page.locator(".tag").count() == len(toy().rows)
        assert page.locator(".tag ~ .event, g:has(.tag) ~ .events").count() == 0
        for axis in ("time", "order"):
            page.locator(f"input[value={axis}]").check(force=True)
            places = "(kind) => [...document.querySelectorAll(kind)].map((e) => e.parentNode.getAttribute('x')).sort()"
            assert page.evaluate(places, ".tag") == page.evaluate(places, ".plot .event.changed")


def test_the_command_for_units_that_were_not_evaluated_removes_all_their_events(browser, tmp_path):
    model, graph = collegemsg()
    why = cody.explain(model, graph, graph.query(53007), by=pair, prove=1)
    asked = {frozenset(change) for change, _ in why.evaluated}
    rows = [unit.row for unit in sorted(why.units, key=lambda unit: -len(unit.rows))]
    few = next(set(some) for some in combinations(rows, 3) if frozenset(some) not in asked)
    with tab(browser) as watched:
        page = watched.open(why, tmp_path, f"#change={','.join(map(str, few))}")
        command = page.locator("#status code").inner_text()
    removed = {int(row) for row in command.rpartition(" ")[2].split(",")}
    assert removed == {row for unit in why.units if unit.row in few for row in unit.rows}


def test_scores_are_written_as_everywhere_else(browser, tmp_path):
    why = large()
    with tab(browser) as watched:
        page = watched.open(why, tmp_path, "#change=")
        for event in why.candidates[::9]:
            box(page, why, event.row).uncheck()
            shown = [page.locator(f"#{name}-score").inner_text() for name in ("was", "now")]
            assert shown == scores(why.original, why.rescore([frozenset({event.row})], 60.0)[frozenset({event.row})])
            box(page, why, event.row).check()


@pytest.mark.parametrize("width", [380, 1280])
def test_a_click_moves_nothing_and_its_effect_is_in_view(browser, width, tmp_path):
    why = large()
    with tab(browser, viewport={"width": width, "height": 800}) as watched:
        page = watched.open(why, tmp_path, "#change=")
        row = page.locator(".candidates tbody tr").nth(5)
        row.scroll_into_view_if_needed()
        page.evaluate(
            """() => {
                 window.shifts = [];
                 new PerformanceObserver((list) => list.getEntries().forEach((entry) => shifts.push(entry.value)))
                   .observe({ type: "layout-shift", buffered: false });
               }"""
        )
        before = row.bounding_box()
        for place in (5, 6, 7):
            page.locator(".candidates tbody tr input").nth(place).evaluate("(box) => box.click()")
        page.wait_for_timeout(400)
        assert row.bounding_box() == before
        assert page.evaluate("window.shifts.reduce((sum, shift) => sum + shift, 0)") == 0
        bar = page.locator(".scorebar").bounding_box()
        assert 0 <= bar["y"] <= bar["y"] + bar["height"] <= 800
        assert page.locator("#now-name").inner_text() == "Without 3 events"


def test_the_graph_and_the_timeline_show_the_same(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        removed = {str(number(why, row)) for row in why.rows}
        for edge in page.locator(".edge").all():
            numbers = edge.get_attribute("data-es").split(",")
            gone = removed.intersection(numbers)
            left = len(numbers) - len(gone)
            assert edge.text_content() == (f"−{len(gone)} of {len(numbers)}" if gone and left else "")
            assert ("gone" in edge.get_attribute("class")) == (left == 0)
        edge = page.locator(f'.edge[data-es*="{min(removed)}"]').first
        numbers = edge.get_attribute("data-es").split(",")
        edge.dispatch_event("pointerover")
        marked = page.evaluate("[...document.querySelectorAll('.plot .marked')].map((e) => e.dataset.e)")
        assert sorted(marked) == sorted(numbers)
        assert page.locator("#tip").is_visible()
        page.get_by_role("button", name="Nothing changed").click()
        edge.dispatch_event("click")
        assert "gone" in edge.get_attribute("class")
        assert not any(page.locator(f'[data-toggle="{each}"]').is_checked() for each in numbers)


def test_the_graph_is_drawn_as_the_script_leaves_it(browser, why, tmp_path):
    """So a picture of the page, or a print, is right from the first moment."""
    for explained in (why, imagined()):
        pictures = []
        for scripts in (True, False):
            with tab(browser, java_script_enabled=scripts) as watched:
                page = watched.open(explained, tmp_path)
                lines = page.locator(".edge").all()
                drawn = [
                    (line.get_attribute("class"), line.locator(".left").get_attribute("stroke-width")) for line in lines
                ]
                pictures.append([(set(kinds.split()), round(float(width), 1)) for kinds, width in drawn])
        assert pictures[0] == pictures[1]


def test_where_nothing_was_found_the_page_says_what_to_try(browser, tmp_path):
    why = cut_short()
    assert why.next_steps
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        commands = page.locator(".next code").all_inner_texts()
        assert [option for option, _ in why.next_steps] == ["--explainer scout", "--prove 2"]
        options = ["--explainer scout", "--explainer greedy --prove 2", "--explainer greedy --allow remove,add"]
        assert commands == [f"cody explain --event 7 {option}" for option in options]
    assert "What to try next" not in toy().to_html()


def test_no_page_without_an_answer_is_a_dead_end(browser, tmp_path):
    everything, six = nothing(), toy(bias=40.0, size=2, prove=3)
    assert (everything.verdict, six.verdict) == ("none among the candidates",) * 2
    with tab(browser) as watched:
        for why, options in (
            (everything, ["--allow remove,add"]),
            (six, ["--prove 3 --candidates 8", "--candidates 2 --prove 3 --allow remove,add"]),
        ):
            page = watched.open(why, tmp_path)
            asked = [f"cody explain --event {why.event} {option}" for option in options]
            assert page.locator(".next code").all_inner_texts() == asked
            assert page.locator(".next code").first.is_visible()


def test_what_is_copied_from_a_list_can_be_read(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        page.locator(".how > summary").click()
        assert re.search(r"\d → \d, \d+ before", page.locator(".waterfall li").nth(1).inner_text().replace("\n", ""))


def test_a_set_that_was_not_asked_about_says_so_and_how_to_ask(browser, tmp_path):
    why = cut_short()
    asked = {frozenset(change) for change, _ in why.evaluated}
    rows = [event.row for event in why.candidates]
    pair = next({a, b} for a in rows for b in rows if a < b and frozenset({a, b}) not in asked)
    with tab(browser) as watched:
        page = watched.open(why, tmp_path, "#change=")
        for row in sorted(pair):
            arc(page, why, row).dispatch_event("click")
        assert page.locator("#now-score").inner_text() == "?"
        assert page.locator("#now-prediction").inner_text() == "not evaluated"
        said = page.locator("#status").inner_text()
        assert "combination was not evaluated" in said
        assert f"cody what-if --event 7 --without {','.join(map(str, sorted(pair)))}" in said
        assert page.locator(".scorebar .meter .now").is_hidden()
        page.get_by_role("button", name="Nothing changed").click()
        assert page.locator("#status").inner_text() == ""


def test_the_keyboard_alone_reaches_and_switches_an_event(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path, "#change=")
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.plot .event')"):
                break
        latest = why.candidates[-1].row
        assert page.evaluate("document.activeElement.dataset.e") == str(number(why, latest))
        page.keyboard.press("Space")
        assert page.locator("#now-score").inner_text() == scores(why.original, logit(why, latest))[1]
        page.keyboard.press("Space")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        before = why.candidates[-2].row
        assert page.locator("#now-score").inner_text() == scores(why.original, logit(why, before))[1]
        assert page.evaluate("document.querySelectorAll('.plot .event[tabindex=\"0\"]').length") == 1


def test_the_sets_that_were_tried_can_be_walked_through_by_keyboard(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        page.locator(".how > summary").click()
        page.locator('.dots [tabindex="0"]').focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        change, value = why.evaluated[1]
        assert page.locator("#now-score").inner_text() == scores(why.original, value)[1]
        assert page.url.endswith(f"#change={','.join(map(str, change))}")
        assert page.locator('.dots [aria-selected="true"]').get_attribute("data-k") == "1"


def test_the_address_says_what_is_shown(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path, "#change=4,5&axis=order")
        assert page.locator("#now-score").inner_text() == scores(why.original, logit(why, 4, 5))[1]
        assert page.locator("input[value=order]").is_checked()
        box(page, why, 5).check()
        assert page.url.endswith("#change=4&axis=order")
        page.evaluate("location.hash = '#change=5,999&axis=nonsense'")  # what it does not know is left out
        shows(page.locator("#now-name"), "2 → 1")


def test_an_event_is_marked_everywhere(browser, why, tmp_path):
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        page.locator(f'tbody tr[data-e="{number(why, 4)}"]').hover()
        marked = page.evaluate("[...document.querySelectorAll('.marked[data-e]')].map((e) => e.dataset.e)")
        assert set(marked) == {str(number(why, 4))}
        assert len(marked) >= 2
        dots = page.evaluate("[...document.querySelectorAll('.dots .marked')].map((e) => Number(e.dataset.k))")
        assert sorted(dots) == [place for place, (change, _) in enumerate(why.evaluated) if 4 in change]


def test_time_axes_move_events_and_keep_their_order(browser, tmp_path):
    why = large()
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        seen = set()
        for axis in ("order", "log", "time"):
            page.locator(f"input[value={axis}]").check(force=True)
            places = page.evaluate(
                """[...document.querySelectorAll('.plot .event')].sort((a, b) => a.dataset.e - b.dataset.e)
                     .map((event) => parseFloat(event.parentNode.getAttribute('x')))"""
            )
            assert len(places) == len(why.candidates)
            assert places == sorted(places)
            assert page.locator(".ticks:not([hidden])").get_attribute("data-axis") == axis
            seen.add(tuple(places))
        assert len(seen) == 3


def test_the_table_can_be_sorted_and_searched(browser, tmp_path):
    why = large()
    rows = "[...document.querySelectorAll('tbody tr:not([hidden]) .row')].map((e) => Number(e.textContent))"
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        page.get_by_role("button", name="row", exact=True).click()
        assert page.evaluate(rows) == [event.row for event in why.candidates]
        page.get_by_role("button", name="alone").click()
        alone = {rows[0]: abs(value - why.original) for rows, value in why.evaluated if len(rows) == 1}
        known = [alone[row] for row in page.evaluate(rows) if row in alone]
        assert known == sorted(known)
        wanted = why.candidates[-3]
        page.locator("#filter").fill(str(wanted.row))
        assert page.evaluate(rows) == [wanted.row]
        page.locator("#filter").fill("nobody at all")
        assert page.evaluate(rows) == []
        assert page.locator("#found").inner_text() == "no match"
        page.locator("#clear").click()
        assert len(page.evaluate(rows)) == len(why.candidates)


def test_an_imagined_event_is_dashed_and_can_be_switched_on(browser, tmp_path):
    why = imagined()
    row = next(event.row for event in why.candidates if event.edit == "added")
    with tab(browser) as watched:
        page = watched.open(why, tmp_path, "#change=")
        assert arc(page, why, row).get_attribute("aria-checked") == "false"
        assert arc(page, why, row).locator(".arc").evaluate("(e) => getComputedStyle(e).strokeDasharray") != "none"
        box(page, why, row).check()
        assert arc(page, why, row).get_attribute("aria-checked") == "true"
        assert page.locator("#now-score").inner_text() == scores(why.original, logit(why, row))[1]


def test_names_cannot_do_anything(browser, tmp_path):
    why = toy(names=[EVIL, BIDI, "<b>", "&lt;", "Ünal 中"])
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        page.wait_for_timeout(100)
        assert page.locator("img").count() == 0
        assert "</script><i" in page.locator("h1").inner_text()
        assert "\u202e" not in page.content()
        assert len(watched.requests) == 1


def test_the_timeline_is_saved_as_svg_and_png(browser, tmp_path):
    why = toy(names=["Ann", "Bob", "Cid", "Dee", "Eve"])
    with tab(browser) as watched:
        page = watched.open(why, tmp_path)
        with page.expect_download() as download:
            page.locator('[data-save="svg"]').click()
        assert download.value.suggested_filename == "cody-7.svg"
        drawing = ElementTree.parse(download.value.path())
        text = " ".join(drawing.getroot().itertext())
        assert "Cid" in text
        paths = [element for element in drawing.iter() if element.tag.endswith("path")]
        assert len(paths) >= len(why.candidates)
        assert {path.get("stroke") for path in paths} >= {"rgb(23, 103, 168)"}  # it needs no style from outside
        with page.expect_download() as download:
            page.locator('[data-save="png"]').click()
        content = download.value.path().read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 5_000


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(browser, width, tmp_path):
    with tab(browser, viewport={"width": width, "height": 900}) as watched:
        page = watched.open(large(), tmp_path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cut = page.evaluate(
            """(width) => [...document.querySelectorAll('main h1, main p, main button, main li')].filter((e) => {
                 const box = e.getBoundingClientRect();
                 return box.width && (box.left < 0 || box.right > width + 0.5);
               }).map((e) => e.outerHTML.slice(0, 80))""",
            width,
        )
        assert cut == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("explained", [toy, large, imagined], ids=lambda made: made.__name__)
def test_no_arrow_runs_over_a_label_or_over_the_link_in_question(browser, explained, width, tmp_path):
    with tab(browser, viewport={"width": width, "height": 900}) as watched:
        page = watched.open(explained(), tmp_path, "#change=")
        for axis in ("order", "log", "time"):
            page.locator(f"input[value={axis}]").check(force=True)
            names, arcs, asked = (
                page.evaluate(
                    """(selector) => [...document.querySelectorAll(selector)].map((e) => e.getBoundingClientRect())
                         .filter((box) => box.width).map((box) => [box.left, box.right])""",
                    selector,
                )
                for selector in (".names text", ".plot .arc", ".plot .explained circle")
            )
            assert max(right for _, right in names) < min(left for left, _ in arcs)
            assert max(right for _, right in arcs) < asked[0][0]
            assert min(left for left, _ in names) >= 0


@pytest.mark.parametrize("explained", [toy, large, cut_short], ids=lambda made: made.__name__)
def test_it_prints_on_one_sheet(browser, explained, tmp_path):
    with tab(browser) as watched:
        page = watched.open(explained(), tmp_path)
        printed = page.pdf(prefer_css_page_size=True, print_background=True)
        assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) == 1


def test_what_is_printed_is_dark_on_light_also_from_a_dark_screen(browser, why, tmp_path):
    with tab(browser, color_scheme="dark") as watched:
        page = watched.open(why, tmp_path)
        luminance = "(e) => getComputedStyle(e).color.match(/\\d+/g).reduce((sum, part) => sum + Number(part), 0)"
        assert page.locator("h1").evaluate(luminance) > 600
        page.emulate_media(media="print", color_scheme="dark")
        assert page.locator("h1").evaluate(luminance) < 150
        assert page.locator(".names .end").first.evaluate(luminance.replace(".color", ".fill")) < 150


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_no_serious_fault(browser, scheme, why, tmp_path, request):
    source = axe_source(request.config.cache.mkdir("axe"))
    with tab(browser, color_scheme=scheme) as watched:
        page = watched.open(why, tmp_path)
        assert serious_faults(page, source) == []


def test_it_lives_in_a_notebooks_frame(browser, why):
    with tab(browser) as watched:
        watched.page.set_content(f"<!doctype html><title>notebook</title>{why._repr_html_()}")
        inside = watched.page.frame_locator("iframe")
        inside.get_by_role("button", name="Nothing changed").click()
        assert inside.locator("#now-score").inner_text() == scores(why.original)[0]


def test_without_scripts_everything_can_be_read(browser, why, tmp_path):
    with tab(browser, java_script_enabled=False) as watched:
        page = watched.open(why, tmp_path)
        assert page.locator("h1").inner_text() == "The model predicts 0 → 1."
        assert page.locator("tbody tr").count() == len(why.candidates)
        assert page.locator("#now-score").inner_text() == scores(why.original, why.without)[1]
