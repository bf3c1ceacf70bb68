"""Against Spark itself: what we print means what was written, and types are what Spark says."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from spark_trickle.lower.query import lower
from spark_trickle.normalize.pipeline import normalize
from spark_trickle.sql.bind.plan import bind
from spark_trickle.sql.dialects import TrickleSpark
from spark_trickle.sql.types.coercion import canonical, is_unknown
from support.meaning import table
from support.tpch import source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parent
ROW = source(
    "one",
    "i int, n bigint, x double, d decimal(12,2), s string, t string, day date, ts timestamp, "
    "ntz timestamp_ntz, b boolean, nul int, xs array<int>, ys array<string>, m map<string, int>, "
    "st struct<x: int, y: string>, nested struct<inner: struct<z: int>, list: array<int>>, "
    "bin binary, odd_name int, group int",
)
SOURCES = {
    "one": replace(
        ROW,
        columns=tuple(replace(c, name=c.name.replace("_", " ")) for c in ROW.columns),
    )
}
VALUES = """
SELECT 3 AS i, CAST(7 AS BIGINT) AS n, CAST(2.5 AS DOUBLE) AS x, CAST(12.34 AS DECIMAL(12,2)) AS d,
  'Spark' AS s, 'Stark' AS t, DATE '2020-02-29' AS day, TIMESTAMP '2020-02-29 13:14:15.5' AS ts,
  TIMESTAMP_NTZ '2020-02-29 01:02:03' AS ntz, true AS b, CAST(NULL AS INT) AS nul,
  array(1, 2, 3) AS xs, array('u', 'v') AS ys, map('a', 1, 'b', 2) AS m,
  named_struct('x', 4, 'y', 'w') AS st,
  named_struct('inner', named_struct('z', 5), 'list', array(6)) AS nested,
  CAST('SQL' AS BINARY) AS bin, 8 AS `odd name`, 9 AS `group`
