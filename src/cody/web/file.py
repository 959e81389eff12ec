"""Pages as files: written completely or not at all, and never over a file that is not a page of ours."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from cody.explaining.explanation import Explanation
from cody.utils.files import check_target, write_atomically
from cody.web.page import GENERATOR, page

BEGINNING = 2048  # bytes; mark and title stand at the beginning of a page
SURVEY_TITLE = "What drives the predictions of"


def check_page_file(file: Path) -> None:
    """Raise an error if a page cannot be written here, or would overwrite something else."""
    check_target(file, "page", _is_page)


def write_page(why: Explanation, file: Path, *, back: Path | None = None) -> None:
    """Write the page of an explanation, with a link to the page that lists it."""
    write_html(page(why, back="" if back is None else address(back, file)), file)


def address(page: Path, origin: Path) -> str:
    """The address of one page in another."""
    return quote(Path(os.path.relpath(page.absolute(), origin.absolute().parent)).as_posix())


def write_html(html: str, file: Path) -> None:
    """Write a page."""
    check_page_file(file)
    write_atomically(file, html)


def is_survey_page(file: Path) -> bool:
    """Whether there is the page of a survey in this place."""
    return file.is_file() and f"<title>{SURVEY_TITLE}".encode() in _beginning(file)


def _is_page(file: Path) -> bool:
    beginning = _beginning(file)
    return not beginning or f'name="generator" content="{GENERATOR}"'.encode() in beginning


def _beginning(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(BEGINNING)
