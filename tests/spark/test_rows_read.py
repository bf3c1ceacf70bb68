"""``rows_read`` tells the rows that were decoded: dead ones and neighbours of changed ones, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import Limits, Settings, connect

pytestmark = pytest.mark.spark
ROWS = 400


@pytest.mark.parametrize("reader", ["here", "spark"])
def test_scattered_changes(tmp_path: Path, spark, reader: str) -> None:
    """40 rows of one row group change: all of it is decoded, by whoever reads it, and what came."""
    limits = Limits(delta_rows=10, shipped_rows=10) if reader == "spark" else Limits()
    settings = Settings(inline_row_limit=20, inline_delete_limit=5, limits=limits)
    with connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (id BIGINT, g BIGINT, PRIMARY KEY (id))")
        lake.append("t", spark.range(ROWS).selectExpr("id", "id AS g").coalesce(1))
        lake.create_stream_table("s", "SELECT count(*) AS n, sum(g) AS total FROM t")
        lake.sql("UPDATE t SET g = g + 1 WHERE id % 10 = 0")
        files = sum(file.rows for file in lake._catalog.scan("t").files)
        assert files == ROWS + 40, "the dead ones are there"
        stored = 6  # at most: one row of the result and of what is kept for it, dead ones of each
        report = lake.refresh_stream_table("s")
        assert files <= report.rows_read <= files + stored, report
        full = lake.refresh_stream_table("s", full=True)
        assert files <= full.rows_read <= files + stored, full


def test_rows_of_the_catalog_count(tmp_path: Path, spark) -> None:
    with connect(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (id BIGINT, g BIGINT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        lake.create_stream_table("s", "SELECT g, count(*) AS n FROM t GROUP BY g")
        lake.sql("INSERT INTO t VALUES (4, 4), (5, 5)")
        assert lake.refresh_stream_table("s").rows_read >= 2
