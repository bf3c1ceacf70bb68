"""Reports, history and listings tell the truth; so do the number and the kind of Spark queries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.errors import UnsupportedQueryError
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.refresh import locally
from spark_trickle.settings import Settings
from spark_trickle.spark.sessions.session import SessionHolder
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount BIGINT)")
    lake.sql("CREATE TABLE customers (customer STRING, region STRING)")
    lake.sql("INSERT INTO customers VALUES ('ada', 'north'), ('bob', 'south')")
    lake.sql("INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 5), (3, 'ada', 1)")
    return lake


JOINED = (
    "SELECT region, sum(amount) AS total FROM orders o JOIN customers c "
    "ON o.customer = c.customer GROUP BY region"
)


def committed(lake: Lake, version: int) -> float:
    return next(v.time.timestamp() for v in lake.history() if v.version == version)


def test_a_report_is_true_in_every_field(shop: Lake) -> None:
    started = time.time()
    first = shop.create_stream_table("totals", JOINED, refresh_mode="DIFFERENTIAL")
    assert first is not None
    base = first.sources["orders"][1]
    assert first.sources == {"customers": (base, base), "orders": (base, base)}
    assert (first.rows_inserted, first.rows_deleted, first.source_rows) == (2, 0, 5)
    assert first.delta_rows == {}
    assert first.engine == ("spark" if first.spark_queries else "local")
    assert first.started_at >= started

    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2), (5, 'nobody', 9)")
    shop.sql("DELETE FROM orders WHERE id = 2")
    before_refresh = shop.version
    report = refreshed(shop, "totals", "DIFFERENTIAL")
    assert report.asked_mode == "DIFFERENTIAL"
    assert report.reason == "ASKED: DIFFERENTIAL was asked for"
    assert report.sources == {
        "customers": (base, before_refresh),
        "orders": (base, before_refresh),
    }
    assert report.version == before_refresh + 1 == shop.version
    assert report.delta_rows == {"orders": 3}
    assert (report.rows_inserted, report.rows_deleted) == (1, 1), "south: 5 becomes 2"
    assert report.source_rows == 6
    assert report.spark_queries <= 4
    assert report.engine == ("spark" if report.spark_queries else "local")
    assert report.rows_read >= 3
    assert report.error is None
    assert 0 < sum(report.phases.values()) <= report.seconds
    assert {"pin", "compute", "stage"} <= report.phases.keys()

    history = shop.refresh_history("totals")
    assert history[0] == report, "what is returned is what is written down"
    assert history[1] == first

    idle = refreshed(shop, "totals", "NO_DATA")
    assert idle.reason == "NO_CHANGES: no source changed"
    assert (idle.spark_queries, idle.rows_read, idle.bytes_read) == (0, 0, 0)
    assert (idle.rows_inserted, idle.rows_deleted, dict(idle.delta_rows)) == (0, 0, {})
    assert idle.version == shop.version
    assert idle.sources["orders"] == (before_refresh, shop.version)

    full = shop.sql("REFRESH STREAM TABLE totals FULL")
    assert (full.asked_mode, full.effective_mode) == ("FULL", "FULL")
    assert full.reason.startswith("ASKED:")
    assert (full.rows_inserted, full.rows_deleted) == (0, 0), "a full run publishes the difference"
    assert full.version == shop.version == before_refresh + 1, "nothing changed: no new version"


def test_spark_counts_the_queries_that_are_reported(shop: Lake) -> None:
    """The number of actions in the report is the number that Spark saw."""
    on_spark(shop)
    shop.create_stream_table("totals", JOINED, refresh_mode="DIFFERENTIAL")
    store = shop.spark._jsparkSession.sharedState().statusStore()

    def executions() -> list[Any]:
        """Those Spark still remembers: it forgets the oldest, their numbers only grow."""
        found = store.executionsList()
        return [found.apply(i) for i in range(found.size())]

    def queries_after(last: int) -> int:
        """What Spark executed since; naming a view is no query."""
        newer = [e for e in executions() if e.executionId() > last]
        return sum("Execute CreateViewCommand" not in e.physicalPlanDescription() for e in newer)

    def seen_during(expected: str) -> tuple[int, int]:
        time.sleep(0.5)  # Spark counts in a thread of its own
        last = max(e.executionId() for e in executions())
        report = refreshed_only(shop, expected)
        deadline = time.monotonic() + 20
        while queries_after(last) < report.spark_queries:
            assert time.monotonic() < deadline, report
            time.sleep(0.05)
        time.sleep(0.5)
        return queries_after(last), report.spark_queries

    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2)")
    shop.sql("INSERT INTO customers VALUES ('cid', 'east')")
    seen, reported = seen_during("DIFFERENTIAL")
    assert seen == reported >= 1
    assert seen_during("NO_DATA") == (0, 0)


def refreshed_only(lake: Lake, mode: str) -> RefreshReport:
    report = lake.refresh_stream_table("totals")
    assert report.effective_mode == mode
    return report


def on_spark(lake: Lake) -> None:
    """Nothing is computed in this process."""
    lake._catalog.settings = replace(lake._catalog.settings, local_rows=0)


def test_few_spark_queries_per_refresh(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Must show 5: pinned numbers."""
    shop.sql("CREATE TABLE regions (region STRING, country STRING)")
    shop.sql("INSERT INTO regions VALUES ('north', 'x'), ('south', 'y')")
    shop.create_stream_table(
        "one",
        "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer",
        refresh_mode="DIFFERENTIAL",
    )
    shop.create_stream_table(
        "three",
        "SELECT country, sum(amount) AS total FROM orders o JOIN customers c USING (customer) "
        "JOIN regions r USING (region) GROUP BY country",
        refresh_mode="DIFFERENTIAL",
    )
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2), (5, 'eve', 3)")
    shop.sql("INSERT INTO customers VALUES ('eve', 'south')")
    shop.sql("DELETE FROM orders WHERE id = 1")
    monkeypatch.setattr(locally, "CHECKED", 0)
    for name in ("one", "three"):
        report = refreshed(shop, name, "DIFFERENTIAL")
        assert (report.engine, report.spark_queries) == ("local", 0)
    shop.sql("INSERT INTO orders VALUES (6, 'eve', 4)")
    with monkeypatch.context() as patch:
        patch.setattr(
            SessionHolder, "spark", property(lambda _: pytest.fail("Spark was asked for"))
        )
        for name in ("one", "three"):
            assert shop.refresh_stream_table(name).engine == "local"
    on_spark(shop)
    shop.sql("DELETE FROM orders WHERE id = 2")
    for name in ("one", "three"):
        report = refreshed(shop, name, "DIFFERENTIAL")
        assert (report.engine, report.spark_queries) == ("spark", 1)


