"""A saved model: a folder with `model.safetensors` and `model.json`, read and written without torch or pickle."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from cody._version import __version__
from cody.errors import HANDFUL, CallError, ModelError, did_you_mean, first_line
from cody.models.contract import LabelTask
from cody.models.sizes import ARCHITECTURES, PygSizes, SequenceSizes, Shapes, Sizes, check_shapes, linear
from cody.utils.files import is_as_written, replacing, with_checksum, write_atomically
from cody.utils.hub import hub_folder, is_hub_address
from cody.utils.words import sanitize

SCHEMA = "cody/model/1"
LABEL = "label"  # the task of a model that labels; a description without a task is that of a link model

Arrays = dict[str, NDArray[Any]]  # weights by name


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The content of a model folder."""

    kind: str  # of architecture
    sizes: Sizes | PygSizes | SequenceSizes
    arrays: Arrays
    data: str  # identity of the graph it was trained on, or imported for
    origin: dict[str, Any] = field(default_factory=dict)  # settings and metrics of its training, or its source
    task: LabelTask | None = None  # what it labels; None: it scores links


def own_sizes(saved: SavedModel) -> Sizes:
    """The sizes of a network of our own; models of other libraries are rejected."""
    if not isinstance(saved.sizes, Sizes):
        raise ModelError(f"this is possible only for the TGN and TGAT of this package, not for a {saved.kind}")
    return saved.sizes


def write_model(folder: Path, model: SavedModel) -> None:
    """Write the two files; `model.json` is written last: a folder without it is not a model."""
    make_folder(folder)
    check_replaceable(folder, "model")
    document = {
        "schema": SCHEMA,
        "architecture": model.kind,
        "sizes": asdict(model.sizes),
        "data": model.data,
        "origin": model.origin,
        "cody": __version__,
        "weights": write_arrays(folder / "model.safetensors", model.arrays),
    } | ({} if model.task is None else {"task": LABEL, **asdict(model.task)})
    write_json(folder / "model.json", document)


