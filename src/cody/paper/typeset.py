"""Tables as text, Markdown, LaTeX and csv."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from cody.paper.tables import PAPER, Cell, Column, Measure, Table, rounded
from cody.study.arrange import DATA, MODELS, Parts, in_order
from cody.study.explainers import known
from cody.study.record import KINDS
from cody.utils.words import applied_to, count

WIDTH = 80
MISSING = "–"
GAP = "  "  # between columns
SHORT = {"correct": "corr.", "incorrect": "incorr."}
LATEX_DATA = {"uci-messages": "UCI-Messages", "uci-forums": "UCI-Forums", "wikipedia": "Wikipedia"}


def as_text(tables: Iterable[Table]) -> str:
    """For a terminal of 80 columns: a block for each data set, or several if one is too wide. Remarks come last."""
    made = list(tables)
    remarks = dict.fromkeys(remark for table in made for remark in table.remarks)
    blocks = [block for table in made for block in _text_of(table)]
    return "\n\n".join([*blocks, *("\n".join(_wrapped(remark)) for remark in remarks)]) + "\n"


def as_markdown(tables: Iterable[Table]) -> str:
    """One table for each measure, because Markdown has no headings that span columns."""
    return "\n".join(line for table in tables for line in _markdown_of(table))


def as_latex(tables: Iterable[Table]) -> str:
    """In the paper's layout, for `\\input`; needs nothing but LaTeX and graphicx."""
    return "\n".join(line for table in tables for line in _latex_of(table))


def as_csv(tables: Iterable[Table]) -> str:
    """One line for each model, data set, kind and explainer; every measure with all digits, empty where undefined."""
    lines: dict[tuple[str, ...], dict[str, object]] = {}
    for table in tables:
        for explainer, row in table.rows.items():
            for column in (column for panel in table.columns for column in panel):
                about = {"model": table.model, "data": column.data, "kind": column.kind, "explainer": explainer}
                line = lines.setdefault(tuple(about.values()), dict(about))
                line |= _values(column.measure.name, row[column], table)
    out = io.StringIO()
    names = dict.fromkeys(name for line in lines.values() for name in line)
    writer = csv.DictWriter(out, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines.values())
    return out.getvalue()


def _values(name: str, cell: Cell, table: Table) -> dict[str, object]:
    found: dict[str, object] = {name: cell.value}
    if table.level is not None:
        low, high = cell.interval or (None, None)
        found |= {f"{name}_low": low, f"{name}_high": high}
    if table.has_paper:
        found |= {f"{name}_paper": cell.paper}
    return found


def _number(value: float | None, measure: Measure) -> str:
    return MISSING if value is None else f"{rounded(value, measure.digits):.{measure.digits}f}"


def _extras(cell: Cell, column: Column, table: Table) -> str:
    """What follows a number: its interval, and the paper's number."""
    text = ""
    if cell.interval is not None:
        text += f" [{_number(cell.interval.low, column.measure)}, {_number(cell.interval.high, column.measure)}]"
    if cell.paper is not None:
        text += f" ({_number(cell.paper, column.measure)})"
    return text


# Text


def _text_of(table: Table) -> Iterator[str]:
    for data in in_order((data for data, _ in table.links), DATA):
        kinds = in_order((kind for name, kind in table.links if name == data), KINDS)
        links = " and ".join(table.words[data, kind].counted(table.links[data, kind]) for kind in kinds)
        heading = f"{table.layout.title}\n{applied_to(table.model, data)}, {links}"
        yield "\n\n".join([heading, *_blocks(table, data)])
    yield "\n".join(_legend(table))


def _blocks(table: Table, data: str) -> Iterator[str]:
    """All measures side by side if they fit, else one panel below the other, else as many columns as fit."""

    def fits(columns: Sequence[Column]) -> bool:
        return max(map(len, _block(table, columns).splitlines())) <= WIDTH

    panels = [[column for column in panel if column.data == data] for panel in table.columns]
    whole = [column for panel in panels for column in panel]
    for columns in [whole] if fits(whole) else panels:
        shown: list[Column] = []
        for column in columns:
            if shown and not fits([*shown, column]):
                yield _block(table, shown)
                shown = []
            shown.append(column)
        yield _block(table, shown)


