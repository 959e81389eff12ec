"""What a file of records already holds, and whether it belongs to the run that is to continue it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from cody.errors import DataError
from cody.explaining.document import decision_in_part
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.models.decided import LINK_PREDICTED
from cody.study.arrange import setting
from cody.study.instances import GivenDecision, Link, in_words, kind_of, predicted, rows_of
from cody.study.record import Failure, Key, Record, key_of
from cody.study.record_file import Appender, EvaluationHeader, ExplainerOptions

SAME_RUN = ("data_identity", "model_identity", "seed")
TOLERANCE = 1e-3  # by which two computations of a logit may differ


def read_back(
    file: Appender, settings: EvaluationHeader, model: Model, graph: TemporalGraph, decision: GivenDecision
) -> tuple[EvaluationHeader | None, set[Key]]:
    """The latest header of a file, and what its records and failures are about. Lines of another run are rejected.

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
            continue
        agrees = all(getattr(entry, name) == getattr(settings, name) for name in SAME_RUN)
        if isinstance(entry, Record):
            known = explainers.get(entry.explainer)
            given = ExplainerOptions(entry.search, entry.policy, entry.options)
            agrees &= known is not None and _setting(given) == _setting(known) and not contradicts_kind(entry, graph)
        if not agrees or Link(entry.event, entry.kind) not in links:
            what = f"a record of another run: {entry.explainer}, event {entry.event}"
            raise DataError(f"{file.path} holds {what}; choose another file")
        if isinstance(entry, Failure):
            failed |= {key_of(entry)} if entry.version == settings.version else set()
        elif key_of(entry) in done:
            raise DataError(f"{file.path} holds two records of {entry.explainer} about event {entry.event}")
        else:
            done.add(key_of(entry))
            last = entry
    if last is not None:  # another model may have the same identity
        margin = predicted(model, graph, last.event, decision)[1]
        if abs(margin - last.original) > TOLERANCE * max(1.0, abs(margin)):
            name = "logit" if last.decision == LINK_PREDICTED else "margin"
            raise DataError(
                f"{file.path} holds records of another model: there event {last.event} has the {name} {last.original}, "
                f"here it has {margin:.5f}; choose another file"
            )
    return latest, done | failed


def contradicts_kind(record: Record, graph: TemporalGraph) -> bool:
    """Whether the model's answer shows that a link is not of the kind it was drawn as."""
    kind = kind_of(graph, record.event, record.decision, record.original, record.subject)
    return abs(record.original) > TOLERANCE and kind != record.kind


MUST_AGREE: dict[str, Callable[[Any], str]] = {  # how each is shown
    **dict.fromkeys((*SAME_RUN, "share", "period", "margin"), str),
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
