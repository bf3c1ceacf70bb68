"""Workers that do not see the lake's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle.errors import ExecutionError
from spark_trickle.settings import Settings
from support import cluster as clusters
from support.hidden import may_mount

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SETTINGS = Settings(inline_row_limit=100, local_rows=0)


@pytest.mark.parametrize("blind", ["one of two", "both"])
def test_a_worker_that_does_not_see_the_storage(tmp_path, blind):
    """Found before anything is written, whichever of the workers it is."""
    hidden = tmp_path / "data"
    hidden.mkdir()
    if not may_mount(hidden):
        pytest.skip("this user may not mount a disk of its own (unshare -m)")
    with clusters.cluster(tmp_path / "cluster", workers=0) as made:
        made.worker(blind_to=hidden if blind == "both" else None)
        made.worker(blind_to=hidden)
        with clusters.session(made.url) as spark:
            refused(spark, tmp_path / "lake", hidden)


def refused(spark: SparkSession, folder: Path, hidden: Path) -> None:
    with spark_trickle.connect(
        folder, data_path=str(hidden), spark=spark, settings=SETTINGS
    ) as lake:
        lake.sql("CREATE TABLE t (a BIGINT)")
        lake.sql("INSERT INTO t VALUES (1)")
        version = lake.version
        for _ in range(2):  # what was found wrong is not taken for right the next time
            with pytest.raises(ExecutionError, match="does not see") as caught:
                lake.append("t", spark.range(50_000).selectExpr("id AS a"))
            assert "data_path" in str(caught.value.hint)
        with pytest.raises(ExecutionError, match="does not see"):
            lake.sql("CREATE TABLE u AS SELECT id FROM range(50000)")
        with pytest.raises(ExecutionError, match="does not see"):
            lake.create_stream_table("s", "SELECT a, count(*) AS n FROM t GROUP BY a")
        assert lake.version == version
        assert [path for path in hidden.rglob("*") if path.is_file()] == []
