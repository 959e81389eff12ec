"""The figure for papers: only lanes that matter, small, with fonts of at least 7 points."""

import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.errors import CallError
from cody.study import survey_of
from cody.web import write_figure
from cody.web.drawing import caption
from cody.web.survey_drawing import survey_figure, write_survey_figure
from cody.web.survey_page import TITLES
from study.surveyed import explained
from web.explained import cut_short, imagined, large, nothing, toy

FigureCanvasAgg = pytest.importorskip("matplotlib.backends.backend_agg").FigureCanvasAgg


@pytest.mark.parametrize("width", [3.3, 7.0])
@pytest.mark.parametrize("explained", [toy, large, imagined, cut_short, nothing], ids=lambda made: made.__name__)
def test_every_explanation_can_be_drawn_and_nothing_is_cut(explained, width, tmp_path):
    why = explained()
    drawn = why.figure(width)
    assert drawn.get_size_inches()[0] == width
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    renderer, whole = canvas.get_renderer(), drawn.bbox
    (plot,) = drawn.axes
    texts = [*plot.get_yticklabels(), *plot.get_xticklabels(), plot.title, plot.xaxis.label, *drawn.legends[0].texts]
    texts = [text for text in [*texts, *drawn.texts, *plot.texts] if text.get_text()]
    assert drawn.texts[0].get_text().startswith(f"{why.src} → {why.dst}: score") or explained is large
    assert all(text.get_fontsize() >= 7 for text in texts)
    for text in texts:
        box = text.get_window_extent(renderer)
        assert whole.x0 - 1 <= box.x0 <= box.x1 <= whole.x1 + 1, text.get_text()
    ends = {why.src, why.dst} if explained is not large else set()
    assert ends <= {label.get_text() for label in plot.get_yticklabels()}


def test_only_lanes_of_the_answer_are_drawn(tmp_path):
    why = toy()
    nodes = {end for row in why.rows for end in (why.candidate(row).src, why.candidate(row).dst)}
    (plot,) = why.figure().axes
    assert {label.get_text() for label in plot.get_yticklabels()} == nodes | {why.src, why.dst}
    crosses = [line for line in plot.lines if line.get_marker() == "x"]
    assert len(crosses) == len(why.rows)


@pytest.mark.parametrize("kind", ["pdf", "svg", "png"])
def test_the_command_writes_it_and_the_same_file_each_time(kind, tmp_path):
    file = tmp_path / f"why.{kind}"
    arguments = ["explain", "--event", "53854", "--figure", str(file), "--json"]
    contents = []
    for _ in range(2):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        contents.append(file.read_bytes())
    assert contents[0] == contents[1]
    assert len(contents[0]) < 60_000
    assert contents[0].startswith({"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[kind])


def test_fonts_are_embedded_and_the_caption_is_the_reason(tmp_path):
    why = toy()
    write_figure(why, tmp_path / "why.pdf")
    assert b"/FontFile2" in (tmp_path / "why.pdf").read_bytes()
    assert caption(why) == f"{why.reason} {why.sentence}"


def test_a_file_of_another_kind_is_refused_before_the_search(tmp_path):
    with pytest.raises(CallError, match=r"must end in .pdf, .svg or .png"):
        write_figure(toy(), tmp_path / "why.docx")
    refused = CliRunner().invoke(app, ["explain", "--event", "53854", "--figure", str(tmp_path / "why.html")])
    assert refused.exit_code != 0
    assert not (tmp_path / "why.html").exists()


def test_the_curve_of_a_survey_has_the_shares_of_its_page(tmp_path):
    (one, graph), (other, _) = explained(-10.0, "toy"), explained(-14.0, "strict")
    surveys = [survey_of(one, graph), survey_of(other, graph)]
    (plot,) = survey_figure(surveys, 3.3).axes
    shown = {line.get_label(): line.get_ydata() for line in plot.lines}
    parts = {
        f"{each.model}: {TITLES[part.kind].lower()} ({part.links})": part for each in surveys for part in each.parts
    }
    assert shown.keys() == parts.keys()
    for title, part in parts.items():
        for each in part.fragility:
            assert shown[title][each.edits] == pytest.approx(each.share.value)
    write_survey_figure(surveys[:1], tmp_path / "curve.pdf")
    content = (tmp_path / "curve.pdf").read_bytes()
    assert b"/FontFile2" in content
    assert len(content) < 40_000
