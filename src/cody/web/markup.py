"""HTML and SVG as text. Data is escaped here, once, so that it is always shown as text."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from functools import cache

from cody.utils.words import sanitize

VOID = frozenset({"br", "input", "meta"})
SPECIAL = re.compile("[&<>\"']")


class Markup(str):
    """Text that is already HTML. Any other text in an element is escaped."""

    __slots__ = ()


Child = str | Markup | None


def element(tag: str, /, *children: Child, **attributes: object) -> Markup:
    """An element with its attributes; names that Python reserves end in an underscore, other underscores are hyphens.

    >>> element("text", "<b>", class_="lane", data_row=3, hidden=True, title=None)
    '<text class="lane" data-row="3" hidden>&lt;b&gt;</text>'
    """
    opened = "".join([tag, *(_attribute(key, value) for key, value in attributes.items())])
    if tag in VOID:
        return Markup(f"<{opened}>")
    return Markup(f"<{opened}>{join(children)}</{tag}>")


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
    return element("bdi", sanitize(text, width))


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
