"""Tables: what stands in a cell, how it is written, and what is refused."""

import csv
import io
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.errors import CodyError, DataError
from cody.paper.tables import LAYOUTS, SPARSITY, Column, paper_figures, tables
from cody.paper.typeset import as_csv, as_latex, as_markdown, as_text
from cody.study import metrics
from cody.study.arrange import arrange
from cody.study.explainers import POLICIES
from cody.study.record_file import EvaluationHeader
from cody.utils.forms import as_line
from some_records import random_records, record, small_evaluation
from texts import assert_same

HEADER = EvaluationHeader(
    version="0", data="d", model="m", data_identity="d", model_identity="m", seed=0, share=False, period=(0.2, 0.6),
    margin=0.0, instances=0, explainers={}, links={},
)  # fmt: skip


GOLDEN = """\
Area under the fidelity-sparsity curve, and characterization
tgn on uci-messages, 4 correct links

                 AUFSC+  AUFSC−  char
explainer        corr.   corr.   corr.
pgexplainer      0.00    0.40    0.00
greedy-temporal  0.20'   0.60'   0.38'
cody-temporal    0.60*   0.80*   0.86*

* best, ' second best in its column; X explanation, C candidates
AUFSC+: area under fidelity+ against sparsity = mean of [decision changes
  without X]·(1 − |X|/|C|)
AUFSC−: area under fidelity− against sparsity = mean of [decision stays with X
  only]·(1 − |X|/|C|)
char: harmonic mean of fidelity+ and fidelity−
"""


def four_links(explainer, *, necessary, sufficient, **values):
    return [
        record(explainer=explainer, event=9 + i, necessary=i < necessary, sufficient=i < sufficient, **values)
        for i in range(4)
    ]


def small(**values):
    return [
        *four_links("cody-temporal", necessary=3, sufficient=4, **values),
        *four_links("pgexplainer", necessary=0, sufficient=2, **values),
        *four_links("greedy-temporal", necessary=1, sufficient=3, **values)[:4],
    ]


def group_of(records, data, kind, explainer):
    return [one for one in records if (one.data, one.kind, one.explainer) == (data, kind, explainer)]


def cell(made, measure, explainer, data="uci-messages", kind="correct"):
    (found,) = {
        row[column]
        for table in made
        for name, row in table.rows.items()
        for column in row
        if name == explainer and (column.measure.name, column.data, column.kind) == (measure, data, kind)
    }
    return found


def test_a_small_table_reads_as_it_should():
    assert_same(as_text(tables(small())[:1]), GOLDEN)


def test_the_documentation_shows_that_table():
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert f"```text\n{GOLDEN}```" in page.read_text(encoding="utf-8")


def test_every_cell_holds_the_metric_of_its_group():
    records = small_evaluation()
    made = tables(records)
    group = [
        one for one in records if (one.data, one.kind, one.explainer) == ("wikipedia", "incorrect", "cody-temporal")
    ]
    for measure, metric in (
        ("fidelity_plus", metrics.fidelity_plus),
        ("sparsity", metrics.sparsity),
        ("aufsc_minus", metrics.aufsc_minus),
        ("char", metrics.characterization),
        ("calls", metrics.mean_evaluations),
        ("seconds", metrics.mean_seconds),
    ):
        assert cell(made, measure, "cody-temporal", "wikipedia", "incorrect").value == metric(group)


def test_equals_as_printed_share_the_first_place_and_leave_no_second():
    records = [
        *four_links("a", necessary=2, sufficient=4),
        *four_links("b", necessary=2, sufficient=3),
        *four_links("c", necessary=1, sufficient=2),
    ]
    made = tables(records)
    assert [cell(made, "fidelity_plus", name).place for name in "abc"] == [1, 1, 3]
    assert [cell(made, "fidelity_minus", name).place for name in "abc"] == [1, 2, 3]


def test_a_difference_that_is_not_printed_does_not_change_the_place():
    records = [
        one
        for name, necessary in (("a", 500), ("b", 501), ("c", 400))
        for one in (record(explainer=name, event=i, necessary=i < necessary) for i in range(1000))
    ]
    assert [cell(tables(records), "fidelity_plus", name).place for name in "abc"] == [1, 1, 3]


def test_sparsity_calls_and_time_have_no_best():
    """Who does nothing is sparse and fast."""
    records = [
        *four_links("nothing", necessary=0, sufficient=0, rows=(), evaluations=0, seconds=0.0),
        *four_links("b", necessary=2, sufficient=3, rows=(1, 2, 3), evaluations=5, seconds=2.0),
    ]
    made = tables(records)
    for measure in ("sparsity", "calls", "seconds"):
        assert [cell(made, measure, name).place for name in ("nothing", "b")] == [None, None]
    assert "*" not in as_text(made[2:])