def _block(table: Table, columns: Sequence[Column]) -> str:
    """A row for each explainer; a measure's title is above its columns."""
    grid = [_padded(["explainer", *table.rows])]
    titles = [" " * len(grid[0][0])]
    for measure, run in groupby(columns, key=lambda column: column.measure):
        cells = {column: [_marked(table, row[column], column) for row in table.rows.values()] for column in run}
        beside = [_padded([SHORT.get(column.kind, column.kind), *texts]) for column, texts in cells.items()]
        width = max(len(measure.title), len(GAP.join(texts[0] for texts in beside)))
        beside[-1] = [text + " " * (width - len(GAP.join(texts[0] for texts in beside))) for text in beside[-1]]
        titles.append(measure.title.ljust(width))
        grid += beside
    return "\n".join(GAP.join(row).rstrip() for row in [titles, *zip(*grid, strict=True)])


def _padded(texts: Sequence[str]) -> list[str]:
    return [text.ljust(max(map(len, texts))) for text in texts]


def _marked(table: Table, cell: Cell, column: Column) -> str:
    mark = {1: "*", 2: "'"}.get(cell.place or 0, "")
    extras = _extras(cell, column, table)
    return _number(cell.value, column.measure) + (mark.ljust(column.measure.ranked) + extras if extras else mark)


def _legend(table: Table) -> Iterator[str]:
    marks = "* best, ' second best in its column; " if _is_marked(table) else ""
    yield f"{marks}X explanation, C candidates"
    if table.level is not None:
        yield f"[low, high]: {100 * table.level:g} % bootstrap interval over {table.subject}s"
    if table.has_paper:
        yield from _wrapped(f"(number): the paper's (ICML 2025): {PAPER}")
    for measure in dict.fromkeys(column.measure for panel in table.columns for column in panel):
        yield from _wrapped(f"{measure.title}: {_formula(measure, table)}")


def _formula(measure: Measure, table: Table) -> str:
    return measure.formula.replace("links", f"{table.subject}s")


def _is_marked(table: Table) -> bool:
    return any(column.measure.ranked for panel in table.columns for column in panel)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


# Markdown


def _markdown_of(table: Table) -> Iterator[str]:
    yield f"### {table.layout.title}: {table.model}\n"
    for panel in table.columns:
        for measure, run in groupby(panel, key=lambda column: column.measure):
            columns = list(run)
            yield f"**{measure.title}**: {_cell_text(_formula(measure, table))}\n"
            yield f"| explainer | {' | '.join(_cell_text(f'{column.data}, {column.kind}') for column in columns)} |"
            yield f"|---|{'---|' * len(columns)}"
            for explainer, row in table.rows.items():
                cells = [_markdown_cell(row[column], column, table) for column in columns]
                yield f"| {_cell_text(explainer)} | {' | '.join(cells)} |"
            yield ""
    yield from (f"{line}\n" for line in [_sizes(table), *table.remarks])


def _markdown_cell(cell: Cell, column: Column, table: Table) -> str:
    number = _number(cell.value, column.measure)
    number = {1: f"**{number}**", 2: f"<u>{number}</u>"}.get(cell.place or 0, number)
    return number + _extras(cell, column, table)


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|")


def _sizes(table: Table) -> str:
    """What the numbers of a table are means of, and what its signs mean."""
    words = table.words
    sizes = [f"{words[group].counted(links)} of {group[0]}" for group, links in table.links.items()]
    if len(sizes) > 1 and len(set(table.links.values())) == 1:
        sizes = [f"{count(next(iter(table.links.values())), table.subject)} of each kind and data set"]
    text = f"Means over {', '.join(sizes)}." + (" Best bold, second best underlined." if _is_marked(table) else "")
    if table.level is not None:
        text += f" In brackets: {100 * table.level:g} % bootstrap intervals over {table.subject}s."
    return text + (f" In parentheses: the paper's figures (ICML 2025): {PAPER}." if table.has_paper else "")


# LaTeX


