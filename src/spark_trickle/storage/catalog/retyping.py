"""ALTER COLUMN as pure functions: a table in, the changed one out."""

from __future__ import annotations

import itertools
from dataclasses import replace

from spark_trickle.errors import BindError
from spark_trickle.storage.catalog.alterations import named
from spark_trickle.storage.files.types import length_of, make_column, parse_spark
from spark_trickle.storage.records import Column, Table

_WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
}
"""What files and the bounds of their columns can be read as without being written anew."""


def with_type(table: Table, name: str, type_text: str) -> Table:
    """The column with a type that holds all it can hold now."""
    column = named(table, name)
    wanted = make_column(column.name, parse_spark(type_text), itertools.count(column.id))
    wanted = replace(wanted, length=length_of(type_text))
    if (wanted.type, wanted.length) == (column.type, column.length):
        return table
    longer = wanted.length is None or (column.length or wanted.length + 1) <= wanted.length
    if not (column.type == wanted.type == "string" and longer):
        _check_wider(table, column, wanted)
    return _put(
        table,
        replace(
            column,
            type=wanted.type,
            storage_type=wanted.storage_type,
            length=wanted.length,
        ),
    )


def _check_wider(table: Table, column: Column, wanted: Column) -> None:
    if wanted.type not in _WIDER.get(column.type, ()):
        raise BindError(
            f"column {column.name} of {table} cannot become {wanted.declared}: it is {column.declared}",
            hint="whole numbers and VARCHAR can become wider; otherwise ADD a column, UPDATE it, "
            "DROP the old one and RENAME",
        )


def with_nullable(table: Table, name: str, nullable: bool) -> Table:
    column = named(table, name)
    return _put(table, replace(column, nullable=nullable))


def with_default(table: Table, name: str, default: str | None) -> Table:
    """Rows that come from now on have it; those that are there stay as they are."""
    return _put(table, replace(named(table, name), default=default))


def _put(table: Table, column: Column) -> Table:
    columns = tuple(column if c.id == column.id else c for c in table.columns)
    return replace(table, columns=columns)
