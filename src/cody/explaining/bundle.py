"""An explanation with everything that it takes to verify it: one zip file, for a machine that has nothing else.

It holds the document, its page, the events up to the link (what happens later changes nothing), the model's folder if
that is wanted, and a list of its files with their checksums.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from cody._version import __version__
from cody.data.storage import open_graph, save_graph
from cody.engine import reference_model
from cody.engine.saved import load_model
from cody.errors import CallError, CodyError, DataError
from cody.explaining.claims import NOT_CHECKED, SETS, Claim, ClaimReport, Watch, checked, verify_explanation
from cody.explaining.document import from_text
from cody.explaining.even_if import SCHEMA as EVEN_IF
from cody.explaining.even_if import EvenIf
from cody.explaining.explanation import Explanation
from cody.graph import TemporalGraph, verify_graph
from cody.models.contract import Model, identity_of
from cody.models.decision import Decision
from cody.models.folder import find_model
from cody.utils.files import check_target, replacing, scratch_folder
from cody.utils.forms import Count, Document, parse
from cody.utils.words import count, sanitize

SCHEMA = "cody/bundle/1"
CONTENTS, DOCUMENT, PAGE, README = "bundle.json", "why.json", "why.html", "README.txt"
PAST, MODEL = "past", "model"  # folders in it
MODEL_FILES = ("model.json", "model.safetensors")
MOMENT = (1980, 1, 1, 0, 0, 0)  # of every file in it, so that equal contents are equal files
NAMES = re.compile(
    r"why\.json|why\.html|README\.txt|past/(graph\.json|\w{1,40}-[0-9a-f]{16}\.npy)|model/model\.(json|safetensors)",
    re.ASCII,
)
MOST = 1 << 36  # bytes that are unpacked
NEEDED = (CONTENTS, DOCUMENT, "past/graph.json")
LARGEST = {DOCUMENT: 1 << 28, PAGE: 1 << 28}  # bytes of a file of text
LARGEST |= dict.fromkeys((CONTENTS, README, "past/graph.json", "model/model.json"), 1 << 24)
BLOCK = 1 << 20  # bytes
DAMAGES = (zipfile.BadZipFile, RuntimeError, EOFError, ValueError, OverflowError, struct.error, zlib.error)  # when read

INTRODUCTION = """An explanation of a prediction, with what it takes to verify it.

