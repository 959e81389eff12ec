"""The figures of the paper's evaluation, drawn from records: SVG for print, PNG to look at."""

from __future__ import annotations

import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError, CodyError
from cody.graph import FloatArray
from cody.study.arrange import DATA, MODELS, Parts, arrange, explainers_in_order, in_order, setting_of
from cody.study.explainers import FACTUAL, POLICIES, SEARCHES, SEARCHING, known
from cody.study.metrics import grouped, groups, jaccard, link_of, mean_seconds
from cody.study.record import KINDS, Record
from cody.utils.extras import needed_by
from cody.utils.files import write_atomically
from cody.utils.words import applied_to

with needed_by("cody figures"):
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D

PAGE = 6.75  # inches: the width of a page with two columns
PANEL = 1.85  # height of one panel
STYLE = Path(__file__).with_name("figures.mplstyle")
VARIED = {"search.alpha": "α", "candidates.size": "candidates"}  # options that sensitivity is drawn for

# Okabe and Ito's colours, which the colour-blind can tell apart. A policy has a colour, a search a line style.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK = "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
COLOURS = dict(zip(POLICIES, (ORANGE, SKY, GREEN, BLUE, RED), strict=True))
MARKERS = dict(zip(POLICIES, "ov^sd", strict=True))
SEARCH_DASHES = ((0, (6, 1.2, 1, 1.2)), (0, (4, 1.5)), "-", (0, (10, 2)))
DASHES: dict[str, Any] = dict(zip(SEARCHES, SEARCH_DASHES, strict=True))
DOTS = (0, (1, 1.2))
FACTUAL_LOOKS = (("#999999", "*"), (PINK, "P"), (GREEN, "H"), (BLACK, "D"), (RED, "X"), (BLUE, "^"))
OTHERS = ((BLACK, "<"), (RED, ">"), (PINK, "h"), ("#999999", "p"))
OTHER_DASHES = ((0, (3, 1, 1, 1)), (0, (5, 3)), (0, (8, 2, 1, 2, 1, 2)), "-")
SEQUENCE = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"), (BLACK, "v"))
LETTER = 0.06  # inches: the width of a letter in a label
WIDEST, THINNEST = 2.4, 1.0  # lines, in points
MARKS = 5  # on each curve
SPARSITIES = (0, 0.02, 0.1, 0.2, 0.4, 0.7, 1.0)  # ticks of an axis
DRAWN_BY = "cody figures"  # in the metadata of every file: only such files are replaced
ANSWERED = 0.9  # an explainer that looks for counterfactuals answers with at least this share of those it meets


class Look(NamedTuple):
    colour: str
    dash: Any
    marker: str


# Factual explainers are dotted; others have the line style of the search in the colour of the policy.
LOOKS: dict[Parts, Look] = {
    entry.parts: Look(colour, DOTS, marker) for entry, (colour, marker) in zip(FACTUAL, FACTUAL_LOOKS, strict=True)
} | {
    (search, policy): Look(COLOURS[policy], DASHES[search], MARKERS[policy])
    for search, policy in (entry.parts for entry in SEARCHING)
}


