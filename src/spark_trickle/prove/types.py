"""Types of exact expressions: which Spark's are exact, how they meet, what arithmetic gives."""

from __future__ import annotations

import re
from datetime import date
from math import isinf

from sqlglot import exp

from spark_trickle.ir.decimals import all_digits, decimal_parameters
from spark_trickle.ir.exact import (
    EPOCH,
    INTEGER_BITS,
    Constant,
    Exact,
    ExactKind,
    ExactType,
    Op,
    Operation,
)

BOOLEAN, INT, BIGINT, DOUBLE = map(
    ExactType, (ExactKind.BOOLEAN, ExactKind.INT, ExactKind.BIGINT, ExactKind.DOUBLE)
)
STRING, DATE, VOID, OPAQUE = map(
    ExactType, (ExactKind.STRING, ExactKind.DATE, ExactKind.VOID, ExactKind.OPAQUE)
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_KINDS = {
    exp.DType.BOOLEAN: ExactKind.BOOLEAN,
    exp.DType.TINYINT: ExactKind.TINYINT,
    exp.DType.SMALLINT: ExactKind.SMALLINT,
    exp.DType.INT: ExactKind.INT,
    exp.DType.BIGINT: ExactKind.BIGINT,
    exp.DType.DOUBLE: ExactKind.DOUBLE,
    exp.DType.TEXT: ExactKind.STRING,
    exp.DType.BINARY: ExactKind.BINARY,
    exp.DType.DATE: ExactKind.DATE,
    exp.DType.TIMESTAMP: ExactKind.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: ExactKind.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: ExactKind.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: ExactKind.TIMESTAMP_NTZ,
    exp.DType.NULL: ExactKind.VOID,
}


def exact_type(type: exp.DataType) -> ExactType:
    """A type of the binder; OPAQUE if we know no more of it than NULL."""
    decimal = decimal_parameters(type)
    if decimal is not None:
        return ExactType(ExactKind.DECIMAL, *decimal)
    plain = not type.expressions and type.args.get("collate") is None
    if type.this == exp.DType.VARCHAR:  # a column keeps no more than its length, that is all
        return STRING
    kind = _KINDS.get(type.this) if plain else None
    return OPAQUE if kind is None else ExactType(kind)


def meet(a: ExactType, b: ExactType) -> ExactType | None:
    """The type in which two values are compared or chosen from; None where that is not exact."""
    if a == b or b.kind is ExactKind.VOID:
        return a
    if a.kind is ExactKind.VOID:
        return b
    if a.integral and b.integral:
        return max(a, b, key=lambda type: INTEGER_BITS[type.kind])
    if a.digits is not None and b.digits is not None:
        (p1, s1), (p2, s2) = a.digits, b.digits
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale
        return ExactType(ExactKind.DECIMAL, precision, scale) if precision <= 38 else None
    numbers = all(t.digits is not None or t.kind is ExactKind.DOUBLE for t in (a, b))
    return DOUBLE if numbers else None


def meet_rounded(a: ExactType, b: ExactType) -> ExactType | None:
    """The type in which Spark compares decimals that have no common type of 38 digits: digits behind
    the point are rounded away, those before it stay."""
    if a.digits is None or b.digits is None:
        return None
    if all_digits(a.digits, b.digits):
        return None
    (p1, s1), (p2, s2) = a.digits, b.digits
    return ExactType(ExactKind.DECIMAL, 38, 38 - max(p1 - s1, p2 - s2))


def cast(value: Exact, target: ExactType) -> Exact:
    """The value in another type that holds it."""
    if value.type == target:
        return value
    if isinstance(value, Constant) and value.value is None:
        return Constant(None, target)
    exact = value.type.integral or (value.type.digits is not None and target != DOUBLE)
    if isinstance(value, Constant) and exact and holds(value.type, target):
        assert isinstance(value.value, int)
        whole = value.value * 10 ** (target.scale - value.type.scale)
        return Constant(float(whole) if target == DOUBLE else whole, target)
    return Operation(Op.CAST, (value,), target)


def holds(value: ExactType, target: ExactType) -> bool:
    """Whether a type holds every value of another one."""
    if target == DOUBLE:
        return True
    if value.integral and target.integral:
        return INTEGER_BITS[value.kind] <= INTEGER_BITS[target.kind]
    return target.kind is ExactKind.DECIMAL and meet(value, target) == target


def day_of(text: str) -> Constant | None:
    """The day that a text names plainly; how Spark reads other texts is not proven."""
    if not _DAY.fullmatch(text):
        return None
    try:
        return Constant(date.fromisoformat(text).toordinal() - EPOCH, DATE)
    except ValueError:
        return None


def number(text: str) -> Constant | None:
    """A number as Spark reads it; None if it has more than 38 digits or is beyond DOUBLE."""
    if "e" in text:
        return None if isinf(float(text)) else Constant(float(text), DOUBLE)
    whole, _, fraction = text.lstrip("-").partition(".")
    value = int(text.replace(".", ""))
    if "." in text or not -(2**63) <= value < 2**63:
        precision = max(len(whole.lstrip("0")) + len(fraction), 1)
        if precision > 38:
            return None
        return Constant(value, ExactType(ExactKind.DECIMAL, precision, len(fraction)))
    return Constant(value, INT if -(2**31) <= value < 2**31 else BIGINT)


def decimal_result(op: Op, a: tuple[int, int], b: tuple[int, int]) -> ExactType:
    """Spark's type of an operation on decimals: past 38 digits the scale gives way, down to six."""
    (p1, s1), (p2, s2) = a, b
    if op is Op.MULTIPLY:
        precision, scale = p1 + p2 + 1, s1 + s2
    elif op is Op.DIVIDE:
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    elif op is Op.REMAINDER:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    if precision > 38:
        precision, scale = 38, max(38 - (precision - scale), min(scale, 6))
    return ExactType(ExactKind.DECIMAL, precision, scale)
