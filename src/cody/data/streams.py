"""Files of events as bytes and text: compressed ones, ones that are too large, and errors that name the file."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from cody.data.arrow import csv as arrow_csv
from cody.data.arrow import pa
from cody.errors import DataError, first_line

ASSUMED_MEMORY = 8 * 2**30  # bytes, for a machine that does not say how many it has

ByteStream = IO[bytes] | io.BufferedReader


def read_text_columns(
    stream: ByteStream, names: list[str], delimiter: str, *, skip: int = 0, types: dict[str, Any] | None = None
) -> Any:
    """A pyarrow Table from delimited text. Ragged rows, damaged text and empty tables raise a DataError.

    Args:
        stream: The text, as bytes.
        names: Names of the columns.
        delimiter: What separates two columns.
        skip: Number of leading lines to skip.
        types: Arrow types of some columns.
    """
    try:
        table = arrow_csv.read_csv(
            stream,
            # One thread: only then can the parser say which row is wrong.
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows=skip, use_threads=False),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=types or {}),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise DataError("there are no events") from None
        raise DataError(f"the text cannot be read as a table: {first_line(error)}") from None
    if not table.num_rows:
        raise DataError("there are no events")
    return table


@contextmanager
def errors_about(file: Path) -> Iterator[None]:
    """Prefix every error with the name of the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{file}: {error}") from error.__cause__
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file}: the gzip file is truncated or damaged ({first_line(error)})") from None
    except UnicodeDecodeError:
        raise DataError(f"{file}: the text is not UTF-8; convert it first") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {first_line(error)}") from None


def starts_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(magic)) == magic


def open_text(file: Path) -> ByteStream:
    return unpack_gzip(file, largest_unpacked()) if starts_with(file, b"\x1f\x8b") else file.open("rb")


def largest_unpacked() -> int:
    """How many bytes a compressed file may unpack to: a quarter of the machine's memory, as reading makes copies."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = ASSUMED_MEMORY
    return memory // 4


def unpack_gzip(file: Path, at_most: int) -> io.BufferedReader:
    return at_most_bytes(gzip.open(file), at_most)


def at_most_bytes(stream: IO[bytes] | gzip.GzipFile, at_most: int) -> io.BufferedReader:
    """The stream; reading beyond `at_most` bytes raises a DataError."""
    return io.BufferedReader(_Limited(stream, at_most), buffer_size=1 << 20)


class _Limited(io.RawIOBase):
    def __init__(self, stream: IO[bytes] | gzip.GzipFile, at_most: int) -> None:
        self._stream, self._at_most, self._read = stream, at_most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(len(buffer))
        self._read += len(block)
        if self._read > self._at_most:
            raise too_large(self._at_most)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()


def too_large(at_most: int) -> DataError:
    return DataError(
        f"it unpacks to more than {at_most:,} bytes, the limit for a compressed file on this machine; if that is "
        "right, unpack it first, or use a machine with more memory"
    )
