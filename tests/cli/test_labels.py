"""Labels on the command line: imported, shown, trained on and predicted, in the words of the data."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import cody
from cody import cli
from cody.models.folder import find_model, read_model
from commands import run

SMALL = ("--dimension", 8, "--layers", 1, "--neighbours", 5, "--batch", 50, "--learning-rate", 0.02)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ratings in a csv, imported, and a small model of them."""
    folder = tmp_path_factory.mktemp("labels")
    rng = np.random.default_rng(0)
    dst = rng.integers(10, 20, 600)
    rating = np.where(dst % 3 == 0, -5, 8)
    rating[rng.random(600) < 0.05] *= -1
    events = {"src": rng.integers(0, 10, 600), "dst": dst, "time": np.arange(600) * 10, "rating": rating}
    pd.DataFrame(events).to_csv(folder / "ratings.csv", index=False)
    words = ("--label", "rating<0", "--label-names", "trust, distrust", "--event-name", "rating")
    run("data", "import", folder / "ratings.csv", "--features", "rating", *words, "--out", folder / "ratings")
    run("train", "--data", folder / "ratings", "--model", "tgat", "--task", "label", *SMALL, "--epochs", 5,
        "--out", folder / "model")  # fmt: skip
    return folder


def test_import_names_the_classes_and_the_events(folder):
    graph = cody.load(folder / "ratings")
    assert (graph.label_names, graph.event_name) == (("trust", "distrust"), "rating")
    shown = run("data", "show", folder / "ratings")
    assert "an event is called" in shown
    assert f"distrust {int((graph.labels == 1).sum())}" in shown
    document = json.loads(run("data", "show", folder / "ratings", "--json"))
    assert (document["event_name"], sum(document["labels"].values())) == ("rating", 600)
    assert "distrust" in run("data", "events", folder / "ratings")


def test_import_says_what_it_left_out_but_not_the_label(folder, tmp_path):
    said = run("data", "import", folder / "ratings.csv", "--label", "rating<0", "--label-name", "distrust",
               "--out", tmp_path / "again")  # fmt: skip
    assert "left out" not in said
    assert "no distrust" in run("data", "show", tmp_path / "again")


def test_train_prints_the_baselines_beside_the_model(folder, tmp_path):
    said = run("train", "--data", folder / "ratings", "--model", "tgn", "--task", "label", *SMALL, "--epochs", 1,
               "--out", tmp_path / "m")  # fmt: skip
    for words in ("this model", "past mean of the target", "past mean of the source", "class rate", "best F1"):
        assert words in said
    assert "link" not in said


def test_predict_shows_labels_in_the_words_of_the_data(folder):
    given = ("--data", folder / "ratings", "--model", folder / "model")
    said = run("predict", *given)
    assert "90 ratings from" in said
    assert "recall" in said
    assert "precision" in said
    assert "the best F1 of its validation period" in said
    assert "link" not in said
    rows = json.loads(run("predict", *given, "--threshold", 0.9999, "--json"))
    assert len(rows) == 90
    assert {row["predicted"] for row in rows} == {"trust"}
    wrong = json.loads(run("predict", *given, "--threshold", 0.9999, "--wrong", "--json"))
    assert {row["label"] for row in wrong} == {"distrust"}
    assert run("predict", *given, "--csv").splitlines()[0] == "event,src,dst,time,score,predicted,label,right"


def test_predict_labels_the_events_of_a_node_and_of_a_file(folder):
    given = ("--data", folder / "ratings", "--model", folder / "model", "--json")
    rows = json.loads(run("predict", *given, "--node", 12))
    assert rows
    assert all("12" in (row["src"], row["dst"]) for row in rows)
    (row,) = json.loads(run("predict", *given, "--events", 599))
    assert row["event"] == 599


