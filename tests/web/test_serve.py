"""The server: the library's own answers, for many at once, within limits, and to nobody who should not ask."""

import gc
import math
import re
import socket
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import numpy as np
import pytest

import cody
from cody import Add, Explanation, Move, TemporalGraph
from cody.models import ToyModel
from cody.study.explainers import explainer

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from cody.cli.serve import listen
from cody.explaining.what_if import Scenario
from cody.models.contract import size_of
from cody.web import Limits, Live, create_app
from cody.web.facts import Facts
from cody.web.live import CANCELLED, DONE, FAILED, BusyError, UnknownError
from cody.web.markup import Markup
from cody.web.page import LiveControls, content
from cody.web.questions import MOST_ROWS
from commands import data_and_model, run
from web.server import Client, serving


def small_graph(events=60, nodes=9):
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, nodes, (2, events))
    return TemporalGraph.from_arrays(
        src, dst, np.arange(events, dtype=float), names=[f"n{node}" for node in range(nodes)]
    )


GRAPH = small_graph()
MODEL = ToyModel(GRAPH, weights=np.random.default_rng(5).normal(size=60), bias=0.3, indirect=0.5)


class Watched(ToyModel):
    """A model that knows its sessions: all that were opened, and those that somebody still keeps."""

    def __init__(self, *given, size=0, **options):
        super().__init__(*given, **options)
        self.size, self.asked_about, self.kept = size, [], weakref.WeakSet()

    def session(self, query, rows=()):
        session = WatchedSession(self, query)
        self.asked_about.append(session.rows)
        self.kept.add(session)
        return session


class WatchedSession:
    def __init__(self, model, query):
        self.model, self.query, self.size, self.rows = model, query, model.size, set()

    def logits(self, changes):
        self.rows.update(*changes)
        return self.model.logits(self.query, changes)


class SlowModel(ToyModel):
    """A model that takes its time, and can be watched."""

    asked = 0

    def logits(self, query, changes):
        type(self).asked += 1
        time.sleep(0.02)
        return super().logits(query, changes)


def live(model=MODEL, **options):
    return Live(GRAPH, model, "small", "toy", **options)


@pytest.fixture(scope="module")
def asked():
    with serving(create_app(live())) as client:
        yield client


def wait(served, job, seconds=120.0):
    ends = time.monotonic() + seconds
    while job.state in ("waiting", "running") and time.monotonic() < ends:
        time.sleep(0.01)
        served.job(job.id)
    return job


def is_known(served, job):
    try:
        return served.job(job.id) is job
    except UnknownError:
        return False


def test_scores_are_those_of_the_library(asked):
    longer = GRAPH.imagine([Add("n1", "n2", 40.5), Move(30, 44.5)])
    expected = MODEL.on(longer).logits(longer.query(50), [frozenset(), frozenset({49, 60, 61})])
    question = {
        "event": 50,
        "without": [49],
        "add": [{"src": "n1", "dst": "n2", "time": 40.5}],
        "move": [{"row": 30, "time": "44.5"}],
    }
    said = asked.post("/api/score", **question).json()
    assert [said["original"], said["logit"]] == pytest.approx(expected.tolist(), abs=1e-6)
    assert said["predicted"] == (expected[1] > 0)
    link = {"src": "n1", "dst": "n4", "time": 50.5}
    expected = MODEL.logits(GRAPH.link("n1", "n4", 50.5), [frozenset()])
    assert asked.post("/api/score", **link).json()["logit"] == pytest.approx(expected[0], abs=1e-6)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"event": 99}, "event 99 is out of range: rows go from 0 to 59"),
        ({}, "give event, or src, dst and time of a link"),
        ({"event": 3, "src": "n1"}, "give event, or src, dst and time of a link"),
        ({"src": "n1", "dst": "nobody", "time": 3.0}, "there is no node 'nobody'"),
        ({"src": "n1", "dst": "n2", "time": "tomorrow"}, "'tomorrow' is not a time"),
        ({"event": 3, "without": [1000]}, "1000"),
    ],
)
def test_errors_are_the_librarys_own_words(asked, question, words):
    answer = asked.post("/api/score", **question)
    assert answer.status == 400
    assert words in answer.json()["detail"]


