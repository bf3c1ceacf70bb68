"""Exact expressions as Python functions of a row: three-valued, lazy, with Spark's errors.

Law: for every expression that ``prove/scalars.py`` lets through and every row, the value or the kind
of error is Spark's. Like Spark, an operand is not looked at when the one before it decides.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from spark_trickle.errors import ExecutionError
from spark_trickle.ir.exact import (
    INTEGER_BITS,
    Constant,
    Exact,
    ExactKind,
    ExactType,
    Input,
    Op,
    Operation,
    show,
)
from spark_trickle.local import texts
from spark_trickle.local.values import number

Row = Sequence[Any]
Evaluator = Callable[[Row], Any]


def function_of(expression: Exact) -> Evaluator:
    """The function that computes an expression."""
    match expression:
        case Input():
            return operator.itemgetter(expression.index)
        case Constant():
            value = expression.value
            return lambda _: value
        case Operation():
            return _folded(expression, _call(expression))
        case _:
            assert_never(expression)


def _folded(call: Operation, function: Evaluator) -> Evaluator:
    """A value that depends on no row is computed once; an error waits until somebody asks."""
    if not all(isinstance(argument, Constant) for argument in call.args):
        return function
    try:
        value = function(())
    except ExecutionError:
        return function
    return lambda _: value


def _call(call: Operation) -> Evaluator:  # noqa: C901  one case per operator
    args = [function_of(argument) for argument in call.args]
    match call.op:
        case Op.AND:
            return _and(args)
        case Op.OR:
            return _or(args)
        case Op.CASE:
            return _case(args)
        case Op.COALESCE:
            return _coalesce(args)
        case Op.IS_NULL:
            (value,) = args
            return lambda row: value(row) is None
        case Op.IN:
            return _in(call, args)
        case Op.SAME:
            left, right = args
            return lambda row: left(row) == right(row)
        case Op.NOT:
            return _unary(args[0], operator.not_)
        case Op.NEGATE:
            return _unary(args[0], _negated(call))
        case Op.CAST:
            return _unary(args[0], _cast(call))
        case Op.LIKE:
            return _unary(args[0], _like(str(args[1](()))))
        case op if op in texts.FUNCTIONS:
            return _strict(args, texts.FUNCTIONS[op])
        case _:
            return _binary(args[0], args[1], _operation(call))


def _unary(value: Evaluator, compute: Callable[[Any], Any]) -> Evaluator:
    def function(row: Row) -> Any:
        found = value(row)
        return None if found is None else compute(found)

    return function


def _strict(args: list[Evaluator], compute: Callable[..., Any]) -> Evaluator:
    def function(row: Row) -> Any:
        found = [value(row) for value in args]
        return None if None in found else compute(*found)

    return function


def _like(pattern: str) -> Callable[[str], bool]:
    parts = (_WILD.get(sign) or re.escape(sign) for sign in pattern)
    matches = re.compile("".join(parts), re.DOTALL).fullmatch
    return lambda text: matches(text) is not None


_WILD = {"%": ".*", "_": "."}


def _binary(left: Evaluator, right: Evaluator, compute: Callable[[Any, Any], Any]) -> Evaluator:
    def function(row: Row) -> Any:
        a = left(row)
        if a is None:
            return None
        b = right(row)
        return None if b is None else compute(a, b)

    return function


# Conditions


def _and(parts: list[Evaluator]) -> Evaluator:
    def function(row: Row) -> bool | None:
        result: bool | None = True
        for part in parts:
            found = part(row)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    return function


def _or(parts: list[Evaluator]) -> Evaluator:
    def function(row: Row) -> bool | None:
        result: bool | None = False
        for part in parts:
            found = part(row)
            if found is True:
                return True
            if found is None:
                result = None
        return result

    return function


def _in(call: Operation, args: list[Evaluator]) -> Evaluator:
    value, *others = args
    if all(isinstance(argument, Constant) for argument in call.args[1:]):
        values = {other(()) for other in others}
        otherwise = None if None in values else False
        return _unary(value, lambda found: True if found in values else otherwise)

    def function(row: Row) -> bool | None:
        found = value(row)
        if found is None:
            return None
        result: bool | None = False
        for other in others:
            listed = other(row)
            if listed is None:
                result = None
            elif listed == found:
                return True
        return result

    return function


def _case(args: list[Evaluator]) -> Evaluator:
    *pairs, default = args
    branches = list(zip(pairs[::2], pairs[1::2], strict=True))

    def function(row: Row) -> Any:
        for test, value in branches:
            if test(row):
                return value(row)
        return default(row)

    return function


def _coalesce(args: list[Evaluator]) -> Evaluator:
    def function(row: Row) -> Any:
        for value in args:
            found = value(row)
            if found is not None:
                return found
        return None

    return function


# Numbers


def _operation(call: Operation) -> Callable[[Any, Any], Any]:
    plain = _COMPARISONS.get(call.op)
    if plain is not None:
        return plain
    if call.type.kind is ExactKind.DOUBLE:
        return _of_doubles(call)
    compute = _decimal(call) if call.type.kind is ExactKind.DECIMAL else _INTEGERS[call.op](call)
    fits = checker(call.type)
    code = _OVERFLOWS.get(call.type.kind, "ARITHMETIC_OVERFLOW")

    def operation(a: int, b: int) -> int:
        result = compute(a, b)
        if not fits(result):
            raise failed(code, call)
        return result

    return operation


_OVERFLOWS = {
    ExactKind.DECIMAL: "NUMERIC_VALUE_OUT_OF_RANGE",
    ExactKind.TINYINT: "BINARY_ARITHMETIC_OVERFLOW",
    ExactKind.SMALLINT: "BINARY_ARITHMETIC_OVERFLOW",
}
_COMPARISONS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQUAL: operator.eq,
    Op.UNEQUAL: operator.ne,
    Op.LESS: operator.lt,
    Op.AT_MOST: operator.le,
    Op.GREATER: operator.gt,
    Op.AT_LEAST: operator.ge,
}


def _quotient(call: Operation) -> Callable[[int, int], int]:
    divisor = _divisor(call, "DIVIDE_BY_ZERO")
    return lambda a, b: _truncated(a, divisor(b))


def _remainder(call: Operation) -> Callable[[int, int], int]:
    divisor = _divisor(call, "REMAINDER_BY_ZERO")
    return lambda a, b: _rest(a, divisor(b))


_INTEGERS: dict[Op, Callable[[Operation], Callable[[int, int], int]]] = {
    Op.ADD: lambda _: operator.add,
    Op.SUBTRACT: lambda _: operator.sub,
    Op.MULTIPLY: lambda _: operator.mul,
    Op.QUOTIENT: _quotient,
    Op.REMAINDER: _remainder,
}


def _of_doubles(call: Operation) -> Callable[[float, float], float]:
    divided = call.op is Op.DIVIDE
    compute: Any = operator.truediv if divided else _INTEGERS[call.op](call)

    def operation(a: float, b: float) -> float:
        if divided and b == 0:
            raise failed("DIVIDE_BY_ZERO", call)
        return number(compute(a, b))

    return operation


def _decimal(call: Operation) -> Callable[[int, int], int]:
    """Decimals as integers without their points, rounded once, to the scale of the result."""
    s1, s2, scale = (t.scale for t in (call.args[0].type, call.args[1].type, call.type))
    wide = max(s1, s2)
    left, right = 10 ** (wide - s1), 10 ** (wide - s2)
    match call.op:
        case Op.MULTIPLY:
            return lambda a, b: rescaled(a * b, s1 + s2, scale)
        case Op.DIVIDE:
            divide = _divisor(call, "DIVIDE_BY_ZERO")
            up, down = (10 ** max(n, 0) for n in (scale + s2 - s1, s1 - s2 - scale))
            return lambda a, b: _half_up(a * up, divide(b) * down)
        case Op.REMAINDER:
            divide = _divisor(call, "REMAINDER_BY_ZERO")
            return lambda a, b: rescaled(_rest(a * left, divide(b) * right), wide, scale)
        case Op.SUBTRACT:
            right = -right
    return lambda a, b: rescaled(a * left + b * right, wide, scale)


def _divisor(call: Operation, code: str) -> Callable[[int], int]:
    def checked(value: int) -> int:
        if value == 0:
            raise failed(code, call)
        return value

    return checked


def rescaled(value: int, scale: int, target: int) -> int:
    """A decimal at another scale, rounded half up (away from zero)."""
    if target >= scale:
        return int(value * 10 ** (target - scale))
    return _half_up(value, 10 ** (scale - target))


def _half_up(a: int, b: int) -> int:
    quotient, rest = divmod(abs(a), abs(b))
    quotient += 2 * rest >= abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _rest(a: int, b: int) -> int:
    return a - b * _truncated(a, b)


def _negated(call: Operation) -> Callable[[int], int]:
    fits = checker(call.type)

    def negate(value: int) -> int:
        if not fits(-value):
            raise failed("ARITHMETIC_OVERFLOW", call)
        return -value

    return negate


def checker(type: ExactType) -> Callable[[int], bool]:
    """Whether a number fits a type."""
    if type.kind is ExactKind.DECIMAL:
        bound = 10**type.precision
        return lambda value: -bound < value < bound
    half = 1 << (INTEGER_BITS[type.kind] - 1)
    return lambda value: -half <= value < half


def _cast(call: Operation) -> Callable[[Any], Any]:
    given, target = call.args[0].type, call.type
    if target.kind is ExactKind.DOUBLE:
        unit = 10**given.scale
        return lambda value: value / unit  # correctly rounded, as Spark does
    if given.kind is ExactKind.DOUBLE:
        return _whole(call)
    fits = checker(target)
    decimal = target.kind is ExactKind.DECIMAL
    code = "NUMERIC_VALUE_OUT_OF_RANGE" if decimal else "CAST_OVERFLOW"
    unit = 10**given.scale

    def convert(value: int) -> int:
        found = rescaled(value, given.scale, target.scale) if decimal else _truncated(value, unit)
        if not fits(found):
            raise failed(code, call)
        return found

    return convert


def _whole(call: Operation) -> Callable[[float], int]:
    """A double as BIGINT: towards zero; 2^63, the double nearest to the largest BIGINT, is that."""
    end = 1 << 63

    def convert(value: float) -> int:
        if not -end <= value <= end:
            raise failed("CAST_OVERFLOW", call)
        return min(int(value), end - 1)

    return convert


_REASONS = {
    "ARITHMETIC_OVERFLOW": "the result does not fit {type}",
    "BINARY_ARITHMETIC_OVERFLOW": "the result does not fit {type}",
    "NUMERIC_VALUE_OUT_OF_RANGE": "the result does not fit {type}",
    "CAST_OVERFLOW": "the value does not fit {type}",
    "DIVIDE_BY_ZERO": "division by zero",
    "REMAINDER_BY_ZERO": "division by zero",
}


def failed(code: str, call: Operation) -> ExecutionError:
    """The error that Spark raises, under its own code."""
    reason = _REASONS[code].format(type=call.type)
    return ExecutionError(
        f"[{code}] {reason} in {show(call)}",
        hint="no row was changed; mend the row, or the query of the stream table",
    )
