"""Columns of Arrow as the plain values of exact expressions, and back.

Dates and times pass as numbers of their own unit, decimals as integers without their point: nothing
goes through Python's date or decimal objects, which know fewer years and digits.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import invalid_text
from spark_trickle.ir.exact import Kind, Type

_LOW = (1 << 64) - 1
_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
}


def arrow_type(type: Type) -> pa.DataType:
    """The Arrow type of a stored column."""
    if type.kind is Kind.DECIMAL:
        return pa.decimal128(type.precision, type.scale)
    return _ARROW[type.kind]


def from_arrow(column: pa.ChunkedArray, type: Type) -> list[Any]:
    """The values of a column."""
    if type.kind is Kind.OPAQUE:
        return [valid or None for valid in pc.is_valid(column).to_pylist()]
    target = arrow_type(type)
    if column.type != target:
        column = column.cast(target)
    match type.kind:
        case Kind.DECIMAL:
            return [value for chunk in column.chunks for value in _decimals(chunk, type)]
        case Kind.DATE:
            return list(column.cast(pa.int32()).to_pylist())
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return list(column.cast(pa.int64()).to_pylist())
        case _:
            try:
                return list(column.to_pylist())
            except UnicodeDecodeError:
                raise invalid_text() from None


def _decimals(array: pa.Array, type: Type) -> list[int | None]:
    if not len(array):
        return []
    words = memoryview(array.buffers()[1]).cast("q")
    start, end = 2 * array.offset, 2 * (array.offset + len(array))
    low: list[int | None] = list(words[start:end:2])
    if type.precision > 18:
        pairs = zip(words[start + 1 : end : 2], words[start:end:2], strict=True)
        low = [(high << 64) | (low & _LOW) for high, low in pairs]
    if not array.null_count:
        return low
    valid = array.is_valid().to_pylist()
    return [n if v else None for n, v in zip(low, valid, strict=True)]


def to_arrow(values: list[Any], type: Type) -> pa.Array:
    """A column of these values."""
    target = arrow_type(type)
    match type.kind:
        case Kind.DECIMAL:
            return _decimal_array(values, target)
        case Kind.DATE:
            return pa.array(values, pa.int32()).cast(target)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return pa.array(values, pa.int64()).cast(target)
        case _:
            return pa.array(values, target)


def _decimal_array(values: list[int | None], target: pa.DataType) -> pa.Array:
    data = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
    valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(data)])
