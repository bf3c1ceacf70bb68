"""Exact expressions over whole columns: many rows at once, in 64-bit integers.

Law: what is computed here is what ``evaluate.py`` computes row by row. Every value carries a bound that
no magnitude passes; where a bound does not fit 64 bits or the type, where something might fail or
has no rule here, ``Beyond`` is raised, and the rows are looked at one by one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from spark_trickle.ir.exact import Constant, Exact, ExactKind, ExactType, Input, Op, Operation
from spark_trickle.local.evaluate import checker
from spark_trickle.local.values import arrow_type

_LARGEST = 1 << 62
"""A bound below this leaves room for one more sign or sum in 64 bits."""
_DAYS_AND_TIMES = (ExactKind.DATE, ExactKind.TIMESTAMP, ExactKind.TIMESTAMP_NTZ)


class Beyond(Exception):
    """It is for the rows, one by one."""


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, days, microseconds or truth values; what is unknown is 0 or False."""

    values: np.ndarray
    known: np.ndarray
    """False where it is NULL."""
    most: int = 1
    """No magnitude is larger."""


class Columns:
    """The columns of some rows, and what was computed of them."""

    def __init__(self, columns: Sequence[pa.ChunkedArray], rows: int) -> None:
        self._columns = columns
        self.rows = rows
        self._done: dict[Exact, Numbers] = {}

    def computed(self, expression: Exact) -> Numbers:
        """The values of an expression; raises Beyond."""
        found = self._done.get(expression)
        if found is None:
            found = self._done[expression] = self._compute(expression)
        return found

    def _compute(self, expression: Exact) -> Numbers:
        match expression:
            case Input():
                return numbers(self._columns[expression.index], expression.type)
            case Constant():
                return self._constant(expression)
            case Operation():
                rule = _RULES.get(expression.op)
                if rule is None:
                    raise Beyond
                return rule(expression, [self.computed(each) for each in expression.args])

    def _constant(self, constant: Constant) -> Numbers:
        value, known = constant.value, constant.value is not None
        if isinstance(value, str | bytes | float):
            raise Beyond
        kind = bool if isinstance(value, bool) else np.int64
        if abs(value or 0) >= _LARGEST:
            raise Beyond
        values = np.full(self.rows, value or 0, kind)
        return Numbers(values, np.full(self.rows, known), abs(value or 0))


def numbers(column: pa.ChunkedArray, type: ExactType) -> Numbers:
    """A column of Arrow."""
    target = arrow_type(type) if type.kind is not ExactKind.OPAQUE else column.type
    array = pa.concat_arrays(column.cast(target).chunks) if column.num_chunks else None
    if array is None:
        raise Beyond
    known = np.asarray(array.is_valid())
    match type.kind:
        case ExactKind.BOOLEAN:
            return Numbers(np.asarray(array.fill_null(False)), known)
        case ExactKind.DECIMAL:
            words = np.frombuffer(array.buffers()[1], np.int64)
            words = words[2 * array.offset : 2 * (array.offset + len(array))]
            values, high = np.where(known, words[::2], 0), np.where(known, words[1::2], 0)
            if (high != values >> 63).any():
                raise Beyond
        case ExactKind.DATE:
            values = np.asarray(array.cast(pa.int32()).fill_null(0)).astype(np.int64)
        case kind if type.integral or kind in _DAYS_AND_TIMES:
            values = np.asarray(array.cast(pa.int64()).fill_null(0))
        case _:
            raise Beyond
    most = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return Numbers(values, known, _small(most))


def _small(most: int) -> int:
    if most >= _LARGEST:
        raise Beyond
    return most


def _fitting(most: int, type: ExactType) -> int:
    """The bound, if a type holds every number up to it."""
    if not (type.integral or type.kind is ExactKind.DECIMAL) or not checker(type)(most):
        raise Beyond
    return _small(most)


# Rules


def _scaled(value: Numbers, digits: int) -> Numbers:
    most = _small(max(value.most, 1) * 10**digits)
    return Numbers(value.values * 10**digits, value.known, most) if digits else value


def _arithmetic(call: Operation, args: list[Numbers]) -> Numbers:
    left, right = args
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
    compute: Any = _COMPUTED[call.op]
    known = left.known & right.known
    return Numbers(np.where(known, compute(left.values, right.values), 0), known, most)