def test_requests_are_bounded():
    with serving(create_app(live(limits=Limits(body=3000)))) as asked:
        assert asked.post("/api/score", event=3, without=[1] * (MOST_ROWS + 1)).status == 422
        assert asked.post("/api/score", event=3, src="x" * 4000).status == 413
        endless = (b"x" * 500 for _ in range(20))  # sent in chunks, so that no length is given
        assert asked.ask("POST", "/api/score", body=endless).status in (400, 413)
        assert asked.post("/api/score", event=3, surprise=1).status == 422
        assert asked.get("/api/events", count=101).status == 422
        assert asked.post("/api/score", event=3).status == 200


def test_only_requests_that_name_this_server_are_answered(asked):
    for host, status in (
        ("evil.example:8765", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:8765", 200),
        ("[::1]:8765", 200),
    ):
        assert asked.ask("GET", "/api/about", headers={"host": host}).status == status


def test_pages_of_others_cannot_ask(asked):
    for origin in ("http://evil.example", "http://127.0.0.1:9", "null"):
        assert asked.ask("POST", "/api/score", json_={"event": 3}, headers={"origin": origin}).status == 403
    assert asked.ask("POST", "/api/score", json_={"event": 3}, headers={"origin": asked.address}).status == 200


def test_headers_that_are_repeated_or_damaged_open_nothing(asked):
    own, other = f"Origin: {asked.address}", "Origin: http://evil.example"
    for lines in ([own, other], [other, own], ["Origin: http://["], ["Host: 127.0.0.1"], ["Host: evil.example"]):
        with socket.create_connection(("127.0.0.1", asked.port)) as connection:
            host = f"Host: 127.0.0.1:{asked.port}"
            request = "\r\n".join(["GET /api/about HTTP/1.1", host, *lines, "Connection: close", "", ""])
            connection.sendall(request.encode())
            assert connection.makefile().readline().split()[1] in ("400", "403"), lines


def test_half_a_letter_is_refused_like_other_wrong_text(asked):
    answer = asked.post("/api/score", event=3, rather_than="\ud800")
    assert answer.status == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "rather_than"]


def test_beyond_this_machine_a_token_is_needed():
    with serving(create_app(live(), token="secret")) as asked:
        assert asked.get("/").status == 401
        assert asked.get("/", token="guess").status == 401
        assert asked.ask("GET", "/api/about", headers={"authorization": "Bearer secret"}).status == 200
        assert asked.get("/", token="secret").status == 200
        assert asked.get("/api/about").status == 200  # it has a cookie now
        assert Client(asked.port).get("/api/about").status == 401


def test_answers_forbid_what_pages_do_not_need(asked):
    headers = asked.get("/").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_a_search_gives_the_librarys_explanation(asked):
    job = asked.post("/api/explanations", event=50, explainer="greedy").json()
    again = asked.post("/api/explanations", event=50, explainer="greedy").json()
    assert again["id"] == job["id"]  # the same question is searched once
    for _ in range(10_000):
        job = asked.get(f"/api/explanations/{job['id']}").json()
        if job["state"] == DONE:
            break
        time.sleep(0.01)
    document = Explanation.from_json(asked.get(f"/api/explanations/{job['id']}/document").text)
    expected = explainer("greedy").explain(MODEL, GRAPH, GRAPH.query(50))
    assert (document.rows, document.logits, document.evaluated) == (expected.rows, expected.logits, expected.evaluated)
    assert job["sentence"] == expected.sentence
    assert expected.sentence in asked.get("/", event=50, explainer="greedy").text


def test_a_search_may_imagine_events():
    served = live()
    job = wait(served, served.search(Scenario(GRAPH.query(50), 50), "greedy", why_not=True))
    assert {event.edit for event in job.why.candidates} >= {"removed", "added"}
    assert served.found(Scenario(GRAPH.query(50), 50), "greedy") is None  # that is another question
    with serving(create_app(served)) as asked:
        assert "imagined" in asked.get("/", event=50, explainer="greedy", why_not=1).text
        assert asked.post("/api/explanations", event=50, explainer="pbone", why_not=True).status == 200


