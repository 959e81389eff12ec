"""Folders of a Hugging Face hub, through its own library: hf://owner/name, hf://datasets/owner/name, each @revision."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cody.errors import CallError, DataError, first_line
from cody.utils.extras import needed_by

BEGINNING, DATASETS = "hf://", "datasets/"
ADDRESS = re.compile(r"hf://(datasets/)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
READ = ["*.json", "*.safetensors", "*.npy", "*.parquet", "*.csv", "*.txt"]  # nothing that could run code


def is_hub_address(name: Any) -> bool:
    """Whether a name is meant to be an address of a hub."""
    return isinstance(name, str) and name.startswith(BEGINNING)


def hub_folder(address: str) -> Path:
    """The local folder with the files of a hub address; they are downloaded where they are not there yet.

    >>> hub_folder("hf://mine")
    Traceback (most recent call last):
    cody.errors.CallError: 'hf://mine' is not an address of a hub; write hf://owner/name or hf://datasets/owner/name
    """
    found = ADDRESS.fullmatch(address)
    if found is None or any(part.startswith(".") for part in re.split("[/@]", address)):
        raise CallError(
            f"{address[:80]!r} is not an address of a hub; write hf://owner/name or hf://datasets/owner/name"
        )
    with needed_by(address):
        from huggingface_hub import snapshot_download
    kind, name, revision = found.groups()
    try:
        return Path(
            snapshot_download(name, repo_type="dataset" if kind else None, revision=revision, allow_patterns=READ)
        )
    except (OSError, ValueError) as error:  # the network, a wrong name, no permission
        raise DataError(f"{address} cannot be downloaded: {first_line(error)}") from None
