"""Spark's types and how they meet: least common types, decimal arithmetic, comparability.

The rules are those of ANSI mode, Spark 4's default, unless ``rules(ansi=False)`` says otherwise.
``UNKNOWN`` stands for the result of a function whose type we do not know; it goes with everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sqlglot import exp

from spark_trickle.ir.decimals import decimal_parameters, decimal_type
from spark_trickle.ir.trees import duplicate

Type = exp.DataType.Type


def plain(kind: exp.DType) -> exp.DataType:
    """A type without parameters."""
    return exp.DataType(this=kind)


TINYINT, SMALLINT, INT, BIGINT = map(plain, (Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT))
FLOAT, DOUBLE, BOOLEAN, STRING = map(plain, (Type.FLOAT, Type.DOUBLE, Type.BOOLEAN, Type.TEXT))
DATE, TIMESTAMP, TIMESTAMP_NTZ = map(plain, (Type.DATE, Type.TIMESTAMPTZ, Type.TIMESTAMPNTZ))
BINARY, NULL, UNKNOWN = map(plain, (Type.BINARY, Type.NULL, Type.UNKNOWN))
DAY_TIME = exp.DataType.build("INTERVAL DAY TO SECOND", dialect="spark")
YEAR_MONTH = exp.DataType.build("INTERVAL YEAR TO MONTH", dialect="spark")

INTEGERS = (Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT)
FLOATS = (Type.FLOAT, Type.DOUBLE)
TEMPORAL = (Type.DATE, Type.TIMESTAMPNTZ, Type.TIMESTAMPTZ)
_INTEGER_DIGITS = dict(zip(INTEGERS, (3, 5, 10, 20), strict=True))
_SYNONYMS = {
    Type.VARCHAR: STRING,
    Type.CHAR: STRING,
    Type.NCHAR: STRING,
    Type.NVARCHAR: STRING,
    Type.TIMESTAMP: TIMESTAMP,
    Type.TIMESTAMPLTZ: TIMESTAMP,
    Type.DATETIME: TIMESTAMP,
    Type.VARBINARY: BINARY,
    Type.BLOB: BINARY,
    Type.MEDIUMINT: INT,
}
_MONTH_UNITS = ("YEAR", "MONTH", "QUARTER", "YEARS", "MONTHS", "QUARTERS")


_ANSI: ContextVar[bool] = ContextVar("ansi", default=True)


@contextmanager
def rules(*, ansi: bool) -> Iterator[None]:
    """Compile by the rules of ANSI mode, or of what Spark had before it."""
    token = _ANSI.set(ansi)
    try:
        yield
    finally:
        _ANSI.reset(token)


def with_string(number: exp.DataType, *, integral: bool) -> exp.DataType:
    """The type of arithmetic on a text and a number."""
    return BIGINT if integral and number.this in INTEGERS and _ANSI.get() else DOUBLE


def canonical(type: exp.DataType) -> exp.DataType:
    """One way to write each type, so that types can be compared with ``==``."""
    if is_interval(type):
        unit = type.this.args.get("unit") if isinstance(type.this, exp.Interval) else None
        return interval_of(unit)
    if type.this in _SYNONYMS:
        return _SYNONYMS[type.this]
    decimal = decimal_parameters(type)
    if decimal is not None:
        return decimal_type(*decimal)
    if type.expressions and type.this in (Type.ARRAY, Type.MAP, Type.STRUCT):
        return exp.DataType(
            this=type.this, expressions=[*map(_inner, type.expressions)], nested=True
        )
    return plain(type.this)


def _inner(part: exp.Expr) -> exp.Expr:
    if isinstance(part, exp.ColumnDef):
        kind = part.args["kind"]
        return exp.ColumnDef(this=exp.to_identifier(part.name), kind=canonical(kind))
    return canonical(part) if isinstance(part, exp.DataType) else part


def interval_of(unit: exp.Expr | None) -> exp.DataType:
    """The type of an interval literal with this unit."""
    first = unit.this if isinstance(unit, exp.IntervalSpan) else unit
    return YEAR_MONTH if first is not None and first.name.upper() in _MONTH_UNITS else DAY_TIME


def is_interval(type: exp.DataType) -> bool:
    """Whether a type is a day-time or year-month interval."""
    return isinstance(type.this, exp.Interval) or type.this == Type.INTERVAL


def is_unknown(type: exp.DataType | None) -> bool:
    """Whether nothing is known about a type, or it is the type of NULL."""
    return type is None or type.this in (Type.UNKNOWN, Type.NULL)


def is_numeric(type: exp.DataType) -> bool:
    """Integers, decimals and floats."""
    return type.this in INTEGERS or type.this in FLOATS or type.this == Type.DECIMAL


def is_nested(type: exp.DataType) -> bool:
    """Arrays, maps and structs."""
    return type.this in (Type.ARRAY, Type.MAP, Type.STRUCT)


def is_orderable(type: exp.DataType) -> bool:
    """Whether rows can be sorted by values of a type."""
    if type.this in (Type.MAP, Type.VARIANT):
        return False
    inner = (p.args["kind"] if isinstance(p, exp.ColumnDef) else p for p in type.expressions)
    return all(is_orderable(p) for p in inner if isinstance(p, exp.DataType))


def as_decimal(type: exp.DataType) -> tuple[int, int] | None:
    """Precision and scale that hold every value of an exact numeric type."""
    if type.this in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[type.this], 0
    return decimal_parameters(type)


def common(a: exp.DataType, b: exp.DataType) -> exp.DataType | None:
    """The least type both fit, as for CASE, COALESCE and UNION; None if Spark has none."""
    if a == b or b.this == Type.NULL:
        return a
    if a.this == Type.NULL:
        return b
    if a.this == Type.UNKNOWN or b.this == Type.UNKNOWN:
        return UNKNOWN
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    if a.this in TEMPORAL and b.this in TEMPORAL:
        return max(a, b, key=lambda type: TEMPORAL.index(type.this))
    if Type.TEXT in (a.this, b.this):
        return _common_with_string(a if b.this == Type.TEXT else b)
    if a.this == b.this and is_nested(a):
        return _common_nested(a, b)
    return None


def _common_number(a: exp.DataType, b: exp.DataType) -> exp.DataType:
    if a.this in INTEGERS and b.this in INTEGERS:
        return max(a, b, key=lambda type: INTEGERS.index(type.this))
    if a.this in FLOATS or b.this in FLOATS:
        small = (
            (Type.FLOAT, Type.TINYINT, Type.SMALLINT) if _ANSI.get() else (Type.FLOAT, *INTEGERS)
        )
        return FLOAT if a.this in small and b.this in small else DOUBLE
    (p1, s1), (p2, s2) = as_decimal(a) or (38, 0), as_decimal(b) or (38, 0)
    scale = max(s1, s2)
    return decimal_type(min(38, max(p1 - s1, p2 - s2) + scale), min(38, scale))


def _common_with_string(other: exp.DataType) -> exp.DataType | None:
    if not _ANSI.get():
        return None if other.this in (Type.BOOLEAN, Type.BINARY) or is_nested(other) else STRING
    if other.this in INTEGERS:
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    if is_interval(other) or is_nested(other):
        return None
    return other


def _common_nested(a: exp.DataType, b: exp.DataType) -> exp.DataType | None:
    if len(a.expressions) != len(b.expressions):
        return None
    parts: list[exp.Expr] = []
    for left, right in zip(a.expressions, b.expressions, strict=True):
        if isinstance(left, exp.ColumnDef):
            kind = common(left.args["kind"], right.args["kind"])
            part: exp.Expr | None = kind and exp.ColumnDef(this=duplicate(left.this), kind=kind)
        else:
            part = common(left, right)
        if part is None:
            return None
        parts.append(part)
    return exp.DataType(this=a.this, expressions=parts, nested=True)


def can_compare(a: exp.DataType, b: exp.DataType) -> bool:
    """Whether Spark compares values of the two types."""
    if not _ANSI.get() and Type.TEXT in (a.this, b.this):
        return not is_nested(a) and not is_nested(b)
    return common(a, b) is not None and a.this != Type.MAP


def as_texts(a: exp.DataType, b: exp.DataType) -> bool:
    """Whether ``x IN (SELECT y)`` compares as texts: before ANSI mode ``x = y`` turns the text into
    the other type instead."""
    return not _ANSI.get() and (a.this == Type.TEXT) != (b.this == Type.TEXT)


def decimal_result(
    operator: type[exp.Expr], a: tuple[int, int], b: tuple[int, int]
) -> exp.DataType:
    """The type of an arithmetic operation on two decimals."""
    (p1, s1), (p2, s2) = a, b
    if operator in (exp.Add, exp.Sub):
        scale = max(s1, s2)
        return bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator is exp.Mul:
        return bounded(p1 + p2 + 1, s1 + s2)
    if operator is exp.Div:
        scale = max(6, s1 + p2 + 1)
        return bounded(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return bounded(min(p1 - s1, p2 - s2) + scale, scale)


def bounded(precision: int, scale: int) -> exp.DataType:
    """A decimal of at most 38 digits; digits after the point are given up first, down to six."""
    if precision <= 38:
        return decimal_type(precision, scale)
    whole = precision - scale
    return decimal_type(38, max(38 - whole, min(scale, 6)))


def array_of(element: exp.DataType) -> exp.DataType:
    """ARRAY<element>."""
    return exp.DataType(this=Type.ARRAY, expressions=[duplicate(element)], nested=True)


def map_of(key: exp.DataType, value: exp.DataType) -> exp.DataType:
    """MAP<key, value>."""
    return exp.DataType(this=Type.MAP, expressions=[duplicate(key), duplicate(value)], nested=True)


def element_of(type: exp.DataType) -> exp.DataType:
    """What ``x[i]`` of an array or map yields."""
    if type.this == Type.ARRAY and len(type.expressions) == 1:
        return canonical(type.expressions[0])
    if type.this == Type.MAP and len(type.expressions) == 2:
        return canonical(type.expressions[1])
    return UNKNOWN


def has_text_keys(type: exp.DataType) -> bool:
    """Whether the type is a map whose values ``m.key`` can name."""
    if type.this != Type.MAP or len(type.expressions) != 2:
        return False
    return bool(canonical(type.expressions[0]).this == Type.TEXT)


def field_of(type: exp.DataType, name: str) -> exp.DataType | None:
    """The type of a struct's field, or of the arrays of a field; None if there is no such field."""
    if type.this == Type.ARRAY and len(type.expressions) == 1:
        inner = field_of(type.expressions[0], name)
        return None if inner is None else array_of(inner)
    if type.this != Type.STRUCT:
        return UNKNOWN if type.this in (Type.UNKNOWN, Type.VARIANT) else None
    for part in type.expressions:
        if isinstance(part, exp.ColumnDef) and part.name.lower() == name.lower():
            return canonical(part.args["kind"])
    return None


def field_names(type: exp.DataType) -> list[str]:
    """The fields of a struct, in order; none of any other type."""
    parts = type.expressions if type.this == Type.STRUCT else []
    return [part.name for part in parts if isinstance(part, exp.ColumnDef)]


def spell(type: exp.DataType | None) -> str:
    """A type as Spark writes it, for messages."""
    return "unknown" if type is None or is_unknown(type) else type.sql(dialect="spark")
