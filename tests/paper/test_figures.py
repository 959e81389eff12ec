"""Figures: which are drawn, what their curves say, and that they are the same each time."""

import builtins
import errno
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.errors import CallError, CodyError, DataError
from cody.study.arrange import arrange
from some_records import record, small_evaluation

pytest.importorskip("matplotlib")
from cody.paper import figures
from cody.paper.figures import draw, looks, save_figures


def given(alpha, size):
    return {"search": {"alpha": alpha}, "candidates": {"size": size}}


ALPHAS = [
    record(event=event, necessary=event < 4 * alpha, options={"search": {"alpha": alpha}, "candidates": {"size": 64}})
    for alpha in (0.5, 0.75)
    for event in range(4)
]


def looks_of(*explainers):
    return looks(record(explainer=name) for name in explainers)


def curve(axes, colour):
    """The step curve of a colour as a function of x."""
    (line,) = [one for one in axes.lines if one.get_color() == colour and one.get_drawstyle() == "steps-post"]
    x, y = line.get_data()
    return lambda place: y[np.searchsorted(x, place, side="right") - 1]


def test_the_curve_of_fidelity_against_sparsity_counts_all_links():
    records = [
        record(event=1, necessary=True, rows=(1,), candidates=10),
        record(event=2, necessary=True, rows=(1, 2, 3), candidates=10),
        record(event=3, necessary=False, rows=(1,), candidates=10),
        record(event=4, necessary=False, rows=(), candidates=10),
    ]
    look = looks_of("cody-temporal")
    (axes,) = figures.fidelity_against_sparsity(records, look).axes
    share = curve(axes, look["cody-temporal"].colour)
    assert [share(place) for place in (0.05, 0.1, 0.2, 0.3, 0.39)] == [0, 0.25, 0.25, 0.5, 0.5]


def test_markers_lie_on_their_curves():
    records = [record(event=i, necessary=True, rows=tuple(range(i + 1)), candidates=10) for i in range(10)]
    look = looks_of("cody-temporal")
    (axes,) = figures.fidelity_against_sparsity(records, look).axes
    share = curve(axes, look["cody-temporal"].colour)
    (markers,) = [one for one in axes.lines if one.get_linestyle() == "None"]
    assert [share(x) for x in markers.get_xdata()] == markers.get_ydata().tolist()


def test_the_curve_of_calls_rises_where_the_first_counterfactual_came():
    found = [record(event=1, first=10, necessary=True), record(event=2, first=100, necessary=True)]
    records = [*found, record(event=3), record(event=4)]
    look = looks_of("cody-temporal")
    (axes,) = figures.fidelity_against_calls(records, look).axes
    share = curve(axes, look["cody-temporal"].colour)
    assert [share(place) for place in (1, 9, 10, 99, 100, 280)] == [0, 0, 0.25, 0.25, 0.5, 0.5]
    assert axes.get_xlim()[1] == 280


def test_the_heat_map_shows_the_similarities():
    records = [record(rows=(1, 2)), record(explainer="other", rows=(2, 3))]
    axes = figures.similarity(records).axes[0]
    assert [text.get_text() for text in axes.texts] == ["1.00", "0.33", "0.33", "1.00"]


def test_every_figure_of_an_evaluation_is_written_twice(tmp_path):
    written = save_figures(small_evaluation(), tmp_path / "new")
    names = {path.stem for path in written}
    assert {"fidelity-sparsity-tgn", "fidelity-calls-tgn", "duration-tgn", "jaccard-tgn-wikipedia-correct"} <= names
    assert not any(name.startswith("sensitivity") for name in names)
    assert {path.suffix for path in written} == {".svg", ".png"}
    assert all(path.stat().st_size > 1000 for path in written)


def test_the_same_records_give_the_same_bytes(tmp_path):
    records = small_evaluation(data=["wikipedia"], count=5)
    one, other = save_figures(records, tmp_path / "one"), save_figures(records, tmp_path / "other")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    assert "<dc:date>" not in one[0].read_text()