why.json   the explanation: its claims
why.html   the same as a page: open it in a browser
past/      the events up to the prediction
{model}
To check every claim, with cody {version} or later:  cody verify {name}{option}
"""


class BundleContents(Document, frozen=True, tag_field="schema", tag=SCHEMA):
    """What a bundle holds."""

    kind = "a bundle"
    version: Annotated[str, Meta(description="of this package")]
    data: Annotated[str, Meta(description="identity of the whole log")]
    past: Annotated[str, Meta(description="identity of its events up to the link, which are here")]
    events: Annotated[Count, Meta(description="how many these are")]
    model: Annotated[str, Meta(description="identity of the model")]
    files: Annotated[dict[str, str], Meta(description="SHA-256 of each file")]


class Bundle(NamedTuple):
    """An opened bundle."""

    contents: BundleContents
    document: str
    past: TemporalGraph
    folder: Path | None  # of the model, if it is here

    def model(self) -> Model:
        """The model in it."""
        if self.folder is None:
            raise CallError("this bundle holds no model: name it with --model, or in Python pass it as model=")
        return load_model(self.folder, self.past, allow_data_mismatch=True)


def write_bundle(
    why: Explanation | EvenIf, graph: TemporalGraph, file: str | Path, *, model: str | Path | None = None
) -> Path:
    """Write an explanation and what it takes to verify it into one zip file.

    Args:
        why: The explanation, or an even-if answer.
        graph: The log of events that it is about.
        file: Where to write.
        model: Folder or name of the model that was explained, to go along; None: whoever verifies has it.
    """
    file = Path(file)
    check_bundle_file(file)
    if graph.identity != why.data:
        raise CallError(f"the explanation is about the data {why.data}, and this graph is {graph.identity}")
    past = graph.select(np.arange(events_needed(why, graph)))
    if model is not None:
        found = identity_of(load_model(model, past, engine=reference_model, allow_data_mismatch=True))
        if found != why.model:
            raise CallError(f"the explanation is about the model {why.model}, and {str(model)!r} is {found}")
    with scratch_folder("cody-bundle-") as folder:
        _fill(folder, why, past, None if model is None else find_model(model), file.name)
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        sums = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
        contents = BundleContents(__version__, why.data, past.identity, past.num_events, why.model, sums)
        (folder / CONTENTS).write_text(contents.to_json() + "\n", encoding="utf-8")
        with replacing(file) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in {CONTENTS: folder / CONTENTS, **files}.items():
                archive.writestr(zipfile.ZipInfo(name, MOMENT), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return file


def check_bundle_file(file: Path) -> None:
    """Reject a place where a bundle cannot be written, or where it would overwrite something else.

    Args:
        file: Where it is to be written.
    """
    check_target(file, "bundle", is_bundle)


def is_bundle(file: Path) -> bool:
    """Whether a file is a bundle, as far as its contents are listed."""
    try:
        with zipfile.ZipFile(file) as archive:
            return CONTENTS in archive.namelist()
    except (OSError, *DAMAGES):
        return False


def events_needed(why: Explanation | EvenIf, graph: TemporalGraph) -> int:
    """How many of the first events of the log an answer is about: those before the link, and its own.

    Args:
        why: The answer.
        graph: The log.
    """
    own = why.recourse.event if isinstance(why, Explanation) and why.recourse is not None else why.event
    if own is not None:
        return own + 1
    return why.query.before if isinstance(why, Explanation) else graph.query_at(why.src, why.dst, why.time).before


def _fill(folder: Path, why: Explanation | EvenIf, past: TemporalGraph, model: Path | None, name: str) -> None:
    (folder / DOCUMENT).write_text(json.dumps(why.to_dict()) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(why.to_html(), encoding="utf-8")
    save_graph(past, folder / PAST)
    if model is not None:
        (folder / MODEL).mkdir()
        for part in MODEL_FILES:
            (folder / MODEL / part).write_bytes((model / part).read_bytes())
    option = "" if model is not None else " --model FOLDER"
    line = "model/     the model\n" if model is not None else f"The model is not here; its identity is {why.model}.\n"
    text = INTRODUCTION.format(model=line, version=__version__, name=name, option=option)
    (folder / README).write_text(text, encoding="utf-8")


@contextmanager
def opened_bundle(file: str | Path) -> Iterator[Bundle]:
    """An opened bundle, as long as the block runs. One that is damaged is rejected.

    Args:
        file: The bundle.
    """
    file = Path(file)
    with scratch_folder("cody-bundle-") as folder:
        try:
            contents = _unpack(file, folder)
            verify_graph(past := open_graph(folder / PAST))
            document = (folder / DOCUMENT).read_text(encoding="utf-8")
        except DataError as error:
            raise DataError(f"{file}: {error}") from None
        except DAMAGES as error:
            raise DataError(f"{file} is damaged: {sanitize(error, 200)}") from None
        except OSError as error:
            if error.errno == errno.EINVAL:  # a place in the file that cannot be
                raise DataError(f"{file} is damaged: it names a place outside of itself") from None
            raise
        model = folder / MODEL
        yield Bundle(contents, document, past, model if model.is_dir() else None)


def _unpack(file: Path, folder: Path) -> BundleContents:
    """Unpack what the list of contents names, if all of it is as it was written."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        if missing := [name for name in NEEDED if name not in names]:
            raise DataError(f"this is not a bundle: it has no {missing[0]}")
        _check_sizes(archive.infolist(), folder)
        contents = BundleContents.from_json(archive.read(CONTENTS))
        if sorted(names) != sorted([CONTENTS, *contents.files]):
            raise DataError("its files are not those that it lists")
        for name in contents.files:
            if NAMES.fullmatch(name) is None:
                raise DataError(f"{sanitize(name)!r} is not a file of a bundle")
        for name, checksum in contents.files.items():
            _unpack_one(archive, name, checksum, folder)
    return contents


