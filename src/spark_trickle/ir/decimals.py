"""Decimal types: how many digits they have."""

from __future__ import annotations

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


LONG = decimal_type(19, 0)
"""Every BIGINT, and its negative."""