def test_explainers_do_not_imagine_events_on_top_of_imagined_ones(asked):
    question = {"event": 50, "add": [{"src": "n1", "dst": "n2", "time": 40.5}], "explainer": "greedy"}
    assert asked.post("/api/explanations", **question).status == 200
    refused = asked.post("/api/explanations", **question, why_not=True)
    assert refused.status == 400
    assert "cannot add events to an edited history" in refused.json()["detail"]


def test_edits_that_make_no_sense_are_refused_before_they_wait(asked):
    for edits in ({"move": [{"row": 60, "time": 3.0}]}, {"add": [{"src": "n1", "dst": "nobody", "time": 3.0}]}):
        refused = asked.post("/api/explanations", event=50, explainer="greedy", **edits)
        assert refused.status == 400
        assert refused.json() == asked.post("/api/score", event=50, **edits).json()


def test_a_search_is_cancelled():
    with serving(create_app(live(SlowModel(GRAPH)))) as asked:
        job = asked.post("/api/explanations", event=59, explainer="cody").json()
        assert asked.ask("DELETE", f"/api/explanations/{job['id']}").json()["state"] == CANCELLED
        time.sleep(0.3)
        before = SlowModel.asked
        time.sleep(0.2)
        assert SlowModel.asked == before
        assert asked.get(f"/api/explanations/{job['id']}").status == 404
        assert asked.get(f"/api/explanations/{job['id']}/document").status == 404
        assert asked.post("/api/explanations", event=59, explainer="cody").json()["id"] != job["id"]


def test_a_search_that_nobody_asks_about_any_more_is_stopped():
    served = live(SlowModel(GRAPH), limits=Limits(away=0.1))
    job = served.search(Scenario(GRAPH.query(59), 59), "cody")
    ends = time.monotonic() + 60  # the client is gone
    while job.state != CANCELLED and time.monotonic() < ends:
        time.sleep(0.01)
    assert job.state == CANCELLED
    served.close()


def test_searches_wait_in_a_queue_that_ends():
    served = live(SlowModel(GRAPH), limits=Limits(searches=1, queue=2))
    jobs = [served.search(Scenario(GRAPH.query(row), row), "greedy") for row in (57, 58)]
    with pytest.raises(BusyError, match="2 searches are queued or running"):
        served.search(Scenario(GRAPH.query(59), 59), "greedy")
    with serving(create_app(live(SlowModel(GRAPH), limits=Limits(queue=0)))) as asked:
        assert asked.post("/api/explanations", event=59, explainer="greedy").status == 429
    assert [wait(served, job).state for job in jobs] == [DONE, DONE]
    assert wait(served, served.search(Scenario(GRAPH.query(59), 59), "greedy")).state == DONE
    served.close()


def test_a_search_that_waits_for_nobody_leaves_the_queue():
    now = [0.0]
    served = live(SlowModel(GRAPH), limits=Limits(searches=1, queue=2, away=5.0), clock=lambda: now[0])
    running, waiting = (served.search(Scenario(GRAPH.query(row), row), "cody") for row in (57, 58))
    while running.state == "waiting":
        time.sleep(0.01)
    now[0] = 4.0
    served.job(running.id)  # somebody still waits for this one
    now[0] = 8.0
    assert served.search(Scenario(GRAPH.query(59), 59), "cody").state == "waiting"
    assert (running.state, waiting.state) == ("running", CANCELLED)
    served.close()


def test_a_search_has_no_more_time_than_it_is_given():
    served = live(SlowModel(GRAPH), limits=Limits(seconds=0.3))
    began = time.monotonic()
    job = wait(served, served.search(Scenario(GRAPH.query(59), 59), "cody"))
    assert job.state == DONE
    assert job.why.ended == "seconds"
    assert time.monotonic() - began < 60
    served.close()


