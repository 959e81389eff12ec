"""The example notebook runs, and what it shows survives being exported."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "gallery" / "explain.ipynb"


def test_the_example_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")  # outputs go stale
    variables = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile(cell["source"], cell["id"], "exec"), variables)
    assert variables["why"].is_counterfactual
    assert variables["why"].sentence in capsys.readouterr().out
    assert (tmp_path / "why.html").read_text(encoding="utf-8") == variables["why"].to_html()


@pytest.mark.filterwarnings("ignore:IPython3 lexer unavailable")  # only the colours of the code depend on it
def test_the_page_survives_an_export_of_the_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbconvert is not installed")
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    from web.browser import chromium, tab
    from web.explained import toy

    why = toy()
    shown = nbformat.v4.new_output("display_data", data={"text/html": why._repr_html_(), "text/plain": repr(why)})
    cell = nbformat.v4.new_code_cell("why", outputs=[shown])
    exported, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    (tmp_path / "notebook.html").write_text(exported, encoding="utf-8")
    with chromium() as browser, tab(browser, offline=True) as watched:
        watched.page.route("http*://**", lambda route: route.abort())  # nbconvert's own page asks for libraries
        watched.page.goto((tmp_path / "notebook.html").as_uri(), wait_until="domcontentloaded")
        inside = watched.page.frame_locator("iframe")
        inside.get_by_role("button", name="Nothing changed").click()
        assert inside.locator("#now-prediction").inner_text() == "link"
        watched.complaints.clear()  # of nbconvert's own libraries, which are not here
