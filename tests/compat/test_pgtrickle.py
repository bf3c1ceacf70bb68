"""pg_trickle's functions: what their users type, and what they get."""

from __future__ import annotations

import json

import pytest

from spark_trickle import AlreadyExistsError, DependencyError, Lake, NotFoundError, UserError
from spark_trickle.compat.pgtrickle import seconds


def rows(lake: Lake, sql: str) -> list[tuple]:
    return sorted(tuple(row) for row in lake.sql(sql).collect())


@pytest.mark.spark
def test_a_life_with_pg_trickle(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (k STRING, v INT)")
    lake.sql("INSERT INTO t VALUES ('a', 1), ('b', 2)")
    create = "SELECT pgtrickle.create_stream_table"
    query = "SELECT k, sum(v)::bigint AS s FROM t GROUP BY k"
    assert rows(lake, f"{create}('Sums', $${query}$$, '1h')") == [(None,)]
    lake.sql(
        f"{create}(name => 'totals', query := 'SELECT count(*) AS n FROM sums', schedule => '@hourly')"
    )
    with pytest.raises(AlreadyExistsError):
        lake.sql(f"{create}('sums', $${query}$$)")
    lake.sql("SELECT pgtrickle.create_stream_table_if_not_exists('sums', 'SELECT 1 AS one')")
    lake.sql(
        f"SELECT pgtrickle.create_or_replace_stream_table('sums', $${query}$$, schedule => '2h')"
    )
    write = "SELECT pgtrickle.write_and_refresh($$INSERT INTO t VALUES ('c', 3)$$, 'sums')"
    assert rows(lake, write) == [(None,)]
    assert rows(lake, "SELECT * FROM sums") == [("a", 1), ("b", 2), ("c", 3)]
    status = lake.sql(
        "SELECT name, status, schedule FROM pgtrickle.pgt_status() WHERE name = 'sums'"
    )
    assert [tuple(r) for r in status.collect()] == [("sums", "ACTIVE", "2h")]
    assert rows(lake, "SELECT pgtrickle.refresh_if_stale('totals', '1 hour')") == [(False,)]
    assert rows(lake, "SELECT pgtrickle.refresh_if_stale('totals', '0 s')") == [(True,)]
    assert rows(lake, "SELECT * FROM totals") == [(3,)]
    history = lake.sql("SELECT * FROM pgtrickle.get_refresh_history('sums', 5)").collect()
    assert [row.status for row in history] == ["COMPLETED"] * len(history)
    assert {row.action for row in history} == {"FULL", "DIFFERENTIAL"}

    lake.sql("SELECT pgtrickle.alter_stream_table('sums', status => 'SUSPENDED', query => NULL)")
    with pytest.raises(UserError, match="suspended"):
        lake.sql("SELECT pgtrickle.refresh_stream_table('sums')")
    lake.sql("SELECT pgtrickle.resume_stream_table('sums')")
    lake.sql("SELECT pgtrickle.refresh_stream_table('sums')")
    ((told,),) = lake.sql("SELECT pgtrickle.repair_stream_table('sums')").collect()
    assert "3 rows" in told
    with pytest.raises(DependencyError):
        lake.sql("SELECT pgtrickle.drop_stream_table('sums')")
    lake.sql("SELECT pgtrickle.drop_stream_table('sums', cascade => true)")
    assert lake.stream_tables() == []

    wanted = json.dumps(
        [{"name": "x", "query": "SELECT k FROM t"}, {"name": "y", "query": "SELECT z FROM t"}]
    )
    with pytest.raises(UserError, match=r"definition 1 \(y\)"):
        lake.sql(f"SELECT pgtrickle.bulk_create('{wanted}'::jsonb)")
    assert lake.stream_tables() == []


@pytest.mark.spark
def test_views_of_the_state(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (k STRING, v INT)")
    assert lake.sql("SELECT status FROM pgtrickle.quick_health").collect()[0][0] == "EMPTY"
    lake.sql(
        "SELECT pgtrickle.create_stream_table('one', 'SELECT k FROM t', refresh_mode => 'IMMEDIATE')"
    )
    lake.sql(
        "SELECT pgtrickle.create_stream_table('two', 'SELECT k FROM one', initialize => false)"
    )
    tree = [
        row.tree_line for row in lake.sql("SELECT * FROM pgtrickle.dependency_tree()").collect()
    ]
    assert tree == ["t", "└── one", "    └── two"]
    sources = lake.sql(
        "SELECT source_table, source_type FROM pgtrickle.list_sources('two')"
    ).collect()
    assert [tuple(r) for r in sources] == [("one", "STREAM_TABLE")]
    plan = dict(tuple(r) for r in lake.sql("SELECT * FROM pgtrickle.explain_st('one')").collect())
    assert plan["defining_query"] == "SELECT k FROM t"
    assert "Incremental" in plan["verdict"]
    delta = lake.sql("SELECT * FROM pgtrickle.explain_delta('one')").collect()
    assert any("SELECT" in row[0] for row in delta)
    assert rows(lake, "SELECT pgtrickle.get_staleness('one')") == [(0.0,)]
    assert rows(lake, "SELECT severity FROM pgtrickle.health_check() GROUP BY 1") != []
    info = "SELECT i.pgt_name FROM pgtrickle.stream_tables_info i WHERE NOT i.is_populated"
    assert rows(lake, info) == [("two",)]


def test_wrong_calls_say_what_is_wrong(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE t (k STRING)")
    call = "SELECT pgtrickle.create_stream_table"
    with pytest.raises(UserError, match="cdc_mode has no sense on a lake"):
        dry_lake.sql(f"{call}('a', 'SELECT 1', cdc_mode => 'wal')")
    with pytest.raises(UserError, match="has no parameter querry"):
        dry_lake.sql(f"{call}(name => 'a', querry => 'SELECT 1')")
    with pytest.raises(UserError, match="needs query"):
        dry_lake.sql(f"{call}('a')")
    with pytest.raises(UserError, match="given twice"):
        dry_lake.sql(f"{call}('a', 'SELECT 1', name => 'b')")
    with pytest.raises(UserError, match="initialize must be true or false"):
        dry_lake.sql(f"{call}('a', 'SELECT 1', initialize => 3)")
    with pytest.raises(UserError, match="not there: there is no fuse"):
        dry_lake.sql("SELECT pgtrickle.reset_fuse('a')")
    with pytest.raises(NotFoundError, match=r"no function pgtrickle\.nothing"):
        dry_lake.sql("SELECT * FROM pgtrickle.nothing()")
    with pytest.raises(UserError, match="a constant is needed"):
        dry_lake.sql("SELECT pgtrickle.refresh_stream_table(upper('a'))")
    with pytest.raises(NotFoundError, match="no stream table a"):
        dry_lake.sql("SELECT pgtrickle.refresh_stream_table('a')")


def test_intervals() -> None:
    cases = {"5 min": 300, "1 hour 30 minutes": 5400, "00:05:00": 300, "2d": 172800, "90": 90}
    assert {text: seconds(text) for text in cases} == cases
    with pytest.raises(UserError, match="not an interval"):
        seconds("soon")
