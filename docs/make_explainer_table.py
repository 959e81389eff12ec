"""Write the table of docs/methods/index.md from the catalogue: `python docs/make_explainer_table.py`."""

from __future__ import annotations

import re
from pathlib import Path

from cody.search.options import options_of
from cody.study.explainers import DEFAULT_SEARCH, FACTUAL, PREFIXES, RANKINGS, SEARCHES, Entry, name_of

TARGET = Path(__file__).parent / "methods" / "index.md"


def page() -> str:
    """The page with the table as the catalogue has it now."""
    text = TARGET.read_text(encoding="utf-8")
    return re.sub(
        r"(?<=<!-- explainers -->\n).*(?=<!-- /explainers -->)", lambda _: "\n".join(table()) + "\n", text, flags=re.S
    )


def table() -> list[str]:
    lines = ["| name | method | answers | policy | options of the search |", "|---|---|---|---|---|"]
    for name, (title, search, _) in SEARCHES.items():
        default = ", the default" if name == DEFAULT_SEARCH else ""
        lines.append(f"| `{name}` | {title}{default} | counterfactual | any | {written(options_of(search))} |")
    return lines + [of_entry(entry) for entry in (*FACTUAL, *RANKINGS, *PREFIXES)]


def of_entry(entry: Entry) -> str:
    policy = f"{entry.learned}, trained" if entry.policy is None else name_of(entry.policy)
    answers = "factual" if entry.factual else "counterfactual"
    return f"| `{entry.name}` | {entry.title} | {answers} | {policy} | {written(entry.options)} |"


def written(options: dict[str, object]) -> str:
    return ", ".join(f"`{name}={_short(value)}`" for name, value in options.items()) or "–"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
