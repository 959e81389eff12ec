"""Every script of the reproduction finds what it imports: most of them are run once in a long while."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "reproduce"
sys.path.insert(0, str(FOLDER))


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda script: script.stem)
def test_a_script_finds_what_it_imports(script):
    spec = importlib.util.spec_from_file_location(f"script_{script.stem}", script)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
