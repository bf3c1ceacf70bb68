"""Statements in another SQL, written anew in Spark's."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from spark_trickle.errors import ParseError
from spark_trickle.sql.dialects import TrickleSpark
from spark_trickle.sql.pg.changes import delete, insert, plain_table, update
from spark_trickle.sql.pg.parts import all_known, without_counterpart
from spark_trickle.sql.pg.queries import Lookup
from spark_trickle.sql.pg.structure import alter, create, drop
from spark_trickle.sql.postgres import parse_postgres, translate

DIALECTS = ("postgres", "spark")


def to_spark(sql: str, dialect: str, lookup: Lookup) -> list[str]:
    """The statement itself in Spark's dialect, else its translation: one statement or several."""
    if dialect == "spark":
        return [sql]
    known_dialect(dialect)
    return translated(one_tree(sql), lookup)


def one_tree(sql: str) -> exp.Expr:
    """The tree of one statement of PostgreSQL's."""
    trees = parse_postgres(sql)
    if len(trees) != 1:
        raise ParseError("send one statement at a time")
    return trees[0]


def known_dialect(dialect: str) -> None:
    if dialect not in DIALECTS:
        raise ParseError(f"unknown dialect: {dialect}", hint=f"one of: {', '.join(DIALECTS)}")


def translated(tree: exp.Expr, lookup: Lookup) -> list[str]:
    """A statement of PostgreSQL's as statements of Spark's."""
    if not isinstance(tree, exp.Query | exp.Alter):
        all_known(tree)
    return [_text(part) for part in _parts(tree, lookup)]


def _parts(tree: exp.Expr, lookup: Lookup) -> Iterator[exp.Expr]:
    match tree:
        case exp.Query() | exp.Values():
            yield translate(tree, lookup)
        case exp.Insert():
            yield insert(tree, lookup)
        case exp.Update():
            yield update(tree, lookup)
        case exp.Delete():
            yield delete(tree, lookup)
        case exp.Create():
            yield create(tree, lookup)
        case exp.Alter():
            yield from alter(tree, lookup)
        case exp.TruncateTable():
            for table in tree.expressions:
                yield exp.TruncateTable(expressions=[plain_table(table)])
        case exp.Drop():
            yield from drop(tree)
        case exp.Describe():
            yield tree
        case _:
            raise without_counterpart(tree)


def _text(tree: exp.Expr) -> str:
    # Spark's own generator rewrites DISTINCT ON, which Spark does not have.
    rewritten = tree.find(exp.Distinct) is not None and any(
        node.args.get("on") for node in tree.find_all(exp.Distinct)
    )
    return str(tree.sql("spark" if rewritten else TrickleSpark))
