"""How the documentation site is built: `make docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

from live_pages import write_pages  # noqa: E402

from cody import __version__  # noqa: E402

project = "CoDy"
author = "The CoDy project"
copyright = "The CoDy project, MIT licence"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"CoDy {release}"

myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 120

default_role = "code"  # docstrings write `name`, as Markdown does
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {  # a type that has a name is shown by it
    name: name
    for file in (DOCS.parent / "src").rglob("*.py")
    for name in re.findall(r"^([A-Z]\w+) = \w+\[", file.read_text(encoding="utf-8"), re.MULTILINE)
}
suppress_warnings = ["ref.python"]  # the same short name may be a type in two modules
python_use_unqualified_type_names = True

LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)\s]*)?\)")  # text, file; a place in it is left out


def link_to_files_beside_docs(app: Any, page: str, source: list[str]) -> None:
    """Pages of the repository that are no pages of the site, and folders, cannot be linked to: offer or name them."""

    def link(match: re.Match[str]) -> str:
        text, target = " ".join(match[1].split()), match[2]
        file = (DOCS / page).parent.joinpath(target).resolve()
        if file.is_relative_to(DOCS) or not file.exists():
            return match[0]
        if file.is_dir():
            return f"{text} (`{file.relative_to(DOCS.parent)}`)"
        return f"{{download}}`{text.strip('`')} <{target}>`" if file.suffix == ".md" else match[0]

    source[0] = LINK.sub(link, source[0])


def read_as_markdown(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text that Markdown would read: lists begin without a blank line, and |X| is a size."""
    read: list[str] = []
    for line in lines:
        begins_list = line.lstrip().startswith("- ") and read and read[-1].strip()
        if begins_list and not read[-1].lstrip().startswith("- ") and not read[-1].startswith("  "):
            read.append("")
        read.append(line if line.lstrip().startswith((">>>", "...")) else line.replace("|", r"\|"))
    lines[:] = read


def skip_fields_of_tuples(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """The fields of a NamedTuple have no docstring of their own, but Python says "Alias for field number 0"."""
    return True if (getattr(value, "__doc__", None) or "").startswith("Alias for field number") else None


def name_types(*event: Any) -> tuple[str | None, ...]:
    """Within a larger type, autodoc shows its own stand-in for a named one."""
    *_, given, returned = event
    return tuple(text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (given, returned))


def write_frames(app: Any, error: Exception | None) -> None:
    """The pages that the site shows in frames."""
    if error is None and app.builder.format == "html":
        write_pages(Path(app.outdir, "pages"))


def setup(app: Any) -> None:
    app.connect("build-finished", write_frames)
    app.connect("source-read", link_to_files_beside_docs)
    app.connect("autodoc-process-docstring", read_as_markdown)
    app.connect("autodoc-process-signature", name_types)
    app.connect("autodoc-skip-member", skip_fields_of_tuples)