def test_a_refresh_without_changes_is_quick_and_starts_no_job(shop: Lake) -> None:
    shop.create_stream_table("totals", JOINED)
    shop.refresh_stream_table("totals")
    taken = []
    for _ in range(15):
        began = time.perf_counter()
        report = shop.refresh_stream_table("totals")
        taken.append(time.perf_counter() - began)
        assert (report.effective_mode, report.spark_queries) == ("NO_DATA", 0)
    assert statistics.median(taken) < 0.020, taken


def test_listings(shop: Lake) -> None:
    shop.create_stream_table("totals", JOINED, schedule="5m", refresh_mode="DIFFERENTIAL")
    shop.create_stream_table(
        "best", "SELECT region, total FROM totals ORDER BY total DESC, region LIMIT 1"
    )
    best, totals = shop.stream_tables()
    assert (totals.name, totals.query, totals.schedule) == ("totals", JOINED, "5m")
    assert (totals.refresh_mode, totals.effective_mode) == ("DIFFERENTIAL", "FULL")
    assert (list(totals.sources), list(totals.dependents)) == (["customers", "orders"], ["best"])
    assert (list(best.sources), list(best.dependents)) == (["totals"], [])
    assert totals.staleness == best.staleness == 0.0
    assert (totals.is_topk, totals.topk_limit, totals.topk_order_by) == (False, None, None)
    assert (best.is_topk, best.topk_limit, best.topk_order_by) == (True, 1, "total DESC, region")
    assert totals.last_error is None
    assert totals.frontier == shop._streams.get("totals").frontier
    assert totals.data_time == best.data_time == committed(shop, shop.version)
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 100)")
    time.sleep(0.05)
    best, totals = shop.stream_tables()
    assert 0.05 <= totals.staleness < 600
    assert totals.data_time == committed(shop, totals.frontier["orders"])
    assert best.data_time == committed(shop, shop.version)
    assert best.staleness == 0.0, "its own source has not moved yet"
    refreshed(shop, "totals", "DIFFERENTIAL")
    best, totals = shop.stream_tables()
    assert totals.effective_mode == "DIFFERENTIAL"
    assert totals.staleness == 0.0
    assert best.staleness > 0

    shown = shop.sql("SHOW STREAM TABLES").toArrow().to_pylist()
    assert [row["name"] for row in shown] == ["best", "totals"]
    read = (
        shop.sql(
            "SELECT name, is_topk, frontier['totals'] AS seen FROM trickle.stream_tables WHERE is_topk"
        )
        .toArrow()
        .to_pylist()
    )
    assert read == [{"name": "best", "is_topk": True, "seen": best.frontier["totals"]}]
    told = shop.sql("SELECT data_time FROM trickle.stream_tables WHERE name = 'totals'").toArrow()
    assert told.column(0)[0].as_py().timestamp() == totals.data_time
    assert totals.data_time == committed(shop, shop.version)
    history = (
        shop.sql(
            "SELECT effective_mode, delta_rows['orders'] AS changed, sources['orders'].after AS after "
            "FROM trickle.refresh_history WHERE name = 'totals' ORDER BY started_at"
        )
        .toArrow()
        .to_pylist()
    )
    assert [row["effective_mode"] for row in history] == ["FULL", "DIFFERENTIAL"]
    assert history[1]["changed"] == 1
    assert history[1]["after"] == totals.frontier["orders"]
    with pytest.raises(spark_trickle.TrickleError):
        shop.sql("DELETE FROM trickle.refresh_history")