def _check_sizes(entries: Sequence[zipfile.ZipInfo], folder: Path) -> None:
    """Reject what would fill the memory or the disk, before anything is unpacked."""
    for entry in entries:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{sanitize(entry.filename)} is compressed in a way that cody does not write")
        if entry.file_size > LARGEST.get(entry.filename, MOST):
            unpacked = f"it unpacks to {entry.file_size:,} bytes"
            raise DataError(f"{sanitize(entry.filename)} is not what it should be: {unpacked}")
    size, room = sum(entry.file_size for entry in entries), shutil.disk_usage(folder).free
    if size > MOST:
        raise DataError(f"it unpacks to more than {MOST >> 30} GiB")
    if size > room:
        advice = "free some, or name another folder in the environment variable TMPDIR"
        raise DataError(f"it unpacks to {size:,} bytes, and {folder.parent} has room for {room:,}: {advice}")


def _unpack_one(archive: zipfile.ZipFile, name: str, checksum: str, folder: Path) -> None:
    """Write one file, if it is what the list says; never all of it in memory."""
    target, found = folder.joinpath(*name.split("/")), hashlib.sha256()
    target.parent.mkdir(exist_ok=True)
    with archive.open(name) as source, target.open("wb") as written:
        while block := source.read(BLOCK):
            found.update(block)
            written.write(block)
    if found.hexdigest() != checksum:
        raise DataError(f"{sanitize(name)} was changed: its checksum is not the one that {CONTENTS} lists")


def verify_bundle(
    file: str | Path,
    *,
    model: Model | None = None,
    graph: TemporalGraph | None = None,
    sets: int | None = SETS,
    decision: Decision | None = None,
    watch: Watch | None = None,
) -> ClaimReport:
    """Check every claim of an explanation with the events and the model that are in the same file.

    Args:
        file: The bundle.
        model: The model, where the bundle holds none or another copy is to be used.
        graph: The log of events, to compare the bundle's events with it, and to use it instead.
        sets: How many of the evaluated sets to replay, as in `cody.verify_explanation`. None: all.
        decision: What `cody.decided_by` was given, which a document cannot hold.
        watch: Called with the number of sets replayed so far, and in total.

    Raises:
        DataError: The bundle is damaged.
    """
    with opened_bundle(file) as bundle:
        opened = (lambda _: bundle.model()) if model is None else (lambda _: model)
        return verify_opened(bundle, opened, graph, sets=sets, decision=decision, watch=watch)


def verify_opened(
    bundle: Bundle, model: Callable[[TemporalGraph], Model], graph: TemporalGraph | None = None, **options: Any
) -> ClaimReport:
    """The claims of a bundle and of its explanation.

    Args:
        bundle: The bundle.
        model: Opens the model for a log: the bundle's, or the given one.
        graph: The whole log; None: the events of the bundle are used.
        **options: `sets`, `decision` and `watch` of `cody.verify_explanation`.
    """
    first = [_belong_together(bundle), *_beginning(bundle, graph)]
    log = bundle.past if graph is None else graph
    whole = bundle.contents.data if graph is None else None
    report = verify_explanation(bundle.document, model(log), log, beginning_of=whole, **options)
    last = Claim("the page", NOT_CHECKED, f"cody view {DOCUMENT} makes it again")
    return ClaimReport((*first, *report.claims, last))


def _belong_together(bundle: Bundle) -> Claim:
    """Whether the parts of a bundle are those of one explanation."""
    contents, past, faults = bundle.contents, bundle.past, list[str]()
    plain = parse(bundle.document, "an explanation")
    why = EvenIf.from_dict(plain) if plain.get("schema") == EVEN_IF else from_text(bundle.document)
    if (why.data, why.model) != (contents.data, contents.model):
        faults.append(f"the explanation is about data {why.data} and model {why.model}")
    if (past.identity, past.num_events) != (contents.past, contents.events):
        faults.append(f"its events are {past.identity}, not {contents.past}")
    try:
        needed = events_needed(why, past)
        faults += [] if needed == contents.events else [f"the explanation is about {count(needed, 'event')}"]
    except CodyError as error:
        faults.append(str(error))
    return checked("files belong together", faults, f"{len(contents.files)} files")


def _beginning(bundle: Bundle, graph: TemporalGraph | None) -> list[Claim]:
    """Whether the events of a bundle are the first ones of the whole log, where that is here."""
    if graph is None:
        return []
    number = bundle.past.num_events
    same = number <= graph.num_events and graph.select(np.arange(number)).identity == bundle.past.identity
    faults = [] if same else [f"the log does not begin with these {count(number, 'event')}"]
    of_all = f"{number:,} of {count(graph.num_events, graph.name_of_event())}"
    return [checked("its events are the first of the log", faults, of_all)]
