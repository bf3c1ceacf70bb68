"""Rows of Arrow tables as keys of a dictionary: equal iff Spark's ``<=>`` holds in every column.

NaN equals NaN, -0.0 equals 0.0, NULL equals NULL; nested values compare by their parts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.files.values import plain
from spark_trickle.storage.records import WEIGHT

RowKey = tuple[Any, ...]
_NAN = ("NaN",)


def row_keys(rows: pa.Table, columns: Sequence[str]) -> list[RowKey]:
    """One key per row, over the given columns."""
    if not columns:
        return [()] * int(rows.num_rows)
    values = [_keys(rows.column(name)) for name in columns]
    return list(zip(*values, strict=True))


def some_of(rows: pa.Table, columns: Sequence[str], others: pa.Table) -> pa.Array:
    """Indices of the rows that may equal one of the others in these columns, judged one by one."""
    chosen = pa.array(np.arange(rows.num_rows))
    for name in columns:
        wanted = others.column(name)
        if not _inexact(wanted.type):
            values = rows.column(name).take(chosen)
            chosen = chosen.filter(pc.is_in(values, value_set=wanted.combine_chunks().unique()))
    return chosen


def equal_in_arrow(type: str) -> bool:
    """Whether values of a Spark type are equal just when their Arrow values are."""
    return not type.startswith(("float", "double", "array", "struct", "map", "variant"))


def _inexact(type: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type) or pa.types.is_floating(type))


def _keys(column: pa.ChunkedArray) -> Iterable[Any]:
    values = plain(column)
    if _inexact(column.type):
        return [_key(value) for value in values]
    return values


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map
        return frozenset((_key(name), _key(item)) for name, item in value)
    if isinstance(value, list):
        return tuple(_key(item) for item in value)
    return value


def subtract(rows: pa.Table, others: pa.Table) -> pa.Table:
    """``rows`` (with weights) minus ``others`` (each of weight 1), net."""
    names = [name for name in rows.column_names if name != WEIGHT]
    weights: Counter[RowKey] = Counter()
    places: dict[RowKey, int] = {}
    for place, (key, weight) in enumerate(
        zip(row_keys(rows, names), rows.column(WEIGHT).to_pylist(), strict=True)
    ):
        weights[key] += weight
        places.setdefault(key, place)
    for place, key in enumerate(row_keys(others, names), start=rows.num_rows):
        weights[key] -= 1
        places.setdefault(key, place)
    left = [(places[key], weight) for key, weight in weights.items() if weight]
    both = pa.concat_tables([rows.select(names), others.select(names)])
    chosen = both.take(pa.array([place for place, _ in left], pa.int64()))
    return chosen.append_column(WEIGHT, pa.array([weight for _, weight in left], pa.int64()))
