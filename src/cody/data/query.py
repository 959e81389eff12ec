"""Events by an SQL query: `duckdb:events.db?query=SELECT …`, answered by DuckDB.

What follows `?query=` is the query as it is. Without a file (`duckdb:?query=…`), it may name csv and Parquet files, as
DuckDB's queries can. Database files are opened for reading only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

from cody.errors import CallError, DataError, first_line
from cody.graph import TemporalGraph
from cody.utils.extras import needed_by

SCHEME, QUERY = "duckdb:", "?query="
FORM = 'duckdb:events.db?query=SELECT "from" AS src, "to" AS dst, sent AS time FROM mails ORDER BY sent'


def is_query(source: Any) -> TypeGuard[str]:
    """Whether a source is the address of a query, by its form."""
    return isinstance(source, str) and source.startswith(SCHEME)


def read_query(address: str, **columns: Any) -> TemporalGraph:
    """The events that a query returns.

    Args:
        address: `duckdb:FILE?query=SQL`.
        columns: Those of `from_table`.
    """
    from cody.data.readers import from_table

    file, given, query = address.removeprefix(SCHEME).partition(QUERY)
    for name in ("header", "separator"):
        if name in columns:
            raise CallError(f"{name} is about csv files; of a query, the columns have names")
    with needed_by("a query of DuckDB"):
        import duckdb
    if file and not Path(file).is_file():
        raise DataError(f"there is no file {file} to query")
    try:
        with duckdb.connect(file or ":memory:", read_only=bool(file)) as connection:
            if not given or not query.strip():
                raise CallError(f"{address!r:.60} says no query{_tables(connection)}; for example {FORM}")
            table = connection.sql(query)
            if table is None:
                raise DataError(f"the query returns no table: {query!r:.200}")
            return from_table(table.to_arrow_table(), **columns)
    except duckdb.Error as error:
        raise DataError(f"DuckDB cannot answer {query or file!r:.200}: {first_line(error)}") from None


def _tables(connection: Any) -> str:
    names = [name for (name,) in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()]
    return f" (tables: {', '.join(names[:20])})" if names else ""
