"""Spark's averages, out of a sum and a count.

Of integers Spark adds doubles. Below 2^53 every such sum is exact. A larger integer is summed here as
the double nearest to it; the sum is exact and rounded once, which is Spark's answer wherever that does
not depend on the order of the rows.

Of DECIMAL(p, s) Spark divides exactly and rounds the quotient once, half up, to s + 4 digits. Its
division operator rounds before that, to what is left of 38 digits: a quotient is the right one if
nine more digits were kept and the group has fewer than 10^9 rows, since no other quotient of such a
sum is that near to a half. Where too few are left, the whole part and the rest are divided apart.
"""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.ir.decimals import LONG, decimal_type
from spark_trickle.ir.trees import duplicate

_DOUBLE = exp.DataType(this=exp.DataType.Type.DOUBLE)
_BIGINT = exp.DataType(this=exp.DataType.Type.BIGINT)
_EXACT = 1 << 53
"""Up to here every integer is a double."""
_MANY = 9
"""Groups of fewer than 10^9 rows."""
_COUNT = 20
"""Digits of a count."""


def as_double(value: exp.Expression) -> exp.Expression:
    """The double nearest to a BIGINT, as a decimal: beyond 2^53 doubles are even."""
    small = exp.Between(
        this=exp.paren(duplicate(value)),
        low=exp.cast(exp.Literal.number(-_EXACT), _BIGINT),
        high=exp.cast(exp.Literal.number(_EXACT), _BIGINT),
    )
    half = _divided(exp.cast(duplicate(value), _DOUBLE), exp.Literal.number(2))
    halves = exp.cast(exp.cast(half, _BIGINT), LONG)
    twice = exp.cast(exp.Mul(this=halves, expression=exp.Literal.number(2)), LONG)
    exact = exp.cast(duplicate(value), LONG)
    return exp.Case(ifs=[exp.If(this=small, true=exact)], default=twice)


def of_integers(total: exp.Expression, count: exp.Expression) -> exp.Expression:
    """The average of integers."""
    return _divided(exp.cast(total, _DOUBLE), exp.cast(duplicate(count), _DOUBLE))


def is_exact(precision: int, scale: int) -> bool:
    """Whether ``of_decimals`` gives every digit of an average of DECIMAL(precision, scale)."""
    return _plainly(precision) or (precision < 28 and scale <= 16 and precision - scale <= 22)


def of_decimals(
    total: exp.Expression, count: exp.Expression, precision: int, scale: int
) -> exp.Expression:
    """The average of decimals, out of the sum in ten more digits."""
    result = decimal_type(precision + 4, scale + 4)
    if _plainly(precision):
        number = exp.cast(duplicate(count), decimal_type(_COUNT, 0))
        return exp.cast(_divided(total, number), result)
    few = exp.LT(this=duplicate(count), expression=exp.Literal.number(10**_MANY))
    apart = [_apart(total, count, precision, scale, digits) for digits in (_MANY, 2 * _MANY)]
    quotient = exp.Case(ifs=[exp.If(this=few, true=apart[0])], default=apart[1])
    return exp.cast(quotient, result)


def _plainly(precision: int) -> bool:
    """Whether division keeps nine digits more than the average has, whatever the scale."""
    return 38 - (precision + 10) >= 4 + _MANY


def _apart(
    total: exp.Expression, count: exp.Expression, precision: int, scale: int, digits: int
) -> exp.Expression:
    """Whole part plus rest / count; the count has at most ``digits``, and so has the rest."""
    number = exp.cast(duplicate(count), decimal_type(min(18, digits + 4), 0))
    rest = exp.cast(
        exp.Mod(this=duplicate(total), expression=duplicate(number)),
        decimal_type(digits + scale, scale),
    )
    even = exp.cast(
        exp.Sub(this=duplicate(total), expression=duplicate(rest)),
        decimal_type(precision + 10, scale),
    )
    whole = exp.cast(_divided(even, number), decimal_type(max(1, precision - scale), 0))
    part = exp.cast(_divided(rest, duplicate(number)), decimal_type(scale + 5, scale + 4))
    return exp.Add(this=whole, expression=part)


def _divided(this: exp.Expression, by: exp.Expression) -> exp.Expression:
    return exp.Div(this=this, expression=by, typed=False, safe=True)
