"""Spark over folders under other spellings: what it writes is found, what is committed stays."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle.settings import Settings
from spark_trickle.storage.upkeep import maintenance

pytestmark = pytest.mark.spark

ODD = "od d%20%é 試#?[a-b]{c,d}*~+&=;'x"


def files_in(folder: Path) -> set[str]:
    found = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return {str(path) for path in found if path.suffix == ".parquet"}


def test_what_spark_writes_stays(tmp_path, spark):
    place = tmp_path / ODD
    settings = Settings(inline_row_limit=100, inline_delete_limit=100)
    uri = "file://" + quote(str(place))
    with spark_trickle.connect(
        tmp_path / "lake", data_path=uri, spark=spark, settings=settings
    ) as lake:
        lake.sql("CREATE TABLE t (a BIGINT, b STRING, PRIMARY KEY (a))")
        assert lake.append("t", spark.range(5000).selectExpr("id AS a", "'x' AS b")) == 5000
        assert lake.append("t", spark.range(5000, 5010).selectExpr("id AS a", "'x' AS b")) == 10
        assert lake.append("t", spark.range(6000, 6500).selectExpr("id AS a", "'x' AS b")) == 500
        assert len(lake._catalog.scan("t").files) > 1
        assert lake.sql("SELECT * FROM t").count() == 5510, "several files, each read once"
        assert lake.sql("DELETE FROM t WHERE a >= 6000") == 500
        lake.sql("CREATE STREAM TABLE s AS SELECT a, count(*) AS n FROM t GROUP BY a")
        assert lake.sql("UPDATE t SET b = 'y' WHERE a % 2 = 0") == 2505
        assert lake.sql("DELETE FROM t WHERE a < 1000") == 1000
        undone = lake.transaction()
        assert undone.append("t", spark.range(500).selectExpr("id AS a", "'z' AS b")) == 500
        undone.rollback()
        lake.refresh_stream_table("s")
        lake.compact()
        lake.expire(older_than=0)
        lake.remove_orphans(grace_seconds=-1)
        counted = lake.sql("SELECT count(*), count_if(b = 'y'), min(a) FROM t").collect()
        assert tuple(counted[0]) == (4010, 2005, 1000)
        assert not lake.verify("s")
        with lake._catalog.reading() as connection:
            assert files_in(place) == maintenance.live_paths(connection, lake._catalog.files)


@pytest.mark.parametrize("names", [("same", "same"), ("1 +%2B#é", "2 +%2B#é")], ids=["same", "odd"])
def test_files_of_foreign_names(tmp_path, spark, names):
    """Rows are told apart by the names of files, or of their folders too, in Spark's spelling."""
    from spark_trickle.storage.files import parquet
    from spark_trickle.storage.records import NewFile

    with spark_trickle.connect(tmp_path / ODD, spark=spark) as lake:
        lake.sql("CREATE TABLE t (a INT)")
        with lake._catalog.begin() as tx:
            table = tx.table("t")
            schema = parquet.file_schema(table.columns)
            for number, name in zip((1, 2), names, strict=True):
                path = f"{table.location}{number}{ODD}/{name}.parquet"
                rows = pa.table({"a": [number, 10 * number]}).cast(schema)
                parquet.write(table.files, path, rows)
                tx.insert_files("t", [NewFile(path)])
        assert lake.sql("DELETE FROM t WHERE a IN (2, 10)") == 2
        assert sorted(row.a for row in lake.sql("SELECT a FROM t").collect()) == [1, 20]
