"""What is compared is compared as plain Spark does it over the same rows, wherever the work is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Lake
from spark_trickle.maintain.refresh import locally
from support.streams import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WIDE = "id INT, d DECIMAL(38,30), e DECIMAL(38,20), i INT, s STRING"
FIRST = "(1, 1, 1, 5, 'x')"
SECOND = """
    (2, 5.000000000000000000000000000001, 3000000000.00000000000000000001, 5, 'x'),
    (3, 5, 3000000000, 5, 'x'),
    (4, 4.999999999999999999999999999999, 2999999999.99999999999999999999, NULL, 'x'),
    (5, NULL, NULL, 5, 'x')
"""
TESTS = [
    *(f"d {sign} 5" for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
    *("5 < d", "NOT d > 5", "d BETWEEN 5 AND 6", "d IN (5, 6)", "d > i", "d > (5)", "-d < -5"),
    *("d > 2 + 3", "d = 2 + 3", "d BETWEEN 2 + 3 AND 6", "e <= 3000000000", "e = 3000000000L"),
    *(
        "e > 1000000000L + 2000000000",
        "d < 12345678901",
        "d = 5.00000000000000000000000000000000001",
    ),
    "CASE d WHEN 5 THEN TRUE END",
]
PROVEN = [test for test in TESTS if " IN " not in test and "CASE" not in test and "-d" not in test]


@contextmanager
def plain(spark: SparkSession, lake: Lake, *tables: str) -> Iterator[SparkSession]:
    """A session that has nothing but the rows of the tables."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", spark.conf.get("spark.sql.ansi.enabled"))
    for table in tables:
        held = session.createDataFrame(lake.table(table).toArrow(), lake.table(table).schema)
        held.createOrReplaceTempView(table)
    yield session


def assert_as_spark(spark: SparkSession, lake: Lake, queries: dict[str, str], *tables: str) -> None:
    with plain(spark, lake, *tables) as session:
        for name, query in queries.items():
            expected = sorted((tuple(row) for row in session.sql(query).collect()), key=repr)
            assert sorted(rows(lake, name), key=repr) == expected, query


def filtered(tests: list[str]) -> str:
    """The rows that each test keeps, beside its number."""
    return " UNION ALL ".join(
        f"SELECT {n} AS n, id FROM t WHERE {test}" for n, test in enumerate(tests)
    )