def test_sensitivity_is_drawn_for_what_was_varied():
    drawn = dict(draw(arrange(ALPHAS)))
    figure = drawn["sensitivity-tgn-uci-messages-correct-cody-temporal"]
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["α = 0.5", "α = 0.75"]
    assert curve(axes, figures.SEQUENCE[0][0])(0.2) == 0.5
    assert curve(axes, figures.SEQUENCE[1][0])(0.2) == 0.75


def test_sensitivity_compares_records_that_differ_in_one_parameter_only():
    sizes = [record(event=event, options=given(0.5, 96)) for event in range(4)]
    figure = dict(draw(arrange([*ALPHAS, *sizes])))["sensitivity-tgn-uci-messages-correct-cody-temporal"]
    shown = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert shown == [["α = 0.5", "α = 0.75"], ["candidates = 64", "candidates = 96"]]


def test_figures_of_time_are_left_out_where_it_was_not_taken():
    drawn = dict(draw(arrange([record(seconds=None), record(seconds=None, explainer="other")])))
    assert set(drawn) == {"fidelity-sparsity-tgn", "fidelity-calls-tgn", "jaccard-tgn-uci-messages-correct"}


def test_nothing_found_and_nothing_to_remove_can_be_drawn(tmp_path):
    records = [record(rows=(), candidates=0, evaluations=0, seconds=0.0)]
    assert len(save_figures(records, tmp_path)) == 4  # there were no calls to count


def test_an_explainer_looks_the_same_whoever_else_is_there():
    alone, together = looks_of("cody-temporal"), looks_of("cody-temporal", "greedy-temporal", "pgexplainer", "zebra")
    assert alone["cody-temporal"] == together["cody-temporal"]
    assert len(set(together.values())) == 4


def test_settings_of_an_explainer_share_its_colour_and_marker_but_not_its_line():
    found = looks_of("cody-temporal (alpha=0.5)", "cody-temporal (alpha=0.6)", "pbone", "random")
    one, other = found["cody-temporal (alpha=0.5)"], found["cody-temporal (alpha=0.6)"]
    assert one == looks_of("cody-temporal")["cody-temporal"]
    assert (one.colour, one.marker) == (other.colour, other.marker)
    assert one.dash != other.dash
    assert found["pbone"] == looks_of("pbone")["pbone"] != found["random"]


def test_calls_are_counted_only_for_explainers_that_look_for_counterfactuals():
    factual = [record(event=i, explainer="tgnnexplainer", first=2, necessary=False) for i in range(5)]
    searched = [record(event=i, first=9, necessary=True) for i in range(5)]
    drawn = dict(draw(arrange([*factual, *searched])))
    shown = [text.get_text() for text in drawn["fidelity-calls-tgn"].legends[0].get_texts()]
    assert shown == ["cody-temporal"]
    assert "fidelity-calls-tgn" not in dict(draw(arrange(factual)))


def test_a_panel_names_the_explainers_that_were_not_run():
    records = [record(), record(explainer="pbone"), record(data="wikipedia")]
    first, second = figures.fidelity_against_sparsity(records, looks_of("cody-temporal", "pbone")).axes
    assert not first.texts
    assert second.texts[0].get_text() == "not run:\npbone"


def test_marks_of_different_curves_do_not_cover_each_other():
    records = [record(event=i, explainer=name, necessary=True) for i in range(3) for name in ("a", "b", "c")]
    (axes,) = figures.fidelity_against_sparsity(records, looks_of(*"abc")).axes
    marks = [x for line in axes.lines if line.get_linestyle() == "None" for x in line.get_xdata()]
    assert len(set(marks)) == len(marks) == 3 * figures.MARKS


def test_labels_do_not_overlap():
    explainers = ["pgexplainer", "cody-spatio-temporal", "greedy-event-impact", "cody-random"]
    for _, figure in draw(arrange(small_evaluation(explainers=explainers, count=5))):
        figure.draw_without_rendering()
        legend = [one.get_window_extent() for one in figure.legends]
        labels = [axes.xaxis.get_label().get_window_extent() for axes in figure.axes if axes.get_xlabel()]
        boxes = [*legend, *labels, *(axes.title.get_window_extent() for axes in figure.axes if axes.get_title())]
        assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and 0 <= box.y0 <= figure.bbox.y1 for box in boxes)