def test_auto_accepts_what_only_a_full_run_keeps_exact(shop: Lake) -> None:
    query = "SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders"
    with pytest.raises(UnsupportedQueryError) as caught:
        shop.create_stream_table("numbered", query, refresh_mode="DIFFERENTIAL")
    assert caught.value.code == "UNPARTITIONED_WINDOW"
    assert caught.value.hint
    assert shop.stream_tables() == []
    shop.create_stream_table("numbered", query)
    shop.sql("DELETE FROM orders WHERE id = 1")
    report = refreshed(shop, "numbered", "FULL")
    assert report.reason.startswith("UNPARTITIONED_WINDOW:")
    assert (report.rows_inserted, report.rows_deleted) == (2, 3)
    assert rows(shop, "numbered") == [(2, 1), (3, 2)]
    with pytest.raises(UnsupportedQueryError):
        shop.alter_stream_table("numbered", refresh_mode="DIFFERENTIAL")
    refreshed(shop, "numbered", "NO_DATA")
    shop.create_stream_table("drawn", "SELECT id, rand(1) AS r FROM orders", refresh_mode="FULL")
    assert shop.refresh_stream_table("drawn").effective_mode == "FULL"
    assert "FullOnly" in shop.explain("numbered", "verdict")


def test_auto_says_what_it_will_and_did_choose(shop: Lake) -> None:
    shop.create_stream_table("totals", JOINED)
    assert shop.explain("totals", "choice") == "NO_DATA, NO_CHANGES: no source changed\n"
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2)")
    foreseen = shop.explain("totals", "choice")
    assert shop.sql("EXPLAIN STREAM TABLE totals").endswith(f"== choice ==\n{foreseen}")
    report = refreshed(shop, "totals", "DIFFERENTIAL", "FULL")
    assert foreseen == f"{report.effective_mode}, {report.reason}\n"
    assert report.asked_mode == "AUTO"
    code = report.reason.split(":")[0]
    assert code in ("CHEAPER", "QUICK", "REMEASURE", "FULL_UNMEASURED")
    assert " s " in report.reason, "the seconds that were expected"


@pytest.fixture
def small_files(tmp_path, spark) -> Iterator[Lake]:
    """A lake that keeps nothing in the catalog, so that every change is a file."""
    settings = Settings(inline_row_limit=0, inline_delete_limit=0)
    with spark_trickle.connect(tmp_path / "files", spark=spark, settings=settings) as opened:
        yield opened


def test_the_same_with_files_instead_of_inlined_rows(small_files: Lake) -> None:
    lake = small_files
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("INSERT INTO t VALUES (1, 1), (1, 1), (2, 5), (NULL, 3)")
    lake.create_stream_table("plain", "SELECT g, v FROM t", refresh_mode="DIFFERENTIAL")
    lake.create_stream_table(
        "summed", "SELECT g, sum(v) AS s FROM t GROUP BY g", refresh_mode="DIFFERENTIAL"
    )
    lake.create_stream_table(
        "top", "SELECT v, g FROM t ORDER BY v DESC LIMIT 2", refresh_mode="DIFFERENTIAL"
    )
    for statement in (
        "INSERT INTO t VALUES (2, 7), (1, 1)",
        "DELETE FROM t WHERE g IS NULL",
        "UPDATE t SET v = v + 1 WHERE g = 1",
        "DELETE FROM t WHERE v = 7",
    ):
        lake.sql(statement)
        reports = lake.refresh_all()
        for report in reports:
            assert report.effective_mode in ("DIFFERENTIAL", "TOPK"), report
        assert any(report.bytes_read > 0 for report in reports), "the others find it in memory"
        assert_exact(lake, "plain", "summed", "top")
    assert rows(lake, "summed") == [(1, 6), (2, 5)]
