"""The paper's tables from records: which value goes into which cell. `cody.paper.typeset` writes them.

What a reader must know before comparing the numbers with each other or with the paper's is in their remarks.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from cody.data import datasets
from cody.graph.neighbourhood import SIZE, events_among_nodes
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import Labelled
from cody.study import metrics
from cody.study.arrange import DATA, MODELS, Parts, arrange, explainers_in_order, in_order
from cody.study.explainers import known
from cody.study.instances import PAPER_MARGIN, PAPER_PERIOD, KindWords, kind_in_words
from cody.study.metrics import Interval, Metric, MetricInputs, columns, grouped, interval, link_of
from cody.study.record import KINDS, REMOVALS, Failure, Record, in_words

Groups = Mapping[tuple[str, str], Mapping[str, Sequence[Record]]]  # data and kind, explainer
PAPER = (
    f"200 links of each kind, rows between {PAPER_PERIOD[0]:.0%} and {PAPER_PERIOD[1]:.0%} of the events, logits at "
    f"least {PAPER_MARGIN:g} away from 0, candidates among nodes, other weights"
).replace("%", " %")
SAME_MESSAGES = {"collegemsg": "uci-messages"}  # the first has times to the minute, the paper's to the second


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric as tables show it."""

    title: str
    formula: str
    metric: Metric
    digits: int = 2
    ranked: bool = True  # higher is better; where False, there is no best: doing nothing is sparse and fast
    file_name: str = ""  # what files call it; "": as the metric
    in_latex: str = ""  # its title there; "": the same

    @property
    def name(self) -> str:
        return self.file_name or self.metric.__name__

    @property
    def latex(self) -> str:
        return self.in_latex or self.title[0].upper() + self.title[1:].replace("−", "-")


