"""Columns of a new table from what users have: types in words, Arrow's, Spark's, or data itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_trickle.errors import InvalidDataError, UserError
from spark_trickle.statements import ddl
from spark_trickle.statements.text.cursor import Cursor
from spark_trickle.storage.records import NewColumn

_FLAT: tuple[tuple[Any, str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_uint8, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_uint16, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_uint32, "bigint"),
    (pa.types.is_uint64, "decimal(20,0)"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_date, "date"),
)


def columns_of(given: Any) -> tuple[list[NewColumn], Any | None]:
    """The columns, and the rows to fill them with if ``given`` is data."""
    if isinstance(given, str):
        return _from_text(given), None
    if isinstance(given, Mapping):
        return [NewColumn(name, str(kind)) for name, kind in given.items()], None
    if isinstance(given, pa.Schema):
        return _from_arrow(given), None
    if hasattr(given, "fields") and hasattr(given, "jsonValue"):  # Spark's StructType
        return _from_spark(given), None
    if hasattr(given, "schema") and hasattr(given, "toArrow"):  # a Spark DataFrame
        return _from_spark(given.schema), given
    data = _arrow(given)
    return _from_arrow(data.schema), data


def _arrow(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
            names = dict.fromkeys(name for row in data for name in row)
            return pa.table({n: pa.array([row.get(n) for row in data]) for n in names})
        if type(data).__module__.split(".")[0] == "pandas":
            return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidDataError(f"the rows have no types in common: {error}") from None
    raise UserError(
        f"a table cannot be made from a {type(data).__name__}",
        hint='give columns ("id BIGINT, name STRING", or a dict), a schema of pyarrow or Spark, '
        "or data: a Spark DataFrame, a pyarrow Table, a pandas frame, a list of dicts",
    )


def _from_text(text: str) -> list[NewColumn]:
    found, _ = ddl.column_list(Cursor(f"({text})"))
    return [NewColumn(c.name, c.type, c.nullable, c.default, None, c.comment) for c in found]


def _from_spark(schema: Any) -> list[NewColumn]:
    from spark_trickle.spark.types import type_text

    return [NewColumn(f.name, type_text(f.dataType), f.nullable) for f in schema.fields]


def _from_arrow(schema: pa.Schema) -> list[NewColumn]:
    return [NewColumn(f.name, _type(f.name, f.type), f.nullable) for f in schema]


def _type(name: str, kind: pa.DataType) -> str:
    """Spark's name of an Arrow type."""
    for test, text in _FLAT:
        if test(kind):
            return text
    if pa.types.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_dictionary(kind):
        return _type(name, kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_type(name, kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_type(name, kind.key_type)},{_type(name, kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'`{f.name}`:{_type(name, f.type)}' for f in kind)}>"
    hint = "say which type it has: create the table with columns, then append"
    raise InvalidDataError(f"column {name} has the type {kind}, which no column has", hint=hint)
