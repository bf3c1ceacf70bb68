"""A Spark whose JVM sees another disk at the lake's folder; run by test_hidden.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.errors import ExecutionError
from spark_trickle.settings import Settings
from spark_trickle.spark.sessions.session import start_session
from spark_trickle.spark.sessions.storage import check_shared, probe


def flows(folder: Path, hidden: str) -> None:
    spark = start_session("UTC", {"spark.master": "local[1]", "spark.driver.memory": "1g"})
    settings = Settings(inline_row_limit=100)
    with spark_trickle.connect(folder, data_path=hidden, spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (a BIGINT)")
        version = lake.version
        with pytest.raises(ExecutionError, match="Spark wrote 50000 rows .* have 0") as caught:
            lake.append("t", spark.range(50_000).selectExpr("id AS a"))
        assert "nothing was committed" in str(caught.value)
        assert "share" in str(caught.value.hint) or "same storage" in str(caught.value.hint)
        with pytest.raises(ExecutionError, match="Spark wrote 50000 rows"):
            lake.sql("INSERT INTO t SELECT id FROM range(50000)")
        with pytest.raises(ExecutionError, match="Spark wrote 50000 rows"):
            lake.sql("CREATE TABLE u AS SELECT id FROM range(50000)")
        assert lake.version == version
        assert lake.sql("SELECT * FROM t").count() == 0
        files = lake._catalog.files
        check_shared(spark, files)  # local[1] counts as here: it is what counts rows that tells
        with pytest.raises(
            ExecutionError, match="does not see the files in .*: .*original.parquet"
        ) as caught:
            probe(spark, files)
        assert "local[1]" in str(caught.value)
        assert [path for path, _ in files.list(files.root)] == []
    with spark_trickle.connect(folder / "seen", spark=spark, settings=settings) as lake:
        probe(spark, lake._catalog.files)
        assert not list((folder / "seen").rglob("probe*"))
    print("flows done")


if __name__ == "__main__":
    flows(Path(sys.argv[1]), sys.argv[2])
