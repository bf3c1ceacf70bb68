"""Ctrl-C in a process of its own; run by test_interrupts.py: interrupted.py FOLDER classic|connect."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spark_trickle

SLOW = "SELECT max(id * 7 % 7919) AS id FROM range(0, 100000000000000)"
"""Takes hours, and looks often whether it was cancelled."""
STREAM = (
    "SELECT t.a, max(x.id * t.a % 7919) AS m FROM t CROSS JOIN range(0, 30000000000) x GROUP BY t.a"
)


def main(folder: str, kind: str) -> None:
    lake = spark_trickle.connect(folder, spark=_connect() if kind == "connect" else None)
    lake.sql("CREATE TABLE t (a BIGINT)")
    lake.sql("INSERT INTO t VALUES (1), (2)")
    assert lake.sql("SELECT count(*) FROM t").collect()[0][0] == 2
    for name, call in _calls(lake).items():
        # A server of Connect goes on with tasks that write files after their query was cancelled.
        if kind == "classic" or name in ("collect", "insert"):
            _interrupt(lake, name, call, Path(folder))
    assert lake.append("t", [{"a": 3}]) == 1
    assert lake.sql("SELECT sum(a) FROM t").collect()[0][0] == 6
    if kind == "classic":
        _stopped(lake)
    lake.close()
    print("done")


def _connect() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote("local[2]").getOrCreate()


def _calls(lake: spark_trickle.Lake) -> dict[str, Callable[[], Any]]:
    lake.create_stream_table("s", "SELECT a FROM t WHERE a > 0", initialize=True)
    return {
        "collect": lambda: lake.sql(SLOW).collect(),
        "insert": lambda: lake.sql(f"INSERT INTO t {SLOW}"),
        "ctas": lambda: lake.sql(
            "CREATE TABLE big AS SELECT id * 7 AS id FROM range(0, 100000000000)"
        ),
        "update": lambda: lake.sql(f"UPDATE t SET a = a + 1 WHERE a IN ({SLOW})"),
        "create": lambda: lake.create_stream_table("u", STREAM, refresh_mode="FULL"),
        "transaction": lambda: _in_transaction(lake),
    }


def _in_transaction(lake: spark_trickle.Lake) -> None:
    with lake.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (100)")
        tx.sql(f"INSERT INTO t {SLOW}")


def _interrupt(lake: spark_trickle.Lake, name: str, call: Callable[[], Any], folder: Path) -> None:
    version, views, files = lake.version, _views(lake), _files(folder)
    threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    try:
        call()
        raise AssertionError(f"{name} was not interrupted")
    except KeyboardInterrupt:
        pass
    seconds = time.monotonic() - started
    assert 2.9 < seconds < 60, (name, seconds)
    assert lake.version == version, name
    assert _files(folder) == files, (name, _files(folder) - files)
    # At once: the session answers, and no job of ours still runs beside it.
    assert lake.sql("SELECT count(*) FROM t").collect()[0][0] == 2, name
    left = _views(lake) - views
    assert not [view for view in left if "trickle" not in view], name
    print(f"{name}: {seconds:.1f} s", flush=True)


def _views(lake: spark_trickle.Lake) -> set[str]:
    return set(lake.spark.sql("SHOW VIEWS").toPandas()["viewName"])


def _files(folder: Path) -> set[str]:
    return {str(p) for p in (folder / "data").rglob("*") if p.is_file()}


def _stopped(lake: spark_trickle.Lake) -> None:
    """``spark.stop()`` behind our back: what is ours starts again, what was given does not."""
    frame = lake.sql("SELECT a FROM t")
    lake.spark.stop()
    _refused(frame.collect)
    assert lake.sql("SELECT count(*) FROM t").collect()[0][0] == 3
    assert lake.sql("UPDATE t SET a = a + 1") == 3
    assert lake.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"
    assert not lake.verify("s")
    given = lake.spark
    settings = spark_trickle.Settings(local_rows=0)
    with spark_trickle.connect(sys.argv[1], spark=given, settings=settings) as other:
        assert other.table("t").count() == 3
        given.stop()
        for call in (
            lambda: other.sql("SELECT * FROM t"),
            lambda: other.table("t"),
            lambda: other.sql("DELETE FROM t WHERE a = 2"),
            lambda: other.refresh_stream_table("s", full=True),
        ):
            _refused(call)


def _refused(call: Callable[[], Any]) -> None:
    with pytest.raises(spark_trickle.ExecutionError, match="stopped"):
        call()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