def test_a_value_printed_as_0_is_not_the_best():
    assert cell(tables(four_links("a", necessary=0, sufficient=4)), "fidelity_plus", "a").place is None


def test_a_missing_group_is_a_dash_and_has_no_place():
    made = tables([*small(), *four_links("cody-temporal", necessary=1, sufficient=1, kind="incorrect")])
    missing = cell(made, "fidelity_plus", "pgexplainer", kind="incorrect")
    assert (missing.value, missing.place) == (None, None)
    line = next(line for line in as_text(made).splitlines() if line.startswith("pgexplainer"))
    assert line.split() == ["pgexplainer", "0.00", "–", "0.40", "–", "0.00", "–"]
    assert next(csv.DictReader(io.StringIO(as_csv(made))))["explainer"] == "pgexplainer"


def test_time_that_was_not_taken_is_a_dash():
    made = tables(small(seconds=None))
    assert cell(made, "seconds", "cody-temporal").value is None
    assert cell(made, "calls", "cody-temporal").value == 280


def flat(text):
    return " ".join(text.split())


def test_an_explainer_with_fewer_links_is_reported_once():
    text = flat(as_text(tables(small()[:-1])))
    assert text.count("greedy-temporal explained only 3 of the 4 correct links of uci-messages (tgn).") == 1


def test_explainers_without_a_common_link_are_reported_once():
    records = [
        record(event=event + 100 * number, explainer=name, kind=kind)
        for number, name in enumerate("abcd")
        for kind in ("correct", "incorrect")
        for event in range(3)
    ]
    text = flat(as_text(tables(records)))
    assert text.count("No correct and no incorrect link of uci-messages (tgn) was explained by all of these") == 1
    assert "explained only" not in text


def as_the_paper(**values):
    given = {"candidates": {"near": "events_among_nodes", "size": 64}}
    return [record(**{"event": 20_000 + i, "options": given} | values) for i in range(3)]


def test_the_papers_protocol_is_given_below_its_figures():
    made = tables(as_the_paper(), paper=True)
    for text in map(flat, (as_text(made), as_markdown(made), as_latex(made).replace("\\%", "%"))):
        assert "rows between 20 % and 60 % of the events" in text
        assert "200 links of each kind" in text
        assert "candidates among nodes, other weights" in text
        assert "cannot be compared with these" not in text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"options": {"candidates": {"near": "events_on_paths"}}}, "3 were not made with --near nodes"),
        ({"event": 55_000}, "1 are about other rows"),
        ({"original": 0.1}, "3 have a logit closer to 0 than 0.2"),
    ],
)
def test_records_that_differ_from_the_papers_protocol_are_reported(values, message):
    records = as_the_paper(**values)[: 1 if "event" in values else 3]
    text = flat(as_text(tables(records, paper=True)))
    assert text.count("cannot be compared with these") == 1
    assert message in text
    assert "cannot be compared with these" not in as_text(tables(records))


def test_models_without_figures_in_the_paper_are_reported():
    text = flat(as_text(tables(as_the_paper(model="mine"), paper=True)))
    assert text.count("The paper has no figures for these explainers of mine on uci-messages") == 1


def test_nearness_is_named_as_on_the_command_line():
    records = [
        record(event=i, options={"candidates": {"near": near}})
        for i in range(2)
        for near in ("events_on_paths", "events_among_nodes")
    ]
    assert {one.explainer for one in arrange(records)} == {"cody-temporal (near events)", "cody-temporal (near nodes)"}


EVERY_POLICY = [f"{search}-{policy}" for search in ("greedy", "cody") for policy in POLICIES]


@pytest.mark.parametrize("options", [{}, {"paper": True}, {"rng": 0}, {"paper": True, "rng": 0}])
def test_text_fits_eighty_columns(options):
    records = small_evaluation(("uci-messages", "uci-forums", "wikipedia"), ["pgexplainer", *EVERY_POLICY], count=8)
    rng = np.random.default_rng(0) if "rng" in options else None
    text = as_text(tables(records, **options | {"rng": rng}))
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in EVERY_POLICY)


