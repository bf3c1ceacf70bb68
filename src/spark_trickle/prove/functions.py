"""Rules for functions of texts and dates; each needs the very types that it names.

Places in a text are code points here as there. Dates are days, so no zone has a say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from spark_trickle.ir.exact import Constant, Exact, ExactType, Op, Operation
from spark_trickle.prove.types import BOOLEAN, DATE, INT, STRING

_Refusal = Callable[[str], Exception]


def like(value: Exact, node: exp.Expression, refused: _Refusal) -> Exact:
    """LIKE of a constant pattern without escapes."""
    pattern = node.expression
    plain = isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.name
    if value.type != STRING or not plain or set(node.args) - {"this", "expression", "negate"}:
        raise refused("LIKE of something else than a text and a plain pattern")
    found = Operation(Op.LIKE, (value, Constant(pattern.name, STRING)), BOOLEAN)
    return Operation(Op.NOT, (found,), BOOLEAN) if node.args.get("negate") else found


def substring(values: Sequence[Exact], refused: _Refusal) -> Exact:
    """From a place that is counted from the start."""
    text, *places = values
    known = [place.value for place in places if isinstance(place, Constant)]
    fine = len(known) == len(places) and all(isinstance(n, int) and n >= 0 for n in known)
    if text.type != STRING or not fine or known[0] == 0:
        raise refused("a substring by something else than constants from 1 on")
    return Operation(Op.SUBSTRING, (text, *places), STRING)


def named(name: str, values: Sequence[Exact]) -> Exact | None:
    """A function by its name; None if it is not on the list for these arguments."""
    types = [value.type for value in values]
    if name == "left" and len(values) == 2:
        start = Constant(1, INT)
        size = values[1]
        fine = isinstance(size, Constant) and isinstance(size.value, int) and size.value >= 0
        return (
            Operation(Op.SUBSTRING, (values[0], start, size), STRING)
            if fine and types[0] == STRING
            else None
        )
    if name == "concat" and values and all(type == STRING for type in types):
        return Operation(Op.CONCAT, tuple(values), STRING)
    for known, op, needed, result in _FUNCTIONS:
        if name in known and types == needed:
            return Operation(op, tuple(values), result)
    return None


_TEXTS = [STRING, STRING]
_FUNCTIONS: tuple[tuple[tuple[str, ...], Op, list[ExactType], ExactType], ...] = (
    (("length", "char_length", "character_length", "len"), Op.LENGTH, [STRING], INT),
    (("startswith",), Op.STARTS, _TEXTS, BOOLEAN),
    (("endswith",), Op.ENDS, _TEXTS, BOOLEAN),
    (("contains",), Op.CONTAINS, _TEXTS, BOOLEAN),
    (("year",), Op.YEAR, [DATE], INT),
    (("quarter",), Op.QUARTER, [DATE], INT),
    (("month",), Op.MONTH, [DATE], INT),
    (("day", "dayofmonth"), Op.DAY, [DATE], INT),
)
