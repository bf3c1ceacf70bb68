"""Rows that a statement of PostgreSQL's holds in this process between its steps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.queries import PgColumns
from spark_trickle.sql.pg.types import PgType, from_spark
from spark_trickle.storage.files.by_columns import grouped


def arrow_columns(rows: pa.Table) -> PgColumns:
    """The columns of rows that are in this process."""
    return [(field.name, _type(field.type)) for field in rows.schema]


def _type(type: pa.DataType) -> PgType:
    if pa.types.is_decimal(type):
        return from_spark(
            exp.DataType.build(f"decimal({type.precision},{type.scale})", dialect="spark")
        )
    if pa.types.is_timestamp(type):
        return t.TIMESTAMP if type.tz is None else t.TIMESTAMPTZ
    return _ARROW.get(str(type), t.OPAQUE)


_ARROW = {"int16": t.INT2, "int32": t.INT4, "int64": t.INT8, "float": t.FLOAT4, "double": t.FLOAT8}
_ARROW |= {"string": t.TEXT, "large_string": t.TEXT, "bool": t.BOOL, "date32[day]": t.DATE}


def repeated(rows: pa.Table, keys: list[str]) -> bool:
    complete = _complete(rows, keys)
    return bool(grouped(complete, keys).num_rows < complete.num_rows)


def _complete(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Without NULL in the key: it never is the same as another."""
    for key in keys:
        rows = rows.filter(rows.column(key).is_valid())
    return rows


def first(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Of rows with one key the first."""
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for i, record in enumerate(rows.select(keys).to_pylist()):
        key = tuple(record.values())
        if None in key or key not in seen:
            kept.append(i)
        seen.add(key)
    return rows.take(kept)