def save_figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw every figure that the records allow. The same records give the same files; no other files are replaced."""
    arranged = arrange(records)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CallError(f"cannot use {str(folder)!r} as the folder of the figures: {error.strerror}") from None
    drawn: dict[Path, bytes] = {}
    with rc_context(fname=STYLE):
        for name, figure in draw(arranged):
            stem = _file_name(name, {path.stem for path in drawn})
            for kind, metadata in (("svg", {"Date": None, "Creator": DRAWN_BY}), ("png", {"Software": DRAWN_BY})):
                content = io.BytesIO()
                figure.savefig(content, format=kind, dpi=200, metadata=metadata)
                drawn[folder / f"{stem}.{kind}"] = content.getvalue()
    for path in drawn:
        _reject_foreign(path)
    for path, written in drawn.items():
        with _one_clear_error(path):
            write_atomically(path, written)
    return list(drawn)


@contextmanager
def _one_clear_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CodyError(f"cannot write {path}: {error.strerror}") from None


def _file_name(name: str, taken: Set[str]) -> str:
    """A file name of letters (of any language), digits and `_.-`; never that of another figure."""
    stem = re.sub(r"[^\w.-]+", "_", name)
    others = (f"{stem}-{number}" for number in itertools.count(2))
    return next(free for free in itertools.chain([stem], others) if free not in taken)


def _reject_foreign(path: Path) -> None:
    """Do not replace a file whose metadata do not say that it was drawn here."""
    if not path.exists():
        return
    with _one_clear_error(path), path.open("rb") as file:
        ours = DRAWN_BY.encode() in file.read(4096)
    if not ours:
        raise CallError(f"{path} exists and was not drawn by this version of cody; choose another folder, or move it")


def draw(records: Sequence[Record]) -> Iterator[tuple[str, Figure]]:
    """The figures of arranged records, each with its name."""
    look = looks(records)
    for model in in_order((record.model for record in records), MODELS):
        mine = [record for record in records if record.model == model]
        yield f"fidelity-sparsity-{model}", fidelity_against_sparsity(mine, look)
        searching = [each for members in _by_explainer(mine).values() if _looks_for_one(members) for each in members]
        if searching:
            yield f"fidelity-calls-{model}", fidelity_against_calls(searching, look)
        if any(mean_seconds(group) is not None for group in groups(mine).values()):
            yield f"duration-{model}", duration(mine, look)
        for (data, kind), group in _by_data_and_kind(mine).items():
            if len({record.explainer for record in group}) > 1:
                yield f"jaccard-{model}-{data}-{kind}", similarity(group)
            for explainer, panels in _varied(group).items():
                yield f"sensitivity-{model}-{data}-{kind}-{explainer}", sensitivity(panels, f"{explainer}, {kind}")


def _looks_for_one(records: Sequence[Record]) -> bool:
    """Whether an explainer looks for counterfactuals: it asks the model, and if it meets one, that is its answer.

    T-GNNExplainer and PBONE may meet one by chance, and answer with something else.
    """
    met = [record.first is not None for record in records]
    answered = [record.is_necessary for record in records]
    both, either = np.logical_and(met, answered).sum(), np.logical_or(met, answered).sum()
    return any(record.evaluations for record in records) and bool(both >= ANSWERED * either)


def looks(records: Iterable[Record]) -> dict[str, Look]:
    """How each explainer is drawn, in every figure. Those outside the catalogue take the remaining looks in turn.

    Several settings of an explainer have its colour and its marker; the first has its line style too.
    """
    found: dict[str, Look] = {}
    first: dict[Parts, Look] = {}  # of each explainer, whatever its setting
    settings: Counter[Parts] = Counter()
    for name, parts in explainers_in_order(records).items():
        if parts in first:
            found[name] = first[parts]._replace(dash=OTHER_DASHES[settings[parts] % len(OTHER_DASHES)])
            settings[parts] += 1
        else:
            found[name] = first[parts] = LOOKS.get(parts) or _other_look(len(first))
    return found


def _other_look(number: int) -> Look:
    colour, marker = OTHERS[number % len(OTHERS)]
    return Look(colour, OTHER_DASHES[number // len(OTHERS) % len(OTHER_DASHES)], marker)


# Curves: shares of the links, one panel for each data set and kind.


def fidelity_against_sparsity(records: Sequence[Record], look: Mapping[str, Look]) -> Figure:
    """Cumulative: the share of links whose decision changes without an X of at most that sparsity."""
    largest = max((record.sparsity for record in records if record.is_necessary), default=1.0)
    limit = min(1.0, np.floor(10 * largest + 1) / 10)  # beyond it nothing changes
    figure, panels = _panels(records, "sparsity at most, |X| / |C|", "fidelity+")
    for axes, group in panels:
        for explainer, members, width, marks in _curves(_by_explainer(group)):
            _steps(axes, _sparsities(members), len(members), (0, limit), limit * marks**2, look[explainer], width)
        _widen_small(axes, limit)
    _legend(figure, look, records)
    return figure


def fidelity_against_calls(records: Sequence[Record], look: Mapping[str, Look]) -> Figure:
    """The share of links for which the explainer met a counterfactual within that many calls.

    A curve ends at the largest number of calls of its explainer.
    """
    figure, panels = _panels(records, "calls to the model", "share with a counterfactual")
    most = max(record.evaluations for record in records)
    for axes, group in panels:
        for explainer, members, width, marks in _curves(_by_explainer(group)):
            firsts = np.sort([record.first for record in members if record.first is not None]).astype(np.float64)
            end = max(1, *(record.evaluations for record in members))
            _steps(axes, firsts, len(members), (1, end), end**marks, look[explainer], width)
        axes.set(xscale="log", xlim=(1, max(2, most)))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter("")
    _legend(figure, look, records)
    return figure


def _sparsities(records: Sequence[Record]) -> FloatArray:
    return np.sort([record.sparsity for record in records if record.is_necessary]).astype(np.float64)


def _curves(named: Mapping[str, Sequence[Record]]) -> Iterator[tuple[str, Sequence[Record], float, FloatArray]]:
    """Each curve with its line width, and where its marks lie, as shares of the axis: not at those of the others.

    The first are wider, so that they show under a later one at the same place.
    """
    widths = np.linspace(WIDEST, THINNEST, len(named)).tolist()
    for number, ((name, members), width) in enumerate(zip(named.items(), widths, strict=True), start=1):
        yield name, members, width, (np.arange(MARKS) + number / (len(named) + 1)) / MARKS


def _widen_small(axes: Axes, limit: float) -> None:
    """A square-root axis from 0: most explanations are sparse, and explainers differ there."""
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
    axes.set_xlim(0, limit)
    axes.set_xticks([share for share in SPARSITIES if share <= limit], minor=False)
    axes.xaxis.set_major_formatter("{x:g}")


def _steps(
    axes: Axes, places: FloatArray, count: int, span: tuple[float, float], marked: FloatArray, look: Look, width: float
) -> None:
    """A curve over a span that rises by 1/count at each place, with marks on it."""
    x = np.concatenate([span[:1], places, [max([span[1], *places])]])
    y = np.concatenate([[0], np.arange(1, len(places) + 1), [len(places)]]) / count
    axes.step(x, y, where="post", color=look.colour, linestyle=look.dash, linewidth=width)
    heights = np.searchsorted(places, marked, side="right") / count
    axes.plot(marked, heights, linestyle="", marker=look.marker, color=look.colour, clip_on=False)


def _panels(records: Sequence[Record], xlabel: str, ylabel: str) -> tuple[Figure, list[tuple[Axes, list[Record]]]]:
    """A grid of axes: a row for each kind of prediction, a column for each data set."""
    found = _by_data_and_kind(records)
    names = in_order((data for data, _ in found), DATA)
    kinds = in_order((kind for _, kind in found), KINDS)
    width = min(PAGE, 2.25 * max(2, len(names)))
    explainers = explainers_in_order(records)
    legend = 0.16 * np.ceil(len(explainers) / _beside(explainers, width))
    figure = Figure(figsize=(width, PANEL * len(kinds) + legend + 0.4), layout="constrained")
    figure.suptitle(records[0].model, fontsize=8, fontweight="bold")
    grid = figure.subplots(len(kinds), len(names), sharex=True, sharey=True, squeeze=False)
    filled = []
    for (row, kind), (column, data) in itertools.product(enumerate(kinds), enumerate(names)):
        axes, group = grid[row, column], found.get((data, kind), [])
        axes.set_title(f"{data}, {_links(group)} {kind}")
        absent = [name for name in explainers if name not in {record.explainer for record in group}]
        if group:
            filled.append((axes, group))
        if group and absent:
            text = "\n".join(["not run:", *absent])
            axes.text(0.03, 0.97, text, transform=axes.transAxes, ha="left", va="top", fontsize=6, color="#777777")
    for axes in grid[-1]:
        axes.set_xlabel(xlabel)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    return figure, filled


def _legend(figure: Figure, look: Mapping[str, Look], records: Sequence[Record]) -> None:
    """A legend below the panels, whose shared y axis starts at 0."""
    figure.axes[0].set_ylim(0, None)
    present = explainers_in_order(records)
    style = {name: dict(zip(("color", "linestyle", "marker"), look[name], strict=True)) for name in present}
    lines = [Line2D([], [], **style[name], label=name) for name in present]
    figure.legend(handles=lines, loc="outside lower center", ncols=_beside(present, figure.get_figwidth()))


def _beside(names: Iterable[str], width: float) -> int:
    """How many names of a legend fit side by side."""
    return min(4, max(1, int(width / (0.45 + 0.053 * max(map(len, names))))))


# Points and cells


def duration(records: Sequence[Record], look: Mapping[str, Look]) -> Figure:
    """Mean seconds of an explanation, on a logarithmic axis."""
    names = in_order((record.data for record in records), DATA)
    explainers = [*explainers_in_order(records)][::-1]
    width = max(4.8, min(PAGE, LETTER * max(map(len, explainers)) + 0.4 + 1.7 * len(names)))
    figure = Figure(figsize=(width, 0.9 + 0.19 * len(explainers)), layout=ConstrainedLayoutEngine(wspace=0.06))
    grid = figure.subplots(1, len(names), sharex=True, sharey=True, squeeze=False)[0]
    times = []
    for group, members in groups(records).items():
        seconds = mean_seconds(members)
        if seconds is not None:
            times.append(max(seconds, 1e-6))  # a logarithmic axis cannot show 0
            fill = look[group.explainer].colour if group.kind == KINDS[0] else "white"
            style = {"marker": look[group.explainer].marker, "markeredgecolor": look[group.explainer].colour}
            place = explainers.index(group.explainer) + (0.15 if group.kind == KINDS[0] else -0.15)
            grid[names.index(group.data)].plot(times[-1], place, linestyle="", markerfacecolor=fill, **style)
    for axes, data in zip(grid, names, strict=True):
        links = _links(record for record in records if record.data == data)
        axes.set(title=f"{data}, {links} links", xscale="log", ylim=(-0.6, len(explainers) - 0.4))
        axes.set_xlim(10.0 ** np.floor(np.log10(min(times) / 1.1)), 10.0 ** np.ceil(np.log10(max(times) * 1.1)))
        axes.set_yticks(range(len(explainers)), explainers)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    figure.suptitle(records[0].model, fontsize=8, fontweight="bold")
    figure.supxlabel("mean seconds of an explanation (filled: correct predictions, hollow: incorrect)", fontsize=8)
    return figure


def similarity(records: Sequence[Record]) -> Figure:
    """Jaccard similarity of each pair of explainers: the mean over the links that both explained."""
    members = _by_explainer(records)
    names = list(members)
    pairs = [[jaccard(members[one], members[other]) for other in names] for one in names]
    values = np.array(pairs, dtype=np.float64)  # nan where no link was explained by both
    labels = [f"{name}  {number}" for number, name in enumerate(names, 1)]
    side = max(1.2, 0.31 * len(names))
    figure = Figure(figsize=(LETTER * max(map(len, labels)) + side + 1.1, side + 0.5), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, vmin=0, vmax=1, cmap="cividis")
    axes.set_xticks(range(len(names)), [str(number) for number in range(1, len(names) + 1)])
    axes.set_yticks(range(len(names)), labels)
    axes.grid(visible=False)
    for (row, column), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{value:.2f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color="black" if value > 0.5 else "white")
    axes.set_title(f"{records[0].model}, {records[0].data}, {_links(records)} {records[0].kind}")
    figure.colorbar(image, ax=axes, label="mean Jaccard similarity")
    return figure


# Sensitivity

Varied = Mapping[str, Mapping[str, Sequence[Record]]]  # parameter, its value, records


def sensitivity(panels: Varied, title: str) -> Figure:
    """Fidelity+ against sparsity for each value of a parameter; the others have their most common values."""
    figure = Figure(figsize=(min(PAGE, 2.9 * len(panels) + 0.4), 2.3), layout="constrained")
    grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    records = [record for values in panels.values() for members in values.values() for record in members]
    limit = min(1.0, 1.05 * max(_sparsities(records), default=1.0)) or 1.0
    for axes, (parameter, values) in zip(grid, panels.items(), strict=True):
        for number, (value, members, width, marks) in enumerate(_curves(values)):
            colour, marker = SEQUENCE[number % len(SEQUENCE)]
            dash = "-" if number < len(SEQUENCE) else ":"
            label, look = f"{VARIED[parameter]} = {float(value):.3g}", Look(colour, dash, marker)
            _steps(axes, _sparsities(members), len(members), (0, limit), limit * marks**2, look, width)
            axes.plot([], [], color=colour, linestyle=dash, marker=marker, label=label)
        _widen_small(axes, limit)
        axes.legend(loc="lower right")
    grid[0].set_ylim(0, None)
    figure.suptitle(f"{applied_to(records[0].model, records[0].data)}: {title}, links: {_links(records)}", fontsize=8)
    figure.supxlabel("sparsity at most, |X| / |C|", fontsize=8)
    figure.supylabel("fidelity+", fontsize=8)
    return figure


def _varied(records: Sequence[Record]) -> dict[str, dict[str, dict[str, list[Record]]]]:
    """For each explainer that was run with several values: parameter, value, records that differ in nothing else."""
    found: dict[str, dict[str, dict[str, list[Record]]]] = {}
    for parts, family in grouped(records, lambda record: (record.search, record.policy)).items():
        members = [(setting_of(record), record) for record in family]
        entry = known(*parts)
        explainer = "-".join(parts) if entry is None else entry.name
        for parameter in VARIED:
            rest = Counter(_without(given, parameter) for given, _ in members)
            values: dict[str, dict[str, list[Record]]] = {}
            for given, record in members:
                if _is_number(given.get(parameter)):
                    values.setdefault(_without(given, parameter), {}).setdefault(given[parameter], []).append(record)
            most = max(values.items(), key=lambda item: (len(item[1]), rest[item[0]]), default=("", {}))[1]
            if len(most) > 1:
                ordered = {value: most[value] for value in sorted(most, key=float)}
                found.setdefault(explainer, {})[parameter] = ordered
    return found


def _is_number(text: str | None) -> bool:
    try:
        return text is not None and math.isfinite(float(text))
    except ValueError:
        return False


def _without(given: Mapping[str, str], parameter: str) -> str:
    return str(sorted((name, value) for name, value in given.items() if name != parameter))


def _by_explainer(records: Sequence[Record]) -> dict[str, list[Record]]:
    found = grouped(records, lambda record: record.explainer)
    return {name: found[name] for name in explainers_in_order(records)}


def _links(records: Iterable[Record]) -> int:
    return len({link_of(record) for record in records})


def _by_data_and_kind(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    return grouped(records, lambda record: (record.data, record.kind))
