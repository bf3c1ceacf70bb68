"""Fold constants and drop what cannot matter: ``x AND TRUE`` = ``x``, a filter on TRUE = its input.

Dates are folded because file pruning needs a literal to compare a column's minimum and maximum with.
"""

from __future__ import annotations

import calendar
import datetime
from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.decimals import all_digits, decimal_parameters
from spark_trickle.ir.nodes import Filter, Join, Node, Values
from spark_trickle.ir.scalars import conjunction, conjuncts
from spark_trickle.ir.trees import duplicate, holds
from spark_trickle.ir.walk import map_expressions, transform_up

_UNITS = {"DAY": 1, "DAYS": 1, "WEEK": 7, "WEEKS": 7}
_INT = (10, 0)
_MONTHS = {"MONTH": 1, "MONTHS": 1, "YEAR": 12, "YEARS": 12, "QUARTER": 3, "QUARTERS": 3}


def simplify(plan: Node) -> Node:
    """The plan with constant parts of expressions evaluated."""
    return transform_up(plan, lambda node: _dropped(map_expressions(node, simplify_expression)))


_FOLDING = (exp.Paren, exp.Add, exp.Sub, exp.And, exp.Or, exp.Not)
"""What may become something else; in most expressions there is none."""


def simplify_expression(expression: exp.Expression) -> exp.Expression:
    """The expression with constant parts evaluated, bottom-up."""
    if not holds(expression, *_FOLDING):
        return expression
    copy = duplicate(expression)
    for node in reversed(list(copy.walk())):
        if node is copy:
            continue
        folded = _folded(node)
        if folded is not node:
            node.replace(folded)
    result = _folded(copy)
    while isinstance(result, exp.Paren):
        result = result.this
    assert isinstance(result, exp.Expression)
    return duplicate(result) if result.parent is not None else result


def _folded(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Paren):
        inner: exp.Expr = node.this
        return inner if _needs_no_parentheses(inner) else node
    if isinstance(node, exp.Add | exp.Sub):
        return _date(node) or _integer(node) or node
    if isinstance(node, exp.And | exp.Or):
        return _connected(node)
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Boolean):
        return _boolean(not node.this.this)
    return node


def _needs_no_parentheses(node: exp.Expr) -> bool:
    atoms = (exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Paren)
    return isinstance(node, atoms) or (
        isinstance(node, exp.Func) and not isinstance(node, exp.Connector)
    )


def _connected(node: exp.And | exp.Or) -> exp.Expr:
    """``TRUE AND x`` is x; ``FALSE AND x`` is FALSE also where x is NULL."""
    absorbing = isinstance(node, exp.Or)
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        constant = _without_parentheses(side)
        if isinstance(constant, exp.Boolean):
            if bool(constant.this) is absorbing:
                return _boolean(absorbing)
            if not isinstance(_without_parentheses(other), exp.Null):
                result: exp.Expr = other
                return result
    return node


def _without_parentheses(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _boolean(value: bool) -> exp.Expression:
    result = exp.Boolean(this=value)
    result.type = exp.DataType(this=exp.DataType.Type.BOOLEAN)
    return result


def _integer(node: exp.Add | exp.Sub) -> exp.Expression | None:
    # Only where a value is compared: in decimal arithmetic a literal has fewer digits than a sum.
    if not isinstance(node.parent, exp.Predicate) or _rounds(node.parent):
        return None
    left, right = node.this, node.expression
    if not (_is_integer(left) and _is_integer(right)):
        return None
    a, b = int(left.name), int(right.name)
    value = a + b if isinstance(node, exp.Add) else a - b
    if not 0 <= value < 2**31 or max(a, b) >= 2**31:
        return None
    result = exp.Literal.number(value)
    result.type = node.type
    return result


def _rounds(predicate: exp.Expr) -> bool:
    """Whether an INT beside a decimal needs more than 38 digits, where a literal may not."""
    for operand in predicate.iter_expressions():
        if operand.type is None or operand.type.this == exp.DType.UNKNOWN:
            return True
        if not all_digits(decimal_parameters(operand.type) or (0, 0), _INT):
            return True
    return False


def _is_integer(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def _date(node: exp.Add | exp.Sub) -> exp.Expression | None:
    """``DATE '1994-01-01' + INTERVAL '3' MONTH`` as the date it is."""
    day = _date_literal(node.this)
    by = node.expression
    if day is None or not isinstance(by, exp.Interval):
        return None
    unit, amount = by.args.get("unit"), by.this
    if not isinstance(unit, exp.Var) or not isinstance(amount, exp.Literal):
        return None
    if not amount.name.isdigit():
        return None
    count = int(amount.name) * (1 if isinstance(node, exp.Add) else -1)
    moved = _moved(day, unit.name.upper(), count)
    if moved is None:
        return None
    date = exp.DataType(this=exp.DataType.Type.DATE)
    result = exp.Cast(this=exp.Literal.string(moved.isoformat()), to=date)
    result.type = duplicate(date)
    return result


def _date_literal(node: exp.Expr) -> datetime.date | None:
    if not isinstance(node, exp.Cast) or node.to.this != exp.DataType.Type.DATE:
        return None
    if not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    try:
        return datetime.date.fromisoformat(node.this.name)
    except ValueError:
        return None


def _moved(day: datetime.date, unit: str, count: int) -> datetime.date | None:
    try:
        if unit in _UNITS:
            return day + datetime.timedelta(days=count * _UNITS[unit])
        if unit not in _MONTHS:
            return None
        months = day.year * 12 + day.month - 1 + count * _MONTHS[unit]
        year, month = divmod(months, 12)
        # The day is cut to the length of the month it lands in.
        last = calendar.monthrange(year, month + 1)[1]
        return datetime.date(year, month + 1, min(day.day, last))
    except (OverflowError, ValueError):
        return None


def _dropped(node: Node) -> Node:
    match node:
        case Filter():
            parts = [part for part in conjuncts(node.predicate) if not _is_true(part)]
            if any(_is_false(part) for part in parts):
                return Values(node.columns, ())
            if parts == [node.predicate]:
                return node
            return Filter(node.input, conjunction(parts)) if parts else node.input
        case Join():
            kept = tuple(part for part in node.conditions if not _is_true(part))
            return node if len(kept) == len(node.conditions) else replace(node, conditions=kept)
        case _:
            return node


def _is_true(node: exp.Expr) -> bool:
    return isinstance(node, exp.Boolean) and bool(node.this)


def _is_false(node: exp.Expr) -> bool:
    return isinstance(node, exp.Null) or (isinstance(node, exp.Boolean) and not node.this)