def test_the_papers_figures_stand_beside_ours():
    made = tables(small_evaluation(explainers=["cody-spatio-temporal", "mine"]), paper=True)
    assert cell(made, "aufsc_plus", "cody-spatio-temporal", "wikipedia", "incorrect").paper == 0.50
    assert cell(made, "fidelity_plus", "cody-spatio-temporal", "wikipedia", "incorrect").paper == 0.53
    assert cell(made, "calls", "cody-spatio-temporal", "wikipedia", "incorrect").paper == 236.26
    assert cell(made, "seconds", "cody-spatio-temporal", "wikipedia", "incorrect").paper is None
    assert cell(made, "aufsc_plus", "mine", "wikipedia", "incorrect").paper is None
    assert "(0.50)" in as_text(made)
    assert "(0.50)" in as_markdown(made)
    assert "(0.50)" in as_latex(made)
    assert "(" not in as_text(made[3:4]).split("seconds: ")[0]  # the paper has no table of seconds


def test_the_papers_figures_agree_with_its_formulas():
    """Fidelity+ · (1 - sparsity) is AUFSC+ but for rounding, and for what the two have to do with each other."""
    published = paper_figures()
    groups = {key[:4] for key in published if key[4] == "aufsc_plus"}
    assert len(groups) == 60
    near = [
        abs(published[*group, "fidelity_plus"] * (1 - published[*group, "sparsity"]) - published[*group, "aufsc_plus"])
        for group in groups
    ]
    assert np.median(near) < 0.006
    assert len(published) == 60 * 3 + 60 * 4 + 54 * 4 + 48 - 60  # char of TGN stands in two tables


def test_intervals_surround_the_value_and_are_the_same_each_time():
    one, other = (tables(small_evaluation(), rng=np.random.default_rng(0)) for _ in range(2))
    assert as_text(one) == as_text(other)
    found = cell(one, "aufsc_plus", "cody-temporal")
    assert found.interval.low < found.value < found.interval.high
    assert f"[{found.interval.low:.2f}, {found.interval.high:.2f}]" in as_text(one)


def test_intervals_of_all_metrics_come_from_the_same_samples():
    records = [record(event=i, necessary=i % 3 == 0, sufficient=i % 3 == 0, rows=()) for i in range(997)]
    made = tables(records, rng=np.random.default_rng(0))
    same = [cell(made, name, "cody-temporal").interval for name in ("fidelity_plus", "fidelity_minus", "aufsc_plus")]
    assert len(set(same)) == 1


def test_csv_holds_every_group_once_with_all_digits():
    records = small_evaluation()
    lines = list(csv.DictReader(io.StringIO(as_csv(tables(records, rng=np.random.default_rng(0))))))
    assert len(lines) == 8
    (line,) = [
        line
        for line in lines
        if (line["data"], line["kind"], line["explainer"]) == ("wikipedia", "correct", "greedy-temporal")
    ]
    group = [
        one for one in records if (one.data, one.kind, one.explainer) == ("wikipedia", "correct", "greedy-temporal")
    ]
    assert float(line["aufsc_plus"]) == metrics.aufsc_plus(group)
    assert float(line["sparsity_low"]) < float(line["sparsity"]) < float(line["sparsity_high"])


def test_latex_has_the_papers_columns_and_marks():
    latex = as_latex(tables(small_evaluation(explainers=["cody-spatio-temporal", "greedy_x & y"])))
    assert r"\begin{tabular}{l|cccc|cccc|cccc}" in latex
    assert r"\multicolumn{4}{c|}{\textit{AUFSC}$_+$}" in latex
    assert r"CoDy-\textit{spatio-temporal} & " in latex
    assert r"greedy\_x \& y & " in latex
    assert r"$\textbf{0." in latex
    assert r"\underline{$0." in latex
    for line in latex.splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert line.replace(r"\&", "").count("&") in (12, 8, 4)
    assert latex.count(r"\begin{") == latex.count(r"\end{")
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")


def test_markdown_rows_are_as_long_as_their_headings():
    markdown = as_markdown(tables(small_evaluation(explainers=["cody-temporal", "a|b"])))
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}
    assert "**0." in markdown


def test_every_output_names_its_formulas():
    made = tables([replace(one, rank=1, rank_after=2) for one in small()])
    for layout in LAYOUTS:
        for panel in layout.panels:
            for measure in panel:
                assert measure.formula in " ".join(as_text(made).split())
                assert measure.formula in as_markdown(made).replace("\\|", "|")


def test_models_of_one_architecture_share_a_table():
    made = tables(small_evaluation())
    assert [table.layout for table in made] == [layout for layout in LAYOUTS if not layout.needs_ranks]
    assert Column(SPARSITY, "wikipedia", "correct") in made[0].rows["cody-temporal"]