def _latex_of(table: Table) -> Iterator[str]:
    measures = list(dict.fromkeys(column.measure for panel in table.columns for column in panel))
    formulas = "; ".join(f"{measure.latex}: {latex_text(_formula(measure, table))}" for measure in measures)
    remarks = " ".join(latex_text(remark) for remark in [_sizes(table), *table.remarks])
    yield r"\begin{table*}[t]"
    yield r"\centering"
    model = table.model.upper() if table.model in MODELS else latex_text(table.model)
    yield rf"\caption{{{latex_text(table.layout.title)} for {model}. {formulas}. {remarks}}}"
    yield rf"\label{{t_{table.layout.name}_{re.sub('[^a-z0-9]+', '_', table.model.lower())}}}"
    yield r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    panels = _latex_panels(table)
    runs = [list(run) for _, run in groupby(panels[0], key=lambda column: column.measure)]
    yield rf"\begin{{tabular}}{{l|{'|'.join('c' * len(run) for run in runs)}}}"
    for panel in panels:
        yield r"\hline"
        yield from _latex_heading(panel, table.layout.data_first)
        yield r"\hline"
        for explainer, row in table.rows.items():
            cells = [_latex_cell(row[column], column, table) for column in panel]
            yield " & ".join([_latex_name(explainer, table.explainers[explainer]), *cells]) + r" \\"
    yield r"\hline"
    yield "\\end{tabular}}\n\\end{table*}\n"


def _latex_panels(table: Table) -> list[list[Column]]:
    """The paper's panels; with intervals or the paper's figures, which take room, one measure below the other."""
    if not table.has_paper and table.level is None:
        return [list(panel) for panel in table.columns]
    columns = [column for panel in table.columns for column in panel]
    return [list(run) for _, run in groupby(columns, key=lambda column: column.measure)]


def _latex_heading(columns: Sequence[Column], data_first: bool) -> Iterator[str]:
    """Three lines: measures, then data sets or kinds that span columns, then each column."""

    def outer(column: Column) -> tuple[Measure, str]:
        return column.measure, column.data if data_first else column.kind

    over = [(measure, len(list(run))) for measure, run in groupby(columns, key=lambda column: column.measure)]
    yield _spanning([(measure.latex, length, number + 1 < len(over)) for number, (measure, length) in enumerate(over)])
    runs = [(key, len(list(run))) for key, run in groupby(columns, key=outer)]
    ends = [number + 1 < len(runs) and runs[number + 1][0][0] != key[0] for number, (key, _) in enumerate(runs)]
    names = [LATEX_DATA.get(key[1], latex_text(key[1]).capitalize()) for key, _ in runs]
    yield _spanning([(name, run[1], end) for name, run, end in zip(names, runs, ends, strict=True)])
    inner = [column.kind if data_first else column.data for column in columns]
    yield " & ".join(["", *(SHORT.get(name) or LATEX_DATA.get(name, latex_text(name)) for name in inner)]) + r" \\"


def _spanning(runs: Sequence[tuple[str, int, bool]]) -> str:
    """Titles that span several columns each; True draws a line after one."""
    return "".join(rf" & \multicolumn{{{length}}}{{c{'|' * line}}}{{{text}}}" for text, length, line in runs) + r" \\"


def _latex_cell(cell: Cell, column: Column, table: Table) -> str:
    if cell.value is None:
        return MISSING + (rf" {{\scriptsize{_extras(cell, column, table)}}}" if cell.paper is not None else "")
    number = f"${_number(cell.value, column.measure)}$"
    number = {1: rf"$\textbf{{{number.strip('$')}}}$", 2: rf"\underline{{{number}}}"}.get(cell.place or 0, number)
    extras = _extras(cell, column, table)
    return number + (rf" {{\scriptsize{extras}}}" if extras else "")


def _latex_name(explainer: str, parts: Parts) -> str:
    r"""As the paper writes it, if it has the name of one in the catalogue; a setting follows the name.

    >>> print(_latex_name("cody-temporal (size=9)", ("cody", "temporal")), _latex_name("my_own", ("mine", "mine")))
    CoDy-\textit{temporal} (size=9) my\_own
    """
    entry = known(*parts)
    if entry is None or not explainer.startswith(entry.name):
        return latex_text(explainer)
    policy = "" if entry.factual else rf"-\textit{{{parts[1]}}}"
    return entry.title + policy + latex_text(explainer.removeprefix(entry.name))


def latex_text(text: str) -> str:
    """Escaped, with a few symbols of the formulas in math mode."""
    escaped = re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", "/"))
    for sign, latex in (("|X|/|C|", "$|X|/|C|$"), ("·", r"$\cdot$"), ("−", "$-$"), ("–", "--"), ("~", " "), ("^", " ")):
        escaped = escaped.replace(sign, latex)
    return escaped
