"""-0.0 is stored as 0.0, whoever writes it: no text of a number leaves the contents or takes a row
away that is not there."""

from __future__ import annotations

from math import copysign
from typing import Any

import pytest

from spark_trickle import Lake, Settings, connect
from spark_trickle.storage.read.reader import read_scan
from support.streams import assert_exact, rows


def _signs(lake: Lake, name: str, column: str) -> set[float]:
    values = read_scan(lake._catalog.scan(name)).column(column).to_pylist()
    return {copysign(1.0, value) for value in values if value == 0}


@pytest.mark.parametrize("inlined", [0, 1000])
def test_rows_that_need_no_spark(tmp_path: Any, inlined: int) -> None:
    with connect(tmp_path / "l", settings=Settings(inline_row_limit=inlined)) as lake:
        lake.sql("CREATE TABLE t (f DOUBLE, g FLOAT)")
        lake.sql("INSERT INTO t VALUES (-0.0D, NULL), (-0e0, NULL)")
        lake.append("t", [{"f": -0.0, "g": -0.0}, {"f": float("nan"), "g": float("-inf")}])
        lake.sql("ALTER TABLE t ADD COLUMN h DOUBLE DEFAULT -0.0D")
        for column in "fgh":
            assert _signs(lake, "t", column) == {1.0}
        assert repr(read_scan(lake._catalog.scan("t")).column("g").to_pylist()[-1]) == "-inf"


@pytest.mark.spark
@pytest.mark.parametrize("inlined", [0, 1000])
def test_rows_that_spark_makes(tmp_path: Any, spark: Any, inlined: int) -> None:
    settings = Settings(inline_row_limit=inlined)
    with connect(tmp_path / "l", spark=spark, settings=settings) as lake:
        zeros = "SELECT id, -(id * 0D) AS f, CAST('-0.0' AS FLOAT) AS `g.h` FROM range(20)"
        lake.sql(f"CREATE TABLE t AS {zeros}")
        lake.sql(f"INSERT INTO t {zeros}")
        lake.sql("UPDATE t SET f = -f, `g.h` = -`g.h` WHERE id < 15")
        lake.sql(
            "MERGE INTO t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET f = -f"
        )
        assert _signs(lake, "t", "f") == _signs(lake, "t", "g.h") == {1.0}
        shown = lake.sql(
            "SELECT DISTINCT CAST(f AS STRING) AS f, CAST(`g.h` AS STRING) AS g FROM t"
        )
        assert [tuple(row) for row in shown.collect()] == [("0.0", "0.0")]


QUERIES = {
    "plain": "SELECT v, CAST(f AS STRING) AS c, CAST(-f AS STRING) AS n FROM k",
    "windowed": "SELECT CAST(f AS STRING) AS c, r FROM "
    "(SELECT f, row_number() OVER (PARTITION BY v ORDER BY f) AS r FROM k)",
    "most": "SELECT v, CAST(m AS STRING) AS c FROM (SELECT v, max(f) AS m FROM k GROUP BY v)",
    "listed": "SELECT v, CAST(max(a) AS STRING) AS c FROM (SELECT v, array(f) AS a FROM k) GROUP BY v",
}
MADE = {
    "turned": "SELECT CAST(m AS STRING) AS c FROM (SELECT max(-f) OVER (PARTITION BY v) AS m FROM k)",
    "first": "SELECT CAST(m AS STRING) AS c FROM "
    "(SELECT first_value(-f) OVER (PARTITION BY v ORDER BY f) AS m FROM k)",
    "lists": "SELECT CAST(a AS STRING) AS c FROM "
    "(SELECT collect_list(-f) OVER (PARTITION BY v) AS a FROM k)",
    "most_turned": "SELECT v, CAST(m AS STRING) AS c FROM (SELECT v, max(-f) AS m FROM k GROUP BY v)",
}
"""Zeros with a sign come out of the query itself, below something that is stored."""
CHANGES = (
    "UPDATE k SET f = CASE WHEN v = 1 THEN 0.0D ELSE -0.0D END WHERE v < 3",
    "UPDATE k SET f = -f",
    "UPDATE k SET v = v + 10",
    "INSERT INTO k VALUES (11, -0.0D), (12, 0.0D), (15, -0.0D)",
    "UPDATE k SET f = f - 1 WHERE f >= 0",
    "DELETE FROM k",
)


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "IMMEDIATE"])
def test_no_sign_of_zero_breaks_a_stream_table(lake: Lake, mode: str) -> None:
    lake.sql("CREATE TABLE k (v INT, f DOUBLE)")
    lake.sql("INSERT INTO k VALUES (1, -0.0D), (2, 0.0D), (3, double('NaN')), (4, 1D)")
    for name, query in (QUERIES | MADE).items():
        lake.create_stream_table(name, query, refresh_mode=mode)
    assert_exact(lake, *QUERIES)
    for change in CHANGES:
        lake.sql(change)
        if mode == "DIFFERENTIAL":
            for name in QUERIES | MADE:
                lake.refresh_stream_table(name)
        assert_exact(lake, *QUERIES)
    assert all(rows(lake, name) == [] for name in QUERIES | MADE)
