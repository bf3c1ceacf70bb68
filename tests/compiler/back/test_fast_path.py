"""Which queries may be folded at commit, and why others may not."""

from __future__ import annotations

import pytest
from sqlglot import exp

from spark_trickle.compile import compile_query
from spark_trickle.delta.fast_path import FastPlan, NoFastPath, fast_path
from spark_trickle.ir.types import Column, TableSchema

TYPES = {
    "id": "bigint",
    "k": "string",
    "c": "varchar(5)",
    "n": "int",
    "b": "bigint",
    "d": "decimal(12,2)",
    "w": "decimal(38,18)",
    "h": "decimal(38,0)",
    "f": "double",
    "g": "float",
    "p": "boolean",
    "v": "date",
    "x": "timestamp",
    "y": "timestamp_ntz",
    "z": "binary",
    "a": "array<int>",
}


def source(name: str) -> TableSchema:
    columns = enumerate(TYPES.items())
    return TableSchema(
        name, tuple(Column(i, c, exp.DataType.build(t, "spark")) for i, (c, t) in columns)
    )


SOURCES = {"t": source("t"), "u": source("u")}


ELIGIBLE = [
    "SELECT count(*) AS c FROM t",
    "SELECT k, count(*) AS c, count(n) AS m, sum(d) AS s, avg(d) AS a, avg(n) AS i FROM t GROUP BY k",
    "SELECT k, p, v, x, y, z, d, b, count(*) AS c FROM t GROUP BY k, p, v, x, y, z, d, b",
    "SELECT count(f) AS f, count(g) AS g, count(a) AS a FROM t",
    "SELECT k, count_if(n > 3) AS c, bool_and(p) AS e, bool_or(n > 1) AS o FROM t GROUP BY k",
    "SELECT k, sum(CASE WHEN p THEN d ELSE 0 END) AS s FROM t WHERE n IN (1, 2) GROUP BY k",
    "SELECT k, sum(d) FILTER (WHERE n > 1) AS s FROM t GROUP BY k HAVING count(*) > 1",
    "SELECT r, sum(e) AS s FROM (SELECT n % 10 AS r, d * 2 AS e FROM t WHERE NOT p) GROUP BY r",
    "SELECT sum(d) AS s FROM t WHERE v >= DATE '2024-01-01' AND v < '2025-01-01'",
    "SELECT k, sum(d) / count(*) AS r, avg(d) > 3 AS h FROM t GROUP BY k ORDER BY k",
    "SELECT k, count(*) AS c FROM t WHERE w = h GROUP BY k",
    "SELECT DISTINCT k FROM t",
    "SELECT c, count(*) AS n FROM t WHERE c > k GROUP BY c",
    "SELECT k, sum(b) AS s FROM t WHERE x IS NOT NULL AND y <=> y GROUP BY k",
]

