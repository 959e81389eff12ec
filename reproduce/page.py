"""Sections of a page that scripts write: what stands between `<!-- title -->` and `<!-- /title -->`."""

import textwrap

from cody.utils.files import write_atomically


def replace_section(page, title, text):
    begin, end = f"<!-- {title} -->", f"<!-- /{title} -->"
    old = page.read_text(encoding="utf-8")
    before, rest = old.split(begin)
    lines = [line for long in text.splitlines() for line in wrapped(long)]
    write_atomically(page, "\n".join([f"{before}{begin}", *lines, f"{end}{rest.split(end)[1]}"]))


def wrapped(line):
    """A line of prose as lines of at most 120 letters; rows of a table stay as they are."""
    if line.startswith("|") or not line:
        return [line]
    hanging = "  " if line.startswith("- ") else ""
    return textwrap.wrap(line, 120, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
