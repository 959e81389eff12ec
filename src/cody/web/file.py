"""Pages as files: written completely or not at all, and never over a file that is not a page of ours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from cody.errors import CallError
from cody.explaining.explanation import Explanation
from cody.utils.files import check_target, write_atomically
from cody.utils.words import count, heading_of_times, moment
from cody.web.facts import Facts, figure
from cody.web.markup import Markup, card, link, row, table, tag
from cody.web.page import GENERATOR, document, page

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


# Many explanations: a list, and a page of each


def write_pages(explanations: Sequence[Explanation], file: Path) -> None:
    """Write a list of the explanations to `file`, and a page of each, named by its number, to a folder beside it."""
    check_page_file(file)
    folder = file.with_suffix("")
    if folder == file:
        raise CallError(f"{file} is to be the index page, so its name must end in .html: {file}.html")
    if folder.exists() and not folder.is_dir():
        raise CallError(f"{folder} is a file, but the pages of {file} need a folder of that name; choose another name")
    folder.mkdir(exist_ok=True)
    for number, why in enumerate(explanations, start=1):
        write_page(why, folder / f"{number}.html", back=file)
    write_html(_list(explanations, folder.name), file)


def _list(explanations: Sequence[Explanation], folder: str) -> str:
    """The list, with links."""
    when = heading_of_times(explanations[0].query.time)
    rows = (_row(number, why, folder) for number, why in enumerate(explanations, start=1))
    title = count(len(explanations), "explanation")
    listed = table(("", "event", "link", when, "prediction", "answer"), rows, "explanations")
    body = tag.main(card("explanations", title, "Each row links to its page.", listed))
    return document(title, body, [], served=False)


def _row(number: int, why: Explanation, folder: str) -> Markup:
    address, facts = f"{quote(folder)}/{number}.html", Facts(why)
    shown = figure(why.decision, why.states[0]) or facts.gauge.written(why.original)[0]
    return row(
        tag.a(str(number), href=address),
        "" if why.event is None else str(why.event),
        tag.a(link(why.src, why.dst), href=address),
        moment(why.query.time),
        f"{facts.outcome(why.original)} ({shown})",
        why.sentence,
        heading=2,
    )
