"""Downloads: only over https, no larger than expected, and the same file every time.

If the sha256 of a public file is not known in advance, that of the first download is recorded (pinned) in
`downloads.json` next to the files, and later downloads must match it.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cody.errors import DataError
from cody.utils.files import write_atomically
from cody.utils.words import sanitize

Progress = Callable[[int, int | None], None]  # bytes done, bytes in all if known

PINS = "downloads.json"
SCHEMA = "cody/downloads/1"
BLOCK = 1 << 16

logger = logging.getLogger(__name__)
TIMEOUT = 30  # seconds without a byte


def download(url: str, target: Path, largest: int, progress: Progress | None = None) -> str:
    """Download `url` to the file `target`, and return its sha256. All failures are OSErrors."""
    digest, done = hashlib.sha256(), 0
    try:
        _check_https(url)
        opener = urllib.request.build_opener(_HttpsOnly)
        with opener.open(url, timeout=TIMEOUT) as response, target.open("wb") as out:
            announced = response.headers.get("Content-Length") or ""
            total = int(announced) if re.fullmatch("[0-9]{1,18}", announced) else None
            _check_size(total or 0, largest)
            while block := response.read(BLOCK):
                done += len(block)
                _check_size(done, largest)
                digest.update(block)
                out.write(block)
                if progress is not None:
                    progress(done, total)
    except (http.client.HTTPException, ValueError) as error:  # the answer is not HTTP, or has an invalid address
        raise OSError(f"the server sent an invalid response: {sanitize(error, 200) or type(error).__name__}") from error
    logger.info("%d bytes downloaded from %s", done, url)
    if total is not None and done != total:
        raise OSError(f"the connection broke after {done:,} of {total:,} bytes")
    return digest.hexdigest()


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: urllib.request.Request, *answer: Any) -> urllib.request.Request | None:
        _check_https(answer[-1])
        return super().redirect_request(req, *answer)


def _check_https(url: str) -> None:
    if not url.lower().startswith("https://"):
        raise urllib.error.URLError(f"files are downloaded over https only, not from {sanitize(url, 200)}")


def _check_size(size: int, largest: int) -> None:
    if size > largest:
        raise OSError(f"the file has at least {size:,} bytes, but should have at most {largest:,}")


def pinned(folder: Path, name: str) -> str | None:
    """The sha256 that file `name` had when it was first downloaded to the folder."""
    return _read_pins(folder / PINS).get(name)


def pin(folder: Path, name: str, sha256: str) -> None:
    """Record the sha256 that later downloads of the file must have."""
    pins = _read_pins(folder / PINS) | {name: sha256}
    write_atomically(folder / PINS, json.dumps({"schema": SCHEMA, "sha256": pins}, indent=2) + "\n")


def _read_pins(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        pins = document["sha256"] if document["schema"] == SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pins = None
    if not isinstance(pins, dict) or not all(isinstance(value, str) for value in pins.values()):
        raise DataError(f"{file}, which has the sha256 of downloaded files, is damaged; remove it to accept new ones")
    return pins