def test_the_command_writes_into_a_folder(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(record().to_json() + "\n")
    result = CliRunner().invoke(app, ["figures", str(path), "--out", str(tmp_path / "figures")])
    assert result.exit_code == 0, result.exception
    assert len(result.stdout.splitlines()) == len(list((tmp_path / "figures").iterdir())) == 6


def test_no_records_are_refused_before_a_folder_is_made(tmp_path):
    with pytest.raises(DataError, match="no records"):
        save_figures([], tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


def test_titles_count_the_links():
    drawn = dict(draw(arrange([*small_evaluation(count=5), *small_evaluation(count=5, explainers=["a"])])))
    assert drawn["fidelity-sparsity-tgn"].axes[0].get_title() == "uci-messages, 5 correct"
    assert drawn["jaccard-tgn-wikipedia-correct"].axes[0].get_title() == "tgn, wikipedia, 5 correct"
    assert drawn["duration-tgn"].axes[0].get_title() == "uci-messages, 5 links"


def test_curves_that_coincide_can_be_distinguished():
    records = [record(event=i, explainer=name, necessary=True) for i in range(3) for name in ("a", "b", "c")]
    (axes,) = figures.fidelity_against_sparsity(records, looks_of(*"abc")).axes
    widths = [line.get_linewidth() for line in axes.lines if line.get_drawstyle() == "steps-post"]
    assert widths == sorted(set(widths), reverse=True)


def test_names_are_not_read_as_mathematics(tmp_path):
    written = save_figures([record(data=r"$\frac{$", explainer="$x^2$"), record(data=r"$\frac{$")], tmp_path)
    assert "<!-- $x^2$ -->" in written[0].read_text()


def test_options_that_are_not_numbers_are_not_drawn_against():
    records = [record(event=i, options=given(alpha, 64)) for i in range(2) for alpha in ("x", [1], 0.5)]
    assert not any(name.startswith("sensitivity") for name, _ in draw(arrange(records)))


def test_no_figure_overwrites_another(tmp_path):
    records = [
        record(data=data, explainer=name) for data in ("данные", "сеть", "a b", "a/../a_b") for name in ("one", "other")
    ]
    written = save_figures(records, tmp_path)
    assert len(set(written)) == len(written) == len(list(tmp_path.iterdir()))
    assert tmp_path / "jaccard-tgn-сеть-correct.svg" in written


def test_a_full_disk_leaves_no_empty_figure_and_names_the_path(tmp_path, monkeypatch):
    def fill(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(CodyError, match=r"cannot write .*fidelity-sparsity-tgn\.svg: No space left"):
        save_figures([record()], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_foreign_files_are_not_replaced_by_figures(tmp_path, kind):
    thesis = tmp_path / f"fidelity-sparsity-tgn.{kind}"
    thesis.write_text("years of work")
    with pytest.raises(CallError, match=rf"fidelity-sparsity-tgn\.{kind} exists and was not drawn by this version"):
        save_figures([record()], tmp_path)
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(thesis, "years of work")]


def test_figures_are_replaced_and_have_the_usual_mode(tmp_path):
    mask = os.umask(0)
    os.umask(mask)
    written = save_figures([record()], tmp_path)
    assert save_figures([record(event=2)], tmp_path) == written
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666 & ~mask}
    assert len(list(tmp_path.iterdir())) == len(written)


def test_figures_cannot_be_saved_where_a_file_is(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CallError, match=r"cannot use .* as the folder of the figures"):
        save_figures([record()], tmp_path / "file")


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name=name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "cody.paper.figures")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(CodyError, match=r"needs matplotlib, which is not installed: pip install .*\[figures\]"):
        __import__("cody.paper.figures")
