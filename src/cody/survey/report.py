"""What explained links have in common: how fragile they are, what the decisive events are, and who decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cody.decision import probability
from cody.graph import TemporalGraph
from cody.survey.cases import RELATIONS, Case, ages, is_repeated, ranks, relations
from cody.survey.shares import Contrast, Share, contrast, mean

SIZES = (1, 2, 3, 5, 10)  # edits that a prediction may hang on
LATEST = (1, 4, 16)  # "among the k latest candidates"
LISTED = 5  # links and nodes in each list
SCHEMA = "cody/survey/1"


class Fragile(NamedTuple):
    """How many predictions hang on few events."""

    edits: int
    share: Share  # (1/N) Σ 1[a counterfactual of at most `edits` events was found]


class Age(NamedTuple):
    """Medians over the events of all links together."""

    decisive: float
    candidates: float


class Example(NamedTuple):
    """One explained link."""

    event: int
    src: str
    dst: str
    time: float
    score: float
    rows: tuple[int, ...]  # of the counterfactual; empty: none was found


class Decider(NamedTuple):
    """A node or an event that occurs in counterfactuals of links that are not its own."""

    name: str  # of the node, or "src → dst" of the event
    row: int | None  # of the event
    decides: int  # links in whose counterfactual it occurs
    could: int  # links among whose candidates it occurs


@dataclass(frozen=True, slots=True)
class Part:
    """What holds for links of one kind."""

    kind: str  # "correct" or "incorrect"
    links: int
    explained: int  # those with a counterfactual
    fragility: tuple[Fragile, ...]
    relations: tuple[Contrast, ...]  # empty if nothing was explained
    latest: tuple[Contrast, ...]  # among the k latest candidates
    repetition: Contrast | None  # the two nodes of the event had met before
    age: Age | None  # how long before the link, in the unit of the log
    nodes: tuple[Decider, ...]
    events: tuple[Decider, ...]
    most_fragile: tuple[Example, ...]
    most_robust: tuple[Example, ...]  # of the others


@dataclass(frozen=True, slots=True)
class Survey:
    """What decides a model's predictions in general."""

    data: str
    model: str
    explainer: str
    parts: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"schema": SCHEMA, **_plain(self)}

    def rows(self) -> list[dict[str, Any]]:
        """Every figure as one row, for csv: kind, figure, value, low, high."""
        return [
            {"data": self.data, "model": self.model, "kind": part.kind, "figure": name, **share._asdict()}
            for part in self.parts
            for name, share in _figures(part)
        ]


def survey(explained: Sequence[Case], graph: TemporalGraph) -> Survey:
    """What the cases of one model have in common, links that it predicts and links that it misses apart."""
    kinds = dict.fromkeys(case.record.kind for case in explained)
    first = explained[0].record
    parts = tuple(
        _part(kind, [case for case in explained if case.record.kind == kind], graph) for kind in sorted(kinds)
    )
    return Survey(first.data, first.model, first.explainer, parts)


def _part(kind: str, of_kind: Sequence[Case], graph: TemporalGraph) -> Part:
    flipped = [case for case in of_kind if case.flips]
    fragility = [Fragile(edits, mean([case.flips and case.size <= edits for case in of_kind])) for edits in SIZES]
    by_size = sorted(of_kind, key=lambda case: (not case.flips, case.size, abs(case.record.original)))
    return Part(
        kind,
        len(of_kind),
        len(flipped),
        tuple(fragility),
        _relations(flipped, graph) if flipped else (),
        _latest(flipped) if flipped else (),
        _repetition(flipped, graph) if flipped else None,
        _age(flipped, graph) if flipped else None,
        _nodes(of_kind, graph),
        _events(of_kind, graph),
        tuple(_example(case, graph) for case in by_size[:LISTED]),
        tuple(_example(case, graph) for case in by_size[LISTED:][: -LISTED - 1 : -1]),
    )


def _relations(flipped: Sequence[Case], graph: TemporalGraph) -> tuple[Contrast, ...]:
    what = [relations(graph, case) for case in flipped]
    return tuple(_contrast(name, flipped, [kinds == place for kinds in what]) for place, name in enumerate(RELATIONS))


def _latest(flipped: Sequence[Case]) -> tuple[Contrast, ...]:
    words = {most: f"among the {most} latest candidates" if most > 1 else "the latest candidate" for most in LATEST}
    return tuple(_contrast(words[most], flipped, [ranks(case) <= most for case in flipped]) for most in LATEST)


def _repetition(flipped: Sequence[Case], graph: TemporalGraph) -> Contrast:
    return _contrast("its nodes had met before", flipped, [is_repeated(graph, case) for case in flipped])


def _contrast(what: str, flipped: Sequence[Case], holds: Sequence[np.ndarray]) -> Contrast:
    decisive = [float(true[case.decisive].mean()) for case, true in zip(flipped, holds, strict=True)]
    return contrast(what, decisive, [float(true.mean()) for true in holds])


def _age(flipped: Sequence[Case], graph: TemporalGraph) -> Age:
    of_all = [ages(graph, case) for case in flipped]
    decisive = np.concatenate([age[case.decisive] for age, case in zip(of_all, flipped, strict=True)])
    return Age(float(np.median(decisive)), float(np.median(np.concatenate(of_all))))


def _nodes(of_kind: Sequence[Case], graph: TemporalGraph) -> tuple[Decider, ...]:
    decides: Counter[int] = Counter()
    could: Counter[int] = Counter()
    for case in of_kind:
        own = {case.query.src, case.query.dst}
        decides.update(_ends(graph, case.candidates[case.decisive]) - own)
        could.update(_ends(graph, case.candidates) - own)
    return tuple(Decider(graph.name(node), None, times, could[node]) for node, times in _most(decides))


def _ends(graph: TemporalGraph, rows: Any) -> set[int]:
    return set(graph.src[rows].tolist()) | set(graph.dst[rows].tolist())


def _events(of_kind: Sequence[Case], graph: TemporalGraph) -> tuple[Decider, ...]:
    decides: Counter[int] = Counter()
    could: Counter[int] = Counter()
    for case in of_kind:
        decides.update(case.candidates[case.decisive].tolist())
        could.update(case.candidates.tolist())
    return tuple(
        Decider(f"{graph.name(int(graph.src[row]))} → {graph.name(int(graph.dst[row]))}", row, times, could[row])
        for row, times in _most(decides)
    )


def _most(counted: Counter[int]) -> list[tuple[int, int]]:
    """The most frequent ones that occur more than once; of equals, the smaller number first."""
    often = [(number, times) for number, times in counted.items() if times > 1]
    return sorted(often, key=lambda pair: (-pair[1], pair[0]))[:LISTED]


def _example(case: Case, graph: TemporalGraph) -> Example:
    ends = graph.name(case.query.src), graph.name(case.query.dst)
    rows = tuple(case.candidates[case.decisive].tolist())
    return Example(case.event, *ends, case.query.time, round(probability(case.record.original), 6), rows)


def _figures(part: Part) -> list[tuple[str, Share]]:
    found = [(f"flipped by at most {each.edits}", each.share) for each in part.fragility]
    repeated = () if part.repetition is None else (part.repetition,)
    for each in (*part.relations, *part.latest, *repeated):
        found += [(f"{each.what}: decisive", each.decisive), (f"{each.what}: candidates", each.candidates)]
        found += [] if each.ratio is None else [(f"{each.what}: ratio", each.ratio)]
    return found


def _plain(value: Any) -> Any:
    """Named tuples and dataclasses as objects, tuples as lists."""
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
