"""The scheduler at work on a real lake: what is due is refreshed, what fails is suspended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.errors import CatalogError, NotFoundError
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.monitor import StreamTableInfo
from spark_trickle.maintain.refresh.refresher import Refresher
from spark_trickle.maintain.schedule.leases import Leases
from spark_trickle.maintain.schedule.restless import Restless
from spark_trickle.maintain.schedule.upkeep import UPKEEP
from spark_trickle.settings import Settings
from support.lakes import modify
from support.streams import assert_exact, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    settings = Settings(poll_seconds=0.1, lease_seconds=3.0)
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount BIGINT)")
        lake.sql("INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 5)")
        yield lake


TOTALS = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"


def eventually(what: Callable[[], object], seconds: float = 240.0) -> None:
    """It comes true. How soon is not measured here, where other tests may have the machine: see
    test_daemons.py."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)


def modes(reports: list[RefreshReport]) -> dict[str, str]:
    return {report.name: report.effective_mode for report in reports}


def test_what_is_due_is_refreshed_with_what_it_needs(shop: Lake) -> None:
    shop.create_stream_table("totals", TOTALS)
    shop.create_stream_table("top", "SELECT max(total) AS m FROM totals", schedule="300ms")
    shop.create_stream_table("by_hand", TOTALS)
    with shop.scheduler():
        shop.sql("INSERT INTO orders VALUES (3, 'bob', 100)")
        eventually(lambda: rows(shop, "top") == [(105,)])
        before = len(shop.refresh_history())
        time.sleep(1.0)
        assert len(shop.refresh_history()) == before, "an idle lake leaves no history"
    assert_exact(shop, "totals", "top")
    assert len(shop.refresh_history("by_hand")) == 1, "nobody needs it"
    with shop._catalog.reading() as connection:
        assert connection.execute("SELECT holder FROM trickle_lease WHERE holder IS NOT NULL") == []
        assert connection.execute("SELECT * FROM trickle_holder") == []


