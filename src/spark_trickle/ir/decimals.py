"""Decimal types: how many digits they have."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

Type = exp.DataType.Type


def decimal_type(precision: int, scale: int) -> exp.DataType:
    """DECIMAL(precision, scale)."""
    parameters = [
        exp.DataTypeParam(this=exp.Literal.number(precision)),
        exp.DataTypeParam(this=exp.Literal.number(scale)),
    ]
    return exp.DataType(this=Type.DECIMAL, expressions=parameters)


def decimal_parameters(type: exp.DataType | None) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for every other type."""
    if type is None or type.this != Type.DECIMAL:
        return None
    numbers = [int(parameter.name) for parameter in type.expressions]
    match numbers:
        case []:
            return 10, 0
        case [precision]:
            return precision, 0
        case _:
            return numbers[0], numbers[1]


def digits_of(number: Decimal) -> tuple[int, int]:
    """Precision and scale that hold a number as it is written."""
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    return max(len(digits) + max(0, int(exponent)), scale), scale


def all_digits(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether Spark compares two numbers by all their digits; past 38 it rounds those behind the point."""
    return max(a[0] - a[1], b[0] - b[1]) + max(a[1], b[1]) <= 38


LONG = decimal_type(19, 0)
"""Every BIGINT, and its negative."""