def read_model(name: str | Path) -> SavedModel:
    """Read a model folder, or a model that ships with the package, by name."""
    folder = find_model(name)
    document = read_description(folder / "model.json", SCHEMA)
    try:
        kind = document["architecture"]
        known = {entry.name for entry in fields(ARCHITECTURES[kind].sizes)}
        sizes = ARCHITECTURES[kind].sizes(**{key: value for key, value in document["sizes"].items() if key in known})
        shapes = ARCHITECTURES[kind].shapes(sizes)
        data, origin, task = document["data"], document["origin"], _task(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{folder / 'model.json'} is damaged: {sanitize(repr(error))}") from None
    if task is not None and isinstance(sizes, Sizes):
        shapes = {**shapes, **linear("score.out", sizes.dimension, task.outputs)}
    arrays = read_weights(folder / "model.safetensors", shapes, document)
    return SavedModel(kind, sizes, arrays, data, origin, task)


def _task(document: Mapping[str, Any]) -> LabelTask | None:
    if "task" not in document:
        return None
    if document["task"] != LABEL:
        raise ModelError(f"the model's task is {sanitize(repr(document['task']))}, which this version does not know")
    return LabelTask(tuple(map(str, document["classes"])), document["about"], document.get("threshold"))


def read_weights(file: Path, shapes: Shapes, description: Mapping[str, Any]) -> Arrays:
    """The weights in `file`, if they match the shapes and the description. Other shapes are not read."""
    arrays, _ = read_arrays(file, shapes)
    if "weights" in description and _checksum(arrays) != description["weights"]:
        raise ModelError(f"{file} is not the file that {file.with_suffix('.json').name} was written for")
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise ModelError(f"{file}: parameter {name!r} is {array.dtype}, not floating-point numbers")
        with np.errstate(over="ignore"):
            arrays[name] = array.astype(np.float32)
        if not np.isfinite(arrays[name]).all():
            raise ModelError(f"{file}: parameter {name!r} holds a NaN or an infinity")
    return arrays


def make_folder(folder: Path) -> None:
    """Create the folder of a model, or raise an error that says why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CallError(f"cannot use {str(folder)!r} as the folder of a model: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise CallError(f"cannot use {str(folder)!r} as the folder of a model: it is not writable")


def check_free(folder: Path, kind: str, what: str) -> None:
    """Reject a folder that already has a model or explainer, or files under those names that we did not write."""
    if (folder / f"{kind}.json").exists():
        raise CallError(f"{folder} already holds a {what}; choose another folder, or remove it first")
    check_replaceable(folder, kind)


def check_replaceable(folder: Path, kind: str) -> None:
    """Reject a folder in which saving a model or explainer would replace files that we did not write."""
    description, weights = folder / f"{kind}.json", folder / f"{kind}.safetensors"
    if description.exists() and not str(read_json(description).get("schema")).startswith(f"cody/{kind}/"):
        raise CallError(f"{description} was not written by cody and would be overwritten; choose another folder")
    if weights.exists() and not is_ours(weights):
        raise CallError(f"{weights} was not written by cody and would be overwritten; choose another folder")


def shipped_models() -> dict[str, Path]:
    """The trained models inside the package, by name."""
    root = Path(__file__).with_name("shipped")
    return {path.parent.name: path.parent for path in sorted(root.glob("*/model.json"))}


def find_model(name: str | Path) -> Path:
    """The folder of a model given by path, by the name of a shipped one, or by its address on a hub."""
    if is_hub_address(name):
        return hub_folder(str(name))
    path, shipped = Path(name), shipped_models()
    if str(name) in shipped and not path.exists():
        return shipped[str(name)]
    if len(str(name)) > 4000:
        raise CallError(f"{str(name)[:40]!r}… is too long for a path")
    if (path / "model.json").is_file():
        return path
    if path.is_dir():
        raise ModelError(f"the folder {str(name)!r} holds no finished model (model.json is missing)")
    similar = _functions_of_file(str(name)) or did_you_mean(str(name), shipped)
    raise ModelError(f"there is no model {str(name)!r}: neither a folder nor a shipped one{similar}")


def _functions_of_file(name: str) -> str:
    """What to append to an error about a name of Python code in the current folder: a model is `module:function`."""
    file = Path(name.removesuffix(".py") + ".py")
    if not file.stem.isidentifier() or file.parent != Path() or not file.is_file():
        return ""
    code = file.read_text(encoding="utf-8", errors="replace")
    known = re.findall(r"^def ([^\W\d_]\w*)\(", code, re.MULTILINE)[:HANDFUL]
    ways = " or ".join(repr(f"{file.stem}:{each}") for each in known or ["FUNCTION"])
    return f"; did you mean {ways}, a function in {file} that makes one?"


def is_ours(path: Path) -> bool:
    """Whether `write_arrays` wrote this file."""
    return read_notes(path) is not None


def read_notes(path: Path) -> dict[str, Any] | None:
    """The notes in a file that `write_arrays` wrote; None if another program did, or if it is damaged."""
    try:
        with opened(path, "numpy") as file:
            return _notes(file)
    except ModelError:
        return None


def read_arrays(path: Path, wanted: Shapes | None = None) -> tuple[Arrays, dict[str, Any]]:
    """Named arrays, and the notes that `write_arrays` wrote with them. Other shapes are rejected before reading."""
    with opened(path, "numpy") as file:
        if wanted is not None:
            check_shapes({name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}, wanted, str(path))  # noqa: SIM118
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        notes = _notes(file) or {}
    has_checksums = bool({"tensors", "checksum"} & notes.keys())  # earlier versions wrote none
    if has_checksums and not (is_as_written(notes) and notes.get("tensors") == _checksum(arrays)):
        raise ModelError(f"{path} is damaged: its checksum does not match; copy it or create it again")
    return arrays, notes


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], notes: dict[str, Any] | None = None) -> str:
    """Write arrays atomically: the file gets its name only when it is complete. Returns their checksum."""
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    checksum = _checksum(whole)
    noted = with_checksum((notes or {}) | {"tensors": checksum})
    try:
        with replacing(path) as partial:
            save_file(whole, partial, metadata={"notes": json.dumps(noted)})
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} cannot be written: {first_line(error)}") from None
    return checksum


def _checksum(arrays: Arrays) -> str:
    checksum = 0
    for name, array in sorted(arrays.items()):
        checksum = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), checksum)
        checksum = zlib.crc32(array.tobytes(), checksum)
    return f"{checksum:08x}"


def _notes(file: Any) -> dict[str, Any] | None:
    """The notes of `write_arrays` in a file; None if another program wrote it, perhaps with other metadata."""
    try:
        notes = json.loads((file.metadata() or {}).get("notes", ""))
    except (ValueError, RecursionError):
        return None
    return notes if isinstance(notes, dict) else None


@contextmanager
def opened(path: Path, framework: str) -> Iterator[Any]:
    """An open safetensors file; any problem with it becomes one clear error."""
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except FileNotFoundError:
        raise ModelError(f"{path} is missing") from None
    except ModelError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise ModelError(f"{path} is damaged: {first_line(error)}") from None


def read_description(path: Path, schema: str) -> dict[str, Any]:
    """The description of a model or explainer, if its schema and its checksum are right."""
    document = read_json(path)
    if document.get("schema") != schema:
        raise ModelError(f"{path} has schema {sanitize(repr(document.get('schema')))}; this version reads {schema!r}")
    if "checksum" in document and not is_as_written(document):
        raise ModelError(
            f"{path} is damaged: its checksum does not match; copy it or create it again "
            "(if you changed it yourself, remove its entry 'checksum')"
        )
    return document


def read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {first_line(error)}") from None
    if not isinstance(document, dict):
        raise ModelError(f"{path} is damaged: it does not hold an object")
    return document


def write_json(path: Path, document: dict[str, Any]) -> None:
    try:
        write_atomically(path, json.dumps(with_checksum(document), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror}") from None
