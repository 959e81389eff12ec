"""Data sets by name, the public files they come from, and whatever else `load` takes."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.client
import io
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.data import Dataset, datasets, fetch, is_here, load, save_graph, summarise
from cody.data.named import pin_note
from cody.errors import CallError, DataError
from cody.graph import TemporalGraph


def named(name: str) -> Dataset:
    return next(dataset for dataset in datasets() if dataset.name == name)


def columns_equal(one: TemporalGraph, other: TemporalGraph) -> bool:
    return all(np.array_equal(getattr(one, column), getattr(other, column)) for column in ("src", "dst", "time"))


# Loading


def test_importing_the_data_package_imports_nothing_heavy() -> None:
    code = "import sys, cody.data; print([m for m in ('torch', 'networkx', 'pandas', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_loading_collegemsg_imports_nothing_heavy() -> None:
    code = (
        "import sys, cody.data; cody.data.load('collegemsg');"
        "print([m for m in ('torch', 'networkx', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_collegemsg_is_made_of_the_published_lines(tmp_path: Path) -> None:
    make = runpy.run_path(str(Path(__file__).parents[2] / "reproduce" / "collegemsg.py"))["columns"]
    lines = ["7,2,4/15/04 2:56 PM", "1,3,12/31/03 12:00 AM", "2,1,2/29/04 12:59 PM", "3,1,4/15/04 2:56 PM"]
    file = tmp_path / "x.csv.gz"
    file.write_bytes(gzip.compress("\n".join(["Source,Target,Timestamp", *lines]).encode()))
    np.savez_compressed(tmp_path / "x.npz", **make(file))
    graph = named("collegemsg").read_published(tmp_path / "x.npz")
    assert graph.time.tolist() == [1_072_828_800.0, 1_078_059_540.0, 1_082_040_960.0, 1_082_040_960.0]
    assert graph.src.tolist() == [0, 1, 6, 2]
    assert graph.dst.tolist() == [2, 0, 1, 0]


def damaged_copies(intact: bytes) -> Iterator[bytes]:
    yield b""
    yield b"garbage"
    yield intact[: len(intact) // 2]
    yield intact[:5_000] + bytes(100) + intact[5_100:]
    packed = io.BytesIO()
    np.savez(packed, src=[1], dst=[2])
    yield packed.getvalue()
    packed = io.BytesIO()
    np.savez(packed, src=[1], dst=[2], minute=np.array([object()]))
    yield packed.getvalue()


def test_a_damaged_collegemsg_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    for content in damaged_copies(fetch("collegemsg").read_bytes()):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"x\.npz"):
            named("collegemsg").read_published(file)


def test_collegemsg_is_the_default_and_keeps_its_ids_as_names() -> None:
    graph = load()
    assert (graph.num_nodes, graph.num_events) == (1_899, 59_835)
    assert graph.names is not None
    assert graph.names.tolist() == list(range(1, 1_900))
    assert graph.time[0] == pd.Timestamp("2004-04-15 14:56").timestamp()


def test_collegemsg_is_uci_messages_cut_to_the_minute_and_shifted_by_a_constant(data_directory: Path) -> None:
    minutes, seconds = load("collegemsg"), load("uci-messages")
    assert np.array_equal(minutes.src, seconds.src)
    assert np.array_equal(minutes.dst, seconds.dst)
    assert np.unique(minutes.time - seconds.time // 60 * 60).tolist() == [7 * 3_600.0]
    assert minutes.names is not None
    assert seconds.names is not None
    assert np.array_equal(minutes.names, seconds.names)


def test_sides_of_the_bipartite_data_sets_are_numbered_one_after_the_other(data_directory: Path) -> None:
    for name, users in (("uci-forums", 899), ("wikipedia", 8_227)):
        graph = load(name)
        assert graph.src.max() == users - 1
        assert graph.dst.min() == users


def test_everything_a_user_calls_data_can_be_loaded(tmp_path: Path) -> None:
    frame = pd.DataFrame({"src": [0, 1], "dst": [1, 0], "t": [2, 1]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    graph = load(frame, sort=True)
    save_graph(graph, tmp_path / "saved")
    sources = [(pa.Table.from_pandas(frame), {"sort": True}), (tmp_path / "x.csv", {"sort": True})]
    sources += [(str(tmp_path / "x.csv"), {"sort": True}), (tmp_path / "saved", {}), (graph, {})]
    for source, options in sources:
        assert load(source, **options).identity == graph.identity
    assert load("campus").num_events > 1_000


def test_an_unknown_name_is_reported_with_the_closest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "enron").mkdir()
    for given, meant in (("uci-mesages", "uci-messages"), ("enon", "enron"), ("Wikipedia", "wikipedia")):
        with pytest.raises(CallError, match=f"'{given}' is neither a data set nor a file; did you mean '{meant}'"):
            load(given)
    with pytest.raises(DataError, match=r"there is no file .*events\.csv"):
        load("events.csv")
    with pytest.raises(CallError, match="there is no data set 'wiki'"):
        fetch("wiki")


def test_campus_is_a_data_set_that_is_always_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    made, facts = named("campus"), summarise(load("campus"))
    assert is_here(made)
    assert (made.nodes, made.events, made.unique_edges, made.kind) == (
        facts.nodes, facts.events, facts.unique_edges, facts.kind,
    )  # fmt: skip
    with pytest.raises(CallError, match="is synthetic, not downloaded"):
        fetch(made)


@pytest.mark.parametrize("text", ["", " ", "x" * 5_000, "a\0b", "x" * 5_000 + ".csv"])
def test_texts_that_are_neither_name_nor_path_are_refused(text: str) -> None:
    with pytest.raises(CallError, match=r"cannot be used|must be the name of a data set or a path") as caught:
        load(text)
    assert len(str(caught.value)) < 200
    if text.strip():
        with pytest.raises(CallError, match="cannot be used as a path"):
            load(Path(text))


def test_what_is_no_data_is_refused() -> None:
    for thing in (3, None, [1, 2]):
        with pytest.raises(CallError, match="data must be a name, a path, a table"):
            load(thing)
    with pytest.raises(CallError, match="not LazyFrame; give what its collect"):
        load(polars.LazyFrame({"src": [1], "dst": [2], "time": [1.0]}))
    with pytest.raises(CallError, match="so src cannot be given"):
        load("collegemsg", src="a")


def test_a_data_set_that_is_not_there_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        load("wikipedia")
    for word in (str(tmp_path), "wikipedia.parquet", "wikipedia.csv", "cody data fetch wikipedia", "CODY_DATA"):
        assert word in str(caught.value)


def test_the_data_directory_is_the_variable_or_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match=str(tmp_path / "cody")):
        load("wikipedia")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    with pytest.raises(DataError, match=str(tmp_path / "me" / ".cache" / "cody")):
        load("wikipedia")


def test_another_file_under_the_name_of_a_data_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    pd.DataFrame({"src": [0], "dst": [1], "t": [1]}).to_parquet(tmp_path / "wikipedia.parquet")
    with pytest.raises(DataError, match=r"is not the data set 'wikipedia': it has 2 nodes.*has 9,227 nodes"):
        load("wikipedia")


def damaged_zip(size: int = 2_000) -> bytes:
    packed = bytearray(network_repository_forums(TemporalGraph.from_arrays([0] * size, [899] * size, range(size))))
    packed[200:260] = bytes(60)
    return bytes(packed)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("uci-messages", b"garbage"),
        ("uci-messages", b""),
        ("uci-messages", gzip.compress(b"1 2 1082040961\n" * 9_999, mtime=0)[:-20]),
        ("uci-messages", gzip.compress(b"no numbers here\n", mtime=0)),
        ("uci-messages", b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 50),
        ("uci-forums", b"garbage"),
        ("uci-forums", b""),
        ("uci-forums", b"PK\x03\x04" + bytes(100)),
        ("uci-forums", damaged_zip),
        ("wikipedia", b"garbage"),
    ],
)
def test_a_damaged_public_file_is_named(
    name: str, content: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    file = tmp_path / named(name).published
    file.write_bytes(content if isinstance(content, bytes) else content())
    with pytest.raises(DataError, match=str(file)):
        load(name)


# The public files, made from the graphs that they give


def snap_messages(graph: TemporalGraph) -> bytes:
    lines = (f"{s + 1} {d + 1} {int(t) + 25_200}" for s, d, t in zip(graph.src, graph.dst, graph.time, strict=True))
    return gzip.compress("\n".join(lines).encode())


def network_repository_forums(graph: TemporalGraph) -> bytes:
    lines = (f"{s + 1},{d - 898},{int(t)}" for s, d, t in zip(graph.src, graph.dst, graph.time, strict=True))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("readme.html", "<html>")
        archive.writestr("fb-forum.edges", "\n".join(lines))
    return packed.getvalue()


def jodie_wikipedia(graph: TemporalGraph) -> bytes:
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    lines = (f"{s},{d - 8_227},{t},0,0.5,-1" for s, d, t in zip(graph.src, graph.dst, graph.time, strict=True))
    return (header + "\n".join(lines)).encode()


@pytest.mark.parametrize(
    ("name", "published"),
    [("uci-messages", snap_messages), ("uci-forums", network_repository_forums), ("wikipedia", jodie_wikipedia)],
)
def test_the_public_file_gives_the_same_events_as_ours(
    name: str, published: object, data_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = load(name)
    (tmp_path / named(name).published).write_bytes(published(ours))  # type: ignore[operator]
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    theirs = load(name)
    assert columns_equal(ours, theirs)
    assert theirs.names is not None


@pytest.mark.parametrize(
    ("name", "published"),
    [("uci-messages", snap_messages), ("uci-forums", network_repository_forums), ("wikipedia", jodie_wikipedia)],
)
def test_other_events_in_the_same_number_are_refused_in_every_format(
    name: str, published: object, data_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = load(name)
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    order = np.arange(ours.num_events)
    order[:2] = [1, 0]  # two events change places, but not times
    assert (ours.src[0], ours.dst[0]) != (ours.src[1], ours.dst[1])
    other = TemporalGraph.from_arrays(ours.src[order], ours.dst[order], ours.time, num_nodes=ours.num_nodes)
    pd.DataFrame({"src": other.src, "dst": other.dst, "t": other.time}).to_parquet(tmp_path / named(name).file)
    with pytest.raises(DataError, match=f"is not the data set '{name}': it has as many .* but different ones"):
        load(name)
    (tmp_path / named(name).published).write_bytes(published(other))  # type: ignore[operator]
    with pytest.raises(DataError, match=f"{named(name).published} is not the data set '{name}': it has as many"):
        load(name)


@pytest.mark.parametrize("name", ["uci-messages", "uci-forums"])
def test_a_public_file_that_unpacks_to_too_much_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cody.data.named.LARGEST_TEXT", 10**6)
    file, text = tmp_path / named(name).published, b"1 2 3\n" * 10**6
    if name == "uci-forums":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("fb-forum.edges", text.replace(b" ", b","))
    else:
        file.write_bytes(gzip.compress(text))
    with pytest.raises(DataError, match=f"{file.name}: it unpacks to more than 1,000,000 bytes"):
        named(name).read_published(file)


# Fetching, from a server on this machine


class Server:
    def __init__(self) -> None:
        self.content, self.announced, self.status, self.location = b"", None, 200, ""
        self.answer = b""  # instead of all that
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if outer.answer:
                    self.wfile.write(outer.answer)
                    return
                moved = outer.location and self.path != "/moved"
                self.send_response(302 if moved else outer.status)
                if moved:
                    self.send_header("Location", outer.location)
                if outer.announced != "":
                    self.send_header("Content-Length", outer.announced or str(len(outer.content)))
                self.end_headers()
                with suppress(ConnectionError):  # who has seen enough hangs up
                    self.wfile.write(outer.content)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"https://127.0.0.1:{self.http.server_port}/small.csv"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose https addresses are spoken to without encryption, as there is no certificate for it."""

    def unencrypted(handler: urllib.request.HTTPSHandler, request: urllib.request.Request) -> Any:
        return handler.do_open(http.client.HTTPConnection, request)

    monkeypatch.setattr(urllib.request.HTTPSHandler, "https_open", unencrypted)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


