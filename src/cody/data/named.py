"""Named data sets, and `load`, which accepts data in any form.

`collegemsg` ships with the package; `campus` and the logs of `cody.data.mechanisms` are synthetic; the others are
looked up in the data directory: `$CODY_DATA`, else `$XDG_CACHE_HOME/cody`, else `~/.cache/cody`.
"""

from __future__ import annotations

import logging
import os
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cody.data import readers
from cody.data.arrow import pa
from cody.data.campus import campus
from cody.data.mechanisms import MECHANISMS, planted
from cody.data.readers import read_events
from cody.data.streams import ByteStream, at_most_bytes, errors_about, read_text_columns, unpack_gzip
from cody.data.summary import summarise
from cody.data.tgb import is_tgb, load_tgb
from cody.errors import CallError, DataError, did_you_mean, first_line
from cody.graph import TemporalGraph
from cody.utils.files import cache_directory, load_array, replacing
from cody.utils.hub import hub_folder, is_hub_address
from cody.utils.signatures import readable_help
from cody.utils.words import sanitize

if TYPE_CHECKING:
    from cody.data.download import Progress

PACIFIC_DAYLIGHT_TIME = 7 * 3600.0  # SNAP counts UCI-Messages in UTC, the original in local time
LARGEST_TEXT = 64 * 2**20  # bytes that a named data set may unpack to; the largest unpacks to 2 MB


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    title: str
    description: str
    nodes: int
    events: int
    unique_edges: int
    read_published: Callable[[Path], TemporalGraph]
    kind: str = "unipartite"
    file: str = ""  # our form of it, in the data directory; "": synthetic, there is no file
    published: str = ""  # the public file, under its name in the data directory
    url: str = ""  # "": part of the package, or synthetic
    sha256: str | None = None  # of the public file; None: unknown, the first download is pinned
    largest: int = 4 * 2**20  # bytes that the public file may have
    content: str = ""  # identity of the graph without features, whichever file it is read from; "": there is no file
    read_file: Callable[[Path], TemporalGraph] | None = None  # for our form of it; None: `read_events`
    event_name: str | None = None
    about: str = ""  # in a few words, for the line above an explanation
    add_labels: Callable[[TemporalGraph, Path], TemporalGraph] | None = None  # those beside the file of events


def datasets() -> tuple[Dataset, ...]:
    """The data sets that have a name, the default first."""
    return DATASETS


def data_directory() -> Path:
    """The directory in which data sets are looked up and to which they are downloaded."""
    if given := os.environ.get("CODY_DATA"):
        return Path(given).expanduser()
    return cache_directory()


def is_here(dataset: Dataset) -> bool:
    """Whether the data set can be loaded without a download."""
    if not dataset.file:
        return True
    try:
        return _locate(dataset)[0].is_file()
    except DataError:
        return False


@readable_help
def load(source: Any = "collegemsg", **columns: Any) -> TemporalGraph:
    """A temporal graph from a name, a file, a saved graph folder, a DataFrame, an Arrow table or a PyG TemporalData.

    With the extra `tgb`, names such as tgbl-wiki are those of the Temporal Graph Benchmark; with the extra `hub`,
    hf://datasets/owner/name is a saved graph on a Hugging Face hub; with the extra `duckdb`,
    "duckdb:events.db?query=SELECT …" are the events that a query returns.

    `columns` are those of `cody.data.read_events`: src, dst, time, features, unit, sort, label, label_name,
    label_names, event_name, header, separator.

    >>> load("collegemsg")
    TemporalGraph(1,899 nodes, 59,835 events)
    """
    started = time.monotonic()
    graph = _load(source, columns)
    described = sanitize(source, 200) if isinstance(source, str | os.PathLike) else type(source).__name__
    logger.info("%s, from %s, in %.1f s", graph, described, time.monotonic() - started)
    return graph


