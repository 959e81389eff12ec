import pytest

from cody.engine.library import library


@pytest.fixture(params=["compiled", "numpy"])
def form(request, monkeypatch):
    """Follow changes with the compiled library, then with numpy: `pytest.mark.usefixtures("form")`."""
    monkeypatch.setenv("CODY_PURE", "0")
    if request.param == "compiled" and library() is None:
        pytest.skip("the compiled library is not built")
    monkeypatch.setenv("CODY_PURE", "1" if request.param == "numpy" else "0")
    return request.param