def test_an_explainer_that_fails_says_why_and_the_server_goes_on():
    class Broken(ToyModel):
        def logits(self, query, changes):
            raise RuntimeError("out of order")

    served = live(Broken(GRAPH))
    job = wait(served, served.search(Scenario(GRAPH.query(59), 59), "greedy"))
    assert (job.state, job.error) == (FAILED, "RuntimeError: out of order")
    served.close()


def test_an_explainer_is_only_ever_one_of_the_catalogue(asked):
    for name in ("../../etc/passwd", "nonsense", "python:os:system"):
        answer = asked.post("/api/explanations", event=50, explainer=name)
        assert answer.status == 400
        assert "there is no explainer" in answer.json()["detail"]


def test_sessions_and_explanations_are_dropped_after_a_while():
    ticks = count()
    now = [0.0]
    model, limits = Watched(GRAPH), Limits(sessions=5, explanations=2, keep=100.0)
    served = live(model, limits=limits, clock=lambda: now[0] + next(ticks) * 1e-9)
    for row in range(20, 40):
        served.score(Scenario(GRAPH.query(row), row))
        assert len(model.kept) <= 5
    jobs = [wait(served, served.search(Scenario(GRAPH.query(row), row), "greedy")) for row in (50, 51, 52, 53)]
    served.score(Scenario(GRAPH.query(1), 1))
    assert [is_known(served, job) for job in jobs] == [False, False, True, True]
    now[0] = 200.0
    served.score(Scenario(GRAPH.query(1), 1))
    gc.collect()  # searches that are over
    assert [session.query for session in model.kept] == [GRAPH.query(1)]
    assert not any(is_known(served, job) for job in jobs)
    served.close()


def test_all_sessions_together_keep_a_bounded_amount():
    model = Watched(GRAPH, size=400)
    served = live(model, limits=Limits(numbers=1000))
    for row in range(20, 30):
        served.score(Scenario(GRAPH.query(row), row))
    served.score(Scenario(GRAPH.query(29), 29))
    assert sorted(session.query.before for session in model.kept) == [28, 29]  # the latest


def test_a_session_begins_anew_when_it_was_asked_about_many_events():
    model = Watched(GRAPH, weights=MODEL.weights, bias=MODEL.bias, indirect=MODEL.indirect)
    served = live(model, limits=Limits(rows=10))
    case = Scenario(GRAPH.query(59), 59)
    for first in range(0, 50, 2):
        removed = frozenset({first, first + 1})
        expected = MODEL.logits(GRAPH.query(59), [removed])[0]
        assert served.score(case._replace(removed=removed))[1] == pytest.approx(expected)
        assert len(model.kept) == 1
    assert [len(rows) for rows in model.asked_about] == [10] * 5


def test_the_engines_sessions_say_how_much_they_keep():
    graph = cody.load("collegemsg")
    session = cody.load_model("tgn-collegemsg", graph).session(graph.query(53854))
    sizes = [size_of(session)]
    for removed in (frozenset(), frozenset({53852}), frozenset({53852, 53747})):
        session.logits([removed])
        sizes.append(size_of(session))
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    assert sizes[3] >= sizes[2] > 0


def test_a_page_is_there_in_time_and_knows_what_it_shows():
    case = Scenario(GRAPH.query(59), 59, frozenset({3, 5, 58}))
    expected = {rows: MODEL.logits(GRAPH.query(59), [frozenset(rows)])[0] for rows in ((), (3, 5, 58), (58,))}
    known = dict(live().look(case).evaluated)
    assert known.keys() >= expected.keys()
    assert [known[rows] for rows in expected] == pytest.approx(list(expected.values()), abs=1e-5)

    class SlowForEach(ToyModel):
        def logits(self, query, changes):
            time.sleep(0.05 * len(changes))
            return super().logits(query, changes)

    why = live(SlowForEach(GRAPH), limits=Limits(look=0.6)).look(case)
    hurried = dict(why.evaluated)
    assert {(), (3, 5, 58)} <= hurried.keys()
    assert len(hurried) < len(why.candidates)
    alone = sum(len(rows) == 1 for rows in hurried)
    assert f"{alone or 'None'} of the {len(why.candidates)} events near this link" in page_of(why)
    assert "Each of the " in page_of(live().look(case))


