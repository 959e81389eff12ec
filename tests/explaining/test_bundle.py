"""A bundle is verified with nothing but itself, and whatever was changed in it is found."""

import json
import zipfile
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.data import save_graph
from cody.engine import FastTGN, load_model
from cody.errors import CallError, DataError
from cody.explaining.bundle import CONTENTS, DOCUMENT, LARGEST, opened_bundle, verify_bundle, write_bundle
from cody.explaining.claims import CONFIRMED, CONTRADICTED, NOT_CHECKED
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    """A log and a model, as folders, and an explanation in the middle of the log."""
    folder = tmp_path_factory.mktemp("asked")
    graph = random_graph(np.random.default_rng(3), nodes=20, events=140)
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    model = load_model(folder / "model", graph)
    found = (cody.explain(model, graph, graph.query(row), size=6, evaluations=20) for row in range(110, 80, -1))
    return folder, graph, model, next(why for why in found if why.is_counterfactual)


@pytest.fixture
def bundle(where, tmp_path):
    folder, graph, _, why = where
    return write_bundle(why, graph, tmp_path / "why.zip", model=folder / "model")


def statuses(report):
    return {claim.about: claim.status for claim in report.claims}


def test_it_verifies_with_nothing_but_itself(bundle, where):
    report = verify_bundle(bundle, sets=None)
    assert report.is_confirmed
    assert statuses(report)["the answer flips the decision"] == CONFIRMED
    assert statuses(report)["the data"] == NOT_CHECKED  # only the beginning of the log is here
    with opened_bundle(bundle) as opened:
        assert opened.past.num_events == where[3].event + 1 < where[1].num_events


def test_the_whole_log_confirms_its_events_and_another_one_does_not(bundle, where):
    _, graph, model, _ = where
    confirmed = statuses(verify_bundle(bundle, graph=graph, model=model, sets=0))
    assert confirmed["its events are the first of the log"] == confirmed["the data"] == CONFIRMED
    other = random_graph(np.random.default_rng(4), nodes=20, events=140)
    found = statuses(verify_bundle(bundle, graph=other, model=FastTGN(random_network(graph, "tgn"), other), sets=0))
    assert found["its events are the first of the log"] == found["the data"] == CONTRADICTED


def test_an_even_if_answer_and_a_link_that_did_not_happen_are_bundled_too(where, tmp_path):
    folder, graph, model, _ = where
    rows = range(110, 60, -1)
    even = next(each for row in rows if (each := cody.even_if(model, graph, graph.query(row), size=5)).kept)
    assert verify_bundle(write_bundle(even, graph, tmp_path / "even.zip", model=folder / "model")).is_confirmed
    link = graph.link(graph.name(0), graph.name(1), float(graph.time[99]))
    why = cody.explain(model, graph, link, size=5, evaluations=10)
    report = verify_bundle(write_bundle(why, graph, tmp_path / "link.zip", model=folder / "model"))
    assert CONTRADICTED not in statuses(report).values()


def rewritten(bundle, target, changes):
    """The bundle with other contents of some files, and a list that fits: somebody who knows what they do."""
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files |= changes
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target


def contents_of(bundle):
    """What a bundle lists, without the checksum of the list."""
    with zipfile.ZipFile(bundle) as archive:
        return {name: value for name, value in json.loads(archive.read(CONTENTS)).items() if name != "checksum"}


def test_any_file_that_was_changed_is_named(bundle, tmp_path):
    with zipfile.ZipFile(bundle) as archive:
        names = archive.namelist()
        contents = {name: archive.read(name) for name in names}
    for name in names:
        damaged = contents[name][:-2] + bytes([contents[name][-2] ^ 1]) + contents[name][-1:]
        with pytest.raises(DataError):
            verify_bundle(rewritten(bundle, tmp_path / "false.zip", {name: damaged}), sets=0)


OUTSIDE = ["../outside", "/outside", "model/../../outside", "other/file", "past/", "past\\..\\outside", "C:\\outside"]


@pytest.mark.parametrize("name", [*OUTSIDE, "past", "model", "a" * 300, "past/" + "b" * 300, "CON", "é"])
def test_files_of_other_places_are_refused(bundle, tmp_path, name):
    contents = contents_of(bundle)
    contents["files"][name] = sha256(b"x").hexdigest()
    false = rewritten(bundle, tmp_path / "false.zip", {CONTENTS: json.dumps(contents).encode(), name: b"x"})
    with pytest.raises(DataError, match="is not a file of a bundle"):
        verify_bundle(false)
    assert not (tmp_path / "outside").exists()


def test_any_damage_to_the_packed_bytes_is_one_error(bundle, tmp_path):
    packed, rng = bundle.read_bytes(), np.random.default_rng(2)
    damaged = tmp_path / "damaged.zip"
    for _ in range(60):
        content = bytearray(packed)
        for place in rng.integers(len(packed), size=4):
            content[place] ^= 255
        damaged.write_bytes(content)
        with pytest.raises(DataError, match=r"damaged\.zip"):
            verify_bundle(damaged, sets=0)


