"""Several processes that write what IMMEDIATE stream tables follow: racing, and killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.maintain.refresh import locally
from support import forks
from support.forks import forked
from support.watched import Watched, bag, contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

JOIN = "SELECT a.k, a.v, b.u FROM a JOIN b ON a.k = b.k"
POINTS = (
    "refresh-computed",
    "files-synced",
    "locked",
    "first-table-written",
    "snapshot-row-written",
    "records-written",
    "before-commit",
    "after-commit",
)


def made(lake: Lake) -> Watched:
    lake.sql("CREATE TABLE a (k INT, v INT)")
    lake.sql("CREATE TABLE b (k INT, u INT)")
    lake.sql("INSERT INTO a VALUES (0, 0)")
    lake.sql("INSERT INTO b VALUES (0, 0)")
    views = {"joined": JOIN, "sums": "SELECT k, count(*) AS n, sum(v) AS s FROM joined GROUP BY k"}
    return Watched(lake, ["a", "b"], views)


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.long)])
def test_four_writers_of_both_sides_of_a_join(
    tmp_path: Path, spark: SparkSession, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "PATIENCE", 1500.0)
    monkeypatch.setattr(locally, "CHECKED", 0)
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
        watched = made(lake)

        def write(number: int) -> None:
            with spark_trickle.connect(tmp_path / "lake", spark=spark) as own:
                for i in range(count):
                    own.sql(f"INSERT INTO {'ab'[number % 2]} VALUES ({i % 3}, {number})")

        writers = [forked(tmp_path, lambda n=n: write(n)) for n in range(4)]  # type: ignore[misc]
        assert [writer.end() for writer in writers] == ["None"] * 4
        watched.check(lake)
        assert lake._catalog.scan("a").rows == 2 * count + 1


def test_killed_inside_a_commit(tmp_path: Path, spark: SparkSession) -> None:
    """Sources and stream tables are before or after, together."""
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
        watched = made(lake)
        for point in POINTS:
            version, before = lake.version, bag(contents(lake, "joined"))

            def write() -> None:
                with spark_trickle.connect(tmp_path / "lake", spark=spark) as own:
                    own.sql("INSERT INTO a VALUES (0, 1), (7, 7)")

            assert forked(tmp_path, write, crash_at=point).end() is None, point
            moved = lake.version > version
            assert moved == (point == "after-commit"), point
            assert (bag(contents(lake, "joined")) != before) == moved, point
            watched.check(lake, point)
        lake.sql("INSERT INTO b VALUES (7, 1)")
        watched.check(lake)
