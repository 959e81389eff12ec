"""Labels of events: read from files and tables, kept by every form of a graph, never part of its identity."""

import json
import types
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cody
from cody.data import from_temporal_data, open_graph, read_events, save_graph, summarise
from cody.data.named import _read_snap_bitcoin, _with_bans
from cody.data.readers import unused_columns
from cody.data.writer import write_events
from cody.errors import CallError, DataError
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Alter

EVENTS = {"src": [0, 1, 0, 2], "dst": [1, 2, 2, 0], "time": [1.0, 2.0, 3.0, 4.0]}


def graph(**more):
    return TemporalGraph.from_arrays(**EVENTS, **more)


def labelled(**more):
    given = {"labels": [0, 1, -1, 1], "label_names": ["trust", "distrust"], "event_name": "rating"}
    return graph(**given | more)


def table(**columns):
    return pd.DataFrame(EVENTS | columns)


def test_labels_do_not_change_the_identity():
    assert labelled().identity == graph().identity


def test_labels_are_named_and_an_unknown_one_has_no_name():
    assert [labelled().label_of(row) for row in range(4)] == ["trust", "distrust", None, "distrust"]
    assert labelled().name_of_event() == "rating"
    assert graph().name_of_event() == "event"
    assert graph().label_of(0) is None


def test_labels_are_sorted_with_their_events():
    late = TemporalGraph.from_arrays([0, 1, 2], [1, 2, 0], [3.0, 1.0, 2.0], labels=[2, 0, 1], sort=True)
    assert late.labels.tolist() == [0, 1, 2]
    assert late.label_names == ("0", "1", "2")


def test_imagined_rows_have_no_label_and_real_ones_keep_theirs():
    longer = labelled(features=[[1], [2], [3], [4]]).imagine([Add(0, 1, 1.5, [0]), Alter(1, [9])])
    assert [longer.label_of(row) for row in range(6)] == ["trust", "distrust", None, "distrust", None, None]
    after = longer.with_change({0, 4, 5})  # event 0 did not happen, one was added, event 1 was another one
    assert after.labels.tolist() == [-1, -1, -1, 1]
    assert (after.label_names, after.event_name) == (("trust", "distrust"), "rating")
    assert labelled().select(np.array([1, 3])).labels.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": [0, 1]}, "shape"),
        ({"labels": [0, 1, -2, 1]}, "row 2 has -2"),
        ({"labels": [0, 1, 0.5, 1]}, "row 2 has 0.5"),
        ({"labels": ["a", "b", "a", "b"]}, "whole numbers"),
        ({"labels": [0, 1, 2, 1], "label_names": ["a", "b"]}, "at least 3 different names"),
        ({"labels": [0, 1, 1, 1], "label_names": ["a", "a"]}, "different names"),
        ({"label_names": ["a", "b"]}, "there are none"),
    ],
)
def test_labels_that_are_none_are_refused(wrong, message):
    with pytest.raises(DataError, match=message):
        graph(**wrong)


def test_a_saved_graph_keeps_labels_and_names(tmp_path):
    save_graph(labelled(), tmp_path / "g")
    again = open_graph(tmp_path / "g")
    assert again.labels.tolist() == [0, 1, -1, 1]
    assert (again.label_names, again.event_name) == (("trust", "distrust"), "rating")
    save_graph(graph(), tmp_path / "plain")
    plain = open_graph(tmp_path / "plain")
    assert plain.labels is plain.label_names is plain.event_name is None
    description = json.loads((tmp_path / "plain" / "graph.json").read_text())
    assert not {"label_names", "event_name"} & set(description)
    assert "labels" not in description["columns"]


def test_a_changed_label_in_a_saved_graph_is_noticed(tmp_path):
    save_graph(labelled(), tmp_path / "g")
    (file,) = (tmp_path / "g").glob("labels-*.npy")
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(DataError, match="labels-"):
        open_graph(tmp_path / "g")


def test_a_column_called_label_is_read():
    found = cody.load(table(label=[0, 1, None, 1]))
    assert found.labels.tolist() == [0, 1, -1, 1]
    assert found.label_names == ("no label", "label")


