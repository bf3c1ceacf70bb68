"""FAST_PATH: commits fold their changes into stored groups; exact, without conflicts and without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import CommitConflictError, ExecutionError, Lake, Settings, UnsupportedQueryError
from spark_trickle.errors import InvariantError
from spark_trickle.storage.records import TableName

pytestmark = pytest.mark.spark

QUERIES = {
    "totals": "SELECT k, count(*) AS c, sum(d) AS s, avg(d) AS a, avg(n) AS m FROM t GROUP BY k",
    "all_rows": "SELECT count(*) AS c, sum(n) AS s FROM t WHERE n > 0",
    "large": "SELECT k, sum(d) AS s FROM t GROUP BY k HAVING sum(d) > 3",
    "sums": "SELECT sum(n) AS s FROM t GROUP BY k",
    "over": "SELECT c, count(*) AS groups FROM totals GROUP BY c",
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Iterator[Lake]:
    """One lake for all tests, which leave it as they like."""
    with spark_trickle.connect(tmp_path_factory.mktemp("kept"), spark=spark) as lake:
        lake.sql("CREATE TABLE t (id INT, k STRING, n INT, d DECIMAL(9,2))")
        lake.sql("INSERT INTO t VALUES (1, 'a', 1, 1.50), (2, 'b', 2, 2.25), (3, NULL, NULL, NULL)")
        for name, query in QUERIES.items():
            lake.create_stream_table(name, query, refresh_mode="IMMEDIATE")
        yield lake


def rows(lake: Lake, text: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in lake.sql(text).collect())


def check(lake: Lake) -> None:
    for name, query in QUERIES.items():
        assert rows(lake, f"SELECT * FROM {name}") == rows(lake, query), name
        assert lake.refresh_history(name)[0].effective_mode == "FAST_PATH", name


def test_many_changes_are_for_spark(kept: Lake) -> None:
    kept.sql("INSERT INTO t SELECT id, CAST(id % 3 AS STRING), 1, 1 FROM range(100001)")
    newest = kept.refresh_history("totals")[0]
    assert (newest.effective_mode, newest.reason[:13]) == ("IMMEDIATE", "MANY_CHANGES:")
    for name, query in QUERIES.items():
        assert rows(kept, f"SELECT * FROM {name}") == rows(kept, query), name
    kept.sql("DELETE FROM t WHERE id >= 100")
    kept.sql("DELETE FROM t WHERE id < 50")
    check(kept)


def test_every_kind_of_change(kept: Lake) -> None:
    for statement in (
        "INSERT INTO t VALUES (4, 'a', 5, 2.00), (5, 'c', -1, 0.01)",
        "UPDATE t SET d = d + 1, k = 'b' WHERE id IN (1, 3)",
        "DELETE FROM t WHERE k = 'a'",
        "MERGE INTO t USING (SELECT 2 AS id) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET n = 9",
        "TRUNCATE TABLE t",
        "INSERT INTO t SELECT id, CAST(id % 3 AS STRING), 1, 1 FROM range(5000)",
    ):
        kept.sql(statement)
        check(kept)
    report = kept.refresh_history("totals")[0]
    assert (report.spark_queries, report.delta_rows) == (0, {"t": 5000})
    assert report.version == kept.version == report.sources["t"][1]
    assert not kept.verify("totals")


def test_groups_that_compaction_carried_are_folded_into(kept: Lake) -> None:
    """No row changed, but every row is in another place than the commit before left it."""
    kept.sql("INSERT INTO t VALUES (70, 'a', 5, 2.00)")
    kept.compact()
    kept.sql("INSERT INTO t VALUES (71, 'a', 5, 2.00)")
    check(kept)
    assert not kept.verify("totals")


def test_groups_that_one_commit_puts_into_a_file_are_folded_into(kept: Lake) -> None:
    kept.sql("INSERT INTO t SELECT id, CAST(id AS STRING), 1, 1 FROM range(1000, 3500)")
    check(kept)
    kept.sql("UPDATE t SET n = 2 WHERE id BETWEEN 2000 AND 2005")
    check(kept)
    kept.sql("DELETE FROM t WHERE id >= 1000")
    check(kept)
    assert not kept.verify("totals")


def test_a_transaction_reads_and_commits_what_it_wrote(kept: Lake) -> None:
    with kept.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (9, 'z', 1, 7)")
        assert tx.sql("SELECT s FROM large WHERE k = 'z'").collect()[0].s == 7
        kept.sql("INSERT INTO t VALUES (10, 'z', 1, 5)")  # the other writer is not in the way
    check(kept)
    tx = kept.transaction()
    tx.sql("INSERT INTO t VALUES (11, 'z', 1, 7)")
    tx.rollback()
    assert rows(kept, "SELECT c FROM totals WHERE k = 'z'") == {(2,): 1}


def test_an_error_of_the_query_refuses_the_write(kept: Lake) -> None:
    kept.create_stream_table("more", "SELECT sum(n + 1) AS s FROM t", refresh_mode="IMMEDIATE")
    before, there = kept.version, rows(kept, "SELECT * FROM t")
    with pytest.raises(ExecutionError, match="more cannot follow the change.*ARITHMETIC_OVERFLOW"):
        kept.sql("INSERT INTO t VALUES (5, 'a', 2147483647, 1)")
    assert kept.version == before
    assert rows(kept, "SELECT * FROM t") == there
    kept.drop_stream_table("more")


def test_a_state_that_cannot_be_takes_the_table_out_of_service(kept: Lake) -> None:
    kept.sql("INSERT INTO t VALUES (4, 'a', 2, 1)")
    stream = kept._streams.get("all_rows")
    tx = kept._catalog.begin()
    tx.truncate(TableName.of(stream.segments[0].name))
    tx.participants = ()
    tx.commit()
    with pytest.raises(InvariantError, match="all_rows"):
        kept.sql("INSERT INTO t VALUES (5, 'a', 2, 1)")
    assert {s.name: s.status for s in kept.stream_tables()}["all_rows"] == "ERROR"
    kept.repair_stream_table("all_rows")
    kept.sql("INSERT INTO t VALUES (5, 'a', 2, 1)")
    check(kept)


@pytest.mark.parametrize("level", spark_trickle.transaction.LEVELS)
def test_who_deletes_a_row_too_late_is_told_of_the_conflict(kept: Lake, level: str) -> None:
    kept.sql("INSERT INTO t VALUES (6, 'alone', 2, 1)")
    one, two = kept.transaction(level), kept.transaction(level)
    for tx in (one, two):
        tx.sql("DELETE FROM t WHERE id = 6")
    one.commit()
    with pytest.raises(CommitConflictError, match="table t lost rows"):
        two.commit()
    assert {s.status for s in kept.stream_tables()} == {"ACTIVE"}
    check(kept)


def test_deferred_tables_are_folded_on_request(kept: Lake) -> None:
    query = "SELECT k, count(*) AS c FROM t GROUP BY k"
    kept.create_stream_table("later", query)
    kept.sql("INSERT INTO t VALUES (5, 'a', 2, 1)")
    info = {s.name: s for s in kept.stream_tables()}
    assert info["later"].effective_mode == "FULL"
    assert not info["later"].fast_path
    assert "NOT_ASKED" in info["later"].fast_path_reason
    kept.sql("ALTER STREAM TABLE later SET (fast_path = true)")
    kept.sql("INSERT INTO t VALUES (6, 'a', 2, 1)")
    assert kept.refresh_history("later")[0].effective_mode == "FULL"  # it was behind
    info = {s.name: s for s in kept.stream_tables()}
    assert (info["later"].fast_path, info["later"].fast_path_reason[:6]) == (False, "BEHIND")
    kept.refresh_stream_table("later")
    kept.sql("INSERT INTO t VALUES (7, 'q', 2, 1)")
    assert kept.refresh_history("later")[0].effective_mode == "FAST_PATH"
    assert rows(kept, "SELECT * FROM later") == rows(kept, query)
    assert kept.refresh_stream_table("later").effective_mode == "NO_DATA"
    (row,) = kept.sql("SELECT * FROM trickle.stream_tables WHERE name = 'later'").collect()
    assert row.fast_path
    assert "add to __rows: 1" in row.fast_path_plan
    kept.alter_stream_table("later", fast_path=False)
    kept.sql("INSERT INTO t VALUES (8, 'q', 2, 1)")
    assert kept.refresh_history("later")[0].effective_mode == "NO_DATA"
    kept.drop_stream_table("later")


def test_what_cannot_be_folded_is_refused_or_kept_otherwise(kept: Lake) -> None:
    with pytest.raises(UnsupportedQueryError, match="min and max"):
        kept.create_stream_table("low", "SELECT k, min(n) AS m FROM t GROUP BY k", fast_path=True)
    kept.create_stream_table(
        "low", "SELECT k, min(n) AS m FROM t GROUP BY k", refresh_mode="IMMEDIATE"
    )
    kept.sql("INSERT INTO t VALUES (8, 'a', -5, 1)")
    assert kept.refresh_history("low")[0].effective_mode == "IMMEDIATE"
    info = {s.name: s for s in kept.stream_tables()}["low"]
    assert (info.fast_path, info.fast_path_reason[:7]) == (False, "MIN_MAX")
    assert "no, MIN_MAX: min and max" in kept.explain("low", "fast_path")
    assert kept.explain("totals", "fast_path").startswith("yes\nsource: t (k, n, d)")
    kept.drop_stream_table("low")
    check(kept)


def test_too_many_groups_take_the_ordinary_path_and_say_so(tmp_path: Path, spark: object) -> None:
    with spark_trickle.connect(
        tmp_path / "lake", spark=spark, settings=Settings(fast_path_bytes=20_000)
    ) as lake:
        lake.sql("CREATE TABLE t (id INT, k STRING)")
        lake.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id AS STRING) FROM range(50)")
        query = "SELECT k, count(*) AS c FROM t GROUP BY k"
        lake.create_stream_table("s", query, refresh_mode="IMMEDIATE")
        lake.sql("INSERT INTO t VALUES (1, '1')")
        report = lake.refresh_history("s")[0]
        assert report.effective_mode == "IMMEDIATE"
        assert report.reason.startswith("CARDINALITY: 50 groups")
        assert rows(lake, "SELECT * FROM s") == rows(lake, query)
        settings = Settings(fast_path_bytes=20_000)
        with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as other:
            for each in (lake, other):  # whoever committed
                (info,) = each.stream_tables()
                assert (info.fast_path, info.fast_path_reason[:11]) == (False, "CARDINALITY")


def test_one_that_a_slower_one_reads_is_kept_like_it_and_says_so(kept: Lake) -> None:
    kept.create_stream_table("asked", "SELECT count(*) AS c FROM totals", fast_path=True)
    join = "SELECT large.k, c FROM large JOIN asked ON large.s > asked.c"
    kept.create_stream_table("joined", join, refresh_mode="IMMEDIATE")
    try:
        kept.sql("INSERT INTO t VALUES (4, 'a', 2, 100)")
        newest = kept.refresh_history("large")[0]
        assert (newest.effective_mode, newest.reason[:13]) == ("IMMEDIATE", "SLOWER_READER")
        infos = {info.name: info for info in kept.stream_tables()}
        for name in ("large", "asked"):
            assert not infos[name].fast_path
            assert "joined reads it" in infos[name].fast_path_reason
        assert infos["totals"].fast_path
        kept.sql("ALTER STREAM TABLE joined SUSPEND")
        infos = {info.name: info for info in kept.stream_tables()}
        assert infos["large"].fast_path
    finally:
        kept.drop_stream_table("joined")
        kept.drop_stream_table("asked")
    kept.sql("INSERT INTO t VALUES (4, 'a', 2, 100)")
    check(kept)


def test_a_suspended_one_is_not_folded_into(kept: Lake) -> None:
    kept.sql("ALTER STREAM TABLE large SUSPEND")
    (info,) = (info for info in kept.stream_tables() if info.name == "large")
    assert (info.fast_path, info.fast_path_reason[:9]) == (False, "SUSPENDED")
    kept.sql("ALTER STREAM TABLE large RESUME")
    kept.sql("INSERT INTO t VALUES (4, 'a', 2, 100)")
    check(kept)


def test_rows_that_a_filter_of_an_aggregate_leaves_out_cannot_fail(kept: Lake) -> None:
    query = (
        "SELECT k, count(n DIV id) FILTER (WHERE id <> 0) AS c, "
        "bool_or(d / id > 3) FILTER (WHERE id <> 0) AS a FROM t GROUP BY k"
    )
    kept.create_stream_table("parts", query, refresh_mode="IMMEDIATE")
    kept.sql("INSERT INTO t VALUES (0, 'a', 2, 1), (0, 'b', 2, NULL)")
    assert kept.refresh_history("parts")[0].effective_mode == "FAST_PATH"
    assert rows(kept, "SELECT * FROM parts") == rows(kept, query)
    kept.drop_stream_table("parts")
    kept.sql("DELETE FROM t WHERE id = 0")


WRITER = """
import sys, spark_trickle
lake = spark_trickle.connect(sys.argv[1], create=False)
for number in range(100):
    lake.sql(f"INSERT INTO t VALUES ({sys.argv[2]}, {number}, {number % 3})")
