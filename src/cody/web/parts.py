"""What several pages are made of: cards, the head of a report with its tiles, tables, and bars in their cells."""

from __future__ import annotations

from collections.abc import Iterable

from cody.web.markup import Child, Markup, element, percent


def card(key: str, title: Child, words: Child, *parts: Child, aside: Child = None) -> Markup:
    """A part of a page: its heading, a sentence about what it shows, and that.

    Args:
        key: Names the part, for styles and scripts.
        title: The heading.
        words: The sentence; empty: there is none.
        *parts: What it shows.
        aside: What stands beside the heading.
    """
    head = element("header", element("h2", title, id=f"{key}-title"), element("p", words) if words else None, aside)
    return element("section", head, *parts, class_=f"card part-{key}", aria_labelledby=f"{key}-title")


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
    listed = [element("li", each) if type(each) is str else each for each in badges]
    words = element(
        "div",
        element("p", occasion, class_="occasion"),
        element("p", question) if question else None,
        element("h1", _unbroken(title)),
        *(element("p", _unbroken(each), class_="answer") for each in answers),
        element("ul", *listed, class_="badges") if listed else None,
        class_="words",
    )
    return element("header", words, element("ul", *tiles, class_="tiles"), class_="head card")


def _unbroken(text: Child) -> Child:
    """A text whose lines do not end between a number and its per cent."""
    return text if text is None or isinstance(text, Markup) else text.replace(" %", "\u00a0%")


def tile(figure: str, what: str, more: str) -> Markup:
    return element("li", element("b", figure), element("span", what, element("small", more)))


class TableCell(Markup):
    """A cell of a table with attributes of its own."""

    __slots__ = ()


def cell(*children: Child, tag: str = "td", **attributes: object) -> TableCell:
    return TableCell(element(tag, *children, **attributes))


def row(*cells: Child, heading: int = 0, kind: str | None = None) -> Markup:
    """A row of a table.

    Args:
        *cells: What stands in each cell, or the whole of it, as `cell` makes it.
        heading: Place of the cell that names the row.
        kind: For styles.
    """
    made = (
        each if isinstance(each, TableCell) else cell(each, tag="th", scope="row") if place == heading else cell(each)
        for place, each in enumerate(cells)
    )
    return element("tr", *made, class_=kind)


def table(heads: Iterable[Child], rows: Iterable[Markup], kind: str | None = None, *, caption: str = "") -> Markup:
    """A table.

    Args:
        heads: The headings of its columns.
        rows: Its rows.
        kind: For styles.
        caption: For screen readers.
    """
    head = element("tr", *(element("th", title, scope="col") for title in heads))
    hidden = element("caption", caption, class_="hidden-text") if caption else None
    return element("table", hidden, element("thead", head), element("tbody", *rows), class_=kind)


def bar(share: float, *more: Markup) -> TableCell:
    """A cell with a bar.

    Args:
        share: Its length.
        *more: What else is drawn: a title, an interval.
    """
    drawn = element("rect", x=0, y=3, width=percent(share), height=12, class_="mean")
    hidden = None if more else "true"
    return cell(element("svg", drawn, *more, width="100%", height=18, aria_hidden=hidden), class_="bar")
