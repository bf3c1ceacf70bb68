"""Batches with an id are applied once, whoever appends them and however often."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_trickle import InvalidDataError, Lake

ROWS = [{"a": 1}, {"a": 2}]


def test_a_batch_is_applied_once(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE t (a INT)")
    dry_lake.sql("CREATE TABLE u (a INT)")
    assert dry_lake.append("t", ROWS, batch="stream/1") == 2
    version = dry_lake.version
    assert dry_lake.append("t", ROWS, batch="stream/1") == 0
    assert dry_lake.version == version, "nothing is committed the second time"
    assert dry_lake.append("u", ROWS, batch="stream/1") == 2, "an id is a table's own"
    assert dry_lake.append("t", ROWS, batch="stream/2") == 2
    assert dry_lake.append("t", ROWS) == 2
    assert dry_lake._catalog.scan("t").rows == 6


def test_a_batch_that_failed_may_come_again(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE t (a INT NOT NULL)")
    with pytest.raises(InvalidDataError, match="NOT NULL"):
        dry_lake.append("t", [{"a": None}], batch="b")
    assert dry_lake.append("t", [{"a": 1}], batch="b") == 1


def test_several_writers_of_one_batch(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE t (a INT)")
    dry_lake.append("t", [{"a": 0}])
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: dry_lake.append("t", ROWS, batch="b"), range(8)))
    assert sorted(counts) == [0] * 7 + [2]
    assert dry_lake._catalog.scan("t").rows == 3
