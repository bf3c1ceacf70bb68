"""A data file gone missing, a full disk: errors of ours, and nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spark_trickle import CatalogError, Settings, connect
from spark_trickle.errors import ExecutionError, NotFoundError
from spark_trickle.spark.failures import translate

pytestmark = pytest.mark.spark


def test_a_missing_file_is_named(tmp_path, spark):
    with connect(tmp_path / "m", spark=spark, settings=Settings(inline_row_limit=1)) as lake:
        lake.sql("CREATE TABLE t (id INT, v INT)")
        lake.sql("CREATE TABLE fine (id INT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        lake.sql("INSERT INTO fine VALUES (1), (2)")
        lake.sql("SELECT * FROM t").collect()
        (file,) = lake._catalog.scan("t").files
        Path(file.path).rename(tmp_path / "aside.parquet")
        name = os.path.basename(file.path)
        for work in (
            lambda: lake.sql("SELECT * FROM t WHERE id = 1"),
            lambda: lake.table("t"),
            lambda: lake.changes("t", 0),
            lambda: lake.sql("UPDATE t SET v = 0 WHERE id = 1"),
            lambda: lake.sql("DELETE FROM t WHERE id = 1"),
            lambda: lake.sql("INSERT INTO fine SELECT id FROM t"),
        ):
            with pytest.raises(CatalogError, match=name) as caught:
                work()
            assert "\tat " not in str(caught.value)
        assert lake.table("fine").count() == 2
        (tmp_path / "aside.parquet").rename(file.path)
        assert lake.table("t").count() == 3


def test_what_reads_a_version_that_expired_says_so(tmp_path, spark):
    with connect(tmp_path / "m", spark=spark, settings=Settings(inline_row_limit=1)) as lake:
        lake.sql("CREATE TABLE t (id INT, v INT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        frame = lake.table("t")
        tx = lake.transaction(isolation="REPEATABLE READ")
        lake.sql("UPDATE t SET v = 0")
        lake.compact("t")
        lake.expire(older_than=0)
        lake.remove_orphans(grace_seconds=0)
        for read in (frame.collect, lambda: tx.sql("SELECT * FROM t").collect()):
            with pytest.raises((CatalogError, NotFoundError), match="has expired") as caught:
                read()
            assert "anew" in str(caught.value.hint)
        tx.rollback()


def test_a_damaged_file_is_an_error_of_ours(tmp_path, spark):
    with connect(tmp_path / "m", spark=spark, settings=Settings(inline_row_limit=1)) as lake:
        lake.sql("CREATE TABLE t (id INT, v INT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        (file,) = lake._catalog.scan("t").files
        Path(file.path).write_bytes(b"this is not Parquet")
        with pytest.raises(CatalogError, match=os.path.basename(file.path)) as caught:
            lake.sql("UPDATE t SET v = 0 WHERE id = 1")
        assert "\tat " not in str(caught.value)
        assert caught.value.__cause__ is None


FULL_DISK = """
    import resource, sys
    from spark_trickle import Settings, StorageFullError, connect
    from spark_trickle.spark.sessions.session import start_session

    lake = connect(sys.argv[1], settings=Settings(inline_row_limit=100))
    lake.sql("CREATE TABLE t (id BIGINT, v STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'kept')")
    before = lake.version
    # No file may grow beyond this: what a full disk is to the one who writes.
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
    spark = start_session("UTC", {"spark.master": "local[2]", "spark.driver.memory": "1g"})
    wide = spark.range(100_000).selectExpr("id", "concat(uuid(), uuid(), uuid()) AS v")
    for work in (
        lambda: lake.append("t", wide),
        lambda: lake.append("t", wide.toArrow()),
        lambda: lake.sql("INSERT INTO t SELECT id, concat(uuid(), uuid()) FROM range(200000)"),
    ):
        try:
            work()
        except StorageFullError as error:
            assert "\\tat " not in str(error), error
        else:
            raise AssertionError("the write must fail")
    assert lake.version == before
    assert lake.table("t").collect() == [(1, "kept")]
    assert lake.sql("INSERT INTO t VALUES (2, 'more')") == 1
    left = [f for f in __import__("pathlib").Path(sys.argv[1]).rglob("*.parquet")]
    assert left == [], left
    print("nothing lost")
"""


def test_a_full_disk(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path / "full")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "nothing lost" in ran.stdout


def test_too_little_memory_is_told_with_a_way_out(lake):
    lake.sql("CREATE TABLE t (a STRING)")
    with pytest.raises(ExecutionError, match=r"ran out of memory: .*; nothing") as caught:
        lake.sql("INSERT INTO t SELECT raise_error('java.lang.OutOfMemoryError: Java heap space')")
    assert "spark.driver.memory" in caught.value.hint


def test_the_reason_is_told_and_not_what_spark_adds_to_its_trace():
    raw = (
        "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: aborted\n\tat x"
        "\nCaused by: java.lang.IllegalStateException: the reason\n\tat y\n\tSuppressed: org.apache.spark."
        "util.Utils$OriginalTryStackTraceException: Full stacktrace of original "
        "doTryWithCallerStacktrace caller\n\t\tat z"
    )
    assert translate(Exception(raw)).message == "the reason"
