"""Rows as text: for people in columns, for programs so that they read back what was there.

NULL is never the text NULL: in columns that text is quoted, in CSV NULL is nothing and '' is "".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TextIO

import pyarrow as pa

NULL = "NULL"


def is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def cells(data: pa.Table) -> list[list[str]]:
    """Each column's values for people."""
    return [[_cell(value) for value in _values(column)] for column in data.columns]


def plain(data: pa.Table, file: TextIO) -> None:
    """Columns side by side, in no colour, as wide as they are."""
    shown = [[_one_line(cell) for cell in column] for column in cells(data)]
    widths = [
        max([len(name), *map(len, column)])
        for name, column in zip(data.schema.names, shown, strict=True)
    ]
    right = [is_number(field.type) for field in data.schema]

    def line(values: Sequence[str]) -> str:
        parts = zip(values, widths, right, strict=True)
        return "  ".join(v.rjust(w) if r else v.ljust(w) for v, w, r in parts).rstrip()

    file.write(line(data.schema.names) + "\n")
    file.write("  ".join("-" * width for width in widths) + "\n")
    for record in zip(*shown, strict=True):
        file.write(line(record) + "\n")


def markdown(data: pa.Table, file: TextIO) -> None:
    def line(values: Sequence[str]) -> str:
        escaped = (
            v.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>") for v in values
        )
        return "| " + " | ".join(escaped) + " |\n"

    file.write(line(data.schema.names))
    marks = ("---:" if is_number(field.type) else "---" for field in data.schema)
    file.write("| " + " | ".join(marks) + " |\n")
    for record in zip(*cells(data), strict=True):
        file.write(line(record))


def csv(data: pa.Table, file: TextIO) -> None:
    file.write(",".join(_quoted(name) for name in data.schema.names) + "\r\n")
    for record in _records(data):
        file.write(",".join(_csv_cell(value) for value in record) + "\r\n")


def json_array(data: pa.Table, file: TextIO) -> None:
    lines = ",\n ".join(_objects(data))
    file.write(f"[{lines}]\n")


def json_lines(data: pa.Table, file: TextIO) -> None:
    for line in _objects(data):
        file.write(line + "\n")


def _objects(data: pa.Table) -> Iterator[str]:
    for record in _records(data):
        pairs = zip(data.schema.names, map(plain_value, record), strict=True)
        yield (
            "{"
            + ", ".join(f"{json.dumps(n, ensure_ascii=False)}: {_json(v)}" for n, v in pairs)
            + "}"
        )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def plain_value(value: Any) -> Any:
    """A value in JSON's terms; what JSON has no type for is text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case _:
            return _text(value)


def _records(data: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(_values(column) for column in data.columns), strict=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # years that Python has no dates for
        values = column.cast(pa.string()).to_pylist()
    return values


def _text(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat(sep=" ")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case timedelta() | _:
            return str(value)


def _cell(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, str):
        return f"'{value}'" if value == NULL else value
    if isinstance(value, dict | list | tuple | bytes):
        return value.hex() if isinstance(value, bytes) else _json(plain_value(value))
    return _text(value)


def _one_line(cell: str) -> str:
    return cell.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict | list | tuple):
        return _quoted(_json(plain_value(value)))
    return value.hex() if isinstance(value, bytes) else _quoted(_text(value))


def _quoted(text: str) -> str:
    special = not text or text != text.strip() or any(mark in text for mark in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if special else text
