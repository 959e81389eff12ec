"""Count lines of code: `python bench/code_lines.py [FOLDER]` prints them for each room and in total.

Blank lines, comments and docstrings do not count.
"""

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(file: Path) -> int:
    """Lines of a file that hold code."""
    with tokenize.open(file) as opened:
        tokens = list(tokenize.generate_tokens(opened.readline))
    lines = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - docstring_lines(ast.parse(file.read_text())))


def docstring_lines(tree: ast.Module) -> set[int]:
    """Lines that docstrings take."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
    docstrings = [body[0] for body in bodies if body and _is_docstring(body[0])]
    return {line for docstring in docstrings for line in range(docstring.lineno, docstring.end_lineno + 1)}


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def rooms(folder: Path) -> Counter[str]:
    """Lines of code for each subfolder of a folder; files beside them count as `.`."""
    counts: Counter[str] = Counter()
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).parts
        counts[parts[0] if len(parts) > 1 else "."] += code_lines(file)
    return counts


if __name__ == "__main__":
    counted = rooms(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "src" / "cody")
    for room, lines in sorted(counted.items()):
        print(f"{room:12} {lines:7,}")
    print(f"{'total':12} {counted.total():7,}")
