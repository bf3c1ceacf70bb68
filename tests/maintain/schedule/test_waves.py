"""Whoever reads sees the tables of a wave at one version: before it, or after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.errors import InvariantError
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import Dependency, StreamTable
from spark_trickle.settings import Settings
from spark_trickle.storage.records import TableName
from support.lakes import contents
from support.streams import assert_exact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "sums": "SELECT k, sum(v) AS s FROM t GROUP BY k",
    "counts": "SELECT k, count(*) AS n FROM t GROUP BY k",
    "both": "SELECT s.k, s.s, c.n FROM sums s JOIN counts c ON s.k = c.k",
    "c1": "SELECT k, v FROM t WHERE v > 0",
    **{f"c{hop}": f"SELECT k, v FROM c{hop - 1}" for hop in range(2, 6)},
}
"""A diamond and a cascade of five; every v is 1, so that all of them count the same rows."""
COUNTED = {"sums": "s", "counts": "n", "both": "n", **{f"c{hop}": "v" for hop in range(1, 6)}}


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    settings = Settings(poll_seconds=0.05)
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (k INT, v INT)")
        lake.sql("INSERT INTO t VALUES (0, 1), (1, 1), (2, 1)")
        yield lake


def make(lake: Lake, schedule: str | None = None) -> None:
    for name, query in QUERIES.items():
        lake.create_stream_table(name, query, schedule=schedule, refresh_mode="DIFFERENTIAL")


def counted(lake: Lake, version: int) -> dict[str, int]:
    """How many rows of t each table has seen, read without the code that refreshes."""
    seen = {}
    for name, column in COUNTED.items():
        names = [each.name for each in lake._catalog.table(name, version).columns]
        found = contents(lake._catalog, name, version)
        seen[name] = sum(int(row[names.index(column)]) * n for row, n in found.items())
    return seen


def mixtures(lake: Lake, since: int) -> list[tuple[int, dict[str, int]]]:
    """Versions in which the tables have seen different rows."""
    found = [(version, counted(lake, version)) for version in range(since, lake.version + 1)]
    return [(version, seen) for version, seen in found if len(set(seen.values())) > 1]


def test_readers_of_a_scheduled_diamond_and_cascade_see_one_version(lake: Lake) -> None:
    make(lake, "100ms")
    since, over = lake.version, threading.Event()
    seen: list[set[int]] = []

    def read() -> None:
        while not over.is_set():
            seen.append(set(counted(lake, lake.version).values()))

    reader = threading.Thread(target=read)
    with lake.scheduler():
        reader.start()
        for number in range(500):
            lake.sql(f"INSERT INTO t VALUES ({number % 3}, 1), ({number % 5}, 1)")
            if number % 6 == 5:
                lake.sql(f"DELETE FROM t WHERE k = {number % 4}")
            if len({min(each) for each in seen}) > 5:
                break
    over.set()
    reader.join()
    assert all(len(each) == 1 for each in seen), "read while it ran"
    assert len({min(each) for each in seen}) > 2, "several waves were seen"
    assert mixtures(lake, since) == []
    lake.refresh_all(errors="raise")
    assert_exact(lake, *QUERIES)


def test_a_wave_is_one_version(lake: Lake) -> None:
    make(lake)
    for number in range(3):
        before = lake.version
        lake.sql(f"INSERT INTO t VALUES ({number}, 1)")
        reports = lake.refresh_all()
        assert {report.effective_mode for report in reports} == {"DIFFERENTIAL"}
        assert {report.version for report in reports} == {lake.version} == {before + 2}
        assert mixtures(lake, lake.version) == []
    assert_exact(lake, *QUERIES)
    before = lake.version
    assert {report.effective_mode for report in lake.refresh_all()} == {"NO_DATA"}
    assert lake.version == before


def test_that_tables_committed_one_by_one_would_be_noticed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the check above."""
    make(lake)
    since = lake.version
    lake.sql("INSERT INTO t VALUES (1, 1)")
    monkeypatch.setattr(graph, "together", lambda tables: [[table] for table in tables])
    lake.refresh_all()
    assert mixtures(lake, since + 2)


def test_what_was_refreshed_alone_is_caught_up_with_in_the_wave(lake: Lake) -> None:
    """The frontier of a reader lies before the version that the wave began from."""
    make(lake)
    for name, statement in (
        ("sums", "INSERT INTO t VALUES (0, 1), (7, 1)"),
        ("c1", "UPDATE t SET k = 9 WHERE k = 1"),
        ("counts", "DELETE FROM t WHERE k = 0"),
    ):
        lake.sql(statement)
        lake.refresh_stream_table(name)
        lake.sql("INSERT INTO t VALUES (0, 1)")
        lake.sql("DELETE FROM t WHERE k = 7")
        reports = {report.name: report for report in lake.refresh_all(errors="raise")}
        assert reports["both"].effective_mode == reports["c2"].effective_mode == "DIFFERENTIAL"
        assert mixtures(lake, lake.version) == []
        assert_exact(lake, *QUERIES)


def test_a_failure_takes_its_readers_out_of_the_wave_and_nobody_else(lake: Lake) -> None:
    make(lake)
    lake.create_stream_table("odd", "SELECT k, s, 10 / (s - 4) AS q FROM sums")
    lake.create_stream_table("over_odd", "SELECT count(*) AS n FROM odd")
    lake.sql("INSERT INTO t VALUES (0, 1), (0, 1), (0, 1)")
    done = {report.name: report for report in lake.refresh_all()}
    assert done["odd"].effective_mode == "ERROR"
    assert "Division by zero" in str(done["odd"].error)
    assert done["over_odd"].reason.startswith("UPSTREAM_FAILED: odd")
    rest = [report for name, report in done.items() if name in QUERIES]
    assert {report.version for report in rest} == {lake.version}
    assert_exact(lake, *QUERIES)
    assert_exact(lake, "odd", "over_odd")
    newest = lake.refresh_history("odd")[0]
    assert (newest.effective_mode, newest.refresh_id) == ("ERROR", done["odd"].refresh_id)
    lake.sql("INSERT INTO t VALUES (0, 1)")
    assert not any(report.failed for report in lake.refresh_all())
    assert_exact(lake, *QUERIES, "odd", "over_odd")


