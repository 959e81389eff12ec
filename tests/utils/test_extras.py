"""What is missing can be installed by the command that the error gives, however the package was installed."""

import json
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from cody.utils import extras as install
from cody.utils.extras import how_to_install, missing

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def noted(monkeypatch):
    """Makes the package look as if it was installed from somewhere, as pip notes it."""

    class Distribution:
        text = None

        def read_text(self, name):
            assert name == "direct_url.json"
            return self.text

    found = Distribution()
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    return lambda origin: setattr(found, "text", None if origin is None else json.dumps(origin))


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "a clone"
    made.mkdir()
    (made / "pyproject.toml").write_text("")
    return made


def test_from_a_folder_it_is_installed_there_with_the_constraints_that_are_there(noted, folder):
    noted({"url": folder.as_uri(), "dir_info": {}})
    assert how_to_install("train") == f"pip install '.[train]', in the folder {folder}"
    (folder / "constraints.txt").write_text("")
    assert how_to_install("train") == f"pip install -c constraints.txt '.[train]', in the folder {folder}"


def test_an_editable_installation_stays_one(noted, folder):
    noted({"url": folder.as_uri(), "dir_info": {"editable": True}})
    assert how_to_install("serve") == f"pip install -e '.[serve]', in the folder {folder}"


def test_from_a_repository_the_same_commit_is_installed_again(noted):
    noted({"url": "https://example.org/cody.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}})
    assert how_to_install("pyg") == "pip install 'cody-explain[pyg] @ git+https://example.org/cody.git@abc'"


def test_from_a_wheel_the_same_wheel_is_named(noted):
    noted({"url": "file:///somewhere/cody.whl", "archive_info": {}})
    assert how_to_install("ray") == "pip install 'cody-explain[ray] @ file:///somewhere/cody.whl'"


def test_from_an_index_the_name_is_enough(noted, monkeypatch, tmp_path):
    noted(None)
    monkeypatch.setattr(install, "__file__", str(tmp_path / "lib" / "site-packages" / "cody" / "utils" / "extras.py"))
    assert how_to_install("figures") == "pip install 'cody-explain[figures]'"


def test_a_clone_that_was_never_installed_is_named(monkeypatch, folder):
    def unknown(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", unknown)
    monkeypatch.setattr(install, "__file__", str(folder / "src" / "cody" / "utils" / "extras.py"))
    assert how_to_install("train") == f"pip install -e '.[train]', in the folder {folder}"


@pytest.mark.parametrize("module", install.EXTRAS)
def test_every_extra_that_is_named_exists(module):
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (argument,) = [word for word in shlex.split(str(missing("this", module)).replace(",", "")) if "[" in word]
    assert argument.partition("[")[2].rstrip("]") in declared


@pytest.mark.parametrize(
    ("missing_module", "imported", "extra"),
    [
        ("torch", "from cody.adapters import pyg", "pyg"),
        ("torch", "from cody.adapters import dyglib", "train"),
        ("torch", "import cody.train.training", "train"),
        ("torch", "from cody.baselines import train_explainer", "train"),
        ("torch_geometric", "from cody.adapters import pyg_folder", "pyg"),
    ],
)
def test_in_python_too_a_missing_extra_is_one_error_that_names_it(missing_module, imported, extra):
    program = f"""
import sys
sys.modules[{missing_module!r}] = None  # as if it were not installed
import cody
try:
    {imported}
except cody.CodyError as error:
    assert isinstance(error, ImportError) and error.__cause__ is None and error.__suppress_context__
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f" needs {missing_module}, which is not installed: pip install" in ended.stdout
    assert f"[{extra}]" in ended.stdout
