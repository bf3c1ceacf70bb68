"""Columns of Arrow as the plain values of exact expressions, and back.

Dates and times pass as numbers of their own unit, decimals as integers without their point: nothing
goes through Python's date or decimal objects, which know fewer years and digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import ExecutionError, invalid_text
from spark_trickle.ir.exact import ExactKind, ExactType

_LOW = (1 << 64) - 1
_ARROW = {
    ExactKind.BOOLEAN: pa.bool_(),
    ExactKind.TINYINT: pa.int8(),
    ExactKind.SMALLINT: pa.int16(),
    ExactKind.INT: pa.int32(),
    ExactKind.BIGINT: pa.int64(),
    ExactKind.DOUBLE: pa.float64(),
    ExactKind.STRING: pa.string(),
    ExactKind.BINARY: pa.binary(),
    ExactKind.DATE: pa.date32(),
    ExactKind.TIMESTAMP: pa.timestamp("us", "UTC"),
    ExactKind.TIMESTAMP_NTZ: pa.timestamp("us"),
}


def arrow_type(type: ExactType) -> pa.DataType:
    """The Arrow type of a stored column."""
    if type.kind is ExactKind.DECIMAL:
        return pa.decimal128(type.precision, type.scale)
    return _ARROW[type.kind]


def from_arrow(column: pa.ChunkedArray, type: ExactType) -> list[Any]:
    """The values of a column."""
    if type.kind is ExactKind.OPAQUE:
        return [valid or None for valid in pc.is_valid(column).to_pylist()]
    target = arrow_type(type)
    if column.type != target:
        column = column.cast(target)
    match type.kind:
        case ExactKind.DECIMAL:
            return [value for chunk in column.chunks for value in _decimals(chunk, type)]
        case ExactKind.DATE:
            return list(column.cast(pa.int32()).to_pylist())
        case ExactKind.TIMESTAMP | ExactKind.TIMESTAMP_NTZ:
            return list(column.cast(pa.int64()).to_pylist())
        case ExactKind.DOUBLE if pc.any(pc.is_nan(column)).as_py():
            return [number(value) for value in column.to_pylist()]
        case _:
            try:
                return list(column.to_pylist())
            except UnicodeDecodeError:
                raise invalid_text() from None


def number(value: float) -> float:
    """The value, unless it is NaN, which equals itself and is the greatest in Spark, not here."""
    if value != value:
        raise ExecutionError("[NAN] what is not a number is left to Spark")
    return value


def _decimals(array: pa.Array, type: ExactType) -> list[int | None]:
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


def to_arrow(values: list[Any], type: ExactType) -> pa.Array:
    """A column of these values."""
    target = arrow_type(type)
    match type.kind:
        case ExactKind.DECIMAL:
            return _decimal_array(values, target)
        case ExactKind.DATE:
            return pa.array(values, pa.int32()).cast(target)
        case ExactKind.TIMESTAMP | ExactKind.TIMESTAMP_NTZ:
            return pa.array(values, pa.int64()).cast(target)
        case _:
            return pa.array(values, target)


def to_plain(values: list[Any], type: ExactType) -> list[Any] | None:
    """These values as Arrow would give them back; None for kinds that are not the same to all: what has
    a calendar, a NaN or two zeros."""
    match type.kind:
        case ExactKind.DECIMAL:
            return [None if v is None else Decimal(f"{v}E-{type.scale}") for v in values]
        case ExactKind.DATE | ExactKind.TIMESTAMP | ExactKind.TIMESTAMP_NTZ | ExactKind.DOUBLE:
            return None
        case _:
            return values


def _decimal_array(values: list[int | None], target: pa.DataType) -> pa.Array:
    data = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
    valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(data)])
