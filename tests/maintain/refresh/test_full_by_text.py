"""FULL mode: the query's own text, no private state; what is published is the exact difference."""

from __future__ import annotations

import math

import pytest

from spark_trickle import Lake
from spark_trickle.storage.records import HIDDEN_SCHEMA
from support.lakes import limited
from support.streams import assert_exact

pytestmark = pytest.mark.spark

SUMMED = "SELECT g, sum(v) AS s, avg(v) AS a FROM t GROUP BY g ORDER BY s"
FIRST = "SELECT g, v FROM t ORDER BY v DESC LIMIT 2 OFFSET 1"
VALUE = "SELECT g, v FROM t WHERE v > (SELECT avg(v) FROM t)"


@pytest.fixture
def small(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5), (2, 5), (3, 9), (NULL, 9), (4, 9)")
    return lake


def hidden(lake: Lake) -> int:
    return sum(table.schema == HIDDEN_SCHEMA for table in lake._catalog.tables())


@pytest.mark.parametrize("on_spark", [True, False], ids=["spark", "here"])
def test_full_mode_keeps_no_state_until_deltas_are_asked_for(small: Lake, on_spark: bool) -> None:
    lake = small
    if on_spark:
        limited(lake, worked_bytes=-1)
    queries = {"summed": SUMMED, "first": FIRST, "value": VALUE}
    for name, query in queries.items():
        lake.create_stream_table(name, query, refresh_mode="FULL")
    assert hidden(lake) == 0
    lake.sql("DELETE FROM t WHERE g = 2 OR g IS NULL")
    lake.sql("INSERT INTO t VALUES (5, 9), (1, 1)")
    for name in queries:
        report = lake.refresh_stream_table(name)
        assert report.effective_mode == "FULL"
        assert report.spark_queries <= 1
        assert_exact(lake, name)
        assert (report.rows_inserted, report.rows_deleted) != (0, 0)
        assert lake.sql(f"REFRESH STREAM TABLE {name}").rows_inserted == 0, "the net difference"

    for name in queries:
        lake.alter_stream_table(name, refresh_mode="DIFFERENTIAL")
        assert lake.refresh_history(name)[0].reason.startswith("NEW_MODE: ")
    assert hidden(lake) > 0
    lake.sql("INSERT INTO t VALUES (5, 3), (6, 1000)")
    for name in queries:
        assert lake.refresh_stream_table(name).effective_mode in ("DIFFERENTIAL", "TOPK")
        assert_exact(lake, name)
        lake.alter_stream_table(name, refresh_mode="FULL")
    lake.sql("DELETE FROM t WHERE g = 6")
    for name in queries:
        assert lake.refresh_stream_table(name).effective_mode == "FULL"
        lake.alter_stream_table(name, refresh_mode="AUTO")
        assert_exact(lake, name)


def test_replaced_by_the_same_query_in_another_mode(small: Lake) -> None:
    small.create_stream_table("s", SUMMED, refresh_mode="FULL")
    text = f"CREATE OR REPLACE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS {SUMMED}"
    small.sql(text)
    assert hidden(small) > 0
    small.sql("DELETE FROM t WHERE v = 1")
    assert small.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"
    assert_exact(small, "s")


def test_a_query_without_state_changes_its_mode_at_no_cost(small: Lake) -> None:
    small.create_stream_table("s", "SELECT g, v + 1 AS w FROM t WHERE v > 1", refresh_mode="FULL")
    small.alter_stream_table("s", refresh_mode="DIFFERENTIAL")
    assert len(small.refresh_history("s")) == 1
    small.sql("INSERT INTO t VALUES (7, 7)")
    assert small.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"
    assert_exact(small, "s")


@pytest.mark.parametrize("few", [200_000, 3], ids=["compared here", "compared by Spark"])
def test_the_difference_is_exact_for_every_type(lake: Lake, few: int) -> None:
    """NaN, -0.0, NULL, equal rows, moments, and what this process does not compare."""
    limited(lake, delta_rows=few, worked_bytes=-1)
    lake.sql(
        "CREATE TABLE t (f DOUBLE, r FLOAT, d DECIMAL(20, 3), s STRING, b BINARY, day DATE, "
        "at TIMESTAMP, n TIMESTAMP_NTZ, list ARRAY<DOUBLE>)"
    )
    row = "(1.5D, 2.5F, 1.100, 'a', X'01', DATE'1500-01-01', TIMESTAMP'2020-01-01 10:00:00', TIMESTAMP_NTZ'2020-01-01 10:00:00', array(1.0D))"
    null = "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    odd = "(double('NaN'), float('-0.0'), 0, '', X'', DATE'0001-01-01', NULL, NULL, array(double('NaN'), NULL))"
    lake.sql(f"INSERT INTO t VALUES {row}, {row}, {null}, {null}, {odd}")
    names = {"flat": "SELECT f, r, d, s, b, day, at, n FROM t", "nested": "SELECT * FROM t"}
    for name, query in names.items():
        lake.create_stream_table(name, query, refresh_mode="FULL")
        again = lake.sql(f"REFRESH STREAM TABLE {name} FULL")
        assert (again.rows_inserted, again.rows_deleted) == (0, 0), "NaN is NaN, NULL is NULL"
        assert_exact(lake, name)
        (zero,) = [r["r"] for r in lake.table(name).toArrow().to_pylist() if r["s"] == ""]
        assert math.copysign(1, zero) == 1, "as in every key of Spark's"
    lake.sql("DELETE FROM t WHERE s = '' OR s IS NULL")
    lake.sql(f"INSERT INTO t VALUES {null}, {row}")
    for name in names:
        report = lake.refresh_stream_table(name)
        assert (report.rows_inserted, report.rows_deleted) == (1, 2), name
        assert_exact(lake, name)


def test_a_dependent_sees_the_net_difference(small: Lake) -> None:
    small.create_stream_table("s", SUMMED, refresh_mode="FULL")
    small.create_stream_table("d", "SELECT g, s FROM s WHERE s > 2", refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (3, 1)")
    reports = {report.name: report for report in small.refresh_all()}
    assert reports["s"].rows_inserted == reports["s"].rows_deleted == 1
    assert reports["d"].effective_mode == "DIFFERENTIAL"
    assert sum(reports["d"].delta_rows.values()) == 2
    assert_exact(small, "d")
