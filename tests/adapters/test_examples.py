"""The examples are run, and what the documentation shows of them is what is in them."""

import ast
import re
import runpy
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import cody
from adapters import stand_ins
from adapters.pyg_models import EXAMPLES, pyg_tgn
from cody.adapters.sourced import SourcedModel

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"


def test_a_pyg_tgn_is_explained_by_the_example(tmp_path, monkeypatch, capsys):
    data = pyg_tgn.temporal_data(cody.load("collegemsg"))
    tgn = pyg_tgn.new_tgn(data, width=8)
    losses = list(pyg_tgn.train(tgn, data, epochs=1, until=1_000))
    assert 0.5 < losses[0] < 2.0
    pyg_tgn.save(tgn, tmp_path / "tgn.pt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", ["explain_pyg.py", "700"])
    runpy.run_path(str(EXAMPLES / "explain_pyg.py"), run_name="__main__")
    assert re.search("the score (falls|rises)|No counterfactual|no counterfactual", capsys.readouterr().out)


@pytest.fixture
def graph():
    """The first events of collegemsg, where many have the same time."""
    whole = cody.load("collegemsg")
    return cody.TemporalGraph.from_arrays(whole.src[:900], whole.dst[:900], whole.time[:900])


def new_modules(graph, aggregator, predictor, width=8):
    message = stand_ins.IdentityMessage(1, width, width)
    memory = stand_ins.Memory(graph.num_nodes, 1, width, width, message, aggregator())
    return memory, stand_ins.Embedding(width, width, 1, memory.time_enc), predictor(width)


@pytest.mark.parametrize(
    ("library", "parts", "classes"),
    [
        ("tgb", ("memory", "gnn", "link_pred"), (stand_ins.FirstOfTheLatest, stand_ins.Chance)),
        (
            "tgm",
            ("memory", "encoder", "decoder"),
            (stand_ins.InSinglePrecision, partial(stand_ins.Decoder, hidden_dim=8)),
        ),
    ],
)
def test_tgns_of_other_libraries_are_explained_by_the_examples(
    library, parts, classes, graph, tmp_path, monkeypatch, capsys
):
    getattr(stand_ins, f"install_{library}")(monkeypatch, graph)
    torch.manual_seed(0)
    saved = {part: module.state_dict() for part, module in zip(parts, new_modules(graph, *classes), strict=True)}
    torch.save(saved, tmp_path / "tgn.pt")
    monkeypatch.setattr(sys, "argv", [f"explain_{library}.py", str(tmp_path / "tgn.pt"), "700"])
    ran = runpy.run_path(str(EXAMPLES / f"explain_{library}.py"), run_name="__main__")
    assert isinstance(ran["model"], SourcedModel)  # they are fast, too
    assert re.search("the score (falls|rises)|o counterfactual", capsys.readouterr().out)


def test_the_page_about_numbers_shows_its_example_whole():
    shown = re.search(r"```python\n(.*?)```", (PAGE.parent / "questions" / "numbers.md").read_text("utf-8"), re.DOTALL)[
        1
    ]
    example = (EXAMPLES / "expected_rating.py").read_text(encoding="utf-8")
    assert example.partition('"""\n\n')[2] == shown


def test_the_page_shows_the_example():
    shown = re.search(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    example = (EXAMPLES / "explain_pyg.py").read_text(encoding="utf-8")
    for line in shown.splitlines():
        assert line in example.splitlines(), f"the example has no line {line!r}"
    code = [line for line in shown.splitlines() if line.strip()]
    assert len(code) <= 13  # ten, and three of a user's own


def test_the_pyg_example_needs_only_the_extra_pyg():
    """It says so; scikit-learn, which its usual metric comes from, is there in developers' environments only."""
    example = ast.parse((EXAMPLES / "pyg_tgn.py").read_text(encoding="utf-8"))
    imported = {each.module.partition(".")[0] for each in ast.walk(example) if isinstance(each, ast.ImportFrom)}
    imported |= {name.name for each in ast.walk(example) if isinstance(each, ast.Import) for name in each.names}
    assert imported - sys.stdlib_module_names == {"cody", "torch", "torch_geometric"}