assert "pyspark" not in sys.modules
"""


@pytest.mark.parametrize("groups", [1, 3])
def test_four_processes_never_conflict_and_lose_nothing(
    tmp_path: Path, spark: object, groups: int
) -> None:
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (w INT, n INT, k INT)")
        lake.create_stream_table(
            "s",
            f"SELECT k % {groups} AS g, count(*) AS c, sum(n) AS s FROM t GROUP BY k % {groups}",
            refresh_mode="IMMEDIATE",
        )
        settings = {**os.environ, "JAVA_HOME": "/nowhere", "PATH": ""}
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path / "lake"), str(number)],
                stderr=subprocess.PIPE,
                text=True,
                env=settings,
            )
            for number in range(4)
        ]
        for writer in writers:
            assert writer.wait(300) == 0, writer.stderr and writer.stderr.read()
        expected = Counter(
            {
                (g, 4 * len(ns), 4 * sum(ns)): 1
                for g in range(groups)
                for ns in [[n for n in range(100) if n % 3 % groups == g]]
            }
        )
        assert rows(lake, "SELECT * FROM s") == expected
        history = lake.refresh_history("s")
        assert [r.effective_mode for r in history[:400]] == ["FAST_PATH"] * 400


WITHOUT_JAVA = """
import builtins, json, sys
real = builtins.__import__
def no_pyspark(name, *args, **kwargs):
    if name.partition(".")[0] in ("pyspark", "py4j"):
        raise ImportError(f"{name} is not there")
    return real(name, *args, **kwargs)
builtins.__import__ = no_pyspark
import spark_trickle
with spark_trickle.connect(sys.argv[1]) as lake:
    lake.sql("INSERT INTO t VALUES (5, 'a', 2, 1.5)")
    lake.append("t", [{"id": 6, "k": "b", "n": 1, "d": None}])
    with lake.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (7, 'a', 2, 1.5), (8, 'c', 3, 1)")
    history = lake.refresh_history("totals")
    print(json.dumps([[r.effective_mode, r.rows_inserted] for r in history[:3]]))
    assert all(table.fast_path for table in lake.stream_tables())
"""


def test_a_process_without_java_and_pyspark_writes_and_reads_history(kept: Lake) -> None:
    folder = str(Path(kept._catalog.database.name).parent)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAVA, folder],
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_HOME": "/nowhere", "PATH": ""},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["FAST_PATH", 2], ["FAST_PATH", 1], ["FAST_PATH", 1]]
    check(kept)
