"""Traps around the algebra (part B): versions, history, crashes' cousins, schema changes, cost.

Each test is named after its trap. B6 has more in test_crash.py, B11 in test_strategy.py.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

from spark_trickle import Lake
from spark_trickle.errors import SourceChangedError
from spark_trickle.maintain.records.history import add_history
from spark_trickle.maintain.refresh import filling
from spark_trickle.maintain.refresh.compute import Computation
from spark_trickle.storage.upkeep import maintenance
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark

SUMMED = "SELECT g, sum(v) AS s, count(*) AS n FROM t GROUP BY g"


@pytest.fixture
def small(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5)")
    return lake


def summed(lake: Lake, name: str = "s", mode: str = "DIFFERENTIAL") -> None:
    lake.create_stream_table(name, SUMMED, refresh_mode=mode)


def expire_all(lake: Lake) -> int:
    """Forget all old versions, whoever needs them: as another tool might do."""
    return maintenance.expire(lake._catalog, older_than=0.0)


@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "FULL"])
def test_b1_versions_are_pinned_before_anything_is_read(
    small: Lake, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Rows that others commit while a refresh computes are neither missed nor counted twice."""
    summed(small, mode=mode)
    small.sql("INSERT INTO t VALUES (1, 10)")
    where, method = (
        (Computation, "differential") if mode == "DIFFERENTIAL" else (filling, "by_text")
    )
    compute = getattr(where, method)

    def with_a_writer(*given: Any) -> Any:
        small.sql("INSERT INTO t VALUES (1, 100)")
        found = compute(*given)
        small.sql("DELETE FROM t WHERE v = 2")
        return found

    pinned = small.version
    monkeypatch.setattr(where, method, with_a_writer)
    report = small.refresh_stream_table("s")
    monkeypatch.undo()
    assert report.sources["t"][1] == pinned
    assert rows(small, "s") == [(1, 13, 3), (2, 5, 1)]
    assert_exact(small, "s")
    assert refreshed(small, "s", mode).delta_rows == {"t": 2}
    assert rows(small, "s") == [(1, 111, 3), (2, 5, 1)]


def test_b2_the_slowest_consumer_keeps_its_changes(small: Lake) -> None:
    summed(small, "quick")
    summed(small, "slow")
    small.alter_stream_table("slow", status="SUSPENDED")
    for value in (10, 20, 30):
        small.sql(f"INSERT INTO t VALUES (2, {value})")
        small.sql(f"DELETE FROM t WHERE v = {value - 10}")
        refreshed(small, "quick", "DIFFERENTIAL")
        with pytest.warns(UserWarning, match="slow"):
            small.expire(older_than=0.0)
        small.remove_orphans(grace_seconds=0.0)
    needed = small._streams.get("slow").frontier["t"]
    assert min(need.version for need in small._streams.needed()) == needed
    assert small._catalog.oldest_version() == needed
    small.alter_stream_table("slow", status="ACTIVE")
    refreshed(small, "slow", "DIFFERENTIAL")
    assert rows(small, "slow") == rows(small, "quick")
    small.expire(older_than=0.0)
    assert small._catalog.oldest_version() > needed, "nobody needs them any more"
    assert_exact(small, "quick", "slow")
    small.expire(keep_from=1, older_than=0.0)
    assert all(small._catalog.oldest_version() <= n.version for n in small._streams.needed())