_COMPUTED = {Op.ADD: operator.add, Op.SUBTRACT: operator.sub, Op.MULTIPLY: operator.mul}


def _negate(call: Operation, args: list[Numbers]) -> Numbers:
    (value,) = args
    return Numbers(-value.values, value.known, _fitting(value.most, call.type))


def _cast(call: Operation, args: list[Numbers]) -> Numbers:
    (given,) = call.args
    numeric = given.type.integral or given.type.kind is ExactKind.DECIMAL
    if not numeric or call.type.scale < given.type.scale:
        raise Beyond
    value = _scaled(args[0], call.type.scale - given.type.scale)
    return Numbers(value.values, value.known, _fitting(value.most, call.type))


def _comparable(call: Operation) -> None:
    """Beside each other: of one type, or NULL."""
    types = {each.type for each in call.args if each.type.kind is not ExactKind.VOID}
    if len(types) > 1:
        raise Beyond


def _comparison(compare: Callable[[Any, Any], Any]) -> Rule:
    def rule(call: Operation, args: list[Numbers]) -> Numbers:
        _comparable(call)
        left, right = args
        known = left.known & right.known
        return Numbers(compare(left.values, right.values) & known, known)

    return rule


def _same(call: Operation, args: list[Numbers]) -> Numbers:
    _comparable(call)
    left, right = args
    equal = (left.values == right.values) & (left.known == right.known)
    return Numbers(equal, np.ones(len(equal), bool))


def _and(_: Operation, args: list[Numbers]) -> Numbers:
    false = reduce(operator.or_, [each.known & ~each.values.astype(bool) for each in args])
    known = false | reduce(operator.and_, [each.known for each in args])
    return Numbers(known & ~false, known)


def _or(_: Operation, args: list[Numbers]) -> Numbers:
    true = reduce(operator.or_, [each.known & each.values.astype(bool) for each in args])
    return Numbers(true, true | reduce(operator.and_, [each.known for each in args]))


def _not(_: Operation, args: list[Numbers]) -> Numbers:
    (value,) = args
    return Numbers(value.known & ~value.values.astype(bool), value.known)


def _is_null(_: Operation, args: list[Numbers]) -> Numbers:
    (value,) = args
    return Numbers(~value.known, np.ones(len(value.known), bool))


def _in(call: Operation, args: list[Numbers]) -> Numbers:
    _comparable(call)
    first, *others = args
    equal = [first.known & o.known & (first.values == o.values) for o in others]
    found = reduce(operator.or_, equal)
    every = reduce(operator.and_, [o.known for o in others])
    return Numbers(found, first.known & (found | every))


def _case(_: Operation, args: list[Numbers]) -> Numbers:
    *pairs, found = args
    for test, value in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
        found = _chosen(test.known & test.values.astype(bool), value, found)
    return found


def _coalesce(_: Operation, args: list[Numbers]) -> Numbers:
    return reduce(lambda later, value: _chosen(value.known, value, later), reversed(args))


def _chosen(which: np.ndarray, yes: Numbers, no: Numbers) -> Numbers:
    values = np.where(which, yes.values, no.values)
    return Numbers(values, np.where(which, yes.known, no.known), max(yes.most, no.most))


Rule = Callable[[Operation, list[Numbers]], Numbers]
_RULES: dict[Op, Rule] = {
    **dict.fromkeys(_COMPUTED, _arithmetic),
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


# Groups


def grouped(columns: Sequence[pa.ChunkedArray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in an order in which equal ones stand together, and where each group begins."""
    codes = np.zeros(rows, np.int64)
    for column in columns:
        encoded = pa.concat_arrays(column.chunks).dictionary_encode(null_encoding="encode")
        width = len(encoded.dictionary)
        _, codes = np.unique(codes * width + np.asarray(encoded.indices), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return order, np.flatnonzero(np.diff(codes[order], prepend=-1))


def summed(
    values: Numbers, weights: np.ndarray, order: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """The weighted sums of the groups; raises Beyond."""
    heaviest = int(np.abs(weights).max(initial=0))
    _small(values.most * heaviest * len(weights))
    return np.add.reduceat((values.values * weights)[order], starts)


def places(expression: Exact) -> set[int]:
    """The columns that an expression reads."""
    match expression:
        case Input():
            return {expression.index}
        case Operation():
            return {place for each in expression.args for place in places(each)}
        case Constant():
            return set()
