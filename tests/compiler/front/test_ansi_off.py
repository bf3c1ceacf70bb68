"""Types that meet with ANSI off: text stays text beside numbers, and arithmetic on it is DOUBLE."""

from __future__ import annotations

import pytest
from sqlglot import exp

from spark_trickle.compile import compile_query
from spark_trickle.delta.support import FullOnly
from spark_trickle.ir.types import Column, TableSchema

TYPES = {"s": "string", "i": "int", "b": "bigint", "f": "float", "d": "date", "n": "decimal(10,2)"}
T = TableSchema(
    "t",
    tuple(
        Column(place, name, exp.DataType.build(type, dialect="spark"))
        for place, (name, type) in enumerate(TYPES.items())
    ),
)


@pytest.mark.parametrize(
    ("query", "ansi", "legacy"),
    [
        ("SELECT s FROM t UNION SELECT i FROM t", "BIGINT", "STRING"),
        ("SELECT n FROM t UNION ALL SELECT s FROM t", "DOUBLE", "STRING"),
        ("SELECT d FROM t EXCEPT ALL SELECT s FROM t", "DATE", "STRING"),
        ("SELECT coalesce(s, b) AS x FROM t", "BIGINT", "STRING"),
        ("SELECT CASE WHEN i > 0 THEN i ELSE s END AS x FROM t", "BIGINT", "STRING"),
        ("SELECT s + i AS x FROM t", "BIGINT", "DOUBLE"),
        ("SELECT f + b AS x FROM t", "DOUBLE", "FLOAT"),
    ],
)
def test_types_that_meet(query: str, ansi: str, legacy: str) -> None:
    for on, expected in ((True, ansi), (False, legacy)):
        (column,) = compile_query(query, {"t": T}, ansi=on).result.columns
        assert column.type.sql("spark") == expected


def test_a_sum_of_text_and_numbers_is_a_sum_of_floats() -> None:
    """With ANSI off it is no exact sum, so its groups are recomputed."""
    kinds = {
        on: compile_query("SELECT i, sum(s + b) AS x FROM t GROUP BY i", {"t": T}, ansi=on)
        .parts[0]
        .strategy.value
        for on in (True, False)
    }
    assert kinds == {True: "additive", False: "touched"}


@pytest.mark.parametrize(
    ("type", "code"), [("DECIMAL(28,2)", None), ("DECIMAL(29,2)", "DECIMAL_SUM")]
)
def test_a_sum_that_may_become_null_in_silence(type: str, code: str | None) -> None:
    query = f"SELECT i, 1 + sum(CAST(b AS {type})) AS x FROM t GROUP BY i"
    for ansi in (True, False):
        verdict = compile_query(query, {"t": T}, ansi=ansi).verdict
        found = verdict.code if isinstance(verdict, FullOnly) else None
        assert found == (None if ansi else code)
