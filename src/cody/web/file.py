"""Pages as files: written whole or not at all, and never in place of something that is no page of ours."""

from __future__ import annotations

from pathlib import Path

from cody.errors import CallError
from cody.utils.files import write_atomically
from cody.web.page import GENERATOR, page
from cody.web.shown import Shown

BEGINNING = 2048  # bytes; the mark stands at the beginning of a page


def check_page_file(file: Path) -> None:
    """Refuse to write a page where none can be, or where something else is."""
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise CallError(f"{file} is not a file in a folder that exists; give the name of a file for the page")
    if file.exists() and not _is_page(file):
        raise CallError(f"{file} is not a page that cody wrote, and would be replaced; choose another name")


def write_page(why: Shown, file: Path) -> None:
    """Show an explanation in a file."""
    write_html(page(why), file)


def write_html(html: str, file: Path) -> None:
    """Write a page of ours."""
    check_page_file(file)
    write_atomically(file, html)


def _is_page(file: Path) -> bool:
    with file.open("rb") as stream:
        beginning = stream.read(BEGINNING)
    return not beginning or f'name="generator" content="{GENERATOR}"'.encode() in beginning
