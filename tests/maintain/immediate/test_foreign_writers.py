"""Somebody writes a source who knows nothing of stream tables: the next commit makes them right again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import Lake
from support import duck

pytestmark = pytest.mark.spark

QUERIES = {
    "totals": "SELECT k, count(*) AS c, sum(n) AS s FROM t GROUP BY k",
    "over": "SELECT c, count(*) AS g FROM totals GROUP BY c",
    "joined": "SELECT t.k, u.v FROM t JOIN u ON t.k = u.k",
}


@pytest.fixture
def lake(tmp_path: Path, spark: object) -> Iterator[Lake]:
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as opened:
        opened.sql("CREATE TABLE t (k INT, n INT)")
        opened.sql("CREATE TABLE u (k INT, v STRING)")
        opened.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
        opened.sql("INSERT INTO u VALUES (1, 'one'), (2, 'two')")
        for name, query in QUERIES.items():
            opened.create_stream_table(name, query, refresh_mode="IMMEDIATE")
        yield opened


def rows(lake: Lake, text: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in lake.sql(text).collect())


def wrong(lake: Lake) -> list[str]:
    return [n for n, q in QUERIES.items() if rows(lake, f"SELECT * FROM {n}") != rows(lake, q)]


def test_the_next_commit_computes_anew(lake: Lake, tmp_path: Path) -> None:
    lake.sql("INSERT INTO t VALUES (1, 1)")  # the groups are in memory now
    duck.write(tmp_path / "lake", ["INSERT INTO t VALUES (1, 5), (3, 7)"])
    assert wrong(lake) == ["totals", "joined"] or wrong(lake) == [*QUERIES]
    lake.sql("INSERT INTO t VALUES (2, 2)")
    assert wrong(lake) == []
    for name in ("totals", "joined"):
        newest = lake.refresh_history(name)[0]
        assert (newest.effective_mode, newest.reason[:7]) == ("IMMEDIATE", "BEHIND:")
    lake.sql("INSERT INTO t VALUES (2, 2)")
    assert wrong(lake) == []
    assert lake.refresh_history("totals")[0].effective_mode == "FAST_PATH"
    assert "BEHIND" not in lake.refresh_history("joined")[0].reason


def test_a_write_to_the_other_source_and_a_read_inside(lake: Lake, tmp_path: Path) -> None:
    duck.write(tmp_path / "lake", ["DELETE FROM t WHERE k = 1"])
    with lake.transaction() as tx:
        tx.sql("INSERT INTO u VALUES (2, 'zwei')")
        assert sorted(tuple(r) for r in tx.sql("SELECT * FROM joined").collect()) == [
            (2, "two"),
            (2, "zwei"),
        ]
    assert "joined" not in wrong(lake)


def test_it_is_not_taken_for_up_to_date(lake: Lake, tmp_path: Path) -> None:
    """Neither by expiry, which would forget what it lacks, nor by a change of mode."""
    duck.write(tmp_path / "lake", ["INSERT INTO t VALUES (1, 5)"])
    lake.sql("CREATE TABLE later (a INT)")
    oldest = lake.expire(older_than=0.0)
    assert oldest <= min(
        stream.frontier["t"] for stream in lake.stream_tables() if "t" in stream.frontier
    )
    lake.alter_stream_table("totals", refresh_mode="DIFFERENTIAL")
    assert lake.refresh_stream_table("totals").effective_mode == "DIFFERENTIAL"
    assert "totals" not in wrong(lake)
