"""Lost rows are found by their keys where that reads less, and by whole rows where keys do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake
from spark_trickle.errors import InvariantError
from spark_trickle.maintain.apply import locating
from spark_trickle.settings import Settings
from spark_trickle.storage.read.search import Search
from support.lakes import limited, modify
from support.streams import refreshed, rows

pytestmark = pytest.mark.spark

WIDE = "SELECT k, v, repeat(sha2(CAST(v AS STRING), 256), 3) AS wide FROM t"


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    """Keys that are shared or NULL among those that are not; all of it in files."""
    settings = Settings(inline_row_limit=0, inline_delete_limit=0)
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as opened:
        opened.sql("CREATE TABLE t (k INT, v INT) CLUSTER BY (k)")
        data = [{"k": v // 2 if v < 40 else v, "v": v} for v in range(400)]
        opened.append("t", [*data, {"k": None, "v": -1}, {"k": None, "v": -2}])
        opened.create_stream_table("s", WIDE, refresh_mode="DIFFERENTIAL")
        yield opened


@pytest.fixture
def dear(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Reading whole rows here is made too dear; by what columns rows were looked for."""
    plan = lake._catalog.scan("s")
    keys = Search(plan, {}).bytes(plan.table.columns[:1])
    assert 4 * keys < Search(plan, {}).bytes(plan.table.columns)
    limited(lake, searched_bytes=2 * keys)
    seen: list[str] = []
    for name in ("find_rows", "find_by_key"):
        find = getattr(locating, name)

        def noted(run, search, names, lost, find=find):
            seen.append(",".join(names))
            return find(run, search, names, lost)

        monkeypatch.setattr(f"spark_trickle.maintain.apply.delta.{name}", noted)
    return seen


def test_by_the_key_alone(lake: Lake, dear: list[str]) -> None:
    lake.sql("DELETE FROM t WHERE v IN (50, 51, 399)")
    report = refreshed(lake, "s", "DIFFERENTIAL")
    assert (report.rows_deleted, dear) == (3, ["k"])
    lake.sql("DELETE FROM t WHERE v IN (20, 21)")
    refreshed(lake, "s", "DIFFERENTIAL")
    assert (10, 20) not in [row[:2] for row in rows(lake, "s")], "all rows of a shared key"
    lake.sql("UPDATE t SET v = v + 1000 WHERE k IS NULL OR k > 390")
    refreshed(lake, "s", "DIFFERENTIAL")
    assert dear == ["k"] * 3


def test_some_rows_of_a_shared_key_are_found_by_the_rest(lake: Lake, dear: list[str]) -> None:
    lake.sql("DELETE FROM t WHERE v IN (6, 300, -1)")
    report = refreshed(lake, "s", "DIFFERENTIAL")
    assert (report.rows_deleted, dear) == (3, ["k"])
    left = [row[:2] for row in rows(lake, "s")]
    assert (3, 7) in left
    assert (None, -2) in left
    lake.sql("UPDATE t SET v = v - 1 WHERE v = 7")
    refreshed(lake, "s", "DIFFERENTIAL")


def test_a_key_that_very_many_rows_share(lake: Lake, dear: list[str]) -> None:
    lake.append("t", [{"k": 1000, "v": 1000 + v} for v in range(200)])
    refreshed(lake, "s", "DIFFERENTIAL")
    lake.sql("DELETE FROM t WHERE v = 1100")
    assert refreshed(lake, "s", "DIFFERENTIAL").rows_deleted == 1


@pytest.mark.parametrize("gone", [100, 8], ids=["the key", "one of two rows"])
def test_a_row_that_is_not_there_is_noticed(lake: Lake, dear: list[str], gone: int) -> None:
    tx = lake._catalog.begin()
    assert modify(tx, "s", lambda row: row["v"] == gone, None) == 1
    tx.commit()
    before = rows(lake, "s")
    lake.sql("DELETE FROM t WHERE v IN (100, 200, 8, 9)")
    with pytest.raises(InvariantError):
        lake.refresh_stream_table("s")
    assert rows(lake, "s") == before


NESTED = (
    "SELECT v, map('n', if(v % 2 = 0, NULL, v), 'z', 0) AS plain, "
    "named_struct('m', map(v % 3, if(v % 2 = 0, NULL, v % 5))) AS inside, "
    "array(map('v', if(v % 2 = 0, NULL, v % 5)), NULL) AS listed FROM t"
)


@pytest.mark.parametrize("here", [True, False], ids=["here", "by Spark"])
def test_maps_are_told_apart_wherever_they_are(lake: Lake, here: bool) -> None:
    """In the code that Spark 4.2 generates to group by a map, NULL becomes 0."""
    if not here:
        limited(lake, searched_bytes=0)
    lake.create_stream_table("m", NESTED, refresh_mode="DIFFERENTIAL")
    known = lake.table("m").where("v = 6").collect()[0]
    assert (known.plain["n"], known.inside.m[0], known.listed[0]["v"]) == (None, None, None)
    lake.sql("DELETE FROM t WHERE v IN (2, 3, 40, 41, 42)")
    report = refreshed(lake, "m", "DIFFERENTIAL")
    assert (report.rows_deleted, report.rows_inserted) == (5, 0)
    full = lake.refresh_stream_table("m", full=True)
    assert (full.rows_deleted, full.rows_inserted) == (0, 0), "equal rows are known as equal"
