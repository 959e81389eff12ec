"""The paper's tables from records: which value goes into which cell. `cody.paper.typeset` writes them."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from cody.models.decided import LINK_PREDICTED
from cody.paper.remarks import Groups, beyond_removals, built_with_other_settings, follows_paper, missing, words_of
from cody.paper.remarks import links as links_of
from cody.study import metrics
from cody.study.arrange import DATA, MODELS, Parts, arrange, explainers_in_order, in_order
from cody.study.decisions import KindWords
from cody.study.explainers import known
from cody.study.metrics import Interval, Metric, MetricInputs, columns, interval
from cody.study.record import KINDS, REMOVALS, Failure, Record, in_words

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


AUFSC_PLUS = Measure(
    "AUFSC+",
    "area under fidelity+ against sparsity = mean of [decision changes without X]·(1 − |X|/|C|)",
    metrics.aufsc_plus,
    in_latex=r"\textit{AUFSC}$_+$",
)
AUFSC_MINUS = Measure(
    "AUFSC−",
    "area under fidelity− against sparsity = mean of [decision stays with X only]·(1 − |X|/|C|)",
    metrics.aufsc_minus,
    in_latex=r"\textit{AUFSC}$_-$",
)
CHARACTERIZATION = Measure(
    "char", "harmonic mean of fidelity+ and fidelity−", metrics.characterization, file_name="char", in_latex="$char$"
)
FIDELITY_PLUS = Measure("fidelity+", "share of links whose decision changes when X is removed", metrics.fidelity_plus)
FIDELITY_MINUS = Measure(
    "fidelity−", "share of links whose decision stays when the past is X only", metrics.fidelity_minus
)
SPARSITY = Measure("sparsity", "mean of |X|/|C|; lower is better", metrics.sparsity, ranked=False)
CALLS = Measure(
    "calls",
    "distinct sets of events that were evaluated; lower is better",
    metrics.mean_evaluations,
    ranked=False,
    file_name="calls",
)
SECONDS = Measure("seconds", "wall time; lower is better", metrics.mean_seconds, 3, ranked=False, file_name="seconds")
RANK = Measure("rank", "median rank of the destination", metrics.rank, 0, ranked=False)
RANK_AFTER = Measure("rank after", "median rank of the destination without X", metrics.rank_after, 0, ranked=False)
RECIPROCAL_RANK_LOST = Measure(
    "RR lost",
    "mean of 1/rank − 1/rank without X; negative where X keeps the destination down",
    metrics.reciprocal_rank_lost,
    3,
    ranked=False,
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which measures a table has, and the order of its columns."""

    name: str
    title: str
    panels: tuple[tuple[Measure, ...], ...]  # one below the other
    data_first: bool = True  # data sets, and the kinds within them; if False, the other way round
    needs_ranks: bool = False  # it is left out where nothing is ranked


LAYOUTS = (
    Layout(
        "aufsc",
        "Area under the fidelity-sparsity curve, and characterization",
        ((AUFSC_PLUS, AUFSC_MINUS, CHARACTERIZATION),),
        data_first=False,
    ),
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
        groups: dict[tuple[str, str], dict[str, list[Record]]] = {}  # data and kind, explainer
        for record in arranged:
            if record.model == model:
                groups.setdefault((record.data, record.kind), {}).setdefault(record.explainer, []).append(record)
        cells = _cells(model, groups, parts, published, rng, level)
        remarks = (
            *in_words(failure for failure in failures if failure.model == model),
            *missing(model, groups),
            *beyond_removals(groups),
            *(_about_paper(model, groups, cells) if paper else ()),
        )
        links = {group: len(links_of(members)) for group, members in groups.items()}
        words = {group: words_of(group[1], members) for group, members in groups.items()}
        ranked = any(record.rank is not None for record in arranged if record.model == model)
        for layout in LAYOUTS:
            if ranked or not layout.needs_ranks:
                shown = tuple(tuple(_order(panel, groups, layout.data_first)) for panel in layout.panels)
                of = None if rng is None else level
                made.append(Table(layout, model, shown, cells, parts, links, remarks, of, words))
    return made


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
    model: str,
    groups: Groups,
    parts: Mapping[str, Parts],
    published: Published,
    rng: np.random.Generator | None,
    level: float,
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
                key = (model, name, SAME_MESSAGES.get(data, data), kind, measure.name)
                rows[explainer][Column(measure, data, kind)] = Cell(
                    value=measure.metric(group),
                    place=places[explainer],
                    interval=None if seed is None else _interval(measure, group, seed, level),
                    paper=published.get(key),
                )
    return rows


def _published_name(explainer: str, parts: Mapping[str, Parts], records: Sequence[Record]) -> str:
    """The paper's name for an explainer; of several settings, only for the one with the paper's options. Else empty."""
    entry = known(*parts[explainer])
    is_only = list(parts.values()).count(parts[explainer]) == 1
    only_removes = all(record.allowed == REMOVALS for record in records)
    if any(record.decision != LINK_PREDICTED for record in records):
        return ""
    has_figures = (is_only and only_removes) or (records and all(map(follows_paper, records)))
    return entry.name if entry is not None and has_figures else ""


def _interval(measure: Measure, group: MetricInputs, seed: int, level: float) -> Interval | None:
    return interval(measure.metric, group, rng=np.random.default_rng(seed), level=level)


def _places(measure: Measure, group: Mapping[str, MetricInputs]) -> dict[str, int | None]:
    """1 + how many are better in the printed digits, so that equals share a place and the next place stays empty.

    None for measures that are not ranked, and for values printed as 0.
    """
    values = {name: measure.metric(members) for name, members in group.items()} if measure.ranked else {}
    printed = {name: rounded(value, measure.digits) for name, value in values.items() if value is not None}
    return {
        name: 1 + sum(other > printed[name] for other in printed.values()) if printed.get(name) else None
        for name in group
    }


def rounded(value: float, digits: int) -> float:
    """Rounds halves up, even if the nearest binary number lies below: 31 of 200 links are 0.16.

    >>> rounded(0.155, 2), round(0.155, 2)
    (0.16, 0.15)
    """
    scale: float = 10.0**digits
    return math.floor(value * scale + 0.5 + 1e-9) / scale


def _about_paper(model: str, groups: Groups, cells: Mapping[str, Mapping[Column, Cell]]) -> Iterator[str]:
    if any(cell.paper is not None for row in cells.values() for cell in row.values()):
        yield from built_with_other_settings(model, groups)
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
