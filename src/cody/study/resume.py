"""What a file of records already holds, and whether it belongs to the run that is to continue it."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, NamedTuple

from msgspec import UNSET

from cody.errors import DataError
from cody.explaining.document import decision_in_part
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.models.decided import LINK_PREDICTED
from cody.models.deciding import ByLabel
from cody.models.decision import Decision
from cody.study.arrange import setting
from cody.study.decisions import in_words, kind_of
from cody.study.instances import Link, predicted, rows_of
from cody.study.record import Failure, Key, Record, key_of
from cody.study.record_file import Appender, EvaluationHeader, ExplainerOptions

TOLERANCE = 1e-3  # by which two computations of a logit may differ


class KnownLines(NamedTuple):
    """The latest header of a file, and what its records and failures are about."""

    latest: EvaluationHeader | None
    done: set[Key]


def read_back(
    file: Appender, settings: EvaluationHeader, model: Model, graph: TemporalGraph, decision: Decision | ByLabel | None
) -> KnownLines:
    """What a file holds. Lines of another run are rejected.

    Args:
        file: The file.
        settings: The header of the run that is to continue it.
        model: The model that is explained.
        graph: The log of events.
        decision: What is to flip, as the user gave it.
    """
    explainers = dict(settings.explainers)
    latest: EvaluationHeader | None = None
    last: Record | None = None
    links: set[Link] = set()
    done: set[Key] = set()
    failed: set[Key] = set()
    for entry in file.known():
        if isinstance(entry, EvaluationHeader):
            latest = entry
            _check_header(file, entry, settings, explainers)
            links |= _links_of(file, entry, rows_of(settings.period, graph))
        elif isinstance(entry, Failure):
            _check_belongs(file, entry, settings, links)
            failed |= {key_of(entry)} if entry.version == settings.version else set()
        else:
            known = explainers.get(entry.explainer)
            given = ExplainerOptions(entry.search, entry.policy, entry.options)
            agrees = known is not None and _setting(given) == _setting(known) and not contradicts_kind(entry, graph)
            _check_belongs(file, entry, settings, links, agrees=agrees)
            if key_of(entry) in done:
                raise DataError(f"{file.path} holds two records of {entry.explainer} about event {entry.event}")
            done.add(key_of(entry))
            last = entry
    if last is not None:
        _check_answer(file, last, predicted(model, graph, last.event, decision)[1])
    return KnownLines(latest, done | failed)


def contradicts_kind(record: Record, graph: TemporalGraph) -> bool:
    """Whether the model's answer shows that a link is not of the kind it was drawn as."""
    kind = kind_of(graph, record.event, record.decision, record.original, record.subject)
    return abs(record.original) > TOLERANCE and kind != record.kind


MUST_AGREE: dict[str, Callable[[Any], str]] = {  # how each is shown
    **dict.fromkeys(("data_identity", "model_identity", "seed", "share", "period", "margin"), str),
    "decision": lambda part: in_words(
        LINK_PREDICTED if part is UNSET else decision_in_part(part, "") if part else None
    ),
}


def _check_header(
    file: Appender, header: EvaluationHeader, settings: EvaluationHeader, explainers: dict[str, ExplainerOptions]
) -> None:
    """Reject the header of another run. It may have other explainers, but not the same one with other options."""
    for name, shown in MUST_AGREE.items():
        there, here = getattr(header, name), getattr(settings, name)
        if there != here:
            raise _of_another_run(file, f"there {name.replace('_', ' ')} is {shown(there)}, here it is {shown(here)}")
    if header.events != settings.events:
        raise DataError(f"{file.path} belongs to another run, about other events; choose another file")
    for name, given in header.explainers.items():
        theirs, ours = _setting(given), _setting(explainers.setdefault(name, given))
        for option in sorted(theirs.keys() | ours.keys()):
            one, other = theirs.get(option), ours.get(option)
            if one != other:
                raise _of_another_run(file, f"there {option} of {name} is {one}, here it is {other}")


def _links_of(file: Appender, header: EvaluationHeader, rows: range) -> set[Link]:
    links = {Link(event, kind) for kind, events in header.links.items() for event in events}
    for link in sorted(links):
        if link.event not in rows:
            period = f"the period has events {rows.start} to {rows.stop - 1}"
            raise _of_another_run(file, f"its header names event {link.event}, but {period}")
    return links


def _of_another_run(file: Appender, why: str) -> DataError:
    return DataError(f"{file.path} belongs to another run: {why}; choose another file")


def _setting(given: ExplainerOptions) -> dict[str, str]:
    """What must be the same. The same scorer may have another name."""
    values = setting(given.search, given.policy, given.options)
    if "policy.identity" in values:
        values.pop("policy.scorer", None)
    return values


def _check_belongs(
    file: Appender, entry: Record | Failure, settings: EvaluationHeader, links: Set[Link], *, agrees: bool = True
) -> None:
    names = ("data_identity", "model_identity", "seed")
    agrees = agrees and all(getattr(entry, name) == getattr(settings, name) for name in names)
    if not agrees or Link(entry.event, entry.kind) not in links:
        raise DataError(
            f"{file.path} holds a record of another run: {entry.explainer}, event {entry.event}; choose another file"
        )


def _check_answer(file: Appender, record: Record, margin: float) -> None:
    """Reject records of another model with the same identity: its answer about the link of the last one differs."""
    if abs(margin - record.original) > TOLERANCE * max(1.0, abs(margin)):
        name = "logit" if record.decision == LINK_PREDICTED else "margin"
        raise DataError(
            f"{file.path} holds records of another model: there event {record.event} has the {name} {record.original}, "
            f"here it has {margin:.5f}; choose another file"
        )
