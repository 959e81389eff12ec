"""The examples are run, and what the documentation shows of them is what is in them."""

import re
import runpy
import sys
from pathlib import Path

import cody
from adapters.pyg_models import EXAMPLES, pyg_tgn

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"


def test_a_pyg_tgn_is_explained_by_the_example(tmp_path, monkeypatch, capsys):
    data = pyg_tgn.temporal_data(cody.load("collegemsg"))
    tgn = pyg_tgn.new_tgn(data, width=8)
    losses = pyg_tgn.train(tgn, data, epochs=1, until=1_000)
    assert 0.5 < losses[0] < 2.0
    pyg_tgn.save(tgn, tmp_path / "tgn.pt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", ["explain_pyg.py", "700"])
    runpy.run_path(str(EXAMPLES / "explain_pyg.py"), run_name="__main__")
    assert re.search("the score (falls|rises)|No counterfactual|no counterfactual", capsys.readouterr().out)


def test_the_page_shows_the_example():
    shown = re.search(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    example = (EXAMPLES / "explain_pyg.py").read_text(encoding="utf-8")
    for line in shown.splitlines():
        assert line in example.splitlines(), f"the example has no line {line!r}"
    code = [line for line in shown.splitlines() if line.strip()]
    assert len(code) <= 13  # ten, and three of a user's own
