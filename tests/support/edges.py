"""Every flat type with its edge values, and queries that use them in every role."""

from __future__ import annotations

import math
import struct
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa

_LONG = "x" * 300 + "é"
_DAYS = [
    0, -1, 2**31 - 1, -(2**31), -(2**31) + 1, -719162, -354285, -141428, -141427, -141438, 2932896,
    2932897, -719529, None,
]  # fmt: skip
_MICROS = [
    -1, 0, 2**63 - 1, -(2**63), -62135596800000000, -30610224000000001, -12219292800000001,
    -12219379200000001, -12219292800000000, 253402300799999999, 253402300800000000,
    1_709_980_200_123_456, -62167219200000001, None,
]  # fmt: skip

EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "tinyint": (pa.int8(), [0, -(2**7), 2**7 - 1, None]),
    "smallint": (pa.int16(), [0, -(2**15), 2**15 - 1, None]),
    "int": (pa.int32(), [0, -(2**31), 2**31 - 1, None]),
    "bigint": (pa.int64(), [0, -(2**63), 2**63 - 1, 2**31, -(2**31) - 1, None]),
    "float": (pa.float32(), [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, None]),
    "double": (pa.float64(), [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, None]),
    "decimal(5,2)": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01"), None]),
    "decimal(38,10)": (pa.decimal128(38, 10), [Decimal("9" * 28 + ".1234567891"), Decimal("-1e-10")]),
    "string": (pa.string(), ["", " ", "a", "A", "a ", _LONG, "ünï 🦆", "a\0b", "it's \\", None]),
    "binary": (pa.binary(), [b"", b"\0", b"\xff\x00", b"a", None]),
    "date": (pa.date32(), _DAYS),
    "timestamp": (pa.timestamp("us", "UTC"), _MICROS),
    "timestamp_ntz": (pa.timestamp("us"), _MICROS),
}  # fmt: skip
NAMES = {f"c{i}": kind for i, kind in enumerate(EDGES)}
EXACT = [name for name, kind in NAMES.items() if kind not in ("float", "double")]
ROWS = 28

DDL = "id INT, p INT, " + ", ".join(f"{name} {kind}" for name, kind in NAMES.items())


def rows(ids: list[int], first: int = 0) -> pa.Table:
    """Row i has the i-th edge value of every type, counted round; ``first`` is the number of ids[0]."""
    numbers = range(first, first + len(ids))
    data = {"id": pa.array(ids, pa.int32()), "p": pa.array([n % 3 for n in numbers], pa.int32())}
    for name, kind in NAMES.items():
        type, values = EDGES[kind]
        data[name] = pa.array([values[n % len(values)] for n in numbers], type)
    return pa.table(data)


def _each(text: str, names: list[str]) -> str:
    return ", ".join(text.format(name) for name in names)


_ALL = ", ".join(EXACT)
_SUMMED = [
    name
    for name, kind in NAMES.items()
    if kind in ("tinyint", "smallint", "int", "float", "double")
]
QUERIES = {
    "grouped": f"SELECT {_ALL}, count(*) AS n, min(id) AS low, count(DISTINCT id) AS ids FROM a GROUP BY {_ALL}",
    "joined": "SELECT x.id, y.id AS other FROM a AS x JOIN b AS y ON "
    + " AND ".join(f"x.{name} <=> y.{name}" for name in EXACT),
    "left_joined": "SELECT x.id, y.id AS other, y.c11, y.c13 FROM a AS x LEFT JOIN b AS y ON "
    + " AND ".join(f"x.{name} = y.{name}" for name in EXACT[-3:]),
    "sorted": "SELECT id, "
    + _each("row_number() OVER (PARTITION BY p ORDER BY {0}, id) AS r_{0}", list(NAMES))
    + " FROM a",
    "folded": "SELECT p, "
    + _each("min({0}) AS l_{0}, max({0}) AS h_{0}, count({0}) AS n_{0}", list(NAMES))
    + _each(", sum({0}) AS s_{0}", _SUMMED).replace(", ,", ",")
    + ", sum(CAST(c4 AS DECIMAL(38,0))) AS s4, sum(c7) AS s7, avg(c7) AS a7 FROM a GROUP BY p",
    "counted": "SELECT p, " + _each("count(DISTINCT {0}) AS d_{0}", EXACT[-1:]) + " FROM a GROUP BY p",
    "distinct_rows": f"SELECT DISTINCT {_ALL} FROM a",
    "partitioned": f"SELECT id, count(*) OVER (PARTITION BY {_ALL}) AS n FROM a",
    "first_rows": "SELECT c11, c12, c13, id FROM a ORDER BY c11 DESC, c12, c13, id LIMIT 5",
}  # fmt: skip


def contents(found: pa.Table) -> Counter[tuple[Any, ...]]:
    """The rows as a multiset; dates and timestamps as numbers, equal floats as one."""
    return Counter(zip(*(_plain(column) for column in found.columns), strict=True))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        assert column.type.unit == "us"
        column = column.cast(pa.int64())
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [v if v is None else _bits(v) for v in values]
    return values


def _bits(value: float) -> str:
    return "NaN" if math.isnan(value) else struct.pack(">d", value + 0.0).hex()
