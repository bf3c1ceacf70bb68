"""What makes a stream table follow comes to its end beside a client that never stops to write."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.maintain.define import catching_up, definer
from support.watched import bag, contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "ranks": "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM a",
    "sums": "SELECT k, sum(v) AS s, count(*) AS n FROM a GROUP BY k",
    "highest": "SELECT k, max(v) AS x FROM a GROUP BY k",
    "kinds": "SELECT DISTINCT v FROM a",
    "of_kinds": "SELECT k, sum(DISTINCT v) AS s FROM a GROUP BY k",
    "top": "SELECT k, v FROM a ORDER BY v DESC, k NULLS LAST LIMIT 3",
    "pairs": "SELECT x.k, y.v FROM a x JOIN a y ON x.k = y.v",
    "missing": "SELECT v FROM a EXCEPT SELECT k FROM a",
    "all_of_it": "SELECT count(*) AS n, max(v) AS x FROM a",
}


@pytest.fixture
def busy(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE a (k INT, v INT)")
        lake.sql("INSERT INTO a VALUES (1, 2), (1, 3), (NULL, 4), (5, 5)")
        yield lake


def expected(lake: Lake, query: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as duck:
        duck.register("a", contents(lake, "a"))
        return bag(duck.sql(query).to_arrow_table())


def check(lake: Lake, *names: str) -> None:
    for name in names:
        assert bag(contents(lake, name)) == expected(lake, QUERIES[name]), name
    status = {stream.name: stream.status for stream in lake.stream_tables()}
    assert {status[name] for name in names} == {"ACTIVE"}


@contextmanager
def writing(lake: Lake) -> Iterator[None]:
    """A client that inserts as fast as it can."""
    over, failed, count = threading.Event(), [], 0

    def work() -> None:
        nonlocal count
        with spark_trickle.connect(str(Path(lake._catalog.database.name).parent)) as own:
            while not over.is_set():
                try:
                    own.sql(f"INSERT INTO a VALUES ({count % 7}, {count % 5})")
                    count += 1
                except Exception as error:
                    failed.append(error)
                    return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        while thread.is_alive() and not count:
            time.sleep(0.01)
        begun, patience = count, time.monotonic() + 30
        yield
        while thread.is_alive() and count == begun and time.monotonic() < patience:
            time.sleep(0.01)  # what was done may have fitted between two of its inserts
        assert count > begun, "it writes all the time"
    finally:
        over.set()
        thread.join()
    assert not failed, "nor does the client lose"


def suspended(lake: Lake, name: str) -> None:
    lake.alter_stream_table(name, status="SUSPENDED")


@pytest.mark.parametrize("name", ["ranks", "sums"])
def test_all_that_makes_one_follow(busy: Lake, name: str) -> None:
    query = QUERIES[name]
    busy.create_stream_table("early", query, refresh_mode="IMMEDIATE", initialize=False)
    with writing(busy):
        report = busy.create_stream_table(name, query, refresh_mode="IMMEDIATE")
        assert report is not None
        assert report.reason.startswith("INITIALIZE")
        assert busy.refresh_stream_table("early").effective_mode == "FULL"
        suspended(busy, name)
        busy.alter_stream_table(name, status="ACTIVE")
        busy.alter_stream_table(name, refresh_mode="DIFFERENTIAL")
        busy.alter_stream_table(name, refresh_mode="IMMEDIATE")
        for _ in range(2):
            assert busy.repair_stream_table(name).reason.startswith("REPAIR")
            busy.alter_stream_table(name, query=query)
        assert busy.refresh_stream_table(name).effective_mode == "FULL"
        busy.sql(f"ALTER STREAM TABLE {name} RENAME TO other")
        busy.sql(f"ALTER STREAM TABLE other RENAME TO {name}")
    check(busy, name)
    assert bag(contents(busy, "early")) == expected(busy, query)


def test_emptied_beside_writers(busy: Lake) -> None:
    busy.create_stream_table("ranks", QUERIES["ranks"], refresh_mode="IMMEDIATE")
    with writing(busy):
        for _ in range(3):
            busy._streams.empty("ranks")
            assert not bag(contents(busy, "ranks"))
            busy.alter_stream_table("ranks", status="ACTIVE")
    check(busy, "ranks")


def test_a_deferred_one_that_another_follows(busy: Lake) -> None:
    """The other joins what is written all the time."""
    busy.sql("CREATE TABLE b (k INT)")
    busy.create_stream_table("later", "SELECT k FROM b", refresh_mode="DIFFERENTIAL")
    joined = "SELECT a.k, a.v FROM later JOIN a ON a.k = later.k"
    busy.create_stream_table("joined", joined, refresh_mode="IMMEDIATE")
    with writing(busy):
        for number in range(4):
            busy.sql(f"INSERT INTO b VALUES ({number})")
            (report,) = busy.refresh_all("later")
            assert report.effective_mode == "DIFFERENTIAL"
            busy.sql(f"INSERT INTO b VALUES ({number})")
            assert busy.refresh_stream_table("later").effective_mode == "DIFFERENTIAL"
    with duckdb.connect() as duck:
        duck.register("a", contents(busy, "a"))
        duck.register("later", contents(busy, "later"))
        assert bag(contents(busy, "joined")) == bag(duck.sql(joined).to_arrow_table())


@pytest.mark.parametrize("quick", [True, False])
def test_what_came_while_it_was_filled(
    busy: Lake, monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    """It comes in as a delta, before the lock where the fill took long: one fill, one version."""
    fill, fills, newest = definer.fill, 0, 0
    meanwhile = (
        "INSERT INTO a VALUES (1, 4), (9, 9)",
        "DELETE FROM a WHERE v IN (3, 5)",
        "UPDATE a SET v = 1 WHERE v = 2",
        "INSERT INTO a SELECT 9, CAST(id AS INT) FROM range(2000)",
    )

    def filled(*given: Any) -> Any:
        nonlocal fills, newest
        fills += 1
        answer = fill(*given)
        for statement in meanwhile:
            busy.sql(statement)
        newest = busy.version
        return answer

    monkeypatch.setattr(catching_up, "_QUICK", 1000.0 if quick else 0.0)
    monkeypatch.setattr(definer, "fill", filled)
    for number, (name, query) in enumerate(QUERIES.items(), 1):
        report = busy.create_stream_table(name, query, refresh_mode="IMMEDIATE")
        assert fills == 2 * number - 1, "a conflict would have it filled again"
        assert report is not None
        assert (report.version, report.sources) == (newest + 1, {"a": (newest, newest)})
        check(busy, name)
        busy.sql("DELETE FROM a WHERE k = 9")
        suspended(busy, name)
        busy.sql("INSERT INTO a VALUES (3, 3), (5, 5), (1, 2)")
        busy.alter_stream_table(name, status="ACTIVE")
        assert (fills, busy.version) == (2 * number, newest + 1)
        busy.sql("DELETE FROM a WHERE k = 9")
        check(busy, *list(QUERIES)[:number])
        assert not busy.verify(name)