def test_expiry_can_be_told_to_leave_suspended_tables_behind(small: Lake) -> None:
    summed(small, "slow")
    small.create_stream_table("over", "SELECT s FROM slow")
    small.create_stream_table("then", f"SELECT * FROM t VERSION AS OF {small.version}")
    named = small.version - 1
    small.sql("INSERT INTO t VALUES (2, 20)")
    small.refresh_all()
    small.alter_stream_table("slow", status="SUSPENDED")
    small.sql("INSERT INTO t VALUES (2, 30)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is not the suspended one that holds versions back
        assert small.expire(older_than=0.0) == named
    small.refresh_stream_table("then", full=True)
    small.drop_stream_table("then")
    with pytest.warns(UserWarning, match=r"over, slow.*ignore_suspended=True"):
        assert small.expire(older_than=0.0) < small.version
    assert small.expire(older_than=0.0, ignore_suspended=True) == small.version
    small.alter_stream_table("slow", status="ACTIVE")
    with pytest.raises(SourceChangedError, match="expired") as caught:
        small.refresh_stream_table("slow")
    assert "repair_stream_table" in str(caught.value.hint)
    small.repair_stream_table("slow")
    refreshed(small, "over", "FULL")
    assert rows(small, "over") == [(3,), (55,)]


def test_b3_a_transaction_that_commits_late_is_not_skipped(small: Lake) -> None:
    """Order is that of commits: what began before a refresh and ends after it comes next time."""
    summed(small)
    late = small.transaction()
    late.sql("INSERT INTO t VALUES (7, 70)")
    small.sql("INSERT INTO t VALUES (8, 80)")
    refreshed(small, "s", "DIFFERENTIAL")
    assert rows(small, "s") == [(1, 3, 2), (2, 5, 1), (8, 80, 1)]
    late.sql("INSERT INTO t VALUES (7, 1)")
    late.commit()
    report = refreshed(small, "s", "DIFFERENTIAL")
    assert report.delta_rows == {"t": 2}
    assert (7, 71, 2) in rows(small, "s")


def test_b4_the_effective_mode_is_what_ran(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    for where, method, mode in (
        (Computation, "full", "full"),
        (filling, "by_text", "full"),
        (Computation, "differential", "differential"),
    ):
        work = getattr(where, method)
        monkeypatch.setattr(
            where, method, lambda *given, m=mode, w=work: (ran.append(m), w(*given))[1]
        )
    summed(small, "strict")
    summed(small, "always", mode="FULL")
    summed(small, "auto", mode="AUTO")
    ran.clear()
    for step in range(3):
        small.sql(f"INSERT INTO t VALUES (1, {step})")
        for name in ("strict", "always", "auto"):
            ran.clear()
            report = refreshed(small, name, "FULL", "DIFFERENTIAL")
            assert [report.effective_mode.lower()] == ran
            assert small.refresh_history(name)[0].effective_mode == report.effective_mode
    assert {r.effective_mode for r in small.refresh_history("strict")[:3]} == {"DIFFERENTIAL"}
    assert {r.effective_mode for r in small.refresh_history("always")[:3]} == {"FULL"}


def test_b5_a_full_refresh_publishes_the_net_change(small: Lake) -> None:
    summed(small, "up", mode="FULL")
    small.create_stream_table(
        "down", "SELECT g, s FROM up WHERE s > 4", refresh_mode="DIFFERENTIAL"
    )
    small.sql("INSERT INTO t VALUES (1, 4), (3, 1)")
    report = refreshed(small, "up", "FULL")
    assert (report.rows_inserted, report.rows_deleted) == (2, 1), "group 2 is not written again"
    report = refreshed(small, "down", "DIFFERENTIAL")
    assert report.delta_rows == {"up": 3}
    assert rows(small, "down") == [(1, 7), (2, 5)]
    small.refresh_stream_table("up", full=True)
    refreshed(small, "down", "NO_DATA")


def test_b6_a_refresh_tried_again_applies_nothing_twice(small: Lake) -> None:
    """The commit fails when the frontier is not the one the delta was computed from."""
    summed(small)
    small.sql("INSERT INTO t VALUES (1, 10)")
    stale = small._streams.get("s")
    refreshed(small, "s", "DIFFERENTIAL")
    report = small._streams._refresher.refresh(stale)
    assert report.effective_mode == "NO_DATA", "the loser looks again and finds nothing to do"
    assert rows(small, "s") == [(1, 13, 3), (2, 5, 1)]


def test_b7_history_that_is_gone_is_noticed(small: Lake) -> None:
    summed(small, "strict")
    summed(small, "auto", mode="AUTO")
    small.sql("INSERT INTO t VALUES (1, 10)")
    small.sql("DELETE FROM t WHERE v = 5")
    expire_all(small)
    assert [info.name for info in small.stream_tables()] == ["auto", "strict"], (
        "listing still works"
    )
    report = refreshed(small, "auto", "FULL")
    assert report.reason.startswith("HISTORY_EXPIRED:")
    before = rows(small, "strict")
    with pytest.raises(SourceChangedError, match="strict") as caught:
        small.refresh_stream_table("strict")
    assert "repair_stream_table" in str(caught.value.hint)
    assert rows(small, "strict") == before
    small.repair_stream_table("strict")
    assert_exact(small, "strict")
    small.sql("INSERT INTO t VALUES (1, 1)")
    refreshed(small, "strict", "DIFFERENTIAL")
    refreshed(small, "auto", "DIFFERENTIAL", "FULL")


def test_b7_a_topk_too(small: Lake) -> None:
    small.create_stream_table("top", "SELECT g, v FROM t ORDER BY v DESC LIMIT 1")
    small.sql("INSERT INTO t VALUES (9, 9)")
    small.sql("INSERT INTO t VALUES (9, 8)")
    expire_all(small)
    assert refreshed(small, "top", "FULL").reason.startswith("HISTORY_EXPIRED:")
    assert rows(small, "top") == [(9, 9)]


def test_b8_compaction_changes_nothing(small: Lake) -> None:
    summed(small)
    small.create_stream_table("d", "SELECT s FROM s", refresh_mode="DIFFERENTIAL")
    small.sql("DELETE FROM t WHERE v = 1")
    for report in small.refresh_all():
        assert report.effective_mode == "DIFFERENTIAL"
    small.compact()
    for report in small.refresh_all():
        assert (report.effective_mode, report.spark_queries) == ("NO_DATA", 0), report
    small.sql("INSERT INTO t VALUES (2, 1)")
    small.compact()
    for report in small.refresh_all():
        assert report.effective_mode == "DIFFERENTIAL"
    assert_exact(small, "s", "d")


def test_b9_a_column_that_is_added_is_ignored(small: Lake) -> None:
    summed(small)
    small.create_stream_table("named", "SELECT v, g FROM t", refresh_mode="DIFFERENTIAL")
    small.sql("ALTER TABLE t ADD COLUMN note STRING")
    for name in ("s", "named"):
        refreshed(small, name, "NO_DATA")
    small.sql("INSERT INTO t VALUES (3, 3, 'x')")
    small.sql("UPDATE t SET note = 'y' WHERE g = 1")
    for name in ("s", "named"):
        refreshed(small, name, "DIFFERENTIAL")
    small.sql("ALTER TABLE t RENAME COLUMN note TO remark")
    small.sql("ALTER TABLE t DROP COLUMN remark")
    small.sql("DELETE FROM t WHERE g = 1")
    for name in ("s", "named"):
        refreshed(small, name, "DIFFERENTIAL")


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM t", "SELECT *, row_number() OVER (ORDER BY v, g) AS n FROM t"],
    ids=["incremental", "full only"],
)
def test_b9_a_column_that_is_added_under_select_star(small: Lake, query: str) -> None:
    small.create_stream_table("everything", query)
    columns = small.table("everything").columns
    small.sql("ALTER TABLE t ADD COLUMN note STRING")
    small.sql("INSERT INTO t VALUES (3, 3, 'x')")
    refreshed(small, "everything", "DIFFERENTIAL", "FULL")
    small.repair_stream_table("everything")
    assert_exact(small, "everything")
    assert small.table("everything").columns == columns
    assert {row[:2] for row in rows(small, "everything")} == {(1, 1), (1, 2), (2, 5), (3, 3)}
    small.sql(f"ALTER STREAM TABLE everything AS {query}")
    assert small.table("everything").columns[:3] == ["g", "v", "note"]
    small.sql("DELETE FROM t WHERE g = 3")
    refreshed(small, "everything", "DIFFERENTIAL", "FULL")


def test_b9_a_used_column_that_another_tool_dropped(small: Lake) -> None:
    summed(small)
    with small._catalog.begin() as tx:
        tx.drop_column("t", "v")
    assert [seen.name for seen in small.stream_tables()] == ["s"]
    with pytest.raises(SourceChangedError, match=r"stream table s\b.*\bv\b") as caught:
        small.refresh_stream_table("s")
    assert "ALTER STREAM TABLE s AS" in str(caught.value.hint)
    assert rows(small, "s") == [(1, 3, 2), (2, 5, 1)]
    small.sql("ALTER STREAM TABLE s AS SELECT g, count(*) AS n FROM t GROUP BY g")
    assert rows(small, "s") == [(1, 2), (2, 1)]


def test_b9_a_source_that_another_tool_dropped_or_replaced(small: Lake) -> None:
    summed(small)
    small.sql("CREATE TABLE other AS SELECT * FROM t")
    with small._catalog.begin() as tx:
        tx.drop_table("t")
    assert [seen.name for seen in small.stream_tables()] == ["s"]
    with pytest.raises(SourceChangedError, match="t, which stream table s reads, is gone"):
        small.refresh_stream_table("s")
    with small._catalog.begin() as tx:
        tx.rename_table("other", "t")
    with pytest.raises(SourceChangedError, match="stream table s was made over") as caught:
        small.refresh_stream_table("s")
    assert "repair_stream_table" in str(caught.value.hint)
    small.repair_stream_table("s")
    small.sql("INSERT INTO t VALUES (7, 7)")
    refreshed(small, "s", "DIFFERENTIAL")


def test_b10_both_arms_of_a_diamond_are_read_at_one_version(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer who commits between the arms must not be seen by one of them only."""
    small.create_stream_table(
        "low", "SELECT count(*) AS n FROM t WHERE v < 50", refresh_mode="DIFFERENTIAL"
    )
    small.create_stream_table(
        "all_of_it", "SELECT count(*) AS n FROM t", refresh_mode="DIFFERENTIAL"
    )
    small.create_stream_table(
        "both",
        "SELECT l.n AS low, a.n AS every FROM low l CROSS JOIN all_of_it a",
        refresh_mode="DIFFERENTIAL",
    )
    small.create_stream_table(
        "beside",
        "SELECT b.every, count(t.g) AS n FROM both b CROSS JOIN t GROUP BY b.every",
        refresh_mode="DIFFERENTIAL",
    )
    work = Computation.differential

    def with_a_writer(self: Computation) -> None:
        work(self)
        small.sql("INSERT INTO t VALUES (5, 5)")

    for _ in range(2):
        small.sql("INSERT INTO t VALUES (4, 4)")
        target = small.version
        monkeypatch.setattr(Computation, "differential", with_a_writer)
        reports = {report.name: report for report in small.refresh_all()}
        monkeypatch.undo()
        assert {r.effective_mode for r in reports.values()} == {"DIFFERENTIAL"}, reports
        assert {reports[n].sources["t"][1] for n in ("low", "all_of_it", "beside")} == {target}
        ((low, every),) = rows(small, "both")
        assert low == every, "both arms saw the same rows"
        assert rows(small, "beside") == [(every, every)]
        assert_exact(small, "low", "all_of_it", "both", "beside")


def test_b11_measurements_survive_many_idle_refreshes(small: Lake) -> None:
    summed(small, mode="AUTO")
    uuid = small._streams.get("s").uuid
    small.sql("INSERT INTO t VALUES (1, 1)")
    refreshed(small, "s", "DIFFERENTIAL", "FULL")
    idle = replace(small.refresh_history("s")[0], effective_mode="NO_DATA")
    with small._catalog.writing() as connection:
        for step in range(200):
            later = replace(idle, started_at=idle.started_at + step)
            add_history(connection, uuid, later, keep=100)
    small.sql("INSERT INTO t VALUES (1, 1)")
    report = refreshed(small, "s", "DIFFERENTIAL", "FULL")
    assert not report.reason.startswith("FULL_UNMEASURED"), "the first fill is still remembered"
