"""Events from named data sets, files and tables; saved graphs; synthetic data with known causes."""

from typing import TYPE_CHECKING

from cody.utils import lazy as _lazy

if TYPE_CHECKING:
    from cody.data.campus import Campus, campus
    from cody.data.mechanisms import MECHANISMS, PlantedCauses, mechanism
    from cody.data.named import Dataset, data_directory, datasets, fetch, is_here, load
    from cody.data.readers import from_table, from_temporal_data, read_events
    from cody.data.storage import open_graph, save_graph
    from cody.data.summary import DataSummary, summarise
    from cody.graph import verify_graph

__all__ = [
    "MECHANISMS",
    "Campus",
    "DataSummary",
    "Dataset",
    "PlantedCauses",
    "campus",
    "data_directory",
    "datasets",
    "fetch",
    "from_table",
    "from_temporal_data",
    "is_here",
    "load",
    "mechanism",
    "open_graph",
    "read_events",
    "save_graph",
    "summarise",
    "verify_graph",
]

_lazy.import_on_demand(
    __name__,
    {
        "cody.data.campus": "Campus campus",
        "cody.data.mechanisms": "MECHANISMS PlantedCauses mechanism",
        "cody.data.named": "Dataset data_directory datasets fetch is_here load",
        "cody.data.readers": "from_table from_temporal_data read_events",
        "cody.data.storage": "open_graph save_graph",
        "cody.data.summary": "DataSummary summarise",
        "cody.graph": "verify_graph",
    },
)
