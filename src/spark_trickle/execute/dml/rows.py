"""Rows that need no Spark: literals of VALUES."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_trickle.errors import BindError, InvalidDataError, Position
from spark_trickle.statements.text.cursor import Span
from spark_trickle.statements.text.splices import Splice
from spark_trickle.statements.values import (
    Literal,
    Misfit,
    default_places,
    read_literal,
    read_values,
    store,
)
from spark_trickle.storage.records import Column, Table, TableName


def target_columns(
    table: Table, names: Sequence[str] | None, sql: str, place: Span
) -> list[Column]:
    """The columns that INSERT fills, in order."""
    if names is None:
        return list(table.columns)
    columns: list[Column] = []
    for name in names:
        column = table.column(name)
        position = Position.of_span(sql, place.start, place.end)
        if column is None:
            known = ", ".join(c.name for c in table.columns)
            raise BindError(
                f"{table} has no column {name}", position=position, hint=f"it has {known}"
            )
        if column in columns:
            raise BindError(f"column {name} is named twice", position=position)
        columns.append(column)
    return columns


def literal_rows(
    table: Table, columns: Sequence[Column], sql: str, source: Span, time_zone: str
) -> list[dict[str, Any]] | None:
    """The rows of a VALUES list of plain literals, or None when Spark must read it."""
    rows = read_values(sql, source.start, source.end, len(columns))
    if rows is None:
        return None
    defaults = {}
    for column in table.columns:
        known, value = _default(table, column, time_zone)
        if not known and (column not in columns or any(_asks_default(row) for row in rows)):
            return None
        defaults[column.name] = value
    answer = []
    for row in rows:
        record = dict(defaults)
        for column, literal in zip(columns, row, strict=True):
            if literal.kind == "default":
                continue
            known, value = stored(table, column, literal, time_zone)
            if not known:
                return None
            record[column.name] = value
        answer.append(record)
    return answer


def default_splices(columns: Sequence[Column], sql: str, source: Span) -> tuple[Splice, ...]:
    """DEFAULT inside a VALUES list that Spark reads: the column's own default in its place."""
    return tuple(
        Splice(start, end, f"({columns[index].default or 'NULL'})")
        for start, end, index in default_places(sql, source.start, source.end)
        if index < len(columns)
    )


def _asks_default(row: tuple[Literal, ...]) -> bool:
    return any(literal.kind == "default" for literal in row)


def _default(table: Table, column: Column, time_zone: str) -> tuple[bool, Any]:
    if column.default is None:
        return True, None
    literal = read_literal(column.default)
    return (False, None) if literal is None else stored(table, column, literal, time_zone)


def stored(
    table: Table | TableName, column: Column, literal: Literal, time_zone: str
) -> tuple[bool, Any]:
    """As ``store``; InvalidDataError for what the column cannot hold."""
    try:
        return store(literal, column.type, time_zone)
    except Misfit:
        raise InvalidDataError(
            f"the value {literal.text} does not fit column {column.name} of {table}, "
            f"which has the type {column.type}"
        ) from None
