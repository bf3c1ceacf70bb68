"""Stream tables with temporal filters: what a refresh does, records and refuses as the clock moves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle import Lake, Settings
from spark_trickle.errors import UnsupportedQueryError
from spark_trickle.maintain.schedule.restless import Restless
from support.clocks import Clock, at
from support.watched import bag, contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECENT = "SELECT k, count(*) AS c FROM e WHERE ts > now() - INTERVAL 1 DAY GROUP BY k"


@pytest.fixture
def clock() -> Clock:
    return Clock(at(2024, 3, 1, 12))


@pytest.fixture
def timed(tmp_path: Path, spark: SparkSession, clock: Clock) -> Iterator[Lake]:
    settings = Settings(clock=clock)
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE e (k INT, ts TIMESTAMP, d DATE)")
        lake.sql(
            "INSERT INTO e VALUES (1, TIMESTAMP'2024-03-01 11:00:00Z', DATE'2024-03-01'),"
            "(1, TIMESTAMP'2024-02-29 14:00:00Z', DATE'2024-02-29'),"
            "(2, TIMESTAMP'2024-02-29 13:00:00Z', DATE'2024-02-29'), (3, NULL, NULL)"
        )
        yield lake


def rows(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    return sorted(bag(contents(lake, name)).elements())


def test_the_clock_moves_alone(timed: Lake, clock: Clock) -> None:
    """NO_DATA as long as no row crosses; in both cases the frontier's clock moves."""
    timed.create_stream_table("recent", RECENT, refresh_mode="DIFFERENTIAL")
    assert rows(timed, "recent") == [(1, 2), (2, 1)]
    clock.jump(minutes=30)
    report = timed.refresh_stream_table("recent")
    assert (report.effective_mode, report.spark_queries) == ("NO_DATA", 0)
    assert report.clock == ("2024-03-01 12:00:00+00:00", "2024-03-01 12:30:00+00:00")
    clock.jump(minutes=30)
    report = timed.refresh_stream_table("recent")
    assert report.effective_mode == "DIFFERENTIAL"
    assert report.delta_rows == {"e": 1}
    assert (report.rows_inserted, report.rows_deleted) == (0, 1)
    assert rows(timed, "recent") == [(1, 2)]
    assert timed.refresh_history("recent")[0].clock == report.clock
    assert timed.refresh_stream_table("recent").effective_mode == "NO_DATA"
    clock.jump(minutes=-30)  # another machine's clock
    assert timed.refresh_stream_table("recent").effective_mode == "DIFFERENTIAL"
    assert rows(timed, "recent") == [(1, 2), (2, 1)]
    frontier = timed.sql("DESCRIBE EXTENDED recent").toPandas().to_string()
    assert "the clock at 2024-03-01 12:30:00+00:00" in frontier


def test_verify_full_and_repair(timed: Lake, clock: Clock) -> None:
    """They compute at the frontier's clock, or move it with the contents."""
    timed.create_stream_table("recent", RECENT, refresh_mode="DIFFERENTIAL", initialize=False)
    clock.jump(minutes=61)
    assert timed.refresh_stream_table("recent").clock == (None, "2024-03-01 13:01:00+00:00")
    assert rows(timed, "recent") == [(1, 2)]
    clock.jump(days=2)
    assert not timed.verify("recent")
    full = timed.refresh_stream_table("recent", full=True)
    assert (full.effective_mode, rows(timed, "recent")) == ("FULL", [])
    assert not timed.verify("recent")
    clock.jump(days=-2)
    timed.repair_stream_table("recent")
    assert rows(timed, "recent") == [(1, 2)]
    timed.sql(
        "ALTER STREAM TABLE recent AS SELECT k, count(*) AS c FROM e WHERE ts <= now() GROUP BY k"
    )
    assert rows(timed, "recent") == [(1, 2), (2, 1)]
    timed.sql("ALTER STREAM TABLE recent AS SELECT k, count(*) AS c FROM e GROUP BY k")
    assert timed.refresh_stream_table("recent").clock is None
    assert rows(timed, "recent") == [(1, 2), (2, 1), (3, 1)]


def test_a_wave_and_the_scheduler(timed: Lake, clock: Clock) -> None:
    by_delta = {"refresh_mode": "DIFFERENTIAL"}
    timed.create_stream_table("recent", RECENT, **by_delta)
    timed.create_stream_table("above", "SELECT sum(c) AS n FROM recent", **by_delta)
    stream = timed._streams.get("recent")
    assert Restless(timed._streams._refresher.compile)(stream)
    clock.jump(hours=1)
    modes = {report.name: report.effective_mode for report in timed.refresh_all()}
    assert modes == {"recent": "DIFFERENTIAL", "above": "DIFFERENTIAL"}
    assert rows(timed, "above") == [(2,)]
    assert {r.effective_mode for r in timed.refresh_all()} == {"NO_DATA"}
    for name in ("recent", "above"):
        timed.alter_stream_table(name, schedule="200ms")
    with timed.scheduler():
        clock.jump(hours=1)
        until = time.monotonic() + 60
        while rows(timed, "above") != [(1,)] and time.monotonic() < until:
            time.sleep(0.1)
    assert rows(timed, "above") == [(1,)]


