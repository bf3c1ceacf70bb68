"""Lakes that DuckDB wrote: every version reads as DuckDB reads it, and so does the change feed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle.errors import CatalogError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import read_scan
from support import duck, lakes

FLAT = (
    "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, "
    "d DECIMAL(38,10), dt DATE, ts TIMESTAMP, tz TIMESTAMPTZ, s VARCHAR, bl BLOB"
)
SCENARIOS: dict[str, list[str]] = {
    "inlined rows and deletes": [
        "CREATE TABLE t (a INT, s VARCHAR)",
        "INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'it''s')",
        "DELETE FROM t WHERE a = 2",
        "UPDATE t SET s = 'new' WHERE a = 1",
        "INSERT INTO t VALUES (4, '')",
    ],
    "inlined rows of all flat types": [
        f"CREATE TABLE t ({FLAT})",
        "INSERT INTO t VALUES (true, 1, 2, 3, 4, 1.5, 1e300, 123.45, '2024-01-01', "
        "'2024-01-01 00:00:00', '2024-01-01 00:00:00.123456+00', 'x', '\\x00\\xFF'::BLOB), "
        "(false, -1, -2, -3, -4, 'nan', '-inf', -0.0000000001, '0001-01-01', "
        "'1969-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00', '', ''), "
        "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    ],
    "inlined deletes of file rows": [
        "CREATE TABLE t (a INT, s VARCHAR)",
        "INSERT INTO t SELECT range, 's' || range FROM range(50)",
        "DELETE FROM t WHERE a = 7",
        "DELETE FROM t WHERE a IN (1, 49)",
        "UPDATE t SET s = 'u' WHERE a = 9",
    ],
    "a plain delete file": [
        "CREATE TABLE t (a INT, s VARCHAR)",
        "INSERT INTO t SELECT range, 's' FROM range(100)",
        "DELETE FROM t WHERE a < 40",
        "INSERT INTO t SELECT range, 'more' FROM range(30)",
    ],
    "an update by files": [
        "CREATE TABLE t (a INT, s VARCHAR)",
        "INSERT INTO t SELECT range, 's' FROM range(100)",
        "UPDATE t SET s = 'new' WHERE a >= 50",
    ],
    "a dropped, a renamed and an added column": [
        "CREATE TABLE t (a INT, b VARCHAR NOT NULL, c DECIMAL(10,2) DEFAULT 3.5)",
        "INSERT INTO t VALUES (1, 'x', 1.25), (2, 'y', NULL)",
        "INSERT INTO t SELECT range, 'f', 2 FROM range(20)",
        "ALTER TABLE t ADD COLUMN z INT DEFAULT 7",
        "ALTER TABLE t RENAME COLUMN b TO bb",
        "INSERT INTO t VALUES (3, 'z', 4, 8)",
        "ALTER TABLE t DROP COLUMN a",
        "INSERT INTO t VALUES ('w', 4, 9)",
    ],
    "a widened column": [
        "CREATE TABLE t (a INT, s VARCHAR)",
        "INSERT INTO t SELECT range, 's' FROM range(20)",
        "INSERT INTO t VALUES (1, 'i')",
        "ALTER TABLE t ALTER COLUMN a SET DATA TYPE BIGINT",
        "INSERT INTO t VALUES (5000000000, 'big')",
    ],
    "a truncated table": [
        "CREATE TABLE t (a INT, s VARCHAR)",
        "INSERT INTO t SELECT range, 's' FROM range(20)",
        "INSERT INTO t VALUES (1, 'i')",
        "DELETE FROM t",
        "INSERT INTO t VALUES (2, 'again')",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_versions_and_changes(folder: Path, name: str) -> None:
    duck.write(folder, SCENARIOS[name])
    with Catalog.open(str(folder)) as catalog:
        lakes.agrees_with_duckdb(catalog, folder, "t", feed="column" not in name)


MAINTAINED = {
    "flushed": ["CALL ducklake_flush_inlined_data('lk')"],
    "merged": [
        "CALL ducklake_flush_inlined_data('lk')",
        "CALL ducklake_merge_adjacent_files('lk')",
    ],
}


@pytest.mark.parametrize("name", MAINTAINED)
def test_partial_files(folder: Path, name: str) -> None:
    statements = [
        "CREATE TABLE t (a INT, s VARCHAR)",
        "INSERT INTO t SELECT range, 's' || range FROM range(30)",
        "INSERT INTO t VALUES (100, 'i')",
        "DELETE FROM t WHERE a = 3",
        "INSERT INTO t VALUES (101, 'j')",
        "DELETE FROM t WHERE a = 100",
        "DELETE FROM t WHERE a = 4",
    ]
    duck.write(folder, statements)
    with Catalog.open(str(folder)) as catalog:
        newest = catalog.version()
        before = {v: lakes.contents(catalog, "t", v) for v in range(1, newest + 1)}
    duck.write(folder, MAINTAINED[name])
    with Catalog.open(str(folder)) as catalog:
        for version, rows in before.items():
            assert lakes.contents(catalog, "t", version) == rows
            for later in range(version, newest + 1):
                wanted = lakes.difference(rows, before[later])
                assert lakes.net(catalog, "t", version, later) == wanted
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)


def test_cumulative_delete_files_are_counted_once(folder: Path) -> None:
    """DuckDB's own feed counts such deletes several times; ours must not."""
    duck.write(
        folder,
        [
            "CREATE TABLE t (a INT)",
            "CALL lk.set_option('data_inlining_row_limit', 0)",
            "INSERT INTO t SELECT range FROM range(100)",
            *(f"DELETE FROM t WHERE a IN ({2 * i}, {2 * i + 1})" for i in range(10)),
        ],
    )
    with Catalog.open(str(folder)) as catalog:
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)
        first = catalog.version() - 10
        plan = catalog.changes("t", first)
        assert (plan.inserted_rows, plan.deleted_rows) == (0, 20)
        assert catalog.changes("t", first + 3, first + 5).deleted_rows == 4


