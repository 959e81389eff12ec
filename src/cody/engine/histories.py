"""The events of each node as the compiled library reads them, for links that are only scored."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from cody.engine.library import Number, Pointer, check_count, contiguous, structure
from cody.engine.rows import CompiledRows
from cody.graph import IntArray, TemporalGraph

_DTYPES = {"src": np.int32, "dst": np.int32, "offsets": np.int64, "incidence": np.int64}  # as graphs have them
_Histories = structure("_Histories", **dict.fromkeys(_DTYPES, Pointer), nodes=Number, rows=Number)


class Attended(NamedTuple):
    """What nodes at moments attend to. Keys as in `links.Views`; ids are places among these keys."""

    below: IntArray  # keys of the nodes that are needed one layer down, each once
    own: IntArray  # [n] of the nodes themselves
    neighbours: IntArray  # [n, K]; places beyond the length of a node hold anything
    events: IntArray  # keys of the events, each once
    event_ids: IntArray  # [n, K]
    length: IntArray  # [n] how many events each node has


class Histories:
    """The lists of events of a graph's nodes, read by the compiled library."""

    def __init__(self, loaded: Any, graph: TemporalGraph) -> None:
        self.library = loaded
        self.arrays = [np.ascontiguousarray(getattr(graph, name), dtype) for name, dtype in _DTYPES.items()]  # held
        addresses = (array.ctypes.data for array in self.arrays)
        self.log = _Histories(*addresses, graph.num_nodes, graph.num_rows)

    def attended(self, keys: IntArray, before: IntArray, most: int) -> Attended:
        """What nodes at moments attend to: at most so many events each.

        Args:
            keys: Of the nodes. [n]
            before: The rows that a moment sees are below this. [m]
            most: How many events at most: K.
        """
        below, events = CompiledRows(self.library, 1), CompiledRows(self.library, 1)
        own, length = np.empty((2, len(keys)), dtype=np.int64)
        neighbours, event_ids = np.empty((2, len(keys), most), dtype=np.int64)
        arrays = contiguous(keys), contiguous(before), own, neighbours, event_ids, length
        addresses = (array.ctypes.data for array in arrays)
        handles = ctypes.byref(self.log), below.handle, events.handle
        check_count(self.library.histories_attended(*handles, len(keys), most, *addresses))
        return Attended(below.all()[:, 0], own, neighbours, events.all()[:, 0], event_ids, length)
