"""HTML and SVG as text, and what several pages are made of. Data is escaped here, once, so that it is always text."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from functools import cache, partial
from typing import Protocol

from cody.utils.words import sanitize

VOID = frozenset({"br", "input", "meta"})
SPECIAL = re.compile("[&<>\"']")


class Markup(str):
    """Text that is already HTML. Any other text in an element is escaped."""

    __slots__ = ()


Child = str | Markup | None


def element(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element with its attributes; names that Python reserves end in an underscore, other underscores are hyphens.

    >>> element("text", "<b>", class_="lane", data_row=3, hidden=True, title=None)
    '<text class="lane" data-row="3" hidden>&lt;b&gt;</text>'
    """
    opened = "".join([name, *(_attribute(key, value) for key, value in attributes.items())])
    if name in VOID:
        return Markup(f"<{opened}>")
    return Markup(f"<{opened}>{join(children)}</{name}>")


class Element(Protocol):
    """A function that makes elements of one name."""

    def __call__(self, *children: Child, **attributes: object) -> Markup: ...


class Tags:
    """Elements by their names.

    >>> tag.p("a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """

    def __getattr__(self, name: str) -> Element:
        return partial(element, name)


tag = Tags()


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Several pieces in a row, escaped where they are not markup."""
    made = [child if isinstance(child, Markup) else _escaped(child) for child in children if child is not None]
    return Markup(_escaped(between).join(made))


def number(value: float) -> str:
    """A coordinate: two digits are finer than any screen.

    >>> number(12.0), number(3.14159), number(-0.001)
    ('12', '3.14', '0')
    """
    written = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if written == "-0" else written


def percent(share: float) -> str:
    return f"{number(100 * share)}%"


def name(text: str, width: int = 24) -> Markup:
    """A name from the data; its writing direction does not affect the text around it."""
    return tag.bdi(sanitize(text, width))


def link(src: str, dst: str, width: int = 24) -> Markup:
    return join([name(src, width), " → ", name(dst, width)])


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    key = _attribute_name(key)
    if value is True:
        return f" {key}"
    if isinstance(value, float):
        assert math.isfinite(value), f"{key} is {value}"
        return f' {key}="{number(value)}"'
    return f' {key}="{_escaped(str(value))}"'


@cache
def _attribute_name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _escaped(text: str) -> str:
    """The same text in HTML. Most texts need no escaping, and checking is faster than replacing."""
    return html.escape(text) if SPECIAL.search(text) else text


# What several pages are made of


def card(key: str, title: Child, words: Child, *parts: Child, aside: Child = None) -> Markup:
    """A part of a page: its heading, a sentence about what it shows, and that.

    Args:
        key: Names the part, for styles and scripts.
        title: The heading.
        words: The sentence; empty: there is none.
        *parts: What it shows.
        aside: What stands beside the heading.
    """
    head = tag.header(tag.h2(title, id=f"{key}-title"), tag.p(words) if words else None, aside)
    return tag.section(head, *parts, class_=f"card part-{key}", aria_labelledby=f"{key}-title")


def report_head(
    occasion: str,
    title: Child,
    answers: Iterable[Child] = (),
    badges: Iterable[Child] = (),
    tiles: Iterable[Markup] = (),
    *,
    question: str = "",
) -> Markup:
    """The top of a report: the finding, and its figures beside it.

    Args:
        occasion: What kind of report it is, about what.
        title: The finding.
        answers: Further sentences.
        badges: Short remarks; None: left out.
        tiles: The figures.
        question: The question, above the finding.
    """
    listed = [tag.li(each) if type(each) is str else each for each in badges]
    words = tag.div(
        tag.p(occasion, class_="occasion"),
        tag.p(question) if question else None,
        tag.h1(_unbroken(title)),
        *(tag.p(_unbroken(each), class_="answer") for each in answers),
        tag.ul(*listed, class_="badges") if listed else None,
        class_="words",
    )
    return tag.header(words, tag.ul(*tiles, class_="tiles"), class_="head card")


def _unbroken(text: Child) -> Child:
    """A text whose lines do not end between a number and its per cent."""
    return text if text is None or isinstance(text, Markup) else text.replace(" %", "\u00a0%")


def tile(figure: str, what: str, more: str) -> Markup:
    return tag.li(tag.b(figure), tag.span(what, tag.small(more)))


class TableCell(Markup):
    """A cell of a table with attributes of its own."""

    __slots__ = ()


def cell(*children: Child, **attributes: object) -> TableCell:
    return TableCell(tag.td(*children, **attributes))


def row(*cells: Child, heading: int = 0, kind: str | None = None) -> Markup:
    """A row of a table.

    Args:
        *cells: What stands in each cell, or the whole of it, as `cell` makes it.
        heading: Place of the cell that names the row.
        kind: For styles.
    """
    made = (
        each if isinstance(each, TableCell) else tag.th(each, scope="row") if place == heading else tag.td(each)
        for place, each in enumerate(cells)
    )
    return tag.tr(*made, class_=kind)


def table(heads: Iterable[Child], rows: Iterable[Markup], kind: str | None = None, *, caption: str = "") -> Markup:
    """A table.

    Args:
        heads: The headings of its columns.
        rows: Its rows.
        kind: For styles.
        caption: For screen readers.
    """
    head = tag.tr(*(tag.th(title, scope="col") for title in heads))
    hidden = tag.caption(caption, class_="hidden-text") if caption else None
    return tag.table(hidden, tag.thead(head), tag.tbody(*rows), class_=kind)


def bar(share: float, *more: Markup) -> TableCell:
    """A cell with a bar.

    Args:
        share: Its length.
        *more: What else is drawn: a title, an interval.
    """
    drawn = tag.rect(x=0, y=3, width=percent(share), height=12, class_="mean")
    hidden = None if more else "true"
    return cell(tag.svg(drawn, *more, width="100%", height=18, aria_hidden=hidden), class_="bar")


def scrolled(table: Markup, label: str) -> Markup:
    """A table that scrolls by itself where the window is too narrow for it."""
    return tag.div(table, class_="scroll", tabindex=0, role="region", aria_label=label)


def search_field(words: str) -> Markup:
    """A field that filters a list."""
    field = tag.input(type="search", id="filter", placeholder=words, autocomplete="off")
    return tag.label(tag.span(words, class_="hidden-text"), field)
