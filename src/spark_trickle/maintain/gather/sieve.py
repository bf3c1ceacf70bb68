"""Which rows may pass a filter, judged here by what Arrow and Spark certainly agree on.

Law: a row is sieved out only if Spark would drop it, too. Comparisons of integers, decimals, dates
and strings with constants or with each other are judged; whatever else is taken to be true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

_COMPARISONS: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}


_PLAIN = {"this", "expression", "expressions", "low", "high"}


def may_pass(rows: pa.Table, tests: Sequence[exp.Expression]) -> np.ndarray | None:
    """The rows that may pass all tests, whose columns are named; None: all of them."""
    passed: np.ndarray | None = None
    for test in tests:
        found = _judged(rows, test)
        if found is not None:
            passed = found if passed is None else passed & found
    return passed


def _judged(rows: pa.Table, test: exp.Expression) -> np.ndarray | None:
    """NULL counts as FALSE; None: cannot tell."""
    if any(value for name, value in test.args.items() if name not in _PLAIN):
        # Such as NOT in NOT LIKE, SYMMETRIC, or a subquery.
        return None
    match test:
        case exp.Paren():
            return _judged(rows, test.this)
        case exp.And():
            return may_pass(rows, [test.this, test.expression])
        case exp.Or():
            left, right = _judged(rows, test.this), _judged(rows, test.expression)
            return None if left is None or right is None else left | right
        case exp.Between():
            low = exp.GTE(this=test.this.copy(), expression=test.args["low"].copy())
            high = exp.LTE(this=test.this.copy(), expression=test.args["high"].copy())
            return may_pass(rows, [low, high])
        case exp.In() if test.expressions:
            equal = [exp.EQ(this=test.this.copy(), expression=e.copy()) for e in test.expressions]
            found = [_judged(rows, one) for one in equal]
            known = [one for one in found if one is not None]
            return np.logical_or.reduce(known) if len(known) == len(found) else None
        case exp.Like():
            return _like(rows, test)
        case _:
            return _compared(rows, test)


def _compared(rows: pa.Table, test: exp.Expression) -> np.ndarray | None:
    compare = _COMPARISONS.get(type(test))
    if compare is None:
        return None
    left, right = _value(rows, test.this), _value(rows, test.expression)
    if left is None or right is None or _kind(left.type) != _kind(right.type):
        return None
    if _beyond(left, right) or _beyond(right, left):
        return None
    try:
        return _mask(compare(left, right), rows.num_rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _beyond(column: Any, constant: Any) -> bool:
    """Whether a decimal may be beyond an integer column's type: Spark takes ``<`` as true then, even of NULL."""
    whole = isinstance(column, pa.ChunkedArray) and pa.types.is_integer(column.type)
    return whole and isinstance(constant, pa.Scalar) and pa.types.is_decimal(constant.type)


def _like(rows: pa.Table, test: exp.Like) -> np.ndarray | None:
    """Patterns with nothing but % at their ends."""
    column, pattern = _value(rows, test.this), test.expression
    if not isinstance(column, pa.ChunkedArray) or not isinstance(pattern, exp.Literal):
        return None
    if not pattern.is_string or any(sign in pattern.name.strip("%") for sign in "%_\\"):
        return None
    return _mask(pc.match_like(column, pattern.name), rows.num_rows)


def _mask(found: Any, length: int) -> np.ndarray:
    if isinstance(found, pa.Scalar):
        return np.full(length, bool(found.as_py()))
    mask: np.ndarray = pc.fill_null(found, False).to_numpy()
    return mask


def _value(rows: pa.Table, e: exp.Expression) -> pa.ChunkedArray | pa.Scalar | None:
    match e:
        case exp.Column():
            return rows.column(e.name) if _kind(rows.schema.field(e.name).type) else None
        case exp.Literal():
            return pa.scalar(e.name) if e.is_string else _number(e.name)
        case exp.Cast() if e.to.this == exp.DataType.Type.DATE and isinstance(e.this, exp.Literal):
            try:
                return pa.scalar(date.fromisoformat(e.this.name))
            except ValueError:
                return None
        case _:
            return None


def _number(text: str) -> pa.Scalar | None:
    """A number with all its digits; None for what Arrow has no exact type for."""
    if not text.replace(".", "", 1).isdigit():
        return None
    try:
        return pa.scalar(Decimal(text) if "." in text or int(text) >= 1 << 63 else int(text))
    except pa.ArrowInvalid:
        return None


def _kind(type: pa.DataType) -> str:
    if pa.types.is_integer(type) or pa.types.is_decimal(type):
        return "number"
    if pa.types.is_date(type):
        return "date"
    return "text" if pa.types.is_string(type) or pa.types.is_large_string(type) else ""
