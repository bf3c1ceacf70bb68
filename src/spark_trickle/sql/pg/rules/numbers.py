"""Arithmetic: PostgreSQL's types of results, its integer division and its scale of quotients."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.rules.casts import coerced
from spark_trickle.sql.pg.types import DIGITS, PgType, as_numeric, common, numeric, refusal, refuse
from spark_trickle.sql.pg.values import PgValue, binary, call, cast, either, failing, let, number

_WHOLE = 12
"""So many digits before the point must be left to a product or sum of numerics without a scale."""
QUOTIENT_SCALE = 20
"""The most digits after the point that a quotient keeps."""
_STEP, _STEPS = 6, 4
"""A quotient is computed in steps of six digits: 24 after the point."""


def arithmetic(kind: type[exp.Binary], left: PgValue, right: PgValue) -> PgValue:
    """``+ - * / %`` of two numbers."""
    type = common([left.type, right.type], "arithmetic")
    left, right = coerced_number(left, type), coerced_number(right, type)
    if type.is_int:
        return _whole(kind, left, right, type)
    if type.kind == "numeric":
        return _exact(kind, left, right)
    if type == t.FLOAT4:
        refuse("arithmetic of float4", "CAST to double precision")
    return _floating(kind, left, right)


def coerced_number(value: PgValue, type: PgType) -> PgValue:
    """As ``coerced``, but a numeric keeps its own digits."""
    if type.kind == "numeric" and value.type.is_exact:
        return coerced(value, as_numeric(value.type))
    return coerced(value, type)


def _whole(kind: type[exp.Binary], left: PgValue, right: PgValue, type: PgType) -> PgValue:
    if kind is exp.Div:
        quotient = exp.IntDiv(this=_in_brackets(left.tree), expression=_in_brackets(right.tree))
        return PgValue(cast(quotient, type), type)  # Spark's div is always a BIGINT
    tree = binary(kind, left.tree, right.tree)
    return PgValue(cast(tree, type) if type == t.INT2 else tree, type)


def _in_brackets(tree: exp.Expr) -> exp.Expr:
    return tree if isinstance(tree, exp.Column) else exp.Paren(this=tree)


def _exact(kind: type[exp.Binary], left: PgValue, right: PgValue) -> PgValue:
    a, b = as_numeric(left.type), as_numeric(right.type)
    free = a.free or b.free
    if kind is exp.Div:
        return quotient(left, right)
    if kind is exp.Mod:
        scale = max(a.scale, b.scale)
        whole = min(a.precision - a.scale, b.precision - b.scale)
        return PgValue(
            binary(kind, left.tree, right.tree), numeric(whole + scale, scale, free=free)
        )
    if kind is exp.Mul:
        scale, room = a.scale + b.scale, DIGITS - 1 - a.scale - b.scale
    else:
        scale = max(a.scale, b.scale)
        room = DIGITS - 1 - scale
    wholes = [a.precision - a.scale, b.precision - b.scale]
    needed = sum(wholes) if kind is exp.Mul else max(wholes)
    if needed > room:
        left, right, wholes = _narrowed(kind, left, right, wholes, room)
        needed = sum(wholes) if kind is exp.Mul else max(wholes)
    tree = binary(kind, left.tree, right.tree)
    return PgValue(tree, numeric(min(DIGITS, needed + scale + 1), scale, free=free))


def _narrowed(
    kind: type[exp.Binary], left: PgValue, right: PgValue, wholes: list[int], room: int
) -> tuple[PgValue, PgValue, list[int]]:
    """Fewer digits before the point, so that none after it is lost: too large a value is an error."""
    if room < _WHOLE:
        refuse(
            f"a {'product' if kind is exp.Mul else 'sum'} of {left.type} and {right.type}: "
            f"more digits than the {DIGITS} of a lake",
            "cast to numeric(p,s) with fewer digits",
        )
    if kind is exp.Mul:
        small = min(wholes[0], room // 2), min(wholes[1], room // 2)
        first = min(wholes[0], room - small[1])
        limits = [first, min(wholes[1], room - first)]
    else:
        limits = [min(whole, room) for whole in wholes]
    values = []
    for value, limit in zip((left, right), limits, strict=True):
        own = as_numeric(value.type)
        values.append(coerced(value, numeric(limit + own.scale, own.scale, free=own.free)))
    return values[0], values[1], limits


def quotient(left: PgValue, right: PgValue) -> PgValue:
    """PostgreSQL chooses the digits after the point by the magnitudes of both numbers.

    It counts in digits to the base of 10,000: sixteen significant ones at least. Quotients that would
    have more than twenty digits after the point are an error here.
    """
    a, b = as_numeric(left.type), as_numeric(right.type)
    least = max(0 if a.free else a.scale, 0 if b.free else b.scale)
    whole = DIGITS - _STEP - 2 - max(a.scale, b.scale)
    if least > QUOTIENT_SCALE or whole < 1:
        refuse(f"a quotient of {left.type} and {right.type}: more digits than a lake has")
    limit = numeric(min(b.precision, whole + b.scale), b.scale)
    type = numeric(DIGITS, QUOTIENT_SCALE, free=True)

    def body(x: exp.Expr, y: exp.Expr) -> exp.Expr:
        size, by = call("abs", x.copy()), call("abs", cast(y.copy(), limit))
        below = [binary(exp.LT, part.copy(), number(0)) for part in (x, y)]
        shift = _shift(size.copy(), call("abs", y.copy()), a, b)
        chosen = let(
            [_digits(size, by), shift, binary(exp.NEQ, *below)],
            lambda q, place, minus: _rounded(
                either(minus.copy(), exp.Neg(this=q.copy()), q.copy()), place, least, type
            ),
        )
        return either(binary(exp.EQ, x.copy(), number(0)), _nothing(y, type), chosen)

    return PgValue(let([left.tree, right.tree], body), type)


def _nothing(divisor: exp.Expr, type: PgType) -> exp.Expr:
    """Zero by something is zero, by nothing an error."""
    zero = binary(exp.EQ, divisor.copy(), number(0))
    return failing(zero, "division by zero", cast(number(0), type), type)


def _digits(x: exp.Expr, y: exp.Expr) -> exp.Expr:
    """The first digits of x / y, cut and not rounded: long division, exact at every step."""

    def step(parts: list[exp.Expr], rest: exp.Expr, by: exp.Expr) -> exp.Expr:
        if len(parts) > _STEPS:
            texts = [cast(part, t.TEXT) for part in parts]
            padded = [call("lpad", d, number(_STEP), exp.Literal.string("0")) for d in texts[1:]]
            joined = call("concat", texts[0], exp.Literal.string("."), *padded)
            return cast(joined, numeric(DIGITS, _STEP * _STEPS))

        def go_on(*given: exp.Expr) -> exp.Expr:
            *done, left, divisor = given
            ahead = binary(exp.Mul, left.copy(), number(10**_STEP)) if done else left.copy()
            digits = exp.Paren(this=exp.IntDiv(this=ahead, expression=divisor.copy()))
            remainder = binary(exp.Mod, ahead.copy(), divisor.copy())
            return step([*(d.copy() for d in done), digits], remainder, divisor.copy())

        return let([*parts, rest, by], go_on)

    return step([], x, y)


def _rounded(q: exp.Expr, place: exp.Expr, least: int, type: PgType) -> exp.Expr:
    """Half away from zero: the next digit alone decides, so a quotient that was cut may be rounded."""
    branches = []
    for places in (4, 3, 2, 1, 0, -1):
        scale = min(QUOTIENT_SCALE, max(16 - 4 * places, least))
        value = cast(call("round", q.copy(), number(scale)), type)
        branches.append(exp.If(this=binary(exp.GTE, place.copy(), number(places)), true=value))
    message = exp.Literal.string("a quotient this small has more digits than are kept here")
    return exp.Case(ifs=branches, default=cast(call("raise_error", message), type))


def _shift(x: exp.Expr, y: exp.Expr, a: PgType, b: PgType) -> exp.Expr:
    """The place of the quotient's first digit to the base of 10,000."""

    def place(value: exp.Expr, type: PgType, leading: bool) -> exp.Expr:
        branches = []
        lowest, highest = -(-type.scale // 4), (type.precision - type.scale) // 4
        for at in range(highest, -lowest - 1, -1):
            power = _power(at)
            first = exp.Paren(this=exp.IntDiv(this=value.copy(), expression=power.copy()))
            answer = first if leading else number(at)
            branches.append(exp.If(this=binary(exp.GTE, value.copy(), power), true=answer))
        return exp.Case(ifs=branches, default=number(0))

    larger = binary(exp.GT, place(x, a, True), place(y, b, True))
    places = binary(exp.Sub, place(x, a, False), place(y, b, False))
    return binary(exp.Sub, places, either(larger, number(0), number(1)))


def _power(place: int) -> exp.Expr:
    """10,000 to the power of ``place``."""
    if place >= 0:
        digits = "1" + "0" * (4 * place)
        return cast(exp.Literal.string(digits), numeric(len(digits), 0))
    digits = "0." + "0" * (-4 * place - 1) + "1"
    return cast(exp.Literal.string(digits), numeric(-4 * place, -4 * place))


def _floating(kind: type[exp.Binary], left: PgValue, right: PgValue) -> PgValue:
    """PostgreSQL fails where a result is too large or too small; Spark goes on with infinity and zero."""
    if kind is exp.Mod:
        refuse("% of double precision")

    def body(x: exp.Expr, y: exp.Expr) -> exp.Expr:
        result = binary(kind, x.copy(), y.copy())
        limits = [exp.Literal.string(word) for word in ("Infinity", "NaN")]
        far = [cast(limit, t.FLOAT8) for limit in limits]
        finite = [
            exp.Not(this=exp.In(this=call("abs", part.copy()), expressions=[f.copy() for f in far]))
            for part in (x, y)
        ]
        gone: exp.Expr = exp.In(this=call("abs", result.copy()), expressions=far)
        if kind is not exp.Add and kind is not exp.Sub:
            nothing = exp.And(
                this=binary(exp.EQ, result.copy(), number(0)),
                expression=binary(exp.NEQ, x.copy(), number(0)),
            )
            if kind is exp.Mul:
                nothing = exp.And(this=nothing, expression=binary(exp.NEQ, y.copy(), number(0)))
            gone = exp.Paren(this=exp.Or(this=gone, expression=exp.Paren(this=nothing)))
        condition = exp.and_(gone, *finite)
        return failing(condition, "value out of range", result, t.FLOAT8)

    return PgValue(let([left.tree, right.tree], body), t.FLOAT8)


def negated(value: PgValue) -> PgValue:
    if not value.type.is_number:
        refuse(f"- of {value.type}")
    tree = exp.Paren(this=exp.Neg(this=_in_brackets(value.tree)))
    constant = -value.constant if isinstance(value.constant, int) else None
    if isinstance(value.constant, str) and value.type.kind == "numeric":
        constant = None
    return PgValue(tree, value.type, constant or None)


def as_float(value: PgValue) -> PgValue:
    if not value.type.is_number:
        refuse(f"double precision of {value.type}")
    return coerced(value, t.FLOAT8)


def total(value: PgValue, distinct: bool) -> PgValue:
    """sum: of bigint it is numeric, which never overflows."""
    type = value.type
    if type in (t.INT2, t.INT4):
        return PgValue(_aggregate("sum", value.tree, distinct), t.INT8)
    if type.is_exact:
        own = as_numeric(type)
        # Spark's own type of a sum: ten digits more.
        wide = numeric(min(DIGITS, own.precision + 10), own.scale, free=type.free)
        return PgValue(_aggregate("sum", coerced(value, own).tree, distinct), wide)
    if type == t.FLOAT8:
        return PgValue(_aggregate("sum", value.tree, distinct), type)
    raise refusal(f"sum of {type}")


def average(value: PgValue, distinct: bool) -> PgValue:
    """avg: sum by count, with the digits of PostgreSQL's division."""
    type = value.type
    if type == t.FLOAT8:
        return PgValue(_aggregate("avg", value.tree, distinct), type)
    if not type.is_exact:
        refuse(f"avg of {type}")
    own = as_numeric(type)
    inner = coerced(value, own)
    limited = numeric(min(DIGITS, own.precision + 10), own.scale, free=own.free)
    summed = PgValue(_aggregate("sum", inner.tree, distinct), limited)
    counted = numeric(19, 0)
    rows = PgValue(cast(_aggregate("count", value.tree.copy(), distinct), counted), counted)
    return quotient(summed, rows)


def _aggregate(name: str, tree: exp.Expr, distinct: bool) -> exp.Expr:
    return call(name, exp.Distinct(expressions=[tree]) if distinct else tree)


def numbers(values: Sequence[PgValue], what: str) -> PgType:
    for value in values:
        if not value.type.is_number:
            refuse(f"{what} of {value.type}")
    return common([value.type for value in values], what)