def test_words_are_classes_in_sorted_order():
    found = cody.load(table(kind=["spam", "ham", "", "spam"]), label="kind", event_name="mail")
    assert found.labels.tolist() == [1, 0, -1, 1]
    assert (found.label_names, found.event_name) == (("ham", "spam"), "mail")


def test_a_comparison_makes_two_classes_of_a_number():
    ratings = table(rating=[5, -1, 0, -10])
    found = cody.load(ratings, label="rating<0", features=["rating"])
    assert found.labels.tolist() == [0, 1, 0, 1]
    assert found.label_names == ("rating ≥ 0", "rating < 0")
    assert found.features[:, 0].tolist() == [5, -1, 0, -10]
    assert cody.load(ratings, label="rating >= 0", label_name="trust").label_names == ("no trust", "trust")
    assert cody.load(ratings, label="rating<0", label_names=["trust", "distrust"]).label_names == ("trust", "distrust")
    for rule, classes in {"rating!=0": [1, 1, 0, 1], "rating=-1": [0, 1, 0, 0], "rating<=-1e0": [0, 1, 0, 1]}.items():
        assert cody.load(ratings, label=rule).labels.tolist() == classes


def test_a_column_that_is_no_label_is_left_out_unless_it_is_asked_for():
    numbers = table(label=[0.5, 1.5, 2.5, 3.5])
    assert cody.load(numbers).labels is None
    with pytest.raises(DataError, match="'label<0'"):
        cody.load(numbers, label="label")
    assert cody.load(table(label=[0, 0, 0, 0])).labels is None  # as in many files that have no labels
    assert cody.load(table(label=[1, 2, 3, 4]), features=["label"]).labels is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "ratin<0"}, "no column 'ratin'.*did you mean 'rating'"),
        ({"label": "word<0"}, "'word' must hold numbers"),
        ({"label_name": "fraud"}, "label_name 'fraud' names classes.*--label on the command line"),
        ({"label_names": ["ham", "spam"]}, "label_names 'ham, spam' names classes"),
        ({"label": "word", "label_name": "fraud"}, "label_names names them all"),
        ({"label": "rating<0", "label_name": "a", "label_names": ["b", "c"]}, "not both"),
        ({"label": "rating<0", "label_names": ["b"]}, "2 different names"),
        ({"label": "many"}, "101 different values"),
    ],
)
def test_errors_about_labels_say_what_to_do(options, message):
    rows = 101
    columns = {"src": [0, 1] * 50 + [0], "dst": [1, 2] * 50 + [1], "time": range(rows), "many": range(rows)}
    columns |= {"rating": [1, -1] * 50 + [1], "word": [*"abc" * 33, "a", "b"]}
    with pytest.raises((CallError, DataError), match=message):
        cody.load(pd.DataFrame(columns), **options)


def test_csv_and_parquet_have_labels_too_and_exported_ones_are_read_back(tmp_path):
    for name in ("events.csv", "events.parquet"):
        write_events(labelled(), tmp_path / name)
        again = read_events(tmp_path / name)
        assert again.labels.tolist() == [0, 1, -1, 1]
        assert again.label_names == ("trust", "distrust")
        assert again.identity == labelled().identity


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1, 0, 2, -1], ("10", "9", "true")),  # text, though it looks like numbers
        ([0, 1, 1, 0], ("rating ≥ 0", "rating < 0")),  # not in the order of the alphabet
        ([1, 1, -1, 1], ("no label", "fraud, proven")),  # one class, which alone would not be taken for labels
    ],
)
def test_exported_classes_keep_their_names_and_order(tmp_path, labels, names, suffix):
    write_events(labelled(labels=labels, label_names=names), tmp_path / f"events{suffix}")
    again = read_events(tmp_path / f"events{suffix}")
    assert again.labels.tolist() == labels
    assert again.label_names == names
    assert unused_columns(tmp_path / f"events{suffix}") == []