def test_nested_inlined_rows(folder: Path) -> None:
    duck.write(
        folder,
        [
            "CREATE TABLE t (a INT, l VARCHAR[], s STRUCT(x INT, y VARCHAR), m MAP(VARCHAR, INT))",
            "INSERT INTO t VALUES (1, ['a', NULL, 'b, c', 'NULL', ''], {x: 1, y: 'it''s {odd}'}, "
            "MAP {'k=1': 1, 'z': NULL}), (2, [], {x: NULL, y: NULL}, MAP {}), (3, NULL, NULL, NULL)",
        ],
    )
    with Catalog.open(str(folder)) as catalog:
        rows = read_scan(catalog.scan("t")).to_pylist()
    assert rows[0] == {
        "a": 1,
        "l": ["a", None, "b, c", "NULL", ""],
        "s": {"x": 1, "y": "it's {odd}"},
        "m": [("k=1", 1), ("z", None)],
    }
    assert rows[1] == {"a": 2, "l": [], "s": {"x": None, "y": None}, "m": []}
    assert rows[2] == {"a": 3, "l": None, "s": None, "m": None}


def test_we_change_a_lake_of_duckdb_and_it_reads_on(folder: Path) -> None:
    duck.write(
        folder,
        [
            "CREATE TABLE t (a INT, s VARCHAR DEFAULT 'd')",
            "INSERT INTO t SELECT range, 's' || range FROM range(30)",
            "INSERT INTO t VALUES (100, 'i')",
            "DELETE FROM t WHERE a = 3",
        ],
    )
    with Catalog.open(str(folder)) as catalog:
        assert catalog.table("t").columns[1].default == "'d'"
        with catalog.begin() as tx:
            lakes.modify(tx, "t", lambda r: r["a"] in (5, 100), lambda r: r | {"s": "ours"})
        with catalog.begin() as tx:
            tx.insert_rows("t", pa.table({"a": pa.array([200], pa.int32()), "s": ["new"]}))
            lakes.modify(tx, "t", lambda r: r["a"] == 7, None)
        lakes.agrees_with_duckdb(catalog, folder, "t")
    duck.write(folder, ["INSERT INTO t VALUES (300, 'theirs')", "DELETE FROM t WHERE a = 200"])
    with Catalog.open(str(folder)) as catalog:
        lakes.agrees_with_duckdb(catalog, folder, "t")


def test_a_type_that_spark_cannot_read(folder: Path) -> None:
    duck.write(folder, ["CREATE TABLE t (a UUID)", "CREATE TABLE u (a INT)"])
    with Catalog.open(str(folder)) as catalog:
        assert [t.name for t in catalog.tables()] == ["t", "u"]
        with pytest.raises(CatalogError, match="column a of table t has the type uuid"):
            catalog.scan("t")


def test_a_renamed_column_of_a_file_without_field_ids(folder: Path, tmp_path: Path) -> None:
    """Such a file has the names of then; another column may have got one of them."""
    file = tmp_path / "outside.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), file)
    duck.write(
        folder,
        [
            "CREATE TABLE t (a BIGINT, b VARCHAR)",
            f"CALL ducklake_add_data_files('lk', 't', '{file}')",
            "ALTER TABLE t RENAME COLUMN a TO c",
            "ALTER TABLE t RENAME COLUMN b TO a",
            "ALTER TABLE t ADD COLUMN b INT DEFAULT 7",
        ],
    )
    with Catalog.open(str(folder)) as catalog:
        rows = read_scan(catalog.scan("t")).to_pylist()
    assert rows == [{"c": 1, "a": "x", "b": 7}, {"c": 2, "a": "y", "b": 7}]
