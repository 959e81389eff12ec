"""How to get what is not installed: the command that works for the way in which this package was installed."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cody.errors import MissingExtraError

PACKAGE = "cody-explain"
EXTRAS = {
    "torch": "train",
    "torch_geometric": "pyg",
    "ray": "ray",
    "matplotlib": "figures",
    "fastapi": "serve",
    "uvicorn": "serve",
    "networkx": "networkx",
    "anywidget": "notebook",
    "huggingface_hub": "hub",
    "mcp": "mcp",
    "tgb": "tgb",
    "tgm": "tgm",
    "duckdb": "duckdb",
}  # modules that the core does without → the extra that brings them


@contextmanager
def needed_by(what: str, extra: str | None = None) -> Iterator[None]:
    """Let imports inside that fail because an extra is not installed raise one error that names it.

    Args:
        what: What needs them.
        extra: The extra to name; None: the smallest that brings the missing module.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        raise missing(what, module, extra) from None


def missing(what: str, module: str, extra: str | None = None) -> MissingExtraError:
    """The error for something that needs a module which is not installed.

    Args:
        what: What needs it.
        module: The module.
        extra: The extra to name; None: the smallest that brings it.
    """
    return MissingExtraError(
        f"{what} needs {module}, which is not installed: {how_to_install(extra or EXTRAS[module])}"
    )


def how_to_install(extra: str) -> str:
    """The command that adds an extra to this installation, whether it came from a folder, a repository or an index."""
    origin = _origin()
    url = str(origin.get("url", ""))
    if folder := _folder(url):
        constrained = "-c constraints.txt " if (folder / "constraints.txt").is_file() else ""
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"pip install {constrained}{editable}{quoted(f'.[{extra}]')}, in the folder {folder}"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return f"pip install {quoted(f'{PACKAGE}[{extra}] @ {url}' if url else f'{PACKAGE}[{extra}]')}"


def quoted(argument: str, system: str = os.name) -> str:
    """An argument as the usual shell of the system takes it.

    >>> quoted(".[train]", "posix"), quoted(".[train]", "nt")
    ("'.[train]'", '".[train]"')
    """
    return f'"{argument}"' if system == "nt" else shlex.quote(argument)


def _origin() -> dict[str, Any]:
    """Where the package was installed from, as pip notes it (PEP 610); empty: from an index."""
    from importlib import metadata  # only where something is missing: it takes time to import

    beside = Path(__file__).parents[3]
    try:
        noted = metadata.distribution(PACKAGE).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        noted = None
    try:
        origin: dict[str, Any] = json.loads(noted or "{}")
    except ValueError:
        origin = {}
    if not origin and (beside / "pyproject.toml").is_file():  # used from a clone, without an installation
        return {"url": beside.as_uri(), "dir_info": {"editable": True}}
    return origin


def _folder(url: str) -> Path | None:
    """The folder that a file URL names, if the source of the package is still there."""
    if urlsplit(url).scheme != "file":
        return None
    from urllib.request import url2pathname  # only where something is missing: it takes time to import

    folder = Path(url2pathname(urlsplit(url).path))
    return folder if (folder / "pyproject.toml").is_file() else None