def test_names_beside_labels_are_ignored_unless_each_class_has_its_own():
    for words in (["a", "b", "a", "a"], ["a", "a", "a", "a"]):
        assert cody.load(table(label=[0, 1, 0, 1], label_name=words)).label_names == ("no label", "label")
    named = table(label=[0, 1, 0, 1], label_name=["good", "bad", "good", "bad"])
    assert cody.load(named).label_names == ("good", "bad")
    assert cody.load(named, label="label").label_names == ("good", "bad")
    assert cody.load(named, label_name="fraud").label_names == ("no fraud", "fraud")


def test_jodie_files_have_labels(tmp_path):
    file = tmp_path / "wikipedia.csv"
    head = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    file.write_text(head + "0,0,0.0,0,0.1,0.2\n1,0,1.0,1,0.3,0.4\n")
    found = read_events(file)
    assert found.labels.tolist() == [0, 1]
    assert found.features.shape == (2, 2)


def test_ml_files_have_labels_unless_all_are_equal(tmp_path):
    file = tmp_path / "ml_x.csv"
    file.write_text(",u,i,ts,label,idx\n0,1,3,0.0,0.0,1\n1,2,3,1.0,1.0,2\n")
    assert read_events(file).labels.tolist() == [0, 1]
    file.write_text(",u,i,ts,label,idx\n0,1,3,0.0,0.0,1\n1,2,3,1.0,0.0,2\n")
    assert read_events(file).labels is None


def test_temporal_data_has_labels_as_y():
    data = types.SimpleNamespace(src=np.array([0, 1]), dst=np.array([1, 0]), t=np.array([1, 2]), y=np.array([0, 1]))
    found = from_temporal_data(data, label_name="dropout", event_name="action")
    assert (found.labels.tolist(), found.label_names) == ([0, 1], ("no dropout", "dropout"))
    assert found.event_name == "action"


def test_a_saved_graph_takes_no_other_labels(tmp_path):
    save_graph(labelled(), tmp_path / "g")
    with pytest.raises(CallError, match="saved graph"):
        cody.load(tmp_path / "g", label="rating")


def test_a_summary_counts_the_labels():
    summary = summarise(labelled())
    assert (summary.labels, summary.event_name) == ({"trust": 1, "distrust": 2}, "rating")
    assert summarise(graph()).labels is None


def test_bans_are_read_from_the_file_beside_the_edits(tmp_path):
    np.save(tmp_path / "wikipedia_label.npy", np.array([0, 0, 1, 0], dtype=np.int8))
    found = _with_bans(graph(), tmp_path / "wikipedia.parquet")
    assert (found.labels.tolist(), found.label_names) == ([0, 0, 1, 0], ("no ban", "ban"))
    assert _with_bans(graph(), tmp_path / "elsewhere" / "wikipedia.parquet").labels is None
    np.save(tmp_path / "wikipedia_label.npy", np.array([0, 1], dtype=np.int8))
    with pytest.raises(DataError, match=r"wikipedia_label\.npy.*4 events"):
        _with_bans(graph(), tmp_path / "wikipedia.parquet")


def test_snaps_bitcoin_ratings_are_numbered_as_they_appear(tmp_path):
    import gzip

    file = tmp_path / "soc-sign-bitcoinotc.csv.gz"
    file.write_bytes(gzip.compress(b"6,2,4,10.5\n6,5,-2,30.25\n1,15,1,20.0\n"))
    found = _read_snap_bitcoin(file)
    assert found.src.tolist() == [0, 2, 0]
    assert found.dst.tolist() == [1, 3, 4]
    assert found.names.tolist() == [6, 2, 1, 15, 5]
    np.testing.assert_allclose(found.features[:, 0], [0.4, 0.1, -0.2])
    assert [found.label_of(row) for row in range(3)] == ["trust", "trust", "distrust"]


def test_the_name_of_an_event_survives_a_replacement_of_labels():
    assert replace(labelled(), labels=None, label_names=None).event_name == "rating"
    assert labelled().with_labels([0, 0, 0, 1]).event_name == "rating"
