"""Exact expressions over whole columns.

Law: what is computed here is what ``evaluate.py`` computes row by row, and what fails there fails
here. Every number carries a bound that no magnitude passes, so it is known before whether a result
can leave its type. An operator without a rule is computed of each distinct row of its arguments; if
something might fail, the whole expression is, because then the order in which operands are looked
at matters.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np

from spark_trickle.errors import ExecutionError
from spark_trickle.ir.exact import Constant, Exact, ExactKind, ExactType, Input, Op, Operation
from spark_trickle.local.evaluate import checker, function_of
from spark_trickle.local.vectors import (
    LARGEST,
    Texts,
    Vector,
    dtype,
    from_values,
    numbered,
    ranks,
    to_values,
)

_EXACT_DOUBLES = 1 << 53
"""Every whole number up to this is a double."""


class Beyond(Exception):
    """It is for the rows, one by one."""


class HasColumns(Protocol):
    """Rows by column."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def column(self, place: int) -> Vector:
        """One of its columns."""


class Columns:
    """Computes expressions of some rows, each once."""

    def __init__(self, source: HasColumns, texts: Texts) -> None:
        self._source = source
        self.texts = texts
        self._done: dict[Exact, Vector] = {}

    def computed(self, expression: Exact) -> Vector:
        """The values of an expression; ExecutionError if one of them fails."""
        try:
            return self._known(expression)
        except (Beyond, ExecutionError):
            return self._by_rows(expression)

    def _known(self, expression: Exact) -> Vector:
        found = self._done.get(expression)
        if found is None:
            found = self._done[expression] = self._compute(expression)
        return found

    def _compute(self, expression: Exact) -> Vector:
        match expression:
            case Input():
                return self._source.column(expression.index)
            case Constant():
                return self._constant(expression)
            case Operation():
                rule = _RULES.get(expression.op)
                if rule is None:
                    return self._by_rows(expression)
                return rule(self.texts, expression, [self._known(each) for each in expression.args])

    def _constant(self, constant: Constant) -> Vector:
        one = from_values([constant.value], constant.type, self.texts)
        rows = self._source.rows
        return Vector(np.repeat(one.values, rows), np.repeat(one.known, rows), one.most)

    def _by_rows(self, expression: Exact) -> Vector:
        """Computed of each distinct row of what it reads."""
        read = {each.index: each.type for each in inputs(expression)}
        vectors = {place: self._source.column(place) for place in read}
        codes = numbered(vectors.values(), self._source.rows)
        _, firsts = np.unique(codes, return_index=True)
        columns: list[Sequence[Any]] = [[None] * len(firsts)] * (max(read, default=-1) + 1)
        for place, type in read.items():
            columns[place] = to_values(vectors[place].take(firsts), type, self.texts)
        function = function_of(expression)
        rows = zip(*columns, strict=True) if columns else [()] * len(firsts)
        found = [function(row) for row in rows]
        return from_values(found, expression.type, self.texts).take(codes)


def inputs(expression: Exact) -> list[Input]:
    """The columns that an expression reads."""
    match expression:
        case Input():
            return [expression]
        case Operation():
            return [found for each in expression.args for found in inputs(each)]
        case Constant():
            return []


def _fitting(most: int, type: ExactType) -> int:
    """The bound, if a type holds every number up to it."""
    if not (type.integral or type.kind is ExactKind.DECIMAL) or not checker(type)(most):
        raise Beyond
    return most


# Rules


def _scaled(value: Vector, digits: int) -> Vector:
    if not digits:
        return value
    if digits < 0:
        return _rounded(value, 10**-digits)
    most = max(value.most, 1) * 10**digits
    return Vector(_room(value, most) * 10**digits, value.known, most)


