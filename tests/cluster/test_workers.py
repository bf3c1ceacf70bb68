"""Workers that die in the middle of refreshes and writes."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.settings import Settings
from support import cluster as clusters
from support.watched import bag, contents

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.postgres]

SETTINGS = Settings(inline_row_limit=100, local_rows=0)
QUERY = "SELECT g, sum(v) AS s, max(v) AS m, count(*) AS n FROM t GROUP BY g"
MODES = ("DIFFERENTIAL", "FULL")
ATTEMPTS = 8


@pytest.fixture
def lake(tmp_path, spark, catalog_url) -> Iterator[Lake]:
    with spark_trickle.connect(
        catalog_url, data_path=str(tmp_path / "data"), spark=spark, settings=SETTINGS
    ) as opened:
        yield opened


def judged(lake: Lake, *names: str) -> None:
    """DuckDB computes the query over the table as it is."""
    duck = duckdb.connect(":memory:")
    duck.register("t", contents(lake, "t"))
    wanted = bag(duck.sql(QUERY).to_arrow_table())
    for name in names:
        assert bag(contents(lake, name)) == wanted, name


def struck(lake: Lake, cluster, spark, mode: str, stage: int, attempt: int) -> bool:
    """Whether a worker died at that stage of a refresh: a brief one may be over before it is seen."""
    lake.sql(f"UPDATE t SET v = v + {stage} WHERE id % 7 = {stage}")
    lake.sql(f"DELETE FROM t WHERE id % 1000 = {10 * stage + attempt}")
    victim = cluster.workers[-1]
    with clusters.Striking(spark, stage, lambda: cluster.kill(victim)) as striking:
        report = lake.refresh_stream_table(f"s_{mode}")
    assert report.effective_mode == mode, report
    judged(lake, f"s_{mode}")
    return striking.struck


def test_workers_die_in_the_middle(lake, cluster, spark):
    """Of a refresh, at its first stages and at later ones, and of a write."""
    lake.sql("CREATE TABLE t (id BIGINT, g BIGINT, v DECIMAL(10,2), PRIMARY KEY (id))")
    lake.sql("INSERT INTO t SELECT id, id % 5000, id / 100 FROM range(200000)")
    for mode in MODES:
        lake.create_stream_table(f"s_{mode}", QUERY, refresh_mode=mode)
    for stage in (1, 2):
        for mode in MODES:
            assert any(struck(lake, cluster, spark, mode, stage, n) for n in range(ATTEMPTS))
            cluster.worker()
    victim = cluster.workers[-1]
    with clusters.Striking(spark, 1, lambda: cluster.kill(victim)) as striking:
        lake.append("t", spark.range(500_000, 900_000).selectExpr("id", "id % 3 AS g", "1.5 AS v"))
    assert striking.struck
    cluster.worker()
    assert lake.remove_orphans(grace_seconds=0.0) == 0, "what lost tasks wrote is gone"
    lake.refresh_all()
    judged(lake, "s_DIFFERENTIAL", "s_FULL")
    ids = contents(lake, "t").column("id")
    assert len(ids) == len(ids.unique()), "no row was written twice"
