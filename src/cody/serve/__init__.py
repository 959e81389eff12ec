"""The page alive: a model behind it that answers whatever is asked. Needs fastapi and uvicorn (the extra `serve`)."""

from cody.serve.app import create_app
from cody.serve.live import Limits, Live

__all__ = ["Limits", "Live", "create_app"]