AREA = "area under fidelity{} against sparsity = mean of [decision {}]·(1 − |X|/|C|)"
AREA_PLUS, AREA_MINUS = AREA.format("+", "changes without X"), AREA.format("−", "stays with X only")
AUFSC_PLUS = Measure("AUFSC+", AREA_PLUS, metrics.aufsc_plus, in_latex=r"\textit{AUFSC}$_+$")
AUFSC_MINUS = Measure("AUFSC−", AREA_MINUS, metrics.aufsc_minus, in_latex=r"\textit{AUFSC}$_-$")
CHARACTERIZATION = Measure(
    "char", "harmonic mean of fidelity+ and fidelity−", metrics.characterization, file_name="char", in_latex="$char$"
)
FIDELITY_PLUS = Measure("fidelity+", "share of links whose decision changes when X is removed", metrics.fidelity_plus)
FIDELITY_MINUS = Measure(
    "fidelity−", "share of links whose decision stays when the past is X only", metrics.fidelity_minus
)
_unranked = partial(Measure, ranked=False)
SPARSITY = _unranked("sparsity", "mean of |X|/|C|; lower is better", metrics.sparsity)
EVALUATED = "distinct sets of events that were evaluated; lower is better"
CALLS = _unranked("calls", EVALUATED, metrics.mean_evaluations, file_name="calls")
SECONDS = _unranked("seconds", "wall time; lower is better", metrics.mean_seconds, 3, file_name="seconds")
RANK = _unranked("rank", "median rank of the destination", metrics.rank, 0)
RANK_AFTER = _unranked("rank after", "median rank of the destination without X", metrics.rank_after, 0)
LOST = "mean of 1/rank − 1/rank without X; negative where X keeps the destination down"
RECIPROCAL_RANK_LOST = _unranked("RR lost", LOST, metrics.reciprocal_rank_lost, 3)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which measures a table has, and the order of its columns."""

    name: str
    title: str
    panels: tuple[tuple[Measure, ...], ...]  # one below the other
    data_first: bool = True  # data sets, and the kinds within them; if False, the other way round
    needs_ranks: bool = False  # it is left out where nothing is ranked


AREAS = (AUFSC_PLUS, AUFSC_MINUS, CHARACTERIZATION)
LAYOUTS = (
    Layout("aufsc", "Area under the fidelity-sparsity curve, and characterization", (AREAS,), data_first=False),
    Layout("fidelity", "Fidelity and sparsity", ((FIDELITY_PLUS, SPARSITY), (FIDELITY_MINUS, CHARACTERIZATION))),
    Layout("calls", "Mean number of calls to the model", ((CALLS,),)),
    Layout("runtime", "Mean time of an explanation", ((SECONDS,),)),
    Layout("ranks", "Ranks", ((RANK, RANK_AFTER, RECIPROCAL_RANK_LOST),), needs_ranks=True),
)


class Column(NamedTuple):
    measure: Measure
    data: str
    kind: str


@dataclass(frozen=True, slots=True)
class Cell:
    value: float | None = None
    place: int | None = None  # rank in its column; 1 is the best
    interval: Interval | None = None
    paper: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """All explainers of one model, in one layout."""

    layout: Layout
    model: str
    columns: tuple[tuple[Column, ...], ...]  # of each panel
    rows: Mapping[str, Mapping[Column, Cell]]  # of each explainer
    explainers: Mapping[str, Parts]  # what each is made of
    links: Mapping[tuple[str, str], int]  # how many were explained, by data and kind
    remarks: tuple[str, ...]  # what must not be compared
    level: float | None  # of the intervals
    words: Mapping[tuple[str, str], KindWords]  # what predictions are called, by data and kind

    @property
    def subject(self) -> str:
        """What is predicted: a link, or the label of an event or node."""
        return next(iter(self.words.values())).subject

    @property
    def has_paper(self) -> bool:
        shown = [column for panel in self.columns for column in panel]
        return any(row[column].paper is not None for row in self.rows.values() for column in shown)


def tables(
    records: Sequence[Record],
    *,
    paper: bool = False,
    rng: np.random.Generator | None = None,
    level: float = 0.95,
    failures: Sequence[Failure] = (),
) -> list[Table]:
    """Every table of every model.

    Args:
        records: Records of an evaluation.
        paper: Show the paper's figures next to ours.
        rng: If given, add bootstrap intervals.
        level: Confidence level of the intervals.
        failures: Links that could not be explained; notes below the tables mention them.
    """
    published = paper_figures() if paper else {}
    made = []
    arranged = arrange(records)
    parts = explainers_in_order(arranged)
    for model in in_order((record.model for record in arranged), MODELS):
        mine = [record for record in arranged if record.model == model]
        by_kind = grouped(mine, lambda record: (record.data, record.kind))
        groups = {group: grouped(members, lambda record: record.explainer) for group, members in by_kind.items()}
        cells = _cells(model, groups, parts, published, rng, level)
        remarks = (
            *in_words(failure for failure in failures if failure.model == model),
            *_missing(model, groups),
            *_beyond_removals(groups),
            *(_about_paper(model, groups, cells) if paper else ()),
        )
        links = {group: len(_links_of(members)) for group, members in groups.items()}
        words = {group: _words_of(group[1], members) for group, members in groups.items()}
        ranked = any(record.rank is not None for record in mine)
        for layout in LAYOUTS:
            if ranked or not layout.needs_ranks:
                shown = tuple(tuple(_order(panel, groups, layout.data_first)) for panel in layout.panels)
                of = None if rng is None else level
                made.append(Table(layout, model, shown, cells, parts, links, remarks, of, words))
    return made


Rng = np.random.Generator
Published = Mapping[tuple[str, str, str, str, str], float]  # model, explainer, data, kind, measure


def _order(panel: Sequence[Measure], groups: Groups, data_first: bool) -> Iterator[Column]:
    names = in_order((data for data, _ in groups), DATA)
    kinds = in_order((kind for _, kind in groups), KINDS)
    pairs = [(data, kind) for data in names for kind in kinds]
    if not data_first:
        pairs = [(data, kind) for kind in kinds for data in names]
    for measure in panel:
        yield from (Column(measure, *pair) for pair in pairs if pair in groups)


def _cells(
    model: str, groups: Groups, parts: Mapping[str, Parts], published: Published, rng: Rng | None, level: float
) -> dict[str, dict[Column, Cell]]:
    present = {name for members in groups.values() for name in members}
    explainers = [name for name in parts if name in present]
    rows: dict[str, dict[Column, Cell]] = {explainer: {} for explainer in explainers}
    measures = dict.fromkeys(measure for layout in LAYOUTS for panel in layout.panels for measure in panel)
    for (data, kind), members in groups.items():
        seed = None if rng is None else int(rng.integers(2**63))  # the same samples for all metrics and explainers
        by_explainer = {explainer: columns(members.get(explainer, [])) for explainer in explainers}
        for measure in measures:
            places = _places(measure, by_explainer)
            for explainer, group in by_explainer.items():
                name = _published_name(explainer, parts, members.get(explainer, []))
                paper = published.get((model, name, SAME_MESSAGES.get(data, data), kind, measure.name))
                samples = None if seed is None else np.random.default_rng(seed)
                between = None if samples is None else interval(measure.metric, group, rng=samples, level=level)
                cell = Cell(measure.metric(group), places[explainer], between, paper)
                rows[explainer][Column(measure, data, kind)] = cell
    return rows


def _published_name(explainer: str, parts: Mapping[str, Parts], records: Sequence[Record]) -> str:
    """The paper's name for an explainer; of several settings, only for the one with the paper's options. Else empty."""
    entry = known(*parts[explainer])
    is_only = list(parts.values()).count(parts[explainer]) == 1
    only_removes = all(record.allowed == REMOVALS for record in records)
    if any(record.decision != LINK_PREDICTED for record in records):
        return ""
    has_figures = (is_only and only_removes) or (records and all(map(_follows_paper, records)))
    return entry.name if entry is not None and has_figures else ""


def _places(measure: Measure, group: Mapping[str, MetricInputs]) -> dict[str, int | None]:
    """1 + how many are better in the printed digits, so that equals share a place and the next place stays empty.

    None for measures that are not ranked, and for values printed as 0.
    """
    values = {name: measure.metric(members) for name, members in group.items()} if measure.ranked else {}
    printed = {name: rounded(value, measure.digits) for name, value in values.items() if value is not None}
    places = {name: 1 + sum(other > value for other in printed.values()) for name, value in printed.items() if value}
    return {name: places.get(name) for name in group}


def rounded(value: float, digits: int) -> float:
    """Rounds halves up, even if the nearest binary number lies below: 31 of 200 links are 0.16.

    >>> rounded(0.155, 2), round(0.155, 2)
    (0.16, 0.15)
    """
    scale: float = 10.0**digits
    return math.floor(value * scale + 0.5 + 1e-9) / scale


def _about_paper(model: str, groups: Groups, cells: Mapping[str, Mapping[Column, Cell]]) -> Iterator[str]:
    if any(cell.paper is not None for row in cells.values() for cell in row.values()):
        yield from _built_with_other_settings(model, groups)
    else:
        names = ", ".join(in_order((data for data, _ in groups), DATA))
        has = "it has figures for its own settings of tgn and tgat on uci-messages, uci-forums and wikipedia"
        yield f"The paper has no figures for these explainers of {model} on {names}: {has}."


def paper_figures() -> dict[tuple[str, str, str, str, str], float]:
    """The figures of the paper, from the csv files next to this module; their first line names the source."""
    found: dict[tuple[str, str, str, str, str], float] = {}
    for file in sorted(files("cody.paper").iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".csv"):
            continue
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            group = (row.pop("model"), row.pop("explainer"), row.pop("dataset"), row.pop("predictions"))
            found |= {(*group, measure): float(value) for measure, value in row.items()}
    return found


# Remarks: what must not be compared


def _links_of(members: Mapping[str, Sequence[Record]]) -> set[tuple[str, str, int]]:
    """All links that any explainer of a group explained."""
    return {link_of(record) for records in members.values() for record in records}


def _words_of(kind: str, members: Mapping[str, Sequence[Record]]) -> KindWords:
    """What the predictions of a group are called; of several labels, each is about the predicted one."""
    first = next(iter(members.values()))[0]
    return kind_in_words(kind, None if isinstance(first.decision, Labelled) else first.decision, first.subject)


def _missing(model: str, groups: Groups) -> Iterator[str]:
    """Which explainers did not explain every link that others did: such numbers must not be compared."""
    disjoint: dict[str, list[str]] = {}
    for (data, kind), members in groups.items():
        explained = {explainer: _links_of({explainer: records}) for explainer, records in members.items()}
        everything = set().union(*explained.values())
        if not set.intersection(*explained.values()):
            disjoint.setdefault(data, []).append(kind)
            continue
        for explainer, mine in explained.items():
            if len(mine) < len(everything):
                share = f"{len(mine)} of the {len(everything)} {_words_of(kind, members).plural}"
                yield f"{explainer} explained only {share} of {data} ({model})."
    for data, kinds in disjoint.items():
        subject = _words_of(kinds[0], groups[data, kinds[0]]).subject
        yield (
            f"No {' and no '.join(kinds)} {subject} of {data} ({model}) was explained by all of these explainers: "
            f"their numbers are about different {subject}s and must not be compared."
        )


def _beyond_removals(groups: Groups) -> Iterator[str]:
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


def _built_with_other_settings(model: str, groups: Groups) -> Iterator[str]:
    """Where the records are known not to follow the paper's protocol."""
    records = [record for members in groups.values() for several in members.values() for record in several]
    events = {dataset.name: dataset.events for dataset in datasets()}
    differences = (
        ("are about other rows", lambda record: not _is_in_period(record, events.get(record.data))),
        (f"have a logit closer to 0 than {PAPER_MARGIN:g}", lambda record: abs(record.original) < PAPER_MARGIN),
        ("were not made with --near nodes", lambda record: not _is_among_nodes(record)),
        ("allow more than removals", lambda record: record.allowed != REMOVALS),
        ("are about another decision", lambda record: record.decision != LINK_PREDICTED),
        ("have other iterations, alpha or candidates", lambda record: not _has_paper_options(record)),
    )
    counts = {what: sum(map(differs, records)) for what, differs in differences}
    found = [f"{count:,} {what}" for what, count in counts.items() if count]
    if found:
        yield (
            f"The paper's figures cannot be compared with these: of the {len(records):,} records of {model}, "
            f"{', '.join(found)}. cody evaluate --paper does as the paper did."
        )


def _follows_paper(record: Record) -> bool:
    """Whether an explainer had the paper's options and candidates."""
    return _has_paper_options(record) and _is_among_nodes(record) and record.allowed == REMOVALS


def _has_paper_options(record: Record) -> bool:
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
