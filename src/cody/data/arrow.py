"""Parts of pyarrow, each imported when it is first used: a graph that was saved needs none of them."""

from cody.utils.lazy import on_demand

pa, compute, csv, parquet, types = (
    on_demand(name) for name in ("pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet", "pyarrow.types")
)
