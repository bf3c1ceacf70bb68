"""Stream tables with their records in PostgreSQL: one way through everything that writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle.errors import CommitUnknownError, DependencyError
from spark_trickle.settings import Settings
from support import postgres, proxy
from support.clocks import Clock, at
from support.forks import forked
from support.proxy import Cut
from support.streams import assert_exact, refreshed, rows

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres.server() as found:
        yield found


def test_life_of_stream_tables(url: str, tmp_path: Path, spark: SparkSession) -> None:
    def connect() -> spark_trickle.Lake:
        return spark_trickle.connect(url, data_path=str(tmp_path / "data"), spark=spark)

    with connect() as lake:
        lake.sql("CREATE TABLE t (g INT, v INT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5)")
        lake.create_stream_table(
            "s", "SELECT g, sum(v) AS s FROM t GROUP BY g", refresh_mode="DIFFERENTIAL"
        )
        lake.create_stream_table(
            "top", "SELECT g, s FROM s ORDER BY s DESC LIMIT 1", refresh_mode="DIFFERENTIAL"
        )
        lake.sql("INSERT INTO t VALUES (1, 10)")
        modes = {r.name: r.effective_mode for r in lake.refresh_all()}
        assert modes == {"s": "DIFFERENTIAL", "top": "TOPK"}
        assert_exact(lake, "s", "top")
        refreshed(lake, "s", "NO_DATA")
        with pytest.raises(DependencyError, match="s"):
            lake.sql("DROP TABLE t")
        lake.sql("ALTER STREAM TABLE s SET (schedule = '5m')")
    with connect() as lake:
        s, top = lake.stream_tables()
        assert (s.schedule, s.effective_mode, top.is_topk) == ("5m", "NO_DATA", True)
        assert [r.effective_mode for r in lake.refresh_history("s")][-1] == "FULL"
        lake.sql("DELETE FROM t WHERE g = 2")

        def refresh() -> str:
            with connect() as other:
                return other.refresh_stream_table("s").effective_mode

        ran = [worker.end() for worker in [forked(tmp_path, refresh) for _ in range(2)]]
        assert sorted(map(str, ran)) == ["DIFFERENTIAL", "NO_DATA"], ran
        assert_exact(lake, "s")
        assert rows(lake, "s") == [(1, 13)]
        lake.sql("CREATE OR REPLACE STREAM TABLE s AS SELECT g, sum(2 * v) AS s FROM t GROUP BY g")
        lake.expire(older_than=0.0)
        lake.repair_stream_table("s")
        lake.drop_stream_table("s", cascade=True)
        assert lake.stream_tables() == []


def test_a_refresh_whose_commit_gets_no_answer(
    url: str, tmp_path: Path, spark: SparkSession
) -> None:
    """It succeeded: it is reported so, or as unknown, never as a failure, and not done twice."""
    url = _database(url, "lost")
    with proxy.before(url) as wire:
        hasty = Settings(busy_timeout_seconds=2)
        with spark_trickle.connect(
            wire.url, data_path=str(tmp_path / "data"), spark=spark, settings=hasty
        ) as lake:
            lake.sql("CREATE TABLE src (g INT, v INT)")
            lake.sql("INSERT INTO src VALUES (1, 1), (2, 5)")
            query = "SELECT g, sum(v) AS s FROM src GROUP BY g"
            lake.create_stream_table("lost", query, refresh_mode="DIFFERENTIAL")
            lake.sql("INSERT INTO src VALUES (1, 10)")
            wire.cut = Cut.AFTER
            refreshed(lake, "lost", "DIFFERENTIAL")
            assert wire.cuts == 1
            assert_exact(lake, "lost")
            lake.sql("INSERT INTO src VALUES (2, 20)")
            wire.cut, wire.reachable_after = Cut.AFTER, False
            with pytest.raises(CommitUnknownError):
                lake.refresh_stream_table("lost")
    with spark_trickle.connect(url, data_path=str(tmp_path / "data"), spark=spark) as lake:
        assert "ERROR" not in [r.effective_mode for r in lake.refresh_history("lost")]
        refreshed(lake, "lost", "NO_DATA")
        assert_exact(lake, "lost")
        assert rows(lake, "lost") == [(1, 11), (2, 25)]


def test_the_clock_of_a_temporal_filter_is_kept(
    url: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Another connection goes on from the clock of the last refresh."""
    url, clock = _database(url, "timed"), Clock(at(2024, 3, 1, 12))

    def connect() -> spark_trickle.Lake:
        place, settings = str(tmp_path / "data"), Settings(clock=clock)
        return spark_trickle.connect(url, data_path=place, spark=spark, settings=settings)

    with connect() as lake:
        lake.sql("CREATE TABLE e (k INT, ts TIMESTAMP)")
        for k, hour in enumerate((13, 15, 17)):
            lake.sql(f"INSERT INTO e VALUES ({k}, TIMESTAMP'2024-02-29 {hour}:00:00Z')")
        recent = "SELECT k FROM e WHERE ts > now() - INTERVAL 1 DAY"
        lake.create_stream_table("recent", recent, refresh_mode="DIFFERENTIAL")
        clock.jump(hours=2)
        assert lake.refresh_stream_table("recent").effective_mode == "DIFFERENTIAL"
        assert rows(lake, "recent") == [(1,), (2,)]
    with connect() as lake:
        clock.jump(hours=2)
        report = lake.refresh_stream_table("recent")
        assert report.effective_mode == "DIFFERENTIAL"
        assert report.clock == ("2024-03-01 14:00:00+00:00", "2024-03-01 16:00:00+00:00")
        assert rows(lake, "recent") == [(2,)]
        assert not lake.verify("recent")


def _database(url: str, name: str) -> str:
    """One more on the same server."""
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(f"CREATE DATABASE {name}")
    return f"{url.rsplit('/', 1)[0]}/{name}"