REFUSED = {
    "SELECT k, min(n) AS m FROM t GROUP BY k": ("MIN_MAX", "max"),
    "SELECT k, sum(f) AS s FROM t GROUP BY k": ("NOT_ADDITIVE", "SUM(f)"),
    "SELECT k, count(DISTINCT n) AS s FROM t GROUP BY k": ("", ""),
    "SELECT k, collect_list(n) AS s FROM t GROUP BY k": ("NOT_ADDITIVE", "COLLECT_LIST(n)"),
    "SELECT f, count(*) AS c FROM t GROUP BY f": ("KEY_TYPE", "DOUBLE"),
    "SELECT a, count(*) AS c FROM t GROUP BY a": ("KEY_TYPE", "ARRAY"),
    "SELECT upper(k) AS k, count(*) AS c FROM t GROUP BY 1": ("EXPRESSION", "UPPER(k)"),
    "SELECT k, count(*) AS c FROM t WHERE f > 1 GROUP BY k": ("EXPRESSION", "f > 1"),
    "SELECT k, count(*) AS c FROM t WHERE k > 1 GROUP BY k": ("EXPRESSION", "k > 1"),
    "SELECT k, count(*) AS c FROM t WHERE v > x GROUP BY k": ("EXPRESSION", "v > x"),
    "SELECT k, count(*) AS c FROM t WHERE x > TIMESTAMP '2024-01-01 00:00:00' GROUP BY k": (
        "EXPRESSION",
        "TIMESTAMP",
    ),
    "SELECT k, count(*) AS c FROM t WHERE v > '2024-1-1' GROUP BY k": ("EXPRESSION", "2024-1-1"),
    "SELECT k, count(*) AS c FROM t WHERE w IN (h, 1) GROUP BY k": ("EXPRESSION", "w IN (h, 1)"),
    "SELECT k, count(*) AS c FROM t WHERE n + 1 BETWEEN 2 AND 3 GROUP BY k": (
        "EXPRESSION",
        "before its turn",
    ),
    "SELECT -w AS m, count(*) AS c FROM t GROUP BY 1": ("EXPRESSION", "-w"),
    "SELECT CAST(w AS INT) AS m, count(*) AS c FROM t GROUP BY 1": ("EXPRESSION", "CAST(w AS INT)"),
    "SELECT CAST(k AS VARCHAR(2)) AS m, count(*) AS c FROM t GROUP BY 1": ("EXPRESSION", "a cast"),
    "SELECT TRY_CAST(b AS INT) AS m, count(*) AS c FROM t GROUP BY 1": ("EXPRESSION", "TRY_CAST"),
    "SELECT date_trunc('day', x) AS m, count(*) AS c FROM t GROUP BY 1": ("EXPRESSION", ""),
    "SELECT k COLLATE UNICODE_CI AS m, count(*) AS c FROM t GROUP BY 1": ("COLLATION", "collation"),
    "SELECT k FROM t WHERE n > 1": ("NO_AGGREGATE", "no aggregate"),
    "SELECT t.k, count(*) AS c FROM t JOIN u ON t.id = u.id GROUP BY t.k": ("SEVERAL_TABLES", ""),
    "SELECT k, count(*) AS c FROM t WHERE id IN (SELECT id FROM u) GROUP BY k": (
        "SEVERAL_TABLES",
        "",
    ),
    "SELECT k, count(*) AS c FROM (SELECT k FROM t UNION ALL SELECT k FROM u) GROUP BY k": (
        "SEVERAL_TABLES",
        "union",
    ),
    "SELECT count(*) AS c FROM (SELECT DISTINCT k FROM t)": ("SEVERAL_STATES", ""),
    "SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c LIMIT 3": ("NOT_ADDITIVE", "LIMIT"),
    "SELECT k, count(*) AS c FROM t GROUP BY ROLLUP (k)": ("SHAPE", ""),
    "SELECT k, count(*) AS c, rand() AS r FROM t GROUP BY k": ("VOLATILE_FUNCTION", ""),
}


@pytest.mark.parametrize("query", ELIGIBLE)
def test_eligible(query: str) -> None:
    plan = compile_query(query, SOURCES).fast_path
    assert isinstance(plan, FastPlan), plan
    assert plan.source == "t"
    assert [name for name, _ in plan.outputs] == [
        column.name for column in compile_query(query, SOURCES).result.columns
    ]


@pytest.mark.parametrize("query", REFUSED)
def test_refused_with_a_reason(query: str) -> None:
    code, part = REFUSED[query]
    refused = compile_query(query, SOURCES).fast_path
    assert isinstance(refused, NoFastPath), refused
    assert code in refused.code
    assert part in refused.reason


@pytest.mark.parametrize(
    ("query", "eligible"),
    [
        ("SELECT k, count(*) AS c, count(n) AS m FROM t WHERE n > 3 GROUP BY k", True),
        ("SELECT k, sum(n + 1) AS s FROM t GROUP BY k", False),
        ("SELECT k, sum(d) AS s FROM t GROUP BY k", False),
        ("SELECT CAST(b AS INT) AS i, count(*) AS c FROM t GROUP BY 1", False),
    ],
)
def test_without_ansi_nothing_that_may_fail(query: str, eligible: bool) -> None:
    compiled = compile_query(query, SOURCES)
    assert isinstance(compiled.fast_path, FastPlan)
    found = fast_path(compiled.parts, ansi=False)
    assert isinstance(found, FastPlan) is eligible
    if isinstance(found, NoFastPath):
        assert found.code == "ANSI_OFF"


def test_the_plan_as_text() -> None:
    query = (
        "SELECT k, sum(d) AS s FROM t WHERE v >= DATE '2024-01-01' GROUP BY k HAVING count(*) > 1"
    )
    assert str(compile_query(query, SOURCES).fast_path) == (
        "source: t (k, d, v)\n"
        "filter: (v >= DATE '2024-01-01')\n"
        "key k = k\n"
        "add to __rows: 1\n"
        "add to __sum_sum: COALESCE(d, 0.00)\n"
        "add to __sum_count: CASE WHEN NOT((d IS NULL)) THEN 1 ELSE 0 END\n"
        "having: (__rows > 1)\n"
        "show k = k\n"
        "show s = CASE WHEN (__sum_count > 0) THEN __sum_sum ELSE NULL END\n"
    )