@pytest.mark.parametrize("options", [{"refresh_mode": "IMMEDIATE"}, {"fast_path": True}])
def test_what_follows_commits_is_refused(timed: Lake, options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedQueryError) as refused:
        timed.create_stream_table("recent", RECENT, **options)
    assert refused.value.code == "TEMPORAL_FILTER"
    assert "now" in refused.value.position.caret()
    assert refused.value.hint
    if "refresh_mode" in options:
        timed.create_stream_table("recent", RECENT)
        with pytest.raises(UnsupportedQueryError):
            timed.alter_stream_table("recent", **options)


def test_explain(timed: Lake, clock: Clock) -> None:
    told = timed.explain(RECENT)
    assert "the clock: the rows that enter or leave e where ts > NOW()" in told
    timed.create_stream_table("recent", RECENT, refresh_mode="DIFFERENTIAL")
    assert "NO_DATA" in timed.explain("recent", stage="choice")
    clock.jump(hours=1)
    assert "DIFFERENTIAL" in timed.explain("recent", stage="choice")


def test_the_zone_of_the_definition(timed: Lake, clock: Clock, spark: SparkSession) -> None:
    """What day it is, where the query was made; whatever zone a refresh runs under."""
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")  # 13 hours ahead
    try:
        today = "SELECT k FROM e WHERE d = current_date()"
        timed.create_stream_table("today", today, refresh_mode="DIFFERENTIAL")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert rows(timed, "today") == []
    clock.jump(hours=-2)
    report = timed.refresh_stream_table("today")
    assert (report.effective_mode, rows(timed, "today")) == ("DIFFERENTIAL", [(1,)])
    assert not timed.verify("today")
    clock.jump(hours=-24)
    timed.refresh_stream_table("today")
    assert rows(timed, "today") == [(1,), (2,)]


def test_made_before_temporal_filters(timed: Lake, clock: Clock) -> None:
    """It has no state for deltas: it is run anew as before, until it is repaired."""
    timed.create_stream_table("recent", "SELECT k FROM e WHERE ts > now() - INTERVAL 1 DAY")
    with timed._catalog.writing() as connection:
        connection.execute("DELETE FROM trickle_clock")
    assert timed.refresh_stream_table("recent").effective_mode == "FULL"
    timed.repair_stream_table("recent")
    clock.jump(hours=1)
    timed.alter_stream_table("recent", refresh_mode="DIFFERENTIAL")
    assert timed.refresh_stream_table("recent").effective_mode == "DIFFERENTIAL"


def test_a_clock_that_nobody_looks_at(timed: Lake, clock: Clock) -> None:
    timed.sql("CREATE VIEW v AS SELECT k, now() AS read_at FROM e")
    timed.create_stream_table("keys", "SELECT DISTINCT k FROM v", refresh_mode="DIFFERENTIAL")
    timed.sql("DELETE FROM e WHERE k = 2")
    clock.jump(hours=1)
    assert timed.refresh_stream_table("keys").effective_mode == "DIFFERENTIAL"
    assert timed.refresh_stream_table("keys").effective_mode == "NO_DATA"
    assert rows(timed, "keys") == [(1,), (3,)]


def test_bytes_grow_with_what_crosses(timed: Lake, clock: Clock) -> None:
    """A day of hours, each in a file, before the other rows; the files whose hours cross the edge are read, and no others."""
    # What this process makes the table of, it has in memory, and reads no bytes of it again.
    timed._catalog.settings = replace(timed._catalog.settings, local_rows=0)
    start = at(2024, 1, 1)
    for hour in range(24):
        when = [start + timedelta(hours=hour, seconds=n + 0.5) for n in range(3_000)]
        timed.append(
            "e",
            pa.table(
                {"k": [n % 7 for n in range(3_000)], "ts": when, "d": [w.date() for w in when]}
            ),
        )
    clock.now = start + timedelta(hours=24)
    timed.create_stream_table("recent", RECENT, refresh_mode="DIFFERENTIAL")
    whole = timed._catalog.scan("e").bytes
    read = []
    for hours in (1, 2, 4, 8):
        clock.jump(hours=hours)
        report = timed.refresh_stream_table("recent")
        assert report.effective_mode == "DIFFERENTIAL"
        assert report.delta_rows == {"e": 3_000 * hours}
        read.append(report.bytes_read)
    assert 0 < read[0] < whole / 20
    for one, twice in zip(read, read[1:], strict=False):
        assert 1.8 < twice / one < 2.2
    assert sum(count for _, count in rows(timed, "recent")) == 3_000 * 9 + 3
