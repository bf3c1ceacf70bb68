"""The history of refreshes stays short, and keeps what AUTO learns from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import (
    MEASUREMENTS,
    RefreshReport,
    add_history,
    history,
    measured,
)
from spark_trickle.settings import Settings

KEPT = MEASUREMENTS + 10


def written(lake: Lake, uuid: str, modes: list[str], first: int = 0) -> None:
    with lake._catalog.writing() as connection:
        records.create_tables(connection)
        for step, mode in enumerate(modes):
            report = RefreshReport("s", mode, "", started_at=float(first + step))
            add_history(connection, uuid, report, KEPT)


def moments(lake: Lake, uuid: str) -> list[float]:
    with lake._catalog.reading() as connection:
        return [r.started_at for r in history(connection, uuid, most=10_000)]


def test_the_newest_stay(dry_lake: Lake) -> None:
    written(dry_lake, "other", ["NO_DATA"] * 5)
    written(dry_lake, "s", ["NO_DATA", "ERROR", "SKIPPED"] * 50)
    assert moments(dry_lake, "s") == [float(moment) for moment in range(149, 149 - KEPT, -1)]
    assert len(moments(dry_lake, "other")) == 5, "each stream table has its own"
    written(dry_lake, "s", ["DIFFERENTIAL"] * 200, 1_000)
    assert moments(dry_lake, "s") == [float(moment) for moment in range(1_199, 1_199 - KEPT, -1)]


def test_measurements_outlive_idle_refreshes(dry_lake: Lake) -> None:
    written(dry_lake, "s", ["FULL"] * 3 + ["DIFFERENTIAL"] * (MEASUREMENTS + 20) + ["TOPK"])
    written(dry_lake, "s", ["NO_DATA"] * 500, 1_000)
    with dry_lake._catalog.reading() as connection:
        known = [report.effective_mode for report in measured(connection, "s")]
    assert {mode: known.count(mode) for mode in known} == {
        "TOPK": 1,
        "DIFFERENTIAL": MEASUREMENTS,
        "FULL": 3,
    }
    assert len(moments(dry_lake, "s")) == KEPT + MEASUREMENTS + 4


@pytest.fixture
def brief(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    settings = Settings(history_rows=4)
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as opened:
        yield opened


@pytest.mark.spark
def test_every_way_to_end_a_refresh_forgets_in_its_own_commit(brief: Lake) -> None:
    brief.sql("CREATE TABLE t (v INT)")
    brief.create_stream_table("s", "SELECT 10 DIV v AS q FROM t", refresh_mode="DIFFERENTIAL")
    uuid = brief._streams.get("s").uuid
    clock = itertools.count()

    def idle(*modes: str) -> None:
        """As if these refreshes had been there before all others, beyond what is kept."""
        old = RefreshReport("s", "NO_DATA", "")
        with brief._catalog.writing() as connection:
            for mode in modes:
                report = replace(old, effective_mode=mode, started_at=float(next(clock)))
                add_history(connection, uuid, report, 1_000)

    def length() -> int:
        return len([moment for moment in moments(brief, uuid) if moment < 1_000])

    idle(*["NO_DATA"] * 8)
    brief.refresh_stream_table("s")
    assert length() == 2, "two that were real, two of the old ones"
    brief.sql("INSERT INTO t VALUES (0)")
    idle(*["NO_DATA"] * 8)
    with pytest.raises(spark_trickle.TrickleError, match="(?i)zero"):
        brief.refresh_stream_table("s")
    assert length() == 1
    brief.sql("UPDATE t SET v = 1")
    idle(*["NO_DATA"] * 8)
    assert brief.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"
    assert length() == 0
    brief.alter_stream_table("s", status="SUSPENDED")
    idle(*["NO_DATA"] * 8)
    brief.refresh_all()
    assert length() == 0
    shown = [report.effective_mode for report in brief.refresh_history("s")]
    assert shown == ["SKIPPED", "DIFFERENTIAL", "ERROR", "NO_DATA", "FULL"], "FULL: a measurement"