def test_numbers_beside_wide_decimals(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past 38 digits Spark rounds before it compares, and counts the digits of a literal as written."""
    monkeypatch.setattr(locally, "CHECKED", 0)  # or Spark may have a share in what is done here
    lake.sql(f"CREATE TABLE t ({WIDE})")
    lake.sql(f"INSERT INTO t VALUES {FIRST}")
    values = ", ".join(f"({test}) AS c{n}" for n, test in enumerate(TESTS))
    queries = {
        "filters": filtered(TESTS),
        "here": f"SELECT id, {', '.join(f'({test}) AS c{n}' for n, test in enumerate(PROVEN))} FROM t",
        "there": f"SELECT id, upper(s) AS u, {values} FROM t",
        "folded": "SELECT d > 5 AS k, count(*) AS n FROM t GROUP BY d > 5",
    }
    for name, query in queries.items():
        mode = "IMMEDIATE" if name == "folded" else "DIFFERENTIAL"
        lake.create_stream_table(name, query, refresh_mode=mode)
    lake.sql(f"INSERT INTO t VALUES {SECOND}")
    engines = {report.name: report.engine for report in lake.refresh_all()}
    assert (engines["here"], engines["there"]) == ("local", "spark")
    assert_as_spark(spark, lake, queries, "t")
    mine = sorted(map(tuple, lake.sql(queries["filters"]).collect()), key=repr)
    assert mine == rows(lake, "filters")


TEXTS = "(1, ' 12 ', '2024-01-01 '), (2, 'x', 'y'), (3, '12', '2024-01-01'), (4, NULL, NULL)"
IN = [
    *("s IN (SELECT i FROM u)", "s NOT IN (SELECT i FROM u)", "s = 12", "s IN (12)"),
    *("s IN (SELECT f FROM u)", "s IN (SELECT d FROM u)", "t IN (SELECT day FROM u)"),
    *("(s, t) IN (SELECT i, day FROM u)", "id IN (SELECT i - 9 FROM u)"),
    *("s IN (SELECT i FROM u WHERE u.i > t.id)", "NOT (s IN (SELECT i FROM u) OR id = 1)"),
    "EXISTS (SELECT 1 FROM u WHERE u.i = s)",
]


def test_texts_in_a_subquery_of_numbers_before_ansi(lake: Lake, spark: SparkSession) -> None:
    """There ``=`` turns a text into a number, and IN over a subquery the number into a text."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        lake.sql("CREATE TABLE t (id INT, s STRING, t STRING)")
        lake.sql("CREATE TABLE u (i INT, f DOUBLE, d DECIMAL(5,2), day DATE)")
        lake.sql(f"INSERT INTO t VALUES {TEXTS}")
        lake.sql("INSERT INTO u VALUES (12, 12, 12, DATE '2024-01-01')")
        mark = "SELECT id, s IN (SELECT i FROM u) AS m FROM t"
        queries = {"filters": filtered(IN), "mark": mark}
        for name, query in queries.items():
            lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        assert_as_spark(spark, lake, queries, "t", "u")
        lake.sql("INSERT INTO t VALUES (5, '12 ', '2024-01-02'), (6, '13', 'y')")
        lake.sql("INSERT INTO u VALUES (13, 0.5, 1, DATE '2024-01-02')")
        for name in queries:
            lake.refresh_stream_table(name)
        assert_as_spark(spark, lake, queries, "t", "u")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_a_literal_by_its_alias_is_a_column(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE t (id INT, d DECIMAL(12,4), w DECIMAL(38,30))")
    lake.sql("INSERT INTO t VALUES (1, 1, 5)")
    queries = {
        "quotient": "SELECT id, 5 AS x, d / x AS r, d * x AS p, -x AS m FROM t",
        "having": "SELECT id, 5 AS x, max(w) AS w FROM t GROUP BY id HAVING max(w) > x",
        "qualify": "SELECT DISTINCT 5 AS x, id FROM t ORDER BY x LIMIT 10",
    }
    for name, query in queries.items():
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    lake.sql("INSERT INTO t VALUES (2, 7, 5.000000000000000000000000000001), (3, 3, 6)")
    for name in queries:
        lake.refresh_stream_table(name)
    assert_as_spark(spark, lake, queries, "t")


@pytest.mark.parametrize(
    "value",
    [
        "CAST(CAST(d AS DECIMAL(10,2)) AS DOUBLE) + 1",
        "CAST(CAST(d AS DECIMAL(10,2)) AS DOUBLE) / 3",
        "CASE WHEN id > 5 THEN CAST(CAST(d AS DECIMAL(10,2)) AS DOUBLE) END",
    ],
)
def test_many_wide_decimals_become_doubles(lake: Lake, spark: SparkSession, value: str) -> None:
    """Of many rows whole columns are computed, wider than 64 bits at first."""
    lake.sql("CREATE TABLE t (id INT NOT NULL, d DECIMAL(38,20), PRIMARY KEY (id))")
    lake.sql("INSERT INTO t VALUES (1, 1)")
    queries = {
        "one": f"SELECT id, {value} AS r FROM t",
        "sums": f"SELECT id % 7 AS g, sum({value}) AS r FROM t GROUP BY id % 7",
    }
    for name, query in queries.items():
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    lake.sql(
        "INSERT INTO t SELECT CAST(id AS INT), CAST(id AS DECIMAL(38,20)) + 0.5 FROM range(2, 500)"
    )
    engines = [lake.refresh_stream_table(name).engine for name in queries]
    assert "local" in engines
    with plain(spark, lake, "t") as session:
        assert sorted(rows(lake, "one")) == sorted(
            map(tuple, session.sql(queries["one"]).collect())
        )
        found, wanted = (
            dict(rows(lake, "sums")),
            dict(map(tuple, session.sql(queries["sums"]).collect())),
        )
        assert found == pytest.approx(wanted, rel=1e-12)
