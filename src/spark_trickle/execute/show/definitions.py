"""Statements that make what is there: SHOW CREATE. Law: run in an empty lake, they make the same."""

from __future__ import annotations

import re

from spark_trickle.execute.states import StatementState
from spark_trickle.execute.views import compiled
from spark_trickle.statements.text.splices import quoted
from spark_trickle.storage.records import DEFAULT_SCHEMA, Column, Table, TableName, View

_TAKEN = frozenset(
    [
        "ALL",
        "AND",
        "ANY",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "CHECK",
        "CONSTRAINT",
        "CREATE",
        "CROSS",
        "DEFAULT",
        "DROP",
        "ELSE",
        "END",
        "EXCEPT",
        "EXISTS",
        "FALSE",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "IF",
        "IN",
        "INNER",
        "INSERT",
        "INTERSECT",
        "INTO",
        "IS",
        "JOIN",
        "LEFT",
        "LIKE",
        "LIMIT",
        "NOT",
        "NULL",
        "ON",
        "OR",
        "ORDER",
        "OUTER",
        "PRIMARY",
        "RIGHT",
        "SELECT",
        "SET",
        "TABLE",
        "THEN",
        "TO",
        "TRUE",
        "UNION",
        "USING",
        "VALUES",
        "VIEW",
        "WHEN",
        "WHERE",
        "WITH",
    ]
)


def identifier(name: str) -> str:
    """A name, in backticks where it needs them."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in _TAKEN
    return name if plain else quoted(name)


def full_name(name: TableName) -> str:
    own = identifier(name.name)
    return own if name.schema == DEFAULT_SCHEMA else f"{identifier(name.schema)}.{own}"


def text(value: str) -> str:
    """A text in quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def of_table(table: Table) -> str:
    lines = [_column(column) for column in table.columns]
    if table.primary_key:
        lines.append(f"PRIMARY KEY ({_names(table.primary_key)})")
    body = ",\n  ".join(lines)
    words = [f"CREATE TABLE {full_name(table.full_name)} (\n  {body}\n)"]
    if table.cluster_by:
        words.append(f"CLUSTER BY ({_names(table.cluster_by)})")
    if table.comment is not None:
        words.append(f"COMMENT {text(table.comment)}")
    return "\n".join(words)


def of_view(view: View) -> str:
    columns = f" ({_names(view.columns)})" if view.columns else ""
    comment = "" if view.comment is None else f"\nCOMMENT {text(view.comment)}"
    return f"CREATE VIEW {full_name(view.full_name)}{columns}{comment}\nAS {view.sql}"


def columns_of_view(view: View, state: StatementState) -> list[tuple[str, str | None]]:
    """Names and types of a view's columns; a type that only Spark can tell is None."""
    if view.dialect != "spark":
        return [(name, None) for name in view.columns]
    bound = compiled(view, state)
    names = view.columns or tuple(bound.names)
    kinds: list[str | None] = [None] * len(names)
    if bound.plan is not None:
        kinds = [
            None if c.type is None else c.type.sql("spark").lower().replace(", ", ",")
            for c in bound.plan.columns
        ]
    return list(zip(names, kinds, strict=False))


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(identifier, names))


def _column(column: Column) -> str:
    words = [identifier(column.name), column.declared]
    if not column.nullable:
        words.append("NOT NULL")
    if column.default is not None:
        words.append(f"DEFAULT {column.default}")
    if column.comment is not None:
        words.append(f"COMMENT {text(column.comment)}")
    return " ".join(words)
