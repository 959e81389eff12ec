"""cody import-model: weights of a model that was trained elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cody.cli.command import COUNT, FILE, FOLDER, argument, bundled, command, given, option, option_fields, section
from cody.cli.messages import Prose, print_parts
from cody.cli.options import DataSource, required_data_options
from cody.errors import CallError, did_you_mean
from cody.explaining.what_if import parse_rows
from cody.graph import TemporalGraph

_model, _pyg = section("The model"), option_fields("Models of PyTorch Geometric (--from pyg)")


@dataclass(frozen=True, slots=True)
class PygOptions:
    """How a model of PyTorch Geometric was fed."""

    start: str | None = _pyg("The time that the model counts as 0, or 'first', that of the first event.")
    message: float | None = _pyg("The message of every event, if the data have no features.")
    splits: str | None = _pyg(
        "Rows at which your loop starts a new batch because it has a loader for each part of the data, "
        "such as 24914,30253, or 'none'. Default: the first rows of the library's 70/15/15 % split by time."
    )
    sees_own_batch: bool | None = _pyg(
        "A link sees earlier events of its own batch; in the library's loop it does not."
    )


@command("import-model")
@argument(
    "weights", "State dicts, or a training checkpoint with them: safetensors, or .pth without objects.", type=FILE
)
@required_data_options
@_model("--from", "origin", default="tgn-original", help="Origin of the weights: tgn-original or pyg.")
@_model("--layers", type=COUNT, help="Number of attention layers (n_layer); pyg has one.")
@_model("--heads", type=COUNT, required=True, help="Number of attention heads (n_head).")
@_model("--neighbours", type=COUNT, required=True, help="Number of recent events that a node attends to (n_degree).")
@_model("--batch", type=COUNT, required=True, help="Number of events between two updates of the memory (bs).")
@bundled("pyg", PygOptions)
@option("--out", type=FOLDER, required=True, help="Folder for the model.")
def import_model(
    weights: Path, source: DataSource, origin: str, layers: int | None, pyg: PygOptions, out: Path, **sizes: int
) -> None:
    """Import the weights of a model trained elsewhere."""
    importers = {"tgn-original": _import_original, "pyg": _import_pyg}
    if origin not in importers:
        raise CallError(f"cannot import models from {origin!r}{did_you_mean(origin, importers)}")
    imported = importers[origin](weights, source.load(), out, layers, pyg, sizes)
    known = ", ".join(f"{name} {value}" for name, value in asdict(imported).items() if value is not None)
    parts = [Prose(f"Imported {weights.name} into {out}: {known}")]
    from cody.models.folder import read_model

    left_out = read_model(out).origin["left_out"]
    if left_out:
        parts.append(Prose(f"Left out, since these are not weights: {', '.join(left_out)}"))
    print_parts(parts)


def _import_original(
    weights: Path, graph: TemporalGraph, folder: Path, layers: int | None, pyg: PygOptions, sizes: dict[str, int]
) -> Any:
    if layers is None:
        raise CallError("--from tgn-original needs --layers")
    for name in given(pyg):
        raise CallError(f"{name} is for --from pyg")
    from cody.train.original import import_original

    return import_original(weights, graph, folder, layers=layers, **sizes)


def _import_pyg(
    weights: Path, graph: TemporalGraph, folder: Path, layers: int | None, pyg: PygOptions, sizes: dict[str, int]
) -> Any:
    if layers not in (None, 1):
        raise CallError(f"--layers {layers}: the TGN of PyTorch Geometric's example has one layer")
    from cody.adapters.pyg_folder import import_pyg

    start = pyg.start or "0"
    zero = float(graph.time[0]) if start == "first" and graph.num_events else graph.when(start)
    splits = [] if pyg.splits == "none" else None if pyg.splits is None else parse_rows(pyg.splits)
    fed: dict[str, Any] = {"splits": splits, "sees_own_batch": bool(pyg.sees_own_batch), **sizes}
    return import_pyg(weights, graph, folder, start=zero, message=pyg.message, **fed)
