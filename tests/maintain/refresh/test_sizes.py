"""Large deltas and large stream tables: what a refresh reads, by its own account and by the kernel's.

The kernel counts the bytes that a process asked its files for; reading more than is claimed shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_trickle
from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from support.streams import assert_exact

pytestmark = [pytest.mark.spark, pytest.mark.long]

LARGE_DELTA = 3_000_000
ROWS = 5_000_000
FEW = 1_000
OVERHEAD = 1 << 20
"""What two processes read beside the data: each other, classes, the catalog, footers."""


@pytest.fixture(autouse=True)
def two_gigabytes(spark: SparkSession) -> None:
    """These sizes mean something on a small driver only."""
    assert spark.conf.get("spark.driver.memory") == "2g"
    assert spark._jvm.java.lang.Runtime.getRuntime().maxMemory() <= 2 << 30


def test_a_delta_of_three_million_rows(lake: Lake) -> None:
    """The result's own delta is large as well: a million groups, some of them there before."""
    groups, there = 1_000_000, 300_000
    lake.sql("CREATE TABLE t (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id))")
    lake.append("t", lake.spark.range(there).select("id", (F.col("id") % 97).alias("v")))
    lake.create_stream_table(
        "s",
        f"SELECT id % {groups} AS g, count(*) AS n, sum(v) AS s FROM t GROUP BY id % {groups}",
        refresh_mode="DIFFERENTIAL",
    )
    gained = lake.spark.range(there, there + LARGE_DELTA)
    lake.append("t", gained.select("id", (F.col("id") % 97).alias("v")))
    report = lake.refresh_stream_table("s")
    assert report.effective_mode == "DIFFERENTIAL", report
    assert report.delta_rows == {"t": LARGE_DELTA}
    assert (report.rows_inserted, report.rows_deleted) == (groups, there)
    assert_exact(lake, "s")


@dataclass
class Large:
    """A stream table of many rows, sorted by a key, with a wide column that is no key."""

    lake: Lake

    def bytes_of(self, column: str | None = None) -> int:
        """Bytes of the stream table's files, or of one column in them."""
        files = self.lake._catalog.scan("s").files
        if column is None:
            return sum(os.path.getsize(file.path) for file in files)
        return sum(
            chunk.total_compressed_size
            for footer in (pq.read_metadata(file.path) for file in files)
            for group in (footer.row_group(g) for g in range(footer.num_row_groups))
            for chunk in (group.column(c) for c in range(group.num_columns))
            if chunk.path_in_schema == column
        )

    def refreshed(self) -> tuple[RefreshReport, int]:
        """The report, and the bytes that this process and Spark's read meanwhile."""
        before = self._read()
        report = self.lake.refresh_stream_table("s")
        read = self._read() - before
        assert report.effective_mode == "DIFFERENTIAL", report
        return report, read

    def _read(self) -> int:
        java = self.lake.spark._sc._gateway.proc.pid
        assert Path(f"/proc/{java}/comm").read_text().strip() == "java"
        return sum(_characters_read(process) for process in ("self", java))


def _characters_read(process: str | int) -> int:
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Large]:
    with spark_trickle.connect(tmp_path_factory.mktemp("large") / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id))")
        lake.append("t", spark.range(ROWS).select("id", (F.col("id") % 97).alias("v")))
        lake.create_stream_table(
            "s",
            "SELECT id, v, md5(CAST(id AS STRING)) AS wide FROM t",
            refresh_mode="DIFFERENTIAL",
        )
        made = Large(lake)
        for _ in range(2):  # Java loads its classes from files, too
            lake.sql("UPDATE t SET v = v + 1 WHERE id < 10")
            made.refreshed()
        yield made


def test_a_delta_near_one_key_range(large: Large) -> None:
    first = ROWS // 2 + 777
    large.lake.sql(f"UPDATE t SET v = v + 1 WHERE id BETWEEN {first} AND {first + FEW - 1}")
    report, read = large.refreshed()
    assert (report.rows_inserted, report.rows_deleted) == (FEW, FEW)
    assert report.bytes_read < large.bytes_of() / 10
    assert read < large.bytes_of() / 10
    assert read < report.bytes_read + OVERHEAD, "what is claimed is what was read"


def test_a_delta_of_scattered_keys(large: Large) -> None:
    key, everything = large.bytes_of("id"), large.bytes_of()
    assert large.bytes_of("wide") > 0.7 * everything
    large.lake.sql(f"UPDATE t SET v = v + 1 WHERE id % {ROWS // FEW} = 77")
    report, read = large.refreshed()
    assert (report.rows_inserted, report.rows_deleted) == (FEW, FEW)
    assert report.bytes_read < key + OVERHEAD
    assert read < key + OVERHEAD, "of the stream table only its key was read"
    assert read < report.bytes_read + OVERHEAD
    assert_exact(large.lake, "s")
