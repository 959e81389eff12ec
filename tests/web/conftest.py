import pytest

from cody.web import facts


@pytest.fixture(autouse=True)
def _time_for_every_click(monkeypatch):
    """Pages of two calls are the same only if both had time to score every first click, also on a busy machine."""
    monkeypatch.setattr(facts, "SECONDS", 300.0)
