"""What the documentation says is run, and compared with what comes out."""

import importlib
import re
import runpy
import shlex
import shutil
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.data import datasets
from cody.paper.tables import LAYOUTS
from cody.study.explainers import POLICIES
from cody.utils import start as _start
from random_events import random_graph, random_network
from texts import assert_same

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WRITTEN = [page for page in DOCS.rglob("*.md") if DOCS / "_build" not in page.parents]
PAGES = sorted([*ROOT.glob("*.md"), *WRITTEN])
QUESTIONS = sorted((DOCS / "questions").glob("*.md"))
RUN = [
    ROOT / "README.md",
    DOCS / "quickstart.md",
    DOCS / "data.md",
    DOCS / "benchmark.md",
    *QUESTIONS,
]  # every command and every line of Python in them
PYTHON = [  # only their Python: models take hours
    *RUN,
    *(DOCS / name for name in ("evaluate.md", "baselines.md", "own-model.md", "package.md", "survey.md")),
    *sorted((DOCS / "methods").glob("*.md")),
    *sorted((DOCS / "tools").glob("*.md")),
]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands():
    """(command, what the page shows below it)"""
    for block in (block for page in RUN for block in blocks(page, "console")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command.partition("  #")[0].strip(), [line.rstrip() for line in shown.strip().splitlines()]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that the README's user has."""
    folder = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    graph = random_graph(rng, nodes=40, events=1000, ties=False)
    rows = zip(graph.src, graph.dst, graph.time, strict=True)
    (folder / "events.csv").write_text("src,dst,time\n" + "".join(f"{a},{b},{t}\n" for a, b, t in rows))
    rows = zip(graph.src + 1, graph.dst + 1, graph.time, range(1, 1001), strict=True)
    lines = "".join(f"{row - 1},{u},{i},{t},0,{row}\n" for u, i, t, row in rows)
    (folder / "ml_wikipedia.csv").write_text(",u,i,ts,label,idx\n" + lines)
    np.save(folder / "ml_wikipedia.npy", np.zeros((1001, 3)))
    from train.test_original import original_weights

    network = random_network(random_graph(rng, edge_features=3), "tgn", layers=1)
    torch.save(original_weights(network, stacked=False), folder / "tgn.pth")
    from adapters.pyg_models import pyg_tgn, random_tgn

    pyg_tgn.save(random_tgn(graph)[0], folder / "pyg.pt")
    shutil.copy(ROOT / "examples" / "expected_rating.py", folder)
    return folder


def skip_without_data(text):
    """Skip what needs a data set that is not part of the repository, where it is not there."""
    if "bitcoin-otc" in text:
        try:
            cody.load("bitcoin-otc")
        except cody.CodyError:
            pytest.skip("cody data fetch bitcoin-otc fetches it")


@pytest.mark.parametrize(("command", "shown"), list(commands()), ids=lambda part: str(part)[:40])
def test_the_commands_do_what_the_pages_show(command, shown, files, monkeypatch):
    monkeypatch.chdir(files)
    command, _, target = command.partition(" > ")
    words = shlex.split("cody demo" if command == "make demo" else command)
    assert words[0] == "cody"
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.exception or result.output
    if target:
        (files / target.strip()).write_text(result.stdout, encoding="utf-8")
    if shown:
        printed = result.stdout.strip().splitlines()
        assert_same("\n".join(map(timeless, printed)), "\n".join(map(timeless, shown)))


def test_every_frame_shows_the_page_of_the_command_above_it():
    made = runpy.run_path(str(DOCS / "live_pages.py"))["PAGES"]
    shown = {}
    for page in WRITTEN:
        for name in re.findall(r'<iframe src="(?:\.\./)?pages/([\w-]+)\.html"', page.read_text(encoding="utf-8")):
            shown.setdefault(name, []).append(page)
    assert shown.keys() == made.keys()
    for name, command in made.items():
        assert f"\n$ cody {command}\n" in (DOCS / "questions" / f"{name}.md").read_text(encoding="utf-8")


def test_the_tour_can_be_taken_and_finds_what_was_put_into_the_mails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tour = ROOT / "docs" / "tour.md"
    for block in blocks(tour, "python"):
        exec(compile(block, "tour.md", "exec"), {})
    commands_of_it = [line[2:] for block in blocks(tour, "console") for line in block.splitlines()]
    questions = re.findall(r"^\|.*\| `cody (\S+)[^`]*` \|$", tour.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(questions) == 8
    assert set(questions) <= {command.split()[1] for command in commands_of_it}
    said = {}
    for command in commands_of_it:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.exception or result.output)
        said[command.split()[1]] = result.stdout
    assert (tmp_path / "why.html").exists()
    for relation in ("the same link before", "the reverse direction"):
        least, *_ = re.findall(rf"{relation} .* (\d+\.\d) to ", said["survey"])  # of links that are predicted
        assert float(least) > 2  # such mails decide at least twice as often as their number suggests


def test_the_commands_leave_nothing_untracked_in_a_clone():
    text = "\n".join(block for page in [*RUN, ROOT / "docs" / "tour.md"] for block in blocks(page, "console"))
    named = re.findall(r"(?:--out|--html|--bundle|>) ([\w.-]+)", text)
    named += re.findall(r"cody survey .*--html ([\w-]+)\.html", text)  # the folder of the explanations' pages
    written = {name for name in named if not (ROOT / name).exists()}
    assert {"events", "run.jsonl", "why.jsonl"} <= written
    asked = ["git", "-C", str(ROOT), "check-ignore", *(f"{name}/x" if "." not in name else name for name in written)]
    ignored = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ignored.returncode == 128:
        pytest.skip("this is no clone")
    assert {line.removesuffix("/x") for line in ignored.stdout.split()} == written


def timeless(line):
    line = re.sub(r"\S+/(demo\.html|cody explain)", r"\1", line)  # where files are differs between machines
    return re.sub(r"in (\d+\.\d\d? s|\d+ s|\d+ min)", "in a moment", line.rstrip())


@pytest.mark.parametrize("page", PYTHON, ids=lambda page: page.name)
def test_the_python_on_a_page_runs_and_prints_what_it_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    for block in blocks(page, "python"):
        skip_without_data(block)
        imports = "".join(re.findall("^(?:import|from) .*", block, re.MULTILINE))
        for module in re.findall(r"\b(?:duckdb|mcp|polars|tgm)\b", imports) + ["anywidget"] * ("widget" in imports):
            pytest.importorskip(module, reason=f"{module}, of the extra dev, is not installed")
        exec(compile(block, "README.md", "exec"), {})
        for expected, printed in zip(
            re.findall(r"print\(.*\) +# (.*)", block), capsys.readouterr().out.splitlines(), strict=True
        ):
            assert_same(printed, expected)


@pytest.mark.parametrize("page", sorted((DOCS / "tools").glob("*.md")), ids=lambda page: page.name)
def test_users_of_another_tool_get_an_explanation_in_at_most_ten_lines(page):
    snippets = [block.splitlines() for language in ("python", "py") for block in blocks(page, language)]
    lengths = [len([line for line in lines if line.strip()]) for lines in snippets if "expla" in "".join(lines)]
    assert page.name == "index.md" or (lengths and max(lengths) <= 10)


def without_code(page):
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """The anchors that a page's headings get: lower case, words joined by hyphens, other signs left out."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", without_code(page)):
        if "://" not in target:
            file = page.parent / target if target else page
            assert file.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(file), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_names_of_the_package_on_a_page_exist(page):
    names = set(re.findall(r"`(cody(?:\.[A-Za-z]\w*)+)", page.read_text(encoding="utf-8")))
    assert [name for name in sorted(names) if not exists(name)] == []


def test_where_the_changelog_says_that_modules_went_there_is_one():
    table = (
        (ROOT / "CHANGELOG.md")
        .read_text(encoding="utf-8")
        .partition("| old import | new import |")[2]
        .partition("\n\n")[0]
    )
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    old = {name for left, _ in rows for name in re.findall(r"`(cody[\w.]+)`", left)} | {"cody.locks"}
    new = []
    for _, right in rows:
        home = ""
        for name in re.findall(r"`([\w.]+)`", right):
            if name.startswith("cody.") and name not in old:
                home = name.rpartition(".")[0]
                new.append(name)
            elif name.startswith("."):
                new.append(home + name)
    assert len(new) > len(rows)
    assert [name for name in new if not exists(name)] == []


def exists(name):
    """Whether a dotted name is there after `import cody`, or can be imported: functions hide modules of their name."""
    found = cody
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    home, _, last = name.rpartition(".")
    try:
        return found is not None or hasattr(importlib.import_module(home), last) or find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_the_page_about_what_is_stable_has_every_public_name_schema_and_exit_code():
    text = (DOCS / "stability.md").read_text(encoding="utf-8")
    (names,) = re.findall(r"^\| names in Python \|(.*)\|$", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", names)) == set(cody.__all__)
    files = [file for file in Path(cody.__file__).parent.rglob("*.*") if file.suffix in (".py", ".json")]
    schemas = {found for file in files for found in re.findall(r'"(cody/[a-z]+/\d+)"', file.read_text("utf-8"))}
    assert set(re.findall(r"`(cody/[a-z]+/\d+)`", text)) == schemas
    assert f"{_start.STOPPED} stopped by Ctrl-C" in text


def test_the_oldest_versions_on_the_page_are_those_that_are_allowed():
    text = " ".join((DOCS / "stability.md").read_text(encoding="utf-8").split()).lower()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for need in [*project["dependencies"], *extras["figures"], *extras["serve"]]:
        assert need.replace(">=", " ") in text


UNWRAPPED = {"cli.md"}  # cli.md is the output of --help


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if DOCS in page.parents and page.name not in UNWRAPPED],
    ids=lambda p: p.name,
)
def test_prose_fits_into_120_columns(page):
    """Tables, blocks of code and the targets of links may be longer."""
    text = without_code(page).splitlines()
    lines = [re.sub(r"\]\([^)]*\)", "]", line) for line in text if not line.startswith("|")]
    assert [line for line in lines if len(line) > 120] == []


def test_the_command_line_reference_is_up_to_date():
    made = runpy.run_path(str(ROOT / "docs" / "make_cli_reference.py"))
    assert made["TARGET"].read_text(encoding="utf-8") == made["reference"](), "run: python docs/make_cli_reference.py"


def test_the_table_of_explainers_is_the_one_of_the_catalogue():
    made = runpy.run_path(str(DOCS / "make_explainer_table.py"))
    assert made["TARGET"].read_text(encoding="utf-8") == made["page"](), "run: python docs/make_explainer_table.py"
    assert [policy for policy in POLICIES if f"| `{policy}` |" not in made["page"]()] == []


FOLDERS = ("src", "tests", "docs", "bench", "reproduce", "results", "examples")
NOT_IN_A_CLONE = {"docs/_build/html", "evaluate_link_prediction.py"}  # made by `make docs`; a file of DyGLib


def named_files(text):
    """Paths in backticks: whole ones, and bare names of Python files, which stand for a file of that name anywhere."""
    whole = set(re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", text))
    bare = set(re.findall(r"`([a-z]\w*\.(?:py|c))(?:::\w+)?`", text))
    return whole - NOT_IN_A_CLONE, bare - NOT_IN_A_CLONE


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_the_files_that_a_page_names_exist(page):
    whole, bare = named_files(page.read_text(encoding="utf-8"))
    assert [name for name in sorted(whole) if not (ROOT / name).exists()] == []
    there = {file.name for folder in FOLDERS for file in (ROOT / folder).rglob("*.*")}
    assert sorted(bare - there) == []


def test_contributors_are_sent_to_files():
    for page in (ROOT / "CONTRIBUTING.md", DOCS / "architecture.md"):
        assert len(named_files(page.read_text(encoding="utf-8"))[0]) > 10


@pytest.mark.parametrize("page", sorted((DOCS / "gallery").glob("*.ipynb")), ids=lambda page: page.name)
def test_names_of_the_package_in_a_notebook_exist(page):
    text = page.read_text(encoding="utf-8")
    imported = re.findall(r"from (cody[\w.]*) import ([\w, ]+)", text)
    names = {f"{home}.{name.strip()}" for home, part in imported for name in part.split(" as ")[0].split(",")}
    names |= set(re.findall(r"`(cody(?:\.[A-Za-z]\w*)+)", text))
    assert [name for name in sorted(names) if not exists(name)] == []


def test_every_part_of_the_package_has_a_line_in_the_architecture():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    folders = [file.parent.name for file in (ROOT / "src" / "cody").glob("*/__init__.py")]
    assert [name for name in folders if f"src/cody/{name}/" not in text] == []


def test_every_metric_of_the_tables_has_its_formula():
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    named = [measure.metric.__name__ for layout in LAYOUTS for panel in layout.panels for measure in panel]
    assert [name for name in named if f"| `{name}` |" not in page] == []


def test_the_table_of_data_sets_is_the_one_of_the_package():
    text = (DOCS / "data.md").read_text(encoding="utf-8")
    for dataset in datasets():
        counts = (
            f"{dataset.nodes:,} | {dataset.events:,} | {dataset.unique_edges:,}" if dataset.file else "made to size"
        )
        assert f"| `{dataset.name}` | {counts} |" in text


def test_the_citation_names_this_version():
    version = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    assert version[1] == cody.__version__


def test_the_page_of_the_package_index_names_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"^\| `(\w+)` \|", (DOCS / "package.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) == set(project["optional-dependencies"]) - {"dev", "docs"}


def test_the_page_of_the_package_index_has_no_links_that_need_the_repository():
    assert re.findall(r"\]\((?!https://)[^)]*\)", (DOCS / "package.md").read_text(encoding="utf-8")) == []


def test_the_table_of_figures_is_the_one_of_the_results():
    made = runpy.run_path(str(ROOT / "docs" / "make_bench_table.py"))
    assert_same(made["page"](), made["TARGET"].read_text(encoding="utf-8"))  # python docs/make_bench_table.py
