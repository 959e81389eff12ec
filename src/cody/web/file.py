"""Pages as files: written completely or not at all, and never over a file that is not a page of ours."""

from __future__ import annotations

from pathlib import Path

from cody.errors import CallError
from cody.utils.files import write_atomically
from cody.web.page import GENERATOR, page
from cody.web.shown import Shown

BEGINNING = 2048  # bytes; the mark stands at the beginning of a page


def check_page_file(file: Path) -> None:
    """Raise an error if a page cannot be written here, or would overwrite something else."""
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise CallError(f"{file} is not a file in a folder that exists; give the name of a file for the page")
    if file.exists() and not _is_page(file):
        raise CallError(f"{file} is not a page that cody wrote, and would be overwritten; choose another name")


def write_page(why: Shown, file: Path) -> None:
    """Write the page of an explanation."""
    write_html(page(why), file)


def write_html(html: str, file: Path) -> None:
    """Write a page."""
    check_page_file(file)
    write_atomically(file, html)


def _is_page(file: Path) -> bool:
    with file.open("rb") as stream:
        beginning = stream.read(BEGINNING)
    return not beginning or f'name="generator" content="{GENERATOR}"'.encode() in beginning
