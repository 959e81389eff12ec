"""An explanation as a figure for papers and slides: the lanes that matter, always light, in vectors of a few kB."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cody.errors import CallError
from cody.explaining.explanation import Event, Explanation
from cody.models.decision import InTop
from cody.utils.extras import missing
from cody.utils.files import check_target, write_atomically
from cody.web.facts import AGAINST, FOR, REMOVED, Facts
from cody.web.timeline import Axis, axes, lanes

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.transforms import ScaledTranslation
except ImportError:
    raise missing("a figure", "matplotlib") from None

NARROW, WIDE = 3.3, 7.0  # inches: one column, and two
NARROWEST, WIDEST = 1, 40  # inches: in less there is no room for names
LANE, LINE, AROUND = 0.17, 0.15, 0.55  # inches of a lane, of a line of title or legend, and of the axis
COLOURS = {FOR: "#1767a8", AGAINST: "#bf5410"}
GREY, FAINT, INK = "#8b949c", "#d5d7d8", "#1c2126"
NOW = 1.05  # where the explained link stands; past events lie between 0 and 1
LETTERS = 15.0  # of a title, to an inch
CROWDED = 4.0  # inches; a narrower figure has fewer labels
BETWEEN_ENDS = 1.2  # lanes
CROSS = 0.7  # of an arrow: where it is crossed out
BOW = 0.12  # of an arrow, as a share of its length
KINDS = {"pdf", "svg", "png"}
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 7,
    "pdf.fonttype": 42,  # fonts are embedded, and texts stay texts
    "svg.hashsalt": "cody",
    "text.parse_math": False,
    "legend.frameon": False,
}


def figure(why: Explanation, width: float = NARROW) -> Figure:
    """The timeline of an explanation, drawn with matplotlib.

    Args:
        why: The explanation.
        width: In inches: 3.3 fits one column of a paper, 7 fits two.
    """
    check_width(width)
    facts = Facts(why, served=True)  # nothing is clicked
    kept = _kept(facts)
    rows, _ = lanes(why, kept)
    names = sorted((name for name in kept if name in rows), key=lambda name: rows[name].y)
    below = names.index(max((why.src, why.dst), key=names.index))  # more room between the two ends
    height = {name: len(names) - place + BETWEEN_ENDS * (place < below) for place, name in enumerate(names)}
    drawn = [number for number, event in enumerate(why.candidates) if _is_drawn(event, facts, height)]
    title = [part for line in _title(facts) for part in textwrap.wrap(line, int(LETTERS * width))]
    handles = _legend(facts, drawn)
    columns = len(handles) if width > CROWDED or len(handles) < 4 else 2
    lines = len(title) + math.ceil(len(handles) / max(1, columns))
    with rc_context(STYLE):
        size = width, AROUND + LINE * lines + LANE * (len(names) + BETWEEN_ENDS)
        made = Figure(figsize=size, layout="constrained")
        plot = made.add_subplot()
        layout = axes([event.time for event in why.candidates], why.query.time)[0]
        _draw_lanes(plot, facts, height, layout if width > CROWDED else layout._replace(ticks=layout.ticks[::-2]))
        for number in drawn:
            event = why.candidates[number]
            _draw_event(plot, facts, number, (height[event.src], height[event.dst]), layout.places[number])
        _draw_link(plot, facts, height)
        made.suptitle("\n".join(title), fontsize=8, x=0.01, ha="left")
        made.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=1.6, columnspacing=1.2)
    return made


def caption(why: Explanation) -> str:
    """The text below the figure."""
    return " ".join(part for part in (why.reason, why.sentence) if part)


def write_figure(why: Explanation, file: Path, width: float = NARROW) -> None:
    """Write the figure as PDF, SVG or PNG, whichever the name of the file says."""
    save_figure(figure(why, width), file, caption(why))


def save_figure(made: Figure, file: Path, about: str) -> None:
    """Write a figure; the same one gives the same file each time.

    Args:
        made: The figure.
        file: Its ending says in which format.
        about: What a PDF says that it is about.
    """
    check_figure_file(file)
    kind, content = file.suffix[1:].lower(), io.BytesIO()
    metadata = {"pdf": {"Subject": about, "CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with rc_context(STYLE):
        made.savefig(content, format=kind, dpi=300, metadata=metadata)
    write_atomically(file, content.getvalue())


def check_width(width: float) -> None:
    """Raise an error if a figure cannot be that wide."""
    if not NARROWEST <= width <= WIDEST:
        raise CallError(f"a figure is {NARROWEST} to {WIDEST} inches wide, not {width}")


def check_figure_file(file: Path) -> None:
    """Raise an error if a figure cannot be written here."""
    if file.suffix[1:].lower() not in KINDS:
        raise CallError(f"{file} must end in .pdf, .svg or .png: a figure is one of these")
    check_target(file, "figure")


def _kept(facts: Facts) -> set[str]:
    """The lanes that are drawn: the ends, and the nodes of the answer; where there is none, those that matter most."""
    why = facts.why
    answer = {end for row in why.rows for end in why.candidates[facts.number[row]][1:3]}
    ends = {why.src, why.dst}
    return ends | (answer & facts.kept_lanes if answer else facts.kept_lanes)


def _is_drawn(event: Event, facts: Facts, height: dict[str, float]) -> bool:
    """Whether an event lies between two lanes; of what is imagined, only the answer is drawn."""
    between = event.src in height and event.dst in height and event.src != event.dst
    return between and (event.edit == REMOVED or event.row in facts.why.rows)


def _title(facts: Facts) -> list[str]:
    """The decision, and below it what becomes of it."""
    why = facts.why
    first, last = facts.gauge.written(why.original, why.logits[-1])
    about = facts.labels[why.src] if why.subject == "node" else f"{facts.labels[why.src]} → {facts.labels[why.dst]}"
    ranks = [standing and standing.rank for standing in why.standings] if isinstance(why.decision, InTop) else []
    if ranks and None not in (ranks[0], ranks[-1]):  # says more than the lead
        first, last = f"rank {ranks[0]:,}", f"rank {ranks[-1]:,}"
    else:
        first = f"{facts.gauge.word} {first}"
    before = f"{about}: {first} ({facts.outcome(why.original)})"
    if not why.rows or why.logits[-1] is None:
        return [before]
    changed = f"without {len(why.rows)} {facts.thing}{'s' if len(why.rows) > 1 else ''}"
    if any(why.candidates[facts.number[row]].edit != REMOVED for row in why.rows):
        changed = f"with {len(why.rows)} edit{'s' if len(why.rows) > 1 else ''}"
    return [before, f"{changed}: {last} ({facts.outcome(why.logits[-1])})"]


def _draw_lanes(plot: Axes, facts: Facts, height: dict[str, float], layout: Axis) -> None:
    """Lines with the names of their nodes, and an axis that says how long before."""
    ends = (facts.why.src, facts.why.dst)
    for name, y in height.items():
        plot.axhline(y, color=INK if name in ends else FAINT, linewidth=0.8 if name in ends else 0.5, zorder=0)
    plot.set_yticks(list(height.values()), [facts.short_labels[name] for name in height])
    for label, name in zip(plot.get_yticklabels(), height, strict=True):
        label.set_fontweight("bold" if name in ends else "normal")
    plot.set_xticks([tick.at for tick in layout.ticks], [tick.label for tick in layout.ticks])
    plot.set_xlabel("before, logarithmic")
    plot.set_xlim(-0.02, NOW + 0.05)
    plot.set_ylim(0.5, max(height.values()) + 0.4)
    plot.tick_params(length=0, pad=2)
    for side in plot.spines.values():
        side.set_visible(False)


def _draw_event(plot: Axes, facts: Facts, number: int, lanes: tuple[float, float], x: float) -> None:
    """An arrow from source to destination; crossed out if the answer removes it, dashed if it is imagined."""
    event, (start, end) = facts.why.candidates[number], lanes
    decisive, colour = event.row in facts.why.rows, COLOURS.get(facts.effect(number), GREY)
    width = 0.5 + 1.6 * facts.strength(number)
    arrow = FancyArrowPatch(
        (x, start),
        (x, end),
        connectionstyle=f"arc3,rad={BOW if end > start else -BOW}",
        arrowstyle="->",
        mutation_scale=5,
        linewidth=width,
        color=colour,
        alpha=1.0 if decisive or colour != GREY else 0.7,
        shrinkA=0,
        shrinkB=0,
        zorder=3 if decisive else 2,
        linestyle="-" if event.edit == REMOVED else "--",
    )
    plot.add_patch(arrow)
    if decisive and event.edit == REMOVED:
        y = start + CROSS * (end - start)  # off the lanes between
        bow = 2 * CROSS * (1 - CROSS) * BOW * LANE * abs(end - start)  # inches to the right of the straight line
        on_the_arrow = plot.transData + ScaledTranslation(bow, 0, plot.figure.dpi_scale_trans)
        plot.plot([x], [y], "x", color=INK, markersize=4.5, markeredgewidth=1.3, zorder=4, transform=on_the_arrow)
        if len(facts.why.rows) == 1:
            aside, anchor = ((-7, 0), "right") if x > 0.5 else ((9, 0), "left")
            words = f"{facts.before(event)} before"
            plot.annotate(words, (x, y), xytext=aside, textcoords="offset points", ha=anchor, va="center", zorder=5)


def _draw_link(plot: Axes, facts: Facts, height: dict[str, float]) -> None:
    start, end = height[facts.why.src], height[facts.why.dst]
    if start != end:
        ends = {"arrowstyle": "->", "linewidth": 1.3, "color": INK, "shrinkA": 0, "shrinkB": 0}
        plot.annotate("", (NOW, end), (NOW, start), arrowprops=ends)
    circle = {"boxstyle": "circle,pad=0.2", "facecolor": INK, "edgecolor": "none"}
    plot.text(NOW, (start + end) / 2, "?", color="white", fontweight="bold", ha="center", va="center", bbox=circle)


def _legend(facts: Facts, drawn: Sequence[int]) -> list[Line2D]:
    """What colours and crosses mean, as far as they occur."""
    effects, positive = {facts.effect(number) for number in drawn}, f"“{facts.outcome(1.0)}”"
    answer = {event.edit for event in map(facts.why.candidates.__getitem__, drawn) if event.row in facts.why.rows}
    entries: list[tuple[bool, str, dict[str, Any]]] = [
        (FOR in effects, f"for {positive}", {"color": COLOURS[FOR]}),
        (AGAINST in effects, f"against {'it' if FOR in effects else positive}", {"color": COLOURS[AGAINST]}),
        (bool(effects - {FOR, AGAINST}), "little effect alone", {"color": GREY, "linewidth": 0.7}),
        (REMOVED in answer, "removed", {"color": INK, "marker": "x", "linestyle": "", "markersize": 4.5}),
        (bool(answer - {REMOVED}), "imagined", {"color": GREY, "linestyle": "--"}),
    ]
    return [Line2D([], [], **({"linewidth": 1.6} | look), label=words) for there, words, look in entries if there]