def _load(source: Any, columns: dict[str, Any]) -> TemporalGraph:
    names = [dataset.name for dataset in DATASETS]
    if isinstance(source, str) and source in names:
        _reject_columns(columns, f"{source!r} is a data set with known columns")
        return _load_named(_named(source))
    if isinstance(source, str) and source.split()[:1] and source.split()[0] in MECHANISMS:
        _reject_columns(columns, f"{source!r} is a generated log with known columns")
        return planted(source).graph
    if readers.is_query(source):
        return readers.read_query(source, **columns)
    if is_hub_address(source):
        return read_events(hub_folder(source), **columns)
    if isinstance(source, str) and is_tgb(source) and not readers.exists(Path(source)):
        _reject_columns(columns, f"{source!r} is a data set of TGB with known columns")
        return load_tgb(source)
    if isinstance(source, str) and not source.strip():
        raise CallError(f"data must be the name of a data set or a path, not {source!r}")
    is_word = isinstance(source, str) and not Path(source).suffix and len(Path(source).parts) <= 1
    if is_word and not readers.exists(Path(source)):
        visible, events = readers.files_to_suggest(Path())
        known = did_you_mean(source, [*names, *visible], [*events, *names])
        raise CallError(f"{source!r} is neither a data set nor a file{known}")
    if isinstance(source, str | os.PathLike):
        return read_events(source, **columns)
    if isinstance(source, TemporalGraph):
        _reject_columns(columns, "this is already a TemporalGraph")
        return source
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "iloc"):  # pyarrow, polars, …; any version of pandas
        return readers.from_table(source, **columns)
    if all(hasattr(source, name) for name in ("src", "dst", "t")):
        return readers.from_temporal_data(source, **columns)
    hint = "; give what its collect() returns" if hasattr(source, "collect") else ""  # polars, Spark: a plan, no table
    raise CallError(f"data must be a name, a path, a table or a TemporalData, not {type(source).__name__}{hint}")


def fetch(dataset: str | Dataset, progress: Progress | None = None) -> Path:
    """Download a data set from its public source, verify it, and put it in the data directory. Returns its path.

    Its events must have the known identity; an existing file is replaced only if its events have it, too. If the sha256
    of the public file is not known, that of the first download is recorded in `downloads.json` in that directory, and
    later downloads must match it.
    """
    from cody.data.download import download, pin, pinned

    found = _named(dataset)
    if not found.file:
        raise CallError(f"{found.name!r} is synthetic, not downloaded; cody.load({found.name!r}) makes it")
    if not found.url:
        return _locate(found)[0]
    if data_directory().is_file():
        raise DataError(f"data sets are stored in a directory, but CODY_DATA names a file: {data_directory()}")
    target = data_directory() / found.published
    _check_replaceable(found, target)
    first = pinned(target.parent, target.name) if found.sha256 is None else None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as partial:
            actual = download(found.url, partial, found.largest, progress)
            _check_download(found, partial, actual, first)
            if found.sha256 is None:
                pin(target.parent, target.name, actual)
    except OSError as error:  # URLError, timeouts, a full disk
        reason = first_line(getattr(error, "reason", error))
        raise DataError(
            f"{found.name} could not be downloaded from {found.url} ({reason}). Get that file "
            f"by other means and put it at {target} (the environment variable CODY_DATA names the directory)"
        ) from error
    return target


def _check_replaceable(dataset: Dataset, target: Path) -> None:
    """Do not let a download replace a file that is not the data set; it may be the only copy."""
    if not target.exists():
        return
    advice = "rename or remove it, and fetch again"
    if not target.is_file():
        raise DataError(f"{target} already exists and is not a file; {advice}")
    try:
        _check_content(dataset, dataset.read_published(target))
    except DataError as error:
        raise DataError(f"{target} already exists and is not {dataset.title} ({error}); {advice}") from None


def pin_note(dataset: str | Dataset) -> str:
    """A note for a user who downloaded a file whose checksum was not known; empty if it was."""
    from cody.data.download import PINS, pinned

    found = _named(dataset)
    known = pinned(data_directory(), found.published) if found.published else None
    if known is None or found.sha256 is not None:
        return ""
    return (
        f"Its events have the known identity. The sha256 of the whole file is not known in advance: that of the first "
        f"download, {known}, is recorded in {data_directory() / PINS}, and later downloads must match it."
    )


def _check_download(dataset: Dataset, file: Path, actual: str, first: str | None) -> None:
    from cody.data.download import PINS

    sent = f"the file from {dataset.url}"
    if dataset.sha256 not in (None, actual):
        raise DataError(f"{sent} has the sha256 {actual}, not {dataset.sha256}; it was discarded")
    if first not in (None, actual):
        raise DataError(
            f"{sent} has the sha256 {actual}, not {first}, as in the first download; it was discarded. If the "
            f"public file has changed on purpose, remove its line from {data_directory() / PINS}"
        )
    try:
        _check_content(dataset, dataset.read_published(file))
    except DataError as error:
        raise DataError(f"{sent} is not {dataset.title} and was discarded: {error}") from error


def _check_content(dataset: Dataset, graph: TemporalGraph) -> TemporalGraph:
    bare = graph
    if graph.features is not None or graph.node_features is not None:
        bare = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time, num_nodes=graph.num_nodes)
    if bare.identity == dataset.content:
        return graph
    has, should = (
        f"{counts.nodes:,} nodes, {counts.events:,} events, {counts.unique_edges:,} unique edges"
        for counts in (summarise(graph), dataset)
    )
    if has != should:
        raise DataError(f"it has {has}; {dataset.title} has {should}")
    raise DataError(
        f"it has as many nodes and events as {dataset.title}, but different ones: their identity is "
        f"{bare.identity}, not {dataset.content}"
    )


