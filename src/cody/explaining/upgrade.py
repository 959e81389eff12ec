"""Documents and lines that CoDy 0.2 wrote, in today's forms. Nothing else knows those, and nothing older is read.

A record of 0.2 has no explanation: it keeps numbers about one. It has a form of its own here, `RecordOf02`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, Literal

from cody.errors import CallError
from cody.graph import IntArray, TemporalGraph
from cody.graph.neighbourhood import candidates, ends_first, events_among_nodes, events_on_paths
from cody.graph.protected import Protected
from cody.models.contract import as_of
from cody.utils.files import is_as_written
from cody.utils.forms import JSON_ERRORS, Count, Form, Seconds, damaged, read

EXPLANATION, RECORD, HEADER, FAILURE = "cody/explanation/2", "cody/record/2", "cody/evaluation/2", "cody/failure/1"
DEFAULTS = {"edit": "removed", "replaces": None, "was": None, "carries": ""}  # of an event's columns


class ImaginedOf02(Form, frozen=True):
    """An event that was added, moved or altered, as a record of 0.2 keeps it."""

    edit: Literal["added", "moved", "altered"]
    src: str
    dst: str
    time: float
    replaces: Count | None
    was: float | None


class RecordOf02(Form, frozen=True, tag_field="schema", tag=RECORD):
    """What 0.2 kept of an explanation in an evaluation."""

    data: str
    model: str
    explainer: str
    search: str
    policy: str
    options: dict[str, Any]
    kind: Literal["correct", "incorrect"]
    event: Count
    candidates: Count
    rows: tuple[Count, ...]
    original: float
    without: float
    only: float
    ended: str
    iterations: Count
    evaluations: Count
    first: Count | None
    seconds: Seconds | None
    seed: Count
    model_identity: str
    data_identity: str
    version: str
    imagined: tuple[ImaginedOf02, ...] = ()
    sees_before: Count | None = None


FORMERLY = {  # how an answer was verified
    "replayed plainly from": "by replay from",
    "the model was asked once more, about this set alone": "by scoring this set once more, alone",
}


def record(old: dict[str, Any]) -> RecordOf02:
    """A record of 0.2, checked."""
    return read(_intact(old, "a record"), RecordOf02, "a record")


def candidates_of_0_2(record: RecordOf02, graph: TemporalGraph) -> IntArray:
    """The candidates of an explanation whose record does not name them, in the order of time."""
    if record.options.get("edits", ["removals"]) != ["removals"]:
        raise CallError("records of CoDy 0.2 in which events were added or moved cannot be surveyed: explain them anew")
    chosen, protect = record.options["candidates"], Protected.from_parameters(record.options.get("protect"))
    query = graph.query(record.event)
    seen = query if record.sees_before is None else as_of(graph, query, record.sees_before)
    near = {function.__name__: function for function in (ends_first, events_on_paths, events_among_nodes)}
    size = int(chosen["size"] or max(1, record.candidates))
    protect = protect and protect.at(query)
    return candidates(graph, seen, chosen["hops"], size, near=near[chosen["near"]], protect=protect)


def renamed(old: dict[str, Any], schema: str, what: str) -> dict[str, Any]:
    """A line whose fields are the same as ever."""
    return _intact(old, what) | {"schema": schema}


def _verification(old: Any) -> Any:
    """How an answer was verified, in the words of today."""
    if not isinstance(old, dict) or not isinstance(old.get("by"), str):
        return old
    return old | {"by": reduce(lambda by, words: by.replace(*words), FORMERLY.items(), old["by"])}


def explanation(old: dict[str, Any], schema: str) -> dict[str, Any]:
    """The document of an explanation."""
    old = _intact(old, "an explanation")
    kept = {name: value for name, value in old.items() if name not in ("explored", "confirmed")}
    around = old.get("surroundings")
    try:
        kept |= {
            "schema": schema,
            "candidates": _columns(old["candidates"]),
            "verification": _verification(old["confirmed"]),
            "alternatives": [
                {"rows": one["rows"], "verification": _verification(one["confirmed"])} for one in old["alternatives"]
            ],
        }
        if "explored" in old:
            sets, logits = [rows for rows, _ in old["explored"]], [logit for _, logit in old["explored"]]
            kept["evaluated"] = {"sets": sets, "logits": logits}
        if around is not None:
            nodes = {name: [node[name] for node in around["nodes"]] for name in ("name", "hops")}
            kept["surroundings"] = {"nodes": nodes, "events": _columns(around["events"])}
    except KeyError as error:
        raise damaged("an explanation", f"{error} is missing") from None
    except JSON_ERRORS as error:
        raise damaged("an explanation", error) from None
    return kept


def _columns(events: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """A list of events as columns. Those that say nothing new are left out."""
    events = list(events)
    columns = {name: [event[name] for event in events] for name in ("row", "src", "dst", "time")}
    others = {name: [event.get(name, usual) for event in events] for name, usual in DEFAULTS.items()}
    return columns | {name: column for name, column in others.items() if column != [DEFAULTS[name]] * len(column)}


def _intact(old: dict[str, Any], what: str) -> dict[str, Any]:
    """A line without its checksum, which must be right. Lines that another program wrote have none."""
    if "checksum" in old and not is_as_written(old):
        raise damaged(what, "checksum mismatch")
    return {name: value for name, value in old.items() if name != "checksum"}
