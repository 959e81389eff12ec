"""The page as text: what is in it, how large it is, and that names from data are only ever text."""

import html
import json
import math
import pickle
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

from cody import Add, Alter, Explanation, Move, Protected, TemporalGraph, explain
from cody.cli import app
from cody.errors import CallError, DataError
from cody.explaining.pipeline import event_with_features
from cody.explaining.what_if import parse_add, parse_alter
from cody.graph import units
from cody.graph.dependants import reply
from cody.graph.neighbourhood import events_on_paths
from cody.models import ToyModel
from cody.search import greedy
from cody.search.proposals import alterations, removals
from cody.study.explainers import EDITS
from cody.web import write_page
from cody.web.commands import edit_option, explain_command
from cody.web.facts import Facts
from cody.web.timeline import axes, lanes
from web.explained import BIDI, EVIL, cut_short, imagined, large, nothing, toy


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


class Tags(HTMLParser):
    """The elements and attributes of a page, and whether every element is closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in {"meta", "input", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


@pytest.fixture(scope="module")
def why():
    return toy()


@pytest.mark.parametrize("explained", [toy, imagined, nothing, large, cut_short], ids=lambda made: made.__name__)
def test_a_page_is_well_formed_and_asks_nobody_for_anything(explained):
    page = explained().to_html()
    tags = Tags(page)
    ids = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for tag, attributes in tags.found:
        assert not {"src", "href", "srcset", "action", "style"} & attributes.keys(), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert [tag for tag, _ in tags.found].count("script") == 2
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    policy = next(a["content"] for t, a in tags.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_a_page_with_64_candidates_and_300_sets_takes_less_than_200_kilobytes():
    page = large().to_html()
    assert len(page.encode()) < 200_000


def test_a_page_with_1300_sets_takes_less_than_200_kilobytes():
    why = large()
    rng = np.random.default_rng(1)
    rows = [event.row for event in why.candidates]
    more = [
        (tuple(sorted(rng.choice(rows, size, replace=False).tolist())), round(float(rng.normal(size=1)[0]), 5))
        for size in rng.integers(4, 40, 1300 - len(why.evaluated)).tolist()
    ]
    longer = replace(why, evaluated=(*why.evaluated, *more))
    assert len({frozenset(change) for change, _ in longer.evaluated}) == 1300
    assert len(longer.to_html().encode()) < 200_000


def test_the_page_carries_every_answer_that_is_known(why):
    data = data_of(why.to_html())
    rows = [event["row"] for event in data["events"]]
    known = {
        frozenset(row for place, row in enumerate(rows) if int(bits, 16) >> place & 1): logit
        for bits, logit, *_ in data["sets"]
    }
    assert known == {frozenset(change): logit for change, logit in why.evaluated}
    assert [rows[place] for place in data["opened"]] == list(why.rows)


def test_what_every_first_click_leads_to_is_in_the_page_and_is_what_the_model_says(why):
    data = data_of(why.to_html())
    rows = [event["row"] for event in data["events"]]
    searched = {frozenset(change): logit for change, logit in why.evaluated}
    wanted = {
        frozenset(rows[number] for number in state["change"]) ^ {row}: margin
        for state, margins in zip(data["states"], data["clicks"]["rows"], strict=True)
        for row, margin in zip(rows, margins, strict=True)
    }
    assert all(margin is not None or change in searched for change, margin in wanted.items())
    scored = {change: margin for change, margin in wanted.items() if margin is not None}
    assert scored == why.rescore(list(scored), 60.0)


def test_the_model_is_not_part_of_an_explanation_that_is_stored_or_sent(why):
    for other in (pickle.loads(pickle.dumps(why)), Explanation.from_json(why.to_json())):
        assert other == why
        assert other.rescore is None
        assert data_of(other.to_html())["clicks"]["pairs"] == []


def test_lanes_that_do_not_matter_share_one():
    facts = Facts(large())
    rows, _ = lanes(facts.why, facts.kept_lanes)
    shared = [name for name, lane in rows.items() if lane.shared > 1]
    assert shared
    assert not {facts.why.src, facts.why.dst} & set(shared)
    assert len({lane.y for lane in rows.values()}) <= 14
    assert {rows[name].shared for name in shared} == {
        sum(rows[other].y == rows[name].y for other in shared) for name in shared
    }


def test_the_steps_of_the_answer_are_known_even_if_the_search_did_not_ask_about_them(why):
    forgotten = replace(why, evaluated=())
    known = {known.change for known in Facts(forgotten).known}
    numbers = [Facts(why).number[row] for row in why.rows]
    assert known == {tuple(sorted(numbers[:length])) for length in range(len(numbers) + 1)}


def test_names_from_data_are_text_whatever_they_contain():
    names = [EVIL, BIDI, "&amp;", '"><script>alert(2)</script>', "'"]
    page = toy(names=names).to_html()
    tags = Tags(page)
    assert [tag for tag, _ in tags.found].count("script") == 2
    assert not {"img"} & {tag for tag, _ in tags.found}
    assert "<!--" not in page
    assert all(line.isprintable() for line in page.splitlines())
    assert "</script><img" in "".join(tags.text)  # it is shown, as text
    assert len(re.findall("</script>", page)) == 2
    data_of(page)


def test_the_page_says_question_answer_and_certainty_in_the_users_names():
    why = toy(names=["Ann", "Bob", "Cid", "Dee", "Eve"])
    text = html.unescape(" ".join(" ".join(Tags(why.to_html()).text).split()))
    assert "The model predicts Ann → Bob ." in text
    assert why.reason in text
    assert why.sentence in text
    assert "✓ verified by replay" in text
    assert why.certainty in text
    assert "Seed 0" in text
    assert "it did happen: the model is right" in text


def test_a_prediction_that_was_wrong_is_said_to_be_wrong():
    text = "".join(Tags(toy(bias=-12.5).to_html()).text)
    assert "The model does not predict 0 → 1, although it happened." in text


def test_alternatives_are_offered_by_name_and_only_confirmed_ones_are_called_confirmed():
    why = toy(count=2)
    states = Facts(why).states
    assert [state.name for state in states][:3] == ["Nothing changed", "The answer", "Alternative 1"]
    assert [state.verified for state in states][:3] == [True, True, True]
    assert not any(state.verified for state in states[3:])
    rows = [frozenset(state.change) for state in states[1:]]
    assert not any(one < other for one in rows for other in rows)


def test_lanes_lie_by_distance_around_the_two_ends(why):
    placed, height = lanes(why)
    ends = sorted((placed[why.src].y, placed[why.dst].y))
    assert ends[0] < ends[1] < height
    assert placed.keys() == {node.name for node in why.surroundings.nodes}
    for side in (-1, 1):
        outside = [lane for lane in placed.values() if (lane.y - ends[0]) * side > 0 and (lane.y - ends[1]) * side > 0]
        assert [lane.hops for lane in sorted(outside, key=lambda lane: lane.y * side)] == sorted(
            lane.hops for lane in outside
        )


def test_documents_without_surroundings_are_shown_with_what_they_have(why):
    document = json.loads(why.to_json())
    del document["surroundings"], document["checksum"]
    old = Explanation.from_dict(document)
    assert old.surroundings is None
    assert {name: lane.hops for name, lane in lanes(old)[0].items()} == {
        node.name: node.hops for node in why.surroundings.nodes
    }
    Tags(old.to_html())


def test_surroundings_hold_the_events_between_the_candidates_nodes_that_are_no_candidates(why):
    few = toy(size=3)
    assert len(few.candidates) == 3
    assert Explanation.from_json(few.to_json()) == few
    nodes = {end for event in few.candidates for end in (event.src, event.dst)} | {few.src, few.dst}
    assert {node.name for node in few.surroundings.nodes} == nodes
    rows = {event.row for event in few.candidates}
    oldest = min(rows)
    expected = [
        row
        for row in range(oldest, 7)
        if row not in rows and {str([0, 0, 3, 1, 0, 2, 1][row]), str([1, 2, 4, 2, 2, 1, 3][row])} <= nodes
    ]
    assert [event.row for event in few.surroundings.events] == expected


def test_time_axes_keep_the_order_of_events_and_stay_inside():
    times = [1_082_000_000.0, 1_082_000_000.0, 1_082_500_000.0, 1_082_999_990.0]
    for layout in axes(times, 1_083_000_000.0):
        assert layout.places == sorted(layout.places)
        assert all(0 < place < 1 for place in layout.places)
        assert all(0 < tick.at < 1 for tick in layout.ticks)
        assert layout.ticks
    ordered = axes(times, 1_083_000_000.0)[2]
    assert len(set(ordered.places)) == 4  # evenly spaced, events of one moment lie side by side


@pytest.mark.parametrize(
    "times", [[], [5.0], [7.0, 7.0], [-1e308, 1e308], [0.0, 1e-300], [1e18, 1e18 + 1]], ids=lambda times: str(times)
)
def test_any_times_can_be_laid_out(times):
    for now in (max(times, default=0.0), 0.0, 1e308):
        for layout in axes(times, now):
            assert all(0 <= place <= 1 for place in [*layout.places, *(tick.at for tick in layout.ticks)])


def test_a_notebook_shows_the_page_in_a_frame_and_the_table_below_it(why):
    shown = why._repr_html_()
    tags = Tags(shown)
    frame = next(attributes for tag, attributes in tags.found if tag == "iframe")
    assert frame["srcdoc"] == why.to_html()
    assert frame["sandbox"] == "allow-scripts allow-downloads"  # it cannot reach the notebook
    assert "table" in [tag for tag, _ in tags.found]


def test_the_command_for_an_imagined_event_is_understood_whatever_its_nodes_are_called():
    why = imagined()
    event = next(event for event in why.candidates if event.edit == "added")._replace(src="Ann Lee", dst="it's")
    _, text = shlex.split(edit_option(event))
    assert parse_add(text) == Add("Ann Lee", "it's", event.time)


def test_commands_write_the_page(tmp_path):
    why = toy()
    (tmp_path / "why.json").write_text(why.to_json())
    assert CliRunner().invoke(app, ["view", str(tmp_path / "why.json")]).exit_code == 0
    read = Explanation.from_json(why.to_json())  # without a model, so without what clicks lead to
    assert (tmp_path / "why.html").read_text(encoding="utf-8") == read.to_html()
    result = CliRunner().invoke(app, ["explain", "--event", "53854", "--html", str(tmp_path / "other.html")])
    assert result.exit_code == 0
    assert "1395" in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_a_line_of_several_explanations_is_shown(tmp_path):
    lines = [toy().to_json(), imagined().to_json()]
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n")
    arguments = ["view", str(tmp_path / "all.jsonl"), "--line", "2", "--out", str(tmp_path / "second.html")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (tmp_path / "second.html").read_text(encoding="utf-8") == imagined_page(lines[1])
    missing = CliRunner().invoke(app, [*arguments[:3], "3"])
    assert isinstance(missing.exception, CallError)
    assert "has 2 explanations" in str(missing.exception)


def imagined_page(line):
    return Explanation.from_json(line).to_html()


def test_a_page_never_replaces_a_file_of_somebody_else(tmp_path):
    (tmp_path / "mine.html").write_text("<p>my own page")
    with pytest.raises(CallError, match="not a page that cody wrote"):
        write_page(toy(), tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "<p>my own page"
    for _ in range(2):  # its own pages it replaces
        write_page(toy(), tmp_path / "why.html")
    with pytest.raises(CallError, match="not a file in a folder that exists"):
        write_page(toy(), tmp_path / "nowhere" / "why.html")


def test_what_is_no_explanation_is_refused(tmp_path):
    (tmp_path / "why.json").write_bytes(b"\xff\xfe")
    assert isinstance(CliRunner().invoke(app, ["view", str(tmp_path / "why.json")]).exception, DataError)
    (tmp_path / "why.json").write_text("{}")
    assert isinstance(CliRunner().invoke(app, ["view", str(tmp_path / "why.json")]).exception, DataError)
    assert not (tmp_path / "why.html").exists()


def test_a_page_shows_what_other_models_decide_before_and_after():
    graph = TemporalGraph.from_arrays(src=[0] * 4, dst=[1] * 4, time=[1.0, 2.0, 3.0, 4.0])
    weights = {"second": [0, 2, 2, 0], EVIL: [0, 3, 1, 0], "other": [0, 0, 0, 0]}
    first, *others = (
        ToyModel(graph, weights=each, half_life=1e9, bias=-1.5) for each in ([0, 3, 1, 0], *weights.values())
    )
    why = explain(first, graph, graph.query(3), also=dict(zip(weights, others, strict=True)), noise=True)
    page = why.to_html()
    assert why.stability in html.unescape(page)
    shown = re.search(r'<table class="elsewhere">.*?</table>', page)[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", shown)]
    assert [row[0] for row in cells[1:3]] == ["the explained model", "second"]
    assert EVIL not in shown
    scores = [f"{1 / (1 + math.exp(-margin)):.3f}" for margin in (2.5, -0.5)]
    assert cells[1][1:4] == [*scores, "flips it"]
    assert [row[3] for row in cells[2:5]] == ["does not flip it", "flips it", "decides differently from the start"]
    assert len(cells) == 1 + 1 + 3 + 2
    assert "elsewhere" not in toy().to_html().split("</style>")[1]


def test_the_command_of_the_next_search_keeps_what_this_one_was_given():
    protect = Protected(events=[3], nodes=["A, B"], times=[(1.5, 2.0)], simultaneous=True)
    given = {"size": 5, "near": events_on_paths, "protect": protect, "evaluations": 9, "prove": 2, "search": greedy}
    why = toy(names=["A, B", "Bob", "Cid", "Dee", "Eve"], bias=40.0, **given)
    protected = """--protect events=3 --protect 'nodes="A, B"' --protect times=1.5..2.0 --protect simultaneous"""
    options = f"--near events {protected} --candidates 5 --explainer greedy"
    assert explain_command(why, "--evaluations 90") == f"cody explain --event 7 {options} --prove 2 --evaluations 90"
    assert explain_command(why, "--why-not").endswith("--evaluations 9 --prove 2 --why-not")


def test_an_edit_is_an_option_that_what_if_reads():
    graph = TemporalGraph.from_arrays(
        [0, 1], [1, 2], [1.0, 2.0], features=[[-10, 2], [3, 4]], feature_names=["rating", "x y"]
    )
    longer = graph.imagine([Add(0, 2, 1.5, (1.0, 2.0)), Move(0, 1.5), Alter(1, (3.0, 0.1))])
    added, moved, altered = (event_with_features(longer, row) for row in range(2, 5))
    assert edit_option(added) == "--add '0 2 1.5'"
    assert edit_option(moved) == "--move '0 1.5'"
    option, typed = shlex.split(edit_option(altered))
    assert option == "--alter"
    assert parse_alter(typed, graph).features == pytest.approx((3.0, 0.1))
    assert edit_option(altered._replace(carries="")) is None  # too many features for their names to be known


def test_the_command_of_the_next_search_keeps_every_kind_of_edit():
    why = toy()
    for edits in ([removals, alterations], list(EDITS.values())):
        parameters = why.parameters | {"edits": [edit.__name__ for edit in edits]}
        names = ",".join(name for name, edit in EDITS.items() if edit in edits)
        assert f" --allow {names} " in explain_command(replace(why, parameters=parameters), "--candidates 256")


def test_the_command_of_the_next_search_keeps_its_units():
    why = toy()
    for kind, option in ((units.day, "--by day"), (units.session(1800.0), "--by session --gap 1800s")):
        parameters = why.parameters | {"by": kind.as_parameters(), "dependants": reply(3600.0).as_parameters()}
        command = explain_command(replace(why, parameters=parameters), "--candidates 256")
        assert command == f"cody explain --event 7 {option} --with-dependants 'reply 3600s' --candidates 256"
