"""DEFAULT clauses: what they are worth, and that their columns can hold it.

Law: a default that no row could ever get is refused where it is written. Plain literals are judged
here, what is of the moment only where it is used, and of all else Spark is asked for the value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spark_trickle.errors import InvalidDataError, UserError
from spark_trickle.execute.dml import rows
from spark_trickle.spark.sessions.session import SessionHolder
from spark_trickle.statements.parse import ColumnDefinition
from spark_trickle.statements.values import read_literal
from spark_trickle.storage.files.types import length_of, make_column, parse_spark
from spark_trickle.storage.files.values import plain, plain_value
from spark_trickle.storage.records import Column, NewColumn, TableName

Defined = ColumnDefinition | NewColumn
_NUMBERS = ("int", "decimal", "double")


@dataclass(frozen=True)
class Defaults:
    holder: SessionHolder

    def value(self, column: Defined, table: TableName, names: Iterable[str]) -> Any:
        """What rows get that say nothing else, as pyarrow gives it; ``names``: the table's columns."""
        if column.default is None:
            return None
        known, value = self._literal(column, table)
        if not known:
            _of_the_moment(column, table, names)
            value = self._asked(column, table)
        _refuse_misfit(column, table, value)
        return value + 0.0 if isinstance(value, float) else value  # no negative zero is stored

    def check(self, column: Defined, table: TableName, names: Iterable[str]) -> None:
        """InvalidDataError for what no row could get."""
        if column.default is None or _is_number(column):
            return
        known, value = self._literal(column, table)
        if not known:
            if _of_the_moment(column, table, names):
                return
            value = self._asked(column, table)
        _refuse_misfit(column, table, value)

    def _literal(self, column: Defined, table: TableName) -> tuple[bool, Any]:
        """(True, the value), or (False, …) when it takes Spark to know."""
        made = _made(column)
        for text in (column.default, f"CAST({column.default} AS {column.type})"):
            literal = read_literal(text or "")
            if literal is not None:
                known, value = rows.stored(table, made, literal, self.holder.time_zone)
                if known:
                    return True, plain_value(value)
        return False, None

    def _asked(self, column: Defined, table: TableName) -> Any:
        from spark_trickle.spark.failures import spark_errors

        text = f"SELECT CAST(({column.default}) AS {column.type}) AS value"
        try:
            with spark_errors():
                return plain(self.holder.for_changes.sql(text).toArrow().column(0))[0]
        except UserError as error:
            raise InvalidDataError(
                f"{_clause(column, table)} has no value: {error.message}"
            ) from None


def _made(column: Defined) -> Column:
    kind = parse_spark(column.type)
    return make_column(column.name, kind, itertools.count(1), default=column.default)


def _is_number(column: Defined) -> bool:
    """Whether it is a literal that every column of floating point numbers holds."""
    if _made(column).type not in ("float", "double"):
        return False
    literal = read_literal(column.default or "")
    return literal is not None and literal.kind in _NUMBERS


def _of_the_moment(column: Defined, table: TableName, names: Iterable[str]) -> bool:
    """Whether each row has a value of its own; InvalidDataError if it is read from somewhere."""
    from sqlglot import exp

    from spark_trickle.sql.bind.plan import bind
    from spark_trickle.sql.parse import parse_query

    query = f"SELECT CAST(({column.default}) AS {column.type}) AS value"
    try:
        tree, taken = parse_query(query).tree, {name.lower() for name in names}
        queries = any(part is not tree for part in tree.find_all(exp.Query))
        read = [c.name for c in tree.find_all(exp.Column) if c.parent_select is tree]
        other = next((name for name in read if name.lower() in taken), None)
        if other is None and not queries:
            return bool(bind(query, {}).blockers)
    except UserError:
        return False  # Spark reads more than this
    known = "reads another query, but a default knows no table"
    if not queries:
        known = f"reads column {other}, but a default knows no row"
    raise InvalidDataError(
        f"{_clause(column, table)} {known}",
        hint="give the value in INSERT or UPDATE, or compute it in a view",
    )


def _refuse_misfit(column: Defined, table: TableName, value: Any) -> None:
    length = length_of(column.type)
    if length is not None and value is not None and len(value.rstrip(" ")) > length:
        raise InvalidDataError(f"{_clause(column, table)} is longer than its type allows")
    if value is None and not column.nullable:
        raise InvalidDataError(
            f"{_clause(column, table)} is NULL, but the column is NOT NULL",
            hint="leave DEFAULT out: then every INSERT has to give a value",
        )


def _clause(column: Defined, table: TableName) -> str:
    return f"the default {column.default} of column {column.name} {column.type} of {table}"
