"""Scalar expressions that this process computes exactly as Spark does: all types and casts written out.

``prove/scalars.py`` translates bound expressions into this language and refuses what has no place in
it; ``local/evaluate.py`` computes it. Values are plain Python: integers for numbers, days and
microseconds, an integer without its point for a decimal, None for NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum

EPOCH = date(1970, 1, 1).toordinal()
"""The day from which dates are counted."""
ExactValue = bool | int | float | str | bytes | None


class ExactKind(Enum):
    """Spark's types, as far as they are exact. A DOUBLE is never NaN here: such rows are for Spark."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"
    VOID = "VOID"
    """The type of NULL."""
    OPAQUE = "OPAQUE"
    """Any other type: a value of it can be NULL or not, and that is all we know of it."""


INTEGER_BITS = {
    ExactKind.TINYINT: 8,
    ExactKind.SMALLINT: 16,
    ExactKind.INT: 32,
    ExactKind.BIGINT: 64,
}
_INTEGER_DIGITS = {
    ExactKind.TINYINT: 3,
    ExactKind.SMALLINT: 5,
    ExactKind.INT: 10,
    ExactKind.BIGINT: 20,
}
KEYS = frozenset(ExactKind) - {ExactKind.DOUBLE, ExactKind.VOID, ExactKind.OPAQUE}
"""Types whose values are equal just when Spark says so, and can therefore be keys of groups."""


@dataclass(frozen=True)
class ExactType:
    """A type; ``precision`` and ``scale`` are a decimal's."""

    kind: ExactKind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is ExactKind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        return str(self.kind.value)

    @property
    def integral(self) -> bool:
        return self.kind in INTEGER_BITS

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale that hold every value of an exact number; None of other types."""
        if self.kind is ExactKind.DECIMAL:
            return self.precision, self.scale
        return (_INTEGER_DIGITS[self.kind], 0) if self.integral else None


class Op(Enum):
    """What is computed; ``Operation.type`` says in which type."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    QUOTIENT = "div"
    REMAINDER = "%"
    NEGATE = "negate"
    CAST = "cast"
    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    SAME = "<=>"
    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    IS_NULL = "IS NULL"
    IN = "IN"
    CASE = "CASE"
    """Condition, value, condition, value, …, default."""
    COALESCE = "COALESCE"
    LIKE = "LIKE"
    STARTS = "startswith"
    ENDS = "endswith"
    CONTAINS = "contains"
    CONCAT = "concat"
    LENGTH = "length"
    SUBSTRING = "substring"
    """Text, first place, length; constants but the text."""
    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    DAY = "day"


NAMED = frozenset({Op.COALESCE, Op.NEGATE, Op.NOT}) | frozenset(
    list(Op)[list(Op).index(Op.STARTS) :]
)
"""Written as a function with its arguments."""


@dataclass(frozen=True)
class Input:
    """A column of the row that is looked at."""

    index: int
    name: str
    type: ExactType


@dataclass(frozen=True)
class Constant:
    """A value."""

    value: ExactValue
    type: ExactType


@dataclass(frozen=True)
class Operation:
    """An operation; its arguments have the types it needs."""

    op: Op
    args: tuple[Exact, ...]
    type: ExactType


Exact = Input | Constant | Operation


def show(expression: Exact) -> str:
    """An expression as text, for people."""
    match expression:
        case Input():
            return expression.name
        case Constant():
            return _constant(expression)
        case Operation(op=Op.CAST):
            return f"CAST({show(expression.args[0])} AS {expression.type})"
        case Operation(op=Op.CASE):
            *pairs, default = map(show, expression.args)
            whens = zip(pairs[::2], pairs[1::2], strict=True)
            text = " ".join(f"WHEN {test} THEN {value}" for test, value in whens)
            return f"CASE {text} ELSE {default} END"
        case Operation(op=Op.IN):
            first, *others = map(show, expression.args)
            return f"({first} IN ({', '.join(others)}))"
        case Operation(op=Op.IS_NULL):
            return f"({show(expression.args[0])} IS NULL)"
        case Operation(op=op) if op in NAMED:
            return f"{expression.op.value}({', '.join(map(show, expression.args))})"
        case Operation():
            return f"({f' {expression.op.value} '.join(map(show, expression.args))})"


def _constant(constant: Constant) -> str:
    value, scale = constant.value, constant.type.scale
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    if constant.type.kind is ExactKind.DECIMAL and scale:
        assert isinstance(value, int)
        text = f"{abs(value):0{scale + 1}}"
        return f"{'-' if value < 0 else ''}{text[:-scale]}.{text[-scale:]}"
    if constant.type.kind is ExactKind.DATE:
        assert isinstance(value, int)
        return f"DATE '{date.fromordinal(value + EPOCH)}'"
    return str(value).upper() if isinstance(value, bool) else repr(value)
