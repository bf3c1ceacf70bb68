"""Results in files that turned out to be small are read without a query, within the bytes allowed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from spark_trickle import Lake
from spark_trickle.spark.writing.spill import Spill, read_here
from spark_trickle.spark.writing.write import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FLAT = (
    "id, CAST(id AS DECIMAL(20,3)) / 8 AS d, DATE'1500-01-01' AS day, id % 2 = 0 AS even, X'00' AS b, "
    "TIMESTAMP'1582-10-01 00:00:00' AS t, TIMESTAMP_NTZ'0001-01-01 00:00:00' AS n, 'é' AS s, CAST(NULL AS INT) AS z"
)


def spilled(lake: Lake, spark: SparkSession, folder: Path, *columns: str) -> Spill:
    frame = spark.range(20).selectExpr(*columns)
    rows, _ = write_parquet(lake._catalog.files, f"{folder}/spill", frame)
    return Spill(f"{folder}/spill", frame.schema, rows)


def test_the_same_rows_as_spark_gives(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    query = f"SELECT {FLAT} FROM range(20)"
    frame = spark.sql(query)
    rows, _ = write_parquet(lake._catalog.files, f"{tmp_path}/flat", frame)
    spill = Spill(f"{tmp_path}/flat", frame.schema, rows)
    found = read_here(lake._catalog.files, spill, 1 << 20)
    assert found is not None
    wanted = frame.toArrow()
    assert found.cast(pa.schema(list(wanted.schema))).sort_by("id").equals(wanted.sort_by("id"))


def test_what_is_left_to_spark(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    files = lake._catalog.files
    nested = spilled(lake, spark, tmp_path / "nested", "id", "array(id) AS a")
    assert read_here(files, nested, 1 << 20) is None
    repeated = spilled(lake, spark, tmp_path / "texts", "repeat('x', 10000) AS s")
    assert read_here(files, repeated, 100_000) is None, "200,000 bytes, written once"
    assert read_here(files, repeated, 1 << 20) is not None


def test_a_small_result_of_much_is_one_query(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (id BIGINT, k STRING)")
    lake.sql("INSERT INTO t SELECT id, concat('k', id % 3) FROM range(50000)")
    query = "SELECT x.k, count(*) AS n FROM t x JOIN t y ON x.id = y.id GROUP BY x.k"
    lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    assert lake.refresh_history("s")[0].spark_queries <= 1
    assert not lake.verify("s")
