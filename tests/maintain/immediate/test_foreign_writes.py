"""Stream tables that commits keep up to date, and somebody else writes: noticed by the next commit."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from spark_trickle import Lake
from spark_trickle.errors import InvariantError
from support.lakes import modify

pytestmark = pytest.mark.spark

SUMS = "SELECT g, sum(v) AS n FROM t GROUP BY g"
JOINED = "SELECT t.g, u.v FROM t JOIN u ON t.g = u.g"


FOLDED: dict[str, Any] = {"refresh_mode": "DIFFERENTIAL", "fast_path": True}
IMMEDIATE: dict[str, Any] = {"refresh_mode": "IMMEDIATE"}


@pytest.mark.parametrize(
    ("query", "options", "private"),
    [
        (SUMS, IMMEDIATE, False),
        (SUMS, IMMEDIATE, True),
        (SUMS, FOLDED, False),
        (SUMS, FOLDED, True),
        (JOINED, IMMEDIATE, False),
    ],
)
def test_the_next_commit_notices(
    lake: Lake, query: str, options: dict[str, Any], private: bool
) -> None:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("CREATE TABLE u (g INT, v INT)")
    lake.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    lake.sql("INSERT INTO u VALUES (1, 5), (2, 6)")
    lake.create_stream_table("s", query, **options)
    lake.sql("INSERT INTO t VALUES (2, 3)")
    segments = [segment.name for segment in lake._streams.get("s").segments]
    with lake._catalog.begin() as tx:  # past the guard, as a foreign writer would
        assert modify(tx, segments[0] if private else "s", lambda row: row["g"] == 1, None)
    with pytest.raises(InvariantError, match="and not by a refresh"):
        lake.sql("INSERT INTO t VALUES (2, 4)")
    (seen,) = lake.stream_tables()
    assert seen.status == "ERROR"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lake.sql("INSERT INTO t VALUES (2, 4)")
    lake.repair_stream_table("s")
    lake.sql("INSERT INTO t VALUES (1, 7)")
    lake.refresh_stream_table("s")
    assert not lake.verify("s")