def test_one_that_follows_commits_is_up_to_date_within_the_wave(lake: Lake) -> None:
    """Deferred, IMMEDIATE over it, deferred over that: one version."""
    lake.create_stream_table("sums", QUERIES["sums"], refresh_mode="DIFFERENTIAL")
    for name, query in (
        ("largest", "SELECT max(s) AS m FROM sums"),
        ("whole", "SELECT sum(s) AS s FROM sums"),
    ):
        lake.create_stream_table(name, query, refresh_mode="IMMEDIATE")
        lake.create_stream_table(f"over_{name}", f"SELECT * FROM {name}")
    for statement in ("INSERT INTO t VALUES (5, 1), (0, 1)", "DELETE FROM t WHERE k = 0"):
        lake.sql(statement)
        reports = {report.name: report for report in lake.refresh_all(errors="raise")}
        assert reports["over_whole"].version == reports["sums"].version == lake.version
        assert reports["over_largest"].rows_inserted == 1
        assert_exact(lake, "sums", "largest", "over_largest", "whole", "over_whole")
    assert {r.effective_mode for r in lake.refresh_all()} == {"NO_DATA"}


def test_one_that_cannot_follow_stops_what_it_follows_and_nobody_else(lake: Lake) -> None:
    """The commit of the group is refused: each is committed alone."""
    make(lake)
    query = "SELECT k, 10 / (s - 4) AS q FROM sums"
    lake.create_stream_table("picky", query, refresh_mode="IMMEDIATE")
    lake.sql("INSERT INTO t VALUES (0, 1), (0, 1), (0, 1)")
    done = {report.name: report for report in lake.refresh_all()}
    assert done["sums"].effective_mode == "ERROR"
    assert "picky cannot follow the change" in str(done["sums"].error)
    assert done["both"].reason.startswith("UPSTREAM_FAILED: sums")
    for name in ("counts", *(f"c{hop}" for hop in range(1, 6))):
        assert done[name].rows_inserted == (3 if name.startswith("c") and name != "counts" else 1)
    assert_exact(lake, *QUERIES, "picky")
    lake.sql("DELETE FROM t WHERE k = 0")
    assert not any(report.failed for report in lake.refresh_all())
    assert_exact(lake, *QUERIES, "picky")


def test_a_breach_takes_out_the_table_that_it_is_of(lake: Lake) -> None:
    """Not those that were to be committed with it, nor the one that it follows."""
    make(lake)
    query = "SELECT count(*) AS n, sum(s) AS s FROM sums"
    lake.create_stream_table("whole", query, refresh_mode="IMMEDIATE")
    for alone in (False, True):
        stream = lake._streams.get("whole")  # a repair makes its state anew
        tx = lake._catalog.begin()
        for name in (stream.name, *(segment.name for segment in stream.segments)):
            tx.truncate(TableName.of(name))
        tx.participants = ()
        tx.commit()
        lake.sql("DELETE FROM t WHERE k = 2")
        if alone:
            with pytest.raises(InvariantError, match="whole cannot follow"):
                lake.refresh_stream_table("sums")
        else:
            done = {report.name: report.effective_mode for report in lake.refresh_all()}
            assert done["sums"] == "ERROR"
            assert done["counts"] == "DIFFERENTIAL"
        states = {table.name: table.status for table in lake.stream_tables()}
        assert states == dict.fromkeys(QUERIES, "ACTIVE") | {"whole": "ERROR"}
        lake.repair_stream_table("whole")
        assert not any(report.failed for report in lake.refresh_all())
        assert_exact(lake, *QUERIES, "whole")
        lake.sql("INSERT INTO t VALUES (2, 1)")
        lake.refresh_all(errors="raise")


def test_somebody_else_gets_in_between(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh by hand while the wave computes: the wave is done again, and loses nothing."""
    make(lake)
    lake.sql("INSERT INTO t VALUES (1, 1)")
    refresher = lake._streams._refresher
    stage, between = refresher.stage, iter(["counts", "c3"])

    def staged(stream: StreamTable, *rest: object) -> object:
        done = stage(stream, *rest)  # type: ignore[arg-type]
        if stream.name == "both" and (name := next(between, None)):
            monkeypatch.setattr(refresher, "stage", stage)
            lake.refresh_stream_table(name)
            monkeypatch.setattr(refresher, "stage", staged)
        return done

    monkeypatch.setattr(refresher, "stage", staged)
    reports: list[RefreshReport] = lake.refresh_all(errors="raise")
    assert {r.version for r in reports if r.rows_inserted} == {lake.version}
    assert mixtures(lake, lake.version) == []
    assert_exact(lake, *QUERIES)


def test_groups() -> None:
    def table(name: str, *sources: str, schedule: str | None = None) -> StreamTable:
        found = tuple(Dependency(source, source, 0) for source in sources)
        return StreamTable(name, name, "", "spark", schedule, "AUTO", sources=found)

    tables = [
        table("a", "t", schedule="1m"),
        table("b", "t", schedule="1m"),
        table("c", "t", schedule="1h"),
        table("d", "c", "u"),
        table("e", "u"),
        table("f", "w"),
    ]
    found = [{each.name for each in group} for group in graph.together(tables)]
    assert found == [{"a", "b"}, {"c", "d", "e"}, {"f"}]
