"""Simple conditions of a query on the columns of its tables, for leaving files out.

Law: a row of a table that fails one of its conditions cannot influence the query's result. So only
conjuncts of WHERE count that are not true for NULL (an outer join may pad the row with NULLs).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_trickle.ir.decimals import all_digits, digits_of
from spark_trickle.statements.values import Literal, read_literal

_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""With the digits that Spark gives them beside a decimal."""


@dataclass(frozen=True)
class ColumnCondition:
    """``column`` lies in [low, high], or is one of ``values``."""

    column: str
    low: Literal | None = None
    high: Literal | None = None
    values: tuple[Literal, ...] | None = None


def conditions_by_place(sql: str) -> dict[int, tuple[ColumnCondition, ...]]:
    """By the place where a table's name begins in ``sql``; empty when sqlglot cannot read it."""
    if "|>" in sql:  # sqlglot puts a step's WHERE into the SELECT before it, whatever that names
        return {}
    try:
        tree = sqlglot.parse_one(sql, read="spark")
    except (SqlglotError, RecursionError):
        return {}
    found: dict[int, tuple[ColumnCondition, ...]] = {}
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        if where is None:
            continue
        tables = _tables(select)
        for name, table in tables.items():
            place = _place(table)
            if place is not None:
                alone = len(tables) == 1 and not _more_sources(select)
                found[place] = tuple(_conditions(where.this, name, alone))
    return found


def condition_list(condition: str, names: frozenset[str]) -> tuple[ColumnCondition, ...]:
    """The simple conditions of a WHERE text on its one table, known by ``names``."""
    try:
        tree = sqlglot.parse_one(f"SELECT 1 WHERE {condition}", read="spark")
    except (SqlglotError, RecursionError):
        return ()
    where = tree.args.get("where")
    if where is None:
        return ()
    return tuple(c for name in names for c in _conditions(where.this, name, name == min(names)))


def _tables(select: exp.Select) -> dict[str, exp.Table]:
    """The tables of FROM and JOIN by the name that columns refer to them with."""
    sources = [select.args.get("from_") or select.args.get("from")]
    sources += select.args.get("joins") or []
    tables = {}
    for source in sources:
        table = source.this if source is not None else None
        if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            tables[table.alias_or_name.lower()] = table
    return tables


def _more_sources(select: exp.Select) -> bool:
    return bool(select.args.get("joins") or select.args.get("laterals"))


def _place(table: exp.Table) -> int | None:
    first = table.args.get("db") or table.this
    start = first.meta.get("start")
    return int(start) if start is not None else None


def _conditions(where: exp.Expr, name: str, alone: bool) -> Iterator[ColumnCondition]:
    for conjunct in where.flatten() if isinstance(where, exp.And) else [where]:
        node = conjunct.unnest() if isinstance(conjunct, exp.Paren) else conjunct
        if isinstance(node, exp.And):
            yield from _conditions(node, name, alone)
            continue
        condition = _condition(node, name, alone)
        if condition is not None:
            yield condition


def _condition(node: exp.Expr, name: str, alone: bool) -> ColumnCondition | None:
    match node:
        case exp.Between() if not node.args.get("symmetric"):
            column = _column(node.this, name, alone)
            low, high = _literal(node.args["low"]), _literal(node.args["high"])
            known = column is not None and low is not None and high is not None
            return ColumnCondition(str(column), low, high) if known else None
        case exp.In() if node.expressions and not node.args.get("query"):
            column = _column(node.this, name, alone)
            values = [_literal(e) for e in node.expressions]
            plain = tuple(v for v in values if v is not None)
            if column is None or len(plain) < len(values):
                return None
            return ColumnCondition(column, values=plain)
        case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison(node, name, alone)
        case _:
            return None


def _comparison(node: exp.Binary, name: str, alone: bool) -> ColumnCondition | None:
    column, literal, mirrored = _column(node.this, name, alone), _literal(node.expression), False
    if column is None or literal is None:
        column, literal = _column(node.expression, name, alone), _literal(node.this)
        mirrored = True
    if column is None or literal is None:
        return None
    if isinstance(node, exp.EQ):
        return ColumnCondition(column, values=(literal,))
    upper = isinstance(node, exp.LT | exp.LTE) != mirrored
    return ColumnCondition(column, high=literal) if upper else ColumnCondition(column, low=literal)


def _column(node: exp.Expr, name: str, alone: bool) -> str | None:
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return None
    if node.args.get("db") or (node.table.lower() != name if node.table else not alone):
        return None
    return str(node.name)


def _literal(node: exp.Expr) -> Literal | None:
    match node:
        case exp.Literal() if node.is_string:
            return Literal("string", node.this, node.this)
        case exp.Literal():
            return read_literal(str(node.this))
        case exp.Neg():
            return (
                read_literal(f"-{node.this.this}") if isinstance(node.this, exp.Literal) else None
            )
        case exp.Cast() if node.is_type("date") and isinstance(node.this, exp.Literal):
            return read_literal(f"DATE '{node.this.this}'")
        case _:
            return None


def bound_value(literal: Literal | None, type_text: str) -> tuple[bool, Any]:
    """(True, a value that bounds of such a column compare with), or (False, …): leave it alone."""
    if literal is None:
        return True, None
    value = literal.value
    if type_text in _INTEGERS or type_text.startswith("decimal"):
        if literal.kind not in ("int", "decimal"):
            return False, value
        known = all_digits(_digits(type_text), digits_of(Decimal(value)))
        return known, Decimal(value) if literal.kind == "decimal" else value
    if type_text == "double":
        number = literal.kind in ("int", "decimal", "double")
        return number, float(value) if number else None
    if type_text == "string":
        return literal.kind == "string", value
    if type_text == "date":
        return _as_date(literal)
    return False, None


def _digits(type_text: str) -> tuple[int, int]:
    if type_text in _INTEGERS:
        return _INTEGERS[type_text], 0
    precision, _, scale = type_text.removeprefix("decimal(").rstrip(")").partition(",")
    return int(precision), int(scale or 0)


def _as_date(literal: Literal) -> tuple[bool, date | None]:
    if literal.kind == "date":
        return True, literal.value
    if literal.kind != "string":
        return False, None
    plain = read_literal(f"DATE '{literal.value}'") if "'" not in literal.value else None
    return (plain is not None, plain.value if plain is not None else None)
