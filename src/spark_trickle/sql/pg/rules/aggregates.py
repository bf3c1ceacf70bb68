"""Aggregates and window functions with PostgreSQL's types of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.rules import numbers
from spark_trickle.sql.pg.rules.casts import coerced
from spark_trickle.sql.pg.types import refuse
from spark_trickle.sql.pg.values import PgValue, call, cast

_ORDERED = (
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "text",
    "date",
    "timestamp",
    "timestamptz",
)


def _count(value: PgValue, distinct: bool) -> PgValue:
    inner = exp.Distinct(expressions=[value.tree]) if distinct else value.tree
    return PgValue(call("count", inner), t.INT8)


def _extreme(name: str) -> Callable[[PgValue, bool], PgValue]:
    def rule(value: PgValue, _: bool) -> PgValue:
        if value.type.kind not in _ORDERED:
            refuse(f"{name} of {value.type}")
        return PgValue(call(name, value.tree), value.type)

    return rule


def _truth(name: str) -> Callable[[PgValue, bool], PgValue]:
    def rule(value: PgValue, _: bool) -> PgValue:
        if value.type != t.BOOL:
            refuse(f"{name} of {value.type}")
        return PgValue(call(name, value.tree), t.BOOL)

    return rule


AGGREGATES: dict[str, Callable[[PgValue, bool], PgValue]] = {
    "count": _count,
    "sum": numbers.total,
    "avg": numbers.average,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "bool_and": _truth("bool_and"),
    "every": _truth("bool_and"),
    "bool_or": _truth("bool_or"),
}
_RANKS = ("row_number", "rank", "dense_rank")
_NEIGHBOURS = ("lag", "lead", "first_value", "last_value")
WINDOWS = frozenset({*_RANKS, *_NEIGHBOURS, "ntile"})


def counted() -> PgValue:
    """count(*)"""
    return PgValue(call("count", exp.Star()), t.INT8)


def aggregate(name: str, value: PgValue, distinct: bool) -> PgValue:
    if value.type == t.UNKNOWN:
        value = coerced(value, t.TEXT)
    if value.type == t.OPAQUE and name != "count":
        refuse(f"{name} of a column whose type is not known here", "CAST it")
    return AGGREGATES[name](value, distinct)


def ranked(name: str, arguments: Sequence[PgValue]) -> tuple[exp.Expr, t.PgType, bool]:
    """The call, its type, and whether Spark's result has to become a bigint."""
    if name in _RANKS:
        return call(name), t.INT8, True
    if name == "ntile":
        return call(name, *(a.tree for a in arguments)), t.INT4, False
    if not arguments or len(arguments) > 2:
        refuse(f"{name} with {len(arguments)} arguments")
    return call(name, *(a.tree for a in arguments)), arguments[0].type, False


def widened(tree: exp.Expr, type: t.PgType, needed: bool) -> PgValue:
    return PgValue(cast(tree, type) if needed else tree, type)
