"""PostgreSQL's SQL as a tree of ours: read, translated by types, and read again as Spark's.

The way is through text, because each dialect has node classes of its own for the same call.
Positions travel inside the quoted identifiers. Whatever has no translation is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_trickle.errors import ParseError, Position
from spark_trickle.sql.dialects import TrickleSpark
from spark_trickle.sql.pg.dialect import TricklePostgres
from spark_trickle.sql.pg.queries import Lookup, query_in

_MARK = "\x1f"


def parse_postgres(sql: str) -> list[exp.Expr]:
    """The statements of a text."""
    try:
        return [tree for tree in TricklePostgres().parse(sql) if tree is not None]
    except SqlglotError as error:
        details = (getattr(error, "errors", None) or [{}])[0]
        line, column = details.get("line"), details.get("col")
        position = Position(sql, line, max(1, column - 1)) if line and column else None
        message = details.get("description") or str(error).splitlines()[0]
        raise ParseError(f"this is not PostgreSQL's SQL: {message}", position=position) from None


def in_schema(sql: str, schema: str) -> str:
    """The text of a query with ``schema.`` before the tables that are named without one."""
    named = [name.this for tree in parse_postgres(sql) for name in _tables(tree) if not name.db]
    for place in sorted((name.meta["start"] for name in named), reverse=True):
        quoted = exp.to_identifier(schema, quoted=True).sql("postgres")
        sql = f"{sql[:place]}{quoted}.{sql[place:]}"
    return sql


def translate(tree: exp.Expr, lookup: Lookup) -> exp.Expr:
    """A query of PostgreSQL's dialect as a tree of ours; identifiers keep their positions."""
    holder = exp.Paren(this=tree.copy())  # what is replaced needs a parent
    query_in(holder.this, lookup, {})
    text = holder.this.transform(_marked).sql(TrickleSpark)
    result = TrickleSpark().parse(text)[0]
    assert result is not None
    for node in result.walk():
        node.meta.clear()
        if isinstance(node, exp.Identifier) and _MARK in node.name:
            name, start, end = node.name.split(_MARK)
            node.set("this", name)
            node.meta.update(start=int(start), end=int(end))
    return result


def tables_named(tree: exp.Expr) -> Iterator[tuple[str, str]]:
    """Schema and name of every table that a statement names, without its WITH queries."""
    for table in _tables(tree):
        yield table.db if table.db.lower() != "pg_catalog" else "", table.name


def _tables(tree: exp.Expr) -> Iterator[exp.Table]:
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and (table.db or table.name.lower() not in ctes):
            yield table


def _marked(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Identifier) and "start" in node.meta:
        name = f"{node.name}{_MARK}{node.meta['start']}{_MARK}{node.meta['end']}"
        return exp.Identifier(this=name, quoted=True)
    return node
