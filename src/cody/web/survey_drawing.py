"""The curve of a survey as a figure for papers and slides: how few events decide how many predictions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from cody.study.report import Survey
from cody.study.shares import flipping
from cody.web.drawing import GREY, INK, NARROW, STYLE, check_width, save_figure
from cody.web.survey_charts import percent_words
from cody.web.survey_page import panels_of

HEIGHT, LINE = 1.75, 0.15  # inches of the plot, and of a line of the legend
LOOKS = ((INK, "-"), (GREY, "-"), (INK, "--"), (GREY, "--"))
BAND = 0.13  # opacity of the intervals


def survey_figure(surveys: Sequence[Survey], width: float = NARROW) -> Figure:
    """The share of predictions that flip with at most so many events, with its interval, drawn with matplotlib.

    Args:
        surveys: One model, or two on the same predictions.
        width: In inches: 3.3 fits one column of a paper, 7 fits two.
    """
    check_width(width)
    panels = panels_of(surveys)
    last = max(each.part.fragility[-1].edits for each in panels)
    with rc_context(STYLE):
        made = Figure(figsize=(width, HEIGHT + LINE * len(panels)), layout="constrained")
        plot = made.add_subplot()
        for panel, (colour, line) in zip(panels, cycle(LOOKS), strict=False):
            shares = flipping([len(each.events) for each in panel.part.predictions], last)
            steps = range(last + 1)
            low, high = [0.0, *(each.low for each in shares)], [0.0, *(each.high for each in shares)]
            plot.fill_between(steps, low, high, step="post", color=colour, alpha=BAND, linewidth=0)
            label = f"{panel.title} ({panel.part.links})"
            heights = [0.0, *(each.value for each in shares)]
            plot.step(steps, heights, where="post", color=colour, linestyle=line, linewidth=1.3, label=label)
        plot.set_xlim(0, last)
        plot.set_ylim(0, 1)
        plot.set_xlabel(f"maximum number of changed {surveys[0].edit_name}s")
        plot.set_ylabel("predictions that flip")
        plot.set_yticks([0, 0.25, 0.5, 0.75, 1], [percent_words(share) for share in (0, 0.25, 0.5, 0.75, 1)])
        for side in ("top", "right"):
            plot.spines[side].set_visible(False)
        made.legend(loc="outside lower center", handlelength=1.6)
    return made


def write_survey_figure(surveys: Sequence[Survey], file: Path, width: float = NARROW) -> None:
    """Write the curve as PDF, SVG or PNG, whichever the name of the file says."""
    about = " and ".join(dict.fromkeys(f"{each.data}, {each.model}" for each in surveys))
    save_figure(survey_figure(surveys, width), file, f"How few events decide a prediction: {about}")
