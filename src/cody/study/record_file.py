"""The file of an evaluation: JSON Lines, one document of an explanation a line, appended while it runs.

A line counts once its newline is written, so a run that is killed loses at most the line it was writing. Besides
explanations there are failures (`failure.py`), and headers: what was requested, and which links were drawn. The first
line is one; a run that is continued with more links or more explainers adds another. Each line ends with a checksum, so
that damage is noticed.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cody.errors import CallError, DataError
from cody.explaining import upgrade
from cody.explaining.document import SCHEMA, DecisionPart, ElsewherePart, ExplanationDocument, Kind, read_document
from cody.explaining.explanation import Elsewhere
from cody.study.appending import LineAppender, appending_lines
from cody.study.instances import in_words, same_decision
from cody.study.record import FAILURE, Failure, Key, Record, key_of, record_of, record_of_0_2
from cody.utils.files import replacing
from cody.utils.forms import Count, Form, as_line, damaged, is_shallow, parse, read, unknown_schema

if TYPE_CHECKING:
    import pyarrow

HEADER = "cody/evaluation/3"
COLUMNS = (  # of a table of records: what it is about, the answer, what it does, and what it took
    *("data", "model", "explainer", "kind", "subject", "event", "candidates", "size", "sparsity", "rows"),
    *("is_necessary", "original", "without", "only", "rank", "rank_after"),
    *("ended", "evaluations", "first", "seconds", "seed", "version"),
)
WHAT_FLIPS = "what flips; null: the predicted one of several labels; by default, the predicted link"
LONGEST = 2**28  # bytes of a line; the header of a million links takes 8 million


class ExplainerOptions(Form, frozen=True):
    """What an explainer is made of."""

    search: str
    policy: str
    options: dict[str, Any]


class EvaluationHeader(Form, frozen=True, kw_only=True, tag_field="schema", tag=HEADER):
    """The settings of a run."""

    version: str
    data: str
    model: str
    data_identity: str
    model_identity: str
    seed: Count
    share: bool
    period: tuple[float, float]
    margin: float
    instances: Count  # of each kind
    explainers: dict[str, ExplainerOptions]
    links: dict[Kind, tuple[Count, ...]]  # the rows of the events that were drawn
    events: tuple[Count, ...] | UnsetType = UNSET  # the rows that they were drawn from, if not all
    decision: Annotated[DecisionPart | UnsetType | None, Meta(description=WHAT_FLIPS)] = UNSET


Line = Record | Failure | EvaluationHeader


def read_records(path: str | Path) -> list[Record]:
    """The records in a file, which may be compressed (`.gz`) or still being written."""
    return list(iterate_records(path))


def read_runs(paths: Iterable[str | Path], *, documents: bool = False) -> list[Record]:
    """The records of several files together, for example of parts of a run that were made on different machines.

    The same answer may be in several of them, and counts once.
    """
    known: dict[Hashable, Record] = {}
    for record in (record for path in paths for record in iterate_records(path, documents=documents)):
        known.setdefault(_written_as(record), record)
    return list(known.values())


def iterate_records(path: str | Path, *, documents: bool = False) -> Iterator[Record]:
    """The records one at a time, for files larger than memory; with `documents`, each with its explanation."""
    records = (entry for entry in _read(path) if isinstance(entry, Record))
    return records if documents else (replace(record, document=None) for record in records)


def with_elsewhere(record: Record, elsewhere: Iterable[Elsewhere]) -> Record:
    """The record with what other models decide, and the explained one under noise, in its document.

    Args:
        record: A record with its document.
        elsewhere: What they decide.
    """
    if not isinstance(record.document, ExplanationDocument):
        raise CallError(
            f"the explanation of event {record.event} is not in this record, so it cannot be tested in other models: "
            "CoDy 0.2 wrote it"
        )
    parts = tuple(ElsewherePart(*each) for each in elsewhere)
    return replace(record, document=msgspec.structs.replace(record.document, elsewhere=parts or UNSET))


def rewrite(files: Sequence[Path], target: Path, records: Iterable[Record]) -> None:
    """Write the lines of some files to one, atomically, with newer records in the place of those that they replace.

    Args:
        files: Files of records.
        target: The file to write, which may be one of them.
        records: Each about the same explainer, model and link as one in the files.
    """
    newer = {_written_as(record): record for record in records}
    lines = [entry for file in files for entry in _read(file)]
    with replacing(target) as scratch, scratch.open("w", encoding="utf-8", newline="\n") as out:
        for entry in lines:
            entry = newer.get(_written_as(entry), entry) if isinstance(entry, Record) else entry
            out.write((entry.to_json() if isinstance(entry, Record) else as_line(entry)) + "\n")


def _written_as(record: Record) -> Hashable:
    """What a record is about and how it was made, whatever its data and model are called."""
    made_by = record.search, record.policy, json.dumps(record.options, sort_keys=True), record.seed
    return key_of(record), record.data_identity, record.model_identity, record.decision, made_by


def records_table(paths: Iterable[str | Path]) -> pyarrow.Table:
    """The records of evaluations as an Arrow table, one row for each explainer and link.

    Args:
        paths: Files of `cody evaluate` or `cody survey`.
    """
    import pyarrow as pa

    rows = ({name: getattr(each, name) for name in COLUMNS} for each in read_runs(paths))
    return pa.Table.from_pylist([row | {"rows": list(row["rows"])} for row in rows])


def read_failures(path: str | Path) -> list[Failure]:
    """What could not be explained, and still has no record."""
    failed: dict[Key, Failure] = {}
    for entry in _read(path):
        if isinstance(entry, Record):
            failed.pop(key_of(entry), None)
        elif isinstance(entry, Failure):
            failed[key_of(entry)] = entry
    return list(failed.values())


def _read(path: str | Path) -> Iterator[Line]:
    path = Path(path)
    try:
        with gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
            yield from _entries(path, cast(BinaryIO, file), last=True)  # gzip's files are binary too
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _is_compressed(path: Path) -> bool:
    if not path.is_file():  # a pipe can be read only once
        return path.suffix == ".gz"
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _entries(path: Path, file: BinaryIO, *, last: bool = False) -> Iterator[Line]:
    """All complete lines; with `last` also the last one if only its newline is missing."""
    for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), start=1):
        if len(line) == LONGEST:
            raise DataError(f"{path}, line {number} does not end: this is not a file of records")
        is_whole = line.endswith(b"\n")
        if not is_whole and not last:
            return
        try:
            yield read_line(line)
        except DataError as error:
            if not is_whole and not _is_complete(line):
                return  # it is still being written
            raise DataError(f"{path}, line {number}: {error}") from None


def read_line(line: bytes) -> Line:
    """What a line of an evaluation holds."""
    if line.startswith(b"\xef\xbb\xbf"):
        raise DataError("this line begins with a byte order mark; save the file as UTF-8 without one")
    if not line.strip():
        raise DataError("this line is empty, which evaluations never write; remove it")
    document = parse(line, "a record")
    found = document.get("schema")
    if not isinstance(found, str) or found not in FORMS:
        raise unknown_schema(found, "a record", SCHEMA)
    return FORMS[found](document)


def _header(document: dict[str, Any]) -> EvaluationHeader:
    header = read(document, EvaluationHeader, "a header")
    rows = list(header.links.values())
    if any(tuple(sorted(set(events))) != events for events in rows) or len(set().union(*rows)) < sum(map(len, rows)):
        raise damaged("a header", "the rows of its links must be ascending, each of one kind only")
    most = max(map(len, rows), default=0)
    if header.instances < most:
        raise damaged("a header", f"it has {most} links of one kind, but instances is {header.instances}")
    if not all(is_shallow(given.options) for given in header.explainers.values()):
        raise damaged("a header", "options must be objects of a few levels")
    return header


# How a line of each schema is read; the last three are those of CoDy 0.2.
FORMS: dict[str, Callable[[dict[str, Any]], Line]] = {
    SCHEMA: lambda line: record_of(read_document(line)),
    HEADER: _header,
    FAILURE: lambda line: read(line, Failure, "a failure"),
    upgrade.RECORD: lambda line: record_of_0_2(upgrade.record(line)),
    upgrade.HEADER: lambda line: _header(upgrade.renamed(line, HEADER, "a header")),
    upgrade.FAILURE: lambda line: read(upgrade.renamed(line, FAILURE, "a failure"), Failure, "a failure"),
}


def _is_complete(line: bytes) -> bool:
    """Whether a line that cannot be read was once written to its end, checksum and all."""
    return re.search(rb'"checksum": ?"\w+"\}', line) is not None


class Appender(LineAppender[Line]):
    """A file of records that is open for appending."""

    beginnings = tuple(
        b'{"schema":' + gap + b'"cody/' + form
        for gap in (b"", b" ")  # the second: as 0.2 wrote
        for form in (b"evaluation/", b"explanation/", b"record/", b"failure/")
    )

    def entries(self) -> Iterator[Line]:
        return _entries(self.path, self.file)

    def may_be_ours(self, begun: bytes) -> bool:
        is_saved_explanation = _is_complete(begun) and SCHEMA.encode() in begun and b'"evaluation":' not in begun
        return super().may_be_ours(begun) and not is_saved_explanation

    def write(self, entry: Line) -> None:
        self.write_line(entry.to_json() if isinstance(entry, Record) else as_line(entry))


def appending(path: str | Path) -> AbstractContextManager[Appender]:
    """Open a file of records, or start one. Only one run at a time can have it open."""
    return appending_lines(path, Appender)


# Records of several files as one survey, for example of halves that were made on two machines.


def records_of_models(files: Sequence[Path], explainer: str | None = None) -> list[list[Record]]:
    """The records in the files, those of each model apart, the first model first.

    Each model is known by its weights, so it may have another name in each file. All records must be of one explainer,
    with the same options; `explainer` chooses one if the files have several.
    """
    records = read_runs(files, documents=True)
    names = sorted({record.explainer for record in records})
    if explainer is None and len(names) > 1:
        choose = f"choose with --explainer {' or '.join(names)}"
        raise CallError(f"the files have records of {len(names)} explainers: {choose}")
    chosen = [record for record in records if explainer in (None, record.explainer)]
    if not chosen:
        has = f"only of {', '.join(names)}" if names else "none at all"
        raise CallError(f"the files have no records{'' if explainer is None else f' of {explainer}'}: {has}")
    _check_one_run(chosen)
    models = dict.fromkeys(record.model_identity for record in chosen)
    return [[record for record in chosen if record.model_identity == model] for model in models]


def _check_one_run(records: Sequence[Record]) -> None:
    """Reject records that cannot be counted together."""
    first = records[0]
    of_model: dict[str, Record] = {}  # models of labels may each have their own threshold
    for record in records:
        if record.data_identity != first.data_identity:
            raise CallError(f"the files are about different data: {first.data} and {record.data}")
        like = of_model.setdefault(record.model_identity, record) if record.subject != "link" else first
        if not same_decision(record, like):
            both = f"{in_words(like.decision)!r} and {in_words(record.decision)!r}"
            raise CallError(f"the files are about different decisions: {both}")
        there, here = ({"search": each.search, "policy": each.policy, **each.options} for each in (record, first))
        for option in sorted(there.keys() | here.keys()):
            one, other = (json.dumps(each.get(option), sort_keys=True) for each in (here, there))
            if one != other:
                differs = f"{option} is {one} in one and {other} in another"
                raise CallError(f"the files cannot be counted together: {differs}")
