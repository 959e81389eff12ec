import os
from functools import partialmethod
from inspect import signature

import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import settings

from cody.engine.library import form
from slow_tests import SLOW

os.environ.pop("CODY_TIMEZONE", None)  # what pages show is in UTC
os.environ.pop("COLUMNS", None)  # and not folded; pytest-xdist gives its processes a width
settings.register_profile("whatever the machine", deadline=None)  # no example may fail because others are at work
settings.load_profile("whatever the machine")
torch.set_num_threads(1)  # small tensors: more threads only get in each other's way

if "mix_stderr" in signature(CliRunner).parameters:  # click before 8.2 keeps the two streams apart only on request
    CliRunner.__init__ = partialmethod(CliRunner.__init__, mix_stderr=False)
    Result.output = property(lambda result: result.stdout + result.stderr)


def pytest_report_header() -> str:
    return f"cody: changes are followed in the {form()} form"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow: `pytest -m "not slow"` leaves it out."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
