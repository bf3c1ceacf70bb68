"""Names as PostgreSQL reads them: what is not quoted is lower case."""

from __future__ import annotations

from spark_trickle.errors import UserError
from spark_trickle.statements.text.cursor import Cursor
from spark_trickle.statements.text.tokens import TokenKind
from spark_trickle.storage.records import DEFAULT_SCHEMA, TableName

PUBLIC = ("public", "pg_catalog")
"""PostgreSQL's default schemas; here they are the lake's own default schema."""


def table_name(text: str) -> TableName:
    """``name``, ``schema.name`` or ``"Odd name"``, with blanks around it or not."""
    cursor = Cursor(text, "postgres")
    name = _parts(cursor)
    cursor.end()
    return name


def name_and_columns(text: str) -> tuple[TableName, tuple[str, ...]]:
    """``name [(column, …)]``, as the first argument of ``create_immv``."""
    cursor = Cursor(text, "postgres")
    name = _parts(cursor)
    columns: list[str] = []
    if cursor.accept_symbol("("):
        columns.append(_part(cursor, "a column's name"))
        while cursor.accept_symbol(","):
            columns.append(_part(cursor, "a column's name"))
        cursor.expect_symbol(")")
    cursor.end()
    return name, tuple(columns)


def _parts(cursor: Cursor) -> TableName:
    parts = [_part(cursor, "a name")]
    while cursor.accept_symbol("."):
        parts.append(_part(cursor, "a name"))
    if len(parts) > 2:
        raise UserError(
            f"the name {'.'.join(parts)} has too many parts", hint="schema.name at most"
        )
    schema = parts[0] if len(parts) == 2 and parts[0] not in PUBLIC else DEFAULT_SCHEMA
    return TableName(schema, parts[-1])


def _part(cursor: Cursor, what: str) -> str:
    token = cursor.peek()
    name = cursor.part(what)
    return name if token is not None and token.kind is TokenKind.QUOTED else name.lower()
