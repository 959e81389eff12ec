import os

import pytest
import torch

from cody.inference.compiled import form
from slow_tests import SLOW

os.environ.pop("CODY_TIMEZONE", None)  # what pages show is in UTC
torch.set_num_threads(1)  # small tensors: more threads only get in each other's way


def pytest_report_header() -> str:
    return f"cody: changes are followed in the {form()} form"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow: `pytest -m "not slow"` leaves it out."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
