"""Values that meet: in a comparison, in a list, as the branches of a choice."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.ir.exact import INTEGER_BITS, Constant, Exact, ExactKind, ExactType
from spark_trickle.ir.scalars import whole_number
from spark_trickle.prove.refusal import unproven
from spark_trickle.prove.types import VOID, cast, day_of, meet, meet_rounded


def together(node: exp.Expr, values: list[Exact]) -> list[Exact]:
    """The values in one type."""
    values = _with_dates(values)
    target = VOID
    for value in values:
        common = meet(target, value.type)
        if common is None or common.kind is ExactKind.OPAQUE:
            raise unproven(node, f"{target} beside {value.type}")
        target = common
    return [cast(value, target) for value in values]


def _with_dates(values: list[Exact]) -> list[Exact]:
    """Texts that stand beside dates are dates."""
    if not any(value.type.kind is ExactKind.DATE for value in values):
        return values
    return [
        (day_of(value.value) or value)
        if isinstance(value, Constant) and isinstance(value.value, str)
        else value
        for value in values
    ]


def compared_pair(
    node: exp.Expr, left: tuple[exp.Expr, Exact], right: tuple[exp.Expr, Exact]
) -> list[Exact]:
    """Two operands in one type, to be compared: each as it is written, and its value.

    Beside a decimal an integer literal counts only the digits it has, so less is rounded away.
    """
    values = [left[1], right[1]]
    if any(value.type.kind is ExactKind.DECIMAL for value in values):
        values = [literal_as_decimal(written, value) for written, value in (left, right)]
    return compared(node, values)


def literal_as_decimal(written: exp.Expr, value: Exact) -> Exact:
    """An integer literal as the smallest decimal that holds it; any other value as it is."""
    if whole_number(written) is None or not isinstance(value, Constant) or not value.type.integral:
        return value
    digits = len(str(value.value).lstrip("-"))
    return Constant(value.value, ExactType(ExactKind.DECIMAL, digits, 0))


def compared(node: exp.Expr, values: list[Exact]) -> list[Exact]:
    """The values in one type, to be compared."""
    whole = [v.type for v in values if v.type.integral and not isinstance(v, Constant)]
    for type in whole:
        if any(_is_beyond(value, type) for value in values):
            raise unproven(node, f"a number beyond {type}")
    if len(values) == 2:
        rounded = meet_rounded(values[0].type, values[1].type)
        if rounded is not None:
            return [cast(value, rounded) for value in values]
    return together(node, values)


def _is_beyond(value: Exact, type: ExactType) -> bool:
    """Of an integer and a decimal beyond its type Spark takes ``<`` as true, even of NULL."""
    if not isinstance(value, Constant) or value.type.kind is not ExactKind.DECIMAL:
        return False
    most = 10**value.type.scale << (INTEGER_BITS[type.kind] - 1)
    return isinstance(value.value, int) and abs(value.value) >= most