def page_of(why):
    facts = Facts(why, served=True)
    return str(content(facts, facts.states[0], LiveControls(Markup(), (), searched=False, data={}))[0])


def test_answers_are_not_held_back_by_the_network():
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_command_serves_until_it_is_interrupted():
    command = [sys.executable, "-m", "cody", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stderr.readline()
            asked = Client(int(re.fullmatch(r"Open http://127\.0\.0\.1:(\d+)/ \(Ctrl-C stops\)\n", said)[1]))
            for _ in range(10_000):
                with suppress(ConnectionError):
                    assert asked.get("/api/about").json()["model"] == "tgn-collegemsg"
                    break
                time.sleep(0.02)
            assert asked.post("/api/score", event=53854).json()["predicted"]
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("words", "decision"),
    [
        ([], None),
        (["--threshold", "0.8"], cody.above(0.8)),
        (["--top", "3"], cody.in_top(3)),
        (["--top", "1", "--among", "5,7"], cody.in_top(1, among=["5", "7"])),
        (["--rather-than", "7"], cody.rather_than("7")),
    ],
)
def test_the_command_decides_as_its_options_say(tmp_path, monkeypatch, words, decision):
    served = []
    monkeypatch.setattr("cody.web.app.create_app", lambda live, **_: served.append(live))
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    run("serve", *data_and_model(tmp_path), "--port", 0, *words)
    assert [live.decision for live in served] == [decision]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "fraud"], "the model predicts links, not labels such as 'fraud'"),
        (["--rather-than", "nobody"], "'nobody'"),
        (["--top", "1", "--among", "5,nobody"], "'nobody'"),
        (["--between", "5..2"], "from a lower to a higher number"),
    ],
)
def test_a_decision_that_cannot_be_made_is_an_error_before_anything_is_served(tmp_path, monkeypatch, words, message):
    monkeypatch.setattr("cody.cli.serve.listen", lambda *_: pytest.fail("it listens"))
    assert message in run("serve", *data_and_model(tmp_path), "--port", 0, *words, code=2)


def test_fifty_clients_at_once_get_the_librarys_answers():
    rng = np.random.default_rng(0)
    questions = [(int(row), frozenset(rng.integers(0, row, 3).tolist())) for row in rng.integers(20, 60, 100)]
    expected = [MODEL.logits(GRAPH.query(row), [removed])[0] for row, removed in questions]
    model = Watched(GRAPH, weights=MODEL.weights, bias=MODEL.bias, indirect=MODEL.indirect)
    served = live(model, limits=Limits(sessions=8))
    barrier = threading.Barrier(50)

    def ask(place):
        barrier.wait()
        mine = questions[place::50]
        return [asked.post("/api/score", event=row, without=sorted(rows)).json()["logit"] for row, rows in mine]

    with serving(create_app(served)) as asked, ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(50)))
    for place, mine in enumerate(answers):
        assert mine == pytest.approx(expected[place::50], abs=1e-6)
    assert len(model.kept) <= 8


def test_events_are_listed_with_what_the_model_said(asked):
    listed = asked.get("/api/events", before=50, count=3).json()
    assert [event["row"] for event in listed] == [49, 48, 47]
    logits = [MODEL.logits(GRAPH.query(row), [frozenset()])[0] for row in (49, 48, 47)]
    assert [event["logit"] for event in listed] == pytest.approx(logits, abs=1e-6)
    page = asked.get("/", before=50).text
    assert page.count("(wrong)") == sum(MODEL.logits(GRAPH.query(row), [frozenset()])[0] <= 0 for row in range(25, 50))


