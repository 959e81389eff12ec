from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The directory of the real data sets, for tests that compare with the paper."""
    given = os.environ.get("CODY_DATA")
    if not given or not Path(given).is_dir():
        pytest.skip("CODY_DATA does not name a directory with the real data sets")
    return Path(given)
