"""DuckDB reads every version that statements wrote, and Spark reads lakes that DuckDB wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle import Lake, Settings, connect
from support import duck
from support.streams import refreshed, rows

pytestmark = pytest.mark.spark


def plain(value: Any) -> Any:
    """Values as DuckDB's Python shows them; Arrow gives maps as pairs."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def ours(lake: Lake, table: str, version: int) -> Counter:
    data = lake.table(table, version=version).toArrow()
    rows = zip(*(column.to_pylist() for column in data.columns), strict=True)
    return Counter(tuple(None if v is None else str(plain(v)) for v in row) for row in rows)


def duckdb_agrees(
    lake: Lake, folder: Path, table: str, duck_name: str, versions: list[int]
) -> None:
    queries = [f"SELECT * FROM {duck_name} AT (VERSION => {v})" for v in versions]
    answers = duck.read(folder / "catalog.sqlite", queries)
    for version, answer in zip(versions, answers, strict=True):
        assert ours(lake, table, version) == Counter(tuple(row) for row in answer), version


def test_duckdb_reads_what_statements_wrote(tmp_path, spark):
    folder = tmp_path / "lake"
    with connect(folder, spark=spark, settings=Settings(inline_row_limit=20)) as lake:
        lake.sql("CREATE SCHEMA `odd name`")
        lake.sql(
            """CREATE TABLE `odd name`.`select` (id BIGINT NOT NULL, `group` STRING, b BOOLEAN, i TINYINT,
               h SMALLINT, n INT, f FLOAT, d DOUBLE, c DECIMAL(20,4), day DATE, at TIMESTAMP,
               wall TIMESTAMP_NTZ, l ARRAY<INT>, s STRUCT<x: INT, y: STRING>, m MAP<STRING, INT>,
               deep ARRAY<STRUCT<p: INT, q: ARRAY<STRING>>>) CLUSTER BY (id)"""
        )
        first = lake.version
        name = "`odd name`.`select`"
        row = """id, concat('g', id % 7), id % 2 = 0, cast(id % 100 AS TINYINT), cast(id AS SMALLINT),
                 cast(id AS INT), cast(id / 4 AS FLOAT), id / 8, cast(id / 3 AS DECIMAL(20,4)),
                 date_add(DATE '1999-12-31', cast(id AS INT)), timestamp_micros(id * 123456789),
                 cast(timestamp_micros(id * 987654321) AS TIMESTAMP_NTZ), array(cast(id AS INT), NULL),
                 named_struct('x', cast(id AS INT), 'y', 'z'), map('k', cast(id AS INT)),
                 array(named_struct('p', cast(id AS INT), 'q', array('r', NULL)))"""
        assert lake.sql(f"INSERT INTO {name} SELECT {row} FROM range(100)") == 100
        assert lake.sql(f"INSERT INTO {name} SELECT {row} FROM range(500, 505)") == 5
        assert lake.sql(f"UPDATE {name} SET c = c + 1, l = array(7) WHERE id % 3 = 0") == 36
        assert lake.sql(f"UPDATE {name} SET s = NULL, m = NULL WHERE id = 501") == 1
        assert lake.sql(f"DELETE FROM {name} WHERE id BETWEEN 10 AND 19 OR id = 500") == 11
        lake.sql(f"ALTER TABLE {name} ADD COLUMN extra DECIMAL(6,3) DEFAULT 1.5")
        lake.sql(f"ALTER TABLE {name} RENAME COLUMN `group` TO `order by`")
        lake.sql(f"ALTER TABLE {name} DROP COLUMN b")
        assert lake.sql(f"UPDATE {name} SET extra = id WHERE id < 5") == 5
        assert lake.sql(f"DELETE FROM {name} WHERE id % 2 = 0") > 20
        lake.compact(name)
        assert lake.sql(f"INSERT INTO {name} BY NAME SELECT 9999 AS id") == 1
        versions = list(range(first, lake.version + 1))
        duckdb_agrees(lake, folder, name, '"odd name"."select"', versions)


DUCKDB_WROTE = [
    "CREATE TABLE t (a INT, b VARCHAR, c DECIMAL(10,2) DEFAULT 3.5, moment TIMESTAMPTZ)",
    "INSERT INTO t VALUES (1, 'x', 1.25, '2026-01-01 00:00:00+00'), (2, NULL, NULL, NULL)",
    "INSERT INTO t SELECT range, 'f' || range, 2, '1970-01-01 00:00:01+00' FROM range(10, 60)",
    "UPDATE t SET b = 'u' WHERE a IN (2, 20)",
    "DELETE FROM t WHERE a BETWEEN 30 AND 50",
    "ALTER TABLE t ADD COLUMN z INT DEFAULT 7",
    "ALTER TABLE t RENAME COLUMN b TO bb",
    "INSERT INTO t VALUES (3, 'z', 4, NULL, 8)",
    "CALL ducklake_flush_inlined_data('lk')",
    "DELETE FROM t WHERE a = 3 OR a > 55",
    "ALTER TABLE t DROP COLUMN c",
    "CREATE TABLE n (l INT[], s STRUCT(x INT, y VARCHAR), m MAP(VARCHAR, INT))",
    "INSERT INTO n SELECT [range, NULL], {'x': range, 'y': 'v'}, MAP {'k': range} FROM range(30)",
]


def test_spark_reads_and_changes_what_duckdb_wrote(tmp_path, spark):
    folder = tmp_path / "theirs"
    duck.write(folder, DUCKDB_WROTE)
    with connect(folder, spark=spark) as lake:
        versions = list(range(1, lake.version + 1))
        duckdb_agrees(lake, folder, "t", "t", versions)
        duckdb_agrees(lake, folder, "n", "n", [lake.version])
        start = lake.version
        assert lake.sql("UPDATE t SET z = a WHERE a < 12") == 4
        assert lake.sql("DELETE FROM t WHERE bb = 'f25'") == 1
        assert lake.sql("INSERT INTO t SELECT a + 1000, bb, moment, z FROM t") == 26
        assert lake.sql("DELETE FROM n WHERE s.x % 2 = 0") == 15
        changed = lake.changes("t", start).selectExpr("sum(__weight)", "count(*)").collect()[0]
        assert changed[0] == 25
        duckdb_agrees(lake, folder, "t", "t", list(range(start, lake.version + 1)))
        duckdb_agrees(lake, folder, "n", "n", [lake.version])


def test_spark_reads_a_renamed_column_of_a_file_without_field_ids(tmp_path: Path, spark) -> None:
    folder, file = tmp_path / "lake", tmp_path / "outside.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), file)
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
    with connect(folder, spark=spark) as lake:
        lake.create_stream_table("s", "SELECT * FROM t", refresh_mode="DIFFERENTIAL")
        assert rows(lake, "s") == rows(lake, "t") == [(1, "x", 7), (2, "y", 7), (3, "z", 7)]
        lake.sql("ALTER TABLE t RENAME COLUMN c TO d")
        lake.sql("DELETE FROM t WHERE d = 1")
        refreshed(lake, "s", "DIFFERENTIAL")
        assert rows(lake, "s") == rows(lake, "t") == [(2, "y", 7), (3, "z", 7)]
        assert lake.table("s").columns == ["c", "a", "b"]
