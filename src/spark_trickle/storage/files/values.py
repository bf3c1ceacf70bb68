"""Values in the catalog: as text (statistics, defaults) and as inlined rows, in DuckDB's forms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import CatalogError
from spark_trickle.storage.files.literals import parse_nested
from spark_trickle.storage.files.types import NESTED, arrow_type
from spark_trickle.storage.records import Column

RESERVED = frozenset({"row_id", "begin_snapshot", "end_snapshot"})
"""Columns that every table of inlined rows has: a user's column cannot have these names there."""
_LONGEST_NAME = 63
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def can_inline(columns: Sequence[Column]) -> bool:
    """Whether rows of these columns can be kept in the catalog."""
    names = {c.name.lower() for c in columns}
    return (
        len(names) == len(columns)
        and not names & RESERVED
        and all(c.storage_type not in NESTED for c in columns)
        and all(len(c.name.encode()) <= _LONGEST_NAME and c.name.isprintable() for c in columns)
    )


def to_text(value: Any) -> str | None:
    """A flat Python value in DuckDB's text form; None for NULL."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case float():
            return repr(value)
        case datetime():
            text = value.astimezone(UTC) if value.tzinfo else value
            body = f"{text.year:04}-" + text.strftime("%m-%d %H:%M:%S")
            body += f".{value.microsecond:06}" if value.microsecond else ""
            return body + ("+00" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case bytes():
            return "".join(f"\\x{b:02X}" for b in value)
        case _:
            return str(value)


def from_text(column: Column, text: str | None) -> Any:
    """The Python value of a text in the catalog; None also for what cannot be told."""
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
        return date.fromisoformat(text)
    if kind in ("timestamp", "timestamp_ntz"):
        return _timestamp(text, kind == "timestamp")
    if kind == "binary":
        return _blob(text)
    return text


def _timestamp(text: str, zoned: bool) -> datetime:
    value = datetime.fromisoformat(text)
    if not zoned:
        return value
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


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


def encode(array: pa.ChunkedArray | pa.Array, column: Column, kind: str) -> list[Any]:
    """The values of an Arrow column as the database keeps them in inlined rows."""
    own = column.type
    if own in ("date", "timestamp", "timestamp_ntz"):
        texts = pc.cast(array, pa.string()).to_pylist()
        if own == "timestamp":
            return [None if t is None else t.rstrip("Z") + "+00" for t in texts]
        return list(texts)
    values = array.to_pylist()
    if kind == "sqlite":
        if own in ("float", "double"):
            return [None if v is None else repr(v) for v in values]
        if own.startswith("decimal("):
            return [None if v is None else format(v, "f") for v in values]
    elif own == "string":
        return [None if v is None else v.encode() for v in values]
    return list(values)


def decode(values: Sequence[Any], column: Column, table: object) -> pa.Array:
    """The Arrow column of inlined values, whoever wrote them."""
    target = arrow_type(column)
    try:
        return pa.array(_python_values(values, column), target)
    except (pa.ArrowInvalid, ValueError, OverflowError, ArithmeticError) as error:
        return _through_text(values, column, table, error)


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


def _through_text(
    values: Sequence[Any], column: Column, table: object, error: Exception
) -> pa.Array:
    """Dates and times outside Python's range: Arrow reads their text itself."""
    try:
        texts = pa.array([None if v is None else str(v).removesuffix("+00") for v in values])
        if column.type == "timestamp":
            return pc.assume_timezone(pc.cast(texts, pa.timestamp("us")), "UTC")
        return pc.cast(texts, arrow_type(column))
    except pa.ArrowInvalid:
        raise CatalogError(
            f"inlined values of column {column.name} of table {table} cannot be read: {error}"
        ) from error