"""


def expressions() -> list[str]:
    return [line for line in (FOLDER / "expressions.txt").read_text().splitlines() if line.strip()]


def test_expressions_keep_their_meaning_and_have_the_type_spark_gives_them(
    spark: SparkSession,
) -> None:
    row = spark.sql(VALUES)
    # A local relation: Spark then evaluates the whole query while it plans, without code generation.
    spark.createDataFrame(row.collect(), row.schema).createOrReplaceTempView("one")
    written = expressions()
    original = "SELECT " + ", ".join(f"{text} AS c{k}" for k, text in enumerate(written))
    original += " FROM one"
    bound = bind(original, SOURCES)
    assert bound.plan is not None
    assert bound.blockers == ()
    ours = lower(normalize(bound.plan), table, outputs=bound.names).sql(TrickleSpark)
    expected, actual = spark.sql(original), spark.sql(ours)
    rows = expected.first(), actual.first()
    assert rows[0] is not None
    assert rows[1] is not None
    wrong = []
    for k, text in enumerate(written):
        if str(rows[0][k]) != str(rows[1][k]):
            wrong.append(f"{text}: {rows[0][k]!r} became {rows[1][k]!r}")
        kinds = expected.schema[k].dataType, actual.schema[k].dataType
        if kinds[0] != kinds[1]:
            wrong.append(f"{text}: {kinds[0]} became {kinds[1]}")
        inferred = bound.plan.columns[k].type
        if not is_unknown(inferred) and inferred != _canonical(kinds[0].simpleString()):
            wrong.append(
                f"{text}: {kinds[0].simpleString()} is inferred as {inferred.sql('spark')}"
            )
    assert wrong == []


NUMBERS = """
127 -127 -(127) -(-127) +127 - -127 (127) (-127) (-(127)) +(-127) 127Y -128Y -(127Y) 1S 1L -(1L) +1L -9223372036854775808L
-2147483648 -(2147483647) 2147483648 -9223372036854775808 -(123456789012) 0 -0 00012 -(00012) 1.50 -(1.50) +1.5 -1.5BD 0.00
100000000000000000000 -(100000000000000000000) 1e2 -1D ~1 -(~1) CAST(1 AS INT) 1::bigint -(NULL)
"""
OPERATIONS = "x * d|d * x|x + d|d - x|x / d|d / x|x % d|x / e|e * x|x * i|x + n|- x * d|(x) / d"


def test_numbers_meet_decimals_with_the_digits_that_spark_counts(spark: SparkSession) -> None:
    """In the expression itself, and as a column of a subquery, which is no literal any more."""
    made = source("nums", "i int, n bigint, d decimal(10,2), e decimal(38,10)")
    values = "SELECT 1 AS i, 1L AS n, CAST(3 AS DECIMAL(10,2)) AS d, CAST(7 AS DECIMAL(38,10)) AS e"
    spark.sql(values).createOrReplaceTempView("nums")
    numbers = re.findall(r"CAST\(.*?\)|- -\S+|\S+", NUMBERS)
    operations = OPERATIONS.split("|")
    plain = [re.sub(r"\bx\b", number, text) for number in numbers for text in operations]
    inside = ", ".join(f"{number} AS x{k}" for k, number in enumerate(numbers))
    outside = [re.sub(r"\bx\b", f"x{k}", text) for k in range(len(numbers)) for text in operations]
    for asked, tables in (
        ([*numbers, *plain], "nums"),
        (outside, f"(SELECT *, {inside} FROM nums) AS q"),
    ):
        text = ", ".join(f"{each} AS c{k}" for k, each in enumerate(asked))
        original = f"SELECT {text} FROM {tables}"
        bound = bind(original, {"nums": made})
        assert bound.plan is not None
        plan = normalize(bound.plan)
        ours = lower(plan, table, outputs=bound.names).sql(TrickleSpark)
        expected, actual = spark.sql(original), spark.sql(ours)
        wrong = [
            f"{each}: {a.dataType.simpleString()} became {b.dataType.simpleString()} "
            f"and is inferred as {column.type.sql('spark')}"
            for each, a, b, column in zip(
                asked, expected.schema, actual.schema, plan.columns, strict=True
            )
            if a.dataType != b.dataType or column.type != _canonical(a.dataType.simpleString())
        ]
        assert wrong == []


def _canonical(text: str) -> exp.DataType:
    return canonical(exp.DataType.build(text.replace("void", "null"), dialect="spark"))


SETUP = {
    "t": "(1, 1, 1, array(1, 2)), (1, 1, 1, array(1, 2)), (1, 2, 0, array()), (2, NULL, 1, NULL), "
    "(2, 3, 1, array(3, NULL)), (NULL, 1, 2, array(1)), (NULL, NULL, NULL, NULL), "
    "(3, 1, 0, array(5)) AS q(a, b, c, xs)",
    "u": "(1, 1), (1, 2), (1, 2), (2, NULL), (2, 3), (NULL, 2), (4, 0), (3, 3) AS q(a, d)",
}
QUERIES = """
SELECT a, sum(b), count(*), avg(b) FROM t GROUP BY a HAVING count(*) > 1
SELECT a, b, d FROM t FULL JOIN u USING (a) WHERE d > 0 OR d IS NULL
SELECT a FROM t WHERE a NOT IN (SELECT d FROM u WHERE d IS NOT NULL)
SELECT a FROM t WHERE a NOT IN (SELECT d FROM u)
SELECT a, a IN (SELECT d FROM u) AS i, a NOT IN (SELECT d FROM u) AS n FROM t
SELECT a, (a = 1 OR a IN (SELECT d FROM u)) AS i FROM t
SELECT a FROM t WHERE NOT (a = 1 OR a IN (SELECT d FROM u WHERE d IS NOT NULL))
SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a) AS n FROM t
SELECT a FROM t WHERE b > (SELECT avg(d) FROM u WHERE u.a = t.a)
SELECT a, b, sum(c), grouping(a), grouping_id(a, b) FROM t GROUP BY CUBE (a, b)
SELECT a FROM t INTERSECT ALL SELECT d FROM u
SELECT a FROM t EXCEPT ALL SELECT d FROM u
SELECT a, e.x FROM t LATERAL VIEW OUTER explode(xs) e AS x
SELECT a, posexplode_outer(xs) FROM t
SELECT t.a, q.m FROM t, LATERAL (SELECT max(d) AS m FROM u WHERE u.a = t.a) q
SELECT a, b, sum(b) OVER (PARTITION BY a ORDER BY b, c) AS s FROM t
SELECT a, b FROM t ORDER BY b DESC, a, c LIMIT 4
SELECT a, struct(*) AS all FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.d <> t.b)
"""


def test_queries_give_what_spark_gives(spark: SparkSession) -> None:
    for name, rows in SETUP.items():
        frame = spark.sql(f"SELECT * FROM VALUES {rows}")
        spark.createDataFrame(frame.collect(), frame.schema).createOrReplaceTempView(name)
    made = (source("t", "a int, b int, c int, xs array<int>"), source("u", "a int, d int"))
    for query in QUERIES.strip().splitlines():
        bound = bind(query, {one.name: one for one in made})
        assert bound.plan is not None
        ours = lower(normalize(bound.plan), table, outputs=bound.names).sql(TrickleSpark)
        expected, actual = spark.sql(query), spark.sql(ours)
        assert [f.dataType for f in actual.schema] == [f.dataType for f in expected.schema], query
        assert Counter(map(str, actual.collect())) == Counter(map(str, expected.collect())), query
