"""Statements in another SQL, written anew in Spark's."""

from __future__ import annotations

import sqlglot
from sqlglot.errors import SqlglotError

from spark_trickle.errors import ParseError, Position
from spark_trickle.sql.postgres import translate


def to_spark(sql: str, dialect: str) -> str:
    """``sql`` itself for Spark's dialect, else its translation."""
    if dialect == "spark":
        return sql
    if dialect != "postgres":
        raise ParseError(f"unknown dialect: {dialect}", hint="one of: postgres, spark")
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="postgres") if tree is not None]
    except SqlglotError as error:
        details = (getattr(error, "errors", None) or [{}])[0]
        line, column = details.get("line"), details.get("col")
        position = Position(sql, line, max(1, column - 1)) if line and column else None
        message = details.get("description") or str(error)
        raise ParseError(f"this is not PostgreSQL's SQL: {message}", position=position) from None
    if len(trees) != 1:
        raise ParseError("send one statement at a time")
    # Spark's own generator, because this text goes to Spark: it rewrites DISTINCT ON.
    return str(translate(trees[0], runnable=True).sql(dialect="spark"))
