"""Folders of a hub: found in the cache of its own library where that is installed, else by a stand-in for it."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.data import save_graph
from cody.errors import CallError, DataError, MissingExtraError
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with a model and a graph, as its library has them once they are downloaded."""
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    folders = {None: tmp_path / "models--me--tgn", "dataset": tmp_path / "datasets--me--events"}
    for folder in folders.values():
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("abc")
        (folder / "snapshots").mkdir()
    save_model(folders[None] / "snapshots" / "abc", Checkpoint(random_network(graph, "tgn"), graph.identity))
    save_graph(graph, folders["dataset"] / "snapshots" / "abc")
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        stand_in = ModuleType("huggingface_hub")

        def snapshot_download(name, *, repo_type, revision, allow_patterns):
            assert "*.safetensors" in allow_patterns
            found = folders[repo_type] / "snapshots" / (revision or "abc")
            if not name.startswith("me/") or not found.is_dir():
                raise FileNotFoundError("it is not in the cache")
            return str(found)

        stand_in.snapshot_download = snapshot_download
        monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    else:
        real = huggingface_hub.snapshot_download
        offline = lambda *given, **options: real(*given, cache_dir=tmp_path, local_files_only=True, **options)  # noqa: E731
        monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    return graph


def test_models_and_graphs_come_from_the_hub(hub):
    graph = cody.load("hf://datasets/me/events")
    assert graph.identity == hub.identity
    model = cody.load_model("hf://me/tgn", graph)
    assert len(model.logits(graph.query(200), [frozenset(), frozenset({150})])) == 2


def test_the_page_about_the_hub_runs_and_so_does_its_command(hub, capsys):
    page = (Path(__file__).parents[2] / "docs" / "tools" / "hub.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    exec(block, {})
    said = capsys.readouterr().out
    assert "past events" in said
    (command,) = re.findall(r"`cody (explain .*?)`", page)
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    assert said.strip() in " ".join(result.stdout.split())


def test_what_is_not_there_or_no_address_is_one_error(hub):
    with pytest.raises(DataError, match="hf://you/tgn cannot be downloaded: "):
        cody.load_model("hf://you/tgn", hub)
    for address in ("hf://mine", "hf://a/b/c", "hf://../x y", "hf://../..", "hf://a/..", "hf://a/b@../c"):
        with pytest.raises(CallError, match="is not an address of a hub"):
            cody.load(address)


def test_without_its_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"huggingface_hub, which is not installed: .*\[hub\]"):
        cody.load("hf://datasets/me/events")