CONTENT = b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,1,0,5\n1,0,2,0,6\n"


@pytest.fixture
def small(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """A data set of two events, which the server has."""
    monkeypatch.setenv("CODY_DATA", str(tmp_path / "data"))
    server.content = CONTENT
    return dataclasses.replace(
        named("wikipedia"),
        name="small",
        published="small.csv",
        url=server.url,
        nodes=3,
        events=2,
        unique_edges=2,
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        largest=1_000,
        content=TemporalGraph.from_arrays([0, 1], [2, 2], [1, 2]).identity,
    )


@pytest.fixture
def unknown(small: Dataset) -> Dataset:
    """The same, with an unknown checksum."""
    return dataclasses.replace(small, sha256=None)


def kept(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "data").iterdir())


def test_a_fetched_file_is_complete_and_progress_is_reported(small: Dataset, tmp_path: Path) -> None:
    reported: list[tuple[int, int | None]] = []
    path = fetch(small, progress=lambda done, total: reported.append((done, total)))
    assert path == tmp_path / "data" / "small.csv"
    assert path.read_bytes() == CONTENT
    assert reported[-1] == (len(CONTENT), len(CONTENT))
    assert kept(tmp_path) == ["small.csv"]


def test_a_right_checksum_is_accepted_and_a_wrong_one_leaves_nothing(small: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has the sha256 .*, not 0000; it was discarded"):
        fetch(dataclasses.replace(small, sha256="0000"))
    assert kept(tmp_path) == []
    fetch(dataclasses.replace(small, sha256=hashlib.sha256(CONTENT).hexdigest()))
    assert kept(tmp_path) == ["small.csv"]


SHUFFLED = CONTENT.replace(b"0,0,1,0,5\n1,0,2,0,6\n", b"1,0,1,0,5\n0,0,2,0,6\n")


@pytest.mark.parametrize("content", [CONTENT + b"0,1,3,0,7\n", b"<html>moved</html>", b"", SHUFFLED])
def test_something_else_is_not_kept(unknown: Dataset, server: Server, tmp_path: Path, content: bytes) -> None:
    server.content = content
    with pytest.raises(DataError, match="is not Wikipedia and was discarded"):
        fetch(unknown)
    assert kept(tmp_path) == []


def test_a_broken_connection_leaves_nothing_and_keeps_what_was_there(
    small: Dataset, server: Server, tmp_path: Path
) -> None:
    fetch(small)
    server.announced = str(len(CONTENT) + 100)
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(small)
    assert kept(tmp_path) == ["small.csv"]
    assert (tmp_path / "data" / "small.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("theirs", [b"my own notes\n", b"src,dst,t\n0,1,2\n", SHUFFLED, b""])
def test_fetching_keeps_another_file_of_that_name(unknown: Dataset, tmp_path: Path, theirs: bytes) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "small.csv"
    file.write_bytes(theirs)
    with pytest.raises(DataError, match=r"small\.csv already exists and is not Wikipedia .*; rename or remove it"):
        fetch(unknown)
    assert file.read_bytes() == theirs
    assert kept(tmp_path) == ["small.csv"]
    file.unlink()
    file.mkdir()
    with pytest.raises(DataError, match=r"small\.csv already exists and is not a file; rename or remove it"):
        fetch(unknown)
    assert kept(tmp_path) == ["small.csv"]


def test_what_a_killed_download_left_is_cleared_up(unknown: Dataset, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    left = [tmp_path / "data" / f".{name}.0123abcd.partial" for name in ("small.csv", "downloads.json")]
    going_on = tmp_path / "data" / ".small.csv.4567cdef.partial"
    for file in (*left, going_on):
        file.write_bytes(b"half of it")
    for file in left:
        os.utime(file, (0, 0))
    fetch(unknown)
    assert kept(tmp_path) == [going_on.name, "downloads.json", "small.csv"]


def test_without_a_network_the_error_says_which_file_to_put_where(
    small: Dataset, server: Server, tmp_path: Path
) -> None:
    server.status = 404
    unreachable = dataclasses.replace(small, url="https://127.0.0.1:9/small.csv")
    for dataset in (small, unreachable):
        with pytest.raises(DataError) as caught:
            fetch(dataset)
        for word in (dataset.url, str(tmp_path / "data" / "small.csv"), "CODY_DATA"):
            assert word in str(caught.value)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("length", ["-5", "many", "1e3", "\xb2", "9" * 5_000, "", " ", "+93", "0x5d"])
def test_an_odd_length_is_not_believed(small: Dataset, server: Server, tmp_path: Path, length: str) -> None:
    server.announced = length
    reported: list[int | None] = []
    fetch(small, progress=lambda done, total: reported.append(total))
    assert reported == [None]
    assert kept(tmp_path) == ["small.csv"]


@pytest.mark.parametrize("length", ["0", "5", "92", "94", "1000", "1001", "9" * 18])
def test_a_wrong_length_leaves_nothing(small: Dataset, server: Server, tmp_path: Path, length: str) -> None:
    server.announced = length
    with pytest.raises(DataError, match=r"could not be downloaded|has the sha256"):
        fetch(small)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("announced", [None, ""])
def test_a_longer_file_than_expected_is_not_read_to_its_end(
    small: Dataset, server: Server, tmp_path: Path, announced: str | None
) -> None:
    server.content, server.announced = bytes(20 * 10**6), announced
    reported: list[int] = []
    with pytest.raises(
        DataError, match=r"could not be downloaded .*the file has at least .* bytes, but should have at most 1,000"
    ):
        fetch(small, progress=lambda done, total: reported.append(done))
    assert reported == []
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: https://[::1/x\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: https://x y\n/\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:port/\r\n\r\n",
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: x\r\n\r\n",
    ],
)
def test_whatever_a_server_answers_is_one_error(small: Dataset, server: Server, tmp_path: Path, answer: bytes) -> None:
    server.answer = answer
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(small)
    assert kept(tmp_path) == []


def test_only_https_is_used(small: Dataset, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_address = server.url.replace("https", "http")
    reached: list[object] = []
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *to, **how: reached.append(to) or connect(*to, **how))
    for url in (plain_address, "ftp://127.0.0.1/x", (tmp_path / "x").as_uri(), "data:,x"):
        with pytest.raises(DataError, match="over https only"):
            fetch(dataclasses.replace(small, url=url))
    assert reached == []
    for location in (plain_address, "http:///moved", "ftp://127.0.0.1/x", "file:///etc/hostname", "HTTP://127.0.0.1/"):
        server.location = location
        reached.clear()
        with pytest.raises(DataError, match="could not be downloaded"):
            fetch(small)
        assert len(reached) == 1
        assert kept(tmp_path) == []
    for location in ("/moved", server.url.replace("small.csv", "moved")):
        server.location = location
        assert fetch(small).read_bytes() == CONTENT
    assert all(dataset.url.startswith("https://") for dataset in datasets() if dataset.url)


def test_a_file_whose_checksum_is_unknown_is_pinned_and_must_stay_the_same(
    unknown: Dataset, server: Server, tmp_path: Path
) -> None:
    assert pin_note(unknown) == ""
    fetch(unknown)
    assert kept(tmp_path) == ["downloads.json", "small.csv"]
    pins, sha256 = tmp_path / "data" / "downloads.json", hashlib.sha256(CONTENT).hexdigest()
    assert json.loads(pins.read_text())["sha256"] == {"small.csv": sha256}
    assert sha256 in pin_note(unknown)
    assert str(pins) in pin_note(unknown)
    server.content = CONTENT.replace(b"0,5\n", b"0,7\n")  # the same events with other features
    with pytest.raises(DataError, match=f"not {sha256}, as in the first download; it was discarded.*{pins}"):
        fetch(unknown)
    assert (tmp_path / "data" / "small.csv").read_bytes() == CONTENT
    assert kept(tmp_path) == ["downloads.json", "small.csv"]
    pins.unlink()
    fetch(unknown)
    assert (tmp_path / "data" / "small.csv").read_bytes() == server.content


def test_pins_of_several_files_stand_side_by_side(unknown: Dataset, tmp_path: Path) -> None:
    fetch(unknown)
    fetch(dataclasses.replace(unknown, published="other.csv"))
    assert set(json.loads((tmp_path / "data" / "downloads.json").read_text())["sha256"]) == {"small.csv", "other.csv"}


def test_what_is_not_kept_is_not_pinned(unknown: Dataset, server: Server, tmp_path: Path) -> None:
    server.content = SHUFFLED
    with pytest.raises(DataError, match="but different ones: their identity is"):
        fetch(unknown)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "cody/downloads/1", "sha256": {"small.csv": 5}}', "\0"])
def test_damaged_pins_are_refused(unknown: Dataset, tmp_path: Path, text: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "downloads.json").write_text(text)
    with pytest.raises(DataError, match=r"downloads\.json, which has the sha256 .* is damaged; remove it"):
        fetch(unknown)
    assert kept(tmp_path) == ["downloads.json"]


def test_the_command_says_that_a_file_was_pinned(
    unknown: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cody.data.named.DATASETS", (unknown,))
    printed = CliRunner().invoke(app, ["data", "fetch", "small"]).stdout
    assert f"small is at {tmp_path / 'data' / 'small.csv'}" in printed
    assert pin_note(unknown) in printed


def test_a_data_directory_that_is_a_file_is_refused(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CODY_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=f"CODY_DATA names a file: {tmp_path / 'file'}"):
        fetch(small)


def test_what_needs_no_download_is_not_downloaded() -> None:
    assert fetch("collegemsg").is_file()
    with pytest.raises(CallError, match="is synthetic, not downloaded"):
        fetch("campus")
