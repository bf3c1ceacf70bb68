"""The rule by which ``verify`` compares what Spark leaves open."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_trickle.maintain.refresh.lenient import without_open
from spark_trickle.sql.parse import parse_query

FLOATS = "SELECT g, sum(x) AS s FROM t GROUP BY g"
LISTS = "SELECT g, collect_list(x) AS s FROM t GROUP BY g"
NAN = float("nan")


def left(query: str, rows: list[tuple], kind: pa.DataType | None = None) -> list[tuple]:
    names = ("g", "s", "__weight")
    schema = pa.schema([("g", pa.string()), ("s", kind or pa.float64()), ("__weight", pa.int64())])
    data = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
    found = without_open(data, parse_query(query).tree)
    assert found.schema == schema
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0.1 + 0.2, 0.3, True),
        (1e300, 1e300 * (1 + 1e-12), True),
        (1.0, 1.0 + 1e-8, False),
        (0.0, 1e-300, False),
        (NAN, NAN, True),
        (None, 0.0, False),
        (float("inf"), float("-inf"), False),
    ],
)
def test_floats(one, other, same):
    rows = [("a", one, 1), ("a", other, -1)]
    assert bool(left(FLOATS, rows)) is not same


def test_only_pairs_of_the_same_group_cancel():
    rows = [("a", 1.0, 2), ("a", 1.0 + 1e-12, -1), ("b", 1.0, -1)]
    assert left(FLOATS, rows) == [("a", 1.0, 1), ("b", 1.0, -1)]


def test_plain_columns_are_compared_exactly():
    rows = [("a", 1.0, 1), ("a", 1.0 + 1e-12, -1)]
    assert left("SELECT g, x AS s FROM t", rows) == rows


def test_collected_lists_may_have_another_order():
    kind = pa.list_(pa.int64())
    assert left(LISTS, [("a", [1, 2, 2], 1), ("a", [2, 1, 2], -1)], kind) == []
    rows = [("a", [1, 2], 1), ("a", [1, 1], -1)]
    assert left(LISTS, rows, kind) == rows
    rows = [("a", [1, 2], 1), ("a", [2, 1], -1)]
    assert left("SELECT g, array(1, 2) AS s FROM t", rows, kind) == rows
