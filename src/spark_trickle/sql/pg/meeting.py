"""Where two values meet, and small trees around conditions."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.rules.casts import coerced
from spark_trickle.sql.pg.types import PgType
from spark_trickle.sql.pg.values import PgValue


class PgScope(Protocol):
    """Where names are looked up and subqueries translated."""

    def column(self, column: exp.Column) -> PgType: ...

    def subquery(self, query: exp.Expr) -> list[PgType]:
        """Translate it in place; the types of its columns."""


def opposite(value: PgValue) -> PgValue:
    return PgValue(exp.Not(this=exp.Paren(this=value.tree)), t.BOOL)


def met(left: PgValue, right: PgValue) -> tuple[PgValue, PgValue]:
    """A literal in quotes becomes what stands beside it."""
    if left.type == t.UNKNOWN and right.type not in (t.UNKNOWN, t.OPAQUE):
        left = _literal_beside(left, right.type)
    elif right.type == t.UNKNOWN and left.type not in (t.UNKNOWN, t.OPAQUE):
        right = _literal_beside(right, left.type)
    return left, right


def _literal_beside(value: PgValue, type_: PgType) -> PgValue:
    free = t.NUMERIC if type_.kind == "numeric" and value.is_literal else type_
    return coerced(value, free)


def bracketed(tree: exp.Expr) -> exp.Expr:
    simple = exp.Column | exp.Literal | exp.Anonymous | exp.Paren | exp.Cast | exp.Subquery
    return tree if isinstance(tree, simple) else exp.Paren(this=tree)


def named(node: exp.Expr) -> str:
    shown = node.sql("postgres")
    return f"{type(node).__name__}: {shown if len(shown) < 60 else shown[:57] + '…'}"
