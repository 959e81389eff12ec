"""Sections of a page that scripts write: what stands between `<!-- title -->` and `<!-- /title -->`."""

from cody.files import write_atomically


def replace_section(page, title, text):
    begin, end = f"<!-- {title} -->", f"<!-- /{title} -->"
    old = page.read_text(encoding="utf-8")
    before, rest = old.split(begin)
    write_atomically(page, f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
