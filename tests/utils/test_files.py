"""Arrays in files, and files that appear whole or not at all."""

from __future__ import annotations

import os
import random
import stat
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from cody.errors import CallError, DataError
from cody.utils import files
from cody.utils.files import load_array, replacing, write_atomically

both_ways = pytest.mark.parametrize("mapped", [True, False])


@both_ways
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="<i4"),
        np.asfortranarray(np.eye(3, 2)),
        np.array(["ä", "bc"]),
        np.zeros((0, 4)),
        np.array(7),
    ],
)
def test_an_array_comes_back_as_it_was_saved(tmp_path: Path, array: np.ndarray, mapped: bool) -> None:
    np.save(tmp_path / "a.npy", array)
    loaded = load_array(tmp_path / "a.npy", mapped=mapped)
    np.testing.assert_array_equal(loaded, array)
    assert loaded.dtype == array.dtype
    assert type(loaded) is np.ndarray


def header(text: str) -> bytes:
    """The beginning of a .npy file whose header says `text`."""
    line = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


def described(shape: str, dtype: str = "'<i8'") -> bytes:
    return header(f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}")


@both_ways
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x00" + bytes(20),
        b"GIF89a" * 100,
        b"PK\x03\x04" + bytes(100),
        b"\x80\x04K\x01.",
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (4,"),
        header("{" * 3_000),
        header("'''"),
        header("[]"),
        header("\0"),
        described("(4,)"),
        described("(4,)") + bytes(31),
        described("(4,)") + bytes(33),
        described("(4,") + bytes(32),
        described("(10 ** 12,)") + bytes(32),
        described("(1000000000000000,)") + bytes(32),
        described("(99999999999999999999999,)") + bytes(32),
        described("(4294967296, 4294967296)"),
        described("(-1,)") + bytes(32),
        described("(-2, -2)") + bytes(32),
        described("(4.0,)") + bytes(32),
        described("4") + bytes(32),
        described("(4,)", "'|O'") + bytes(32),
        described("(4,)", "'<i9'") + bytes(32),
        described("(4,)", "7") + bytes(32),
        described("(4,)", "[('a', '<i8')" + ", " + "]" * 2) + bytes(32),
    ],
)
def test_whatever_is_wrong_with_an_array_file_is_one_clear_error(tmp_path: Path, content: bytes, mapped: bool) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npy is truncated, damaged or not a \.npy file \(.+\)$"):
        load_array(tmp_path / "a.npy", mapped=mapped)


@both_ways
def test_flipped_bits_in_a_header_are_refused_or_harmless(tmp_path: Path, mapped: bool) -> None:
    np.save(tmp_path / "whole.npy", np.arange(4.0))
    whole, rng = (tmp_path / "whole.npy").read_bytes(), random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(128)] ^= 1 << rng.randrange(8)
        (tmp_path / "a.npy").write_bytes(damaged)
        with suppress(DataError):
            assert load_array(tmp_path / "a.npy", mapped=mapped).nbytes == 32


@both_ways
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, mapped: bool) -> None:
    with pytest.raises(DataError, match=r"a\.npy is missing"):
        load_array(tmp_path / "a.npy", mapped=mapped)
    with pytest.raises(DataError, match=r"cannot be read: Is a directory"):
        load_array(tmp_path, mapped=mapped)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_written_file_has_the_usual_mode(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "a", "ä")
        with replacing(tmp_path / "b") as partial:
            partial.unlink()
            os.close(os.open(partial, os.O_CREAT, 0o600))  # as some libraries do
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_bytes() == "ä".encode()
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"} == {mode}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"old")
    with suppress(KeyboardInterrupt), replacing(tmp_path / "a") as partial:
        partial.write_bytes(b"half of the n")
        raise KeyboardInterrupt
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "folder", b"new")
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "absent" / "a", b"new")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "folder"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("a")
    write_atomically(tmp_path / "link", b"new")
    assert not (tmp_path / "link").is_symlink()
    assert [(tmp_path / name).read_bytes() for name in ("a", "link")] == [b"old", b"new"]


def test_what_a_killed_process_left_behind_is_cleared_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other, foreign = (tmp_path / name for name in (".a.0123abcd.partial", ".b.0123abcd.partial", ".a.partial"))
    for file in (ours, other, foreign):
        file.touch()
    write_atomically(tmp_path / "a", b"")
    assert ours.exists()
    monkeypatch.setattr(files, "STALE", -1.0)
    write_atomically(tmp_path / "a", b"")
    assert [ours.exists(), other.exists(), foreign.exists()] == [False, True, True]


def test_a_file_that_cannot_be_written_is_named_as_the_user_named_it(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        write_atomically(tmp_path / "missing" / "page.html", "new")
    assert error.value.filename == str(tmp_path / "missing" / "page.html")


def test_a_device_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # as a device: opening it is no writing of a file
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        with pytest.raises(CallError, match="is not a file that can be replaced"):
            write_atomically(path, "new")
    assert pipe.is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]