def test_an_encoder_of_a_link_model_is_taken(folder, tmp_path):
    data = ("--data", folder / "ratings", "--model", "tgat", "--epochs", 1)
    run("train", *data, *SMALL, "--out", tmp_path / "links")
    run("train", *data, "--task", "label", "--encoder", tmp_path / "links", "--freeze-encoder", "--about", "node",
        "--out", tmp_path / "labels")  # fmt: skip
    links, labels = (read_model(tmp_path / name) for name in ("links", "labels"))
    assert labels.sizes == links.sizes
    assert labels.task is not None
    assert labels.task.about == "node"
    np.testing.assert_array_equal(labels.arrays["attention.0.key.weight"], links.arrays["attention.0.key.weight"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "--model", "tgn", "--about", "node", "--out", "m"), "belong to --task label"),
        (("train", "--model", "tgn", "--task", "label", "--freeze-encoder", "--out", "m"), "--encoder MODEL"),
        (("predict", "--model", "MODEL", "--node", "1", "--next", "3"), "this model predicts labels"),
        (("predict", "--model", "MODEL", "--top", "3"), "the model predicts labels"),
        (("predict", "--model", "MODEL", "--label", "frau"), "'frau' is not one of the model's classes"),
        (("predict", "--model", "MODEL", "--label", "distrust", "--top", "3"), "are different decisions"),
        (("train-explainer", "--model", "MODEL", "--out", "m"), "support only whether a link is predicted"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = [folder / "model" if word == "MODEL" else word for word in words]
    assert message in run(*named, "--data", folder / "ratings", code=2)


def test_a_threshold_decides_which_links_are_predicted():
    assert "1 predicted, 0 missed" in run("predict", "--threshold", 0.3, "--events", 50000)
    assert "0 predicted, 1 missed" in run("predict", "--threshold", 0.9, "--events", 50000)


def test_predict_makes_every_decision_and_the_command_it_names_makes_the_same_one():
    shown = run("predict", "--rather-than", 942, "--events", "59833,59834")
    assert "ranked above 942" in shown
    assert shown.rstrip().endswith("cody explain --event 59834 --rather-than 942")
    (low, high) = json.loads(run("predict", "--between", "0..2", "--events", "59833,59834", "--json"))
    assert (low["positive"], high["positive"], low["right"]) == (True, False, None)
    assert "--threshold 0.8" in run("predict", "--threshold", 0.8, "--events", "59834")
    assert "--rather-than decides about links" in run("predict", "--rather-than", 942, "--node", 5, "--next", 2, code=2)


def test_data_without_labels_cannot_be_trained_on_labels(tmp_path):
    said = run("train", "--data", "campus", "--model", "tgn", "--task", "label", "--out", tmp_path / "m", code=2)
    assert "--label COLUMN" in said
    assert not (tmp_path / "m").exists()


def test_the_shipped_label_model_is_small_beats_the_baselines_and_says_how_to_get_its_data(tmp_path, monkeypatch):
    model = find_model("tgn-bitcoin-otc")
    assert sum(file.stat().st_size for file in model.iterdir()) < 2_000_000
    saved = read_model("tgn-bitcoin-otc")
    assert saved.task is not None
    assert saved.task.classes == ("trust", "distrust")
    for measure in ("average_precision", "auc"):
        others = [found[measure] for found in saved.origin["baselines"].values()]
        assert saved.origin["test"][measure] > max(others)
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    said = run("predict", "--data", "bitcoin-otc", "--model", "tgn-bitcoin-otc", code=1)
    assert "cody data fetch bitcoin-otc" in said


def remark(*words):
    """What a command says on standard error."""
    return CliRunner().invoke(cli.app, [str(word) for word in words]).stderr


def test_sentences_about_labels_speak_of_the_event_not_of_a_link(folder, tmp_path):
    given = ("--data", folder / "ratings", "--model", folder / "model")
    later = ("what-if", *given, "--src", 3, "--dst", 12, "--time", 5000)
    assert "event 580 does not lie before the rating: leaving it out" in remark(*later, "--without", 580)
    assert "does not lie before the rating: adding it" in remark(*later, "--add", "3 12 5900")
    (tmp_path / "cases.json").write_text(json.dumps([{"event": 500, "removed": [580]}]))
    assert "does not lie before the rating" in remark("what-if", *given, "--cases", tmp_path / "cases.json")
    explained = ("explain", *given, "--event", 590, "--protect", "simultaneous", "--evaluations", 50)
    assert "Protected: events at the time of the rating." in " ".join(run(*explained).split())
    (tmp_path / "why.json").write_text(run(*explained, "--json"))
    checked = run("verify", tmp_path / "why.json", *given)
    assert "the event" in checked
    assert "the link" not in checked


@pytest.fixture(scope="module")
def of_nodes(folder):
    """A small model of the states of nodes."""
    model = folder / "nodes"
    run("train", "--data", folder / "ratings", "--model", "tgat", "--task", "label", "--about", "node", *SMALL,
        "--epochs", 1, "--out", model)  # fmt: skip
    return ("--data", folder / "ratings", "--model", model)


def test_the_state_of_a_node_can_be_explained_and_verified_at_any_time(of_nodes, tmp_path):
    (tmp_path / "why.json").write_text(run("explain", *of_nodes, "--node", 3, "--time", "now", "--json"))
    why = json.loads((tmp_path / "why.json").read_text())
    assert (why["subject"], why["src"], why["dst"]) == ("node", "3", "3")
    assert " for 3 (" in run("explain", *of_nodes, "--node", 3, "--time", "now")
    assert "contradicted" not in run("verify", tmp_path / "why.json", *of_nodes)
    assert " for 3 (" in run("explain", *of_nodes, "--node", 3, "--time", "now", "--even-if")
    removed = why["candidates"]["row"][-1]
    assert str(removed) in run("what-if", *of_nodes, "--node", 3, "--time", "now", "--without", removed)


def test_an_event_asks_a_model_of_nodes_about_its_source(of_nodes, folder):
    sources = pd.read_csv(folder / "ratings.csv")["src"]
    why = json.loads(run("explain", *of_nodes, "--event", 590, "--json"))
    assert why["event"] == 590
    assert why["src"] == why["dst"] == str(sources[590])


@pytest.mark.parametrize("command", ["explain", "what-if"])
def test_nodes_and_links_are_not_mixed_up(of_nodes, folder, command):
    link = ("--src", 3, "--dst", 12, "--time", "now")
    assert "give --node, not --src and --dst" in run(command, *of_nodes, *link, code=2)
    state = ("--node", 3, "--time", "now")
    events = ("--data", folder / "ratings", "--model", folder / "model")
    assert "the model predicts labels of events, not the state of a node" in run(command, *events, *state, code=2)
    assert "the model predicts links, not the state of a node" in run(command, *state, code=2)
    assert "or --node and --time" in run(command, *of_nodes, "--node", 3, code=2)


def test_where_nothing_says_what_is_right_no_wrong_predictions_are_promised():
    numbers = run("predict", "--between", "0..2", "--last", 3)
    assert "--last N shows more, --csv all." in " ".join(numbers.split())
    assert "None of them is known to be wrong." in run("predict", "--between", "0..2", "--wrong")
    links = " ".join(run("predict", "--last", 3).split())
    assert "--last N shows more, --wrong the wrong ones, --csv all." in links


def test_audit_speaks_of_labels_not_of_links(folder, tmp_path):
    place, page = ("--data", folder / "ratings", "--model", folder / "model"), tmp_path / "audit.html"
    said = run("audit", *place, "--links", 12, "--html", page)
    report = json.loads(run("audit", *place, "--links", 12, "--json"))
    assert (report["label"], report["links"]) == ("distrust", 12)
    assert f"12 predictions of distrust (true of {report['happened']})" in " ".join(said.split())
    assert f"{report['happened']} of them are distrust" in page.read_text()
    for text in (said, " ".join([report["summary"], *report["verdict"]]), page.read_text().partition("<body")[2]):
        assert not re.search(r"\blinks?\b|of them happened", text)
