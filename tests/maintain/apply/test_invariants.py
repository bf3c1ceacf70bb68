"""What the contents must be is checked on every refresh; a breach stops, and is never repaired in silence."""

from __future__ import annotations

from typing import Any

import pytest

from spark_trickle import Lake
from spark_trickle.errors import InternalError, InvariantError, NotFoundError
from spark_trickle.storage.versions.transaction import Transaction
from support.lakes import leave_no_trace, modify
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark

PLAIN = "SELECT g, v FROM t WHERE v > 0"
SUMMED = "SELECT g, sum(v) AS s, count(*) AS n FROM t GROUP BY g"
FIRST = "SELECT g, v FROM t ORDER BY v LIMIT 2"


@pytest.fixture
def small(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5), (2, 5), (3, 9)")
    return lake


def damage(lake: Lake, table: str, g: int) -> None:
    """Delete the rows of one group behind the back of everybody."""
    tx = lake._catalog.begin()
    assert modify(tx, table, lambda row: row["g"] == g, None)
    tx.commit()
    leave_no_trace(lake._catalog)


@pytest.mark.parametrize("query", [PLAIN, SUMMED], ids=["plain", "summed"])
def test_a_lost_row_is_noticed_and_repaired_on_request(small: Lake, query: str) -> None:
    lake = small
    lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("d", "SELECT g FROM s", refresh_mode="DIFFERENTIAL")
    whole = rows(lake, "s")
    damage(lake, "s", 2)
    found = lake.verify("s")
    assert found
    missing = [tuple(row.values()) for row in found.rows.to_pylist()]
    lost = {(g, *rest): n for g, *rest, n in missing}
    expected = {row: whole.count(row) for row in whole if row[0] == 2}
    assert lost == expected, "the exact difference, with weights"

    lake.sql("DELETE FROM t WHERE g = 2")
    frontier, contents = lake._streams.get("s").frontier, rows(lake, "s")
    with pytest.raises(InvariantError) as caught:
        lake.refresh_stream_table("s")
    assert "repair_stream_table" in str(caught.value.hint)
    (_, seen) = lake.stream_tables()
    assert (seen.name, seen.status, seen.populated) == ("s", "ERROR", False)
    assert seen.last_error is not None
    assert seen.effective_mode == "ERROR"
    assert rows(lake, "s") == contents, "a refused refresh changes nothing"
    assert lake._streams.get("s").frontier == frontier

    for attempt in (
        lambda: lake.refresh_stream_table("s"),
        lambda: lake.sql("REFRESH STREAM TABLE s FULL"),
        lambda: lake.sql("ALTER STREAM TABLE s RESUME"),
    ):
        with pytest.raises(InvariantError, match="out of service") as caught:
            attempt()
        assert "repair_stream_table" in str(caught.value.hint)
    failed, skipped = lake.refresh_all()
    assert (failed.name, failed.effective_mode) == ("s", "ERROR")
    assert (skipped.name, skipped.effective_mode) == ("d", "SKIPPED")
    assert skipped.reason.startswith("UPSTREAM_FAILED: s")

    report = lake.repair_stream_table("s")
    assert report.reason.startswith("REPAIR:")
    assert_exact(lake, "s")
    (_, seen) = lake.stream_tables()
    assert (seen.status, seen.populated, seen.last_error) == ("ACTIVE", True, None)
    refreshed(lake, "d", "DIFFERENTIAL")
    assert_exact(lake, "d")
    lake.sql("INSERT INTO t VALUES (2, 7)")
    refreshed(lake, "s", "DIFFERENTIAL")


def test_a_row_too_many_is_found_by_verify(small: Lake) -> None:
    small.create_stream_table("s", PLAIN)
    tx = small._catalog.begin()
    plan = tx.scan("s")
    tx.insert_rows("s", plan.inlined.select(["g", "v"]).slice(0, 1))
    tx.commit()
    (row,) = small.verify("s").rows.to_pylist()
    assert row["__weight"] == -1
    assert small.repair_stream_table("s").rows_deleted == 1
    assert_exact(small, "s")


def test_damaged_state_of_a_topk_is_noticed(small: Lake) -> None:
    small.create_stream_table("s", FIRST, refresh_mode="DIFFERENTIAL")
    (reserve,) = small._streams.get("s").segments
    tx = small._catalog.begin()
    assert modify(tx, reserve.name, lambda row: row["c0"] == 1, None)
    tx.commit()
    leave_no_trace(small._catalog)
    assert not small.verify("s"), "the result itself is not damaged"
    small.sql("DELETE FROM t WHERE g = 1")
    with pytest.raises(InvariantError):
        small.refresh_stream_table("s")
    small.repair_stream_table("s")
    small.sql("INSERT INTO t VALUES (4, 0)")
    refreshed(small, "s", "TOPK")
    assert rows(small, "s") == [(2, 5), (4, 0)]


def test_a_full_refresh_heals_what_nobody_had_noticed(small: Lake) -> None:
    """FULL computes the difference to what is really stored."""
    small.create_stream_table("s", SUMMED)
    damage(small, "s", 2)
    report = small.refresh_stream_table("s", full=True)
    assert (report.rows_inserted, report.rows_deleted) == (1, 0)
    assert_exact(small, "s")


