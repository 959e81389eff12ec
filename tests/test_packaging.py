"""The recipe and the container file ask for what the package asks for."""

import re
import tomllib
from pathlib import Path

import pytest

import cody

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_recipe_needs_what_the_package_needs():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    recipe = yaml.safe_load((ROOT / "packaging" / "recipe.yaml").read_text(encoding="utf-8"))
    project = PROJECT["project"]
    assert recipe["package"]["name"] == project["name"]
    run = [need.replace(" ", "") for need in recipe["requirements"]["run"]]
    assert run == ["python", *project["dependencies"]]
    oldest = project["requires-python"].removeprefix(">=")
    assert recipe["build"]["skip"] == [f'match(python, "<{oldest}")']
    assert "setuptools >=77" in recipe["requirements"]["host"]
    assert PROJECT["build-system"]["requires"] == ["setuptools>=77"]
    assert recipe["build"]["python"]["entry_points"] == [f"cody = {project['scripts']['cody']}"]
    assert all((ROOT / file).is_file() for file in recipe["about"]["license_file"])
    assert recipe["about"]["license"] == project["license"]


def test_the_container_installs_extras_that_exist_and_a_python_that_is_supported():
    text = (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8")
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    (python,) = set(re.findall(r"python:(\d\.\d+)-slim", text))
    assert f"Programming Language :: Python :: {python}" in PROJECT["project"]["classifiers"]
    assert (ROOT / "constraints.txt").is_file()
    assert cody.__version__


def test_what_the_check_of_the_wheels_asks_python_exists(capsys):
    (asked,) = re.findall(r'^form="(.*)"$', (ROOT / ".ci" / "package").read_text(encoding="utf-8"), re.MULTILINE)
    exec(asked, {})
    assert capsys.readouterr().out.strip() in ("compiled", "numpy")
