"""Chains, fans and diamonds: every hop by deltas, at one version, in order."""

from __future__ import annotations

import pytest

from spark_trickle import Lake
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark

DEPTH, WIDTH = 10, 20


@pytest.fixture
def small(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.append("t", [{"g": i % 7, "v": i} for i in range(100)])
    return lake


def test_a_chain_of_ten_is_differential_at_every_hop(small: Lake) -> None:
    small.create_stream_table("c0", "SELECT g, v FROM t WHERE v >= 0", refresh_mode="DIFFERENTIAL")
    for hop in range(1, DEPTH):
        query = f"SELECT g, v + 1 AS v FROM c{hop - 1}"
        if hop == DEPTH // 2:
            query = f"SELECT g, sum(v) AS v FROM c{hop - 1} GROUP BY g"
        small.create_stream_table(f"c{hop}", query, refresh_mode="DIFFERENTIAL")
    small.sql("UPDATE t SET v = 1000 WHERE v = 50")
    reports = small.refresh_all()
    assert [report.name for report in reports] == [f"c{hop}" for hop in range(DEPTH)], "in order"
    for report in reports:
        assert report.effective_mode == "DIFFERENTIAL", report
        assert (report.rows_inserted, report.rows_deleted) == (1, 1)
        assert report.spark_queries <= 2
    expected = 1000 + sum(i for i in range(100) if i % 7 == 1 and i != 50) + 4 * 15 + 4
    assert (1, expected) in rows(small, f"c{DEPTH - 1}")
    assert_exact(small, f"c{DEPTH - 1}", f"c{DEPTH // 2}")
    assert {r.effective_mode for r in small.refresh_all()} == {"NO_DATA"}
    small.sql("INSERT INTO t VALUES (1, -5)")
    first, *others = small.refresh_all()
    assert first.effective_mode == "DIFFERENTIAL"
    assert (first.rows_inserted, first.rows_deleted) == (0, 0), "the filter lets nothing through"
    assert {r.effective_mode for r in others} == {"NO_DATA"}, "and nobody further down has work"


def test_a_fan_of_twenty_is_differential_everywhere(small: Lake) -> None:
    names = [f"f{number:02}" for number in range(WIDTH)]
    for number, name in enumerate(names):
        small.create_stream_table(
            name,
            f"SELECT g, count(*) AS n, sum(v) AS s FROM t WHERE v % {number + 2} = 0 GROUP BY g",
            refresh_mode="DIFFERENTIAL",
        )
    small.sql("DELETE FROM t WHERE v = 0")
    target = small.version
    reports = small.refresh_all()
    assert sorted(report.name for report in reports) == names
    for report in reports:
        assert report.effective_mode == "DIFFERENTIAL", report
        assert report.sources["t"][1] == target, "one version for all"
        divisor = int(report.name[1:]) + 2
        survives = any(v % 7 == 0 and v % divisor == 0 for v in range(1, 100))
        assert (report.rows_inserted, report.rows_deleted) == (int(survives), 1)
        assert report.spark_queries <= 2
    assert_exact(small, names[0], names[-1])


def test_a_dependent_may_be_refreshed_alone(small: Lake) -> None:
    """It follows what its source shows now, not what the source's sources hold."""
    small.create_stream_table("a", "SELECT g, count(*) AS n FROM t GROUP BY g")
    small.create_stream_table("b", "SELECT sum(n) AS n FROM a", refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (9, 9)")
    refreshed(small, "b", "NO_DATA")
    assert rows(small, "b") == [(100,)]
    small.refresh_stream_table("a")
    refreshed(small, "b", "DIFFERENTIAL")
    assert rows(small, "b") == [(101,)]


def test_base_table_and_stream_table_in_one_query(small: Lake) -> None:
    """A20: a LEFT JOIN to a stream table whose upstream changed together with the base table."""
    small.create_stream_table(
        "counts",
        "SELECT g, count(*) AS n, max(v) AS top FROM t GROUP BY g",
        refresh_mode="DIFFERENTIAL",
    )
    small.sql("CREATE TABLE names (g INT, name STRING)")
    small.sql("INSERT INTO names VALUES (1, 'one'), (2, 'two'), (99, 'none')")
    small.create_stream_table(
        "named",
        "SELECT name, n, top FROM names LEFT JOIN counts ON names.g = counts.g",
        refresh_mode="DIFFERENTIAL",
    )
    for statements in (
        ["DELETE FROM t WHERE g = 1", "INSERT INTO names VALUES (1, 'uno')"],
        ["INSERT INTO t VALUES (99, 1), (1, 7)", "DELETE FROM names WHERE name = 'two'"],
        ["DELETE FROM t WHERE v = 7 AND g = 1", "DELETE FROM names WHERE g = 1"],
    ):
        with small.transaction() as tx:
            for statement in statements:
                tx.sql(statement)
        for report in small.refresh_all():
            assert report.effective_mode == "DIFFERENTIAL", report
        assert_exact(small, "counts", "named")
    assert rows(small, "named") == [("none", 1, 1)]
