"""Values in the catalog: as text (statistics, defaults) and as inlined rows, in DuckDB's forms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import CatalogError, invalid_text
from spark_trickle.storage.files import calendar
from spark_trickle.storage.files.literals import parse_nested
from spark_trickle.storage.files.types import NESTED, arrow_type
from spark_trickle.storage.records import Column

RESERVED = frozenset({"row_id", "begin_snapshot", "end_snapshot"})
"""Columns that every table of inlined rows has: a user's column cannot have these names there."""
_LONGEST_NAME = 63
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
TEMPORAL = ("date", "timestamp", "timestamp_ntz")
_LONGEST_TEXT = 256


@dataclass(frozen=True)
class ColumnStats:
    """Statistics of one flat column in one file, values in the catalog's text form."""

    size: int
    values: int | None
    nulls: int | None
    low: str | None = None
    high: str | None = None
    nan: bool | None = None


@dataclass(frozen=True)
class PlainRows:
    """Rows for the catalog whose values are plain already, with their ids."""

    columns: Mapping[int, Sequence[Any]]
    """By column id."""
    ids: Sequence[int]


def can_inline(columns: Sequence[Column]) -> bool:
    """Whether rows of these columns can be kept in the catalog."""
    names = {c.name.lower() for c in columns}
    return (
        len(names) == len(columns)
        and not names & RESERVED
        and all(c.storage_type not in NESTED for c in columns)
        and all(len(c.name.encode()) <= _LONGEST_NAME and c.name.isprintable() for c in columns)
    )


def fit_catalog(parts: Sequence[pa.Table], columns: Sequence[Column], limit: int) -> bool:
    """Whether new rows, whose columns are named by id, go into the catalog: few, and all can be told."""
    count = sum(rows.num_rows for rows in parts)
    if not count:
        return True
    return count <= limit and can_inline(columns) and all(_has_texts(r, columns) for r in parts)


def _has_texts(rows: pa.Table, columns: Sequence[Column]) -> bool:
    """Whether every date and timestamp has a text."""
    for column in columns:
        if column.type in TEMPORAL and str(column.id) in rows.column_names:
            numbers = rows.column(str(column.id)).cast(_numeric(arrow_type(column)))
            least = pc.min(numbers).as_py()
            if least is not None and not calendar.has_text(least, days=column.type == "date"):
                return False
    return True


