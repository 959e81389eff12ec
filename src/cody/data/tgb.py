"""Data sets of the Temporal Graph Benchmark (TGB), through its package py-tgb: events, and its negatives.

Nodes are numbered as TGB numbers them. Files are where its package has them (`tgb/datasets`).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from cody.errors import CallError, DataError, first_line
from cody.graph import Query, TemporalGraph
from cody.utils.extras import needed_by

BEGINNINGS = ("tgbl-", "tkgl-", "thgl-")  # of the names of data sets whose task is to predict links
SPLITS = ("test", "val")  # those that have negatives


def is_tgb(name: str) -> bool:
    """Whether a name is that of a TGB data set of links, by its form."""
    return name.startswith(BEGINNINGS) and name.replace("-", "").isalnum()


def load_tgb(name: str, *, download: bool = False) -> TemporalGraph:
    """The events of a TGB data set, with its edge features.

    Args:
        name: As TGB has it: tgbl-wiki.
        download: Let TGB download it if it is not there.
    """
    data = _dataset(name, download)
    events = data.full_data
    features = events["edge_feat"]
    if features is not None and np.ndim(features) != 2:
        features = np.reshape(features, (len(events["sources"]), -1))
    columns = (events[column] for column in ("sources", "destinations", "timestamps"))
    return TemporalGraph.from_arrays(*columns, features=None if not np.size(features) else features, sort=True)


@dataclass(frozen=True, slots=True, repr=False)
class Negatives:
    """The rivals that TGB ranks each link of its validation and test parts against, for `in_top(10, among=…)`.

    Args:
        name: Of the data set.
    """

    name: str

    def __repr__(self) -> str:
        return f"negatives of {self.name}"

    def __call__(self, query: Query) -> Sequence[str]:
        """The names of the rivals of a link."""
        link = [np.array([part]) for part in (query.src, query.dst, int(query.time))]
        for split in SPLITS:
            sampler = _sampler(self.name, split)
            with contextlib.suppress(ValueError):  # TGB's word for a link that is not in this part
                (rivals,) = sampler.query_batch(*link, split_mode=split)
                return [str(rival) for rival in rivals]
        raise CallError(
            f"{self.name} has no negatives for the link {query.src} → {query.dst} at {int(query.time)}: "
            "there are some for its validation and test parts only, the last 30 % of its time"
        )


@cache
def _sampler(name: str, split: str) -> Any:
    data = _dataset(name, False)
    try:
        getattr(data, f"load_{split}_ns")()
    except (OSError, EOFError) as error:
        raise DataError(f"the negatives of {name} cannot be read: {first_line(error)}") from None
    return data.negative_sampler


@cache
def negatives(name: str) -> Negatives:
    """The negatives of a TGB data set. The same name gives the same object, which reads their file once.

    Args:
        name: As TGB has it: tgbl-wiki.
    """
    if not is_tgb(name):
        raise CallError(f"{name!r} is not a data set of TGB such as tgbl-wiki")
    return Negatives(name)


def _dataset(name: str, download: bool) -> Any:
    """TGB's own object. What it prints goes to standard error."""
    with needed_by(f"the data set {name}"):
        from tgb.linkproppred.dataset import LinkPropPredDataset
    if name.startswith(BEGINNINGS[1:]):
        raise CallError(f"{name!r} has edges of several types; only those named tgbl-… have one type")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return LinkPropPredDataset(name, root="datasets", download=download)
    except FileNotFoundError as error:
        raise DataError(
            f"{name!r} is not here ({first_line(error)}). `cody data fetch {name}` lets TGB download it"
        ) from None
    except (ValueError, OSError, AttributeError) as error:  # unknown names, networks, damaged files
        raise DataError(f"TGB cannot load {name!r}: {first_line(error)}") from None
