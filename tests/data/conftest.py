from __future__ import annotations

import os
from pathlib import Path

import pytest

from cody.data import datasets, is_here

PUBLISHED = ("uci-messages", "uci-forums", "wikipedia")  # what the paper has used


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The directory of the real data sets, for tests that compare with the paper."""
    given = os.environ.get("CODY_DATA")
    if not given or not Path(given).is_dir():
        pytest.skip("CODY_DATA does not name a directory with the real data sets")
    missing = [dataset.name for dataset in datasets() if dataset.name in PUBLISHED and not is_here(dataset)]
    if missing:
        pytest.skip(f"to run this: cody data fetch {missing[0]}")
    return Path(given)