def plain(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of an Arrow column as Python has them, but dates and timestamps as numbers."""
    numeric = _numeric(array.type)
    return python(array if numeric is None else array.cast(numeric))


def python(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of an Arrow column as Python has them; InvalidDataError: a text is none."""
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        raise invalid_text() from None


def _numeric(kind: pa.DataType) -> pa.DataType | None:
    """The type with numbers for its dates and timestamps; None: it has none."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return pa.int64()
    if pa.types.is_map(kind):
        key, item = _numeric(kind.key_type), _numeric(kind.item_type)
        return pa.map_(key or kind.key_type, item or kind.item_type) if key or item else None
    if pa.types.is_list(kind):
        inner = _numeric(kind.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        inside = [_numeric(field.type) for field in fields]
        if any(inside):
            return pa.struct(
                [f.with_type(n or f.type) for f, n in zip(fields, inside, strict=True)]
            )
    return None


def plain_value(value: Any) -> Any:
    """A value that somebody gives, as ``plain`` would have it."""
    if isinstance(value, pa.Scalar):
        kind = _numeric(value.type)
        return (value if kind is None else value.cast(kind)).as_py()
    if isinstance(value, datetime):
        kind = pa.timestamp("us", "UTC" if value.tzinfo else None)
        return pa.scalar(value, kind).value
    return value.toordinal() - calendar.EPOCH if isinstance(value, date) else value


def to_text(value: Any, kind: str) -> str | None:
    """A flat plain value of a Spark type in DuckDB's text form; None for NULL and for no text."""
    if kind in TEMPORAL and value is not None:
        days = kind == "date"
        if not calendar.has_text(value, days=days):
            return None
        text = calendar.date_text(value) if days else calendar.timestamp_text(value)
        return text + "+00" if kind == "timestamp" and text[-1] != "y" else text
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case float():
            return repr(value)
        case bytes():
            return "".join(f"\\x{b:02X}" for b in value)
        case _:
            return str(value)


def from_text(column: Column, text: str | None) -> Any:
    """The plain value of a text in the catalog."""
    if text is None:
        return None
    kind = column.type
    if kind == "boolean":
        return text.lower() in ("true", "1", "t")
    if kind in _INTEGERS:
        return int(text)
    if kind in ("float", "double"):
        return float(text)
    if kind.startswith("decimal("):
        return Decimal(text)
    if kind == "date":
        return calendar.read_date(text)
    if kind in ("timestamp", "timestamp_ntz"):
        return calendar.read_timestamp(text)
    if kind == "binary":
        return _blob(text)
    return text


def _blob(text: str) -> bytes:
    pieces = re.findall(r"\\x([0-9A-Fa-f]{2})|(.)", text, re.S)
    return b"".join(bytes.fromhex(h) if h else c.encode() for h, c in pieces)


def bound(column: Column, text: str | None) -> Any:
    """A min or max of the statistics; None if there is none or it cannot be read."""
    if column.type == "binary":
        return None
    try:
        value = from_text(column, text)
    except (ValueError, ArithmeticError):
        return None
    return None if value != value else value


def sql_type(column: Column, kind: str) -> str:
    """The database type of a column of inlined rows, as DuckDB would declare it."""
    own = column.type
    if kind == "sqlite":
        if own == "boolean" or own in _INTEGERS:
            return "BIGINT"
        return "BLOB" if own == "binary" else "VARCHAR"
    if own.startswith("decimal("):
        return own.upper()
    return {
        "boolean": "BOOLEAN",
        "tinyint": "SMALLINT",
        "smallint": "SMALLINT",
        "int": "INTEGER",
        "bigint": "BIGINT",
        "float": "REAL",
        "double": "DOUBLE PRECISION",
        "string": "BYTEA",
        "binary": "BYTEA",
    }.get(own, "VARCHAR")


def encode(values: list[Any], column: Column, kind: str) -> list[Any]:
    """Plain values of a column as the database keeps them in inlined rows."""
    own = column.type
    if own in TEMPORAL:
        return [to_text(value, own) for value in values]
    if kind == "sqlite":
        if own in ("float", "double"):
            return [None if v is None else repr(v) for v in values]
        if own.startswith("decimal("):
            return [None if v is None else format(v, "f") for v in values]
    elif own == "string":
        return [None if v is None else v.encode() for v in values]
    return values


def decode(values: Sequence[Any], column: Column, table: object) -> pa.Array:
    """The Arrow column of inlined values, whoever wrote them."""
    try:
        return pa.array(_python_values(values, column), arrow_type(column))
    except (pa.ArrowInvalid, ValueError, OverflowError, ArithmeticError) as error:
        raise CatalogError(
            f"inlined values of column {column.name} of table {table} cannot be read: {error}",
            hint="delete or correct them with the program that wrote them",
        ) from error


def _python_values(values: Sequence[Any], column: Column) -> list[Any]:
    own = column.type
    if own == "string":
        return [v.decode() if isinstance(v, bytes) else v for v in values]
    if own == "boolean":
        return [None if v is None else bool(v) for v in values]
    if column.storage_type in NESTED:
        texts = (v.decode() if isinstance(v, bytes) else v for v in values)
        return [None if t is None else parse_nested(t, column) for t in texts]
    if own in _INTEGERS or own == "binary":
        return list(values)
    return [from_text(column, v) if isinstance(v, str) else v for v in values]


def texts(column: Column, low: Any, high: Any) -> tuple[str | None, str | None]:
    """Min and max as text; None for both where the catalog could not hold or compare them."""
    if column.type == "boolean":
        return str(int(low)), str(int(high))
    lower, upper = to_text(low, column.type), to_text(high, column.type)
    for text in (lower, upper):
        if text is None or len(text) > _LONGEST_TEXT or "\0" in text:
            return None, None
    return lower, upper


def value_stats(values: Sequence[Any], column: Column) -> ColumnStats:
    """Statistics of plain values, as for a file of just these."""
    known = [value for value in values if value is not None]
    nulls = len(values) - len(known)
    if column.children or column.type == "binary" or not known:
        return ColumnStats(0, len(known), nulls, nan=False)
    numbers, nan = known, False
    if column.type in ("float", "double"):
        numbers = [value for value in known if value == value]  # NaN is not equal to itself
        nan = len(numbers) < len(known)
    if not numbers:
        return ColumnStats(0, len(known), nulls, nan=nan)
    return ColumnStats(0, len(known), nulls, *texts(column, min(numbers), max(numbers)), nan)
