"""Ways in which a file goes bad."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack.things import Generator

PAGE = 4096
ODD = [None, True, False, 0, -1, 1, 2, 3, 0.5, -0.0, 1e308, 10**30, "", "x", "é\u202e\n", [], [[]], {}, {"a": 1}]
ODD += [[1, 2], [-1], ["x"], "0", "1" * 400, 2**31, 2**63]

Damage = Callable[[Generator, bytes], bytes]


def flip_a_bit(rng: Generator, content: bytes) -> bytes:
    place = int(rng.integers(len(content)))
    return content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]


def flip_many_bits(rng: Generator, content: bytes) -> bytes:
    for _ in range(int(rng.integers(2, 50))):
        content = flip_a_bit(rng, content)
    return content


def zero_bytes(rng: Generator, content: bytes) -> bytes:
    place, length = int(rng.integers(len(content))), int(rng.integers(1, 65))
    return content[:place] + bytes(len(content[place : place + length])) + content[place + length :]


def zero_a_page(rng: Generator, content: bytes) -> bytes:
    place = int(rng.integers(len(content))) // PAGE * PAGE
    return content[:place] + bytes(len(content[place : place + PAGE])) + content[place + PAGE :]


def truncate(rng: Generator, content: bytes) -> bytes:
    return content[: int(rng.integers(len(content)))]


def empty(rng: Generator, content: bytes) -> bytes:
    return b""


def append(rng: Generator, content: bytes) -> bytes:
    return content + rng.bytes(int(rng.integers(1, 100)))


def repeat_a_part(rng: Generator, content: bytes) -> bytes:
    first, last = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    return content[:last] + content[first:]


def garble_the_beginning(rng: Generator, content: bytes) -> bytes:
    """Other letters in what is the header of an npy or safetensors file."""
    place = int(rng.integers(min(len(content), 128)))
    return content[:place] + rng.choice([b"9", b"0", b"'", b"(", b"\xff", b"<", b">"]) + content[place + 1 :]


def odd_json(rng: Generator, content: bytes) -> bytes:
    """One line of JSON with a value replaced, left out, or under another name."""
    lines = content.split(b"\n") if b"\n{" in content else [content]
    number = int(rng.integers(len(lines)))
    try:
        document = json.loads(lines[number])
    except ValueError:
        return flip_a_bit(rng, content)
    lines[number] = json.dumps(_with_odd_value(rng, document)).encode()
    return b"\n".join(lines)


def _with_odd_value(rng: Generator, document: Any) -> Any:
    """Go down to a random value and change it."""
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else []
    if not len(keys) or rng.random() < 0.05:
        return ODD[rng.integers(len(ODD))]
    key = keys[rng.integers(len(keys))]
    how = rng.random()
    if how < 0.1:
        del document[key]
    elif how < 0.15 and isinstance(document, dict):
        document[f"{key}x"] = document.pop(key)
    else:
        document[key] = _with_odd_value(rng, document[key])
    return document


BYTES: list[Damage] = [
    flip_a_bit,
    flip_a_bit,
    flip_many_bits,
    zero_bytes,
    zero_a_page,
    truncate,
    empty,
    append,
    repeat_a_part,
    garble_the_beginning,
]


def damage(rng: Generator, file: Path, elsewhere: Path | None) -> str:
    """Break a file of a world; `elsewhere` is its place in another world, if it may be swapped. Says how."""
    content = file.read_bytes()
    how = rng.random()
    if how < 0.02:
        file.unlink()
        return "removed"
    if how < 0.04:
        file.unlink()
        file.mkdir()
        return "replaced by a folder"
    if how < 0.14 and elsewhere is not None:
        near = [other for other in sorted(file.parent.iterdir()) if other.suffix == file.suffix and other != file]
        others = [other for other in (elsewhere, elsewhere, *near) if other.is_file()]
        if others:
            other = others[rng.integers(len(others))]
            shutil.copyfile(other, file)
            return f"replaced by {other.name} of {'another world' if other == elsewhere else 'the same folder'}"
    is_json = file.suffix in (".json", ".jsonl") and rng.random() < 0.7
    chosen = odd_json if is_json else BYTES[rng.integers(len(BYTES))]
    file.write_bytes(chosen(rng, content) if content else b"x")
    return chosen.__name__