def _load_named(dataset: Dataset) -> TemporalGraph:
    if not dataset.file:
        return replace(dataset.read_published(Path()), event_name=dataset.event_name)
    file, read = _locate(dataset)
    graph = read(file)
    try:
        _check_content(dataset, graph)
    except DataError as error:
        raise DataError(f"{file} is not the data set {dataset.name!r}: {error}") from None
    graph = replace(graph, event_name=dataset.event_name)
    return graph if dataset.add_labels is None else dataset.add_labels(graph, file)


def _locate(dataset: Dataset) -> tuple[Path, Callable[[Path], TemporalGraph]]:
    """The file of a data set, and the function that reads it."""
    if not dataset.url:
        return Path(__file__).parent / "shipped" / dataset.file, dataset.read_published
    folder = data_directory()
    for file, read in ((dataset.published, dataset.read_published), (dataset.file, dataset.read_file or read_events)):
        if (folder / file).is_file():
            return folder / file, read
    raise DataError(
        f"{dataset.name!r} is not in {folder}. `cody data fetch {dataset.name}` downloads it; or put {dataset.file} or "
        f"{dataset.published} (from {dataset.url}) there, or set CODY_DATA to the directory that has it"
    )


def _read_collegemsg(file: Path) -> TemporalGraph:
    """Three columns in order of time: src, dst (both count from 1) and minute (since 1970)."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as columns:
            src, dst, minute = (columns[name].astype(np.int64) for name in ("src", "dst", "minute"))
    except (EOFError, OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({first_line(error)}); install cody-explain again") from None
    return TemporalGraph.from_arrays(src - 1, dst - 1, minute * 60.0, names=np.arange(1, max(src.max(), dst.max()) + 1))


def _read_snap_messages(file: Path) -> TemporalGraph:
    """SNAP's lines `src dst unixts`, with its clock set back to the original's."""
    with errors_about(file), unpack_gzip(file, LARGEST_TEXT) as stream:
        src, dst, time = _columns(stream, " ", "src", "dst", "time")
    everyone, ids = np.unique(np.concatenate([src, dst]), return_inverse=True)
    time -= PACIFIC_DAYLIGHT_TIME
    return TemporalGraph.from_arrays(ids[: len(src)], ids[len(src) :], time, names=everyone, sort=True)


def _read_network_repository_forums(file: Path) -> TemporalGraph:
    """A zip with the lines `user,forum,unixts`; both kinds of ids count from 1."""
    try:
        with errors_about(file), zipfile.ZipFile(file) as archive, archive.open("fb-forum.edges") as packed:
            users, forums, time = _columns(at_most_bytes(packed, LARGEST_TEXT), ",", "src", "dst", "time")
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{file} is not the zip of fb-forum.edges ({first_line(error)})") from None
    src, dst, names = readers.two_sided(users, forums, ("user ", "forum "))
    return TemporalGraph.from_arrays(src, dst, time, names=names, sort=True)


def _read_bitcoin(file: Path) -> TemporalGraph:
    """Columns src, dst, t and rating; traders are numbered as they appear."""
    graph = read_events(file, src="src", dst="dst", time="t", features=["rating"])
    assert graph.features is not None
    return _rated(graph.src, graph.dst, graph.time, graph.features[:, 0], graph.names)


def _read_snap_bitcoin(file: Path) -> TemporalGraph:
    """SNAP's lines `source,target,rating,time`; traders are numbered as they appear, and keep SNAP's ids as names."""
    with errors_about(file), unpack_gzip(file, LARGEST_TEXT) as stream:
        src, dst, rating, time = _columns(stream, ",", "src", "dst", "rating", "time")
    order = np.argsort(time, kind="stable")
    ends = np.stack([src[order], dst[order]], axis=1).ravel()
    known, first, rank = np.unique(ends, return_index=True, return_inverse=True)
    appearance = np.argsort(first)  # of the known ids
    number = np.empty(len(known), dtype=np.int64)
    number[appearance] = np.arange(len(known))
    ids = number[rank.ravel()].reshape(-1, 2)
    return _rated(ids[:, 0], ids[:, 1], time[order], rating[order], known[appearance])


def _rated(
    src: NDArray[Any], dst: NDArray[Any], time: NDArray[Any], rating: NDArray[Any], names: NDArray[Any] | None
) -> TemporalGraph:
    """Ratings from -10 to 10 as a feature, divided by 10, and as a label: below 0 is distrust."""
    tenths = rating[:, None] / 10
    graph = TemporalGraph.from_arrays(src, dst, time, names=names, features=tenths, feature_names=["rating"])
    return graph.with_labels(rating < 0, ("trust", "distrust"))


def _with_bans(graph: TemporalGraph, file: Path) -> TemporalGraph:
    """Whether an edit was the user's last before a ban: from the csv, or from `wikipedia_label.npy` beside the file."""
    beside = file.with_name("wikipedia_label.npy")
    if graph.labels is None and not beside.is_file():
        return graph
    labels = load_array(beside, mapped=False) if graph.labels is None else graph.labels
    try:
        return graph.with_labels(labels, ("no ban", "ban"))
    except DataError as error:
        raise DataError(f"{beside}: {error}") from None


