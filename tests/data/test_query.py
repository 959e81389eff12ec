"""Events by an SQL query."""

import numpy as np
import pytest

import cody
from cody.errors import CallError, DataError
from commands import run

duckdb = pytest.importorskip("duckdb", reason="duckdb, of the extra duckdb, is not installed")

SQL = 'select "from" as src, "to" as dst, sent as time, size as f0 from mails where "from" <> \'eve\' order by sent'


@pytest.fixture
def database(tmp_path):
    file = tmp_path / "mails of 2024.db"
    with duckdb.connect(str(file)) as connection:
        connection.sql('create table mails ("from" text, "to" text, sent timestamptz, size double)')
        connection.sql(
            "insert into mails values ('ann', 'bob; jr', '2024-01-01T09:00+02:00', 1.5), "
            "('eve', 'ann', '2024-01-01T12:00Z', 9), ('bob; jr', 'Zoë', '2024-01-02T08:00Z', 2.5)"
        )
    return file


def test_a_query_is_a_graph(database):
    graph = cody.load(f"duckdb:{database}?query={SQL}")
    assert [graph.name(node) for node in range(3)] == ["Zoë", "ann", "bob; jr"]
    assert graph.time.tolist() == [1704092400.0, 1704182400.0]
    assert graph.features.tolist() == [[1.5], [2.5]]


def test_files_can_be_queried_without_a_database(tmp_path):
    (tmp_path / "a.csv").write_text("u,v,t\n1,2,10\n2,3,20\n")
    graph = cody.load(f"duckdb:?query=select * from '{tmp_path}/a.csv' where t > 5 order by t", src="u", dst="v")
    np.testing.assert_array_equal(graph.time, [10.0, 20.0])


def test_a_query_is_imported_and_explained_on_the_command_line(database, tmp_path):
    printed = run("data", "import", f"duckdb:{database}?query={SQL}", "--out", tmp_path / "mails")
    assert "events 2" in " ".join(printed.split())
    assert cody.load(tmp_path / "mails").num_events == 2


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("duckdb:{}", CallError, r"says no query \(tables: mails\); for example duckdb:events.db\?query=SELECT"),
        ("duckdb:{}?query=  ", CallError, "says no query"),
        ("duckdb:{}?query=select from mailz", DataError, "DuckDB cannot answer 'select from mailz': "),
        ("duckdb:{}?query=drop table mails", DataError, "DuckDB cannot answer 'drop table mails'.*read-only"),
        ("duckdb:nowhere.db?query=select 1", DataError, "there is no file nowhere.db to query"),
        ("duckdb:{}?query=select size from mails", DataError, "line 1 has one column|no columns are called"),
        ("duckdb:{}?query=-- nothing", DataError, "returns no table"),
    ],
)
def test_what_cannot_be_answered_is_said(address, error, message, database):
    with pytest.raises(error, match=message):
        cody.load(address.format(database))


def test_queries_have_no_separators(database):
    with pytest.raises(CallError, match="separator is about csv files"):
        cody.load(f"duckdb:{database}?query={SQL}", separator=";")
