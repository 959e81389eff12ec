"""Features of events by name: kept with the data, altered on the command line, shown where events are."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody import Alter, TemporalGraph
from cody.cli import app
from cody.data import open_graph, save_graph
from cody.errors import CallError, DataError
from cody.explaining.what_if import parse_alter
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_network


def ratings(events=60):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 6, (2, events))
    rating = rng.integers(-10, 11, events)
    return "src,dst,time,rating\n" + "".join(
        f"{a},{b},{100 + row},{value}\n" for row, (a, b, value) in enumerate(zip(src, dst, rating, strict=True))
    )


@pytest.fixture
def rated(tmp_path, monkeypatch):
    """Data with ratings, and a model for them, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ratings.csv").write_text(ratings())
    run("data", "import", "ratings.csv", "--features", "rating", "--out", "rated")
    graph = cody.load("rated")
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return graph


def run(*words, fails=False):
    ended = CliRunner().invoke(app, [str(word) for word in words])
    if fails:
        assert isinstance(ended.exception, CallError)
        return str(ended.exception)
    assert ended.exit_code == 0, ended.output + str(ended.exception)
    return ended.output


def test_names_of_features_are_kept_with_the_data(rated, tmp_path):
    assert rated.feature_names == ("rating",)
    assert rated.select(np.arange(9)).feature_names == ("rating",)
    longer = rated.imagine([Alter(3, [10.0])])
    assert longer.feature_names == longer.with_change({60}).feature_names == ("rating",)
    save_graph(rated, tmp_path / "again")
    assert open_graph(tmp_path / "again").feature_names == ("rating",)
    unnamed = TemporalGraph.from_arrays([0], [1], [1], features=[[2.0, 3.0]])
    assert unnamed.feature_names is None
    assert unnamed.names_of_features() == ("f0", "f1")
    with pytest.raises(DataError, match="feature_names must be 2 different names"):
        TemporalGraph.from_arrays([0], [1], [1], features=[[2.0, 3.0]], feature_names=["a", "a"])
    save_graph(unnamed, tmp_path / "unnamed")
    assert open_graph(tmp_path / "unnamed").feature_names is None


def test_the_command_line_alters_features_by_name(rated):
    words = "what-if", "--data", "rated", "--model", "model", "--event", 50
    row = int(rated.history(int(rated.src[50]), 50)[-1])
    before, after = json.loads(run(*words, "--alter", f"{row} rating=10", "--json"))
    longer = rated.imagine([Alter(row, [10.0])])
    expected = cody.load_model("model", rated).on(longer).logits(longer.query(50), [frozenset({60})])[0]
    assert after["logit"] == pytest.approx(expected, abs=1e-5)
    assert after["logit"] != before["logit"]
    assert after["altered"] == [{"row": row, "features": {"rating": 10.0}}]
    was = f"{rated.features[row, 0]:g}".replace("-", "−")
    assert f"{row} altered: rating {was} → 10" in run(*words, "--alter", f"{row} rating=10")
    (_, again) = json.loads(run(*words, "--alter", f"{row} rating=10", "--without", 3, "--json"))
    assert again["removed"] == [3]
    cases = [{"event": 50, "altered": [[row, {"rating": 10}]]}]
    Path("cases.json").write_text(json.dumps(cases))
    (case,) = json.loads(run(*words[:-2], "--cases", "cases.json", "--json"))
    assert case["logit"] == after["logit"]


def test_alterations_that_make_no_sense_get_one_clear_error(rated):
    words = "what-if", "--data", "rated", "--model", "model", "--event", 50
    for text, message in (
        ("7 ratng=3", "events have no feature 'ratng'; did you mean 'rating'?"),
        ("7 rating", "'rating' is not FEATURE=NUMBER, for example rating=10"),
        ("7 rating=high", "'rating=high' is not FEATURE=NUMBER"),
        ("7 rating=inf", "'rating=inf' is not FEATURE=NUMBER"),
        ("7", 'write --alter "ROW FEATURE=NUMBER"'),
        ("900 rating=3", "event 900 is out of range: rows go from 0 to 59"),
        ("x rating=3", "'x' is not an event row"),
        ("7 rating=3 rating=4", "names a feature twice"),
    ):
        assert message in run(*words, "--alter", text, fails=True)
    assert "have no features to alter" in run("what-if", "--event", 50, "--alter", "3 rating=1", fails=True)
    alone = run(*words, "--each", "--alter", "3 rating=1", fails=True)
    assert "leave out --without, --add, --move and --alter" in alone
    assert "event 55 does not lie before event 50: altering it changes nothing" in run(*words, "--alter", "55 rating=1")


def test_an_event_that_is_changed_twice_is_refused_because_only_one_change_would_count(rated):
    words = "what-if", "--data", "rated", "--model", "model", "--event", 50, "--alter", "7 rating=3"
    for again in (("--alter", "7 rating=4"), ("--without", "3,7"), ("--move", "7 1 later")):
        assert "event 7 is changed twice" in run(*words, *again, fails=True)


def test_features_not_named_keep_their_values():
    graph = TemporalGraph.from_arrays([0], [1], [5], features=[[-10, 2, 3]], feature_names=["a", "b", "c=d"])
    assert parse_alter("0 a=−1.5 c=d=4", graph) == Alter(0, (-1.5, 2.0, 4.0))


def test_features_are_shown_wherever_events_are(rated):
    row = int(rated.history(int(rated.src[50]), 50)[-1])
    longer = rated.imagine([Alter(row, [11.0])])
    why = cody.explain(cody.load_model("model", rated), longer, longer.query(50), evaluations=60)
    was = f"{rated.features[row, 0]:g}".replace("-", "−")
    said = {event.row: event.carries for event in why.candidates}
    assert said[row] == f"rating {was}"
    assert said[60] == f"rating {was} → 11"
    shown = [event.carries for event, _ in why.steps]
    assert all(text in str(why) for text in shown)
    assert list(why.to_frame()["features"]) == shown
    page = why.to_html()
    assert f"rating {was} → 11" in page
    assert all(text in page for text in said.values())
    again = cody.Explanation.from_json(why.to_json())
    assert again.candidates == why.candidates
    words = "what-if", "--data", "rated", "--model", "model", "--event", 50, "--each", "--strongest", 60
    assert f"rating {was}" in run(*words)


def test_events_without_features_or_with_many_say_nothing_of_them(rated):
    bare = TemporalGraph.from_arrays(rated.src, rated.dst, rated.time)
    model = cody.models.ToyModel(bare, weights=np.linspace(-1, 1, 60))
    why = cody.explain(model, bare, bare.query(50), evaluations=30)
    assert "features" not in why.to_frame()
    assert "carries" not in why.to_dict()["candidates"]
    many = TemporalGraph.from_arrays([0], [1], [1], features=np.ones((1, 172)))
    assert many.carried(0) == ""