def _columns(stream: ByteStream, delimiter: str, *names: str) -> list[NDArray[Any]]:
    """Columns of whole numbers, and of times."""
    types = {name: pa.float64() if name == "time" else pa.int64() for name in names}
    table = read_text_columns(stream, list(names), delimiter, types=types)
    return [table[name].to_numpy() for name in names]


def _named(name: str | Dataset) -> Dataset:
    known = {dataset.name: dataset for dataset in DATASETS}
    if not isinstance(name, Dataset) and name not in known:
        raise CallError(f"there is no data set {name!r}{did_you_mean(name, known)}")
    return name if isinstance(name, Dataset) else known[name]


def _reject_columns(columns: dict[str, Any], reason: str) -> None:
    given = [name for name, value in columns.items() if value not in (None, False)]
    if given:
        raise CallError(f"{reason}, so {', '.join(given)} cannot be given")


DATASETS = (
    Dataset(
        name="collegemsg",
        title="UCI-Messages, to the minute",
        description="Messages between students of UC Irvine, 2004, time cut to the minute. Ships with the package.",
        nodes=1_899,
        events=59_835,
        unique_edges=20_296,
        file="collegemsg.npz",  # made by reproduce/collegemsg.py
        content="3f19a3edac4135b3e489b3c2d6557eec",
        read_published=_read_collegemsg,
        event_name="message",
        about="private messages between students, UC Irvine 2004",
    ),
    Dataset(
        name="uci-messages",
        title="UCI-Messages",
        description="The same messages to the second, in the local time of the original (Opsahl's tnet).",
        nodes=1_899,
        events=59_835,
        unique_edges=20_296,
        file="uci_messages.parquet",
        published="CollegeMsg.txt.gz",
        url="https://snap.stanford.edu/data/CollegeMsg.txt.gz",
        content="1ddff3c62197855a98a34f41972efefe",
        read_published=_read_snap_messages,
        event_name="message",
        about="private messages between students, UC Irvine 2004",
    ),
    Dataset(
        name="uci-forums",
        title="UCI-Forums",
        description="Forum posts of the same students. Users come first, then forums.",
        kind="bipartite",
        nodes=1_421,
        events=33_720,
        unique_edges=7_089,
        file="uci_forums.parquet",
        published="fb-forum.zip",
        url="https://nrvis.com/download/data/dynamic/fb-forum.zip",
        content="e452eb2b4130abb8039c8b315aeccd57",
        read_published=_read_network_repository_forums,
        event_name="post",
        about="forum posts of students, UC Irvine 2004",
    ),
    Dataset(
        name="bitcoin-otc",
        title="Bitcoin OTC",
        description="Who rates whom, from -10 to 10, on a bitcoin trading platform. Label: distrust, a rating below 0.",
        nodes=5_881,
        events=35_592,
        unique_edges=35_592,
        file="bitcoin_otc.parquet",
        published="soc-sign-bitcoinotc.csv.gz",
        url="https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz",
        largest=16 * 2**20,
        content="cd55aa9e162b7059993adf55e51702ef",
        read_published=_read_snap_bitcoin,
        read_file=_read_bitcoin,
        event_name="rating",
        about="ratings between traders, 2010 to 2016",
    ),
    Dataset(
        name="wikipedia",
        title="Wikipedia",
        description="One month of page edits; users first, then pages. wikipedia.csv has 172 features, Parquet none.",
        kind="bipartite",
        nodes=9_227,
        events=157_474,
        unique_edges=18_257,
        file="wikipedia.parquet",
        published="wikipedia.csv",
        url="https://snap.stanford.edu/jodie/wikipedia.csv",
        largest=2**30,
        content="a1e8b7b0bcc147d724aa20c60a44dd9f",
        read_published=read_events,
        event_name="edit",
        add_labels=_with_bans,
        about="page edits of one month",
    ),
    Dataset(
        name="campus",
        title="Campus, synthetic",
        description="Students enrol, post and are answered; the causes are known (cody.data.campus).",
        nodes=220,
        events=4_200,
        unique_edges=3_446,
        read_published=lambda _: campus().graph,
        about="synthetic, with known causes",
    ),
)
