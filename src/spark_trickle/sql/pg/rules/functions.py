"""The white list: functions whose translation is proven by test. What is not here is refused by name."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.rules import numbers, texts, times
from spark_trickle.sql.pg.rules.casts import coerced
from spark_trickle.sql.pg.types import as_numeric, common, numeric, refuse
from spark_trickle.sql.pg.values import PgValue, Rule, binary, call, cast, either, number


def _extreme(name: str) -> Rule:
    def rule(arguments: Sequence[PgValue]) -> PgValue:
        type = common([a.type for a in arguments], name)
        trees = [coerced(a, type).tree for a in arguments]
        return PgValue(call(name, *trees) if len(trees) > 1 else trees[0], type)

    return rule


def _abs(arguments: Sequence[PgValue]) -> PgValue:
    (value,) = arguments
    numbers.numbers(arguments, "abs")
    return PgValue(call("abs", value.tree), value.type)


def _to_whole(name: str) -> Rule:
    """ceil and floor: numeric of numeric, else double precision."""

    def rule(arguments: Sequence[PgValue]) -> PgValue:
        (value,) = arguments
        numbers.numbers(arguments, name)
        if value.type.kind == "numeric":
            type = numeric(min(38, value.type.precision - value.type.scale + 1), 0)
            return PgValue(cast(call(name, value.tree), type), type)
        tree = numbers.as_float(value).tree
        large = binary(exp.GTE, call("abs", tree.copy()), exp.Literal.number("4503599627370496"))
        whole = cast(call(name, tree.copy()), t.FLOAT8)
        return PgValue(either(large, tree, whole), t.FLOAT8)

    return rule


def _round(arguments: Sequence[PgValue]) -> PgValue:
    value, *places = arguments
    numbers.numbers([value], "round")
    if not places and value.type.kind != "numeric":
        return PgValue(call("rint", numbers.as_float(value).tree), t.FLOAT8)
    if not value.type.is_exact:
        refuse("round(double precision, integer)", "cast to numeric first")
    own = as_numeric(value.type)
    scale = 0 if not places else _constant(places[0], "round")
    if scale > own.scale:
        return PgValue(coerced(value, own).tree, own)
    type = numeric(min(38, own.precision - own.scale + 1 + max(scale, 0)), max(scale, 0))
    return PgValue(cast(call("round", coerced(value, own).tree, number(scale)), type), type)


def _trunc(arguments: Sequence[PgValue]) -> PgValue:
    value, *places = arguments
    if not value.type.is_exact:
        refuse(f"trunc of {value.type}", "cast to numeric first")
    own = as_numeric(value.type)
    scale = 0 if not places else _constant(places[0], "trunc")
    if value.type.is_int and not places:
        return PgValue(numbers.as_float(value).tree, t.FLOAT8)
    if scale < 0:
        refuse("trunc to the left of the point")
    tree = coerced(value, own).tree
    if scale >= own.scale:
        return PgValue(tree, own)
    type = numeric(min(38, own.precision - own.scale + 1 + scale), scale)
    below = binary(exp.LT, tree, number(0))
    up, down = (call(name, tree.copy(), number(scale)) for name in ("ceil", "floor"))
    return PgValue(cast(either(below, up, down), type), type)


def _constant(value: PgValue, what: str) -> int:
    if not isinstance(value.constant, int) or not value.type.is_int:
        refuse(f"{what} with a number of places that is not a constant")
    return value.constant


def _sign(arguments: Sequence[PgValue]) -> PgValue:
    (value,) = arguments
    numbers.numbers(arguments, "sign")
    type = numeric(1, 0) if value.type.kind == "numeric" else t.FLOAT8
    return PgValue(cast(call("sign", value.tree), type), type)


def _sqrt(arguments: Sequence[PgValue]) -> PgValue:
    (value,) = arguments
    if value.type.kind == "numeric":
        refuse("sqrt of numeric", "cast to double precision")
    tree = numbers.as_float(value).tree
    below = binary(exp.LT, tree.copy(), number(0))
    from spark_trickle.sql.pg.values import failing

    return PgValue(
        failing(
            below, "cannot take square root of a negative number", call("sqrt", tree), t.FLOAT8
        ),
        t.FLOAT8,
    )


def _mod(arguments: Sequence[PgValue]) -> PgValue:
    left, right = arguments
    return numbers.arithmetic(exp.Mod, left, right)


def _coalesce(arguments: Sequence[PgValue]) -> PgValue:
    type = common([a.type for a in arguments], "coalesce")
    return PgValue(
        exp.Coalesce(
            this=coerced(arguments[0], type).tree,
            expressions=[coerced(a, type).tree for a in arguments[1:]],
        ),
        type,
    )


def _nullif(arguments: Sequence[PgValue]) -> PgValue:
    left, right = arguments
    type = common([left.type, right.type], "nullif")
    same = binary(exp.EQ, coerced(left, type).tree, coerced(right, type).tree)
    own = coerced(left, t.TEXT) if left.type == t.UNKNOWN else left
    return PgValue(either(same, exp.Null(), own.tree.copy()), own.type)


RULES: dict[str, tuple[int, int, Rule]] = {
    "abs": (1, 1, _abs),
    "ceil": (1, 1, _to_whole("ceil")),
    "ceiling": (1, 1, _to_whole("ceil")),
    "floor": (1, 1, _to_whole("floor")),
    "round": (1, 2, _round),
    "trunc": (1, 2, _trunc),
    "sign": (1, 1, _sign),
    "sqrt": (1, 1, _sqrt),
    "mod": (2, 2, _mod),
    "greatest": (1, 99, _extreme("greatest")),
    "least": (1, 99, _extreme("least")),
    "coalesce": (1, 99, _coalesce),
    "nullif": (2, 2, _nullif),
    **texts.RULES,
    **times.RULES,
}
"""By name: the fewest and most arguments, and the rule."""


def function(name: str, arguments: Sequence[PgValue]) -> PgValue:
    """A call by the white list."""
    known = RULES.get(name)
    if known is None:
        refuse(f"function {name} has no proven translation")
    fewest, most, rule = known
    if not fewest <= len(arguments) <= most:
        refuse(f"function {name} with {len(arguments)} arguments")
    if any(a.type == t.OPAQUE for a in arguments):
        refuse(f"{name} of a column whose type is not known here", "CAST it")
    return rule(arguments)