def test_an_explainer_with_several_settings_gets_a_row_for_each():
    half, most = ({"search": {"alpha": alpha, "iterations": 300}} for alpha in (0.5, 0.75))
    records = [record(event=i, options=given) for i in range(3) for given in (half, most)]
    records += [record(event=i, explainer="other", options=half) for i in range(3)]
    assert {one.explainer for one in arrange(records)} == {
        "cody-temporal (alpha=0.5)",
        "cody-temporal (alpha=0.75)",
        "other",
    }


def test_settings_that_differ_between_data_sets_only_are_one_explainer():
    records = [record(data="a", options={"hops": 1}), record(data="b", options={"hops": 2})]
    assert {one.explainer for one in arrange(records)} == {"cody-temporal"}


def test_several_seeds_of_a_link_are_averaged():
    made = tables([record(seed=seed, necessary=seed < 1) for seed in range(4)])
    assert cell(made, "fidelity_plus", "cody-temporal").value == 0.25


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "no records"),
        ([record(), record(rows=(1,))], "twice with seed 0, differently"),
        ([record(), record(event=2, model_identity="other")], "two different models"),
        ([record(model="a/tgn"), record(event=2, model="b/tgn", model_identity="x")], "'a/tgn' .* 'b/tgn'"),
        ([record(), record(event=2, data_identity="other")], "two different data sets"),
    ],
)
def test_records_that_must_not_be_mixed_are_refused(records, words):
    with pytest.raises(DataError, match=words):
        tables(records)


@pytest.mark.parametrize(
    "values",
    [
        [{"search": {"alpha": 0.66666}}, {"search": {"alpha": 0.66674}}],
        [{"policy": {"scorer": f"/data/experiments/tgn/seed-{seed}/trained-explainers/messages"}} for seed in (1, 2)],
    ],
)
def test_settings_that_differ_little_or_have_long_names_are_kept_apart(values):
    records = [record(event=9 + i, options=given) for i, given in enumerate(values)]
    records.append(record(event=9, options=values[1]))  # so that the setting varies within a group
    rows = list(tables(records)[0].rows)
    assert len(set(rows)) == 2


def test_of_several_settings_the_papers_figures_stand_beside_its_own():
    near = "events_among_nodes"
    settings = [{"search": {"alpha": alpha}, "candidates": {"near": near, "size": 64}} for alpha in (0.5, 2 / 3)]
    made = tables([record(event=20_000, options=given) for given in settings], paper=True)
    shown = {name: cell(made, "fidelity_plus", name).paper for name in made[0].rows}
    assert [name for name, figure in shown.items() if figure is not None] == ["cody-temporal (alpha=0.6667)"]
    assert "1 have other iterations, alpha or candidates" in " ".join(made[0].remarks)


def test_tables_of_ten_thousand_records_take_seconds():
    rng = np.random.default_rng(0)
    records = [
        one for name in [*EVERY_POLICY, "pgexplainer"] for one in random_records(rng, count=1_100, explainer=name)
    ]
    started = time.process_time()
    tables(records, rng=rng)
    assert time.process_time() - started < 30


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "records.jsonl"
    header = as_line(HEADER) + "\n"
    path.write_text(header + "".join(one.to_json() + "\n" for one in small()), encoding="utf-8")
    return path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_prints_what_the_library_writes(file):
    assert run("tables", file).stdout == as_text(tables(small()))
    made = tables(small(), paper=True, rng=np.random.default_rng(0))
    assert run("tables", file, "--paper", "--intervals", "--format", "latex").stdout == as_latex(made)
    assert run("tables", file, "--paper", "--intervals", "--format", "csv").stdout == as_csv(made)
    assert run("tables", file, "--paper", "--intervals", "--format", "markdown").stdout == as_markdown(made)


def test_the_command_joins_files_and_counts_what_several_hold_once(file, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text("".join(one.to_json() + "\n" for one in small(kind="incorrect")), encoding="utf-8")
    assert "4 correct links and 4 incorrect links" in run("tables", file, other).stdout
    assert run("tables", file, file).stdout == run("tables", file).stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense\n", "this is not a record"),
        ('{"schema": "cody/explanation/1"}\n', "this is a record of 'cody/explanation/1'"),
        ("", "there are no records"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_file(content, message, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(content)
    for options in ((), ("--benchmark",)):
        result = run("tables", path, *options)
        assert isinstance(result.exception, CodyError)
        assert message in str(result.exception)
        assert not result.stdout
