"""Rows of Arrow tables as keys of a dictionary: equal iff Spark's ``<=>`` holds in every column.

NaN equals NaN, -0.0 equals 0.0, NULL equals NULL; nested values compare by their parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

RowKey = tuple[Any, ...]
_NAN = ("NaN",)


def row_keys(rows: pa.Table, columns: Sequence[str]) -> list[RowKey]:
    """One key per row, over the given columns."""
    if not columns:
        return [()] * int(rows.num_rows)
    values = [_keys(rows.column(name)) for name in columns]
    return list(zip(*values, strict=True))


def among(rows: pa.Table, column: str, values: pa.Table) -> pa.Array | None:
    """Which rows have a value of ``column`` that also occurs in ``values``; None: cannot tell."""
    wanted = values.column(column)
    if pa.types.is_nested(wanted.type) or pa.types.is_floating(wanted.type):
        return None
    return pc.is_in(rows.column(column), value_set=wanted.combine_chunks().unique())


def _keys(column: pa.ChunkedArray) -> Iterable[Any]:
    values = column.to_pylist()
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return [_key(value) for value in values]
    return list(values)


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_key(item) for item in value)
    return value