def test_a_failed_upstream_leaves_everything_as_it_was(small: Lake) -> None:
    lake = small
    lake.create_stream_table("a", SUMMED, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("b", "SELECT g, s FROM a WHERE s > 3", refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("c", "SELECT count(*) AS n FROM b", refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("other", PLAIN, refresh_mode="DIFFERENTIAL")
    before = {name: rows(lake, name) for name in "abc"}
    frontiers = {name: lake._streams.get(name).frontier for name in "bc"}
    damage(lake, "a", 2)
    before["a"] = rows(lake, "a")
    lake.sql("UPDATE t SET v = v + 1")
    reports = {report.name: report for report in lake.refresh_all()}
    assert reports["a"].effective_mode == "ERROR"
    assert reports["a"].error
    assert {reports[n].effective_mode for n in "bc"} == {"SKIPPED"}
    for name, above in {"b": "a", "c": "b"}.items():
        assert reports[name].reason.startswith(f"UPSTREAM_FAILED: {above} ")
    assert reports["other"].effective_mode == "DIFFERENTIAL", "its own branch goes on"
    assert {name: rows(lake, name) for name in "abc"} == before
    assert {name: lake._streams.get(name).frontier for name in "bc"} == frontiers
    assert lake.refresh_history("c")[0].effective_mode == "SKIPPED"
    lake.repair_stream_table("a")
    modes = {report.name: report.effective_mode for report in lake.refresh_all()}
    assert modes == {"a": "NO_DATA", "b": "DIFFERENTIAL", "c": "DIFFERENTIAL", "other": "NO_DATA"}
    assert_exact(lake, "a", "b", "c", "other")


def test_an_error_of_the_query_is_remembered_and_loses_nothing(small: Lake) -> None:
    small.create_stream_table("s", "SELECT g, 10 DIV v AS q FROM t", refresh_mode="DIFFERENTIAL")
    before = rows(small, "s")
    small.sql("INSERT INTO t VALUES (4, 0)")
    with pytest.raises(Exception, match="(?i)zero"):
        small.refresh_stream_table("s")
    (seen,) = small.stream_tables()
    assert (seen.status, seen.populated) == ("ACTIVE", True), "the contents are still good"
    assert "zero" in str(seen.last_error).lower()
    assert rows(small, "s") == before
    small.sql("DELETE FROM t WHERE v = 0")
    refreshed(small, "s", "NO_DATA", "DIFFERENTIAL")
    (seen,) = small.stream_tables()
    assert seen.last_error is None


def test_a_fault_after_the_commit_takes_nothing_back(small: Lake, monkeypatch) -> None:
    """Files that a version names are no longer the transaction's to remove."""
    from dataclasses import replace

    monkeypatch.setattr(
        small._catalog, "settings", replace(small._catalog.settings, inline_row_limit=0)
    )
    small.create_stream_table("s", PLAIN, refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (7, 7)")
    commit = Transaction.commit

    def commit_and_fail(self: Transaction, **more: Any) -> int:
        commit(self, **more)
        raise RuntimeError("the session is gone")

    monkeypatch.setattr(Transaction, "commit", commit_and_fail)
    with pytest.raises(RuntimeError, match="gone"):
        small.refresh_stream_table("s")
    monkeypatch.undo()
    assert (7, 7) in rows(small, "s")
    assert_exact(small, "s")
    refreshed(small, "s", "NO_DATA")


def test_dropped_while_it_was_refreshed(small: Lake, monkeypatch) -> None:
    """Somebody else drops the stream table between the read of its record and the commit."""
    small.create_stream_table("s", PLAIN)
    stale = small._streams.get("s")
    small.drop_stream_table("s")
    small.sql("INSERT INTO t VALUES (7, 7)")
    with pytest.raises(NotFoundError):
        small._streams._refresher.refresh(stale)


def test_settings_changed_while_it_was_refreshed(small: Lake, monkeypatch) -> None:
    """ALTER keeps a frontier that a refresh moved meanwhile: else the delta would come twice."""
    small.create_stream_table("s", PLAIN, refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (7, 7)")
    streams = small._streams
    stale = streams.get("s")
    refreshed(small, "s", "DIFFERENTIAL")
    monkeypatch.setattr(streams, "get", lambda _: stale)
    streams.alter("s", schedule="1m")
    monkeypatch.undo()
    assert small.stream_tables()[0].schedule == "1m"
    refreshed(small, "s", "NO_DATA")
    assert rows(small, "s").count((7, 7)) == 1


def test_a_query_changed_while_it_was_refreshed(small: Lake) -> None:
    """A new query is the difference to contents that have moved meanwhile: a clean conflict."""
    from dataclasses import replace

    from spark_trickle.errors import CommitConflictError
    from spark_trickle.maintain.define.altering import NEW_QUERY
    from spark_trickle.maintain.define.writing import definition_of

    small.create_stream_table("s", PLAIN, refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (7, 7)")
    streams = small._streams
    stale = streams.get("s")
    refreshed(small, "s", "DIFFERENTIAL")
    changed = replace(stale, generation=stale.generation + 1)
    wanted = definition_of(changed, query="SELECT g, v FROM t")
    with (
        pytest.raises(CommitConflictError, match="s was refreshed or changed"),
        small._catalog.begin() as tx,
    ):
        streams._definer.redefine(changed, wanted, streams.all(), NEW_QUERY, tx)
    refreshed(small, "s", "NO_DATA")


def test_a_bug_is_told_as_one_and_changes_nothing(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = small
    lake.create_stream_table("s", PLAIN, refresh_mode="DIFFERENTIAL")
    contents = rows(lake, "s")
    lake.sql("DELETE FROM t WHERE g = 2")
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "delete_rows", lambda *_: {}[()])
        with pytest.raises(InternalError) as caught:
            lake.refresh_stream_table("s")
    assert "KeyError" in str(caught.value)
    assert "Scan t" in str(caught.value), "the plan is told"
    assert lake.refresh_history("s")[0].effective_mode == "ERROR"
    assert rows(lake, "s") == contents
    refreshed(lake, "s", "DIFFERENTIAL")