def _rounded(value: Vector, unit: int) -> Vector:
    """As many times a unit, half up."""
    most = value.most + unit // 2
    size = (np.abs(_room(value, max(most, unit))) + unit // 2) // unit
    rounded = np.where(value.values < 0, -size, size)
    if most // unit < LARGEST:
        rounded = rounded.astype(np.int64)
    return Vector(rounded, value.known, most // unit)


def _room(value: Vector, most: int) -> np.ndarray:
    """The values, in an array that has room for results up to a bound."""
    return value.values if most < LARGEST else value.values.astype(object)


def _arithmetic(_: Texts, call: Operation, args: list[Vector]) -> Vector:
    left, right = args
    if call.type.kind is ExactKind.DOUBLE:
        return _of_doubles(call, left, right)
    scales = [each.type.scale for each in call.args]
    if call.op is Op.MULTIPLY:
        most, scale = left.most * right.most, sum(scales)
    else:
        scale = max(scales)
        left, right = (_scaled(v, scale - s) for v, s in zip(args, scales, strict=True))
        most = left.most + right.most
    if scale != call.type.scale:
        raise Beyond
    most = _fitting(most, call.type)
    known = left.known & right.known
    values = _COMPUTED[call.op](_room(left, most), _room(right, most))
    return Vector(np.where(known, values, 0), known, most)


def _of_doubles(call: Operation, left: Vector, right: Vector) -> Vector:
    known = left.known & right.known
    if call.op is Op.DIVIDE and (known & (right.values == 0)).any():
        raise Beyond
    with np.errstate(all="ignore"):
        values = np.where(known, _COMPUTED[call.op](left.values, right.values), 0.0)
    if np.isnan(values).any():
        raise Beyond
    return Vector(values, known)


def _divide(texts: Texts, call: Operation, args: list[Vector]) -> Vector:
    if call.type.kind is not ExactKind.DOUBLE:
        raise Beyond
    return _arithmetic(texts, call, args)


_COMPUTED: dict[Op, Callable[[Any, Any], Any]] = {
    Op.ADD: operator.add,
    Op.SUBTRACT: operator.sub,
    Op.MULTIPLY: operator.mul,
    Op.DIVIDE: operator.truediv,
}


def _negate(_: Texts, call: Operation, args: list[Vector]) -> Vector:
    (value,) = args
    return Vector(-value.values, value.known, _fitting(value.most, call.type))


def _cast(_: Texts, call: Operation, args: list[Vector]) -> Vector:
    (given,), (value,) = call.args, args
    numeric = given.type.integral or given.type.kind is ExactKind.DECIMAL
    if numeric and call.type.kind is ExactKind.DOUBLE:
        if max(value.most, 10**given.type.scale) > _EXACT_DOUBLES:
            raise Beyond
        return Vector(value.values / 10**given.type.scale, value.known)
    if not numeric or (call.type.integral and given.type.scale):
        raise Beyond
    value = _scaled(value, call.type.scale - given.type.scale)
    return Vector(value.values, value.known, _fitting(value.most, call.type))


def _sides(
    texts: Texts, call: Operation, args: list[Vector], *, ordered: bool = False
) -> list[np.ndarray]:
    """The operands as numbers that are equal, or ``ordered``, as they are; of one type, or NULL."""
    types = {each.type for each in call.args if each.type.kind is not ExactKind.VOID}
    if len(types) > 1:
        raise Beyond
    (type,) = types or {call.args[0].type}
    if not ordered or any(each.values.dtype == object for each in args):
        return [each.values for each in args]
    return [ranks(each, type, texts) for each in args]


def _comparison(compare: Callable[[Any, Any], Any]) -> Rule:
    def rule(texts: Texts, call: Operation, args: list[Vector]) -> Vector:
        left, right = _sides(texts, call, args, ordered=call.op not in (Op.EQUAL, Op.UNEQUAL))
        known = args[0].known & args[1].known
        return Vector(compare(left, right).astype(bool) & known, known)

    return rule


def _same(texts: Texts, call: Operation, args: list[Vector]) -> Vector:
    left, right = _sides(texts, call, args)
    one, two = args
    both = one.known & two.known & (left == right).astype(bool)
    return Vector(both | ~(one.known | two.known), np.ones(len(both), bool))


def _and(_: Texts, __: Operation, args: list[Vector]) -> Vector:
    false = reduce(operator.or_, [each.known & ~each.values.astype(bool) for each in args])
    known = false | reduce(operator.and_, [each.known for each in args])
    return Vector(known & ~false, known)


def _or(_: Texts, __: Operation, args: list[Vector]) -> Vector:
    true = reduce(operator.or_, [each.true for each in args])
    return Vector(true, true | reduce(operator.and_, [each.known for each in args]))


def _not(_: Texts, __: Operation, args: list[Vector]) -> Vector:
    (value,) = args
    return Vector(value.known & ~value.values.astype(bool), value.known)


def _is_null(_: Texts, __: Operation, args: list[Vector]) -> Vector:
    (value,) = args
    return Vector(~value.known, np.ones(len(value.known), bool))


def _in(texts: Texts, call: Operation, args: list[Vector]) -> Vector:
    first, *others = _sides(texts, call, args)
    value, *listed = args
    equal = [v.known & (first == o).astype(bool) for o, v in zip(others, listed, strict=True)]
    found = value.known & reduce(operator.or_, equal)
    every = reduce(operator.and_, [v.known for v in listed])
    return Vector(found, value.known & (found | every))


def _case(_: Texts, call: Operation, args: list[Vector]) -> Vector:
    *pairs, found = args
    for test, value in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
        found = _chosen(call.type, test.true, value, found)
    return found


def _coalesce(_: Texts, call: Operation, args: list[Vector]) -> Vector:
    def better(later: Vector, value: Vector) -> Vector:
        return _chosen(call.type, value.known, value, later)

    return reduce(better, reversed(args))


def _chosen(type: ExactType, which: np.ndarray, yes: Vector, no: Vector) -> Vector:
    values = np.where(which, yes.values, no.values)
    if values.dtype != object:
        values = values.astype(dtype(type))
    return Vector(values, np.where(which, yes.known, no.known), max(yes.most, no.most))


Rule = Callable[[Texts, Operation, list[Vector]], Vector]
_RULES: dict[Op, Rule] = {
    Op.ADD: _arithmetic,
    Op.SUBTRACT: _arithmetic,
    Op.MULTIPLY: _arithmetic,
    Op.DIVIDE: _divide,
    Op.NEGATE: _negate,
    Op.CAST: _cast,
    Op.EQUAL: _comparison(operator.eq),
    Op.UNEQUAL: _comparison(operator.ne),
    Op.LESS: _comparison(operator.lt),
    Op.AT_MOST: _comparison(operator.le),
    Op.GREATER: _comparison(operator.gt),
    Op.AT_LEAST: _comparison(operator.ge),
    Op.SAME: _same,
    Op.AND: _and,
    Op.OR: _or,
    Op.NOT: _not,
    Op.IS_NULL: _is_null,
    Op.IN: _in,
    Op.CASE: _case,
    Op.COALESCE: _coalesce,
}
