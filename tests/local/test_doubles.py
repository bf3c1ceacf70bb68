"""Doubles in this process: added in the order of the rows, never NaN, and zero has no sign when shown."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from spark_trickle.compile import compile_query
from spark_trickle.errors import InternalError
from spark_trickle.ir.types import Column, Side, TableSchema
from spark_trickle.maintain.refresh import locally
from spark_trickle.prove.plans import NotLocal, local_plan
from spark_trickle.storage.records import WEIGHT

INF, NAN = float("inf"), float("nan")
SOURCE = TableSchema(
    "t",
    tuple(
        Column(i, name, exp.DataType.build(kind, "spark"))
        for i, (name, kind) in enumerate((("k", "int"), ("v", "double"), ("w", "double")))
    ),
)


def result(query: str, rows: list[tuple[int, float | None, float | None]]) -> Any:
    """The rows of a query over these; None if Spark must answer."""
    plan = compile_query(query, {"t": SOURCE}).normalized
    assert plan is not None
    assert not isinstance(local_plan(plan), NotLocal)
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, names=["k", "v", "w"])

    class Rows(locally.Near):
        def _taken(self, source: str, side: Side) -> pa.Table:
            return table

    near = Rows({}, {})
    exact = local_plan(plan)
    names = [column.name for column in plan.columns]
    found, again = (locally.run(exact, names, near.read, rows) for rows in (0, locally.MANY))  # type: ignore[arg-type]
    assert str(found) == str(again), "by rows and by columns"
    if found is None:
        return None
    return Counter(tuple(row.values()) for row in found.drop([WEIGHT]).to_pylist())


def test_sums_are_in_the_order_of_the_rows_and_begin_with_zero() -> None:
    rows = [(1, 0.1, None), (1, 0.2, None), (1, 0.3, -0.0), (2, 1e16, None), (2, 1.0, 5.0)]
    found = result("SELECT k, sum(v) AS s, avg(w) AS a, count(w) AS n FROM t GROUP BY k", rows)
    assert found == Counter([(1, 0.1 + 0.2 + 0.3, 0.0, 1), (2, 1e16 + 1.0, 5.0, 1)])
    none = result("SELECT sum(v) AS s, avg(v) AS a FROM t", [(1, None, None)])
    assert none == Counter([(None, None)])


def test_infinities_add_up_and_what_is_not_a_number_is_for_spark() -> None:
    query = "SELECT sum(v) AS s FROM t"
    assert result(query, [(1, INF, None), (1, 1.0, None)]) == Counter([(INF,)])
    assert result(query, [(1, 1e308, None), (1, 1e308, None)]) == Counter([(INF,)])
    assert result(query, [(1, INF, None), (1, -INF, None)]) is None
    assert result(query, [(1, NAN, None)]) is None
    assert result("SELECT v * w AS p FROM t", [(1, INF, 0.0)]) is None


def test_filters_and_extrema() -> None:
    rows = [(1, 1.5, 2.0), (1, -0.0, 2.0), (2, 7.25, None), (2, INF, 1.0)]
    found = result("SELECT k, min(v) AS a, max(v) AS b FROM t WHERE v < 1e9 GROUP BY k", rows)
    assert found == Counter([(1, 0.0, 1.5), (2, 7.25, 7.25)])
    assert result("SELECT v + w * 2 AS x FROM t WHERE k = 1", rows) == Counter([(5.5,), (4.0,)])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v, count(*) AS n FROM t GROUP BY v",
        "SELECT DISTINCT v FROM t",
        "SELECT l.k FROM t l JOIN t m ON l.v = m.w",
        "SELECT k FROM t WHERE v IN (1e0, 2e0)",
    ],
)
def test_doubles_are_no_keys(query: str) -> None:
    plan = compile_query(query, {"t": SOURCE}).normalized
    assert plan is not None
    assert isinstance(local_plan(plan), NotLocal)


def test_the_last_digits_are_open_and_no_others() -> None:
    def delta(*rows: tuple[int, float, int]) -> pa.Table:
        columns = zip(*rows, strict=True)
        types = (pa.int32(), pa.float64(), pa.int64())
        arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
        return pa.table(arrays, names=["k", "s", WEIGHT])

    here = delta((1, 0.6, 1), (1, 0.3, -1))
    locally.check("part", here, delta((1, 0.3, -1), (1, 0.6000000000000001, 1)))
    for wrong in (
        delta((1, 0.3, -1), (1, 0.61, 1)),
        delta((1, 0.3, -1), (2, 0.6, 1)),
        delta((1, 0.3, -1), (1, 0.6, 2)),
        delta((1, 0.6, 1)),
    ):
        with pytest.raises(InternalError):
            locally.check("part", here, wrong)
