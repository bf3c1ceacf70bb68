"""SHOW and DESCRIBE."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.cursor import Cursor, Name
from spark_trickle.statements.text.tokens import TokenKind

_SCHEMAS = ("SCHEMAS", "DATABASES", "NAMESPACES")


def parse(cursor: Cursor) -> ast.Statement | None:
    """The statement, or None when its first word is another one's."""
    if cursor.accept("SHOW"):
        return _show(cursor)
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        return _describe(cursor)
    return None


def _show(cursor: Cursor) -> ast.Statement:
    for word, views in (("TABLES", False), ("VIEWS", True)):
        if cursor.accept(word):
            schema = cursor.part("a schema's name") if _of(cursor) else None
            return ast.ShowTables(schema, _like(cursor), views)
    if any(cursor.accept(word) for word in _SCHEMAS):
        return ast.ShowSchemas(_like(cursor))
    if cursor.accept("COLUMNS"):
        return ast.ShowColumns(_columns_of(cursor))
    if cursor.accept("CREATE"):
        for kind in ("TABLE", "VIEW", "STREAM TABLE"):
            if cursor.accept(*kind.split()):
                return ast.ShowCreate(cursor.name("a name"), kind)
        cursor.fail("TABLE, VIEW or STREAM TABLE is expected here")
    if cursor.accept("VERSIONS"):
        return ast.ShowVersions(cursor.name() if _of(cursor) else None, _limit(cursor))
    return cursor.fail(
        "TABLES, VIEWS, STREAM TABLES, SCHEMAS, COLUMNS, CREATE or VERSIONS is expected here"
    )


def _describe(cursor: Cursor) -> ast.Statement:
    if cursor.at("HISTORY") and _name_follows(cursor):
        cursor.expect("HISTORY")
        return ast.ShowVersions(cursor.name(), _limit(cursor))
    extended = _extended(cursor)
    stream = cursor.accept("STREAM", "TABLE")
    if not stream and cursor.at("TABLE") and _name_follows(cursor):
        cursor.expect("TABLE")
    extended = extended or _extended(cursor)
    return ast.Describe(cursor.name(), extended, stream)


def _extended(cursor: Cursor) -> bool:
    """EXTENDED or FORMATTED, unless a table is called so."""
    for word in ("EXTENDED", "FORMATTED"):
        if cursor.at(word) and _name_follows(cursor):
            return cursor.accept(word)
    return False


def _name_follows(cursor: Cursor) -> bool:
    after = cursor.peek(1)
    return after is not None and after.names


def _of(cursor: Cursor) -> bool:
    return cursor.accept("IN") or cursor.accept("FROM")


def _columns_of(cursor: Cursor) -> Name:
    """``SHOW COLUMNS IN t IN s``: the schema may come after the table."""
    if not _of(cursor):
        cursor.fail("IN or FROM is expected here")
    name = cursor.name()
    if len(name.parts) == 1 and _of(cursor):
        name = replace(name, parts=(cursor.part("a schema's name"), *name.parts))
    return name


def _like(cursor: Cursor) -> str | None:
    token = cursor.peek()
    if cursor.accept("LIKE") or (token is not None and token.kind is TokenKind.STRING):
        return cursor.string("a pattern")
    return None


def _limit(cursor: Cursor) -> int | None:
    if not cursor.accept("LIMIT"):
        return None
    token = cursor.peek()
    if token is None or not token.text.isdigit():
        cursor.fail("a whole number is expected here")
    cursor.index += 1
    return int(token.text)