@pytest.mark.parametrize("name", [CONTENTS, DOCUMENT, "why.html", "past/graph.json", "model/model.json"])
def test_what_would_fill_the_memory_is_refused_before_it_is_unpacked(bundle, tmp_path, monkeypatch, name):
    monkeypatch.setitem(LARGEST, name, 10)
    with pytest.raises(DataError, match=f"{name} is not what it should be: it unpacks to"):
        verify_bundle(bundle)


def test_files_that_would_begin_before_the_bundle_are_one_error(bundle, tmp_path):
    packed = bytearray(bundle.read_bytes())
    packed[-3] ^= 0x80  # where its directory begins: all that it lists is found that much earlier
    (tmp_path / "bad.zip").write_bytes(packed)
    with pytest.raises(DataError, match="is damaged"), opened_bundle(tmp_path / "bad.zip"):
        raise AssertionError("it was opened")


def test_what_would_fill_the_disk_is_refused(bundle, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(DataError, match="has room for 1,000: free some"):
        verify_bundle(bundle)


def test_files_that_are_missing_or_packed_otherwise_are_refused(bundle, tmp_path):
    contents = contents_of(bundle)
    del contents["files"][DOCUMENT]
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name != DOCUMENT}
    with zipfile.ZipFile(tmp_path / "less.zip", "w") as archive:
        for name, content in (files | {CONTENTS: json.dumps(contents).encode()}).items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match=r"it has no why\.json"):
        verify_bundle(tmp_path / "less.zip")
    with zipfile.ZipFile(tmp_path / "lzma.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(DOCUMENT, b"{}")
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match="compressed in a way"):
        verify_bundle(tmp_path / "lzma.zip")


def test_an_explanation_of_another_event_does_not_belong_to_its_events(bundle, where, tmp_path):
    _, graph, model, why = where
    other = cody.explain(model, graph, graph.query(why.event - 1), size=4, evaluations=5)
    document = other.to_json().encode()
    contents = contents_of(bundle)
    contents["files"][DOCUMENT] = sha256(document).hexdigest()
    again = rewritten(bundle, tmp_path / "again.zip", {DOCUMENT: document, CONTENTS: json.dumps(contents)})
    assert statuses(verify_bundle(again, sets=0))["files belong together"] == CONTRADICTED


def test_what_does_not_belong_together_is_not_written(where, tmp_path):
    folder, graph, _, why = where
    with pytest.raises(CallError, match="this graph is"):
        write_bundle(replace(why, data="0" * 32), graph, tmp_path / "why.zip")
    with pytest.raises(CallError, match="about the model 0000"):
        write_bundle(replace(why, model="0" * 32), graph, tmp_path / "why.zip", model=folder / "model")
    (tmp_path / "mine.zip").write_text("mine")
    with pytest.raises(CallError, match="would be overwritten"):
        write_bundle(why, graph, tmp_path / "mine.zip")
    with pytest.raises(CallError, match="in a folder that exists"):
        write_bundle(why, graph, tmp_path / "nowhere" / "why.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.zip"]


def test_a_bundle_can_be_replaced_and_needs_no_model(where, tmp_path):
    _, graph, _, why = where
    for _ in range(2):
        write_bundle(why, graph, tmp_path / "why.zip")
    with opened_bundle(tmp_path / "why.zip") as opened:
        assert opened.folder is None
        assert cody.Explanation.from_json(opened.document).rows == why.rows
        with pytest.raises(CallError, match="holds no model"):
            opened.model()


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_commands_write_and_verify_it(where, tmp_path):
    folder, _, _, why = where
    names = ("--data", folder / "events", "--model", folder / "model")
    asked = ("explain", "--event", why.event, "--candidates", 5, "--evaluations", 10, *names)
    written = run(*asked, "--bundle", tmp_path / "why.zip", "--with-model")
    assert written.exit_code == 0, written.output
    ended = run("verify", tmp_path / "why.zip", "--sets", 0)
    assert (ended.exit_code, "files belong together" in ended.stdout) == (0, True), ended.output
    assert run("verify", tmp_path / "why.zip", "--sets", 0, *names, "--json").exit_code == 0
    assert run(*asked, "--bundle", tmp_path / "alone.zip").exit_code == 0
    assert run("verify", tmp_path / "alone.zip", "--sets", 0).exit_code == 1  # by the default model, which is another
    assert run("verify", tmp_path / "alone.zip", "--sets", 0, *names[2:]).exit_code == 0
    even = run(*asked, "--even-if", "--bundle", tmp_path / "even.zip", "--with-model")
    assert (even.exit_code, run("verify", tmp_path / "even.zip", "--sets", 0).exit_code) == (0, 0), even.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--with-model",), "give --bundle FILE"),
        (("--bundle", "why.json"), "ends in .json"),
        (("--bundle", "nowhere/why.zip"), "in a folder that exists"),
        (("--bundle", "why.zip", "--with-model", "--model", "module:function"), "is a function"),
    ],
)
def test_bad_calls_are_refused(words, message):
    ended = run("explain", "--event", 10, *words)
    assert ended.exit_code != 0
    assert message in " ".join((ended.output + str(ended.exception)).split())


def test_what_is_no_bundle_is_not_read(tmp_path):
    file = tmp_path / "why.zip"
    file.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataError, match="is damaged"):
        verify_bundle(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(DataError, match="not a bundle"):
        verify_bundle(file)
    assert "holds one" in str(run("verify", file, "--line", 1).exception)
