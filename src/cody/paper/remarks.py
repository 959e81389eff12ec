"""What a reader must know before comparing the numbers of a table with each other or with the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from cody.data import datasets
from cody.graph.neighbourhood import SIZE, events_among_nodes
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import Labelled
from cody.study.decisions import KindWords, kind_in_words
from cody.study.explainers import known
from cody.study.instances import PAPER_MARGIN, PAPER_PERIOD
from cody.study.metrics import link_of
from cody.study.record import REMOVALS, Record

Groups = Mapping[tuple[str, str], Mapping[str, Sequence[Record]]]  # data and kind, explainer

PAPER = (
    f"200 links of each kind, rows between {PAPER_PERIOD[0]:.0%} and {PAPER_PERIOD[1]:.0%} of the events, logits at "
    f"least {PAPER_MARGIN:g} away from 0, candidates among nodes, other weights"
).replace("%", " %")


def links(members: Mapping[str, Sequence[Record]]) -> set[tuple[str, str, int]]:
    """All links that any explainer of a group explained."""
    return {link_of(record) for records in members.values() for record in records}


def words_of(kind: str, members: Mapping[str, Sequence[Record]]) -> KindWords:
    """What the predictions of a group are called; of several labels, each is about the predicted one."""
    first = next(iter(members.values()))[0]
    return kind_in_words(kind, None if isinstance(first.decision, Labelled) else first.decision, first.subject)


def missing(model: str, groups: Groups) -> Iterator[str]:
    """Which explainers did not explain every link that others did: such numbers must not be compared."""
    disjoint: dict[str, list[str]] = {}
    for (data, kind), members in groups.items():
        explained = {explainer: links({explainer: records}) for explainer, records in members.items()}
        everything = set().union(*explained.values())
        if not set.intersection(*explained.values()):
            disjoint.setdefault(data, []).append(kind)
            continue
        for explainer, mine in explained.items():
            if len(mine) < len(everything):
                share = f"{len(mine)} of the {len(everything)} {words_of(kind, members).plural}"
                yield f"{explainer} explained only {share} of {data} ({model})."
    for data, kinds in disjoint.items():
        subject = words_of(kinds[0], groups[data, kinds[0]]).subject
        yield (
            f"No {' and no '.join(kinds)} {subject} of {data} ({model}) was explained by all of these explainers: "
            f"their numbers are about different {subject}s and must not be compared."
        )


def beyond_removals(groups: Groups) -> Iterator[str]:
    """Who could choose from more than removals: that finds more, and is another question than the paper's."""
    allowed = {
        explainer: record.allowed
        for members in groups.values()
        for explainer, records in members.items()
        for record in records
        if record.allowed != REMOVALS
    }
    for explainer, edits in allowed.items():
        yield f"{explainer} was allowed {', '.join(edits)}: do not compare it with explainers that only remove events."


def built_with_other_settings(model: str, groups: Groups) -> Iterator[str]:
    """Where the records are known not to follow the paper's protocol."""
    records = [record for members in groups.values() for several in members.values() for record in several]
    events = {dataset.name: dataset.events for dataset in datasets()}
    differences = (
        ("are about other rows", lambda record: not _is_in_period(record, events.get(record.data))),
        (f"have a logit closer to 0 than {PAPER_MARGIN:g}", lambda record: abs(record.original) < PAPER_MARGIN),
        ("were not made with --near nodes", lambda record: not _is_among_nodes(record)),
        ("allow more than removals", lambda record: record.allowed != REMOVALS),
        ("are about another decision", lambda record: record.decision != LINK_PREDICTED),
        ("have other iterations, alpha or candidates", lambda record: not has_paper_options(record)),
    )
    counts = {what: sum(map(differs, records)) for what, differs in differences}
    found = [f"{count:,} {what}" for what, count in counts.items() if count]
    if found:
        yield (
            f"The paper's figures cannot be compared with these: of the {len(records):,} records of {model}, "
            f"{', '.join(found)}. cody evaluate --paper does as the paper did."
        )


def follows_paper(record: Record) -> bool:
    """Whether an explainer had the paper's options and candidates."""
    return has_paper_options(record) and _is_among_nodes(record) and record.allowed == REMOVALS


def has_paper_options(record: Record) -> bool:
    """Whether the number of candidates and the search's options are the paper's, as far as the record has them."""
    entry = known(record.search, record.policy)
    if entry is None:
        return True  # it is not in the paper
    given = {name: _given(record, "search").get(name) for name in entry.paper}
    given["size"] = _given(record, "candidates").get("size")
    paper = {**entry.paper, "size": entry.size or SIZE}
    return all(not isinstance(value, int | float) or math.isclose(value, paper[name]) for name, value in given.items())


def _given(record: Record, part: str) -> Mapping[str, object]:
    options = record.options.get(part)
    return options if isinstance(options, dict) else {}


def _is_in_period(record: Record, events: int | None) -> bool:
    """Whether the event is in the paper's period; assumed where the number of events is unknown."""
    first, last = PAPER_PERIOD
    return events is None or round(first * events) <= record.event < round(last * events)


def _is_among_nodes(record: Record) -> bool:
    near = _given(record, "candidates").get("near")
    return near is None or near == events_among_nodes.__name__