def test_the_likeliest_partners_of_a_node_come_first(asked):
    node = asked.get("/api/nodes/n1").json()
    scores = [partner["logit"] for partner in node["partners"]]
    assert scores == sorted(scores, reverse=True)
    best = node["partners"][0]
    query = cody.Query(1, GRAPH.node(best["name"]), 59.0, 60)
    assert best["logit"] == pytest.approx(MODEL.logits(query, [frozenset()])[0], abs=1e-6)
    others = [node for node in range(9) if node != 1]
    logits = [MODEL.logits(cody.Query(1, other, 59.0, 60), [frozenset()])[0] for other in others]
    assert best["logit"] == pytest.approx(max(logits), abs=1e-6)
    assert asked.get("/api/nodes/nobody").status == 404
    assert "Who next?" in asked.get("/", node="n1").text


def test_names_are_text_on_every_page():
    evil = "<script>alert(1)</script>"
    names = [evil] + [f"n{node}" for node in range(1, 9)]
    graph = TemporalGraph.from_arrays(GRAPH.src, GRAPH.dst, GRAPH.time, names=names)
    addresses = [{}, {"node": evil}, {"event": 59}, {"src": evil, "dst": "n1", "time": "59"}, {"node": "</title><b>"}]
    with serving(create_app(Live(graph, ToyModel(graph), evil, evil))) as asked:
        for parameters in addresses:
            page = asked.get("/", **parameters).text
            assert "<script>alert" not in page
            assert "</title><b>" not in page


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ({"event": 0, "dst": "n1"}, "give the row of an event, or from, to and when, not both"),
        ({"src": "n1", "dst": "x" * 1001, "time": "5"}, "there is no node"),
        ({"src": "n1", "dst": "x" * 5000, "time": "5"}, "dst: String should have at most 4096 characters"),
        ({"event": 0, "without": "9" * 18}, "event 999999999999999999"),
        ({"src": "n1", "dst": "n2", "time": "5" * 41}, "time"),
        ({"src": "n1", "dst": "", "time": "5"}, "dst"),
    ],
)
def test_an_address_is_bounded_as_a_request_is(asked, address, words):
    page = asked.get("/", **address)
    assert page.status == 400
    assert words in page.text


def test_an_address_that_does_not_exist_is_a_page_for_a_browser_and_json_for_a_program(asked):
    program, browser = asked.get("/nowhere"), asked.ask("GET", "/nowhere", headers={"accept": "text/html,*/*"})
    assert (program.status, program.json()) == (404, {"detail": "There is nothing at /nowhere."})
    assert browser.status == 404
    assert "There is nothing at /nowhere." in browser.text
    assert '<a href=".">CoDy</a>' in browser.text  # the way back


def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(asked):
    refused = asked.ask("PUT", "/api/explanations/x")
    assert (refused.status, refused.headers["allow"]) == (405, "DELETE, GET")
    assert refused.json()["detail"] == "use DELETE or GET"
    assert asked.ask("DELETE", "/api/score").headers["allow"] == "POST"


def test_whole_numbers_may_be_written_with_a_point(asked):
    assert asked.post("/api/score", event=50.0).json() == asked.post("/api/score", event=50).json()
    for wrong in (50.5, "50", True):
        assert asked.post("/api/score", event=wrong).status == 422


def test_numbers_that_json_does_not_have_are_refused(asked):
    for wrong in (math.nan, math.inf, -math.inf):
        for path in ("/api/score", "/api/explanations"):
            refused = asked.post(path, event=wrong)
            assert refused.status == 422
            assert refused.json()["detail"][0]["loc"] == ["body", "event"]


def test_an_address_says_what_is_changed(asked):
    assert asked.get("/", event=50, without="49,3", add="n1 n2 40.5", take="48").status == 200
    bad = asked.get("/", event=50, add="n1 n2")
    assert bad.status == 400
    assert "is not understood" in bad.text
    assert asked.get("/", side=",".join(map(str, range(1, 14)))).status == 400


@pytest.mark.parametrize("wrong", [{"time": False}, {"time": True}, {"why_not": 1}, {"why_not": "yes"}])
def test_what_is_no_number_or_no_answer_is_refused_as_the_document_says(asked, wrong):
    link = {"src": "n1", "dst": "n2", "time": 60.0, "explainer": "greedy"} | wrong
    assert asked.post("/api/explanations", **link).status == 422