def test_the_pause_after_a_failure_begins_where_it_ended(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create_stream_table("ratios", "SELECT 100 / amount AS ratio FROM orders", schedule="100ms")
    spent: list[tuple[float, float]] = []
    stage = Refresher.stage

    def slow(*args: Any, **options: Any) -> Any:
        began = time.monotonic()
        try:
            time.sleep(1.5)
            return stage(*args, **options)
        finally:
            spent.append((began, time.monotonic()))

    monkeypatch.setattr(Refresher, "stage", slow)
    shop.sql("INSERT INTO orders VALUES (3, 'eve', 0)")
    with shop.scheduler():
        eventually(lambda: info(shop, "ratios").status == "SUSPENDED")
    (_, first), (again, second), (last, _) = spent
    assert again - first > 0.7, "a second, a quarter less at most"
    assert last - second > 1.4, "two seconds"


def test_failures_suspend_and_name_those_that_wait(shop: Lake) -> None:
    shop.create_stream_table(
        "ratios", "SELECT id, 100 / amount AS ratio FROM orders", schedule="100ms"
    )
    shop.create_stream_table("sums", "SELECT sum(ratio) AS s FROM ratios", schedule="100ms")
    shop.spark.conf.set("spark.sql.ansi.enabled", "true")
    shop.sql("INSERT INTO orders VALUES (3, 'eve', 0)")
    with shop.scheduler():
        eventually(lambda: info(shop, "ratios").status == "SUSPENDED")
        eventually(lambda: shop.refresh_history("sums")[0].reason.startswith("UPSTREAM_SUSPENDED"))
        time.sleep(0.5)
        failed = [r for r in shop.refresh_history("ratios") if r.effective_mode == "ERROR"]
        assert len(failed) == 3, "three failures in a row"
        pauses = [a.started_at - b.started_at for a, b in zip(failed, failed[1:], strict=False)]
        assert pauses[0] > 1.0, "the second pause is about 2 s"
        assert pauses[1] > 0.5, "the first about 1 s"
        assert "suspended after 3 failures" in str(info(shop, "ratios").last_error)
        reasons = [r.reason for r in shop.refresh_history("sums") if r.effective_mode == "SKIPPED"]
        assert reasons[0].startswith("UPSTREAM_SUSPENDED: ratios")
        assert reasons.count(reasons[0]) == 1, "said once"
        shop.sql("DELETE FROM orders WHERE id = 3")
        shop.sql("ALTER STREAM TABLE ratios RESUME")
        eventually(lambda: info(shop, "sums").effective_mode != "SKIPPED")
    assert_exact(shop, "ratios", "sums")


def info(lake: Lake, name: str) -> StreamTableInfo:
    return next(table for table in lake.stream_tables() if table.name == name)


def test_an_error_that_would_come_again_suspends_at_once(shop: Lake) -> None:
    shop.create_stream_table("all_of_it", "SELECT * FROM orders", schedule="100ms")
    with shop._catalog.begin() as tx:  # past the guard, as a foreign writer would
        tx.drop_table(tx.table("orders"))
    with shop.scheduler():
        eventually(lambda: info(shop, "all_of_it").status == "SUSPENDED")
    failed = [r for r in shop.refresh_history("all_of_it") if r.effective_mode == "ERROR"]
    assert len(failed) == 1


def test_a_query_that_reads_the_clock_is_never_idle(shop: Lake) -> None:
    """Whatever its refresh makes of it: the scheduler counts it as changed."""
    shop.create_stream_table("clock", "SELECT id FROM orders WHERE now() > '2020-01-01'")
    shop.create_stream_table("known", "SELECT id, 'now()' AS n FROM orders")
    restless = Restless(lambda s: shop._streams._explainer.compiled(s.query, s.dialect))
    assert restless(shop._streams.get("clock"))
    assert not restless(shop._streams.get("known"))


def test_select_and_wait(shop: Lake) -> None:
    shop.create_stream_table("a", TOTALS)
    shop.create_stream_table("b", "SELECT customer, total FROM a WHERE total > 1")
    shop.create_stream_table("c", "SELECT count(*) AS n FROM b")
    shop.create_stream_table("other", "SELECT count(*) AS n FROM orders")
    shop.sql("INSERT INTO orders VALUES (3, 'bob', 100)")
    with pytest.raises(NotFoundError, match="nobody"):
        shop.refresh_all(select="nobody+")
    assert [r.name for r in shop.refresh_all(select="+b")] == ["a", "b"]
    assert [r.name for r in shop.refresh_all(select="b+")] == ["b", "c"]
    assert [r.name for r in shop.refresh_all(select=["c", "other"])] == ["c", "other"]
    assert [r.name for r in shop.refresh_all(select="orders+")] == ["a", "other", "b", "c"]
    assert_exact(shop, "a", "b", "c", "other")

    other = Leases(shop._catalog)
    other.claim([shop._streams.get("b").uuid])
    shop.sql("INSERT INTO orders VALUES (4, 'cid', 100)")
    reports = {r.name: r for r in shop.refresh_all(wait=False)}
    assert {n for n, r in reports.items() if r.effective_mode == "SKIPPED"} == {"b", "c"}
    assert not any(r.failed for r in reports.values())
    assert reports["b"].reason.startswith("BUSY:")
    assert reports["c"].reason.startswith("UPSTREAM_BUSY: b")
    other.leave()
    assert modes(shop.refresh_all())["c"] != "SKIPPED"


def test_one_look_refreshes_what_is_due_and_ends(shop: Lake) -> None:
    shop.create_stream_table("totals", TOTALS, schedule="10ms", refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("later", TOTALS, schedule="1h")
    assert shop.scheduler().once() == []
    shop.sql("INSERT INTO orders VALUES (3, 'bob', 100)")
    assert modes(shop.scheduler().once()) == {"totals": "DIFFERENTIAL"}
    assert shop.scheduler().once() == []


def test_a_record_that_is_out_of_date_is_no_breach(shop: Lake) -> None:
    """Loaded, then refreshed by somebody else, then used: the contents are newer than it says."""
    shop.create_stream_table("totals", TOTALS, refresh_mode="DIFFERENTIAL")
    late = shop._streams.get("totals")
    shop.sql("INSERT INTO orders VALUES (3, 'bob', 100)")
    shop.refresh_stream_table("totals")
    shop.sql("DELETE FROM orders WHERE id = 3")
    assert shop._streams._refresher.refresh(late).effective_mode == "DIFFERENTIAL"
    assert_exact(shop, "totals")
    assert info(shop, "totals").status == "ACTIVE"


def test_upkeep_that_fails_gives_its_lease_back(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create_stream_table("totals", TOTALS)
    scheduler = shop.scheduler()

    def fail(_: object) -> dict[str, int]:
        raise CatalogError("no room")

    monkeypatch.setattr(scheduler._upkeep, "run", fail)
    with scheduler._leases.beating():
        scheduler._keep_up(scheduler._lookout.look())
        other = Leases(shop._catalog)
        assert other.claim([UPKEEP]) == {UPKEEP}
        other.release(UPKEEP)


def test_what_commits_fold_into_is_verified_now_and_then(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = shop._streams.verify
    for name in ("right", "wrong"):
        shop.create_stream_table(name, TOTALS, refresh_mode="IMMEDIATE")
    extremum = "SELECT max(amount) AS m FROM orders"
    shop.create_stream_table("anew", extremum, refresh_mode="IMMEDIATE")
    shop.sql("INSERT INTO orders VALUES (4, 'cid', 5)")
    upkeep = shop.scheduler()._upkeep
    streams = shop._streams.all()
    assert upkeep._to_reconcile(streams) == [], "a whole interval after it was first seen"
    for uuid in upkeep._reconciled:
        upkeep._reconciled[uuid] -= 2 * shop._engine.settings.reconcile_seconds
    due = upkeep._to_reconcile(streams)
    assert [stream.name for stream in due] == ["anew", "right", "wrong"]
    assert upkeep._to_reconcile(streams) == []
    tx = shop._catalog.begin()
    assert modify(tx, "wrong", lambda row: row["customer"] == "cid", None)
    tx.commit()
    verified = []
    monkeypatch.setattr(
        shop._streams, "verify", lambda name: (verified.append(name), verify(name))[1]
    )
    assert [upkeep.reconcile(stream) for stream in streams] == [True, True, False]
    assert verified == ["right", "wrong"], "the other one is computed anew, not folded"
    statuses = {stream.name: stream.status for stream in shop.stream_tables()}
    assert statuses == {"anew": "ACTIVE", "right": "ACTIVE", "wrong": "ERROR"}
    assert "rows differ" in str(shop._streams.get("wrong").last_error)
