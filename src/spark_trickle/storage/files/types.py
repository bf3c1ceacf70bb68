"""Column types: Spark's text, DuckLake's names and Arrow's types, and the ways between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from spark_trickle.errors import InvalidDataError
from spark_trickle.storage.records import Column

_TO_LAKE = {
    "boolean": "boolean",
    "tinyint": "int8",
    "byte": "int8",
    "smallint": "int16",
    "short": "int16",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
    "long": "int64",
    "float": "float32",
    "real": "float32",
    "double": "float64",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ltz": "timestamptz",
    "timestamp_ntz": "timestamp",
    "string": "varchar",
    "binary": "blob",
}
_TO_SPARK = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float32": "float",
    "float64": "double",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "timestamp_us": "timestamp_ntz",
    "timestamp_ms": "timestamp_ntz",
    "timestamp_s": "timestamp_ntz",
    "varchar": "string",
    "json": "string",
    "blob": "binary",
}
_TO_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
NESTED = ("list", "struct", "map")
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.I)
_TEXT = re.compile(r"\s*varchar\(\s*(\d+)\s*\)\s*", re.I)


@dataclass(frozen=True)
class LakeType:
    """A DuckLake type: a primitive by name, or ``list``, ``struct``, ``map`` with children."""

    name: str
    children: tuple[tuple[str, LakeType], ...] = ()


def parse_spark(text: str) -> LakeType:
    """The DuckLake type of a Spark type text; InvalidDataError if we cannot keep that type."""
    parser = _Parser(text)
    if re.search(r"\b(varchar|char|character)\s*\(", text, re.I) and not _TEXT.fullmatch(text):
        raise InvalidDataError(
            f"the type {text!r} cannot be a column of a table",
            hint="CHAR(n) pads values and what they are compared with: use VARCHAR(n) or STRING; "
            "inside arrays, maps and structs use STRING",
        )
    if length_of(text) == 0:
        raise InvalidDataError(f"the type {text!r} holds no text", hint="the length is 1 or more")
    result = parser.type()
    parser.end()
    return result


def length_of(text: str) -> int | None:
    """The n of VARCHAR(n)."""
    found = _TEXT.fullmatch(text)
    return None if found is None else int(found.group(1))


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self) -> InvalidDataError:
        return InvalidDataError(
            f"the type {self.text!r} cannot be a column of a table",
            hint="use boolean, tinyint, smallint, int, bigint, float, double, decimal, string, "
            "binary, date, timestamp, timestamp_ntz, array, map or struct",
        )

    def type(self) -> LakeType:
        found = re.compile(r"\s*([A-Za-z_]+(?:\([\d\s,]*\))?)\s*").match(self.text, self.at)
        if found is None:
            raise self.fail()
        self.at = found.end()
        word = found.group(1)
        match word.lower():
            case "array":
                self.take("<")
                element = self.type()
                self.take(">")
                return LakeType("list", (("element", element),))
            case "map":
                self.take("<")
                key = self.type()
                self.take(",")
                value = self.type()
                self.take(">")
                return LakeType("map", (("key", key), ("value", value)))
            case "struct":
                return LakeType("struct", self.fields())
            case _:
                return LakeType(self.primitive(word))

    def fields(self) -> tuple[tuple[str, LakeType], ...]:
        self.take("<")
        result = []
        while True:
            found = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^:<>,`]+?))\s*:").match(
                self.text, self.at
            )
            if found is None:
                raise self.fail()
            self.at = found.end()
            quoted, plain = found.groups()
            name = plain if quoted is None else quoted.replace("``", "`")
            result.append((name, self.type()))
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1
                continue
            self.take(">")
            return tuple(result)

    def primitive(self, word: str) -> str:
        decimal = _DECIMAL.fullmatch(word)
        if decimal is not None:
            precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
            if not (0 < precision <= 38 and scale <= precision):
                raise self.fail()
            return f"decimal({precision},{scale})"
        if _TEXT.fullmatch(word):
            return "varchar"
        name = _TO_LAKE.get(word.lower())
        if name is None:
            raise self.fail()
        return name

    def take(self, token: str) -> None:
        if self.text[self.at : self.at + 1] != token:
            raise self.fail()
        self.at += 1
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1

    def end(self) -> None:
        if self.text[self.at :].strip():
            raise self.fail()


def spark_text(lake_type: str, children: Sequence[Column]) -> str:
    """Spark's text of a catalog type; of one that Spark cannot read, the catalog's own name."""
    match lake_type:
        case "list":
            return f"array<{children[0].type}>"
        case "map":
            return f"map<{children[0].type},{children[1].type}>"
        case "struct":
            return "struct<" + ",".join(f"{_field(c.name)}:{c.type}" for c in children) + ">"
        case _:
            if lake_type.startswith("decimal"):
                return lake_type.replace(" ", "")
            return _TO_SPARK.get(lake_type, lake_type)


def _field(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def readable(column: Column) -> bool:
    """Whether Spark can read the column's type."""
    if column.children:
        return all(readable(c) for c in column.children)
    return column.type in _TO_ARROW or column.type.startswith("decimal(")


def make_column(name: str, lake_type: LakeType, ids: Iterator[int], **rest: Any) -> Column:
    """A column with ids for itself and, after it, its children (depth first, as DuckDB does)."""
    own = next(ids)
    children = tuple(make_column(n, t, ids) for n, t in lake_type.children)
    return Column(
        own,
        name,
        spark_text(lake_type.name, children),
        children=children,
        storage_type=lake_type.name,
        **rest,
    )


def arrow_type(column: Column, field_ids: bool = False) -> pa.DataType:
    """The Arrow type rows of the column have; with ``field_ids`` for writing Parquet."""
    if not column.children:
        return _flat(column.type)
    fields = [arrow_field(c, field_ids) for c in column.children]
    match column.storage_type:
        case "list":
            return pa.list_(fields[0])
        case "map":
            return pa.map_(fields[0].with_nullable(False), fields[1])
        case _:
            return pa.struct(fields)


@cache
def _flat(type: str) -> pa.DataType:
    if type.startswith("decimal("):
        precision, scale = type[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TO_ARROW[type]


def arrow_field(column: Column, field_ids: bool = False) -> pa.Field:
    metadata = {"PARQUET:field_id": str(column.id)} if field_ids else None
    return pa.field(column.name, arrow_type(column, field_ids), column.nullable, metadata)


def arrow_schema(columns: Sequence[Column], field_ids: bool = False) -> pa.Schema:
    return pa.schema([arrow_field(c, field_ids) for c in columns])


def leaves(column: Column) -> Iterator[Column]:
    """The column itself if it is flat, else the flat columns inside it."""
    if column.storage_type not in NESTED:
        yield column
    for child in column.children:
        yield from leaves(child)


def walk(column: Column) -> Iterator[Column]:
    yield column
    for child in column.children:
        yield from walk(child)
