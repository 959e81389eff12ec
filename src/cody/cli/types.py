"""Types of options: numbers within limits, and files that are read or written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    AnyType = click.ParamType[Any, Any]
else:
    AnyType = click.ParamType  # it takes no parameters before click 8.2


class Number(AnyType):
    """A number within limits, both included; not a number is within none."""

    def __init__(self, kind: AnyType, least: float, most: float | None = None) -> None:
        self.kind, self.least, self.most, self.name = kind, least, most, kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = self.kind.convert(value, param, ctx)
        if not number >= self.least:
            self.fail(f"{number} is not greater than or equal to {self.least}", param, ctx)
        if self.most is not None and not number <= self.most:
            self.fail(f"{number} is not less than or equal to {self.most}", param, ctx)
        return number


whole, real = partial(Number, click.INT), partial(Number, click.FLOAT)
COUNT = whole(1)
FILE = click.Path(path_type=Path)  # to be read

# Endings that say what a file is. One that is not listed may mean anything.
ENDINGS = frozenset(
    [
        *(".html", ".htm", ".jsonl", ".json", ".ndjson", ".txt", ".csv", ".tsv", ".parquet", ".xlsx", ".gz", ".zip"),
        *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf", ".md", ".tex", ".py", ".ipynb", ".toml", ".yaml"),
        *(".npy", ".npz", ".pt", ".pth", ".ckpt", ".safetensors", ".pkl"),
    ]
)


class Output(click.Path):
    """A file or folder that is written. A name that says it is something else is surely a mistake.

    Args:
        what: What is written there.
        endings: How the names of such files end; a folder has no ending.
    """

    def __init__(self, what: str, endings: str = "") -> None:
        super().__init__(path_type=Path)
        self.what, self.endings = what, endings.split()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        ending = path.suffix.lower()
        if ending in ENDINGS - {*self.endings} and not path.is_dir():
            usual = " or ".join(self.endings[:2])
            advice = f"give a name that ends in {usual}" if usual else "leave the ending out"
            self.fail(f"{str(value)!r} ends in {ending}, but it will be {self.what}: {advice}", param, ctx)
        return path


FOLDER = Output("a folder")
PAGE = Output("a page", ".html .htm")
LINES = Output("lines of JSON", ".jsonl .json .ndjson .txt .gz")  # .gz is refused with its own reason
FIGURE = Output("a figure", ".pdf .svg .png")
TABLE = Output("a table", ".csv .parquet")
BUNDLE = Output("a zip file", ".zip")
